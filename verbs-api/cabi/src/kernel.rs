//! Structs of the kernel's interface, which some programs pass on (`ibv_copy_qp_attr_from_kern`, …).

use crate::errno::guarded;
use crate::layout::{Zeroed, ibv_ah_attr, ibv_gid, ibv_global_route, ibv_qp_attr, ibv_qp_cap};
use crate::layout::{ibv_sa_path_rec, layout};

layout! { KERNEL:
    struct ib_uverbs_qp_attr: 144 {
        qp_attr_mask: u32 = 0,
        qp_state: u32 = 4,
        cur_qp_state: u32 = 8,
        path_mtu: u32 = 12,
        path_mig_state: u32 = 16,
        qkey: u32 = 20,
        rq_psn: u32 = 24,
        sq_psn: u32 = 28,
        dest_qp_num: u32 = 32,
        qp_access_flags: u32 = 36,
        ah_attr: ib_uverbs_ah_attr = 40,
        alt_ah_attr: ib_uverbs_ah_attr = 72,
        max_send_wr: u32 = 104,
        max_recv_wr: u32 = 108,
        max_send_sge: u32 = 112,
        max_recv_sge: u32 = 116,
        max_inline_data: u32 = 120,
        pkey_index: u16 = 124,
        alt_pkey_index: u16 = 126,
        en_sqd_async_notify: u8 = 128,
        sq_draining: u8 = 129,
        max_rd_atomic: u8 = 130,
        max_dest_rd_atomic: u8 = 131,
        min_rnr_timer: u8 = 132,
        port_num: u8 = 133,
        timeout: u8 = 134,
        retry_cnt: u8 = 135,
        rnr_retry: u8 = 136,
        alt_port_num: u8 = 137,
        alt_timeout: u8 = 138,
        reserved: [u8; 5] = 139,
    }
    struct ib_uverbs_ah_attr: 32 {
        dgid: [u8; 16] = 0 / "grh.dgid",
        flow_label: u32 = 16 / "grh.flow_label",
        sgid_index: u8 = 20 / "grh.sgid_index",
        hop_limit: u8 = 21 / "grh.hop_limit",
        traffic_class: u8 = 22 / "grh.traffic_class",
        dlid: u16 = 24,
        sl: u8 = 26,
        src_path_bits: u8 = 27,
        static_rate: u8 = 28,
        is_global: u8 = 29,
        port_num: u8 = 30,
    }
    struct ib_user_path_rec: 64 {
        dgid: [u8; 16] = 0,
        sgid: [u8; 16] = 16,
        dlid: u16 = 32,
        slid: u16 = 34,
        raw_traffic: u32 = 36,
        flow_label: u32 = 40,
        reversible: u32 = 44,
        mtu: u32 = 48,
        pkey: u16 = 52,
        hop_limit: u8 = 54,
        traffic_class: u8 = 55,
        numb_path: u8 = 56,
        sl: u8 = 57,
        mtu_selector: u8 = 58,
        rate_selector: u8 = 59,
        rate: u8 = 60,
        packet_life_time_selector: u8 = 61,
        packet_life_time: u8 = 62,
        preference: u8 = 63,
    }
}

impl From<&ib_uverbs_ah_attr> for ibv_ah_attr {
    fn from(path: &ib_uverbs_ah_attr) -> Self {
        Self {
            grh: ibv_global_route {
                dgid: ibv_gid(path.dgid),
                flow_label: path.flow_label,
                sgid_index: path.sgid_index,
                hop_limit: path.hop_limit,
                traffic_class: path.traffic_class,
            },
            dlid: path.dlid,
            sl: path.sl,
            src_path_bits: path.src_path_bits,
            static_rate: path.static_rate,
            is_global: path.is_global,
            port_num: path.port_num,
        }
    }
}

impl From<&ib_uverbs_qp_attr> for ibv_qp_attr {
    fn from(qp: &ib_uverbs_qp_attr) -> Self {
        Self {
            qp_state: qp.qp_state,
            cur_qp_state: qp.cur_qp_state,
            path_mtu: qp.path_mtu,
            path_mig_state: qp.path_mig_state,
            qkey: qp.qkey,
            rq_psn: qp.rq_psn,
            sq_psn: qp.sq_psn,
            dest_qp_num: qp.dest_qp_num,
            qp_access_flags: qp.qp_access_flags,
            cap: ibv_qp_cap {
                max_send_wr: qp.max_send_wr,
                max_recv_wr: qp.max_recv_wr,
                max_send_sge: qp.max_send_sge,
                max_recv_sge: qp.max_recv_sge,
                max_inline_data: qp.max_inline_data,
            },
            ah_attr: (&qp.ah_attr).into(),
            alt_ah_attr: (&qp.alt_ah_attr).into(),
            pkey_index: qp.pkey_index,
            alt_pkey_index: qp.alt_pkey_index,
            en_sqd_async_notify: qp.en_sqd_async_notify,
            sq_draining: qp.sq_draining,
            max_rd_atomic: qp.max_rd_atomic,
            max_dest_rd_atomic: qp.max_dest_rd_atomic,
            min_rnr_timer: qp.min_rnr_timer,
            port_num: qp.port_num,
            timeout: qp.timeout,
            retry_cnt: qp.retry_cnt,
            rnr_retry: qp.rnr_retry,
            alt_port_num: qp.alt_port_num,
            alt_timeout: qp.alt_timeout,
            ..Self::zeroed()
        }
    }
}

/// Writes `from`, made over, to `into`.
fn copy<F, T>(into: Option<&mut T>, from: Option<&F>, made: impl FnOnce(&F) -> T) {
    let _ = guarded(|| {
        if let (Some(into), Some(from)) = (into, from) {
            *into = made(from);
        }
        Ok(())
    });
}

pub(crate) extern "C" fn copy_ah_attr(
    into: Option<&mut ibv_ah_attr>,
    from: Option<&ib_uverbs_ah_attr>,
) {
    copy(into, from, |from| from.into());
}

pub(crate) extern "C" fn copy_qp_attr(
    into: Option<&mut ibv_qp_attr>,
    from: Option<&ib_uverbs_qp_attr>,
) {
    copy(into, from, |from| from.into());
}

pub(crate) extern "C" fn copy_path_rec(
    into: Option<&mut ibv_sa_path_rec>,
    from: Option<&ib_user_path_rec>,
) {
    copy(into, from, |from| ibv_sa_path_rec {
        dgid: ibv_gid(from.dgid),
        sgid: ibv_gid(from.sgid),
        dlid: from.dlid,
        slid: from.slid,
        raw_traffic: from.raw_traffic.cast_signed(),
        flow_label: from.flow_label,
        hop_limit: from.hop_limit,
        traffic_class: from.traffic_class,
        reversible: from.reversible.cast_signed(),
        numb_path: from.numb_path,
        pkey: from.pkey,
        sl: from.sl,
        mtu_selector: from.mtu_selector,
        mtu: from.mtu.to_le_bytes()[0],
        rate_selector: from.rate_selector,
        rate: from.rate,
        packet_life_time_selector: from.packet_life_time_selector,
        packet_life_time: from.packet_life_time,
        preference: from.preference,
    });
}

pub(crate) extern "C" fn copy_path_rec_to_kernel(
    into: Option<&mut ib_user_path_rec>,
    from: Option<&ibv_sa_path_rec>,
) {
    copy(into, from, |from| ib_user_path_rec {
        dgid: from.dgid.0,
        sgid: from.sgid.0,
        dlid: from.dlid,
        slid: from.slid,
        raw_traffic: from.raw_traffic.cast_unsigned(),
        flow_label: from.flow_label,
        reversible: from.reversible.cast_unsigned(),
        mtu: from.mtu.into(),
        pkey: from.pkey,
        hop_limit: from.hop_limit,
        traffic_class: from.traffic_class,
        numb_path: from.numb_path,
        sl: from.sl,
        mtu_selector: from.mtu_selector,
        rate_selector: from.rate_selector,
        rate: from.rate,
        packet_life_time_selector: from.packet_life_time_selector,
        packet_life_time: from.packet_life_time,
        preference: from.preference,
    });
}
