//! The context: two tables of functions that inline code of the headers calls.

/// Declares them where it is called. `$abi` is how their functions are called: `extern "C"`, or `unsafe extern "C"`.
#[macro_export]
macro_rules! context {
    ($($abi:tt)+) => {
        $crate::layout! { CONTEXT:
            struct ibv_context_ops: 256 {
                _before_alloc_mw: [Absent; 7] = 0 / "_compat_query_device",
                alloc_mw: Option<$($abi)+ fn(Option<Ptr<of::Pd>>, u32) -> Option<Ptr<of::Mw>>> = 56,
                bind_mw: Option<
                    $($abi)+ fn(Option<Ptr<of::Qp>>, Option<Ptr<of::Mw>>, Option<&ibv_mw_bind>) -> c_int,
                > = 64,
                dealloc_mw: Option<$($abi)+ fn(Option<Ptr<of::Mw>>) -> c_int> = 72,
                _compat_create_cq: Absent = 80,
                poll_cq: Option<$($abi)+ fn(Option<Ptr<of::Cq>>, c_int, *mut ibv_wc) -> c_int> = 88,
                req_notify_cq: Option<$($abi)+ fn(Option<Ptr<of::Cq>>, c_int) -> c_int> = 96,
                _before_post_srq_recv: [Absent; 7] = 104 / "_compat_cq_event",
                post_srq_recv: Option<
                    $($abi)+ fn(Option<Ptr<of::Srq>>, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int,
                > = 160,
                _before_post_send: [Absent; 4] = 168 / "_compat_create_qp",
                post_send: Option<
                    $($abi)+ fn(Option<Ptr<of::Qp>>, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int,
                > = 200,
                post_recv: Option<
                    $($abi)+ fn(Option<Ptr<of::Qp>>, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int,
                > = 208,
                _after_post_recv: [Absent; 5] = 216 / "_compat_create_ah",
            }
            struct ibv_context: 328 {
                device: *mut ibv_device = 0,
                ops: ibv_context_ops = 8,
                cmd_fd: c_int = 264,
                async_fd: c_int = 268,
                num_comp_vectors: c_int = 272,
                mutex: Mutex = 280,
                abi_compat: usize = 320,
            }
            /// New operations come in front, so their distances from `context` never change. v44: 648 bytes, from
            /// `query_port` on.
            struct verbs_context: 696 {
                free_buf: Absent = 0,
                alloc_buf: Absent = 8,
                dm_export_dmabuf_fd: Absent = 16,
                reg_mr_ex: Absent = 24,
                dealloc_dmah: Absent = 32,
                alloc_dmah: Absent = 40,
                query_port:
                    Option<$($abi)+ fn(Option<Ptr<of::Context>>, u8, *mut ibv_port_attr, usize) -> c_int> = 48,
                advise_mr: Option<$($abi)+ fn(Option<Ptr<of::Pd>>, u32, u32, *const ibv_sge, u32) -> c_int> = 56,
                alloc_null_mr: Option<$($abi)+ fn(Option<Ptr<of::Pd>>) -> Option<Ptr<of::Mr>>> = 64,
                read_counters: Absent = 72,
                attach_counters_point_flow: Absent = 80,
                create_counters: Absent = 88,
                destroy_counters: Absent = 96,
                reg_dm_mr: Option<
                    $($abi)+ fn(Option<Ptr<of::Pd>>, Option<Ptr<of::Dm>>, u64, usize, u32) -> Option<Ptr<of::Mr>>,
                > = 104,
                alloc_dm: Option<
                    $($abi)+ fn(Option<Ptr<of::Context>>, Option<&ibv_alloc_dm_attr>) -> Option<Ptr<of::Dm>>,
                > = 112,
                free_dm: Option<$($abi)+ fn(Option<Ptr<of::Dm>>) -> c_int> = 120,
                modify_flow_action_esp: Absent = 128,
                destroy_flow_action: Absent = 136,
                create_flow_action_esp: Absent = 144,
                modify_qp_rate_limit:
                    Option<$($abi)+ fn(Option<Ptr<of::Qp>>, Option<&ibv_qp_rate_limit_attr>) -> c_int> = 152,
                alloc_parent_domain: Option<
                    $($abi)+ fn(
                        Option<Ptr<of::Context>>,
                        Option<&ibv_parent_domain_init_attr>,
                    ) -> Option<Ptr<of::Pd>>,
                > = 160,
                dealloc_td: Option<$($abi)+ fn(Option<Ptr<of::Td>>) -> c_int> = 168,
                alloc_td: Option<
                    $($abi)+ fn(Option<Ptr<of::Context>>, Option<&ibv_td_init_attr>) -> Option<Ptr<of::Td>>,
                > = 176,
                modify_cq: Option<$($abi)+ fn(Option<Ptr<of::Cq>>, Option<&ibv_modify_cq_attr>) -> c_int> = 184,
                post_srq_ops: Absent = 192,
                destroy_rwq_ind_table: Absent = 200,
                create_rwq_ind_table: Absent = 208,
                destroy_wq: Absent = 216,
                modify_wq: Absent = 224,
                create_wq: Absent = 232,
                query_rt_values:
                    Option<$($abi)+ fn(Option<Ptr<of::Context>>, Option<&mut ibv_values_ex>) -> c_int> = 240,
                create_cq_ex: Option<
                    $($abi)+ fn(Option<Ptr<of::Context>>, Option<&ibv_cq_init_attr_ex>) -> Option<Ptr<of::Cq>>,
                > = 248,
                r#priv: *mut c_void = 256 / "priv",
                query_device_ex: Option<
                    $($abi)+ fn(Option<Ptr<of::Context>>, Option<&u32>, *mut ibv_device_attr_ex, usize) -> c_int,
                > = 264,
                ibv_destroy_flow: Absent = 272,
                abi_placeholder2: Absent = 280 / "ABI_placeholder2",
                ibv_create_flow: Absent = 288,
                abi_placeholder1: Absent = 296 / "ABI_placeholder1",
                open_qp: Option<
                    $($abi)+ fn(Option<Ptr<of::Context>>, Option<&ibv_qp_open_attr>) -> Option<Ptr<of::Qp>>,
                > = 304,
                create_qp_ex: Option<
                    $($abi)+ fn(
                        Option<Ptr<of::Context>>,
                        Option<&mut ibv_qp_init_attr_ex>,
                    ) -> Option<Ptr<of::Qp>>,
                > = 312,
                get_srq_num: Option<$($abi)+ fn(Option<Ptr<of::Srq>>, Option<&mut u32>) -> c_int> = 320,
                create_srq_ex: Option<
                    $($abi)+ fn(
                        Option<Ptr<of::Context>>,
                        Option<&mut ibv_srq_init_attr_ex>,
                    ) -> Option<Ptr<of::Srq>>,
                > = 328,
                open_xrcd: Option<
                    $($abi)+ fn(Option<Ptr<of::Context>>, Option<&ibv_xrcd_init_attr>) -> Option<Ptr<of::Xrcd>>,
                > = 336,
                close_xrcd: Option<$($abi)+ fn(Option<Ptr<of::Xrcd>>) -> c_int> = 344,
                _abi_placeholder3: u64 = 352 / "_ABI_placeholder3",
                sz: usize = 360,
                context: ibv_context = 368,
            }
        }
    };
}
