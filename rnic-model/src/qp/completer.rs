//! The completer: what acknowledgements, responses and silence mean for requests under way.

use crate::Instant;
use crate::counters::Counter;
use crate::device::Shared;
use crate::memory::Memory;
use crate::planted;
use crate::queue::{CqEntry, Slot};
use crate::verbs::{
    AsyncEvent, Key, Psn, QpNum, QpState, QpType, SendFlags, SendOp, Wc, WcFlags, WcOpcode,
    WcStatus,
};
use crate::wire::{
    NakCode, OpcodeFacts, Operation, Packet, Syndrome, ack_timeout_ns, rnr_timer_ns,
};

use super::failure::Failure;
use super::flush;
use super::local;
use super::pair::Qp;
use super::requester::Pause;

/// A response arrived.
pub(crate) fn on_response<M: Memory + ?Sized>(
    qp: &mut Qp,
    shared: &mut Shared,
    memory: &M,
    now: Instant,
    facts: &OpcodeFacts,
    packet: &Packet<'_>,
) {
    if !matches!(qp.state(), QpState::Rts | QpState::Sqd) {
        return shared.count(Counter::DropQpState);
    }
    let psn = packet.bth.psn();
    let requester = &qp.requester;
    // [acknowledgement-retry/ack-outside-window] [attacks/forged-ack] [attacks/forged-nak]
    // Only what was sent and not yet acknowledged can be answered; all else is late or forged.
    let ahead = u32::from(planted::has(planted::Fault::Ahead));
    let sent = requester.end_psn.offset_from(requester.una_psn) + ahead;
    if psn.offset_from(requester.una_psn) >= sent {
        return shared.count(Counter::DropStaleResponse);
    }
    match facts.operation {
        Operation::Acknowledge => on_acknowledge(qp, shared, now, packet, psn),
        Operation::ReadResponse => on_read_response(qp, shared, memory, now, facts, packet),
        Operation::AtomicAcknowledge => on_atomic_response(qp, shared, memory, now, packet, psn),
        Operation::Send
        | Operation::Write
        | Operation::ReadRequest
        | Operation::CompareSwap
        | Operation::FetchAdd
        | Operation::Flush
        | Operation::AtomicWrite
        | Operation::CongestionNotification => shared.count(Counter::DropUnexpectedResponse),
    }
}

fn on_acknowledge(qp: &mut Qp, shared: &mut Shared, now: Instant, packet: &Packet<'_>, psn: Psn) {
    let Some(aeth) = packet.aeth() else { return shared.count(Counter::DropMalformed) };
    match aeth.syndrome() {
        // [acknowledgement-retry/credits-respected]
        Syndrome::Ack { credits } => {
            qp.requester.credits.on_acknowledge(aeth.msn(), credits);
            acknowledge(qp, shared, now, psn.plus(1));
        }
        // [rnr/acknowledges-before]
        Syndrome::RnrNak { timer } => {
            shared.count(Counter::ReceivedRnrNak);
            if acknowledge(qp, shared, now, psn) {
                on_rnr_nak(qp, shared, now, timer);
            }
        }
        // [acknowledgement-retry/sequence-nak-resends] [acknowledgement-retry/sequence-nak-counts]
        Syndrome::Nak(NakCode::PsnSequence) => {
            shared.count(Counter::ReceivedSequenceNak);
            if acknowledge(qp, shared, now, psn) && !is_echo(qp, now) {
                retry(qp, shared, now);
            }
        }
        // [acknowledgement-retry/nak-acknowledges-before]
        Syndrome::Nak(code) => {
            if acknowledge(qp, shared, now, psn) {
                // [acknowledgement-retry/nak-remote-access]
                // [acknowledgement-retry/nak-remote-operational]
                // [acknowledgement-retry/nak-invalid-request]
                let status = match code {
                    NakCode::RemoteAccess => WcStatus::RemoteAccessError,
                    NakCode::RemoteOperational => WcStatus::RemoteOperationError,
                    NakCode::InvalidRequest | NakCode::InvalidRd | NakCode::PsnSequence => {
                        WcStatus::RemoteInvalidRequest
                    }
                };
                fail_oldest(qp, shared, status.into());
            }
        }
        // [acknowledgement-retry/syndrome-reserved]
        Syndrome::Reserved(_) => shared.count(Counter::DropMalformed),
    }
}

/// Everything before `end` has been received. Where that would skip a request whose own
/// response has not come, the acknowledgement stands for a lost response, and the request is made
/// again. Returns whether `end` was reached and a request waits there: not so if one before it has
/// failed in the meantime.
// [acknowledgement-retry/ack-skips-read]
fn acknowledge(qp: &mut Qp, shared: &mut Shared, now: Instant, end: Psn) -> bool {
    let before = qp.requester.una_psn;
    let complete = advance(qp, shared, end);
    progressed(qp, shared, now, before);
    if !complete && !is_echo(qp, now) {
        shared.count(Counter::ImpliedNak);
        retry(qp, shared, now);
    }
    complete && qp.requester.is_busy()
}

/// Whether a sign of loss may stem from packets that left before sending went back the last time.
/// Only silence, or time, tells that what was sent again was lost once more. While it waits for the
/// peer's receive nothing has been sent again.
fn is_echo(qp: &Qp, now: Instant) -> bool {
    if qp.requester.pause != Pause::No {
        return true;
    }
    let quiet_ns = ack_timeout_ns(qp.attr.timeout).map_or(ECHO_NS, |ns| (ns / 4).min(ECHO_NS));
    qp.requester.went_back.is_some_and(|at| now.ns_since(at) < quiet_ns)
}

/// How long signs of loss are taken for echoes at most: longer than packets are under way.
const ECHO_NS: u64 = 100_000_000;

/// Moves the acknowledged edge towards `end` and completes what lies before it.
// [acknowledgement-retry/ack-cumulative]
fn advance(qp: &mut Qp, shared: &mut Shared, end: Psn) -> bool {
    loop {
        settle(qp, shared);
        let requester = &mut qp.requester;
        if requester.una_psn == end || !requester.is_busy() {
            return true;
        }
        let count = requester.oldest;
        let wqe = requester.sq.wqe(count);
        if wqe.op.has_own_answer() {
            return false;
        }
        let wqe_end = wqe.end_psn();
        if end.distance_from(wqe_end) < 0 {
            requester.una_psn = end;
            return true;
        }
        requester.una_psn = wqe_end;
        complete(qp, shared, count, None);
    }
}

/// What follows when the acknowledged edge has moved: retries are counted anew, the timer starts
/// again, and a requester that had gone back skips what need not be sent again.
fn progressed(qp: &mut Qp, shared: &mut Shared, now: Instant, before: Psn) {
    let requester = &mut qp.requester;
    let acknowledged = requester.una_psn.offset_from(before);
    if acknowledged == 0 {
        return;
    }
    if requester.next_psn.distance_from(requester.una_psn) < 0 {
        requester.next_psn = requester.una_psn;
        requester.next = requester.oldest;
        requester.settle_next();
    }
    requester.went_back = None;
    requester.reads.retire(requester.una_psn);
    requester.window.grow(acknowledged);
    // [acknowledgement-retry/retry-count-restored] [rnr/retry-restored]
    requester.retries_left = qp.attr.retry_count;
    requester.rnr_retries_left = qp.attr.rnr_retry;
    if requester.pause == Pause::No {
        restart_timer(qp, shared, now);
    }
}

/// Completes everything at the front that needs no (more) answer: requests of unreliable
/// services, binds and invalidates, and the request that has failed.
pub(crate) fn settle(qp: &mut Qp, shared: &mut Shared) {
    loop {
        let requester = &qp.requester;
        let count = requester.oldest;
        if let Some(failed) = requester.failed
            && failed.wqe == count
        {
            return fail_oldest(qp, shared, failed.why);
        }
        if count == requester.fresh {
            return check_drained(qp, shared);
        }
        let needs_no_answer = match qp.init.qp_type {
            QpType::Rc | QpType::XrcSend | QpType::XrcRecv => requester.sq.wqe(count).packets == 0,
            QpType::Uc | QpType::Ud => count != requester.next,
        };
        if !needs_no_answer {
            return;
        }
        complete(qp, shared, count, None);
    }
}

/// Nothing is under way any more: tells the program if it waits for that.
// [qp-states/sqd-event] [events/sq-drained]
fn check_drained(qp: &mut Qp, shared: &mut Shared) {
    if qp.state() == QpState::Sqd && qp.attr.sq_drained_event {
        qp.attr.sq_drained_event = false;
        shared.raise(AsyncEvent::SqDrained(qp.num));
    }
}

/// Reports request `count`, which is the oldest, and moves past it.
// [completions/order-per-queue]
fn complete(qp: &mut Qp, shared: &mut Shared, count: u32, why: Option<Failure>) {
    debug_assert_eq!(count, qp.requester.oldest, "requests complete in order");
    qp.requester.oldest = count.wrapping_add(1);
    if matches!(qp.requester.sq.wqe(count).op, SendOp::Send { .. } | SendOp::SendTo { .. })
        && !planted::has(planted::Fault::SendsUncounted)
    {
        shared.count(Counter::RdmaSends);
    }
    report(qp, shared, count, why);
}

/// Queues the completion of request `count` if it is due: always of a failed one, of a good one
/// if it was asked for.
// [completions/one-per-signaled] [completions/unsignaled-silent] [completions/error-always]
pub(crate) fn report(qp: &Qp, shared: &mut Shared, count: u32, why: Option<Failure>) {
    let wqe = qp.requester.sq.wqe(count);
    if why.is_none() && !wqe.flags.contains(SendFlags::SIGNALED) && !qp.init.signal_all {
        return;
    }
    // [completions/opcodes]
    let (opcode, with_imm) = match wqe.op {
        SendOp::Send { imm, .. } | SendOp::SendTo { imm, .. } => (WcOpcode::Send, imm.is_some()),
        SendOp::Write { imm, .. } => (WcOpcode::RdmaWrite, imm.is_some()),
        SendOp::Read { .. } => (WcOpcode::RdmaRead, false),
        SendOp::CompareSwap { .. } => (WcOpcode::CompareSwap, false),
        SendOp::FetchAdd { .. } => (WcOpcode::FetchAdd, false),
        SendOp::AtomicWrite { .. } => (WcOpcode::AtomicWrite, false),
        SendOp::Flush { .. } => (WcOpcode::Flush, false),
        SendOp::BindMw { .. } => (WcOpcode::BindMw, false),
        SendOp::LocalInvalidate { .. } => (WcOpcode::LocalInvalidate, false),
    };
    let imm_flag = why.is_none() && with_imm && shared.profile.imm_flag_on_send;
    let mut wc = Wc {
        wr_id: wqe.wr_id,
        status: WcStatus::Success,
        opcode,
        flags: if imm_flag { WcFlags::WITH_IMM } else { WcFlags::empty() },
        vendor_err: 0,
        byte_len: wqe.length,
        imm_data: 0,
        invalidated_rkey: Key(0),
        qp_num: qp.num,
        src_qp: QpNum::new(0),
        pkey_index: 0,
        timestamp: 0,
        sl: 0,
    };
    if let Some(why) = why {
        why.mark(&mut wc, &shared.profile);
        shared.count(Counter::RequesterCqeError);
        if wc.status == WcStatus::WorkRequestFlushed {
            shared.count(Counter::RequesterCqeFlush);
        }
    }
    let entry = CqEntry { wc, slot: Slot::Send(count) };
    shared.complete(qp.init.send_cq, entry, why.is_some());
}

/// Failures that have a counter of their own.
const FAILURE_COUNTERS: [(WcStatus, Counter); 5] = [
    (WcStatus::RetryExceeded, Counter::RetryExceeded),
    (WcStatus::RnrRetryExceeded, Counter::RnrRetryExceeded),
    (WcStatus::RemoteAccessError, Counter::RequesterRemoteAccess),
    (WcStatus::RemoteInvalidRequest, Counter::RequesterRemoteInvalidRequest),
    (WcStatus::RemoteOperationError, Counter::RequesterRemoteOperation),
];

/// The oldest request fails: it is reported, and the queue pair goes to its error state.
// [acknowledgement-retry/nak-to-error] [completions/first-error-cause]
// [events/requester-error-silent]
fn fail_oldest(qp: &mut Qp, shared: &mut Shared, why: Failure) {
    let count = qp.requester.oldest;
    let status = why.status(&shared.profile);
    if let Some((_, counter)) = FAILURE_COUNTERS.iter().find(|(counted, _)| *counted == status) {
        shared.count(*counter);
    }
    qp.requester.failed = None;
    complete(qp, shared, count, Some(why));
    // [uc/local-error-sqe] [ud/local-error-sqe] [qp-states/sqe-only-unreliable]
    match qp.init.qp_type {
        QpType::Rc | QpType::XrcSend | QpType::XrcRecv => flush::to_error(qp, shared),
        QpType::Uc | QpType::Ud => flush::to_send_error(qp, shared),
    }
}

/// The peer asks to wait. RNR code and retry count: IBA 9.7.5.2.8.
// [rnr/wait] [attacks/forged-rnr]
fn on_rnr_nak(qp: &mut Qp, shared: &mut Shared, now: Instant, code: u8) {
    if qp.requester.pause != Pause::No {
        return;
    }
    // [rnr/retry-count]
    if qp.requester.rnr_retries_left == 0 {
        return fail_oldest(qp, shared, WcStatus::RnrRetryExceeded.into());
    }
    if qp.attr.rnr_retry != INFINITE_RNR_RETRY {
        qp.requester.rnr_retries_left -= 1;
    }
    let until = now.plus_ns(rnr_timer_ns(code));
    qp.requester.go_back();
    qp.requester.pause = Pause::Rnr { until };
    shared.timers.set(&mut qp.timer, qp.index, Some(until));
}

/// An RNR retry count that never runs out.
// [rnr/retry-infinite]
const INFINITE_RNR_RETRY: u8 = 7;

/// Packets were lost: everything from the oldest one on is sent again, unless that was done too
/// often already.
// [acknowledgement-retry/retry-count]
fn retry(qp: &mut Qp, shared: &mut Shared, now: Instant) {
    if qp.requester.retries_left == 0 {
        return fail_oldest(qp, shared, WcStatus::RetryExceeded.into());
    }
    qp.requester.retries_left -= 1;
    shared.count(Counter::CompleterRetry);
    qp.requester.window.shrink();
    qp.requester.go_back();
    qp.requester.went_back = Some(now);
    restart_timer(qp, shared, now);
}

/// The deadline of this queue pair has come.
pub(crate) fn on_timer(qp: &mut Qp, shared: &mut Shared, now: Instant) {
    match qp.requester.pause {
        // [rnr/resume]
        Pause::Rnr { until } if until <= now => {
            qp.requester.pause = Pause::No;
        }
        Pause::Rnr { until } => shared.timers.set(&mut qp.timer, qp.index, Some(until)),
        Pause::No if qp.requester.una_psn == qp.requester.end_psn => {}
        Pause::No => {
            shared.count(Counter::AckTimeout);
            if !planted::has(planted::Fault::NoRetry) {
                retry(qp, shared, now);
            }
        }
    }
}

/// A packet left: the timer runs from the oldest that is not acknowledged.
pub(crate) fn start_timer(qp: &mut Qp, shared: &mut Shared, now: Instant) {
    if qp.timer.deadline().is_none() {
        restart_timer(qp, shared, now);
    }
}

// [acknowledgement-retry/timer-restarts]
fn restart_timer(qp: &mut Qp, shared: &mut Shared, now: Instant) {
    let requester = &qp.requester;
    let waiting = requester.is_busy()
        && (requester.una_psn != requester.next_psn || requester.una_psn != requester.end_psn);
    let deadline = match ack_timeout_ns(qp.attr.timeout) {
        Some(ns) if waiting => Some(now.plus_ns(ns)),
        _ => None,
    };
    shared.timers.set(&mut qp.timer, qp.index, deadline);
}

// [acknowledgement-retry/unexpected-response] [attacks/forged-read-response]
fn on_read_response<M: Memory + ?Sized>(
    qp: &mut Qp,
    shared: &mut Shared,
    memory: &M,
    now: Instant,
    facts: &OpcodeFacts,
    packet: &Packet<'_>,
) {
    let psn = packet.bth.psn();
    // With all before it acknowledged, it answers the oldest request.
    if !acknowledge(qp, shared, now, psn) {
        return shared.count(Counter::DropUnexpectedResponse);
    }
    let requester = &qp.requester;
    let wqe = *requester.sq.wqe(requester.oldest);
    // ATOMIC WRITE and FLUSH are answered like a READ of no bytes.
    let length = match wqe.op {
        SendOp::Read { .. } => wqe.length,
        SendOp::AtomicWrite { .. } | SendOp::Flush { .. } => 0,
        SendOp::Send { .. }
        | SendOp::SendTo { .. }
        | SendOp::Write { .. }
        | SendOp::CompareSwap { .. }
        | SendOp::FetchAdd { .. }
        | SendOp::BindMw { .. }
        | SendOp::LocalInvalidate { .. } => {
            return shared.count(Counter::DropUnexpectedResponse);
        }
    };
    let mtu = qp.attr.path_mtu;
    let done = psn.offset_from(wqe.first_psn);
    let offset = done << mtu.shift();
    let expected = (length - offset).min(mtu.bytes()) as usize;
    // A First or Only may also stand where the rest was asked for again.
    let begins = !requester.window.begins_read(done) || facts.place.begins();
    let ends = facts.place.ends() == (requester.window.read_packets(done, wqe.packets) == 1);
    // [read-atomic/read-response-length] [read-atomic/read-response-place]
    // [read-atomic/response-acknowledges]
    if packet.payload.len() != expected || !begins || !ends || !says_ack(packet) {
        return fail_oldest(qp, shared, WcStatus::BadResponseError.into());
    }
    let count = requester.oldest;
    // [read-atomic/read-local-range]
    if let Err(why) = local::scatter_message(qp, shared, memory, count, offset, packet.payload) {
        return fail_oldest(qp, shared, why);
    }
    let end = psn.plus(1);
    qp.requester.una_psn = end;
    if end == wqe.end_psn() {
        complete(qp, shared, count, None);
        settle(qp, shared);
    }
    progressed(qp, shared, now, psn);
}

/// Whether the header of a response with data, if it has one, acknowledges: a refusal brings none.
fn says_ack(packet: &Packet<'_>) -> bool {
    packet.aeth().is_none_or(|aeth| matches!(aeth.syndrome(), Syndrome::Ack { .. }))
}

// [acknowledgement-retry/unexpected-response]
fn on_atomic_response<M: Memory + ?Sized>(
    qp: &mut Qp,
    shared: &mut Shared,
    memory: &M,
    now: Instant,
    packet: &Packet<'_>,
    psn: Psn,
) {
    // With all before it acknowledged, it answers the oldest request.
    if !acknowledge(qp, shared, now, psn) {
        return shared.count(Counter::DropUnexpectedResponse);
    }
    let requester = &qp.requester;
    let count = requester.oldest;
    let wqe = *requester.sq.wqe(count);
    let (SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. }, Some(found)) =
        (wqe.op, packet.atomic_ack_eth())
    else {
        return shared.count(Counter::DropUnexpectedResponse);
    };
    // [read-atomic/response-acknowledges]
    if !says_ack(packet) {
        return fail_oldest(qp, shared, WcStatus::BadResponseError.into());
    }
    // [read-atomic/atomic-byte-order]
    let original = found.original().to_ne_bytes();
    if let Err(why) = local::scatter_message(qp, shared, memory, count, 0, &original) {
        return fail_oldest(qp, shared, why);
    }
    qp.requester.una_psn = psn.plus(1);
    complete(qp, shared, count, None);
    settle(qp, shared);
    progressed(qp, shared, now, psn);
}
