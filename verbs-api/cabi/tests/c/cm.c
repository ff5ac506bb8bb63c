/* Connections by librdmacm as its manual pages tell them, both ends in one process. */
#include "cm_common.h"

/* Private data both ways, READs agreed, and the events of a life. */
static void connections(void)
{
	struct ends ends = ends_resolved(RDMA_PS_TCP);
	struct rdma_conn_param param = {
		.private_data = "from the client", .private_data_len = 16,
		.responder_resources = 3, .initiator_depth = 5, .retry_count = 6, .rnr_retry_count = 5,
	};
	struct rdma_cm_event *event;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	CHECK(ends.client->verbs && ends.client->pd && ends.client->port_num == 1);
	CHECK(ends.client->route.num_paths == 1 && ends.client->route.path_rec->pkey == 0xffff);
	CHECK(rdma_get_dst_port(ends.client) == rdma_get_src_port(ends.listener));
	give(ends.client, IBV_QPT_RC);
	CHECK(ends.client->qp->state == IBV_QPS_INIT && ends.client->send_cq && ends.client->recv_cq_channel);
	CHECK(!rdma_connect(ends.client, &param));

	event = EVENT(ends.there, CONNECT_REQUEST);
	CHECK(event->listen_id == ends.listener && event->id != ends.listener && !event->status);
	CHECK(event->param.conn.private_data_len == 56);
	CHECK(!strcmp(event->param.conn.private_data, "from the client"));
	CHECK(event->param.conn.qp_num == ends.client->qp->qp_num);
	/* From the point of view of who gets it. */
	CHECK(event->param.conn.responder_resources == 5 && event->param.conn.initiator_depth == 3);
	CHECK(event->param.conn.rnr_retry_count == 5 && event->param.conn.retry_count == 6);
	ends.server = event->id;
	CHECK(ends.server->verbs == ends.client->verbs);
	CHECK(ends.server->context == ends.listener->context);
	CHECK(rdma_get_src_port(ends.server) == rdma_get_src_port(ends.listener));
	CHECK(rdma_get_dst_port(ends.server) == rdma_get_src_port(ends.client));
	CHECK(!rdma_ack_cm_event(event));

	give(ends.server, IBV_QPT_RC);
	param.private_data = "from the server";
	param.responder_resources = 2;
	param.initiator_depth = 2;
	CHECK(!rdma_accept(ends.server, &param));
	event = EVENT(ends.here, ESTABLISHED);
	CHECK(event->id == ends.client && event->param.conn.private_data_len == 196);
	CHECK(!strcmp(event->param.conn.private_data, "from the server"));
	CHECK(event->param.conn.qp_num == ends.server->qp->qp_num);
	CHECK(!rdma_ack_cm_event(event));
	EXPECT(ends.there, ESTABLISHED);
	CHECK(ends.client->qp->state == IBV_QPS_RTS && ends.server->qp->state == IBV_QPS_RTS);
	CHECK(!ibv_query_qp(ends.client->qp, &attr, 0, &init));
	CHECK(attr.dest_qp_num == ends.server->qp->qp_num && attr.retry_cnt == 6 && attr.rnr_retry == 5);
	CHECK(attr.max_rd_atomic <= 2 && attr.max_dest_rd_atomic <= 3);

	/* One message, by the inline calls. */
	char *text = calloc(2, 64);
	struct ibv_mr *mr = rdma_reg_msgs(ends.client, text, 128);
	struct ibv_wc wc;
	CHECK(mr && !rdma_post_recv(ends.server, NULL, text + 64, 64, mr));
	strcpy(text, "hello");
	CHECK(!rdma_post_send(ends.client, NULL, text, 6, mr, 0));
	CHECK(rdma_get_send_comp(ends.client, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(rdma_get_recv_comp(ends.server, &wc) == 1 && wc.byte_len == 6 && !strcmp(text + 64, "hello"));
	CHECK(!rdma_dereg_mr(mr));
	free(text);

	CHECK(!rdma_disconnect(ends.client));
	CHECK(ends.client->qp->state == IBV_QPS_ERR);
	EXPECT(ends.there, DISCONNECTED);
	CHECK(!rdma_disconnect(ends.server));
	EXPECT(ends.here, DISCONNECTED);
	end(&ends);
}

static void refusals(void)
{
	struct ends ends = ends_resolved(RDMA_PS_TCP);
	struct rdma_conn_param param = { .retry_count = 7 };
	struct rdma_cm_event *event;

	give(ends.client, IBV_QPT_RC);
	CHECK(!rdma_connect(ends.client, &param));
	event = EVENT(ends.there, CONNECT_REQUEST);
	ends.server = event->id;
	CHECK(!rdma_ack_cm_event(event));
	CHECK(!rdma_reject(ends.server, "no, thanks", 11));
	event = EVENT(ends.here, REJECTED);
	CHECK(event->status == 28 && event->param.conn.private_data_len == 148);
	CHECK(!strcmp(event->param.conn.private_data, "no, thanks"));
	CHECK(!rdma_ack_cm_event(event));
	CHECK(ends.client->qp->state == IBV_QPS_ERR);
	end(&ends);

	/* Nobody listens. */
	ends = ends_resolved(RDMA_PS_TCP);
	CHECK(!rdma_destroy_id(ends.listener));
	ends.listener = NULL;
	give(ends.client, IBV_QPT_RC);
	CHECK(!rdma_connect(ends.client, &param));
	event = EVENT(ends.here, REJECTED);
	CHECK(event->status == 8);
	CHECK(!rdma_ack_cm_event(event));
	end(&ends);
}

/* A program that brings its own queue pair moves it itself. */
static void to_state(struct rdma_cm_id *id, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask;
	CHECK(!rdma_init_qp_attr(id, &attr, &mask));
	CHECK(attr.qp_state == state && mask & IBV_QP_STATE);
	CHECK(!ibv_modify_qp(qp, &attr, mask));
}

static void own_queue_pairs(void)
{
	struct ends ends = ends_resolved(RDMA_PS_TCP);
	struct ibv_cq *cq = ibv_create_cq(ends.client->verbs, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = small_qp(IBV_QPT_RC);
	struct rdma_conn_param param = { .retry_count = 7, .responder_resources = 1, .initiator_depth = 1 };
	struct rdma_cm_event *event;
	struct ibv_ece ece = { .vendor_id = 0x1234, .options = 7 };
	struct ibv_qp *here, *there;

	attr.send_cq = attr.recv_cq = cq;
	CHECK(here = ibv_create_qp(ends.client->pd, &attr));
	CHECK(there = ibv_create_qp(ends.client->pd, &attr));
	to_state(ends.client, here, IBV_QPS_INIT);
	param.qp_num = here->qp_num;
	CHECK(!rdma_set_local_ece(ends.client, &ece));
	CHECK(!rdma_connect(ends.client, &param));

	event = EVENT(ends.there, CONNECT_REQUEST);
	ends.server = event->id;
	CHECK(event->param.conn.qp_num == here->qp_num);
	CHECK(!rdma_ack_cm_event(event));
	CHECK(!rdma_get_remote_ece(ends.server, &ece) && ece.vendor_id == 0x1234 && ece.options == 7);
	to_state(ends.server, there, IBV_QPS_INIT);
	to_state(ends.server, there, IBV_QPS_RTR);
	to_state(ends.server, there, IBV_QPS_RTS);
	param.qp_num = there->qp_num;
	CHECK(!rdma_accept(ends.server, &param));

	event = EVENT(ends.here, CONNECT_RESPONSE);
	CHECK(event->param.conn.qp_num == there->qp_num);
	CHECK(!rdma_ack_cm_event(event));
	CHECK(is_quiet(ends.there));
	to_state(ends.client, here, IBV_QPS_RTR);
	to_state(ends.client, here, IBV_QPS_RTS);
	CHECK(!rdma_establish(ends.client));
	EXPECT(ends.there, ESTABLISHED);
	CHECK(!rdma_disconnect(ends.server));
	EXPECT(ends.here, DISCONNECTED);
	CHECK(!ibv_destroy_qp(here) && !ibv_destroy_qp(there) && !ibv_destroy_cq(cq));
	end(&ends);
}

static void datagrams(void)
{
	struct ends ends = ends_resolved(RDMA_PS_UDP);
	struct rdma_conn_param param = { .private_data = "who are you", .private_data_len = 12 };
	struct rdma_cm_event *event;

	give(ends.client, IBV_QPT_UD);
	CHECK(ends.client->qp->state == IBV_QPS_RTS);
	CHECK(!rdma_connect(ends.client, &param));
	event = EVENT(ends.there, CONNECT_REQUEST);
	CHECK(event->param.ud.private_data_len == 180 || event->param.ud.private_data_len == 144);
	CHECK(!strcmp(event->param.ud.private_data, "who are you"));
	ends.server = event->id;
	CHECK(!rdma_ack_cm_event(event));
	give(ends.server, IBV_QPT_UD);
	param.private_data = "a service";
	param.private_data_len = 10;
	param.qp_num = ends.server->qp->qp_num;
	CHECK(!rdma_accept(ends.server, &param));
	event = EVENT(ends.here, ESTABLISHED);
	CHECK(event->param.ud.qp_num == ends.server->qp->qp_num);
	CHECK(event->param.ud.qkey == RDMA_UDP_QKEY && event->param.ud.ah_attr.is_global);
	CHECK(!strcmp(event->param.ud.private_data, "a service"));
	struct ibv_ah *ah = ibv_create_ah(ends.client->pd, &event->param.ud.ah_attr);
	CHECK(ah && !rdma_ack_cm_event(event));

	char text[128] = "datagram";
	struct ibv_mr *mr = rdma_reg_msgs(ends.client, text, sizeof(text));
	struct ibv_wc wc;
	CHECK(!rdma_post_recv(ends.server, NULL, text + 16, 112, mr));
	CHECK(!rdma_post_ud_send(ends.client, NULL, text, 9, mr, 0, ah, ends.server->qp->qp_num));
	CHECK(rdma_get_send_comp(ends.client, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	CHECK(rdma_get_recv_comp(ends.server, &wc) == 1 && !strcmp(text + 16 + 40, "datagram"));
	CHECK(!rdma_dereg_mr(mr) && !ibv_destroy_ah(ah));
	CHECK(is_quiet(ends.there));
	end(&ends);

	/* No such service. */
	ends = ends_resolved(RDMA_PS_UDP);
	CHECK(!rdma_destroy_id(ends.listener));
	ends.listener = NULL;
	give(ends.client, IBV_QPT_UD);
	CHECK(!rdma_connect(ends.client, &param));
	event = EVENT(ends.here, UNREACHABLE);
	CHECK(event->status != 0 && !rdma_ack_cm_event(event));
	end(&ends);
}

static void groups(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_join_mc_attr_ex attr = { .comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS };
	struct sockaddr_in group = { .sin_family = AF_INET };
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	int mark;

	inet_pton(AF_INET, "239.7.7.7", &group.sin_addr);
	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_UDP));
	CHECK(rdma_join_multicast(id, (struct sockaddr *)&group, &mark) == -1 && errno == EINVAL);
	CHECK(!rdma_bind_addr(id, at(0)));
	give(id, IBV_QPT_UD);
	CHECK(rdma_join_multicast(id, at(0), &mark) == -1 && errno == EINVAL);
	CHECK(!rdma_join_multicast(id, (struct sockaddr *)&group, &mark));
	event = EVENT(channel, MULTICAST_JOIN);
	CHECK(event->id == id && event->param.ud.private_data == &mark && !event->status);
	CHECK(event->param.ud.qp_num == 0xffffff && event->param.ud.qkey == RDMA_UDP_QKEY);
	const uint8_t *gid = event->param.ud.ah_attr.grh.dgid.raw;
	CHECK(gid[10] == 0xff && gid[11] == 0xff && gid[12] == 239 && gid[15] == 7);
	CHECK(!rdma_ack_cm_event(event));
	CHECK(!rdma_leave_multicast(id, (struct sockaddr *)&group));
	CHECK(rdma_leave_multicast(id, (struct sockaddr *)&group) == -1 && errno == EADDRNOTAVAIL);
	attr.addr = (struct sockaddr *)&group;
	CHECK(rdma_join_multicast_ex(id, &attr, &mark) == -1 && errno == EINVAL);
	attr.comp_mask |= RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
	CHECK(!rdma_join_multicast_ex(id, &attr, &mark));
	EXPECT(channel, MULTICAST_JOIN);
	CHECK(!rdma_leave_multicast(id, (struct sockaddr *)&group));
	/* Who only sends receives nothing, so there is nothing to detach. */
	attr.join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
	CHECK(!rdma_join_multicast_ex(id, &attr, &mark));
	event = EVENT(channel, MULTICAST_JOIN);
	union ibv_gid mgid = event->param.ud.ah_attr.grh.dgid;
	CHECK(event->param.ud.qp_num == 0xffffff && !rdma_ack_cm_event(event));
	CHECK(ibv_detach_mcast(id->qp, &mgid, 0) != 0);
	CHECK(!rdma_leave_multicast(id, (struct sockaddr *)&group));
	attr.join_flags = 2;
	CHECK(rdma_join_multicast_ex(id, &attr, &mark) == -1 && errno == EINVAL);
	attr.join_flags = 0;
	CHECK(!rdma_join_multicast_ex(id, &attr, &mark));
	EXPECT(channel, MULTICAST_JOIN);
	/* Leaving is part of going. */
	rdma_destroy_qp(id);
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
}

static void *serve(void *listener)
{
	struct rdma_cm_id *id;
	CHECK(!rdma_get_request(listener, &id));
	CHECK(id->qp && id->event && id->event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(!rdma_accept(id, NULL));
	CHECK(id->event->event == RDMA_CM_EVENT_ESTABLISHED);
	CHECK(!rdma_disconnect(id));
	rdma_destroy_ep(id);
	return NULL;
}

/* Without a channel everything waits for its end. */
static void endpoints(void)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP }, *info;
	struct ibv_qp_init_attr attr = small_qp(IBV_QPT_RC);
	struct rdma_cm_id *listener, *id;
	struct rdma_event_channel *channel;
	char port[8];
	pthread_t server;

	CHECK(!rdma_getaddrinfo(getenv("SOFTRNIC_ADDRESS"), "0", &hints, &info));
	CHECK(info->ai_src_len == sizeof(struct sockaddr_in) && !info->ai_dst_len);
	CHECK(!rdma_create_ep(&listener, info, NULL, &attr));
	rdma_freeaddrinfo(info);
	CHECK(!rdma_listen(listener, 0));
	pthread_create(&server, NULL, serve, listener);

	snprintf(port, sizeof(port), "%d", ntohs(rdma_get_src_port(listener)));
	hints.ai_flags = 0;
	CHECK(!rdma_getaddrinfo(getenv("SOFTRNIC_ADDRESS"), port, &hints, &info));
	CHECK(info->ai_qp_type == IBV_QPT_RC && info->ai_dst_len && info->ai_src_len);
	CHECK(!rdma_create_ep(&id, info, NULL, &attr));
	CHECK(id->qp && id->pd && id->verbs);
	CHECK(!rdma_connect(id, NULL));
	/* To events and back. The server waits until this end has agreed. */
	channel = rdma_create_event_channel();
	CHECK(!rdma_migrate_id(id, channel) && id->channel == channel && !id->event);
	EXPECT(channel, DISCONNECTED);
	CHECK(!rdma_disconnect(id));
	pthread_join(server, NULL);
	CHECK(!rdma_migrate_id(id, NULL) && id->channel != channel);
	rdma_destroy_event_channel(channel);
	rdma_destroy_ep(id);

	/* Refused. The attributes name queues that went with the endpoint. */
	rdma_destroy_ep(listener);
	attr = small_qp(IBV_QPT_RC);
	CHECK(!rdma_create_ep(&id, info, NULL, &attr));
	GIVES(rdma_connect(id, NULL), -1);
	CHECK(errno == ECONNREFUSED && id->event->event == RDMA_CM_EVENT_REJECTED);
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(info);
}

static void devices(void)
{
	int count = -1;
	struct ibv_context **list = rdma_get_devices(&count);
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;

	CHECK(list && count == 1 && list[0] && !list[1]);
	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(id, at(0)) && id->verbs == list[0]);
	CHECK(rdma_get_src_port(id) && !rdma_get_dst_port(id));
	rdma_free_devices(list);
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
	CHECK(!strcmp(rdma_event_str(RDMA_CM_EVENT_TIMEWAIT_EXIT), "RDMA_CM_EVENT_TIMEWAIT_EXIT"));
	CHECK(!strcmp(rdma_event_str(99), "UNKNOWN EVENT"));
}

int main(void)
{
	devices();
	connections();
	refusals();
	own_queue_pairs();
	datagrams();
	groups();
	endpoints();
	puts(failures ? "failed" : "fine");
	return failures != 0;
}
