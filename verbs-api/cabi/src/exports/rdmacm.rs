//! The names of librdmacm.

use super::export;
use crate::rdmacm::{
    address, addrinfo, channel, connect, devices, endpoint, events, id, multicast, options,
    queue_pair, shared_receive,
};
use crate::{absent, words};

export! {
    address::bind_addr => "rdma_bind_addr@@RDMACM_1.0";
    address::resolve_addr => "rdma_resolve_addr@@RDMACM_1.0";
    address::resolve_route => "rdma_resolve_route@@RDMACM_1.0";
    addrinfo::freeaddrinfo => "rdma_freeaddrinfo@@RDMACM_1.0";
    addrinfo::getaddrinfo => "rdma_getaddrinfo@@RDMACM_1.0";
    channel::create_event_channel => "rdma_create_event_channel@@RDMACM_1.0";
    channel::destroy_event_channel => "rdma_destroy_event_channel@@RDMACM_1.0";
    connect::accept => "rdma_accept@@RDMACM_1.0";
    connect::connect => "rdma_connect@@RDMACM_1.0";
    connect::disconnect => "rdma_disconnect@@RDMACM_1.0";
    connect::establish => "rdma_establish@@RDMACM_1.2";
    connect::get_request => "rdma_get_request@@RDMACM_1.0";
    connect::listen => "rdma_listen@@RDMACM_1.0";
    connect::notify => "rdma_notify@@RDMACM_1.0";
    connect::reject => "rdma_reject@@RDMACM_1.0";
    connect::reject_ece => "rdma_reject_ece@@RDMACM_1.3";
    devices::free_devices => "rdma_free_devices@@RDMACM_1.0";
    devices::get_devices => "rdma_get_devices@@RDMACM_1.0";
    endpoint::create_ep => "rdma_create_ep@@RDMACM_1.0";
    endpoint::destroy_ep => "rdma_destroy_ep@@RDMACM_1.0";
    events::ack_cm_event => "rdma_ack_cm_event@@RDMACM_1.0";
    events::get_cm_event => "rdma_get_cm_event@@RDMACM_1.0";
    id::create_id => "rdma_create_id@@RDMACM_1.0";
    id::destroy_id => "rdma_destroy_id@@RDMACM_1.0";
    id::get_dst_port => "rdma_get_dst_port@@RDMACM_1.0";
    id::get_src_port => "rdma_get_src_port@@RDMACM_1.0";
    id::migrate_id => "rdma_migrate_id@@RDMACM_1.0";
    multicast::join_multicast => "rdma_join_multicast@@RDMACM_1.0";
    multicast::join_multicast_ex => "rdma_join_multicast_ex@@RDMACM_1.1";
    multicast::leave_multicast => "rdma_leave_multicast@@RDMACM_1.0";
    options::get_remote_ece => "rdma_get_remote_ece@@RDMACM_1.3";
    options::set_local_ece => "rdma_set_local_ece@@RDMACM_1.3";
    options::set_option => "rdma_set_option@@RDMACM_1.0";
    queue_pair::create_qp => "rdma_create_qp@@RDMACM_1.0";
    queue_pair::create_qp_ex => "rdma_create_qp_ex@@RDMACM_1.0";
    queue_pair::destroy_qp => "rdma_destroy_qp@@RDMACM_1.0";
    queue_pair::init_qp_attr => "rdma_init_qp_attr@@RDMACM_1.2";
    shared_receive::create_srq => "rdma_create_srq@@RDMACM_1.0";
    shared_receive::create_srq_ex => "rdma_create_srq_ex@@RDMACM_1.0";
    shared_receive::destroy_srq => "rdma_destroy_srq@@RDMACM_1.0";
    words::rdma_event_str => "rdma_event_str@@RDMACM_1.0";
    // Sockets over RDMA, and what came after version 44.
    absent::with_minus_one =>
        "raccept@@RDMACM_1.0",
        "rbind@@RDMACM_1.0",
        "rclose@@RDMACM_1.0",
        "rconnect@@RDMACM_1.0",
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
        "rdma_query_addrinfo@@RDMACM_1.4",
        "rdma_resolve_addrinfo@@RDMACM_1.4",
        "rdma_write_cm_event@@RDMACM_1.4";
}
