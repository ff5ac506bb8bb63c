//! Judgements about a request packet. They look and decide; nothing changes.

use crate::planted;
use crate::verbs::{Access, DeviceCapabilities, Mtu, Placement, Psn, Selectivity};
use crate::wire::{Feth, OpcodeFacts, Operation, Packet, Place};

use super::{Fault, Message};

/// Where a sequence number lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PsnVerdict {
    /// It is the next.
    Expected,
    /// It was received before.
    Duplicate,
    /// Others are missing before it.
    Gap,
}

// [rc-responder/psn-window]
pub(super) fn judge_psn(expected: Psn, got: Psn) -> PsnVerdict {
    match got.distance_from(expected) {
        0 => PsnVerdict::Expected,
        -2 if planted::has(planted::Fault::Again) => PsnVerdict::Expected,
        1.. => PsnVerdict::Gap,
        _ => PsnVerdict::Duplicate,
    }
}

/// Whether a packet of this place and operation may come now (IBA 9.7.4.1.2). One rule for SEND
/// and WRITE, RC and UC.
// [rc-responder/sequence-first-missing] [rc-responder/sequence-last-missing]
pub(super) fn judge_sequence(message: &Message, facts: &OpcodeFacts) -> Result<(), Fault> {
    let fits = match message {
        Message::Idle | Message::Skip => facts.place.begins(),
        Message::Send { .. } => !facts.place.begins() && facts.operation == Operation::Send,
        Message::Write { .. } => !facts.place.begins() && facts.operation == Operation::Write,
    };
    if fits { Ok(()) } else { Err(Fault::OpcodeSequence) }
}

/// Whether the device does this at all.
// [flush-placement/flush-unsupported]
pub(super) fn judge_capability(
    operation: Operation,
    packet: &Packet<'_>,
    capabilities: DeviceCapabilities,
) -> Result<(), Fault> {
    let needs = match operation {
        Operation::AtomicWrite => DeviceCapabilities::ATOMIC_WRITE,
        Operation::Flush => flush_asked(packet)?.0.capabilities(),
        Operation::Send
        | Operation::Write
        | Operation::ReadRequest
        | Operation::ReadResponse
        | Operation::Acknowledge
        | Operation::AtomicAcknowledge
        | Operation::CompareSwap
        | Operation::FetchAdd
        | Operation::CongestionNotification => return Ok(()),
    };
    if capabilities.contains(needs) { Ok(()) } else { Err(Fault::UnsupportedOpcode) }
}

/// Whether the queue pair lets peers do this at all.
// [rc-responder/qp-write-denied] [rc-responder/qp-read-denied] [rc-responder/qp-atomic-denied]
// [flush-placement/flush-qp-right] [uc/qp-write-denied]
pub(super) fn judge_permission(
    operation: Operation,
    packet: &Packet<'_>,
    access: Access,
) -> Result<(), Fault> {
    let needs = match operation {
        Operation::Send => Access::empty(),
        Operation::Write | Operation::AtomicWrite => Access::REMOTE_WRITE,
        Operation::Flush => flush_asked(packet)?.0.rights(),
        Operation::ReadRequest => Access::REMOTE_READ,
        Operation::CompareSwap | Operation::FetchAdd => Access::REMOTE_ATOMIC,
        Operation::ReadResponse
        | Operation::Acknowledge
        | Operation::AtomicAcknowledge
        | Operation::CongestionNotification => return Err(Fault::UnsupportedOpcode),
    };
    if access.contains(needs) { Ok(()) } else { Err(Fault::NotPermitted) }
}

/// What a FLUSH asks for. One that asks for nothing, or for what does not exist, is invalid.
// [flush-placement/flush-placement-none] [flush-placement/flush-selectivity-reserved]
pub(super) fn flush_asked(packet: &Packet<'_>) -> Result<(Placement, Selectivity), Fault> {
    let header = packet.feth().ok_or(Fault::UnsupportedOpcode)?;
    let placement = Placement::from_bits(header.placement()).ok_or(Fault::UnsupportedOpcode)?;
    let selectivity = match header.selectivity() {
        Feth::RANGE => Selectivity::Range,
        Feth::REGION => Selectivity::Region,
        _ => return Err(Fault::UnsupportedOpcode),
    };
    if placement.is_empty() { Err(Fault::UnsupportedOpcode) } else { Ok((placement, selectivity)) }
}

/// Whether the payload is as long as its place in the message demands (IBA 9.7.4.1.6).
// [rc-responder/length-first-middle] [rc-responder/length-last] [rc-responder/length-only]
// [rc-responder/length-no-payload] [connection-setup/mtu-mismatch]
pub(super) fn judge_length(
    facts: &OpcodeFacts,
    packet: &Packet<'_>,
    mtu: Mtu,
) -> Result<(), Fault> {
    let (len, mtu) = (packet.payload.len(), mtu.bytes() as usize);
    let fits = match (facts.payload, facts.place) {
        (false, _) => len == 0 && packet.bth.pad() == 0,
        (true, Place::First | Place::Middle) => len == mtu && packet.bth.pad() == 0,
        (true, Place::Last) => (1..=mtu).contains(&len),
        (true, Place::Only) => len <= mtu,
    };
    if fits { Ok(()) } else { Err(Fault::BadLength) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qp::pair::Taken;
    use crate::queue::RecvQueue;
    use crate::verbs::{Key, RecvWr};
    use crate::wire::{Opcode, Service};

    #[test]
    fn every_opcode_after_every_message_state() {
        let mut queue = RecvQueue::new(1, 0);
        queue.post(&RecvWr { wr_id: 0, sges: &[] });
        let taken = Taken::own(queue.take().unwrap());
        let write = Message::Write { key: Key(0), addr: 0, left: 1, length: 2, srq: None };
        for message in [Message::Idle, Message::Send { taken, received: 0 }, write] {
            for code in 0..=255 {
                let Some(facts) = Opcode(code).facts() else { continue };
                if !matches!(facts.service, Service::Rc | Service::Uc | Service::Xrc) {
                    continue;
                }
                let starts = facts.name.ends_with("FIRST") || facts.name.contains("ONLY");
                let continues = facts.name.contains("MIDDLE") || facts.name.contains("LAST");
                let expected = match message {
                    Message::Idle => starts || !continues,
                    Message::Send { .. } => continues && facts.name.starts_with("SEND"),
                    Message::Write { .. } => continues && facts.name.contains("WRITE"),
                    Message::Skip => unreachable!(),
                };
                let verdict = judge_sequence(&message, facts);
                assert_eq!(verdict.is_ok(), expected, "{} after {message:?}", facts.name);
            }
        }
    }

    #[test]
    fn the_circle_is_split_in_half() {
        for expected in [0, 1, 0x7f_ffff, 0x80_0000, 0xff_ffff].map(Psn::new) {
            assert_eq!(judge_psn(expected, expected), PsnVerdict::Expected);
            for step in [1, 2, 0x7f_ffff] {
                assert_eq!(judge_psn(expected, expected.plus(step)), PsnVerdict::Gap);
                assert_eq!(judge_psn(expected, expected.minus(step)), PsnVerdict::Duplicate);
            }
            assert_eq!(judge_psn(expected, expected.plus(0x80_0000)), PsnVerdict::Duplicate);
        }
    }
}
