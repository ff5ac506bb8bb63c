/* What the programs about librdmacm share: the device's address, events that must come, and both ends of a
 * connection within one process. */
#include "common.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <unistd.h>

/* The address of the device, with a port. */
static inline struct sockaddr *at(int port)
{
	static __thread struct sockaddr_in addresses[4];
	static __thread unsigned next;
	struct sockaddr_in *address = &addresses[next++ % 4];

	memset(address, 0, sizeof(*address));
	address->sin_family = AF_INET;
	address->sin_port = htons(port);
	inet_pton(AF_INET, getenv("SOFTRNIC_ADDRESS"), &address->sin_addr);
	return (struct sockaddr *)address;
}

/* The next event, which must be of this type; it is not acknowledged. */
static inline struct rdma_cm_event *event_at(struct rdma_event_channel *channel, int type, const char *file,
					     int line)
{
	struct pollfd waiting = { .fd = channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;

	if (poll(&waiting, 1, 10000) != 1 || rdma_get_cm_event(channel, &event)) {
		printf("%s:%d: no event, wanted %s\n", file, line, rdma_event_str(type));
		exit(1);
	}
	if ((int)event->event != type) {
		printf("%s:%d: %s (status %d), wanted %s\n", file, line, rdma_event_str(event->event),
		       event->status, rdma_event_str(type));
		exit(1);
	}
	return event;
}
#define EVENT(channel, type) event_at(channel, RDMA_CM_EVENT_##type, __FILE__, __LINE__)
#define EXPECT(channel, type) CHECK(!rdma_ack_cm_event(EVENT(channel, type)))

/* Whether the channel has no event. */
static inline int is_quiet(struct rdma_event_channel *channel)
{
	struct pollfd waiting = { .fd = channel->fd, .events = POLLIN };
	return poll(&waiting, 1, 0) == 0;
}

static inline struct ibv_qp_init_attr small_qp(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = type,
		.sq_sig_all = 1,
	};
	return attr;
}

/* Two ends: a listener and a client, each with a channel. */
struct ends {
	struct rdma_event_channel *there, *here;
	struct rdma_cm_id *listener, *server, *client;
};

/* A listener, and a client that has resolved address and route. */
static inline struct ends ends_resolved(enum rdma_port_space space)
{
	struct ends ends = { 0 };

	CHECK(ends.there = rdma_create_event_channel());
	CHECK(ends.here = rdma_create_event_channel());
	CHECK(!rdma_create_id(ends.there, &ends.listener, &ends, space));
	CHECK(!rdma_bind_addr(ends.listener, at(0)));
	CHECK(!rdma_listen(ends.listener, 4));
	CHECK(!rdma_create_id(ends.here, &ends.client, NULL, space));
	CHECK(!rdma_resolve_addr(ends.client, NULL, at(ntohs(rdma_get_src_port(ends.listener))), 1000));
	EXPECT(ends.here, ADDR_RESOLVED);
	CHECK(!rdma_resolve_route(ends.client, 1000));
	EXPECT(ends.here, ROUTE_RESOLVED);
	return ends;
}

static inline void give(struct rdma_cm_id *id, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = small_qp(type);
	CHECK(!rdma_create_qp(id, NULL, &attr));
}

/* The same, connected. */
static inline struct ends ends_connected(void)
{
	struct ends ends = ends_resolved(RDMA_PS_TCP);
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1, .retry_count = 7 };
	struct rdma_cm_event *event;

	give(ends.client, IBV_QPT_RC);
	CHECK(!rdma_connect(ends.client, &param));
	event = EVENT(ends.there, CONNECT_REQUEST);
	ends.server = event->id;
	CHECK(!rdma_ack_cm_event(event));
	give(ends.server, IBV_QPT_RC);
	CHECK(!rdma_accept(ends.server, &param));
	EXPECT(ends.here, ESTABLISHED);
	EXPECT(ends.there, ESTABLISHED);
	return ends;
}

static inline void end(struct ends *ends)
{
	struct rdma_cm_id *ids[] = { ends->client, ends->server, ends->listener };
	for (int i = 0; i < 3; i++) {
		if (!ids[i])
			continue;
		if (ids[i]->qp)
			rdma_destroy_qp(ids[i]);
		CHECK(!rdma_destroy_id(ids[i]));
	}
	rdma_destroy_event_channel(ends->there);
	rdma_destroy_event_channel(ends->here);
}
