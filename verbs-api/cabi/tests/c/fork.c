/* A forked child must leave the parent's device alone, and may open its own. */
#include "common.h"
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int child(struct bench *b)
{
	struct ibv_wc wc;
	struct ibv_recv_wr *bad_recv, recv = { 0 };
	struct ibv_port_attr port;
	GIVES(ibv_poll_cq(b->cq, 1, &wc), -EIO);
	GIVES(ibv_post_recv(b->qp, &recv, &bad_recv), EIO);
	GIVES(ibv_req_notify_cq(b->cq, 0), EIO);
	GIVES(ibv_query_port(b->context, 1, &port), EIO);
	NO(ibv_alloc_pd(b->context), EIO);
	GIVES(ibv_destroy_qp(b->qp), EIO);
	GIVES(ibv_close_device(b->context), 0);
	/* The child has let go of the parent's sockets, which are still there. */
	int udp = 0;
	for (int fd = 0; fd < 256; fd++) {
		struct sockaddr_in6 at = { 0 };
		socklen_t len = sizeof(at);
		if (!getsockname(fd, (struct sockaddr *)&at, &len) && ntohs(at.sin6_port) == 4791)
			udp++;
	}
	GIVES(udp, 0);
	/* Another address: the parent has this one. */
	setenv("SOFTRNIC_ADDRESS", getenv("SOFTRNIC_OTHER"), 1);
	setenv("SOFTRNIC_DEVICE_NAME", "other", 1);
	struct bench own = make();
	GIVES(ibv_destroy_qp(own.qp), 0);
	GIVES(ibv_close_device(own.context), 0);
	fflush(stdout);
	return failures != 0;
}

int main(void)
{
	GIVES(ibv_fork_init(), 0);
	GIVES(ibv_is_fork_initialized(), 2);
	struct bench b = make();
	pid_t pid = fork();
	if (!pid)
		_exit(child(&b));
	int status;
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	/* The parent goes on. */
	struct ibv_sge sge = { (uintptr_t)b.buffer, 8, b.mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
					.send_flags = IBV_SEND_SIGNALED };
	wr.wr.rdma.remote_addr = (uintptr_t)b.buffer + 64;
	wr.wr.rdma.rkey = b.mr->rkey;
	strcpy(b.buffer, "parent");
	GIVES(ibv_post_send(b.qp, &wr, &bad), 0);
	struct ibv_wc wc;
	int polled;
	while (!(polled = ibv_poll_cq(b.cq, 1, &wc)))
		;
	CHECK(polled == 1 && wc.status == IBV_WC_SUCCESS && !strcmp(b.buffer + 64, "parent"));
	return finish();
}
