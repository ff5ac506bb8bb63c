//! What must be on the wire, told from the work request and the path MTU alone, one line a packet.

use softrnic_conformance::lab::Connection;
use softrnic_conformance::scenario::{Observation, Op, Outcome, Work};
use softrnic_model::verbs::{QpType, SendFlags, WcStatus};
use softrnic_model::wire::{NakCode, Packet, Syndrome};

use crate::capture::Names;

/// A packet as a line. Sequence numbers count from the requester's first one, addresses from the
/// responder's buffer.
pub(crate) fn line(packet: &[u8], names: &Names) -> String {
    let first = names.first_psn[0];
    let packet = Packet::parse(packet).expect("devices send packets");
    let mut words =
        vec![format!("{:?}", packet.opcode), format!("+{}", packet.bth.psn().offset_from(first))];
    let mut say = |word: Option<String>| words.extend(word);
    say(packet.bth.ack_req().then(|| "ack".into()));
    say(packet.bth.solicited().then(|| "solicited".into()));
    say((packet.bth.pad() != 0).then(|| format!("pad {}", packet.bth.pad())));
    say((!packet.payload.is_empty()).then(|| format!("bytes {}", packet.payload.len())));
    let place = |va: u64, key| {
        let key = if key == names.rkey[1] { "" } else { " wrong key" };
        format!("at {}{key}", va.wrapping_sub(names.addr[1]))
    };
    say(packet.reth().map(|reth| format!("{} len {}", place(reth.va(), reth.rkey()), reth.len())));
    say(packet.atomic_eth().map(|eth| {
        format!("{} {:x} {:x}", place(eth.va(), eth.rkey()), eth.compare(), eth.swap_or_add())
    }));
    say(packet.imm_dt().map(|imm| format!("imm {:x}", imm.data())));
    say(packet.aeth().map(|aeth| format!("{:?}", aeth.syndrome())));
    words.join(" ")
}

/// How many sequence numbers a work request takes.
pub(crate) fn psns(work: &Work, connection: &Connection) -> u32 {
    match work.op {
        Op::Send(_) | Op::Write(_) | Op::Read => {
            work.length.div_ceil(connection.path_mtu.bytes()).max(1)
        }
        Op::CompareSwap { .. } | Op::FetchAdd(_) => 1,
    }
}

/// The lines of a scenario that ended as observed: what the requester sends, what the responder
/// sends. `at` is the distance of its first sequence number.
pub(crate) fn expected(
    observation: &Observation,
    connection: &Connection,
    at: u32,
) -> [Vec<String>; 2] {
    let scenario = &observation.scenario;
    let status = match &observation.outcomes[0] {
        Outcome::Completed(wcs) => wcs[0].status,
        Outcome::Refused(_) => return [Vec::new(), Vec::new()],
    };
    if matches!(status, WcStatus::LocalProtectionError | WcStatus::LocalQpOperationError) {
        return [Vec::new(), Vec::new()];
    }
    let requests = requests(&scenario.work, connection, at);
    if connection.qp_type != QpType::Rc {
        return [requests, Vec::new()];
    }
    let acknowledge = |at, syndrome| format!("RC ACKNOWLEDGE +{at} {syndrome:?}");
    let rnr = acknowledge(at, Syndrome::RnrNak { timer: connection.min_rnr_timer });
    let nak = |code| {
        // A receive fails at the packet that it has no more room for, all else at the first.
        let room = scenario.receive.map_or(0, |receive| receive.length);
        acknowledge(at + room / connection.path_mtu.bytes(), Syndrome::Nak(code))
    };
    let responses = match status {
        WcStatus::Success => {
            let mut all = answers(&scenario.work, connection, at);
            if scenario.receive.is_some_and(|receive| !receive.after.is_zero()) {
                all.insert(0, rnr);
            }
            all
        }
        WcStatus::RnrRetryExceeded => vec![rnr],
        WcStatus::RemoteAccessError => vec![nak(NakCode::RemoteAccess)],
        WcStatus::RemoteInvalidRequest => vec![nak(NakCode::InvalidRequest)],
        other => panic!("no scenario ends with {other:?}"),
    };
    [requests, responses]
}

fn requests(work: &Work, connection: &Connection, at: u32) -> Vec<String> {
    let service = match connection.qp_type {
        QpType::Rc => "RC",
        QpType::Uc => "UC",
        QpType::Ud => "UD",
        QpType::XrcSend | QpType::XrcRecv => "XRC",
    };
    let reliable = connection.qp_type == QpType::Rc;
    let target = {
        let key = if work.wrong_rkey.is_some() { " wrong key" } else { "" };
        format!(" at {}{key}", work.remote)
    };
    let (name, imm) = match work.op {
        Op::Send(imm) => ("SEND", imm),
        Op::Write(imm) => ("RDMA_WRITE", imm),
        Op::Read => {
            return vec![format!("RC RDMA_READ_REQUEST +{at} ack{target} len {}", work.length)];
        }
        Op::CompareSwap { compare, swap } => {
            return vec![format!("RC COMPARE_SWAP +{at} ack{target} {compare:x} {swap:x}")];
        }
        Op::FetchAdd(add) => return vec![format!("RC FETCH_ADD +{at} ack{target} 0 {add:x}")],
    };
    let pieces = pieces(work.length, connection);
    let last = pieces.len() - 1;
    let packet = |(i, bytes): (usize, &u32)| {
        let with_imm = if i == last && imm.is_some() { "_WITH_IMMEDIATE" } else { "" };
        let mut line = format!("{service} {name}_{}{with_imm} +{}", place(i, last), number(at, i));
        if i == last && reliable {
            line += " ack";
        }
        if i == last && work.flags.contains(SendFlags::SOLICITED) {
            line += " solicited";
        }
        line += &data(*bytes);
        if i == 0 && matches!(work.op, Op::Write(_)) {
            line += &format!("{target} len {}", work.length);
        }
        if let Some(imm) = imm.filter(|_| i == last) {
            line += &format!(" imm {imm:x}");
        }
        line
    };
    pieces.iter().enumerate().map(packet).collect()
}

fn answers(work: &Work, connection: &Connection, at: u32) -> Vec<String> {
    let ack = Syndrome::ACK;
    match work.op {
        Op::Send(_) | Op::Write(_) => {
            let last = at + psns(work, connection) - 1;
            vec![format!("RC ACKNOWLEDGE +{last} {ack:?}")]
        }
        Op::CompareSwap { .. } | Op::FetchAdd(_) => {
            vec![format!("RC ATOMIC_ACKNOWLEDGE +{at} {ack:?}")]
        }
        Op::Read => {
            let pieces = pieces(work.length, connection);
            let last = pieces.len() - 1;
            let packet = |(i, bytes): (usize, &u32)| {
                let (place, number, data) = (place(i, last), number(at, i), data(*bytes));
                let line = format!("RC RDMA_READ_RESPONSE_{place} +{number}{data}");
                // Only the packets between first and last have no acknowledge header.
                if i == 0 || i == last { format!("{line} {ack:?}") } else { line }
            };
            pieces.iter().enumerate().map(packet).collect()
        }
    }
}

/// The bytes of each packet of a message: full ones, then the rest.
fn pieces(length: u32, connection: &Connection) -> Vec<u32> {
    let mtu = connection.path_mtu.bytes();
    let mut pieces = vec![mtu; (length / mtu) as usize];
    if length == 0 || !length.is_multiple_of(mtu) {
        pieces.push(length % mtu);
    }
    pieces
}

fn place(i: usize, last: usize) -> &'static str {
    match (i == 0, i == last) {
        (true, true) => "ONLY",
        (true, false) => "FIRST",
        (false, true) => "LAST",
        (false, false) => "MIDDLE",
    }
}

fn number(at: u32, i: usize) -> u32 {
    at + u32::try_from(i).expect("a message has few packets")
}

fn data(bytes: u32) -> String {
    let pad = bytes.next_multiple_of(4) - bytes;
    let pad = if pad == 0 { String::new() } else { format!(" pad {pad}") };
    if bytes == 0 { pad } else { format!("{pad} bytes {bytes}") }
}
