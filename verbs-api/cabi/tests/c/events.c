/* Event descriptors: the program's own flags, counts, acknowledgements, closing. */
#include "common.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

static int readable(int fd)
{
	struct pollfd polled = { .fd = fd, .events = POLLIN };
	return poll(&polled, 1, 0);
}

static void write_once(struct bench *b, struct ibv_cq *cq, struct ibv_qp *qp)
{
	struct ibv_sge sge = { (uintptr_t)b->buffer, 8, b->mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
					.send_flags = IBV_SEND_SIGNALED };
	wr.wr.rdma.remote_addr = (uintptr_t)b->buffer + 64;
	wr.wr.rdma.rkey = b->mr->rkey;
	GIVES(ibv_req_notify_cq(cq, 0), 0);
	GIVES(ibv_post_send(qp, &wr, &bad), 0);
}

static int wait_readable(int fd)
{
	struct pollfd polled = { .fd = fd, .events = POLLIN };
	return poll(&polled, 1, 5000);
}

static void *acknowledge(void *cq)
{
	usleep(100000);
	ibv_ack_cq_events(cq, 2);
	return NULL;
}

static void *read_for_ever(void *context)
{
	struct ibv_async_event event;
	ibv_get_async_event(context, &event);
	return NULL;
}

int main(void)
{
	struct bench b = make();
	struct ibv_comp_channel *channel = ibv_create_comp_channel(b.context);
	struct ibv_cq *got, *cq = ibv_create_cq(b.context, 8, &b, channel, 0);
	void *mine;
	struct ibv_qp_init_attr attr = qp_attr(cq);
	struct ibv_qp *qp = ibv_create_qp(b.pd, &attr);
	CHECK(!move(qp, IBV_QPS_INIT, qp) && !move(qp, IBV_QPS_RTR, qp) && !move(qp, IBV_QPS_RTS, qp));

	/* descriptors are closed by exec, and wait unless the program says otherwise */
	CHECK(fcntl(channel->fd, F_GETFD) & FD_CLOEXEC);
	CHECK(fcntl(b.context->async_fd, F_GETFD) & FD_CLOEXEC);
	CHECK(fcntl(b.context->cmd_fd, F_GETFD) & FD_CLOEXEC);
	CHECK(!(fcntl(channel->fd, F_GETFL) & O_NONBLOCK));
	CHECK(!readable(channel->fd));

	write_once(&b, cq, qp);
	GIVES(ibv_get_cq_event(channel, &got, &mine), 0);
	CHECK(got == cq && mine == &b);
	CHECK(!readable(channel->fd));
	GIVES(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
	GIVES(ibv_get_cq_event(channel, &got, &mine), -1);
	CHECK(errno == EAGAIN);
	struct ibv_wc wc;
	GIVES(ibv_poll_cq(cq, 1, &wc), 1);
	write_once(&b, cq, qp);
	CHECK(wait_readable(channel->fd) == 1);
	GIVES(ibv_get_cq_event(channel, &got, &mine), 0);
	GIVES(ibv_poll_cq(cq, 1, &wc), 1);
	GIVES(ibv_destroy_qp(qp), 0);

	/* destroying waits for the acknowledgement of both events */
	pthread_t thread;
	pthread_create(&thread, NULL, acknowledge, cq);
	GIVES(ibv_destroy_cq(cq), 0);
	pthread_join(thread, NULL);
	GIVES(ibv_destroy_comp_channel(channel), 0);

	/* an asynchronous event of a queue pair */
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(b.pd, &srq_attr);
	attr = qp_attr(b.cq);
	attr.srq = srq;
	qp = ibv_create_qp(b.pd, &attr);
	CHECK(!move(qp, IBV_QPS_INIT, qp));
	GIVES(fcntl(b.context->async_fd, F_SETFL, O_NONBLOCK), 0);
	struct ibv_async_event event;
	GIVES(ibv_get_async_event(b.context, &event), -1);
	CHECK(errno == EAGAIN);
	GIVES(ibv_modify_qp(qp, &error, IBV_QP_STATE), 0);
	GIVES(ibv_get_async_event(b.context, &event), 0);
	CHECK(event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED && event.element.qp == qp);
	ibv_ack_async_event(&event);
	GIVES(ibv_destroy_qp(qp), 0);
	GIVES(ibv_destroy_srq(srq), 0);

	/* closing does not wait for a thread that waits for an event, nor wake it */
	GIVES(fcntl(b.context->async_fd, F_SETFL, 0), 0);
	pthread_create(&thread, NULL, read_for_ever, b.context);
	usleep(50000);
	GIVES(ibv_close_device(b.context), 0);
	return finish();
}
