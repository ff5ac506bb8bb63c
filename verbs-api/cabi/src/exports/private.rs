//! The private names of libibverbs, by which providers of other vendors (libmlx5, libefa) register and
//! reach the kernel. Programs are linked to such libraries, so the names must be there; none of these
//! devices ever is.
//!
//! The number of the version is that of the provider interface: 34 is Debian 12 and 13, Ubuntu 22.04 and
//! 24.04; 57, 59 and 64 came after.

use super::{export, export_one};
use crate::{absent, query};

/// Exports functions by every version of the interface.
macro_rules! export_private {
    ($($function:path => $($name:literal),+ $(,)?;)*) => { $($(
        export_one!($function, $name, "@@IBVERBS_PRIVATE_34");
        export_one!($function, $name, "@IBVERBS_PRIVATE_57");
        export_one!($function, $name, "@IBVERBS_PRIVATE_59");
        export_one!($function, $name, "@IBVERBS_PRIVATE_64");
    )+)* };
}

/// The same for what is not in the first.
macro_rules! export_later {
    ($($function:path => $($name:literal),+ $(,)?;)*) => { $($(
        export_one!($function, $name, "@@IBVERBS_PRIVATE_64");
        export_one!($function, $name, "@IBVERBS_PRIVATE_57");
        export_one!($function, $name, "@IBVERBS_PRIVATE_59");
    )+)* };
}

export_private! {
    absent::with_errno =>
        "execute_ioctl",
        "ibv_cmd_advise_mr",
        "ibv_cmd_alloc_dm",
        "ibv_cmd_alloc_mw",
        "ibv_cmd_alloc_pd",
        "ibv_cmd_attach_mcast",
        "ibv_cmd_close_xrcd",
        "ibv_cmd_create_ah",
        "ibv_cmd_create_counters",
        "ibv_cmd_create_cq",
        "ibv_cmd_create_cq_ex",
        "ibv_cmd_create_flow",
        "ibv_cmd_create_flow_action_esp",
        "ibv_cmd_create_qp",
        "ibv_cmd_create_qp_ex",
        "ibv_cmd_create_qp_ex2",
        "ibv_cmd_create_rwq_ind_table",
        "ibv_cmd_create_srq",
        "ibv_cmd_create_srq_ex",
        "ibv_cmd_create_wq",
        "ibv_cmd_dealloc_mw",
        "ibv_cmd_dealloc_pd",
        "ibv_cmd_dereg_mr",
        "ibv_cmd_destroy_ah",
        "ibv_cmd_destroy_counters",
        "ibv_cmd_destroy_cq",
        "ibv_cmd_destroy_flow",
        "ibv_cmd_destroy_flow_action",
        "ibv_cmd_destroy_qp",
        "ibv_cmd_destroy_rwq_ind_table",
        "ibv_cmd_destroy_srq",
        "ibv_cmd_destroy_wq",
        "ibv_cmd_detach_mcast",
        "ibv_cmd_free_dm",
        "ibv_cmd_get_context",
        "ibv_cmd_modify_cq",
        "ibv_cmd_modify_flow_action_esp",
        "ibv_cmd_modify_qp",
        "ibv_cmd_modify_qp_ex",
        "ibv_cmd_modify_srq",
        "ibv_cmd_modify_wq",
        "ibv_cmd_open_qp",
        "ibv_cmd_open_xrcd",
        "ibv_cmd_poll_cq",
        "ibv_cmd_post_recv",
        "ibv_cmd_post_send",
        "ibv_cmd_post_srq_recv",
        "ibv_cmd_query_context",
        "ibv_cmd_query_device_any",
        "ibv_cmd_query_mr",
        "ibv_cmd_query_port",
        "ibv_cmd_query_qp",
        "ibv_cmd_query_srq",
        "ibv_cmd_read_counters",
        "ibv_cmd_reg_dm_mr",
        "ibv_cmd_reg_dmabuf_mr",
        "ibv_cmd_reg_mr",
        "ibv_cmd_req_notify_cq",
        "ibv_cmd_rereg_mr",
        "ibv_cmd_resize_cq",
        "verbs_init_cq";
    absent::with_minus_one => "ibv_read_ibdev_sysfs_file";
    absent::with_nothing =>
        "__verbs_log",
        "verbs_set_ops",
        "verbs_uninit_context";
    absent::with_null =>
        "_verbs_init_and_alloc_context",
        "verbs_open_device";
    absent::with_zero => "__ioctl_final_num_attrs";
    query::query_gid_type => "ibv_query_gid_type";
}

export_later! {
    absent::with_errno =>
        "ibv_cmd_alloc_dmah",
        "ibv_cmd_create_cq_ex2",
        "ibv_cmd_export_dmabuf_fd",
        "ibv_cmd_free_dmah",
        "ibv_cmd_query_device",
        "ibv_cmd_query_port_speed",
        "ibv_cmd_reg_mr_ex";
    absent::with_minus_one => "ibv_dmabuf_heap_alloc";
    absent::with_null => "ibv_dmabuf_heap_cc_shared_init", "ibv_wr_opcode_str";
    absent::with_nothing => "ibv_dmabuf_heap_destroy", "ibv_dmabuf_heap_free";
}

// A provider registers as it is loaded, and is never asked for devices.
export! {
    absent::with_nothing =>
        "verbs_register_driver_34@@IBVERBS_PRIVATE_34",
        "verbs_register_driver_57@@IBVERBS_PRIVATE_57",
        "verbs_register_driver_59@@IBVERBS_PRIVATE_59",
        "verbs_register_driver_64@@IBVERBS_PRIVATE_64";
}

/// A variable of one byte: `false`.
macro_rules! export_false {
    ($($name:literal),+) => { $(
        #[cfg(not(any(test, fuzzing)))]
        core::arch::global_asm!(
            ".pushsection .data.softrnic_false,\"aw\",@progbits",
            concat!(".globl \"__", $name, "\""),
            concat!(".type \"__", $name, "\",@object"),
            concat!("\"__", $name, "\": .byte 0"),
            concat!(".size \"__", $name, "\", 1"),
            concat!(".symver \"__", $name, "\",\"", $name, "\",remove"),
            ".popsection",
        );
    )+ };
}

export_false! {
    "verbs_allow_disassociate_destroy@@IBVERBS_PRIVATE_34",
    "verbs_allow_disassociate_destroy@IBVERBS_PRIVATE_57",
    "verbs_allow_disassociate_destroy@IBVERBS_PRIVATE_59",
    "verbs_allow_disassociate_destroy@IBVERBS_PRIVATE_64"
}
