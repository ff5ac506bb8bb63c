//! Requests that were received before (IBA 9.7.5.1.4). A SEND or WRITE is acknowledged again and
//! not executed again; a READ is executed again; an atomic is answered from what was kept, and so are
//! ATOMIC WRITE and FLUSH.

use crate::counters::Counter;
use crate::device::Shared;
use crate::qp::pair::Qp;
use crate::wire::{OpcodeFacts, Operation, Packet};

use super::replays::Replay;
use super::responses::{ReadRest, Response};

// [acknowledgement-retry/lost-ack-not-twice] [attacks/replay]
pub(super) fn on_duplicate(
    qp: &mut Qp,
    shared: &mut Shared,
    facts: &OpcodeFacts,
    packet: &Packet<'_>,
) {
    shared.count(Counter::DuplicateRequest);
    let answered = match facts.operation {
        // [rc-responder/duplicate-send-write]
        Operation::Send | Operation::Write => {
            qp.responder.acknowledge(shared);
            true
        }
        Operation::ReadRequest => read_again(qp, packet),
        Operation::AtomicWrite | Operation::Flush => done_again(qp, packet),
        Operation::CompareSwap | Operation::FetchAdd => atomic_again(qp, packet),
        Operation::ReadResponse
        | Operation::Acknowledge
        | Operation::AtomicAcknowledge
        | Operation::CongestionNotification => false,
    };
    if !answered {
        shared.count(Counter::DropInvalidDuplicate);
    }
}

/// Only a READ whose sequence numbers, key and range lie inside the original one is answered.
// [read-atomic/read-duplicate-again] [read-atomic/read-duplicate-invalid]
fn read_again(qp: &mut Qp, packet: &Packet<'_>) -> bool {
    let got = packet.bth.psn();
    let Some(Replay::Read { psn, pd, key, addr, length, msn, .. }) = qp.responder.replays.find(got)
    else {
        return false;
    };
    let Some(reth) = packet.reth() else { return false };
    let done = got.offset_from(psn) << qp.attr.path_mtu.shift();
    let inside = reth.rkey() == key
        && reth.va() == addr.wrapping_add(u64::from(done))
        && reth.len() <= length.saturating_sub(done)
        && packet.payload.is_empty();
    if !inside || done > length {
        return false;
    }
    let left = reth.len();
    let rest =
        ReadRest { psn: got, pd, key, addr: reth.va(), left, msn, begun: false, again: true };
    qp.responder.responses.repeat(Response::Read(rest))
}

/// An ATOMIC WRITE or a FLUSH was carried out; what else it did or wrote has been seen since.
// [flush-placement/flush-duplicate] [flush-placement/atomic-write-duplicate]
fn done_again(qp: &mut Qp, packet: &Packet<'_>) -> bool {
    let got = packet.bth.psn();
    let Some(Replay::Read { psn, pd, key, addr, length: 0, msn, .. }) =
        qp.responder.replays.find(got)
    else {
        return false;
    };
    let same = packet.reth().is_some_and(|reth| reth.rkey() == key && reth.va() == addr);
    let rest = ReadRest { psn, pd, key, addr, left: 0, msn, begun: false, again: true };
    same && qp.responder.responses.repeat(Response::Read(rest))
}

// [read-atomic/atomic-once] [read-atomic/atomic-duplicate-forgotten]
fn atomic_again(qp: &mut Qp, packet: &Packet<'_>) -> bool {
    let got = packet.bth.psn();
    let Some(Replay::Atomic { psn, original, msn }) = qp.responder.replays.find(got) else {
        return false;
    };
    qp.responder.responses.repeat(Response::Atomic { psn, original, msn, again: true })
}
