/* ucp_listen ADDRESS PORT [client]: a UCX server that listens at a socket address, and its client. The client
 * sends a message, the server sends it back doubled. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

#define BYTES 100000

static ucp_worker_h worker;
static ucp_conn_request_h request;
static int gone;

static void must(ucs_status_t status, const char *what)
{
	if (status != UCS_OK) {
		fprintf(stderr, "%s: %s\n", what, ucs_status_string(status));
		exit(1);
	}
}

static void finish(ucs_status_ptr_t pending, const char *what)
{
	ucs_status_t status = UCS_OK;

	if (UCS_PTR_IS_ERR(pending)) {
		status = UCS_PTR_STATUS(pending);
	} else if (pending) {
		do {
			ucp_worker_progress(worker);
			status = ucp_request_check_status(pending);
		} while (status == UCS_INPROGRESS);
		ucp_request_free(pending);
	}
	must(status, what);
}

static void on_request(ucp_conn_request_h fresh, void *unused)
{
	(void)unused;
	request = fresh;
}

static void on_error(void *unused, ucp_ep_h ep, ucs_status_t status)
{
	(void)unused;
	(void)ep;
	gone = 1;
	fprintf(stderr, "endpoint: %s\n", ucs_status_string(status));
}

static void send_all(ucp_ep_h ep, const void *bytes)
{
	ucp_request_param_t param = { 0 };
	finish(ucp_stream_send_nbx(ep, bytes, BYTES, &param), "send");
}

static void receive_all(ucp_ep_h ep, void *bytes)
{
	ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
		.flags = UCP_STREAM_RECV_FLAG_WAITALL,
	};
	size_t length = 0;
	finish(ucp_stream_recv_nbx(ep, bytes, BYTES, &length, &param), "receive");
}

int main(int argc, char **argv)
{
	ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_STREAM };
	ucp_worker_params_t worker_params = {
		.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
		.thread_mode = UCS_THREAD_MODE_SINGLE,
	};
	ucp_ep_params_t ep_params = {
		.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
		.err_mode = UCP_ERR_HANDLING_MODE_PEER,
		.err_handler.cb = on_error,
	};
	ucp_request_param_t close = { 0 };
	struct sockaddr_in address = { .sin_family = AF_INET };
	static unsigned char bytes[BYTES];
	ucp_context_h context;
	ucp_ep_h ep;

	if (argc < 3 || inet_pton(AF_INET, argv[1], &address.sin_addr) != 1)
		return 2;
	address.sin_port = htons(atoi(argv[2]));
	must(ucp_init(&params, NULL, &context), "init");
	must(ucp_worker_create(context, &worker_params, &worker), "worker");
	if (argc > 3) {
		ep_params.field_mask |= UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
		ep_params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
		ep_params.sockaddr.addr = (struct sockaddr *)&address;
		ep_params.sockaddr.addrlen = sizeof(address);
		must(ucp_ep_create(worker, &ep_params, &ep), "connect");
		for (int i = 0; i < BYTES; i++)
			bytes[i] = i % 120;
		send_all(ep, bytes);
		memset(bytes, 0, sizeof(bytes));
		receive_all(ep, bytes);
		for (int i = 0; i < BYTES; i++)
			if (bytes[i] != i % 120 * 2) {
				fprintf(stderr, "byte %d is %d\n", i, bytes[i]);
				return 1;
			}
	} else {
		ucp_listener_params_t listener_params = {
			.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
			.sockaddr = { .addr = (struct sockaddr *)&address, .addrlen = sizeof(address) },
			.conn_handler.cb = on_request,
		};
		ucp_listener_h listener;

		must(ucp_listener_create(worker, &listener_params, &listener), "listen");
		while (!request)
			ucp_worker_progress(worker);
		ep_params.field_mask |= UCP_EP_PARAM_FIELD_CONN_REQUEST;
		ep_params.conn_request = request;
		must(ucp_ep_create(worker, &ep_params, &ep), "accept");
		receive_all(ep, bytes);
		for (int i = 0; i < BYTES; i++)
			bytes[i] *= 2;
		send_all(ep, bytes);
		/* Who closes takes what the other one has not read yet: so the client does. */
		while (!gone)
			ucp_worker_progress(worker);
		ucp_listener_destroy(listener);
		close.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
		close.flags = UCP_EP_CLOSE_FLAG_FORCE;
	}
	finish(ucp_ep_close_nbx(ep, &close), "close");
	ucp_worker_destroy(worker);
	ucp_cleanup(context);
	puts("doubled");
	return 0;
}
