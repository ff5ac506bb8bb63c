//! Work requests and completions.

/// Declares them where it is called.
#[macro_export]
macro_rules! work {
    () => {
        /// `union ibv_gid`: network byte order.
        #[repr(C, align(8))]
        #[derive(Clone, Copy, Default, PartialEq, Eq)]
        pub(crate) struct ibv_gid(pub(crate) [u8; 16]);

        const _: () = assert!(size_of::<ibv_gid>() == 16);

        $crate::layout! { WORK:
            struct ibv_data_buf: 16 {
                addr: *mut c_void = 0,
                length: usize = 8,
            }
            struct ibv_mw_bind_info: 32 {
                mr: Option<Ptr<of::Mr>> = 0,
                addr: u64 = 8,
                length: u64 = 16,
                mw_access_flags: u32 = 24,
            }
            struct ibv_mw_bind: 48 {
                wr_id: u64 = 0,
                send_flags: u32 = 8,
                bind_info: ibv_mw_bind_info = 16,
            }
            /// The unions `wr`, `qp_type` and `bind_mw`/`tso` as the bytes that they share.
            struct ibv_send_wr: 128 {
                wr_id: u64 = 0,
                next: *mut ibv_send_wr = 8,
                sg_list: *mut ibv_sge = 16,
                num_sge: c_int = 24,
                opcode: u32 = 28,
                send_flags: u32 = 32,
                imm_data: u32 = 36,
                wr: [u64; 4] = 40,
                remote_srqn: u32 = 72 / "qp_type.xrc.remote_srqn",
                mw: Option<Ptr<of::Mw>> = 80 / "bind_mw.mw",
                mw_rkey: u32 = 88 / "bind_mw.rkey",
                bind_info: ibv_mw_bind_info = 96 / "bind_mw.bind_info",
            }
            struct ibv_recv_wr: 32 {
                wr_id: u64 = 0,
                next: *mut ibv_recv_wr = 8,
                sg_list: *mut ibv_sge = 16,
                num_sge: c_int = 24,
            }
            struct ibv_wc: 48 {
                wr_id: u64 = 0,
                status: u32 = 8,
                opcode: u32 = 12,
                vendor_err: u32 = 16,
                byte_len: u32 = 20,
                imm_data: u32 = 24,
                qp_num: u32 = 28,
                src_qp: u32 = 32,
                wc_flags: u32 = 36,
                pkey_index: u16 = 40,
                slid: u16 = 42,
                sl: u8 = 44,
                dlid_path_bits: u8 = 45,
            }
            struct ibv_grh: 40 {
                version_tclass_flow: u32 = 0,
                paylen: u16 = 4,
                next_hdr: u8 = 6,
                hop_limit: u8 = 7,
                sgid: ibv_gid = 8,
                dgid: ibv_gid = 24,
            }
            struct ibv_global_route: 24 {
                dgid: ibv_gid = 0,
                flow_label: u32 = 16,
                sgid_index: u8 = 20,
                hop_limit: u8 = 21,
                traffic_class: u8 = 22,
            }
        }
    };
}
