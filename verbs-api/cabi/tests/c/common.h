/* What the test programs share: a device, and checks that say what failed. */
#define _GNU_SOURCE
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

#define CHECK(what)                                                                                \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			printf("%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #what, errno);        \
			failures++;                                                                \
		}                                                                                  \
	} while (0)

/* An int that must be `expected`, and a pointer that must be NULL with `errno`. */
#define GIVES(call, expected)                                                                      \
	do {                                                                                       \
		errno = 0;                                                                         \
		int given = (call);                                                                \
		if (given != (expected)) {                                                         \
			printf("%s:%d: %s gives %d, not %d (errno %d)\n", __FILE__, __LINE__,      \
			       #call, given, (expected), errno);                                   \
			failures++;                                                                \
		}                                                                                  \
	} while (0)
#define NO(call, expected)                                                                         \
	do {                                                                                       \
		errno = 0;                                                                         \
		if ((call) || errno != (expected)) {                                               \
			printf("%s:%d: %s: errno %d, not %d\n", __FILE__, __LINE__, #call, errno,  \
			       (expected));                                                        \
			failures++;                                                                \
		}                                                                                  \
	} while (0)

struct bench {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char *buffer;
};

static inline struct ibv_qp_init_attr qp_attr(struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2,
			 .max_inline_data = 32 },
		.qp_type = IBV_QPT_RC,
	};
	return attr;
}

static inline struct ibv_context *open_first(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	if (!context) {
		perror("no device");
		exit(2);
	}
	ibv_free_device_list(list);
	return context;
}

/* Moves a queue pair to a state, connected to `to`. */
static inline int move(struct ibv_qp *qp, enum ibv_qp_state state, struct ibv_qp *to)
{
	struct ibv_qp_attr attr = { .qp_state = state, .port_num = 1, .path_mtu = IBV_MTU_1024,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE, .timeout = 14,
				    .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1,
				    .max_rd_atomic = 1, .max_dest_rd_atomic = 1 };
	int mask = IBV_QP_STATE;
	if (state == IBV_QPS_INIT)
		mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	if (state == IBV_QPS_RTR) {
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		attr.dest_qp_num = to->qp_num;
		attr.ah_attr.is_global = 1;
		attr.ah_attr.port_num = 1;
		ibv_query_gid(qp->context, 1, 0, &attr.ah_attr.grh.dgid);
	}
	if (state == IBV_QPS_RTS)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			IBV_QP_MAX_QP_RD_ATOMIC;
	return ibv_modify_qp(qp, &attr, mask);
}

/* A queue pair that is connected to itself. */
static inline struct bench make(void)
{
	struct bench b = { .context = open_first() };
	b.pd = ibv_alloc_pd(b.context);
	b.cq = ibv_create_cq(b.context, 32, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = qp_attr(b.cq);
	b.qp = ibv_create_qp(b.pd, &attr);
	b.buffer = calloc(1, 4096);
	b.mr = ibv_reg_mr(b.pd, b.buffer, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!b.pd || !b.cq || !b.qp || !b.mr || move(b.qp, IBV_QPS_INIT, b.qp) ||
	    move(b.qp, IBV_QPS_RTR, b.qp) || move(b.qp, IBV_QPS_RTS, b.qp)) {
		perror("no bench");
		exit(2);
	}
	return b;
}

static inline int finish(void)
{
	if (!failures)
		printf("fine\n");
	return failures != 0;
}
