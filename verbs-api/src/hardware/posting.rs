//! Work requests, in chains as C has them.

use core::ffi::c_int;
use core::mem::MaybeUninit;

use softrnic_model::verbs::{AhId, Key, QpType, RecvWr, SendFlags, SendOp, SendWr, VerbError};

use super::errno::errno_of;
use super::layout::{
    Ptr, Zeroed, ibv_ah, ibv_mr, ibv_mw, ibv_qp_ex, ibv_recv_wr, ibv_send_wr, ibv_sge,
};
use super::life::Life;
use crate::provider::{PostError, Verb};

const REFUSED: &str = "the device refused the work request";

/// Requests that are posted at a time.
const BATCH: usize = 8;

/// `ibv_wr_opcode`
mod opcode {
    pub(super) const RDMA_WRITE: u32 = 0;
    pub(super) const RDMA_WRITE_WITH_IMM: u32 = 1;
    pub(super) const SEND: u32 = 2;
    pub(super) const SEND_WITH_IMM: u32 = 3;
    pub(super) const RDMA_READ: u32 = 4;
    pub(super) const ATOMIC_CMP_AND_SWP: u32 = 5;
    pub(super) const ATOMIC_FETCH_AND_ADD: u32 = 6;
    pub(super) const LOCAL_INV: u32 = 7;
    pub(super) const BIND_MW: u32 = 8;
    pub(super) const SEND_WITH_INV: u32 = 9;
    pub(super) const ATOMIC_WRITE: u32 = 15;
}

/// Who knows what requests name by number.
pub(super) trait Names {
    fn ah(&self, ah: AhId) -> Verb<Ptr<ibv_ah>>;
    fn mr(&self, lkey: Key) -> Verb<Ptr<ibv_mr>>;
    fn mw(&self, window: Key) -> Verb<Ptr<ibv_mw>>;
}

/// Two 32-bit fields of C in one word.
fn halves(first: u32, second: u32) -> u64 {
    let [a, b, c, d] = first.to_ne_bytes();
    let [e, f, g, h] = second.to_ne_bytes();
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

/// The address of an object as a number that C reads as a pointer.
fn address<T>(object: Ptr<T>) -> u64 {
    object.as_ptr().expose_provenance() as u64
}

/// Drivers take the address handle of any request on UD from where the others have the remote address: one without it
/// would be followed into memory that is none. Nothing but [`SendOp::SendTo`] gets there, and that nowhere else.
const fn names_handle_where_needed(qp_type: QpType, op: &SendOp) -> Verb<()> {
    if matches!(qp_type, QpType::Ud) == matches!(op, SendOp::SendTo { .. }) {
        return Ok(());
    }
    Err(VerbError::Invalid("op: the service has no such operation"))
}

/// Fills in what a request asks for.
fn operation(into: &mut ibv_send_wr, op: &SendOp, names: &dyn Names) -> Verb<()> {
    let immediate = |imm: Option<u32>| imm.map_or(0, u32::to_be);
    match *op {
        SendOp::Send { imm, invalidate: None } => {
            into.opcode = if imm.is_some() { opcode::SEND_WITH_IMM } else { opcode::SEND };
            into.imm_data = immediate(imm);
        }
        SendOp::Send { imm: None, invalidate: Some(key) } => {
            into.opcode = opcode::SEND_WITH_INV;
            into.imm_data = key.0;
        }
        SendOp::Send { imm: Some(_), invalidate: Some(_) } => {
            return Err(VerbError::Invalid("a SEND has an immediate or a key, not both"));
        }
        SendOp::SendTo { ah, remote_qpn, remote_qkey, imm } => {
            into.opcode = if imm.is_some() { opcode::SEND_WITH_IMM } else { opcode::SEND };
            into.imm_data = immediate(imm);
            into.wr[0] = address(names.ah(ah)?);
            into.wr[1] = halves(remote_qpn.get(), remote_qkey);
        }
        SendOp::Write { remote_addr, rkey, imm } => {
            into.opcode =
                if imm.is_some() { opcode::RDMA_WRITE_WITH_IMM } else { opcode::RDMA_WRITE };
            into.imm_data = immediate(imm);
            (into.wr[0], into.wr[1]) = (remote_addr, halves(rkey.0, 0));
        }
        SendOp::Read { remote_addr, rkey } => {
            into.opcode = opcode::RDMA_READ;
            (into.wr[0], into.wr[1]) = (remote_addr, halves(rkey.0, 0));
        }
        SendOp::AtomicWrite { remote_addr, rkey } => {
            into.opcode = opcode::ATOMIC_WRITE;
            (into.wr[0], into.wr[1]) = (remote_addr, halves(rkey.0, 0));
        }
        SendOp::CompareSwap { remote_addr, rkey, compare, swap } => {
            into.opcode = opcode::ATOMIC_CMP_AND_SWP;
            into.wr = [remote_addr, compare, swap, halves(rkey.0, 0)];
        }
        SendOp::FetchAdd { remote_addr, rkey, add } => {
            into.opcode = opcode::ATOMIC_FETCH_AND_ADD;
            into.wr = [remote_addr, add, 0, halves(rkey.0, 0)];
        }
        SendOp::BindMw { window, new_rkey, bind, .. } => {
            into.opcode = opcode::BIND_MW;
            into.mw = Some(names.mw(window)?);
            into.mw_rkey = new_rkey.0;
            into.bind_info.mr = if bind.length == 0 && bind.mr_lkey == Key(0) {
                None
            } else {
                Some(names.mr(bind.mr_lkey)?)
            };
            into.bind_info.addr = bind.addr;
            into.bind_info.length = bind.length;
            into.bind_info.mw_access_flags = bind.access.bits();
        }
        SendOp::LocalInvalidate { key } => {
            into.opcode = opcode::LOCAL_INV;
            into.imm_data = key.0;
        }
        SendOp::Flush { .. } => return Err(NO_FLUSH),
    }
    Ok(())
}

/// `ibv_post_send(3)` has none; queue pairs of devices that can are posted to by [`flush`].
const NO_FLUSH: VerbError = VerbError::NotSupported("the device has no FLUSH");

/// Posts a FLUSH, for which there is only the extended interface (`ibv_wr_post(3)`).
///
/// # Safety
/// `pair` is there, and was made for that interface.
pub(super) unsafe fn flush(pair: Ptr<ibv_qp_ex>, wr: &SendWr<'_>, life: &Life) -> Verb<()> {
    let SendOp::Flush { remote_addr, rkey, length, placement, selectivity } = wr.op else {
        return Err(VerbError::Invalid("op: not a FLUSH"));
    };
    let length = length as usize;
    let (kind, level) = (placement.bits(), selectivity as u8);
    // SAFETY: the caller's promise; between start and complete the pair is this thread's, by the
    // library's own lock.
    unsafe {
        let extended = *pair.as_ptr();
        let (start, act) = (extended.wr_start.ok_or(NO_FLUSH)?, extended.wr_flush.ok_or(NO_FLUSH)?);
        let complete = extended.wr_complete.ok_or(NO_FLUSH)?;
        start(Some(pair));
        (&raw mut (*pair.as_ptr()).wr_id).write(wr.wr_id);
        (&raw mut (*pair.as_ptr()).wr_flags).write(wr.flags.bits().into());
        act(Some(pair), rkey.0, remote_addr, length, kind, level);
        match complete(Some(pair)) {
            0 => Ok(()),
            returned => Err(life.refused(errno_of(returned), REFUSED)),
        }
    }
}

/// How many elements, as C counts.
fn count(elements: usize) -> Verb<c_int> {
    c_int::try_from(elements).map_err(|_| VerbError::Invalid("too many elements"))
}

/// A request of C. Its inline bytes are named by `inline`.
fn send_request(wr: &SendWr<'_>, inline: &mut ibv_sge, names: &dyn Names) -> Verb<ibv_send_wr> {
    let mut into = ibv_send_wr::zeroed();
    into.wr_id = wr.wr_id;
    into.send_flags = wr.flags.bits().into();
    into.remote_srqn = wr.remote_srq.get();
    operation(&mut into, &wr.op, names)?;
    if !wr.flags.contains(SendFlags::INLINE) {
        if !wr.inline.is_empty() {
            return Err(VerbError::Invalid("inline: there are bytes, but no INLINE flag"));
        }
        into.sg_list = wr.sges.as_ptr().cast_mut();
        into.num_sge = count(wr.sges.len())?;
    } else if !wr.inline.is_empty() {
        inline.addr = wr.inline.as_ptr().expose_provenance() as u64;
        inline.length = u32::try_from(wr.inline.len())
            .map_err(|_| VerbError::Invalid("too many inline bytes"))?;
        into.sg_list = &raw mut *inline;
        into.num_sge = 1;
    }
    Ok(into)
}

/// The position of the request that was refused, in a batch that begins at `first`.
fn refused_at<W>(bad: *mut W, first: *const W, len: usize) -> usize {
    let distance = bad.addr().wrapping_sub(first.addr()) / size_of::<W>();
    if bad.is_null() || distance >= len { 0 } else { distance }
}

/// Makes a chain of the first `len` requests of an array that begins at `first`; all have been written.
fn link<W>(first: *mut W, len: usize, next: impl Fn(&mut W) -> &mut *mut W) {
    for index in 1..len {
        // SAFETY: the caller's array has `len` requests, and nobody else has it.
        unsafe { *next(&mut *first.add(index - 1)) = first.add(index) };
    }
}

/// Posts sends by `post`, which is the device's `post_send` of a queue pair of that type.
pub(super) fn sends(
    qp_type: QpType,
    wrs: &[SendWr<'_>],
    names: &dyn Names,
    life: &Life,
    post: impl Fn(*mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int,
) -> Result<(), PostError> {
    for (number, some) in wrs.chunks(BATCH).enumerate() {
        let at = |index| number * BATCH + index;
        let mut inline = [ibv_sge::default(); BATCH];
        let mut chain = [const { MaybeUninit::<ibv_send_wr>::uninit() }; BATCH];
        let first = chain.as_mut_ptr().cast::<ibv_send_wr>();
        let mut failed = None;
        let mut ready = 0;
        for ((wr, inline), place) in some.iter().zip(&mut inline).zip(&mut chain) {
            let allowed = names_handle_where_needed(qp_type, &wr.op);
            match allowed.and_then(|()| send_request(wr, inline, names)) {
                Ok(request) => place.write(request),
                // What comes before a request that is wrong is posted.
                Err(error) => {
                    failed = Some(PostError { index: at(ready), error });
                    break;
                }
            };
            ready += 1;
        }
        link(first, ready, |wr| &mut wr.next);
        if ready > 0 {
            let mut bad = core::ptr::null_mut();
            let returned = post(first, &raw mut bad);
            if returned != 0 {
                let index = at(refused_at(bad, first, ready));
                let error = life.refused(errno_of(returned), REFUSED);
                return Err(PostError { index, error });
            }
        }
        failed.map_or(Ok(()), Err)?;
    }
    Ok(())
}

/// Posts receives by `post`.
pub(super) fn receives(
    wrs: &[RecvWr<'_>],
    life: &Life,
    post: impl Fn(*mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int,
) -> Result<(), PostError> {
    for (number, some) in wrs.chunks(BATCH).enumerate() {
        let at = |index| number * BATCH + index;
        let mut chain = [const { MaybeUninit::<ibv_recv_wr>::uninit() }; BATCH];
        let first = chain.as_mut_ptr().cast::<ibv_recv_wr>();
        for (index, (wr, place)) in some.iter().zip(&mut chain).enumerate() {
            let num_sge =
                count(wr.sges.len()).map_err(|error| PostError { index: at(index), error })?;
            place.write(ibv_recv_wr {
                wr_id: wr.wr_id,
                next: core::ptr::null_mut(),
                sg_list: wr.sges.as_ptr().cast_mut(),
                num_sge,
            });
        }
        link(first, some.len(), |wr| &mut wr.next);
        let mut bad = core::ptr::null_mut();
        let returned = post(first, &raw mut bad);
        if returned != 0 {
            let index = at(refused_at(bad, first, some.len()));
            let error = life.refused(errno_of(returned), REFUSED);
            return Err(PostError { index, error });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use softrnic_model::verbs::QpNum;

    use super::*;

    #[test]
    fn datagrams_name_a_handle_and_nothing_else_does() {
        let to =
            SendOp::SendTo { ah: AhId(0), remote_qpn: QpNum::new(1), remote_qkey: 0, imm: None };
        let others = [
            SendOp::Send { imm: None, invalidate: None },
            SendOp::Write { remote_addr: 0x1000, rkey: Key(7), imm: None },
            SendOp::Read { remote_addr: 0x1000, rkey: Key(7) },
            SendOp::FetchAdd { remote_addr: 0x1000, rkey: Key(7), add: 1 },
            SendOp::LocalInvalidate { key: Key(7) },
        ];
        for qp_type in [QpType::Rc, QpType::Uc, QpType::XrcSend] {
            assert!(names_handle_where_needed(qp_type, &to).is_err(), "{qp_type:?}");
            for op in &others {
                assert_eq!(names_handle_where_needed(qp_type, op), Ok(()), "{qp_type:?} {op:?}");
            }
        }
        assert_eq!(names_handle_where_needed(QpType::Ud, &to), Ok(()));
        for op in &others {
            assert!(names_handle_where_needed(QpType::Ud, op).is_err(), "{op:?}");
        }
    }
}
