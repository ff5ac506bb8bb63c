//! What the responder owes: answers in the order of the requests.

use alloc::vec::Vec;

use crate::counters::Counter;
use crate::device::{FrameOut, Origin, Payload, Shared};
use crate::memory::Memory;
use crate::qp::headers::{Kind, bth, place};
use crate::qp::pair::Qp;
use crate::verbs::{Access, Key, PdId, Psn, QpState};
use crate::wire::{Aeth, AtomicAckEth, Bth, Opcode, Operation, Place, Syndrome};

use super::execute::remote_grant;
use super::{Fault, fail};

/// An answer that is still to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Response {
    /// A positive or negative acknowledgement.
    Acknowledge { psn: Psn, msn: u32, syndrome: Syndrome },
    /// The rest of a READ.
    Read(ReadRest),
    /// What an atomic found; `again` as in [`ReadRest`].
    Atomic { psn: Psn, original: u64, msn: u32, again: bool },
}

/// What is still to be sent of a READ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadRest {
    /// Sequence number of the next packet.
    pub(super) psn: Psn,
    pub(super) pd: PdId,
    pub(super) key: Key,
    pub(super) addr: u64,
    pub(super) left: u32,
    pub(super) msn: u32,
    /// The first packet has left.
    pub(super) begun: bool,
    /// It has been answered before; the peer asks once more.
    pub(super) again: bool,
}

impl ReadRest {
    /// Whether both still have to send some same bytes of one READ.
    fn overlaps(&self, other: &Self) -> bool {
        let end = |rest: &Self| rest.addr.wrapping_add(u64::from(rest.left));
        // They answer parts of one request exactly if address and number go in step.
        self.key == other.key
            && self.msn == other.msn
            && (self.addr < end(other) && other.addr < end(self) || self.psn == other.psn)
    }
}

impl Response {
    fn psn(&self) -> Psn {
        match *self {
            Self::Acknowledge { psn, .. } | Self::Atomic { psn, .. } => psn,
            Self::Read(rest) => rest.psn,
        }
    }

    fn is_ack(&self) -> bool {
        matches!(self, Self::Acknowledge { syndrome: Syndrome::Ack { .. }, .. })
    }

    fn is_plain(&self) -> bool {
        matches!(self, Self::Acknowledge { .. })
    }

    /// Whether it carries data, for the first time or again.
    fn has_data(&self, again: bool) -> bool {
        match self {
            Self::Acknowledge { .. } => false,
            Self::Read(rest) => rest.again == again,
            Self::Atomic { again: is, .. } => *is == again,
        }
    }
}

/// Answers in order. An acknowledgement says what all before it say, so it is merged with the one
/// before, and needs no place before an answer that carries data. READs and atomics take `depth`
/// places at most, and those that are answered again as many: they take none from new ones.
#[derive(Debug, Default)]
// [acknowledgement-retry/responses-in-order]
pub(super) struct ResponseQueue {
    ring: Vec<Response>,
    depth: usize,
}

/// Most queue pairs never owe more at a time, and thousands of them are idle; the places up to
/// `2 * depth + 2` come when they are needed first.
const PLACES_AT_FIRST: usize = 4;

impl ResponseQueue {
    pub(super) fn resize(&mut self, depth: usize) {
        self.depth = depth;
        self.ring.reserve_exact(PLACES_AT_FIRST.min(2 * depth + 2));
    }

    /// Whether one more READ or atomic may be open.
    // [rc-responder/too-many-reads] [attacks/read-flood]
    pub(super) fn admits_read(&self) -> bool {
        self.admits(false)
    }

    fn admits(&self, again: bool) -> bool {
        self.ring.iter().filter(|response| response.has_data(again)).count() < self.depth
    }

    /// Adds an answer behind all others. Returns whether it stands for an acknowledgement that was
    /// owed as well.
    // [acknowledgement-retry/ack-coalesced]
    pub(super) fn push(&mut self, response: Response) -> bool {
        match self.ring.last_mut() {
            // What follows acknowledges as much, so the earlier acknowledgement is not needed.
            Some(last) if last.is_ack() => {
                *last = response;
                return true;
            }
            // Nothing more is owed to one who was refused and may send no more before he resumes.
            Some(Response::Acknowledge { .. }) if response.is_ack() => {}
            // What was missing has come since.
            Some(last) if last.is_plain() => *last = response,
            _ => self.ring.push(response),
        }
        false
    }

    /// Adds the answer to a repeated request, in the place of one that still waits and would say
    /// the same. False when there is no room: the peer will ask again.
    pub(super) fn repeat(&mut self, response: Response) -> bool {
        for waiting in &mut self.ring {
            match (waiting, response) {
                (Response::Read(waiting), Response::Read(asked)) if waiting.overlaps(&asked) => {
                    *waiting = ReadRest { again: waiting.again, ..asked };
                    return true;
                }
                (Response::Atomic { psn, .. }, Response::Atomic { psn: asked, .. })
                    if *psn == asked =>
                {
                    return true;
                }
                _ => {}
            }
        }
        if !self.admits(true) {
            return false;
        }
        // It says less than an acknowledgement at the end, which must not be lost for it.
        let behind = usize::from(self.ring.last().is_some_and(Response::is_plain));
        self.ring.insert(self.ring.len() - behind, response);
        true
    }

    pub(super) fn clear(&mut self) {
        self.ring.clear();
    }

    fn front(&self) -> Option<&Response> {
        self.ring.first()
    }

    fn pop(&mut self) {
        if !self.ring.is_empty() {
            self.ring.remove(0);
        }
    }
}

/// Whether this is still the next answer.
pub(crate) fn is_due(qp: &Qp, frame: &FrameOut) -> bool {
    match frame.origin {
        Origin::Cnp => qp.responder.cnp_due,
        Origin::Late => qp.responder.late.is_some(),
        Origin::Request { .. } | Origin::Response | Origin::Gsi => {
            qp.responder.responses.front().is_some_and(|next| next.psn() == frame.psn)
        }
    }
}

/// Makes the next answer, if one is owed.
pub(crate) fn next_frame(qp: &Qp, frame: &mut FrameOut) -> bool {
    if qp.responder.cnp_due {
        congestion_notification(qp, frame);
        return true;
    }
    if qp.responder.held_until.is_some() {
        return false;
    }
    let Some(response) = qp.responder.responses.front() else { return late(qp, frame) };
    match *response {
        // [acknowledgement-retry/ack-format]
        Response::Acknowledge { psn, msn, syndrome } => {
            begin(qp, frame, Operation::Acknowledge, Place::Only, psn, 0);
            frame.header.push(&Aeth::new(syndrome, msn));
        }
        // [read-atomic/atomic-response-format]
        Response::Atomic { psn, original, msn, .. } => {
            begin(qp, frame, Operation::AtomicAcknowledge, Place::Only, psn, 0);
            frame.header.push(&Aeth::new(Syndrome::ACK, msn));
            frame.header.push(&AtomicAckEth::new(original));
        }
        // [read-atomic/read-response-format]
        Response::Read(ReadRest { psn, pd, key, addr, left, msn, begun, .. }) => {
            let len = left.min(qp.attr.path_mtu.bytes());
            let place = place(!begun, len == left);
            begin(qp, frame, Operation::ReadResponse, place, psn, len);
            if place != Place::Middle {
                frame.header.push(&Aeth::new(Syndrome::ACK, msn));
            }
            if len != 0 {
                frame.payload = Payload::Region { pd, key, addr };
                frame.payload_len = len;
            }
        }
    }
    true
}

fn begin(
    qp: &Qp,
    frame: &mut FrameOut,
    operation: Operation,
    place: Place,
    psn: Psn,
    payload_len: u32,
) {
    let kind = Kind::new(qp.service(), operation, place);
    let bth = bth(qp, kind, qp.attr.dest_qp, psn, payload_len);
    frame.begin(qp, Origin::Response, psn, &bth);
}

// [congestion/cnp-format]
/// What was held back has nothing to wait for any more: a frame that is never sent brings it to memory.
fn late(qp: &Qp, frame: &mut FrameOut) -> bool {
    let bth = Bth::new(Opcode::CNP, qp.attr.dest_qp, Psn::new(0));
    frame.begin(qp, Origin::Late, Psn::new(0), &bth);
    qp.responder.late.is_some()
}

fn congestion_notification(qp: &Qp, frame: &mut FrameOut) {
    let psn = Psn::new(0);
    let bth = Bth::new(Opcode::CNP, qp.attr.dest_qp, psn).with_pkey(qp.pkey).with_becn(true);
    frame.begin(qp, Origin::Cnp, psn, &bth);
    frame.header.push(&[0_u8; 16]);
}

/// Copies what a READ response carries. The right to it is judged again as it leaves.
// [read-atomic/read-rights-again] [read-atomic/read-current-bytes] [attacks/dereg-in-flight]
pub(crate) fn read_payload<M: Memory + ?Sized>(
    qp: &Qp,
    shared: &Shared,
    memory: &M,
    (pd, key, addr): (PdId, Key, u64),
    into: &mut [u8],
) -> Result<(), Fault> {
    let grant = remote_grant(qp, shared, pd, key, addr, into.len() as u64, Access::REMOTE_READ)?;
    Ok(memory.read(grant.memory, grant.offset, into)?)
}

/// The first answer has left.
pub(crate) fn answered(qp: &mut Qp) {
    let mtu = qp.attr.path_mtu.bytes();
    let Some(first) = qp.responder.responses.ring.first_mut() else { return };
    if let Response::Read(rest) = first
        && rest.left > mtu
    {
        // [read-atomic/read-response-psn]
        rest.psn = rest.psn.plus(1);
        rest.addr = rest.addr.wrapping_add(u64::from(mtu));
        rest.left -= mtu;
        rest.begun = true;
        return;
    }
    qp.responder.responses.pop();
}

/// The congestion notification has left.
pub(crate) fn notified(qp: &mut Qp, shared: &mut Shared) {
    qp.responder.cnp_due = false;
    shared.count(Counter::CnpSent);
}

/// The bytes that a READ asks for can no longer be had: it is refused after all. One that was
/// answered before is not answered again; its right may well have ended when the peer had its bytes.
pub(crate) fn refused(qp: &mut Qp, shared: &mut Shared, fault: Fault) {
    let Some(Response::Read(rest)) = qp.responder.responses.front().copied() else { return };
    if rest.again {
        qp.responder.responses.pop();
        return shared.count(Counter::DropInvalidDuplicate);
    }
    qp.responder.responses.clear();
    qp.responder.expected = rest.psn;
    if qp.state() != QpState::Err {
        return fail(qp, shared, fault);
    }
    // A fault behind it has been found and told already; the peer is told of the first.
    if let Some(code) = fault.nak(&shared.profile) {
        qp.responder.refuse(Syndrome::Nak(code));
    }
}
