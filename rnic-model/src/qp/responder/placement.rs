//! ATOMIC WRITE and FLUSH (annex A19). Both are answered like a READ of no bytes, in their turn, and
//! take a place among the READs that may be open.

use core::sync::atomic::{Ordering, fence};

use crate::device::Shared;
use crate::memory::Memory;
use crate::protection::Side;
use crate::qp::pair::Qp;
use crate::verbs::{Access, Key, PdId, Selectivity};
use crate::wire::{OpcodeFacts, Packet};

use super::Fault;
use super::execute::{next_msn, remote_grant};
use super::judge::{flush_asked, judge_length};
use super::landing::Landing;
use super::replays::Replay;
use super::responses::{ReadRest, Response};

/// The 8 bytes come to be all at once.
pub(super) fn atomic_write<M: Memory + ?Sized>(
    qp: &mut Qp,
    shared: &mut Shared,
    memory: &M,
    Landing { pd, .. }: Landing,
    facts: &OpcodeFacts,
    packet: &Packet<'_>,
) -> Result<(), Fault> {
    if !qp.responder.responses.admits_read() {
        return Err(Fault::TooManyReads);
    }
    judge_length(facts, packet, qp.attr.path_mtu)?;
    let reth = packet.reth().ok_or(Fault::BadLength)?;
    let bytes: [u8; 8] = packet.payload.try_into().map_err(|_| Fault::BadLength)?;
    // [flush-placement/atomic-write-length]
    if reth.len() != 8 {
        return Err(Fault::BadLength);
    }
    // [flush-placement/atomic-write-aligned]
    if !reth.va().is_multiple_of(8) {
        return Err(Fault::Misaligned);
    }
    // [flush-placement/atomic-write-right]
    let grant = remote_grant(qp, shared, pd, reth.rkey(), reth.va(), 8, Access::REMOTE_WRITE)?;
    memory.store(grant.memory, grant.offset, u64::from_ne_bytes(bytes))?;
    answer(qp, shared, pd, reth.rkey(), reth.va());
    Ok(())
}

/// Everything before it has been carried out already, in order, for there is no cache between the
/// device and memory: what is left is that nobody who learns of the answer may see older bytes.
// [flush-placement/flush-after-writes]
pub(super) fn flush(
    qp: &mut Qp,
    shared: &mut Shared,
    Landing { pd, .. }: Landing,
    facts: &OpcodeFacts,
    packet: &Packet<'_>,
) -> Result<(), Fault> {
    if !qp.responder.responses.admits_read() {
        return Err(Fault::TooManyReads);
    }
    judge_length(facts, packet, qp.attr.path_mtu)?;
    let reth = packet.reth().ok_or(Fault::BadLength)?;
    let (placement, selectivity) = flush_asked(packet)?;
    let (key, addr, needs) = (reth.rkey(), reth.va(), placement.rights());
    match selectivity {
        // [flush-placement/flush-key-checked] [flush-placement/flush-range]
        // Also of length 0, unlike READ and WRITE, the key must be right.
        Selectivity::Range => {
            remote_grant(qp, shared, pd, key, addr, reth.len().into(), needs)?;
        }
        // [flush-placement/flush-region]
        Selectivity::Region => {
            let side = Side::Remote { qp: qp.num };
            // [flush-placement/flush-region-right]
            shared.protection.check_whole(key, side, pd, needs)?;
        }
    }
    fence(Ordering::SeqCst);
    answer(qp, shared, pd, key, addr);
    Ok(())
}

/// Answers, and keeps what is needed to do so again.
// [flush-placement/flush-response]
fn answer(qp: &mut Qp, shared: &mut Shared, pd: PdId, key: Key, addr: u64) {
    let responder = &mut qp.responder;
    responder.msn = next_msn(responder.msn);
    let (psn, msn) = (responder.expected, responder.msn);
    responder.replays.keep(Replay::Read { psn, psns: 1, pd, key, addr, length: 0, msn });
    let rest = ReadRest { psn, pd, key, addr, left: 0, msn, begun: false, again: false };
    responder.owe(shared, Response::Read(rest));
}
