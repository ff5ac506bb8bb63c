//! The names of librdmacm. The connection manager is not there yet.

use super::export;
use crate::{absent, words};

export! {
    words::rdma_event_str => "rdma_event_str@@RDMACM_1.0";
    absent::with_minus_one =>
        "raccept@@RDMACM_1.0",
        "rbind@@RDMACM_1.0",
        "rclose@@RDMACM_1.0",
        "rconnect@@RDMACM_1.0",
        "rdma_accept@@RDMACM_1.0",
        "rdma_ack_cm_event@@RDMACM_1.0",
        "rdma_bind_addr@@RDMACM_1.0",
        "rdma_connect@@RDMACM_1.0",
        "rdma_create_ep@@RDMACM_1.0",
        "rdma_create_id@@RDMACM_1.0",
        "rdma_create_qp@@RDMACM_1.0",
        "rdma_create_qp_ex@@RDMACM_1.0",
        "rdma_create_srq@@RDMACM_1.0",
        "rdma_create_srq_ex@@RDMACM_1.0",
        "rdma_destroy_id@@RDMACM_1.0",
        "rdma_disconnect@@RDMACM_1.0",
        "rdma_get_cm_event@@RDMACM_1.0",
        "rdma_get_request@@RDMACM_1.0",
        "rdma_getaddrinfo@@RDMACM_1.0",
        "rdma_join_multicast@@RDMACM_1.0",
        "rdma_leave_multicast@@RDMACM_1.0",
        "rdma_listen@@RDMACM_1.0",
        "rdma_migrate_id@@RDMACM_1.0",
        "rdma_notify@@RDMACM_1.0",
        "rdma_reject@@RDMACM_1.0",
        "rdma_resolve_addr@@RDMACM_1.0",
        "rdma_resolve_route@@RDMACM_1.0",
        "rdma_set_option@@RDMACM_1.0",
        "rfcntl@@RDMACM_1.0",
        "rgetpeername@@RDMACM_1.0",
        "rgetsockname@@RDMACM_1.0",
        "rgetsockopt@@RDMACM_1.0",
        "riomap@@RDMACM_1.0",
        "riounmap@@RDMACM_1.0",
        "riowrite@@RDMACM_1.0",
        "rlisten@@RDMACM_1.0",
        "rpoll@@RDMACM_1.0",
        "rread@@RDMACM_1.0",
        "rreadv@@RDMACM_1.0",
        "rrecv@@RDMACM_1.0",
        "rrecvfrom@@RDMACM_1.0",
        "rrecvmsg@@RDMACM_1.0",
        "rselect@@RDMACM_1.0",
        "rsend@@RDMACM_1.0",
        "rsendmsg@@RDMACM_1.0",
        "rsendto@@RDMACM_1.0",
        "rsetsockopt@@RDMACM_1.0",
        "rshutdown@@RDMACM_1.0",
        "rsocket@@RDMACM_1.0",
        "rwrite@@RDMACM_1.0",
        "rwritev@@RDMACM_1.0",
        "rdma_join_multicast_ex@@RDMACM_1.1",
        "rdma_establish@@RDMACM_1.2",
        "rdma_init_qp_attr@@RDMACM_1.2",
        "rdma_get_remote_ece@@RDMACM_1.3",
        "rdma_reject_ece@@RDMACM_1.3",
        "rdma_set_local_ece@@RDMACM_1.3",
        "rdma_query_addrinfo@@RDMACM_1.4",
        "rdma_resolve_addrinfo@@RDMACM_1.4",
        "rdma_write_cm_event@@RDMACM_1.4";
    absent::with_nothing =>
        "rdma_destroy_ep@@RDMACM_1.0",
        "rdma_destroy_event_channel@@RDMACM_1.0",
        "rdma_destroy_qp@@RDMACM_1.0",
        "rdma_destroy_srq@@RDMACM_1.0",
        "rdma_free_devices@@RDMACM_1.0",
        "rdma_freeaddrinfo@@RDMACM_1.0";
    absent::with_null =>
        "rdma_create_event_channel@@RDMACM_1.0",
        "rdma_get_devices@@RDMACM_1.0";
    absent::with_zero =>
        "rdma_get_dst_port@@RDMACM_1.0",
        "rdma_get_src_port@@RDMACM_1.0";
}
