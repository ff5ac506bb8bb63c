/* A program that was compiled against newer headers (v64): it goes back further from the context, passes
 * larger structs, and expects a larger queue pair. Nothing here depends on the version of the headers. */
#include "common.h"
#include <dlfcn.h>

#define OP(context, distance) (*(void **)((char *)(context) - (distance)))
enum { SZ = 8, QUERY_PORT = 320, REG_MR_EX = 344, FREE_BUF = 368, QUERY_DEVICE_EX = 104,
       NEWER_SIZE = 696 };

int main(void)
{
	struct ibv_context *context = open_first();
	CHECK(*(size_t *)((char *)context - SZ) >= NEWER_SIZE);
	/* operations that came with newer versions are there or absent, and never garbage */
	CHECK(!OP(context, REG_MR_EX));
	CHECK(!OP(context, FREE_BUF));

	int (*query_port)(struct ibv_context *, uint8_t, void *, size_t) = OP(context, QUERY_PORT);
	for (size_t size = 48; size <= 64; size += 4) {
		unsigned char attr[80];
		memset(attr, 0xa5, sizeof(attr));
		GIVES(query_port(context, 1, attr, size), 0);
		CHECK(*(int *)attr == IBV_PORT_ACTIVE);
		if (size >= 56)
			CHECK(*(unsigned *)(attr + 52) != 0 && *(unsigned *)(attr + 52) != 0xa5a5a5a5);
		for (size_t i = 56; i < size; i++)
			CHECK(attr[i] == 0);
		for (size_t i = size; i < sizeof(attr); i++)
			CHECK(attr[i] == 0xa5);
	}
	int (*query_device_ex)(struct ibv_context *, void *, void *, size_t) =
		OP(context, QUERY_DEVICE_EX);
	unsigned char device[512];
	memset(device, 0xa5, sizeof(device));
	GIVES(query_device_ex(context, NULL, device, 480), 0);
	for (size_t i = 400; i < sizeof(device); i++)
		CHECK(device[i] == (i < 480 ? 0 : 0xa5));
	GIVES(query_device_ex(context, NULL, device, 232), 0);
	GIVES(query_device_ex(context, NULL, device, 100), EINVAL);

	/* the exported function writes what the oldest program has room for */
	int (*oldest)(struct ibv_context *, uint8_t, void *) = dlsym(RTLD_DEFAULT, "ibv_query_port");
	unsigned char attr[64];
	memset(attr, 0xa5, sizeof(attr));
	GIVES(oldest(context, 1, attr), 0);
	for (size_t i = 48; i < sizeof(attr); i++)
		CHECK(attr[i] == 0xa5);

	/* names and versions that programs ask for at run time */
	CHECK(dlvsym(RTLD_DEFAULT, "ibv_open_device", "IBVERBS_1.1"));
	CHECK(dlvsym(RTLD_DEFAULT, "ibv_reg_mr_ex", "IBVERBS_1.15"));
	CHECK(dlvsym(RTLD_DEFAULT, "rdma_create_id", "RDMACM_1.0"));
	CHECK(!dlvsym(RTLD_DEFAULT, "ibv_open_device", "IBVERBS_1.0"));
	GIVES(ibv_close_device(context), 0);
	return finish();
}
