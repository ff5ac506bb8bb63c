/* Binds an identifier to the address of the device, and says how that went. */
#include "cm_common.h"

int main(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;

	CHECK(channel && !rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	if (rdma_bind_addr(id, at(0))) {
		CHECK(!id->verbs);
		puts("refused");
	} else {
		CHECK(id->verbs && !rdma_listen(id, 1));
		puts("bound");
	}
	CHECK(!rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
	return failures;
}
