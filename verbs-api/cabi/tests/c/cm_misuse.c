/* What librdmacm says to programs that do what they should not. */
#include "cm_common.h"

#include <rdma/rsocket.h>

#ifndef AF_IB
#define AF_IB 27
#endif

static struct rdma_cm_id *fresh(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id = NULL;
	CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	return id;
}

static void nothing(void)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	struct rdma_addrinfo *info;
	struct ibv_qp_attr attr;
	int mask;

	NO(rdma_create_id(NULL, NULL, NULL, RDMA_PS_TCP) != -1, EINVAL);
	NO(rdma_create_id(NULL, &id, NULL, 0x77) != -1, EPROTONOSUPPORT);
	NO(rdma_destroy_id(NULL) != -1, EINVAL);
	NO(rdma_bind_addr(NULL, at(0)) != -1, EINVAL);
	NO(rdma_resolve_addr(NULL, NULL, at(0), 1) != -1, EINVAL);
	NO(rdma_resolve_route(NULL, 1) != -1, EINVAL);
	NO(rdma_create_qp(NULL, NULL, NULL) != -1, EINVAL);
	NO(rdma_connect(NULL, NULL) != -1, EINVAL);
	NO(rdma_listen(NULL, 1) != -1, EINVAL);
	NO(rdma_accept(NULL, NULL) != -1, EINVAL);
	NO(rdma_reject(NULL, NULL, 0) != -1, EINVAL);
	NO(rdma_disconnect(NULL) != -1, EINVAL);
	NO(rdma_establish(NULL) != -1, EINVAL);
	NO(rdma_notify(NULL, IBV_EVENT_COMM_EST) != -1, EINVAL);
	NO(rdma_get_request(NULL, &id) != -1, EINVAL);
	NO(rdma_get_cm_event(NULL, &event) != -1, EINVAL);
	NO(rdma_ack_cm_event(NULL) != -1, EINVAL);
	NO(rdma_migrate_id(NULL, NULL) != -1, EINVAL);
	NO(rdma_init_qp_attr(NULL, &attr, &mask) != -1, EINVAL);
	NO(rdma_join_multicast(NULL, at(0), NULL) != -1, EINVAL);
	NO(rdma_create_ep(&id, NULL, NULL, NULL) != -1, EINVAL);
	NO(rdma_getaddrinfo(NULL, NULL, NULL, &info) != -1, EINVAL);
	NO(rsocket(AF_INET, SOCK_STREAM, 0) != -1, EOPNOTSUPP);
	rdma_destroy_event_channel(NULL);
	rdma_destroy_qp(NULL);
	rdma_destroy_ep(NULL);
	rdma_freeaddrinfo(NULL);
	CHECK(rdma_get_src_port(NULL) == 0 && rdma_get_dst_port(NULL) == 0);
}

static void addresses(struct rdma_event_channel *channel)
{
	struct sockaddr_in other = { .sin_family = AF_INET };
	struct sockaddr odd = { .sa_family = AF_UNIX };
	struct rdma_cm_id *id = fresh(channel), *twin = fresh(channel);
	int yes = 1, port;

	NO(rdma_bind_addr(id, NULL) != -1, EINVAL);
	NO(rdma_bind_addr(id, &odd) != -1, EAFNOSUPPORT);
	/* Addresses of InfiniBand proper, which no RoCE device has. */
	odd.sa_family = AF_IB;
	NO(rdma_bind_addr(id, &odd) != -1, EAFNOSUPPORT);
	inet_pton(AF_INET, "198.51.100.1", &other.sin_addr);
	NO(rdma_bind_addr(id, (struct sockaddr *)&other) != -1, EADDRNOTAVAIL);
	inet_pton(AF_INET, "127.0.0.1", &other.sin_addr);
	/* A loopback address that no device has is as good as a wildcard. */
	CHECK(!rdma_bind_addr(id, (struct sockaddr *)&other) && !id->verbs && rdma_get_src_port(id));
	CHECK(!rdma_destroy_id(id));
	id = fresh(channel);
	NO(rdma_resolve_addr(id, NULL, NULL, 100) != -1, EINVAL);
	CHECK(!rdma_bind_addr(id, at(0)));
	NO(rdma_bind_addr(id, at(0)) != -1, EINVAL);
	port = ntohs(rdma_get_src_port(id));
	NO(rdma_bind_addr(twin, at(port)) != -1, EADDRINUSE);

	/* Two may have a port, if both say so; none listens while the other has it. */
	CHECK(!rdma_destroy_id(id) && !rdma_destroy_id(twin));
	id = fresh(channel);
	twin = fresh(channel);
	NO(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, 1) != -1, EINVAL);
	NO(rdma_set_option(id, RDMA_OPTION_ID, 77, &yes, sizeof(yes)) != -1, ENOSYS);
	CHECK(!rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)));
	CHECK(!rdma_set_option(twin, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)));
	CHECK(!rdma_bind_addr(id, at(port)) && !rdma_bind_addr(twin, at(port)));
	NO(rdma_listen(id, 1) != -1, EADDRINUSE);
	NO(rdma_listen(twin, 1) != -1, EADDRINUSE);
	CHECK(!rdma_destroy_id(id));
	CHECK(!rdma_listen(twin, 1) && !rdma_destroy_id(twin));
}

static void wrong_order(struct rdma_event_channel *channel)
{
	struct rdma_conn_param param = { .qp_num = 1 }, greedy = { .responder_resources = 200, .qp_num = 1 };
	struct ibv_qp_init_attr attr = small_qp(IBV_QPT_RC);
	struct rdma_cm_id *id = fresh(channel), *next;
	char too_much[255];

	NO(rdma_resolve_route(id, 100) != -1, EINVAL);
	NO(rdma_connect(id, &param) != -1, EINVAL);
	NO(rdma_accept(id, &param) != -1, EINVAL);
	NO(rdma_reject(id, NULL, 0) != -1, EINVAL);
	NO(rdma_disconnect(id) != -1, EINVAL);
	NO(rdma_create_qp(id, NULL, &attr) != -1, EINVAL);
	NO(rdma_get_request(id, &next) != -1, EINVAL);
	NO(rdma_notify(id, IBV_EVENT_COMM_EST) != -1, EINVAL);
	NO(rdma_notify(id, IBV_EVENT_PORT_ERR) != -1, EINVAL);
	CHECK(!rdma_bind_addr(id, at(0)));
	CHECK(!rdma_create_qp(id, NULL, &attr));
	NO(rdma_create_qp(id, NULL, &attr) != -1, EINVAL);
	NO(rdma_establish(id) != -1, EINVAL);
	rdma_destroy_qp(id);
	CHECK(!id->qp && !id->send_cq && !id->recv_cq_channel);
	rdma_destroy_qp(id);
	CHECK(!rdma_destroy_id(id));
	NO(rdma_destroy_id(id) != -1, EINVAL);
	NO(rdma_listen(id, 1) != -1, EINVAL);

	struct ends ends = ends_resolved(RDMA_PS_TCP);
	NO(rdma_connect(ends.client, NULL) != -1, EINVAL);
	NO(rdma_connect(ends.client, &greedy) != -1, EINVAL);
	param.private_data = too_much;
	param.private_data_len = 255;
	memset(too_much, 7, sizeof(too_much));
	NO(rdma_connect(ends.client, &param) != -1, EINVAL);
	NO(rdma_resolve_addr(ends.client, NULL, at(1), 100) != -1, EINVAL);
	end(&ends);
}

struct late {
	struct rdma_cm_event *event;
	volatile int given_back;
};

static void *acknowledge_late(void *of)
{
	struct late *late = of;
	usleep(100000);
	late->given_back = 1;
	CHECK(!rdma_ack_cm_event(late->event));
	return NULL;
}

/* Destroying waits for events in the program's hands. */
static void unacknowledged(struct rdma_event_channel *channel)
{
	struct rdma_event_channel *other = rdma_create_event_channel();
	struct rdma_cm_id *id = fresh(channel);
	struct late late = { 0 };
	pthread_t thread;

	CHECK(!rdma_resolve_addr(id, NULL, at(1), 1000));
	late.event = EVENT(channel, ADDR_RESOLVED);
	pthread_create(&thread, NULL, acknowledge_late, &late);
	CHECK(!rdma_destroy_id(id) && late.given_back);
	pthread_join(thread, NULL);
	NO(rdma_ack_cm_event(late.event) != -1, EINVAL);

	/* So does moving; what was not taken moves along. */
	id = fresh(channel);
	late.given_back = 0;
	CHECK(!rdma_resolve_addr(id, NULL, at(1), 1000));
	late.event = EVENT(channel, ADDR_RESOLVED);
	CHECK(!rdma_resolve_route(id, 1000));
	pthread_create(&thread, NULL, acknowledge_late, &late);
	CHECK(!rdma_migrate_id(id, other) && late.given_back);
	pthread_join(thread, NULL);
	EXPECT(other, ROUTE_RESOLVED);
	CHECK(is_quiet(channel));

	/* What was not taken is forgotten. */
	CHECK(!rdma_destroy_id(id));
	id = fresh(channel);
	CHECK(!rdma_resolve_addr(id, NULL, at(1), 1000));
	usleep(50000);
	CHECK(!rdma_destroy_id(id) && is_quiet(channel));
	rdma_destroy_event_channel(other);
}

static void descriptors(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event;
	int flags = fcntl(channel->fd, F_GETFL);

	CHECK(!fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK));
	NO(rdma_get_cm_event(channel, &event) != -1, EAGAIN);
	CHECK(is_quiet(channel) && !fcntl(channel->fd, F_SETFL, flags));
}

/* A listener that goes with requests that nobody has answered, taken or not, refuses them. */
static void pending_requests(void)
{
	struct rdma_conn_param param = { .retry_count = 7 };

	for (int taken = 0; taken < 2; taken++) {
		struct ends ends = ends_resolved(RDMA_PS_TCP);
		give(ends.client, IBV_QPT_RC);
		CHECK(!rdma_connect(ends.client, &param));
		struct pollfd waiting = { .fd = ends.there->fd, .events = POLLIN };
		CHECK(poll(&waiting, 1, 10000) == 1);
		if (taken) {
			struct rdma_cm_event *event = EVENT(ends.there, CONNECT_REQUEST);
			ends.server = event->id;
			CHECK(!rdma_ack_cm_event(event));
			CHECK(!rdma_destroy_id(ends.server));
			ends.server = NULL;
		}
		CHECK(!rdma_destroy_id(ends.listener));
		ends.listener = NULL;
		EXPECT(ends.here, REJECTED);
		end(&ends);
	}
}

/* A channel that goes before its identifiers takes what they were along; their records are still to be
 * destroyed, and do nothing. */
static void channel_first(void)
{
	struct ends ends = ends_connected();

	rdma_destroy_event_channel(ends.there);
	EXPECT(ends.here, DISCONNECTED);
	NO(rdma_disconnect(ends.server) != -1, EINVAL);
	NO(rdma_listen(ends.listener, 1) != -1, EINVAL);
	NO(rdma_destroy_id(NULL) != -1, EINVAL);
	ends.there = rdma_create_event_channel();
	NO(rdma_migrate_id(ends.server, ends.there) != -1, EINVAL);
	end(&ends);
}

/* Ends that go without saying so. */
static void sudden_ends(void)
{
	struct ends ends = ends_connected();

	rdma_destroy_qp(ends.server);
	CHECK(!rdma_destroy_id(ends.server));
	ends.server = NULL;
	EXPECT(ends.here, DISCONNECTED);
	CHECK(!rdma_disconnect(ends.client));
	end(&ends);
}

int main(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();

	nothing();
	addresses(channel);
	wrong_order(channel);
	descriptors(channel);
	unacknowledged(channel);
	pending_requests();
	channel_first();
	sudden_ends();
	CHECK(is_quiet(channel));
	rdma_destroy_event_channel(channel);
	puts(failures ? "failed" : "fine");
	return failures != 0;
}
