/*
 * An RDMA WRITE with immediate data between two queue pairs of one device, in plain libibverbs.
 *
 *   cc -o write write.c -libverbs
 *   softrnic run -- ./write
 *
 * Two programs would tell each other queue pair number, GID, address and key by any means; here both ends
 * are in one.
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void need(int fine, const char *what)
{
	if (!fine) {
		perror(what);
		exit(1);
	}
}

/* RESET → INIT → RTR → RTS: from then on `qp` sends to, and receives from, queue pair `peer` at `gid`. */
static void connect_to(struct ibv_qp *qp, uint32_t peer, union ibv_gid gid)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	need(!ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					       IBV_QP_ACCESS_FLAGS), "init");

	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024,
				   .dest_qp_num = peer, .rq_psn = 1, .min_rnr_timer = 12,
				   .ah_attr = { .is_global = 1, .port_num = 1,
						.grh = { .dgid = gid, .hop_limit = 64 } } };
	need(!ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					      IBV_QP_MIN_RNR_TIMER), "ready to receive");

	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .sq_psn = 1, .timeout = 14,
				   .retry_cnt = 7, .rnr_retry = 7 };
	need(!ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					      IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
	     "ready to send");
}

static struct ibv_wc wait_for_completion(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int found;
	while ((found = ibv_poll_cq(cq, 1, &wc)) == 0)
		;
	need(found == 1, "poll");
	if (wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "request %lu: %s\n", (unsigned long)wc.wr_id,
			ibv_wc_status_str(wc.status));
		exit(1);
	}
	return wc;
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	need(list && list[0], "a device");
	struct ibv_context *context = ibv_open_device(list[0]);
	need(context != NULL, "open");
	printf("device %s\n", ibv_get_device_name(list[0]));
	ibv_free_device_list(list);

	union ibv_gid gid;
	need(!ibv_query_gid(context, 1, 0, &gid), "GID");

	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *near_cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct ibv_cq *far_cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	need(pd && near_cq && far_cq, "domain and queues");

	static char text[64] = "hello, far end", memory[64];
	struct ibv_mr *text_mr = ibv_reg_mr(pd, text, sizeof(text), 0);
	struct ibv_mr *memory_mr = ibv_reg_mr(pd, memory, sizeof(memory),
					      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	need(text_mr && memory_mr, "regions");

	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.send_cq = near_cq,
		.recv_cq = near_cq,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp *near = ibv_create_qp(pd, &attr);
	attr.send_cq = attr.recv_cq = far_cq;
	struct ibv_qp *far = ibv_create_qp(pd, &attr);
	need(near && far, "queue pairs");
	connect_to(near, far->qp_num, gid);
	connect_to(far, near->qp_num, gid);

	/* A WRITE with immediate takes a receive at the far end, which says that it has arrived. */
	struct ibv_recv_wr *bad_recv, recv = { .wr_id = 1 };
	need(!ibv_post_recv(far, &recv, &bad_recv), "receive");

	struct ibv_sge sge = { (uintptr_t)text, sizeof(text), text_mr->lkey };
	struct ibv_send_wr *bad_send, write = {
		.wr_id = 2,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = htonl(7),
		.wr.rdma = { .remote_addr = (uintptr_t)memory, .rkey = memory_mr->rkey },
	};
	need(!ibv_post_send(near, &write, &bad_send), "write");

	struct ibv_wc arrived = wait_for_completion(far_cq);
	wait_for_completion(near_cq);
	printf("far end has \"%s\" (%u bytes) and immediate %u\n", memory, arrived.byte_len,
	       ntohl(arrived.imm_data));
	int right = !strcmp(memory, text) && ntohl(arrived.imm_data) == 7;

	ibv_destroy_qp(near);
	ibv_destroy_qp(far);
	ibv_dereg_mr(text_mr);
	ibv_dereg_mr(memory_mr);
	ibv_destroy_cq(near_cq);
	ibv_destroy_cq(far_cq);
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
	return !right;
}
