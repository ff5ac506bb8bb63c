//! Attributes of devices, ports, queue pairs and paths.

use core::ffi::c_int;

use softrnic_model::planted;
use softrnic_model::verbs::{
    AddressVector, DeviceAttributes, Gid, Mtu, PortAttributes, PortState, Psn, QpAttributeMask,
    QpAttributes, QpCapabilities, QpNum, QpState, QpType,
};

use softrnic_verbs::provider::MemoryCapabilities;

use super::requests::access;
use crate::errno::{Errno, Result};
use crate::layout::{
    Zeroed, ibv_ah_attr, ibv_cq_moderation_caps, ibv_device_attr, ibv_device_attr_ex, ibv_gid,
    ibv_global_route, ibv_odp_caps, ibv_packet_pacing_caps, ibv_pci_atomic_caps, ibv_port_attr,
    ibv_qp_attr, ibv_qp_cap,
};
use crate::query::GIDS_MIN;

/// `IBV_DEVICE_SYS_IMAGE_GUID`: of the library, not of the device.
const SYS_IMAGE_GUID: u64 = 1 << 11;

/// `device_cap_flags_ex`, of which `device_cap_flags` is the low half.
const fn capabilities(device: &DeviceAttributes) -> u64 {
    device.capabilities.bits() | SYS_IMAGE_GUID
}

/// `IBV_ATOMIC_GLOB`: also towards the program's own atomics.
const ATOMIC_GLOB: u32 = 2;
/// A number that no vendor has; 0 counts as none.
const VENDOR: u32 = 0x00ff_ffff;
/// Every page size from 4 KiB.
const PAGE_SIZES: u64 = !0xfff;

/// The version of the library, as programs show it.
fn firmware() -> [u8; 64] {
    let mut text = [0; 64];
    let version = env!("CARGO_PKG_VERSION").as_bytes();
    for (place, byte) in text.iter_mut().zip(version.iter().take(63)) {
        *place = *byte;
    }
    text
}

impl From<&DeviceAttributes> for ibv_device_attr {
    fn from(device: &DeviceAttributes) -> Self {
        Self {
            fw_ver: firmware(),
            node_guid: device.node_guid,
            sys_image_guid: device.node_guid,
            max_mr_size: device.max_mr_size,
            page_size_cap: PAGE_SIZES,
            vendor_id: VENDOR,
            vendor_part_id: 1,
            max_qp: device.max_qp,
            max_qp_wr: device.max_qp_wr,
            device_cap_flags: low_half(capabilities(device)),
            max_sge: device.max_sge,
            max_sge_rd: device.max_sge,
            max_cq: device.max_cq,
            max_cqe: device.max_cqe,
            max_mr: device.max_mr,
            max_pd: device.max_pd,
            max_qp_rd_atom: device.max_qp_rd_atom.into(),
            max_res_rd_atom: device.max_qp.saturating_mul(device.max_qp_rd_atom.into()),
            max_qp_init_rd_atom: device.max_qp_init_rd_atom.into(),
            atomic_cap: ATOMIC_GLOB,
            max_mw: device.max_mw,
            max_mcast_grp: device.max_mcast_grp,
            max_mcast_qp_attach: device.max_mcast_qp_attach,
            max_total_mcast_qp_attach: device
                .max_mcast_grp
                .saturating_mul(device.max_mcast_qp_attach),
            max_ah: device.max_ah,
            max_srq: device.max_srq,
            max_srq_wr: device.max_srq_wr,
            max_srq_sge: device.max_srq_sge,
            max_pkeys: device.max_pkeys,
            phys_port_cnt: 1,
            ..Self::zeroed()
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the high half is told elsewhere")]
const fn low_half(bits: u64) -> u32 {
    bits as u32
}

/// `ibv_odp_general_caps`
const ODP_SUPPORT: u64 = 1;
const ODP_SUPPORT_IMPLICIT: u64 = 1 << 1;

/// All that `ibv_query_device_ex(3)` tells.
pub(crate) fn extended_attr(
    device: &DeviceAttributes,
    memory: &MemoryCapabilities,
) -> ibv_device_attr_ex {
    /// 8 bytes, `ibv_pci_atomic_op_size`.
    const EIGHT_BYTES: u16 = 1 << 1;
    let general = |is_there, bit| if is_there { bit } else { 0 };
    ibv_device_attr_ex {
        orig_attr: device.into(),
        odp_caps: ibv_odp_caps {
            general_caps: general(memory.on_demand, ODP_SUPPORT)
                | general(memory.implicit_on_demand, ODP_SUPPORT_IMPLICIT),
            rc_odp_caps: memory.rc.bits(),
            uc_odp_caps: memory.uc.bits(),
            ud_odp_caps: memory.ud.bits(),
        },
        // Nanoseconds.
        completion_timestamp_mask: u64::MAX,
        hca_core_clock: device.core_clock_khz,
        device_cap_flags_ex: capabilities(device),
        packet_pacing_caps: ibv_packet_pacing_caps {
            qp_rate_limit_min: device.qp_rate_limit_min,
            qp_rate_limit_max: device.qp_rate_limit_max,
            supported_qpts: 1 << QpType::Rc as u32,
        },
        cq_mod_caps: ibv_cq_moderation_caps {
            max_cq_count: device.max_cq_moderation_count,
            max_cq_period: device.max_cq_moderation_period_us,
        },
        max_dm_size: memory.max_dm_size,
        pci_atomic_caps: ibv_pci_atomic_caps {
            fetch_add: EIGHT_BYTES,
            swap: 0,
            compare_swap: EIGHT_BYTES,
        },
        xrc_odp_caps: memory.xrc.bits(),
        phys_port_cnt_ex: 1,
        ..ibv_device_attr_ex::zeroed()
    }
}

impl From<&PortAttributes> for ibv_port_attr {
    fn from(port: &PortAttributes) -> Self {
        /// `IBV_PORT_CM_SUP`, `IBV_PORT_IP_BASED_GIDS`
        const PORT_CAPS: u32 = 1 << 26;
        const ETHERNET: u8 = 2;
        /// `phys_state`: LinkUp and Disabled.
        const LINK_UP: u8 = 5;
        const DISABLED: u8 = 3;
        /// 4X and 25 Gbit/s a lane; there is nothing to ask.
        const WIDTH_4X: u8 = 2;
        const SPEED_EDR: u8 = 32;
        Self {
            state: port.state as u32,
            max_mtu: port.max_mtu as u32,
            active_mtu: port.active_mtu as u32,
            gid_tbl_len: port.gid_tbl_len.max(GIDS_MIN),
            port_cap_flags: PORT_CAPS,
            max_msg_sz: port.max_msg_sz,
            bad_pkey_cntr: port.bad_pkey_cntr,
            qkey_viol_cntr: port.qkey_viol_cntr,
            pkey_tbl_len: port.pkey_tbl_len,
            max_vl_num: 1,
            active_width: WIDTH_4X,
            active_speed: SPEED_EDR,
            phys_state: match port.state {
                PortState::Active => LINK_UP,
                PortState::Down => DISABLED,
            },
            link_layer: ETHERNET,
            active_speed_ex: SPEED_EDR.into(),
            ..Self::zeroed()
        }
    }
}

impl From<Gid> for ibv_gid {
    fn from(gid: Gid) -> Self {
        Self(gid.0)
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

/// The 20 bits of a flow label.
const FLOW_LABEL: u32 = 0x000f_ffff;

/// The path of an address handle or a connection. RoCE routes by GIDs alone.
///
/// # Errors
/// `EINVAL`: without a GRH, or another port.
pub(crate) fn path(attr: &ibv_ah_attr) -> Result<AddressVector> {
    if attr.is_global == 0 || attr.port_num != 1 {
        return Err(Errno::INVALID);
    }
    let grh = &attr.grh;
    Ok(AddressVector {
        dgid: Gid(grh.dgid.0),
        sgid_index: grh.sgid_index,
        hop_limit: grh.hop_limit,
        traffic_class: grh.traffic_class,
        // Programs leave what they like in the rest of the word, and no device minds.
        flow_label: grh.flow_label & FLOW_LABEL,
        service_level: attr.sl,
    })
}

/// The same for C.
pub(crate) fn path_attr(path: &AddressVector) -> ibv_ah_attr {
    ibv_ah_attr {
        grh: ibv_global_route {
            dgid: path.dgid.into(),
            flow_label: path.flow_label,
            sgid_index: path.sgid_index,
            hop_limit: path.hop_limit,
            traffic_class: path.traffic_class,
        },
        sl: path.service_level,
        is_global: 1,
        port_num: 1,
        ..ibv_ah_attr::zeroed()
    }
}

/// # Errors
/// `EOPNOTSUPP`: a type that this device does not have; `EINVAL`: none at all.
pub(crate) fn qp_type(number: u32) -> Result<QpType> {
    /// `IBV_QPT_RAW_PACKET`, `IBV_QPT_DRIVER`
    const OTHERS: [u32; 2] = [8, 0xff];
    match QpType::ALL.into_iter().find(|known| *known as u32 == number) {
        Some(known) => Ok(known),
        None if OTHERS.contains(&number) => Err(Errno::NOT_SUPPORTED),
        None => Err(Errno::INVALID),
    }
}

fn qp_state(number: u32) -> Result<QpState> {
    QpState::ALL.into_iter().find(|state| *state as u32 == number).ok_or(Errno::INVALID)
}

fn mtu(number: u32) -> Result<Mtu> {
    Mtu::ALL.into_iter().find(|mtu| *mtu as u32 == number).ok_or(Errno::INVALID)
}

/// What `ibv_modify_qp(3)` sets: fields that the mask does not name are not looked at.
pub(crate) fn qp_changes(
    attr: &ibv_qp_attr,
    mask: c_int,
) -> Result<(QpAttributes, QpAttributeMask)> {
    let known = QpAttributeMask::from_bits_truncate(mask.cast_unsigned());
    if known.bits() != mask.cast_unsigned() && !planted::has(planted::Fault::Mask) {
        return Err(Errno::INVALID);
    }
    let mask = known;
    let has = |bit| mask.contains(bit);
    let mut to = QpAttributes::default();
    if has(QpAttributeMask::STATE) {
        to.state = qp_state(attr.qp_state)?;
    }
    if has(QpAttributeMask::CUR_STATE) {
        to.current_state = qp_state(attr.cur_qp_state)?;
    }
    if has(QpAttributeMask::ACCESS_FLAGS) {
        to.access = access(attr.qp_access_flags)?;
    }
    if has(QpAttributeMask::AV) {
        to.path = path(&attr.ah_attr)?;
    }
    if has(QpAttributeMask::PATH_MTU) {
        to.path_mtu = mtu(attr.path_mtu)?;
    }
    to.sq_drained_event = attr.en_sqd_async_notify != 0;
    to.pkey_index = attr.pkey_index;
    to.port = attr.port_num;
    to.qkey = attr.qkey;
    to.dest_qp = QpNum::new(attr.dest_qp_num);
    to.rq_psn = Psn::new(attr.rq_psn);
    to.sq_psn = Psn::new(attr.sq_psn);
    to.max_dest_rd_atomic = attr.max_dest_rd_atomic;
    to.max_rd_atomic = attr.max_rd_atomic;
    to.min_rnr_timer = attr.min_rnr_timer;
    to.timeout = attr.timeout;
    to.retry_count = attr.retry_cnt;
    to.rnr_retry = attr.rnr_retry;
    to.rate_limit = attr.rate_limit;
    to.cap = (&attr.cap).into();
    Ok((to, mask))
}

impl From<&QpAttributes> for ibv_qp_attr {
    fn from(qp: &QpAttributes) -> Self {
        Self {
            qp_state: qp.state as u32,
            cur_qp_state: qp.current_state as u32,
            path_mtu: qp.path_mtu as u32,
            qkey: qp.qkey,
            rq_psn: qp.rq_psn.get(),
            sq_psn: qp.sq_psn.get(),
            dest_qp_num: qp.dest_qp.get(),
            qp_access_flags: qp.access.bits(),
            cap: (&qp.cap).into(),
            ah_attr: path_attr(&qp.path),
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
            ..Self::zeroed()
        }
    }
}
