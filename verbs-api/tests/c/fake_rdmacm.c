/* A librdmacm of which something is wrong: what, says CM_MODE, which is one of the words below. Only what a program meets
   on its way to the fault is there; the rest refuses with ENOSYS. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define NOTHING_WRONG 0
#define NO_ESTABLISH 1
#define NO_MODULE 2
#define NO_PERMISSION_FOR_CM 3
#define STRANGE_EVENTS 4

/* `rdma_event_channel` */
static struct { int fd; } channel;
void *rdma_create_event_channel(void) {
    if (CM_MODE == NO_MODULE || CM_MODE == NO_PERMISSION_FOR_CM) {
        errno = CM_MODE == NO_MODULE ? ENOENT : EACCES;
        return NULL;
    }
    channel.fd = eventfd(0, EFD_CLOEXEC);
    return &channel;
}
void rdma_destroy_event_channel(void *it) {
    if (it == &channel) close(channel.fd);
}

/* `rdma_cm_event` and, as far as anybody looks, `rdma_cm_id` */
struct event {
    void *id, *listen_id;
    uint32_t event;
    int status;
    uint64_t param[7];
};
static uint64_t id[52];
static struct event events[] = {
    {id, NULL, 99, 0, {0}},
    {NULL, NULL, 9, 0, {0}},
    {id, id, 4, 0, {0}},
    {id, NULL, 9, 0, {0}},
};
static size_t next, acknowledged, destroyed;
int rdma_get_cm_event(void *it, struct event **event) {
    if (CM_MODE != STRANGE_EVENTS || it != &channel || next == sizeof events / sizeof *events) {
        errno = EAGAIN;
        return -1;
    }
    if (next != acknowledged) abort();
    *event = &events[next++];
    return 0;
}
int rdma_ack_cm_event(struct event *event) {
    if (event != &events[acknowledged++]) abort();
    return 0;
}
/* Only the request's identifier may be destroyed, once, and not before its event has been acknowledged. */
int rdma_destroy_id(void *it) {
    if (it != id || destroyed++ || acknowledged != 3) abort();
    return 0;
}

#define REFUSES(name) int name(void) { errno = ENOSYS; return -1; }
REFUSES(rdma_create_id) REFUSES(rdma_migrate_id) REFUSES(rdma_set_option) REFUSES(rdma_bind_addr)
REFUSES(rdma_resolve_addr) REFUSES(rdma_resolve_route) REFUSES(rdma_listen) REFUSES(rdma_connect) REFUSES(rdma_accept)
REFUSES(rdma_reject) REFUSES(rdma_disconnect) REFUSES(rdma_notify) REFUSES(rdma_join_multicast)
REFUSES(rdma_leave_multicast) REFUSES(rdma_init_qp_attr)
#if CM_MODE != NO_ESTABLISH
REFUSES(rdma_establish)
#endif
