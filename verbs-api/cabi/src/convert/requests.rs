//! Work requests.

use core::sync::atomic::Ordering;

use softrnic_model::verbs::{
    Access, AhId, BindInfo, Key, QpNum, QpType, RecvWr, SendFlags, SendOp, SendWr, Sge, SrqNum,
};

use super::batch::InlineRoom;
use super::memory::{array, copy_in, filled};
use crate::errno::{Errno, Result};
use crate::layout::{ibv_mw_bind_info, ibv_recv_wr, ibv_send_wr};
use crate::object::{Ptr, live};
use crate::objects::{Ah, Mw};

/// `ibv_wr_opcode`
pub(crate) mod opcode {
    pub(crate) const RDMA_WRITE: u32 = 0;
    pub(crate) const RDMA_WRITE_WITH_IMM: u32 = 1;
    pub(crate) const SEND: u32 = 2;
    pub(crate) const SEND_WITH_IMM: u32 = 3;
    pub(crate) const RDMA_READ: u32 = 4;
    pub(crate) const ATOMIC_CMP_AND_SWP: u32 = 5;
    pub(crate) const ATOMIC_FETCH_AND_ADD: u32 = 6;
    pub(crate) const LOCAL_INV: u32 = 7;
    pub(crate) const BIND_MW: u32 = 8;
    pub(crate) const SEND_WITH_INV: u32 = 9;
    pub(crate) const ATOMIC_WRITE: u32 = 15;
}

/// `ibv_send_flags`; an unknown flag asks for something that the device does not do.
pub(crate) fn send_flags(bits: u32) -> Result<SendFlags> {
    u8::try_from(bits).ok().and_then(SendFlags::from_bits).ok_or(Errno::INVALID)
}

/// `ibv_access_flags`. Of the optional ones (bits 20 to 29) those that are not known are ignored.
pub(crate) fn access(bits: u32) -> Result<Access> {
    const OPTIONAL: u32 = 0x3ff0_0000;
    let known = Access::from_bits_truncate(bits);
    if bits & !known.bits() & !OPTIONAL == 0 { Ok(known) } else { Err(Errno::INVALID) }
}

/// Where a datagram goes.
pub(crate) fn send_to(
    ah: &Option<Ptr<Ah>>,
    remote_qpn: u32,
    remote_qkey: u32,
    imm: Option<u32>,
) -> Result<SendOp> {
    let ah = live(ah)?.id;
    Ok(SendOp::SendTo { ah, remote_qpn: QpNum::new(remote_qpn), remote_qkey, imm })
}

/// A datagram whose address is yet to be set.
pub(crate) const fn send_nowhere(imm: Option<u32>) -> SendOp {
    SendOp::SendTo { ah: AhId(u32::MAX), remote_qpn: QpNum::new(0), remote_qkey: 0, imm }
}

/// What a window is bound to. Without a region it is unbound.
pub(crate) fn bind_info(info: &ibv_mw_bind_info) -> Result<BindInfo> {
    let mr_lkey = match &info.mr {
        Some(mr) => mr.get()?.key(),
        None if info.length == 0 => Key(0),
        None => return Err(Errno::INVALID),
    };
    Ok(BindInfo {
        mr_lkey,
        addr: info.addr,
        length: info.length,
        access: access(info.mw_access_flags)?,
    })
}

/// A posted bind: of type 2 windows, and by the key that the program has chosen.
pub(crate) fn bind(mw: &Option<Ptr<Mw>>, rkey: u32, info: &ibv_mw_bind_info) -> Result<SendOp> {
    let (mw, bind) = (live(mw)?, bind_info(info)?);
    let new_rkey = Key(rkey);
    // The index names the window, whatever has become of binds before.
    let window = Key(mw.present.load(Ordering::Relaxed));
    Ok(SendOp::BindMw { window, new_rkey, window_type: mw.kind, bind })
}

fn operation(wr: &ibv_send_wr, qp_type: QpType) -> Result<SendOp> {
    let immediate = || u32::from_be(wr.imm_data);
    let send = |imm| match qp_type {
        QpType::Ud => {
            let (ah, remote_qpn, remote_qkey) = wr.ud();
            send_to(&Ptr::from_address(ah), remote_qpn, remote_qkey, imm)
        }
        QpType::Rc | QpType::Uc | QpType::XrcSend | QpType::XrcRecv => {
            Ok(SendOp::Send { imm, invalidate: None })
        }
    };
    let write = |imm| {
        let (remote_addr, rkey) = wr.rdma();
        SendOp::Write { remote_addr, rkey: Key(rkey), imm }
    };
    Ok(match wr.opcode {
        opcode::RDMA_WRITE => write(None),
        opcode::RDMA_WRITE_WITH_IMM => write(Some(immediate())),
        opcode::SEND => send(None)?,
        opcode::SEND_WITH_IMM => send(Some(immediate()))?,
        opcode::RDMA_READ => {
            let (remote_addr, rkey) = wr.rdma();
            SendOp::Read { remote_addr, rkey: Key(rkey) }
        }
        opcode::ATOMIC_CMP_AND_SWP => {
            let (remote_addr, compare, swap, rkey) = wr.atomic();
            SendOp::CompareSwap { remote_addr, rkey: Key(rkey), compare, swap }
        }
        opcode::ATOMIC_FETCH_AND_ADD => {
            let (remote_addr, add, _, rkey) = wr.atomic();
            SendOp::FetchAdd { remote_addr, rkey: Key(rkey), add }
        }
        opcode::ATOMIC_WRITE => {
            let (remote_addr, rkey) = wr.rdma();
            SendOp::AtomicWrite { remote_addr, rkey: Key(rkey) }
        }
        opcode::LOCAL_INV => SendOp::LocalInvalidate { key: Key(wr.imm_data) },
        opcode::BIND_MW => bind(&wr.mw, wr.mw_rkey, &wr.bind_info)?,
        opcode::SEND_WITH_INV => SendOp::Send { imm: None, invalidate: Some(Key(wr.imm_data)) },
        _ => return Err(Errno::INVALID),
    })
}

/// The elements of a request.
#[inline]
fn elements<'a>(first: *const Sge, count: core::ffi::c_int) -> Result<&'a [Sge]> {
    array(first, usize::try_from(count)?)
}

/// A send request of C; its inline data is copied to `room`.
///
/// # Errors
/// `EINVAL`; `Ok(None)`: there is not enough room left.
#[inline]
pub(super) fn send_request<'a>(
    wr: &'a ibv_send_wr,
    qp_type: QpType,
    room: &mut InlineRoom<'a>,
) -> Result<Option<SendWr<'a>>> {
    let op = operation(wr, qp_type)?;
    let flags = send_flags(wr.send_flags)?;
    let sges = elements(wr.sg_list, wr.num_sge)?;
    let remote_srq = SrqNum::new(wr.remote_srqn);
    let mut request = SendWr { wr_id: wr.wr_id, op, flags, sges, inline: &[], remote_srq };
    if flags.contains(SendFlags::INLINE) {
        let total = sges.iter().map(|sge| u64::from(sge.length)).sum::<u64>();
        let Some(place) = room.take(usize::try_from(total)?) else { return Ok(None) };
        let mut rest = &mut *place;
        for sge in sges {
            let (piece, behind) = rest.split_at_mut(sge.length as usize);
            copy_in(sge.addr, piece);
            rest = behind;
        }
        (request.inline, request.sges) = (filled(place), &[]);
    }
    Ok(Some(request))
}

/// A receive request of C.
#[inline]
pub(super) fn receive_request<'a>(wr: &'a ibv_recv_wr) -> Result<RecvWr<'a>> {
    Ok(RecvWr { wr_id: wr.wr_id, sges: elements(wr.sg_list, wr.num_sge)? })
}
