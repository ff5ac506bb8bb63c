//! Between the structs of C and the words of the model.

use softrnic_model::verbs::{
    Access, AddressVector, DeviceAttributes, DeviceCapabilities, Gid, Key, Mtu, PortAttributes,
    PortState, Psn, QpAttributes, QpCapabilities, QpNum, QpState, Wc, WcFlags, WcOpcode, WcStatus,
};

use super::layout::{
    Zeroed, ibv_ah_attr, ibv_device_attr_ex, ibv_gid, ibv_global_route, ibv_port_attr, ibv_qp_attr,
    ibv_qp_cap, ibv_wc,
};
use crate::provider::{GidType, MemoryCapabilities, OdpCapabilities};

/// A number that C has as an int and the model in a byte.
fn byte(number: u32) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

/// What a device can do. The struct says nothing of inline data, which is `max_inline_data`.
pub(super) fn device_attributes(
    device: &ibv_device_attr_ex,
    max_inline_data: u32,
) -> DeviceAttributes {
    let base = &device.orig_attr;
    let capabilities = u64::from(base.device_cap_flags) | device.device_cap_flags_ex;
    DeviceAttributes {
        max_mr_size: base.max_mr_size,
        max_qp: base.max_qp,
        max_qp_wr: base.max_qp_wr,
        max_sge: base.max_sge,
        max_inline_data,
        max_cq: base.max_cq,
        max_cqe: base.max_cqe,
        max_mr: base.max_mr,
        max_mw: base.max_mw,
        max_pd: base.max_pd,
        max_ah: base.max_ah,
        max_srq: base.max_srq,
        max_srq_wr: base.max_srq_wr,
        max_srq_sge: base.max_srq_sge,
        max_qp_rd_atom: byte(base.max_qp_rd_atom),
        max_qp_init_rd_atom: byte(base.max_qp_init_rd_atom),
        max_mcast_grp: base.max_mcast_grp,
        max_mcast_qp_attach: base.max_mcast_qp_attach,
        max_pkeys: base.max_pkeys,
        node_guid: base.node_guid,
        capabilities: DeviceCapabilities::from_bits_truncate(capabilities),
        max_cq_moderation_count: device.cq_mod_caps.max_cq_count,
        max_cq_moderation_period_us: device.cq_mod_caps.max_cq_period,
        qp_rate_limit_min: device.packet_pacing_caps.qp_rate_limit_min,
        qp_rate_limit_max: device.packet_pacing_caps.qp_rate_limit_max,
        core_clock_khz: device.hca_core_clock,
    }
}

/// Kinds of memory that the device has.
pub(super) fn memory_capabilities(device: &ibv_device_attr_ex) -> MemoryCapabilities {
    let odp = &device.odp_caps;
    let of = OdpCapabilities::from_bits_truncate;
    MemoryCapabilities {
        max_dm_size: device.max_dm_size,
        on_demand: odp.general_caps & 1 != 0,
        implicit_on_demand: odp.general_caps & 2 != 0,
        rc: of(odp.rc_odp_caps),
        uc: of(odp.uc_odp_caps),
        ud: of(odp.ud_odp_caps),
        xrc: of(device.xrc_odp_caps),
    }
}

fn mtu(number: u32) -> Mtu {
    Mtu::ALL.into_iter().find(|mtu| *mtu as u32 == number).unwrap_or(Mtu::B1024)
}

/// A port. A link that comes up or is being tested counts as down.
pub(super) fn port_attributes(port: &ibv_port_attr) -> PortAttributes {
    const ACTIVE: u32 = PortState::Active as u32;
    PortAttributes {
        state: if port.state == ACTIVE { PortState::Active } else { PortState::Down },
        max_mtu: mtu(port.max_mtu),
        active_mtu: mtu(port.active_mtu),
        gid_tbl_len: port.gid_tbl_len,
        max_msg_sz: port.max_msg_sz,
        pkey_tbl_len: port.pkey_tbl_len,
        bad_pkey_cntr: port.bad_pkey_cntr,
        qkey_viol_cntr: port.qkey_viol_cntr,
    }
}

/// `ibv_gid_type`
pub(super) const fn gid_type(number: u32) -> GidType {
    match number {
        2 => GidType::RoceV2,
        1 => GidType::RoceV1,
        _ => GidType::Ib,
    }
}

impl From<Gid> for ibv_gid {
    fn from(gid: Gid) -> Self {
        Self(gid.0)
    }
}

impl From<&QpCapabilities> for ibv_qp_cap {
    fn from(cap: &QpCapabilities) -> Self {
        Self {
            max_send_wr: cap.max_send_wr,
            max_recv_wr: cap.max_recv_wr,
            max_send_sge: cap.max_send_sge,
            max_recv_sge: cap.max_recv_sge,
            max_inline_data: cap.max_inline_data,
        }
    }
}

impl From<&ibv_qp_cap> for QpCapabilities {
    fn from(cap: &ibv_qp_cap) -> Self {
        Self {
            max_send_wr: cap.max_send_wr,
            max_recv_wr: cap.max_recv_wr,
            max_send_sge: cap.max_send_sge,
            max_recv_sge: cap.max_recv_sge,
            max_inline_data: cap.max_inline_data,
        }
    }
}

/// What 0 is sent as: a device would send it as it is.
const HOPS: u8 = 64;

/// A path from the port.
pub(super) fn path_attr(path: &AddressVector, port: u8) -> ibv_ah_attr {
    ibv_ah_attr {
        grh: ibv_global_route {
            dgid: path.dgid.into(),
            flow_label: path.flow_label & 0x000f_ffff,
            sgid_index: path.sgid_index,
            hop_limit: if path.hop_limit == 0 { HOPS } else { path.hop_limit },
            traffic_class: path.traffic_class,
        },
        sl: path.service_level,
        is_global: 1,
        port_num: port,
        ..ibv_ah_attr::zeroed()
    }
}

pub(super) fn path(attr: &ibv_ah_attr) -> AddressVector {
    AddressVector {
        dgid: Gid(attr.grh.dgid.0),
        sgid_index: attr.grh.sgid_index,
        hop_limit: attr.grh.hop_limit,
        traffic_class: attr.grh.traffic_class,
        flow_label: attr.grh.flow_label,
        service_level: attr.sl,
    }
}

/// What `ibv_modify_qp(3)` is given.
pub(super) fn qp_attr(qp: &QpAttributes) -> ibv_qp_attr {
    ibv_qp_attr {
        qp_state: qp.state as u32,
        cur_qp_state: qp.current_state as u32,
        path_mtu: qp.path_mtu as u32,
        qkey: qp.qkey,
        rq_psn: qp.rq_psn.get(),
        sq_psn: qp.sq_psn.get(),
        dest_qp_num: qp.dest_qp.get(),
        qp_access_flags: qp.access.bits(),
        cap: (&qp.cap).into(),
        ah_attr: path_attr(&qp.path, qp.port),
        pkey_index: qp.pkey_index,
        en_sqd_async_notify: qp.sq_drained_event.into(),
        max_rd_atomic: qp.max_rd_atomic,
        max_dest_rd_atomic: qp.max_dest_rd_atomic,
        min_rnr_timer: qp.min_rnr_timer,
        port_num: qp.port,
        timeout: qp.timeout,
        retry_cnt: qp.retry_count,
        rnr_retry: qp.rnr_retry,
        rate_limit: qp.rate_limit,
        ..ibv_qp_attr::zeroed()
    }
}

/// What `ibv_query_qp(3)` told; `None`: a state that the model does not know.
pub(super) fn qp_attributes(attr: &ibv_qp_attr) -> Option<QpAttributes> {
    let state = |number| QpState::ALL.into_iter().find(|state| *state as u32 == number);
    let now = state(attr.qp_state)?;
    Some(QpAttributes {
        state: now,
        current_state: state(attr.cur_qp_state).unwrap_or(now),
        sq_drained_event: attr.en_sqd_async_notify != 0,
        pkey_index: attr.pkey_index,
        port: attr.port_num,
        qkey: attr.qkey,
        access: Access::from_bits_truncate(attr.qp_access_flags),
        path: path(&attr.ah_attr),
        path_mtu: mtu(attr.path_mtu),
        dest_qp: QpNum::new(attr.dest_qp_num),
        rq_psn: Psn::new(attr.rq_psn),
        sq_psn: Psn::new(attr.sq_psn),
        max_dest_rd_atomic: attr.max_dest_rd_atomic,
        max_rd_atomic: attr.max_rd_atomic,
        min_rnr_timer: attr.min_rnr_timer,
        timeout: attr.timeout,
        retry_count: attr.retry_cnt,
        rnr_retry: attr.rnr_retry,
        rate_limit: attr.rate_limit,
        cap: (&attr.cap).into(),
    })
}

/// A completion. Of a failed one a device need not tell the opcode.
#[expect(clippy::cast_possible_truncation, reason = "flags above are of other devices")]
pub(super) fn completion(wc: &ibv_wc, timestamp: u64) -> Wc {
    let flags = WcFlags::from_bits_truncate(wc.wc_flags as u8);
    let invalidated = flags.contains(WcFlags::WITH_INV);
    Wc {
        wr_id: wc.wr_id,
        status: WcStatus::from_number(wc.status).unwrap_or(WcStatus::GeneralError),
        opcode: WcOpcode::from_number(wc.opcode).unwrap_or(WcOpcode::Send),
        flags,
        vendor_err: wc.vendor_err,
        byte_len: wc.byte_len,
        imm_data: if invalidated { 0 } else { u32::from_be(wc.imm_data) },
        invalidated_rkey: Key(if invalidated { wc.imm_data } else { 0 }),
        qp_num: QpNum::new(wc.qp_num),
        src_qp: QpNum::new(wc.src_qp),
        pkey_index: wc.pkey_index,
        timestamp,
        sl: wc.sl,
    }
}
