//! Connection management (`rdma/rdma_cma.h`).

/// Declares them where it is called. In scope are, besides what the other tables want and their `ibv_ah_attr`, `ibv_gid`
/// and `ibv_sa_path_rec`: [`Storage`](crate::Storage), `c_char`, and in `of` also `Id`, `EventChannel` and `Event`.
#[macro_export]
macro_rules! rdmacm {
    () => {
        $crate::layout! { RDMACM:
            struct rdma_ib_addr: 40 {
                sgid: ibv_gid = 0,
                dgid: ibv_gid = 16,
                pkey: u16 = 32,
            }
            struct rdma_addr: 296 {
                src: Storage = 0 / "src_storage",
                dst: Storage = 128 / "dst_storage",
                addr: rdma_ib_addr = 256,
            }
            struct rdma_route: 312 {
                addr: rdma_addr = 0,
                path_rec: *mut ibv_sa_path_rec = 296,
                num_paths: c_int = 304,
            }
            struct rdma_event_channel: 4 {
                fd: c_int = 0,
            }
            struct rdma_cm_id: 416 {
                verbs: Option<Ptr<of::Context>> = 0,
                channel: Option<Ptr<of::EventChannel>> = 8,
                context: *mut c_void = 16,
                qp: Option<Ptr<of::Qp>> = 24,
                route: rdma_route = 32,
                ps: u32 = 344,
                port_num: u8 = 348,
                event: Option<Ptr<of::Event>> = 352,
                send_cq_channel: Option<Ptr<of::Channel>> = 360,
                send_cq: Option<Ptr<of::Cq>> = 368,
                recv_cq_channel: Option<Ptr<of::Channel>> = 376,
                recv_cq: Option<Ptr<of::Cq>> = 384,
                srq: Option<Ptr<of::Srq>> = 392,
                pd: Option<Ptr<of::Pd>> = 400,
                qp_type: u32 = 408,
            }
            struct rdma_conn_param: 24 {
                private_data: *const c_void = 0,
                private_data_len: u8 = 8,
                responder_resources: u8 = 9,
                initiator_depth: u8 = 10,
                flow_control: u8 = 11,
                retry_count: u8 = 12,
                rnr_retry_count: u8 = 13,
                srq: u8 = 14,
                qp_num: u32 = 16,
            }
            struct rdma_ud_param: 56 {
                private_data: *const c_void = 0,
                private_data_len: u8 = 8,
                ah_attr: ibv_ah_attr = 16,
                qp_num: u32 = 48,
                qkey: u32 = 52,
            }
            /// `param` is a union: `rdma_conn_param` or `rdma_ud_param`, which is the larger one.
            struct rdma_cm_event: 80 {
                id: Option<Ptr<of::Id>> = 0,
                listen_id: Option<Ptr<of::Id>> = 8,
                event: u32 = 16,
                status: c_int = 20,
                param: Parameters = 24,
            }
            struct rdma_addrinfo: 96 {
                ai_flags: c_int = 0,
                ai_family: c_int = 4,
                ai_qp_type: c_int = 8,
                ai_port_space: c_int = 12,
                ai_src_len: u32 = 16,
                ai_dst_len: u32 = 20,
                ai_src_addr: *mut Storage = 24,
                ai_dst_addr: *mut Storage = 32,
                ai_src_canonname: *mut c_char = 40,
                ai_dst_canonname: *mut c_char = 48,
                ai_route_len: usize = 56,
                ai_route: *mut c_void = 64,
                ai_connect_len: usize = 72,
                ai_connect: *mut c_void = 80,
                ai_next: *mut rdma_addrinfo = 88,
            }
            struct rdma_cm_join_mc_attr_ex: 16 {
                comp_mask: u32 = 0,
                join_flags: u32 = 4,
                addr: *const Storage = 8,
            }
            struct ibv_path_record: 64 {
                service_id: u64 = 0,
                dgid: ibv_gid = 8,
                sgid: ibv_gid = 24,
                dlid: u16 = 40,
                slid: u16 = 42,
                flowlabel_hoplimit: u32 = 44,
                tclass: u8 = 48,
                reversible_numpath: u8 = 49,
                pkey: u16 = 50,
                qosclass_sl: u16 = 52,
                mtu: u8 = 54,
                rate: u8 = 55,
                packetlifetime: u8 = 56,
                preference: u8 = 57,
                reserved: [u8; 6] = 58,
            }
            struct ibv_path_data: 72 {
                flags: u32 = 0,
                reserved: u32 = 4,
                path: ibv_path_record = 8,
            }
        }

        /// What an event tells besides.
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub(crate) union Parameters {
            pub(crate) conn: rdma_conn_param,
            pub(crate) ud: rdma_ud_param,
        }
    };
}
