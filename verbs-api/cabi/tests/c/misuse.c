/* Wrong arguments give the errno of the man page, and never end the program. */
#include "common.h"

static void destroyed_and_null(struct bench *b)
{
	struct ibv_pd *pd = ibv_alloc_pd(b->context);
	GIVES(ibv_dealloc_pd(pd), 0);
	GIVES(ibv_dealloc_pd(pd), EINVAL);
	NO(ibv_create_srq(pd, &(struct ibv_srq_init_attr){ .attr = { 1, 1, 0 } }), EINVAL);
	struct ibv_cq *cq = ibv_create_cq(b->context, 1, NULL, NULL, 0);
	GIVES(ibv_destroy_cq(cq), 0);
	GIVES(ibv_destroy_cq(cq), EINVAL);
	/* an object of another kind */
	GIVES(ibv_dealloc_pd((struct ibv_pd *)b->cq), EINVAL);
	GIVES(ibv_destroy_qp((struct ibv_qp *)b->mr), EINVAL);
	GIVES(ibv_dealloc_pd(NULL), EINVAL);
	GIVES(ibv_destroy_cq(NULL), EINVAL);
	GIVES(ibv_destroy_qp(NULL), EINVAL);
	GIVES(ibv_destroy_srq(NULL), EINVAL);
	GIVES(ibv_destroy_ah(NULL), EINVAL);
	GIVES(ibv_dereg_mr(NULL), EINVAL);
	GIVES(ibv_close_device(NULL), EINVAL);
	GIVES(ibv_query_device(b->context, NULL), EINVAL);
	NO(ibv_open_device(NULL), EINVAL);
	NO(ibv_alloc_pd(NULL), EINVAL);
	NO(ibv_create_qp(b->pd, NULL), EINVAL);
	NO(ibv_create_cq(NULL, 1, NULL, NULL, 0), EINVAL);
	ibv_ack_cq_events(NULL, 1);
	ibv_ack_async_event(NULL);
	ibv_free_device_list(NULL);
}

static void in_use(struct bench *b)
{
	GIVES(ibv_dealloc_pd(b->pd), EBUSY);
	GIVES(ibv_destroy_cq(b->cq), EBUSY);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(b->context);
	struct ibv_cq *cq = ibv_create_cq(b->context, 1, NULL, channel, 0);
	GIVES(channel->refcnt, 1);
	GIVES(ibv_destroy_comp_channel(channel), EBUSY);
	GIVES(ibv_destroy_cq(cq), 0);
	GIVES(ibv_destroy_comp_channel(channel), 0);
	struct ibv_td *td = ibv_alloc_td(b->context, &(struct ibv_td_init_attr){ 0 });
	struct ibv_parent_domain_init_attr init = { .pd = b->pd, .td = td };
	struct ibv_pd *parent = ibv_alloc_parent_domain(b->context, &init);
	struct ibv_mr *mr = ibv_reg_mr(parent, b->buffer, 16, 0);
	CHECK(parent && mr);
	GIVES(ibv_dealloc_td(td), EBUSY);
	GIVES(ibv_dealloc_pd(parent), EBUSY);
	GIVES(ibv_dereg_mr(mr), 0);
	GIVES(ibv_dealloc_pd(parent), 0);
	GIVES(ibv_dealloc_td(td), 0);
}

static void out_of_range(struct bench *b)
{
	struct ibv_device_attr device;
	GIVES(ibv_query_device(b->context, &device), 0);
	NO(ibv_create_cq(b->context, 0, NULL, NULL, 0), EINVAL);
	NO(ibv_create_cq(b->context, -1, NULL, NULL, 0), EINVAL);
	NO(ibv_create_cq(b->context, 1, NULL, NULL, b->context->num_comp_vectors), EINVAL);
	NO(ibv_create_cq(b->context, 1, NULL, NULL, -1), EINVAL);
	struct ibv_qp_init_attr attr = qp_attr(b->cq);
	attr.cap.max_send_sge = device.max_sge + 1;
	NO(ibv_create_qp(b->pd, &attr), EINVAL);
	attr = qp_attr(b->cq);
	attr.qp_type = 77;
	NO(ibv_create_qp(b->pd, &attr), EINVAL);
	attr.qp_type = IBV_QPT_RAW_PACKET;
	NO(ibv_create_qp(b->pd, &attr), EOPNOTSUPP);
	attr = qp_attr(NULL);
	NO(ibv_create_qp(b->pd, &attr), EINVAL);
	GIVES(ibv_modify_qp(b->qp, &(struct ibv_qp_attr){ .qp_state = 99 }, IBV_QP_STATE), EINVAL);
	GIVES(ibv_modify_qp(b->qp, &(struct ibv_qp_attr){ 0 }, 1 << 30), EINVAL);
	union ibv_gid gid;
	struct ibv_port_attr port;
	GIVES(ibv_query_gid(b->context, 2, 0, &gid), -1);
	GIVES(ibv_query_gid(b->context, 1, 100000, &gid), -1);
	GIVES(ibv_query_gid(b->context, 1, -1, &gid), -1);
	GIVES(ibv_query_port(b->context, 9, &port), EINVAL);
	__be16 pkey;
	GIVES(ibv_query_pkey(b->context, 1, 1, &pkey), -1);
	NO(ibv_reg_mr(b->pd, (void *)4096, 1 << 20, IBV_ACCESS_LOCAL_WRITE), EFAULT);
	NO(ibv_reg_mr(b->pd, b->buffer, 8, IBV_ACCESS_REMOTE_WRITE), EINVAL);
	NO(ibv_alloc_mw(b->pd, 9), EINVAL);
	NO(ibv_import_pd(b->context, 0x7fffffff), ENOENT);
	NO(ibv_import_device(-1), EBADF);
	NO(ibv_import_device(0), EOPNOTSUPP);
	CHECK(strcmp(ibv_wc_status_str(1000), "unknown") == 0);
	CHECK(ibv_node_type_str(-5) && ibv_event_type_str(-5) && ibv_port_state_str(-5));
}

static void kinds_of_memory_and_limits(struct bench *b)
{
	struct ibv_device_attr_ex device;
	GIVES(ibv_query_device_ex(b->context, NULL, &device), 0);
	CHECK(device.max_dm_size && device.cq_mod_caps.max_cq_count);
	CHECK(device.odp_caps.general_caps & IBV_ODP_SUPPORT);
	CHECK(device.packet_pacing_caps.supported_qpts == 1 << IBV_QPT_RC);
	char there[8] = "abcdefg", back[8] = "";
	struct ibv_dm *dm = ibv_alloc_dm(b->context, &(struct ibv_alloc_dm_attr){ .length = 64 });
	CHECK(dm);
	GIVES(ibv_memcpy_to_dm(dm, 56, there, 8), 0);
	GIVES(ibv_memcpy_from_dm(back, dm, 56, 8), 0);
	CHECK(!memcmp(there, back, 8));
	GIVES(ibv_memcpy_to_dm(dm, 60, there, 8), EFAULT);
	GIVES(ibv_memcpy_to_dm(dm, 1, there, 4), EFAULT);
	unsigned access = IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE;
	NO(ibv_reg_dm_mr(b->pd, dm, 0, 128, access), EINVAL);
	struct ibv_mr *mr = ibv_reg_dm_mr(b->pd, dm, 0, 64, access);
	CHECK(mr);
	GIVES(ibv_free_dm(dm), EBUSY);
	GIVES(ibv_dereg_mr(mr), 0);
	GIVES(ibv_free_dm(dm), 0);
	mr = ibv_alloc_null_mr(b->pd);
	CHECK(mr && mr->length == SIZE_MAX);
	GIVES(ibv_dereg_mr(mr), 0);

	struct ibv_modify_cq_attr moderate = { .attr_mask = IBV_CQ_ATTR_MODERATE,
					       .moderate = { .cq_count = 4, .cq_period = 100 } };
	GIVES(ibv_modify_cq(b->cq, &moderate), 0);
	moderate.attr_mask = 1 << 5;
	GIVES(ibv_modify_cq(b->cq, &moderate), EINVAL);
	struct ibv_qp_rate_limit_attr rate = {
		.rate_limit = device.packet_pacing_caps.qp_rate_limit_max };
	GIVES(ibv_modify_qp_rate_limit(b->qp, &rate), 0);
	rate.max_burst_sz = 1;
	GIVES(ibv_modify_qp_rate_limit(b->qp, &rate), EOPNOTSUPP);
	struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	GIVES(ibv_query_rt_values_ex(b->context, &values), 0);
	CHECK(values.raw_clock.tv_nsec > 0);
	values.comp_mask = 0;
	GIVES(ibv_query_rt_values_ex(b->context, &values), EINVAL);
	NO(ibv_open_xrcd(b->context, &(struct ibv_xrcd_init_attr){ .comp_mask = 3, .fd = -1 }), EINVAL);
	NO(ibv_open_xrcd(b->context, &(struct ibv_xrcd_init_attr){ .comp_mask = 3, .fd = 999 }), EBADF);
}

static void work_requests(struct bench *b)
{
	struct ibv_sge sge[3] = { { (uintptr_t)b->buffer, 8, b->mr->lkey } };
	struct ibv_send_wr *bad = NULL, good = { .wr_id = 1, .sg_list = sge, .num_sge = 1,
						 .opcode = IBV_WR_RDMA_WRITE,
						 .send_flags = IBV_SEND_SIGNALED };
	good.wr.rdma.remote_addr = (uintptr_t)b->buffer + 64;
	good.wr.rdma.rkey = b->mr->rkey;
	struct ibv_send_wr wrong = good;
	wrong.num_sge = 3;
	good.next = &wrong;
	GIVES(ibv_post_send(b->qp, &good, &bad), EINVAL);
	CHECK(bad == &wrong);
	wrong.num_sge = -1;
	GIVES(ibv_post_send(b->qp, &wrong, &bad), EINVAL);
	wrong.num_sge = 1;
	wrong.sg_list = NULL;
	GIVES(ibv_post_send(b->qp, &wrong, &bad), EINVAL);
	wrong = good;
	wrong.next = NULL;
	wrong.opcode = 123;
	GIVES(ibv_post_send(b->qp, &wrong, &bad), EINVAL);
	wrong.opcode = IBV_WR_RDMA_WRITE;
	wrong.send_flags = IBV_SEND_INLINE;
	sge[0].length = 33;
	GIVES(ibv_post_send(b->qp, &wrong, &bad), EINVAL);
	sge[0].length = 0x7fffffff;
	GIVES(ibv_post_send(b->qp, &wrong, &bad), EINVAL);
	sge[0].length = 8;
	CHECK(bad == &wrong);
	struct ibv_wc wc;
	while (ibv_poll_cq(b->cq, 1, &wc) == 0)
		;
	CHECK(wc.wr_id == 1 && wc.status == IBV_WC_SUCCESS);
	/* a full queue: what is before the one that does not fit is posted */
	struct ibv_recv_wr *bad_recv = NULL, recv[40] = { { 0 } };
	for (int i = 0; i < 40; i++)
		recv[i].next = i < 39 ? &recv[i + 1] : NULL;
	GIVES(ibv_post_recv(b->qp, recv, &bad_recv), ENOMEM);
	CHECK(bad_recv > recv && bad_recv < recv + 40);
	GIVES(ibv_poll_cq(b->cq, -1, &wc) < 0, 1);
	GIVES(ibv_poll_cq(b->cq, 0, &wc), 0);
}

int main(void)
{
	struct bench b = make();
	destroyed_and_null(&b);
	in_use(&b);
	out_of_range(&b);
	kinds_of_memory_and_limits(&b);
	work_requests(&b);
	GIVES(ibv_dereg_mr(b.mr), 0);
	GIVES(ibv_destroy_qp(b.qp), 0);
	GIVES(ibv_destroy_qp(b.qp), EINVAL);
	GIVES(ibv_destroy_cq(b.cq), 0);
	GIVES(ibv_dealloc_pd(b.pd), 0);
	GIVES(ibv_close_device(b.context), 0);
	return finish();
}
