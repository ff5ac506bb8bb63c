//! What a profile may put off: answers, and the first half of what a WRITE brings.
//!
//! No rule says how soon a responder acknowledges, nor in which order bytes come to memory before a
//! completion tells that they are there. A profile that is strict about that answers late and places the
//! second half of a packet first ([`PlacementOrder::LastBytesFirst`]); the first half waits for the next
//! packet of the queue pair, or for the answer, whichever comes first. A peer that was told that its
//! WRITE is done finds all of it.

use alloc::vec::Vec;

use crate::Instant;
use crate::counters::Counter;
use crate::device::Shared;
use crate::memory::Memory;
use crate::profile::PlacementOrder;
use crate::protection::Grant;
use crate::qp::pair::Qp;
use crate::verbs::{Access, Key, PdId, Psn};

use super::execute::remote_grant;
use super::{Fault, fail};

/// Bytes that are still to be placed.
#[derive(Debug)]
pub(super) struct Late {
    /// Of which packet.
    psn: Psn,
    pd: PdId,
    key: Key,
    addr: u64,
    /// None if nothing waits. The room is kept.
    bytes: Vec<u8>,
}

impl Default for Late {
    fn default() -> Self {
        let (psn, pd, key) = (Psn::new(0), PdId(0), Key(0));
        Self { psn, pd, key, addr: 0, bytes: Vec::new() }
    }
}

impl Late {
    pub(super) fn is_some(&self) -> bool {
        !self.bytes.is_empty()
    }

    pub(super) fn forget(&mut self) {
        self.bytes.clear();
    }
}

/// Brings the payload of a WRITE to where it was granted to go. Where `whole`, all of it is there on
/// return.
// [profiles/placement-order]
pub(super) fn place_write<M: Memory + ?Sized>(
    qp: &mut Qp,
    shared: &Shared,
    memory: &M,
    grant: Grant,
    (pd, key, addr): (PdId, Key, u64),
    payload: &[u8],
    whole: bool,
) -> Result<(), Fault> {
    if shared.profile.placement == PlacementOrder::AtOnce {
        return Ok(memory.write(grant.memory, grant.offset, payload)?);
    }
    let (first, second) = payload.split_at(payload.len() / 2);
    memory.write(grant.memory, grant.offset.wrapping_add(first.len() as u64), second)?;
    if whole {
        return Ok(memory.write(grant.memory, grant.offset, first)?);
    }
    let psn = qp.responder.expected;
    let late = &mut qp.responder.late;
    (late.psn, late.pd, late.key, late.addr) = (psn, pd, key, addr);
    late.bytes.clear();
    late.bytes.extend_from_slice(first);
    Ok(())
}

/// Places what is late. If its right has gone in between the WRITE is refused after all.
// [profiles/late-bytes-refused] [profiles/late-bytes-seen-by-what-follows]
pub(crate) fn place_late<M: Memory + ?Sized>(qp: &mut Qp, shared: &mut Shared, memory: &M) {
    if !qp.responder.late.is_some() {
        return;
    }
    let Late { psn, pd, key, addr, .. } = qp.responder.late;
    let length = qp.responder.late.bytes.len() as u64;
    let placed =
        remote_grant(qp, shared, pd, key, addr, length, Access::REMOTE_WRITE).and_then(|grant| {
            Ok(memory.write(grant.memory, grant.offset, &qp.responder.late.bytes)?)
        });
    qp.responder.late.forget();
    let Err(fault) = placed else { return };
    if !qp.init.qp_type.is_reliable() {
        return shared.count(Counter::DropRefused);
    }
    // What was not answered yet is not answered any more; the refusal stands for it.
    qp.responder.responses.clear();
    qp.responder.expected = psn;
    fail(qp, shared, fault);
}

/// A request was carried out: its answer may wait, and so may what of it is still to be placed.
// [profiles/answer-delay] [profiles/late-bytes-without-answer]
pub(super) fn put_off(qp: &mut Qp, shared: &mut Shared) {
    let delay_ns = shared.profile.answer_delay_ns;
    let waits = delay_ns != 0 || qp.responder.late.is_some();
    if waits && qp.responder.held_until.is_none() {
        let until = shared.now.plus_ns(delay_ns);
        qp.responder.held_until = Some(until);
        shared.held_answers.push_back((until, qp.index));
    }
}

/// The time is over for which answers were held back.
pub(crate) fn release(qp: &mut Qp, now: Instant) {
    if qp.responder.held_until.is_some_and(|until| until <= now) {
        qp.responder.held_until = None;
    }
}
