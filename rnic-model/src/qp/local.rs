//! Local memory of work requests: checks, gathering and scattering, and the requests that the
//! device carries out without a packet.

use crate::device::Shared;
use crate::memory::Memory;
use crate::planted;
use crate::profile::PlacementOrder;
use crate::protection::{AccessRequest, BindRequest, Side};
use crate::queue::SendWqe;
use crate::verbs::{Access, Key, PdId, SendFlags, SendOp, Sge, WcStatus, WindowType};

use super::failure::Failure;
use super::pair::{Qp, Taken};

/// Whether all local memory of a send request may be used as it asks.
pub(crate) fn check_message(
    qp: &Qp,
    shared: &Shared,
    count: u32,
    wqe: &SendWqe,
) -> Result<(), Failure> {
    // An answer is written there; what is inline needs no right.
    // [read-atomic/read-local-right]
    let needs = if wqe.op.is_answered_with_data() { Access::LOCAL_WRITE } else { Access::empty() };
    // [rc-requester/zero-length-sge-unchecked] [protection/sge-each]
    for sge in qp.requester.sq.sges(count).iter().filter(|sge| sge.length != 0) {
        let request = local_request(qp.init.pd, sge.lkey, sge.addr, u64::from(sge.length), needs);
        shared.protection.check(&request)?;
    }
    Ok(())
}

fn local_request(pd: PdId, key: Key, addr: u64, length: u64, needs: Access) -> AccessRequest {
    AccessRequest { key, side: Side::Local, pd, addr, length, needs }
}

/// Copies `into.len()` bytes of the message from byte `offset` on.
// [acknowledgement-retry/resend-current-memory]
pub(crate) fn gather<M: Memory + ?Sized>(
    qp: &Qp,
    shared: &Shared,
    memory: &M,
    count: u32,
    offset: u32,
    into: &mut [u8],
) -> Result<(), Failure> {
    let wqe = qp.requester.sq.wqe(count);
    if wqe.flags.contains(SendFlags::INLINE) {
        let from = offset as usize;
        return match qp.requester.sq.inline(count).get(from..from + into.len()) {
            Some(bytes) => {
                into.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(WcStatus::LocalLengthError.into()),
        };
    }
    let sges = qp.requester.sq.sges(count);
    each_piece(sges, u64::from(offset), into.len(), |sge, addr, range| {
        let Some(place) = into.get_mut(range) else {
            return Err(WcStatus::LocalLengthError.into());
        };
        let length = place.len() as u64;
        let request = local_request(qp.init.pd, sge.lkey, addr, length, Access::empty());
        let grant = shared.protection.check(&request)?;
        Ok(memory.read(grant.memory, grant.offset, place)?)
    })
}

/// Copies a part of the answer into the local memory of a READ or an atomic.
pub(crate) fn scatter_message<M: Memory + ?Sized>(
    qp: &Qp,
    shared: &Shared,
    memory: &M,
    count: u32,
    offset: u32,
    bytes: &[u8],
) -> Result<(), Failure> {
    let sges = qp.requester.sq.sges(count);
    scatter(qp.init.pd, shared, memory, sges, u64::from(offset), bytes)
}

/// Copies a part of a message into a receive request.
pub(crate) fn scatter_receive<M: Memory + ?Sized>(
    qp: &Qp,
    shared: &Shared,
    memory: &M,
    taken: Taken,
    offset: u64,
    bytes: &[u8],
) -> Result<(), Failure> {
    // A shared queue's buffers belong to its own protection domain.
    // [srq/pd-of-srq]
    let pd = taken.srq.and_then(|srq| shared.srqs.get(srq)).map_or(qp.init.pd, |srq| srq.pd);
    scatter(pd, shared, memory, qp.recv_sges(shared, taken), offset, bytes)
}

fn scatter<M: Memory + ?Sized>(
    pd: PdId,
    shared: &Shared,
    memory: &M,
    sges: &[Sge],
    offset: u64,
    bytes: &[u8],
) -> Result<(), Failure> {
    if shared.profile.placement == PlacementOrder::LastBytesFirst && bytes.len() > 1 {
        let (first, second) = bytes.split_at(bytes.len() / 2);
        let middle = offset.saturating_add(first.len() as u64);
        // The order of the bytes is one thing, that nothing is placed where not all may be another.
        each_piece(sges, offset, bytes.len(), |sge, addr, range| {
            let length = range.len() as u64;
            let request = local_request(pd, sge.lkey, addr, length, Access::LOCAL_WRITE);
            Ok(shared.protection.check(&request).map(|_| ())?)
        })?;
        place(pd, shared, memory, sges, middle, second)?;
        return place(pd, shared, memory, sges, offset, first);
    }
    place(pd, shared, memory, sges, offset, bytes)
}

fn place<M: Memory + ?Sized>(
    pd: PdId,
    shared: &Shared,
    memory: &M,
    sges: &[Sge],
    offset: u64,
    bytes: &[u8],
) -> Result<(), Failure> {
    each_piece(sges, offset, bytes.len(), |sge, addr, range| {
        let Some(piece) = bytes.get(range) else { return Err(WcStatus::LocalLengthError.into()) };
        let length = piece.len() as u64;
        let overlooked = planted::has(planted::Fault::ReceiveReadOnly);
        let needs = if overlooked { Access::empty() } else { Access::LOCAL_WRITE };
        let request = local_request(pd, sge.lkey, addr, length, needs);
        let grant = shared.protection.check(&request)?;
        Ok(memory.write(grant.memory, grant.offset, piece)?)
    })
}

/// Calls `act` with each piece of `sges` that bytes `offset .. offset + len` of the message lie
/// in: the element, the address, and the range within those bytes.
// [rc-responder/send-scatter] [read-atomic/read-local-range] [protection/sge-each]
fn each_piece(
    sges: &[Sge],
    offset: u64,
    len: usize,
    mut act: impl FnMut(&Sge, u64, core::ops::Range<usize>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (mut skip, mut done) = (offset, 0);
    for sge in sges {
        if done == len {
            break;
        }
        let size = u64::from(sge.length);
        if skip >= size {
            skip -= size;
            continue;
        }
        let room = usize::try_from(size - skip).unwrap_or(usize::MAX);
        let take = room.min(len - done);
        act(sge, sge.addr.wrapping_add(skip), done..done + take)?;
        skip = 0;
        done += take;
    }
    if done == len { Ok(()) } else { Err(WcStatus::LocalLengthError.into()) }
}

/// Carries out a bind or an invalidate.
pub(crate) fn execute(qp: &Qp, shared: &mut Shared, wqe: &SendWqe) -> Result<(), Failure> {
    match wqe.op {
        SendOp::BindMw { window, new_rkey, window_type, bind } => {
            // The index names a window of type 2: whoever posts need not know which of the binds
            // that were posted before have been carried out. Of type 1 the key counts on them.
            let present = shared.protection.query_window(window);
            let present = present.filter(|_| window_type != WindowType::Type1);
            let window = present.map_or(window, |(present, ..)| present);
            let request =
                BindRequest { window, new_rkey, window_type, bind, qp: qp.num, qp_pd: qp.init.pd };
            let bound = shared.protection.bind(request);
            bound.map(|_| ()).map_err(|_| WcStatus::MwBindError.into())
        }
        SendOp::LocalInvalidate { key } => shared
            .protection
            .invalidate_local(key, qp.num, qp.init.pd)
            .map_err(|_| WcStatus::MwBindError.into()),
        SendOp::Send { .. }
        | SendOp::SendTo { .. }
        | SendOp::Write { .. }
        | SendOp::Read { .. }
        | SendOp::CompareSwap { .. }
        | SendOp::FetchAdd { .. }
        | SendOp::AtomicWrite { .. }
        | SendOp::Flush { .. } => Ok(()),
    }
}
