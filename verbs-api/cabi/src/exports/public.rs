//! The public names of libibverbs.

use super::export;
use crate::{
    absent, address, completion, context, device_list, device_memory, domain, events, kernel,
    memory, query, queue_pair, shared_receive, words,
};

export! {
    address::create_ah => "ibv_create_ah@@IBVERBS_1.1";
    address::create_ah_from_wc => "ibv_create_ah_from_wc@@IBVERBS_1.1";
    address::destroy_ah => "ibv_destroy_ah@@IBVERBS_1.1";
    address::init_ah_from_wc => "ibv_init_ah_from_wc@@IBVERBS_1.1";
    completion::ack_cq_events => "ibv_ack_cq_events@@IBVERBS_1.1";
    completion::create_comp_channel => "ibv_create_comp_channel@@IBVERBS_1.0";
    completion::create_cq => "ibv_create_cq@@IBVERBS_1.1";
    completion::destroy_comp_channel => "ibv_destroy_comp_channel@@IBVERBS_1.0";
    completion::destroy_cq => "ibv_destroy_cq@@IBVERBS_1.1";
    completion::get_cq_event => "ibv_get_cq_event@@IBVERBS_1.1";
    completion::resize_cq => "ibv_resize_cq@@IBVERBS_1.1";
    context::close_device => "ibv_close_device@@IBVERBS_1.1";
    context::import_device => "ibv_import_device@@IBVERBS_1.10";
    context::open_device => "ibv_open_device@@IBVERBS_1.1";
    device_memory::import_dm => "ibv_import_dm@@IBVERBS_1.13";
    device_memory::unimport_dm => "ibv_unimport_dm@@IBVERBS_1.13";
    device_list::free_device_list => "ibv_free_device_list@@IBVERBS_1.1";
    device_list::get_device_guid => "ibv_get_device_guid@@IBVERBS_1.1";
    device_list::get_device_index => "ibv_get_device_index@@IBVERBS_1.9";
    device_list::get_device_list => "ibv_get_device_list@@IBVERBS_1.1";
    device_list::get_device_name => "ibv_get_device_name@@IBVERBS_1.1";
    device_list::get_sysfs_path => "ibv_get_sysfs_path@@IBVERBS_1.0";
    domain::alloc_pd => "ibv_alloc_pd@@IBVERBS_1.1";
    domain::dealloc_pd => "ibv_dealloc_pd@@IBVERBS_1.1";
    domain::import_pd => "ibv_import_pd@@IBVERBS_1.10";
    domain::unimport_pd => "ibv_unimport_pd@@IBVERBS_1.10";
    events::ack_async_event => "ibv_ack_async_event@@IBVERBS_1.1";
    events::get_async_event => "ibv_get_async_event@@IBVERBS_1.1";
    kernel::copy_ah_attr => "ibv_copy_ah_attr_from_kern@@IBVERBS_1.1";
    kernel::copy_path_rec => "ibv_copy_path_rec_from_kern@@IBVERBS_1.0";
    kernel::copy_path_rec_to_kernel => "ibv_copy_path_rec_to_kern@@IBVERBS_1.0";
    kernel::copy_qp_attr => "ibv_copy_qp_attr_from_kern@@IBVERBS_1.0";
    memory::dereg_mr => "ibv_dereg_mr@@IBVERBS_1.1";
    memory::import_mr => "ibv_import_mr@@IBVERBS_1.10";
    memory::reg_dmabuf_mr => "ibv_reg_dmabuf_mr@@IBVERBS_1.12";
    memory::reg_mr => "ibv_reg_mr@@IBVERBS_1.1";
    memory::reg_mr_iova => "ibv_reg_mr_iova@@IBVERBS_1.7";
    memory::reg_mr_iova2 => "ibv_reg_mr_iova2@@IBVERBS_1.8";
    memory::rereg_mr => "ibv_rereg_mr@@IBVERBS_1.1";
    memory::unimport_mr => "ibv_unimport_mr@@IBVERBS_1.10";
    query::get_pkey_index => "ibv_get_pkey_index@@IBVERBS_1.5";
    query::query_device => "ibv_query_device@@IBVERBS_1.1";
    query::query_gid => "ibv_query_gid@@IBVERBS_1.1";
    query::query_gid_ex => "_ibv_query_gid_ex@@IBVERBS_1.11";
    query::query_gid_table => "_ibv_query_gid_table@@IBVERBS_1.11";
    query::query_pkey => "ibv_query_pkey@@IBVERBS_1.1";
    query::query_port => "ibv_query_port@@IBVERBS_1.1";
    query::read_sysfs_file => "ibv_read_sysfs_file@@IBVERBS_1.0";
    queue_pair::attach_mcast => "ibv_attach_mcast@@IBVERBS_1.1";
    queue_pair::create_qp => "ibv_create_qp@@IBVERBS_1.1";
    queue_pair::destroy_qp => "ibv_destroy_qp@@IBVERBS_1.1";
    queue_pair::detach_mcast => "ibv_detach_mcast@@IBVERBS_1.1";
    queue_pair::modify_qp => "ibv_modify_qp@@IBVERBS_1.1";
    queue_pair::qp_to_qp_ex => "ibv_qp_to_qp_ex@@IBVERBS_1.6";
    queue_pair::query_ece => "ibv_query_ece@@IBVERBS_1.10";
    queue_pair::query_qp => "ibv_query_qp@@IBVERBS_1.1";
    queue_pair::query_qp_data_in_order => "ibv_query_qp_data_in_order@@IBVERBS_1.14";
    queue_pair::set_ece => "ibv_set_ece@@IBVERBS_1.10";
    shared_receive::create_srq => "ibv_create_srq@@IBVERBS_1.1";
    shared_receive::destroy_srq => "ibv_destroy_srq@@IBVERBS_1.1";
    shared_receive::modify_srq => "ibv_modify_srq@@IBVERBS_1.1";
    shared_receive::query_srq => "ibv_query_srq@@IBVERBS_1.1";
    words::event_type_str => "ibv_event_type_str@@IBVERBS_1.1";
    words::mbps_to_rate => "mbps_to_ibv_rate@@IBVERBS_1.1";
    words::mult_to_rate => "mult_to_ibv_rate@@IBVERBS_1.0";
    words::node_type_str => "ibv_node_type_str@@IBVERBS_1.1";
    words::port_state_str => "ibv_port_state_str@@IBVERBS_1.1";
    words::rate_to_mbps => "ibv_rate_to_mbps@@IBVERBS_1.1";
    words::rate_to_mult => "ibv_rate_to_mult@@IBVERBS_1.0";
    words::wc_status_str => "ibv_wc_status_str@@IBVERBS_1.1";
    absent::fork_is_harmless =>
        "ibv_dofork_range@@IBVERBS_1.1",
        "ibv_dontfork_range@@IBVERBS_1.1",
        "ibv_fork_init@@IBVERBS_1.1";
    absent::fork_needs_nothing => "ibv_is_fork_initialized@@IBVERBS_1.13";
    absent::with_errno =>
        "ibv_resolve_eth_l2_from_gid@@IBVERBS_1.1",
        "ibv_dealloc_dmah@@IBVERBS_1.15",
        "ibv_query_port_speed@@IBVERBS_1.16";
    absent::with_minus_one => "ibv_dm_export_dmabuf_fd@@IBVERBS_1.16";
    absent::with_nothing =>
        "ibv_free_buf@@IBVERBS_1.17";
    absent::with_null =>
        "ibv_alloc_dmah@@IBVERBS_1.15",
        "ibv_reg_mr_ex@@IBVERBS_1.15",
        "ibv_alloc_buf@@IBVERBS_1.17",
        "ibv_reg_buf_mr@@IBVERBS_1.17";
}
