//! Carrying out a request that is in sequence.

use crate::counters::Counter;
use crate::device::Shared;
use crate::memory::Memory;
use crate::protection::{AccessRequest, Grant, Side};
use crate::queue::{CqEntry, Slot};
use crate::verbs::{Access, Key, PdId, QpNum, SrqId, Wc, WcFlags, WcOpcode, WcStatus};
use crate::wire::{OpcodeFacts, Operation, Packet};

use super::judge::{judge_capability, judge_length, judge_permission};
use super::landing::Landing;
use super::replays::Replay;
use super::responses::{ReadRest, Response};
use super::{Fault, Message, late, placement};
use crate::qp::pair::{Qp, Taken};
use crate::qp::{MAX_MESSAGE_BYTES, local};

/// Judges and executes one packet. Returns how many sequence numbers it takes.
// [rc-responder/check-order]
pub(super) fn execute<M: Memory + ?Sized>(
    qp: &mut Qp,
    shared: &mut Shared,
    memory: &M,
    landing: Landing,
    facts: &OpcodeFacts,
    packet: &Packet<'_>,
) -> Result<u32, Fault> {
    judge_capability(facts.operation, packet, shared.attributes.capabilities)?;
    judge_permission(facts.operation, packet, qp.attr.access)?;
    match facts.operation {
        Operation::Send => send(qp, shared, memory, landing, facts, packet).map(|()| 1),
        Operation::Write => write(qp, shared, memory, landing, facts, packet).map(|()| 1),
        Operation::ReadRequest => read(qp, shared, landing, facts, packet),
        Operation::CompareSwap | Operation::FetchAdd => {
            atomic(qp, shared, memory, landing, facts, packet).map(|()| 1)
        }
        Operation::AtomicWrite => {
            placement::atomic_write(qp, shared, memory, landing, facts, packet).map(|()| 1)
        }
        Operation::Flush => placement::flush(qp, shared, landing, facts, packet).map(|()| 1),
        Operation::ReadResponse
        | Operation::Acknowledge
        | Operation::AtomicAcknowledge
        | Operation::CongestionNotification => Err(Fault::UnsupportedOpcode),
    }
}

/// The right to what a peer names.
pub(super) fn remote_grant(
    qp: &Qp,
    shared: &Shared,
    pd: PdId,
    key: Key,
    addr: u64,
    length: u64,
    needs: Access,
) -> Result<Grant, Fault> {
    let side = Side::Remote { qp: qp.num };
    let request = AccessRequest { key, side, pd, addr, length, needs };
    Ok(shared.protection.check(&request)?)
}

// [rc-responder/receive-order]
fn take_recv(qp: &mut Qp, shared: &mut Shared, srq: Option<SrqId>) -> Result<Taken, Fault> {
    match qp.responder.spare.take() {
        Some(taken) => Ok(taken),
        None => qp.take_recv(shared, srq).ok_or(Fault::NotReady),
    }
}

fn send<M: Memory + ?Sized>(
    qp: &mut Qp,
    shared: &mut Shared,
    memory: &M,
    landing: Landing,
    facts: &OpcodeFacts,
    packet: &Packet<'_>,
) -> Result<(), Fault> {
    let (taken, received) = match qp.responder.message {
        Message::Send { taken, received } => (taken, received),
        Message::Idle | Message::Skip | Message::Write { .. } => {
            (take_recv(qp, shared, landing.srq)?, 0)
        }
    };
    qp.responder.message = Message::Send { taken, received };
    judge_length(facts, packet, qp.attr.path_mtu)?;
    let total = received + packet.payload.len() as u64;
    if total > u64::from(MAX_MESSAGE_BYTES) {
        return Err(Fault::BadLength);
    }
    // [rc-responder/receive-too-small]
    if total > qp.recv_wqe(shared, taken).length {
        return Err(Fault::ReceiveTooSmall);
    }
    // [rc-responder/send-scatter]
    local::scatter_receive(qp, shared, memory, taken, received, packet.payload)?;
    if !facts.place.ends() {
        qp.responder.message = Message::Send { taken, received: total };
        return Ok(());
    }
    let invalidated = packet.ieth().map(crate::wire::Ieth::rkey);
    // [windows-invalidation/remote-invalidate] [windows-invalidation/remote-invalidate-wrong]
    if let Some(key) = invalidated {
        shared.protection.invalidate_remote(key, qp.num, landing.pd)?;
    }
    qp.responder.message = Message::Idle;
    qp.responder.msn = next_msn(qp.responder.msn);
    let byte_len = u32::try_from(total).unwrap_or(u32::MAX);
    deliver(qp, shared, taken, packet, WcOpcode::Recv, byte_len);
    Ok(())
}

// [rc-responder/msn]
pub(super) const fn next_msn(msn: u32) -> u32 {
    msn.wrapping_add(1) & 0x00ff_ffff
}

/// Completes a receive request.
// [completions/receive-always] [completions/byte-len]
fn deliver(
    qp: &mut Qp,
    shared: &mut Shared,
    taken: Taken,
    packet: &Packet<'_>,
    opcode: WcOpcode,
    byte_len: u32,
) {
    let imm = packet.imm_dt().map(crate::wire::ImmDt::data);
    let invalidated = packet.ieth().map(crate::wire::Ieth::rkey);
    let mut flags = WcFlags::empty();
    // [completions/imm-flag] [completions/inv-flag] [completions/grh-flag]
    flags.set(WcFlags::WITH_IMM, imm.is_some());
    flags.set(WcFlags::WITH_INV, invalidated.is_some());
    flags.set(WcFlags::GRH, shared.profile.grh_flag_on_connected);
    let wc = Wc {
        wr_id: qp.recv_wqe(shared, taken).wr_id,
        status: WcStatus::Success,
        opcode,
        flags,
        vendor_err: 0,
        byte_len,
        imm_data: imm.unwrap_or(0),
        invalidated_rkey: invalidated.unwrap_or(Key(0)),
        qp_num: qp.num,
        src_qp: QpNum::new(0),
        pkey_index: 0,
        timestamp: 0,
        sl: 0,
    };
    let cq = qp.recv_cq(shared, taken);
    qp.release_recv(shared, taken);
    shared.count(Counter::RdmaReceives);
    let entry = CqEntry { wc, slot: Slot::Receive };
    shared.complete(cq, entry, packet.bth.solicited());
}

fn write<M: Memory + ?Sized>(
    qp: &mut Qp,
    shared: &mut Shared,
    memory: &M,
    Landing { pd, srq }: Landing,
    facts: &OpcodeFacts,
    packet: &Packet<'_>,
) -> Result<(), Fault> {
    // [rc-responder/write-imm-receive] [rnr/nothing-placed]
    // A receive is needed for the immediate before anything is placed, so that the packet can
    // come again.
    if packet.imm_dt().is_some()
        && qp.responder.spare.is_none()
        && qp.peek_recv(shared, srq).is_none()
    {
        return Err(Fault::NotReady);
    }
    judge_length(facts, packet, qp.attr.path_mtu)?;
    let (key, addr, left, length) = match (qp.responder.message, packet.reth()) {
        (Message::Write { key, addr, left, length, .. }, None) => (key, addr, left, length),
        (_, Some(reth)) => (reth.rkey(), reth.va(), reth.len(), reth.len()),
        (_, None) => return Err(Fault::OpcodeSequence),
    };
    let here = u32::try_from(packet.payload.len()).map_err(|_| Fault::BadLength)?;
    // [rc-responder/length-reth] [rc-responder/length-write-sum]
    // Last and Only bring exactly the rest, First and Middle less than that.
    if length > MAX_MESSAGE_BYTES || if facts.place.ends() { here != left } else { here >= left } {
        return Err(Fault::BadLength);
    }
    // [read-atomic/write-zero-length] [protection/zero-length-key]
    if length != 0 {
        // [rc-responder/write-judged-first] [rc-responder/write-judged-again]
        // [protection/range-whole-message] [protection/no-partial-write]
        // The first packet is judged for the whole message, each later one for what it brings:
        // the right may have gone in between.
        let judged = if packet.reth().is_some() { length } else { here };
        let judged = u64::from(judged);
        let grant = remote_grant(qp, shared, pd, key, addr, judged, Access::REMOTE_WRITE)?;
        // [attacks/partial-placement]
        // A receive that tells of it is completed at once.
        let whole = packet.imm_dt().is_some();
        late::place_write(qp, shared, memory, grant, (pd, key, addr), packet.payload, whole)?;
    }
    if !facts.place.ends() {
        let addr = addr.wrapping_add(u64::from(here));
        qp.responder.message = Message::Write { key, addr, left: left - here, length, srq };
        return Ok(());
    }
    qp.responder.message = Message::Idle;
    qp.responder.msn = next_msn(qp.responder.msn);
    // [rc-responder/write-silent] [rnr/read-write-need-none]
    if packet.imm_dt().is_some() {
        let taken = take_recv(qp, shared, srq)?;
        deliver(qp, shared, taken, packet, WcOpcode::RecvRdmaWithImm, length);
    }
    Ok(())
}

fn read(
    qp: &mut Qp,
    shared: &mut Shared,
    Landing { pd, .. }: Landing,
    facts: &OpcodeFacts,
    packet: &Packet<'_>,
) -> Result<u32, Fault> {
    if !qp.responder.responses.admits_read() {
        return Err(Fault::TooManyReads);
    }
    judge_length(facts, packet, qp.attr.path_mtu)?;
    let Some(reth) = packet.reth() else { return Err(Fault::BadLength) };
    let (key, addr, length) = (reth.rkey(), reth.va(), reth.len());
    if length > MAX_MESSAGE_BYTES {
        return Err(Fault::BadLength);
    }
    // [read-atomic/read-zero-length] [protection/zero-length-key]
    if length != 0 {
        remote_grant(qp, shared, pd, key, addr, u64::from(length), Access::REMOTE_READ)?;
    }
    let psn = qp.responder.expected;
    let psns = length.div_ceil(qp.attr.path_mtu.bytes()).max(1);
    qp.responder.msn = next_msn(qp.responder.msn);
    let msn = qp.responder.msn;
    qp.responder.replays.keep(Replay::Read { psn, psns, pd, key, addr, length, msn });
    let rest = ReadRest { psn, pd, key, addr, left: length, msn, begun: false, again: false };
    qp.responder.owe(shared, Response::Read(rest));
    Ok(psns)
}

fn atomic<M: Memory + ?Sized>(
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
    let Some(eth) = packet.atomic_eth() else { return Err(Fault::BadLength) };
    // [read-atomic/atomic-aligned]
    if !eth.va().is_multiple_of(8) {
        return Err(Fault::Misaligned);
    }
    let grant = remote_grant(qp, shared, pd, eth.rkey(), eth.va(), 8, Access::REMOTE_ATOMIC)?;
    // [read-atomic/compare-swap] [read-atomic/fetch-add]
    let original = if facts.operation == Operation::CompareSwap {
        memory.compare_swap(grant.memory, grant.offset, eth.compare(), eth.swap_or_add())?
    } else {
        memory.fetch_add(grant.memory, grant.offset, eth.swap_or_add())?
    };
    qp.responder.msn = next_msn(qp.responder.msn);
    let (psn, msn) = (qp.responder.expected, qp.responder.msn);
    qp.responder.replays.keep(Replay::Atomic { psn, original, msn });
    qp.responder.owe(shared, Response::Atomic { psn, original, msn, again: false });
    Ok(())
}
