//! What a message of the connection manager says.

use softrnic_model::cm::ip::IpHeader;
use softrnic_model::cm::mad::NotCm;
use softrnic_model::cm::message::{
    Answered, Apr, Drep, Dreq, Lap, Message, Mra, Rej, Rep, Req, Rtu, SidrRep, SidrReq, SidrStatus,
};
use softrnic_model::cm::service::{PortSpace, ServiceId};
use softrnic_model::verbs::{Gid, Mtu};

/// A management datagram in sentences.
pub(super) fn sentences(datagram: &[u8]) -> Vec<String> {
    let (header, message) = match Message::parse(datagram) {
        Ok(read) => read,
        Err(NotCm::Class) => return vec!["management, but not of connections".into()],
        Err(why) => return vec![format!("no message of the connection manager: {why}")],
    };
    let mut all = vec![format!("{}: {}", name(&message), gist(&message))];
    all.extend(details(&message));
    if let Some(header) = message.request_data().and_then(|data| IpHeader::parse(data).ok()) {
        let IpHeader { source, source_port, destination } = header;
        all.push(format!("asked by {source}, port {source_port}, of {destination}"));
    }
    if let Some(said) = private(&message) {
        all.push(said);
    }
    all.push(format!("of exchange {:#x}", header.transaction));
    all
}

/// Its name as programs that show packets write it: `SIDR_REQ`.
fn name(message: &Message) -> String {
    let mut name = String::new();
    for letter in message.name().chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

/// What it is for.
fn gist(message: &Message) -> String {
    match message {
        Message::Req(req) => {
            let (id, service) = (req.local_comm_id, service(req.service_id));
            format!("asks for {} to {service}, and calls it {id:?}", transport(req))
        }
        Message::Rep(Rep { local_comm_id, remote_comm_id, .. }) => {
            format!("takes the connection {remote_comm_id:?}, and calls it {local_comm_id:?}")
        }
        Message::Rtu(Rtu { remote_comm_id, .. }) => {
            format!("the connection {remote_comm_id:?} is ready to use")
        }
        Message::Rej(Rej { remote_comm_id, message, reason, .. }) => {
            let (what, reason) = (answered(*message), reason.text());
            format!("refuses {what} of {remote_comm_id:?}: {reason}")
        }
        Message::Mra(Mra { remote_comm_id, message, service_timeout, .. }) => {
            let (what, time) = (answered(*message), time_of(*service_timeout));
            format!("has got {what} of {remote_comm_id:?} and answers within {time}")
        }
        Message::Dreq(Dreq { remote_comm_id, remote_qpn, .. }) => format!(
            "asks to end the connection {remote_comm_id:?} of queue pair {:#08x}",
            remote_qpn.get()
        ),
        Message::Drep(Drep { remote_comm_id, .. }) => {
            format!("agrees to the end of the connection {remote_comm_id:?}")
        }
        Message::SidrReq(SidrReq { request_id, service_id, .. }) => {
            format!("asks which queue pair serves {}, as {request_id:?}", service(*service_id))
        }
        Message::SidrRep(rep) => sidr_answer(rep),
        Message::Lap(Lap { remote_comm_id, local_gid, remote_gid, .. }) => format!(
            "offers another path of the connection {remote_comm_id:?}: {local_gid} to {remote_gid}"
        ),
        Message::Apr(Apr { remote_comm_id, status, .. }) => {
            let said = match *status {
                0 => "takes".to_owned(),
                Apr::NOT_SUPPORTED => "has no use for".to_owned(),
                other => format!("refuses (status {other})"),
            };
            format!("{said} the other path of the connection {remote_comm_id:?}")
        }
    }
}

fn transport(req: &Req) -> &'static str {
    match (req.transport, req.extended_transport) {
        (Req::RELIABLE_CONNECTION, _) => "a reliable connection",
        (Req::UNRELIABLE_CONNECTION, _) => "an unreliable connection",
        (Req::EXTENDED, Req::XRC) => "an extended reliable connection",
        (_, _) => "a connection of a kind that nobody has",
    }
}

fn service(id: ServiceId) -> String {
    match id.port() {
        Some((PortSpace::Tcp, port)) => format!("port {port} of the space of TCP"),
        Some((PortSpace::Udp, port)) => format!("port {port} of the space of UDP"),
        Some((PortSpace::Ipoib, port)) => format!("port {port} of the space of IP over InfiniBand"),
        Some((PortSpace::Ib, _)) | None => format!("the service {:#018x}", id.0),
    }
}

fn answered(raw: u8) -> &'static str {
    const REQ: u8 = Answered::Req as u8;
    const REP: u8 = Answered::Rep as u8;
    match raw {
        REQ => "the request",
        REP => "the reply",
        _ => "what was said",
    }
}

/// 4.096 µs · 2^code.
fn time_of(code: u8) -> String {
    let us = 4.096 * f64::from(1_u32 << code.min(31));
    if us < 1000.0 { format!("{us:.0} µs") } else { format!("{:.0} ms", us / 1000.0) }
}

fn sidr_answer(rep: &SidrRep) -> String {
    const STATUSES: [(SidrStatus, &str); 3] = [
        (SidrStatus::NotSupported, "nobody offers it"),
        (SidrStatus::Rejected, "the program says no"),
        (SidrStatus::NoQp, "there is no queue pair"),
    ];
    let (id, qpn, qkey) = (rep.request_id, rep.qpn.get(), rep.qkey);
    if rep.status == SidrStatus::Valid as u8 {
        return format!("answers {id:?}: queue pair {qpn:#08x}, Q_Key {qkey:#010x}");
    }
    let known = STATUSES.iter().find(|(status, _)| *status as u8 == rep.status);
    let why = known.map_or_else(|| format!("status {}", rep.status), |(_, why)| (*why).to_owned());
    format!("answers {id:?}: {why}")
}

/// What the queue pair that it speaks of is like.
fn details(message: &Message) -> Vec<String> {
    match message {
        Message::Req(req) => {
            let qp = req.local_qpn.get();
            let psn = req.starting_psn.get();
            let mtu = Mtu::ALL.into_iter().find(|mtu| *mtu as u8 == req.mtu);
            let mtu =
                mtu.map_or_else(|| "an unknown MTU".into(), |mtu| format!("MTU {}", mtu.bytes()));
            let mut all = vec![
                format!("its queue pair is {qp:#08x}; the other one sends from PSN {psn:#08x} on"),
                format!("{mtu}, {} retries, {} after RNR", req.retry_count, req.rnr_retry_count),
                depths(req.responder_resources, req.initiator_depth),
                path(req.primary_local_gid, req.primary_remote_gid),
            ];
            if req.alternate_local_gid != Gid::default() {
                all.push(format!("or {}", path(req.alternate_local_gid, req.alternate_remote_gid)));
            }
            all
        }
        Message::Rep(rep) => {
            let (qp, psn) = (rep.local_qpn.get(), rep.starting_psn.get());
            vec![
                format!("its queue pair is {qp:#08x}; the other one sends from PSN {psn:#08x} on"),
                depths(rep.responder_resources, rep.initiator_depth),
            ]
        }
        Message::Mra(_)
        | Message::Rej(_)
        | Message::Rtu(_)
        | Message::Dreq(_)
        | Message::Drep(_)
        | Message::SidrReq(_)
        | Message::SidrRep(_)
        | Message::Lap(_)
        | Message::Apr(_) => Vec::new(),
    }
}

fn depths(responder: u8, initiator: u8) -> String {
    format!("it serves {responder} READs and atomics at a time and asks for {initiator}")
}

fn path(from: Gid, to: Gid) -> String {
    format!("the path is {from} to {to}")
}

/// What the program says, up to its last byte that is not zero. Of requests of a port space the
/// addressing header comes before.
fn private(message: &Message) -> Option<String> {
    let bytes: &[u8] = match message {
        Message::Req(Req { private_data, .. }) => &private_data.0,
        Message::Mra(Mra { private_data, .. }) => &private_data.0,
        Message::Rej(Rej { private_data, .. }) => &private_data.0,
        Message::Rep(Rep { private_data, .. }) => &private_data.0,
        Message::Rtu(Rtu { private_data, .. }) => &private_data.0,
        Message::Dreq(Dreq { private_data, .. }) => &private_data.0,
        Message::Drep(Drep { private_data, .. }) => &private_data.0,
        Message::SidrReq(SidrReq { private_data, .. }) => &private_data.0,
        Message::SidrRep(SidrRep { private_data, .. }) => &private_data.0,
        Message::Lap(Lap { private_data, .. }) => &private_data.0,
        Message::Apr(Apr { private_data, .. }) => &private_data.0,
    };
    let has_header = message.request_data().is_some_and(|data| IpHeader::parse(data).is_ok());
    let said = if has_header { bytes.get(softrnic_model::cm::ip::IP_HEADER_LEN..)? } else { bytes };
    let end = said.iter().rposition(|byte| *byte != 0)? + 1;
    let shown: String = said[..end].iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect();
    let dots = if end > SHOWN { ".." } else { "" };
    Some(format!("its program says {end} bytes: {shown}{dots}"))
}

/// Bytes of a program that are shown.
const SHOWN: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;
    use softrnic_model::cm::RejectReason;
    use softrnic_model::cm::message::cell::{Bytes, CommId};
    use softrnic_model::verbs::{Psn, QpNum};

    fn told(message: impl Into<Message>) -> String {
        sentences(&message.into().to_mad(7, 0)).join("; ")
    }

    #[test]
    fn a_request_tells_who_asks_for_what() {
        let header = IpHeader {
            source_port: 4000,
            source: [10, 0, 0, 1].into(),
            destination: [10, 0, 0, 2].into(),
        };
        let mut data = header.to_bytes().to_vec();
        data.extend_from_slice(b"hi");
        let text = told(Req {
            local_comm_id: CommId(5),
            service_id: ServiceId::of_port(PortSpace::Tcp, 7471),
            local_qpn: QpNum::new(0x12),
            starting_psn: Psn::new(0x34),
            mtu: Mtu::B1024 as u8,
            retry_count: 7,
            rnr_retry_count: 6,
            responder_resources: 3,
            initiator_depth: 4,
            private_data: Bytes::of(&data).unwrap(),
            ..Req::default()
        });
        for piece in [
            "REQ: asks for a reliable connection to port 7471 of the space of TCP",
            "and calls it 0x00000005",
            "its queue pair is 0x000012; the other one sends from PSN 0x000034 on",
            "MTU 1024, 7 retries, 6 after RNR",
            "serves 3 READs and atomics at a time and asks for 4",
            "asked by 10.0.0.1, port 4000, of 10.0.0.2",
            "its program says 2 bytes: 6869",
            "of exchange 0x7",
        ] {
            assert!(text.contains(piece), "no {piece:?} in: {text}");
        }
    }

    #[test]
    fn every_other_message_has_a_gist() {
        let id = CommId(9);
        let messages: [(Message, &str); 9] = [
            (
                Rep { remote_comm_id: id, ..Rep::default() }.into(),
                "REP: takes the connection 0x00000009",
            ),
            (
                Rtu { remote_comm_id: id, ..Rtu::default() }.into(),
                "RTU: the connection 0x00000009 is ready",
            ),
            (
                Rej {
                    remote_comm_id: id,
                    reason: RejectReason::CONSUMER_DEFINED,
                    ..Rej::default()
                }
                .into(),
                "REJ: refuses the request of 0x00000009: the program refused",
            ),
            (
                Mra { remote_comm_id: id, service_timeout: 20, ..Mra::default() }.into(),
                "MRA: has got the request of 0x00000009 and answers within 4295 ms",
            ),
            (
                Dreq { remote_comm_id: id, ..Dreq::default() }.into(),
                "DREQ: asks to end the connection",
            ),
            (Drep { remote_comm_id: id, ..Drep::default() }.into(), "DREP: agrees to the end"),
            (
                SidrRep { request_id: id, qpn: QpNum::new(3), ..SidrRep::default() }.into(),
                "SIDR_REP: answers 0x00000009: queue pair 0x000003",
            ),
            (Lap { remote_comm_id: id, ..Lap::default() }.into(), "LAP: offers another path"),
            (
                Apr { remote_comm_id: id, status: Apr::NOT_SUPPORTED, ..Apr::default() }.into(),
                "APR: has no use for the other path",
            ),
        ];
        for (message, expected) in messages {
            let text = told(message);
            assert!(text.starts_with(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_message_is_said_to_be_none() {
        assert_eq!(sentences(&[1; 12]), ["no message of the connection manager: not 256 bytes"]);
        let mut other = Message::from(Rtu::default()).to_mad(0, 0);
        other[1] = 3;
        assert_eq!(sentences(&other), ["management, but not of connections"]);
    }
}
