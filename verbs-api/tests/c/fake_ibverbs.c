/* A libibverbs with one device, of which something is wrong: what, says MODE, which is one of the numbers below.
   Only what a program meets on its way to the fault is there; the rest refuses with ENOSYS. */
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define OWN 0
#define NO_KERNEL 1
#define NO_DEVICE 2
#define NO_PERMISSION 3
#define PORT_DOWN 4
#define NO_ADDRESS 5
#define NO_LOCKED_MEMORY 6
#define FAILS 7
#define NOTHING 8

#if MODE == OWN
const char *softrnic_version(void) { return "0"; }
#endif

/* Names at the offsets of `ibv_device`. */
static char device[664];
/* `ibv_context` and what extends it not: `abi_compat` is 0. */
static struct {
    void *device;
    void *operations[32];
    int cmd_fd, async_fd, num_comp_vectors;
    uint64_t mutex[5];
    uint64_t abi_compat;
} context;
static uint64_t objects[64];

void **ibv_get_device_list(int *count) {
    if (MODE == NO_KERNEL) {
        errno = ENOSYS;
        return NULL;
    }
    void **list = calloc(2, sizeof *list);
    strcpy(device + 24, "fake0");
    strcpy(device + 88, "uverbs-fake0");
    list[0] = MODE == NO_DEVICE ? NULL : device;
    *count = MODE != NO_DEVICE;
    return list;
}
void ibv_free_device_list(void **list) { free(list); }
const char *ibv_get_device_name(const char *it) { return it + 24; }
uint64_t ibv_get_device_guid(void *it) { return it != NULL; }

void *ibv_open_device(void *it) {
    if (MODE == NO_PERMISSION) {
        errno = EACCES;
        return NULL;
    }
    context.device = it;
    context.async_fd = eventfd(MODE == FAILS, EFD_CLOEXEC);
    return &context;
}
int ibv_close_device(void *it) { return it == &context ? close(context.async_fd) : EINVAL; }

/* `IBV_EVENT_DEVICE_FATAL`, a moment after the device was opened. */
int ibv_get_async_event(void *it, uint64_t event[2]) {
    uint64_t count;
    (void)it;
    if (read(context.async_fd, &count, sizeof count) != sizeof count) return -1;
    usleep(100000);
    event[0] = 1;
    event[1] = 8;
    return 0;
}
void ibv_ack_async_event(void *event) { (void)event; }

int ibv_query_device(void *it, void *attr) { memset(attr, 0, 232); return it != &context; }
int ibv_query_port(void *it, uint8_t port, uint32_t attr[12]) {
    if (it != &context || port != 1) return EINVAL;
    memset(attr, 0, 48);
    attr[0] = MODE == PORT_DOWN ? 1 : 4;
    attr[1] = attr[2] = 3;
    attr[3] = 1;
    return 0;
}
int _ibv_query_gid_ex(void *it, uint32_t port, uint32_t index, uint32_t entry[8], uint32_t flags, size_t size) {
    (void)it, (void)port, (void)flags;
    if (index || size != 32) return EINVAL;
    memset(entry, 0, 32);
    entry[6] = 2;
    if (MODE == NO_ADDRESS) return ENODATA;
    entry[0] = 0xfd;
    return 0;
}

void *ibv_alloc_pd(void *it) { objects[0] = (uintptr_t)it; return objects; }
int ibv_dealloc_pd(void *it) { return it == objects ? 0 : EINVAL; }
void *ibv_reg_mr(void *pd, void *base, size_t len, int access) {
    (void)pd, (void)base, (void)len, (void)access;
    errno = ENOMEM;
    return NULL;
}
/* `ibv_comp_channel` */
static struct { void *context; int fd, references; } channel;
void *ibv_create_comp_channel(void *it) {
    channel.context = it;
    channel.fd = eventfd(0, EFD_CLOEXEC);
    return &channel;
}
int ibv_destroy_comp_channel(void *it) { return it == &channel ? close(channel.fd) : EINVAL; }
int ibv_get_cq_event(void *it, void **cq, void **cq_context) {
    uint64_t count;
    (void)it, (void)cq, (void)cq_context;
    return read(channel.fd, &count, sizeof count) == sizeof count ? 0 : -1;
}
void ibv_ack_cq_events(void *cq, unsigned count) { (void)cq, (void)count; }

#define REFUSES(name) void *name(void) { errno = ENOSYS; return NULL; }
REFUSES(ibv_query_gid) REFUSES(ibv_query_pkey) REFUSES(ibv_rereg_mr) REFUSES(ibv_dereg_mr) REFUSES(ibv_create_cq)
REFUSES(ibv_resize_cq) REFUSES(ibv_destroy_cq) REFUSES(ibv_create_srq) REFUSES(ibv_modify_srq) REFUSES(ibv_query_srq)
REFUSES(ibv_destroy_srq) REFUSES(ibv_create_qp) REFUSES(ibv_modify_qp) REFUSES(ibv_query_qp) REFUSES(ibv_destroy_qp)
REFUSES(ibv_create_ah) REFUSES(ibv_destroy_ah) REFUSES(ibv_attach_mcast) REFUSES(ibv_detach_mcast)
