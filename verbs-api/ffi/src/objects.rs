//! What the verbs hand out.

/// Declares them where it is called. `$abi` is how their functions are called: `extern "C"`, or `unsafe extern "C"`.
#[macro_export]
macro_rules! objects {
    ($($abi:tt)+) => {
        $crate::layout! { OBJECTS:
            struct ibv_pd: 16 {
                context: Option<Ptr<of::Context>> = 0,
                handle: u32 = 8,
            }
            struct ibv_td: 8 {
                context: Option<Ptr<of::Context>> = 0,
            }
            struct ibv_xrcd: 8 {
                context: Option<Ptr<of::Context>> = 0,
            }
            struct ibv_mr: 48 {
                context: Option<Ptr<of::Context>> = 0,
                pd: Option<Ptr<of::Pd>> = 8,
                addr: *mut c_void = 16,
                length: usize = 24,
                handle: u32 = 32,
                lkey: u32 = 36,
                rkey: u32 = 40,
            }
            struct ibv_mw: 32 {
                context: Option<Ptr<of::Context>> = 0,
                pd: Option<Ptr<of::Pd>> = 8,
                rkey: u32 = 16,
                handle: u32 = 20,
                r#type: u32 = 24 / "type",
            }
            struct ibv_dm: 32 {
                context: Option<Ptr<of::Context>> = 0,
                memcpy_to_dm: Option<$($abi)+ fn(Option<Ptr<of::Dm>>, u64, *const c_void, usize) -> c_int> = 8,
                memcpy_from_dm: Option<$($abi)+ fn(*mut c_void, Option<Ptr<of::Dm>>, u64, usize) -> c_int> = 16,
                comp_mask: u32 = 24,
                handle: u32 = 28,
            }
            struct ibv_comp_channel: 16 {
                context: Option<Ptr<of::Context>> = 0,
                fd: c_int = 8,
                refcnt: c_int = 12,
            }
            struct ibv_ah: 24 {
                context: Option<Ptr<of::Context>> = 0,
                pd: Option<Ptr<of::Pd>> = 8,
                handle: u32 = 16,
            }
            struct ibv_srq: 128 {
                context: Option<Ptr<of::Context>> = 0,
                srq_context: *mut c_void = 8,
                pd: Option<Ptr<of::Pd>> = 16,
                handle: u32 = 24,
                mutex: Mutex = 32,
                cond: Cond = 72,
                events_completed: u32 = 120,
            }
            struct ibv_qp: 160 {
                context: Option<Ptr<of::Context>> = 0,
                qp_context: *mut c_void = 8,
                pd: Option<Ptr<of::Pd>> = 16,
                send_cq: Option<Ptr<of::Cq>> = 24,
                recv_cq: Option<Ptr<of::Cq>> = 32,
                srq: Option<Ptr<of::Srq>> = 40,
                handle: u32 = 48,
                qp_num: u32 = 52,
                state: u32 = 56,
                qp_type: u32 = 60,
                mutex: Mutex = 64,
                cond: Cond = 104,
                events_completed: u32 = 152,
            }
            /// v44: 352 bytes, without `wr_flush`.
            struct ibv_qp_ex: 360 {
                qp_base: ibv_qp = 0,
                comp_mask: u64 = 160,
                wr_id: u64 = 168,
                wr_flags: u32 = 176,
                wr_atomic_cmp_swp: Option<$($abi)+ fn(Option<Ptr<of::Qp>>, u32, u64, u64, u64)> = 184,
                wr_atomic_fetch_add: Option<$($abi)+ fn(Option<Ptr<of::Qp>>, u32, u64, u64)> = 192,
                wr_bind_mw: Option<
                    $($abi)+ fn(Option<Ptr<of::Qp>>, Option<Ptr<of::Mw>>, u32, Option<&ibv_mw_bind_info>),
                > = 200,
                wr_local_inv: Option<$($abi)+ fn(Option<Ptr<of::Qp>>, u32)> = 208,
                wr_rdma_read: Option<$($abi)+ fn(Option<Ptr<of::Qp>>, u32, u64)> = 216,
                wr_rdma_write: Option<$($abi)+ fn(Option<Ptr<of::Qp>>, u32, u64)> = 224,
                wr_rdma_write_imm: Option<$($abi)+ fn(Option<Ptr<of::Qp>>, u32, u64, u32)> = 232,
                wr_send: Option<$($abi)+ fn(Option<Ptr<of::Qp>>)> = 240,
                wr_send_imm: Option<$($abi)+ fn(Option<Ptr<of::Qp>>, u32)> = 248,
                wr_send_inv: Option<$($abi)+ fn(Option<Ptr<of::Qp>>, u32)> = 256,
                wr_send_tso: Option<$($abi)+ fn(Option<Ptr<of::Qp>>, *mut c_void, u16, u16)> = 264,
                wr_set_ud_addr: Option<$($abi)+ fn(Option<Ptr<of::Qp>>, Option<Ptr<of::Ah>>, u32, u32)> = 272,
                wr_set_xrc_srqn: Option<$($abi)+ fn(Option<Ptr<of::Qp>>, u32)> = 280,
                wr_set_inline_data: Option<$($abi)+ fn(Option<Ptr<of::Qp>>, *const c_void, usize)> = 288,
                wr_set_inline_data_list:
                    Option<$($abi)+ fn(Option<Ptr<of::Qp>>, usize, *const ibv_data_buf)> = 296,
                wr_set_sge: Option<$($abi)+ fn(Option<Ptr<of::Qp>>, u32, u64, u32)> = 304,
                wr_set_sge_list: Option<$($abi)+ fn(Option<Ptr<of::Qp>>, usize, *const ibv_sge)> = 312,
                wr_start: Option<$($abi)+ fn(Option<Ptr<of::Qp>>)> = 320,
                wr_complete: Option<$($abi)+ fn(Option<Ptr<of::Qp>>) -> c_int> = 328,
                wr_abort: Option<$($abi)+ fn(Option<Ptr<of::Qp>>)> = 336,
                wr_atomic_write: Option<$($abi)+ fn(Option<Ptr<of::Qp>>, u32, u64, *const c_void)> = 344,
                wr_flush: Option<$($abi)+ fn(Option<Ptr<of::Qp>>, u32, u64, usize, u8, u8)> = 352,
            }
            /// Its head, up to `async_events_completed`, is `ibv_cq`.
            struct ibv_cq_ex: 288 {
                context: Option<Ptr<of::Context>> = 0,
                channel: Option<Ptr<of::Channel>> = 8,
                cq_context: *mut c_void = 16,
                handle: u32 = 24,
                cqe: c_int = 28,
                mutex: Mutex = 32,
                cond: Cond = 72,
                comp_events_completed: u32 = 120,
                async_events_completed: u32 = 124,
                comp_mask: u32 = 128,
                status: u32 = 132,
                wr_id: u64 = 136,
                start_poll: Option<$($abi)+ fn(Option<Ptr<of::Cq>>, *const u32) -> c_int> = 144,
                next_poll: Option<$($abi)+ fn(Option<Ptr<of::Cq>>) -> c_int> = 152,
                end_poll: Option<$($abi)+ fn(Option<Ptr<of::Cq>>)> = 160,
                read_opcode: Option<$($abi)+ fn(Option<Ptr<of::Cq>>) -> u32> = 168,
                read_vendor_err: Option<$($abi)+ fn(Option<Ptr<of::Cq>>) -> u32> = 176,
                read_byte_len: Option<$($abi)+ fn(Option<Ptr<of::Cq>>) -> u32> = 184,
                read_imm_data: Option<$($abi)+ fn(Option<Ptr<of::Cq>>) -> u32> = 192,
                read_qp_num: Option<$($abi)+ fn(Option<Ptr<of::Cq>>) -> u32> = 200,
                read_src_qp: Option<$($abi)+ fn(Option<Ptr<of::Cq>>) -> u32> = 208,
                read_wc_flags: Option<$($abi)+ fn(Option<Ptr<of::Cq>>) -> u32> = 216,
                read_slid: Option<$($abi)+ fn(Option<Ptr<of::Cq>>) -> u32> = 224,
                read_sl: Option<$($abi)+ fn(Option<Ptr<of::Cq>>) -> u8> = 232,
                read_dlid_path_bits: Option<$($abi)+ fn(Option<Ptr<of::Cq>>) -> u8> = 240,
                read_completion_ts: Option<$($abi)+ fn(Option<Ptr<of::Cq>>) -> u64> = 248,
                read_cvlan: Option<$($abi)+ fn(Option<Ptr<of::Cq>>) -> u16> = 256,
                read_flow_tag: Option<$($abi)+ fn(Option<Ptr<of::Cq>>) -> u32> = 264,
                read_tm_info: Option<$($abi)+ fn(Option<Ptr<of::Cq>>, *mut c_void)> = 272,
                read_completion_wallclock_ns: Option<$($abi)+ fn(Option<Ptr<of::Cq>>) -> u64> = 280,
            }
            struct ibv_device: 664 {
                _ops: [usize; 2] = 0,
                node_type: i32 = 16,
                transport_type: i32 = 20,
                name: [u8; 64] = 24,
                dev_name: [u8; 64] = 88,
                dev_path: [u8; 256] = 152,
                ibdev_path: [u8; 256] = 408,
            }
        }
    };
}
