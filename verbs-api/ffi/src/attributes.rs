//! What verbs take and tell beside objects and work requests.

/// Declares them where it is called.
#[macro_export]
macro_rules! attributes {
    () => {
        $crate::layout! { ATTRIBUTES:
            struct ibv_gid_entry: 32 {
                gid: ibv_gid = 0,
                gid_index: u32 = 16,
                port_num: u32 = 20,
                gid_type: u32 = 24,
                ndev_ifindex: u32 = 28,
            }
            struct ibv_device_attr: 232 {
                fw_ver: [u8; 64] = 0,
                node_guid: [u8; 8] = 64,
                sys_image_guid: [u8; 8] = 72,
                max_mr_size: u64 = 80,
                page_size_cap: u64 = 88,
                vendor_id: u32 = 96,
                vendor_part_id: u32 = 100,
                hw_ver: u32 = 104,
                max_qp: u32 = 108,
                max_qp_wr: u32 = 112,
                device_cap_flags: u32 = 116,
                max_sge: u32 = 120,
                max_sge_rd: u32 = 124,
                max_cq: u32 = 128,
                max_cqe: u32 = 132,
                max_mr: u32 = 136,
                max_pd: u32 = 140,
                max_qp_rd_atom: u32 = 144,
                max_ee_rd_atom: u32 = 148,
                max_res_rd_atom: u32 = 152,
                max_qp_init_rd_atom: u32 = 156,
                max_ee_init_rd_atom: u32 = 160,
                atomic_cap: u32 = 164,
                max_ee: u32 = 168,
                max_rdd: u32 = 172,
                max_mw: u32 = 176,
                max_raw_ipv6_qp: u32 = 180,
                max_raw_ethy_qp: u32 = 184,
                max_mcast_grp: u32 = 188,
                max_mcast_qp_attach: u32 = 192,
                max_total_mcast_qp_attach: u32 = 196,
                max_ah: u32 = 200,
                max_fmr: u32 = 204,
                max_map_per_fmr: u32 = 208,
                max_srq: u32 = 212,
                max_srq_wr: u32 = 216,
                max_srq_sge: u32 = 220,
                max_pkeys: u16 = 224,
                local_ca_ack_delay: u8 = 226,
                phys_port_cnt: u8 = 227,
            }
            struct ibv_odp_caps: 24 {
                general_caps: u64 = 0,
                rc_odp_caps: u32 = 8 / "per_transport_caps.rc_odp_caps",
                uc_odp_caps: u32 = 12 / "per_transport_caps.uc_odp_caps",
                ud_odp_caps: u32 = 16 / "per_transport_caps.ud_odp_caps",
            }
            struct ibv_packet_pacing_caps: 12 {
                qp_rate_limit_min: u32 = 0,
                qp_rate_limit_max: u32 = 4,
                supported_qpts: u32 = 8,
            }
            struct ibv_cq_moderation_caps: 4 {
                max_cq_count: u16 = 0,
                max_cq_period: u16 = 2,
            }
            struct ibv_pci_atomic_caps: 6 {
                fetch_add: u16 = 0,
                swap: u16 = 2,
                compare_swap: u16 = 4,
            }
            struct ibv_device_attr_ex: 400 {
                orig_attr: ibv_device_attr = 0,
                comp_mask: u32 = 232,
                odp_caps: ibv_odp_caps = 240,
                completion_timestamp_mask: u64 = 264,
                hca_core_clock: u64 = 272,
                device_cap_flags_ex: u64 = 280,
                tso_caps: [u32; 2] = 288,
                rss_caps: [u64; 4] = 296,
                max_wq_type_rq: u32 = 328,
                packet_pacing_caps: ibv_packet_pacing_caps = 332,
                raw_packet_caps: u32 = 344,
                tm_caps: [u32; 5] = 348,
                cq_mod_caps: ibv_cq_moderation_caps = 368,
                max_dm_size: u64 = 376,
                pci_atomic_caps: ibv_pci_atomic_caps = 384,
                xrc_odp_caps: u32 = 392,
                phys_port_cnt_ex: u32 = 396,
            }
            /// v44: 52 bytes, without `active_speed_ex`; the exported `ibv_query_port` writes 48.
            struct ibv_port_attr: 56 {
                state: u32 = 0,
                max_mtu: u32 = 4,
                active_mtu: u32 = 8,
                gid_tbl_len: u32 = 12,
                port_cap_flags: u32 = 16,
                max_msg_sz: u32 = 20,
                bad_pkey_cntr: u32 = 24,
                qkey_viol_cntr: u32 = 28,
                pkey_tbl_len: u16 = 32,
                lid: u16 = 34,
                sm_lid: u16 = 36,
                lmc: u8 = 38,
                max_vl_num: u8 = 39,
                sm_sl: u8 = 40,
                subnet_timeout: u8 = 41,
                init_type_reply: u8 = 42,
                active_width: u8 = 43,
                active_speed: u8 = 44,
                phys_state: u8 = 45,
                link_layer: u8 = 46,
                flags: u8 = 47,
                port_cap_flags2: u16 = 48,
                active_speed_ex: u32 = 52,
            }
            struct ibv_async_event: 16 {
                element: u64 = 0,
                event_type: u32 = 8,
            }
            struct ibv_ah_attr: 32 {
                grh: ibv_global_route = 0,
                dlid: u16 = 24,
                sl: u8 = 26,
                src_path_bits: u8 = 27,
                static_rate: u8 = 28,
                is_global: u8 = 29,
                port_num: u8 = 30,
            }
            struct ibv_srq_attr: 12 {
                max_wr: u32 = 0,
                max_sge: u32 = 4,
                srq_limit: u32 = 8,
            }
            struct ibv_srq_init_attr: 24 {
                srq_context: *mut c_void = 0,
                attr: ibv_srq_attr = 8,
            }
            struct ibv_srq_init_attr_ex: 64 {
                srq_context: *mut c_void = 0,
                attr: ibv_srq_attr = 8,
                comp_mask: u32 = 20,
                srq_type: u32 = 24,
                pd: Option<Ptr<of::Pd>> = 32,
                xrcd: Option<Ptr<of::Xrcd>> = 40,
                cq: Option<Ptr<of::Cq>> = 48,
                tm_cap: [u32; 2] = 56,
            }
            struct ibv_qp_cap: 20 {
                max_send_wr: u32 = 0,
                max_recv_wr: u32 = 4,
                max_send_sge: u32 = 8,
                max_recv_sge: u32 = 12,
                max_inline_data: u32 = 16,
            }
            struct ibv_qp_init_attr: 64 {
                qp_context: *mut c_void = 0,
                send_cq: Option<Ptr<of::Cq>> = 8,
                recv_cq: Option<Ptr<of::Cq>> = 16,
                srq: Option<Ptr<of::Srq>> = 24,
                cap: ibv_qp_cap = 32,
                qp_type: u32 = 52,
                sq_sig_all: c_int = 56,
            }
            struct ibv_qp_init_attr_ex: 136 {
                qp_context: *mut c_void = 0,
                send_cq: Option<Ptr<of::Cq>> = 8,
                recv_cq: Option<Ptr<of::Cq>> = 16,
                srq: Option<Ptr<of::Srq>> = 24,
                cap: ibv_qp_cap = 32,
                qp_type: u32 = 52,
                sq_sig_all: c_int = 56,
                comp_mask: u32 = 60,
                pd: Option<Ptr<of::Pd>> = 64,
                xrcd: Option<Ptr<of::Xrcd>> = 72,
                create_flags: u32 = 80,
                max_tso_header: u16 = 84,
                rwq_ind_tbl: *mut c_void = 88,
                rx_hash_conf: [u64; 3] = 96,
                source_qpn: u32 = 120,
                send_ops_flags: u64 = 128,
            }
            struct ibv_qp_open_attr: 32 {
                comp_mask: u32 = 0,
                qp_num: u32 = 4,
                xrcd: Option<Ptr<of::Xrcd>> = 8,
                qp_context: *mut c_void = 16,
                qp_type: u32 = 24,
            }
            struct ibv_qp_attr: 144 {
                qp_state: u32 = 0,
                cur_qp_state: u32 = 4,
                path_mtu: u32 = 8,
                path_mig_state: u32 = 12,
                qkey: u32 = 16,
                rq_psn: u32 = 20,
                sq_psn: u32 = 24,
                dest_qp_num: u32 = 28,
                qp_access_flags: u32 = 32,
                cap: ibv_qp_cap = 36,
                ah_attr: ibv_ah_attr = 56,
                alt_ah_attr: ibv_ah_attr = 88,
                pkey_index: u16 = 120,
                alt_pkey_index: u16 = 122,
                en_sqd_async_notify: u8 = 124,
                sq_draining: u8 = 125,
                max_rd_atomic: u8 = 126,
                max_dest_rd_atomic: u8 = 127,
                min_rnr_timer: u8 = 128,
                port_num: u8 = 129,
                timeout: u8 = 130,
                retry_cnt: u8 = 131,
                rnr_retry: u8 = 132,
                alt_port_num: u8 = 133,
                alt_timeout: u8 = 134,
                rate_limit: u32 = 136,
            }
            struct ibv_qp_rate_limit_attr: 16 {
                rate_limit: u32 = 0,
                max_burst_sz: u32 = 4,
                typical_pkt_sz: u16 = 8,
                comp_mask: u32 = 12,
            }
            struct ibv_ece: 12 {
                vendor_id: u32 = 0,
                options: u32 = 4,
                comp_mask: u32 = 8,
            }
            struct ibv_moderate_cq: 4 {
                cq_count: u16 = 0,
                cq_period: u16 = 2,
            }
            struct ibv_modify_cq_attr: 8 {
                attr_mask: u32 = 0,
                moderate: ibv_moderate_cq = 4,
            }
            struct ibv_cq_init_attr_ex: 56 {
                cqe: u32 = 0,
                cq_context: *mut c_void = 8,
                channel: Option<Ptr<of::Channel>> = 16,
                comp_vector: u32 = 24,
                wc_flags: u64 = 32,
                comp_mask: u32 = 40,
                flags: u32 = 44,
                parent_domain: Option<Ptr<of::Pd>> = 48,
            }
            struct ibv_parent_domain_init_attr: 48 {
                pd: Option<Ptr<of::Pd>> = 0,
                td: Option<Ptr<of::Td>> = 8,
                comp_mask: u32 = 16,
                alloc: *const c_void = 24,
                free: *const c_void = 32,
                pd_context: *mut c_void = 40,
            }
            struct ibv_td_init_attr: 4 {
                comp_mask: u32 = 0,
            }
            struct ibv_xrcd_init_attr: 12 {
                comp_mask: u32 = 0,
                fd: c_int = 4,
                oflags: c_int = 8,
            }
            struct ibv_alloc_dm_attr: 16 {
                length: usize = 0,
                log_align_req: u32 = 8,
                comp_mask: u32 = 12,
            }
            struct ibv_values_ex: 24 {
                comp_mask: u32 = 0,
                raw_clock: [i64; 2] = 8,
            }
            struct ibv_sa_path_rec: 64 {
                dgid: ibv_gid = 0,
                sgid: ibv_gid = 16,
                dlid: u16 = 32,
                slid: u16 = 34,
                raw_traffic: c_int = 36,
                flow_label: u32 = 40,
                hop_limit: u8 = 44,
                traffic_class: u8 = 45,
                reversible: c_int = 48,
                numb_path: u8 = 52,
                pkey: u16 = 54,
                sl: u8 = 56,
                mtu_selector: u8 = 57,
                mtu: u8 = 58,
                rate_selector: u8 = 59,
                rate: u8 = 60,
                packet_life_time_selector: u8 = 61,
                packet_life_time: u8 = 62,
                preference: u8 = 63,
            }
        }
    };
}
