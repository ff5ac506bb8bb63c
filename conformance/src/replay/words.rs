//! What a packet means.

use softrnic_model::Instant;
use softrnic_model::verbs::QpNum;
use softrnic_model::wire::{NakCode, Operation, Packet, RoceFrame, Syndrome, rnr_timer_ns};
use softrnic_transport::tap::{Direction, Line};

use super::cm;

/// A frame as a line of a trace, and what it means in sentences.
#[must_use]
pub fn explain(at_ns: u64, frame: &RoceFrame<'_>) -> (String, Vec<String>) {
    let line = Line {
        at: Instant::from_ns(at_ns),
        direction: Direction::Received,
        route: &frame.route,
        packet: frame.packet,
    };
    let line = line.to_string().replacen(" rx ", " ", 1);
    let meaning = match Packet::parse(frame.packet) {
        Ok(packet) => sentences(&packet),
        Err(error) => vec![format!("no device can read it: {error}")],
    };
    (line, meaning)
}

pub(super) fn sentences(packet: &Packet<'_>) -> Vec<String> {
    let bth = &packet.bth;
    let psn = bth.psn().get();
    let Some(facts) = packet.opcode.facts() else {
        return vec!["an opcode that no service has: a device refuses or drops it".into()];
    };
    let place = match (facts.place.begins(), facts.place.ends()) {
        (true, true) => "a whole message",
        (true, false) => "the beginning of a message",
        (false, false) => "a piece from the middle of a message",
        (false, true) => "the end of a message",
    };
    let len = packet.payload.len();
    let mut all = vec![match facts.operation {
        Operation::Send => format!("brings {len} bytes for a posted receive, {place}"),
        Operation::Write => format!("writes {len} bytes to the peer's memory, {place}"),
        Operation::ReadRequest => "asks for bytes of the peer's memory".into(),
        Operation::CompareSwap => "asks to compare 8 bytes and swap them if they are equal".into(),
        Operation::FetchAdd => "asks to add to 8 bytes and to hear what they were".into(),
        Operation::AtomicWrite => "asks to write 8 bytes at once".into(),
        Operation::Flush => "asks to bring bytes where they were asked to be".into(),
        Operation::ReadResponse => format!("answers a READ with {len} bytes, {place}"),
        Operation::AtomicAcknowledge => "answers an atomic with what was there".into(),
        Operation::Acknowledge => answer(packet, psn),
        Operation::CongestionNotification => {
            "tells the sender that its packets met congestion: it should slow down".into()
        }
    }];
    if let Some(reth) = packet.reth() {
        let (va, key, len) = (reth.va(), reth.rkey(), reth.len());
        all.push(format!("of {len} bytes in all, from {va:#x} on, by the key {key:?}"));
    }
    if let Some(atomic) = packet.atomic_eth() {
        let (va, key) = (atomic.va(), atomic.rkey());
        let operand = atomic.swap_or_add();
        all.push(if facts.operation == Operation::CompareSwap {
            let compare = atomic.compare();
            format!("at {va:#x} by the key {key:?}: {compare:#x} becomes {operand:#x}")
        } else {
            format!("at {va:#x} by the key {key:?}: {operand:#x} is added")
        });
    }
    if let Some(imm) = packet.imm_dt() {
        all.push(format!("with the immediate {:#010x}, which takes a receive", imm.data()));
    }
    if let Some(ieth) = packet.ieth() {
        all.push(format!("and invalidates the key {:?} there", ieth.rkey()));
    }
    if let Some(deth) = packet.deth() {
        let (from, qkey) = (deth.src_qp().get(), deth.qkey());
        all.push(format!("a datagram of queue pair {from:#08x}, with the Q_Key {qkey:#010x}"));
    }
    if packet.deth().is_some() && bth.dest_qp() == QpNum::GSI {
        all.extend(cm::sentences(packet.payload));
    }
    if let Some(xrc) = packet.xrc_eth() {
        all.push(format!("for the shared receive queue {:#08x}", xrc.srq()));
    }
    if bth.ack_req() && facts.operation.is_request() {
        all.push("wants to hear that it has arrived".into());
    }
    if bth.solicited() {
        all.push("wakes a program that waits for solicited events".into());
    }
    all
}

fn answer(packet: &Packet<'_>, psn: u32) -> String {
    let Some(aeth) = packet.aeth() else { return "an answer without its header".into() };
    match aeth.syndrome() {
        Syndrome::Ack { credits } => format!(
            "acknowledges everything up to PSN {psn:#08x}; {} messages are complete (credit code {credits})",
            aeth.msn()
        ),
        Syndrome::RnrNak { timer } => format!(
            "is not ready for PSN {psn:#08x}: no receive is posted; come again after {} µs",
            rnr_timer_ns(timer) / 1000
        ),
        Syndrome::Nak(code) => {
            let why = match code {
                NakCode::PsnSequence => "packets before it are missing: send again from it on",
                NakCode::InvalidRequest => "it is refused as invalid; the connection ends",
                NakCode::RemoteAccess => "the access is refused; the connection ends",
                NakCode::RemoteOperational => "it could not be carried out; the connection ends",
                NakCode::InvalidRd => {
                    "it is refused for a reason that only reliable datagrams have"
                }
            };
            format!("at PSN {psn:#08x}: {why}")
        }
        Syndrome::Reserved(byte) => format!("an answer with the reserved syndrome {byte:#04x}"),
    }
}
