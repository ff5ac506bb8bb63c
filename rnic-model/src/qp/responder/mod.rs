//! The responder: judges request packets of RC, UC and XRC, carries them out, and owes answers.
//!
//! [`on_request`] is the one function that branches and changes state. The order in which it asks
//! is itself a rule (IBA 9.6.1): sequence number, place in the message, shared receive queue (XRC),
//! opcode allowed, resources, length, key and range; then it executes and acknowledges.

mod duplicate;
mod execute;
mod fault;
mod judge;
mod landing;
mod late;
mod placement;
mod replays;
mod responses;

use crate::Instant;
use crate::counters::Counter;
use crate::device::Shared;
use crate::memory::Memory;
use crate::planted;
use crate::verbs::{AsyncEvent, Key, Psn, QpState, SrqId};
use crate::wire::{NakCode, OpcodeFacts, Operation, Packet, Syndrome};

use super::failure::Failure;
use super::flush;
use super::pair::{Qp, Taken};
pub(crate) use fault::Fault;
use judge::{PsnVerdict, judge_psn, judge_sequence};
use landing::judge_landing;
use late::Late;
pub(crate) use late::{place_late, release};
use replays::Replays;
use responses::{Response, ResponseQueue};
pub(crate) use responses::{answered, is_due, next_frame, notified, read_payload, refused};

/// The message that is being received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// None: a First or an Only is due.
    Idle,
    /// A SEND, into this receive request.
    Send { taken: Taken, received: u64 },
    /// A WRITE: where the next byte goes, and how many are still to come; the shared receive queue
    /// is that of an immediate.
    Write { key: Key, addr: u64, left: u32, length: u32, srq: Option<SrqId> },
    /// The rest of it is dropped (UC).
    Skip,
}

/// State of the receiving half.
#[derive(Debug)]
pub(crate) struct Responder {
    expected: Psn,
    /// Messages completed, modulo 2^24.
    msn: u32,
    message: Message,
    /// A receive request that a broken UC message gave back; the next SEND takes it first.
    spare: Option<Taken>,
    /// A NAK for the expected packet is out; until that packet comes all later ones are dropped.
    nak_sent: bool,
    established: bool,
    cnp_due: bool,
    cnp_not_before: Instant,
    responses: ResponseQueue,
    replays: Replays,
    /// Answers are held back until then.
    held_until: Option<Instant>,
    late: Late,
}

/// The shortest time between two congestion notifications of one queue pair.
// [congestion/cnp-rate]
const CNP_INTERVAL_NS: u64 = 50_000;

impl Responder {
    pub(crate) fn new() -> Self {
        Self {
            expected: Psn::new(0),
            msn: 0,
            message: Message::Idle,
            spare: None,
            nak_sent: false,
            established: false,
            cnp_due: false,
            cnp_not_before: Instant::ZERO,
            responses: ResponseQueue::default(),
            replays: Replays::default(),
            held_until: None,
            late: Late::default(),
        }
    }

    /// Sets the first sequence number and the read depth (the move to RTR).
    pub(crate) fn start(&mut self, psn: Psn, depth: u8) {
        *self = Self::new();
        self.expected = psn;
        self.set_depth(depth);
    }

    /// Changes how many READs and atomics may be open. What is open stays.
    // [qp-attributes/depth-while-open]
    pub(crate) fn set_depth(&mut self, depth: u8) {
        self.responses.resize(usize::from(depth));
        self.replays.resize(usize::from(depth));
    }

    /// Drops everything. Returns the receive request that was being filled.
    pub(crate) fn abandon(&mut self) -> Option<Taken> {
        let spare = self.spare.take();
        self.responses.clear();
        self.replays.clear();
        self.late.forget();
        self.cnp_due = false;
        match core::mem::replace(&mut self.message, Message::Idle) {
            Message::Send { taken, .. } => Some(taken),
            Message::Idle | Message::Write { .. } | Message::Skip => spare,
        }
    }

    /// The next sequence number expected.
    pub(crate) fn expected(&self) -> Psn {
        self.expected
    }

    fn acknowledge(&mut self, shared: &mut Shared) {
        let psn = self.expected.minus(1);
        self.owe(shared, Response::Acknowledge { psn, msn: self.msn, syndrome: Syndrome::ACK });
    }

    /// Queues an answer.
    fn owe(&mut self, shared: &mut Shared, response: Response) {
        if self.responses.push(response) {
            shared.count(Counter::AckDeferred);
        }
    }

    fn refuse(&mut self, syndrome: Syndrome) {
        self.nak_sent = true;
        let (psn, msn) = (self.expected, self.msn);
        self.responses.push(Response::Acknowledge { psn, msn, syndrome });
    }
}

/// A request packet of a connected service arrived for a queue pair that may receive.
pub(crate) fn on_request<M: Memory + ?Sized>(
    qp: &mut Qp,
    shared: &mut Shared,
    memory: &M,
    facts: &'static OpcodeFacts,
    packet: &Packet<'_>,
) {
    if qp.state() == QpState::Rtr && !qp.responder.established {
        // [events/comm-established]
        qp.responder.established = true;
        shared.raise(AsyncEvent::CommunicationEstablished(qp.num));
    }
    if !place_late(qp, shared, memory) && qp.state() == QpState::Err {
        return;
    }
    if qp.init.qp_type.is_reliable() {
        on_reliable(qp, shared, memory, facts, packet);
    } else {
        on_unreliable(qp, shared, memory, facts, packet);
    }
}

// [completions/success-means-done] [read-atomic/ordered-with-writes]
fn on_reliable<M: Memory + ?Sized>(
    qp: &mut Qp,
    shared: &mut Shared,
    memory: &M,
    facts: &'static OpcodeFacts,
    packet: &Packet<'_>,
) {
    match judge_psn(qp.responder.expected, packet.bth.psn()) {
        PsnVerdict::Expected => {}
        PsnVerdict::Duplicate if again(facts) => {
            let _ = judge_and_execute(qp, shared, memory, facts, packet);
            return;
        }
        PsnVerdict::Duplicate => return duplicate::on_duplicate(qp, shared, facts, packet),
        // [rc-responder/gap-one-nak] [rnr/later-dropped]
        PsnVerdict::Gap if qp.responder.nak_sent => return shared.count(Counter::DropPsnGap),
        // [rc-responder/gap-nak] [connection-setup/psn-mismatch-ahead]
        PsnVerdict::Gap => {
            shared.count(Counter::OutOfSequenceRequest);
            return qp.responder.refuse(Syndrome::Nak(NakCode::PsnSequence));
        }
    }
    let verdict = judge_and_execute(qp, shared, memory, facts, packet);
    match verdict {
        Ok(psns) => {
            qp.responder.nak_sent = false;
            // [rc-responder/psn-expected]
            qp.responder.expected = qp.responder.expected.plus(psns);
            // [acknowledgement-retry/ack-on-request]
            if packet.bth.ack_req() && matches!(facts.operation, Operation::Send | Operation::Write)
            {
                qp.responder.acknowledge(shared);
            }
            late::put_off(qp, shared);
        }
        Err(fault) => fail(qp, shared, fault),
    }
}

/// Whether a duplicate is carried out again: only by a device with that fault.
fn again(facts: &OpcodeFacts) -> bool {
    let whole = facts.place.begins() && facts.place.ends();
    planted::has(planted::Fault::ReceivesTwice) && facts.operation == Operation::Send && whole
}

/// A packet that is in sequence. Returns how many sequence numbers it takes.
// [rc-responder/check-order]
fn judge_and_execute<M: Memory + ?Sized>(
    qp: &mut Qp,
    shared: &mut Shared,
    memory: &M,
    facts: &OpcodeFacts,
    packet: &Packet<'_>,
) -> Result<u32, Fault> {
    judge_sequence(&qp.responder.message, facts)?;
    let landing = judge_landing(qp, shared, packet)?;
    execute::execute(qp, shared, memory, landing, facts, packet)
}

/// A request of RC cannot be carried out: the peer is told, and unless it may try again both
/// ends go to error (IBA 9.9.3).
// [rc-responder/error-nak-and-err] [attacks/one-packet-kill] [attacks/key-wrong-guess-costs]
fn fail(qp: &mut Qp, shared: &mut Shared, fault: Fault) {
    let overlooked = fault == Fault::NotReady && planted::has(planted::Fault::RnrUncounted);
    if (shared.profile.responder_errors_counted || fault == Fault::NotReady) && !overlooked {
        shared.count(fault.counter());
    }
    // [rnr/nak] [rnr/responder-unharmed] [srq/empty-rnr] [xrc/not-ready]
    // [events/no-event-rnr-sequence]
    if let Fault::NotReady = fault {
        let timer = qp.attr.min_rnr_timer;
        return qp.responder.refuse(Syndrome::RnrNak { timer });
    }
    if let Some(code) = fault.nak(&shared.profile) {
        qp.responder.refuse(Syndrome::Nak(code));
    }
    let reported = match (qp.responder.message, fault.receive_failure(&shared.profile)) {
        (Message::Send { taken, .. }, Some(why)) => {
            qp.responder.message = Message::Idle;
            flush::fail_recv(qp, shared, taken, why);
            true
        }
        _ => false,
    };
    // [events/no-event-when-receive-fails]
    if !reported
        && let Some(event) = fault.event(qp.num)
        && (shared.profile.access_error_event || !matches!(event, AsyncEvent::QpAccessError(_)))
    {
        shared.raise(event);
    }
    // What came before is still answered, and the refusal behind it.
    let owed = core::mem::take(&mut qp.responder.responses);
    flush::to_error(qp, shared);
    qp.responder.responses = owed;
}

// [uc/no-answers] [uc/duplicate-is-new]
fn on_unreliable<M: Memory + ?Sized>(
    qp: &mut Qp,
    shared: &mut Shared,
    memory: &M,
    facts: &'static OpcodeFacts,
    packet: &Packet<'_>,
) {
    let psn = packet.bth.psn();
    // [uc/gap-loses-message]
    if psn != qp.responder.expected {
        // A packet is missing: the message it belonged to is lost, the next one may be whole.
        shared.count(Counter::OutOfSequenceRequest);
        give_up_message(qp, Message::Skip);
    }
    qp.responder.expected = psn.plus(1);
    // [uc/resync-at-first]
    if facts.place.begins() {
        give_up_message(qp, Message::Idle);
    }
    // [uc/middle-without-first]
    if qp.responder.message == Message::Skip {
        return shared.count(Counter::DropPsnGap);
    }
    let verdict = judge_and_execute(qp, shared, memory, facts, packet);
    let Err(fault) = verdict else {
        if qp.responder.late.is_some() {
            late::put_off(qp, shared);
        }
        return;
    };
    // [uc/no-receive] [uc/too-long] [uc/bad-length] [uc/bad-key] [rnr/unreliable-drops]
    shared.count(fault.dropped_counter());
    match (fault, qp.responder.message) {
        // The program's own buffer is at fault: its receive fails, and the queue pair with it.
        // [uc/receive-bad-lkey]
        (Fault::Local(why), Message::Send { taken, .. }) => {
            qp.responder.message = Message::Idle;
            flush::fail_recv(qp, shared, taken, why);
            flush::to_error(qp, shared);
        }
        _ => give_up_message(qp, Message::Skip),
    }
}

/// Drops what was received of a UC message; its receive request serves the next one.
// [uc/partial-write]
fn give_up_message(qp: &mut Qp, next: Message) {
    if let Message::Send { taken, .. } = qp.responder.message {
        qp.responder.spare = Some(taken);
    }
    qp.responder.message = next;
}

/// A packet of the peer has an opcode that nobody knows. In its turn it is refused as an invalid
/// request; out of turn it is dropped.
// [packet-format/unknown-opcode-connected]
pub(crate) fn on_unknown_opcode(
    qp: &mut Qp,
    shared: &mut Shared,
    packet: &Packet<'_>,
) -> Result<(), Counter> {
    if !qp.init.qp_type.is_reliable() || packet.bth.psn() != qp.responder.expected {
        return Err(Counter::DropUnknownOpcode);
    }
    fail(qp, shared, Fault::UnsupportedOpcode);
    Ok(())
}

/// A packet carried the mark "congestion experienced": the peer is told, not too often.
pub(crate) fn on_congestion(qp: &mut Qp, now: Instant) {
    if now >= qp.responder.cnp_not_before {
        qp.responder.cnp_not_before = now.plus_ns(CNP_INTERVAL_NS);
        qp.responder.cnp_due = true;
    }
}

impl From<Failure> for Fault {
    fn from(why: Failure) -> Self {
        Self::Local(why)
    }
}
