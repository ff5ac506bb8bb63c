//! Frames of an independent encoder, and the fields an independent decoder reads in them.

use softrnic_model::verbs::QpNum;
use softrnic_model::wire::{
    EthernetHeader, IcrcSeed, IcrcVerdict, IpHeader, NotRoce, Opcode, Operation, Packet,
    ParseError, RoceFrame, Service, UdpHeader,
};
use zerocopy::FromBytes;

use crate::rebuild;
use crate::sources::{ScapyFrame, scapy_frames};

const ETHERNET_LEN: usize = 14;

#[test]
fn the_file_is_complete() {
    let frames = scapy_frames();
    assert_eq!(frames.len(), 73);
    assert!(frames.iter().all(|frame| frame.bytes.len() >= 42));
}

#[test]
fn well_formed_frames_are_made_again_and_read_as_tshark_reads_them() {
    let frames = scapy_frames();
    for golden in &frames[..35] {
        let frame = RoceFrame::parse(&golden.bytes).unwrap();
        let packet = Packet::parse(frame.packet).unwrap();
        assert_eq!(rebuild::frame(&frame), golden.bytes, "{}", golden.title);
        assert_eq!(frame.expected_icrc(), frame.icrc, "{}", golden.title);
        let hex = frame.icrc.map(|byte| format!("{byte:02x}")).concat();
        assert_eq!(golden.note("icrc_wire"), Some(hex.as_str()));
        assert_eq!(golden.note("ip"), Some(if frame.route.is_v4() { "v4" } else { "v6" }));
        compare_fields(golden, &frame, &packet);
    }
}

fn compare_fields(golden: &ScapyFrame, frame: &RoceFrame<'_>, packet: &Packet<'_>) {
    let bth = &packet.bth;
    let is = |key: &str, ours: u64| {
        assert_eq!(golden.number_of(key), Some(ours), "{key} of {}", golden.title);
    };
    // The 16 reserved bytes of a CNP are not payload to Scapy.
    let reserved = if packet.opcode == Opcode::CNP { 16 } else { 0 };
    let payload_len = packet.payload.len() - reserved;
    is("frame_len", golden.bytes.len() as u64);
    is("payload_len", payload_len as u64);
    is("pad", bth.pad() as u64);
    is("opcode", packet.opcode.0.into());
    is("bth.opcode", packet.opcode.0.into());
    is("bth.se", bth.solicited().into());
    is("bth.m", bth.migreq().into());
    is("bth.padcnt", bth.pad() as u64);
    is("bth.p_key", bth.pkey().into());
    is("bth.destqp", bth.dest_qp().get().into());
    is("bth.a", bth.ack_req().into());
    is("bth.psn", bth.psn().get().into());
    is("udp.length", frame.udp.len.get().into());
    let mut extensions = 0;
    let mut has = |keys: &[(&str, u64)]| {
        keys.iter().for_each(|&(key, ours)| is(key, ours));
        extensions += 1;
    };
    if let Some(h) = packet.reth() {
        let rkey = h.rkey().0.into();
        has(&[("reth.va", h.va()), ("reth.r_key", rkey), ("reth.dmalen", h.len().into())]);
    }
    if let Some(h) = packet.aeth() {
        let syndrome = u8::from(h.syndrome()).into();
        has(&[("aeth.syndrome", syndrome), ("aeth.msn", h.msn().into())]);
    }
    if let Some(h) = packet.atomic_eth() {
        has(&[("reth.va", h.va()), ("reth.r_key", h.rkey().0.into())]);
        is("atomiceth.swapdt", h.swap_or_add());
        is("atomiceth.cmpdt", h.compare());
    }
    if let Some(h) = packet.atomic_ack_eth() {
        has(&[("atomicacketh.origremdt", h.original())]);
    }
    if let Some(h) = packet.deth() {
        has(&[("deth.q_key", h.qkey().into()), ("deth.srcqp", h.src_qp().get().into())]);
    }
    // These two are printed in hexadecimal without a mark.
    let hex = |key| golden.note(key).map(|value| u32::from_str_radix(value, 16).unwrap());
    assert_eq!(hex("immdt"), packet.imm_dt().map(|h| h.data()), "{}", golden.title);
    assert_eq!(hex("ieth"), packet.ieth().map(|h| h.rkey().0), "{}", golden.title);
    let suffixes = usize::from(packet.imm_dt().is_some()) + usize::from(packet.ieth().is_some());
    let flags = packet.facts.unwrap().extensions;
    assert_eq!(extensions + suffixes, flags.iter().count(), "{}", golden.title);
}

#[test]
fn what_routers_change_leaves_the_icrc_right() {
    let frames = scapy_frames();
    for golden in &frames[35..42] {
        let frame = RoceFrame::parse(&golden.bytes).unwrap();
        assert_eq!(frame.expected_icrc(), frame.icrc, "{}", golden.title);
        let seed = IcrcSeed::new(&frame.route, frame.packet.len() + frame.icrc.len())
            .with_identification(frame.ip.identification().unwrap_or(0));
        assert_eq!(seed.verify(frame.packet, frame.icrc), IcrcVerdict::Full, "{}", golden.title);
        if let IpHeader::V4 { header, options } = frame.ip {
            assert_eq!(header.checksum.get(), header.checksum(options), "{}", golden.title);
        }
        let mut again = Vec::new();
        frame.emit(&mut again);
        assert_eq!(again, golden.bytes);
    }
    let seen = |number: usize| RoceFrame::parse(&frames[number - 1].bytes).unwrap();
    assert_eq!(seen(36).route.hop_limit, 61);
    assert!(seen(37).route.congestion_experienced());
    assert!(Packet::parse(seen(38).packet).unwrap().bth.fecn());
    assert_eq!(seen(40).route.hop_limit, 63);
    assert_eq!((seen(41).route.traffic_class, seen(41).route.flow_label), (0xff, 0xf_ffff));
    assert_eq!(seen(42).udp.checksum.get(), 0x1234);
}

/// What the wire layer says of a hostile frame.
#[derive(Debug, PartialEq, Eq)]
enum Says {
    /// Not a RoCEv2 frame.
    Not(NotRoce),
    /// The ICRC is wrong.
    BadIcrc,
    /// The ICRC is right, but this is no packet.
    Malformed(ParseError),
    /// A packet with an opcode that nobody knows.
    UnknownOpcode,
    /// A packet. Whoever receives it finds the fault in the decoded fields, if there is one.
    Packet,
}

fn judge(bytes: &[u8]) -> Says {
    let frame = match RoceFrame::parse(bytes) {
        Ok(frame) => frame,
        Err(why) => return Says::Not(why),
    };
    if frame.expected_icrc() != frame.icrc {
        return Says::BadIcrc;
    }
    match Packet::parse(frame.packet) {
        Ok(packet) if packet.facts.is_none() => Says::UnknownOpcode,
        Ok(_) => Says::Packet,
        Err(why) => Says::Malformed(why),
    }
}

#[test]
fn hostile_frames_get_the_verdict_they_deserve() {
    use Says::*;
    let expected = [
        (43, BadIcrc),
        (44, BadIcrc),
        (45, BadIcrc),
        (46, BadIcrc),
        (47, Packet),
        (48, UnknownOpcode),
        (49, UnknownOpcode),
        (50, Packet),
        (51, Packet),
        (52, Malformed(ParseError::PadTooLong)),
        (53, Malformed(ParseError::TooShortForHeaders)),
        (54, Malformed(ParseError::TooShortForHeaders)),
        (55, Malformed(ParseError::Misaligned)),
        (56, Malformed(ParseError::TooShortForBth)),
        (57, Malformed(ParseError::TooShortForBth)),
        (58, Not(NotRoce::TooShortForIcrc)),
        (59, Not(NotRoce::UdpLength)),
        (60, Not(NotRoce::UdpLength)),
        (61, Packet),
        (62, Packet),
        (63, Packet),
        (64, Packet),
        (65, Packet),
        (66, Packet),
        (67, Malformed(ParseError::Misaligned)),
        (68, Packet),
        (69, Packet),
        (70, Packet),
    ];
    let frames = scapy_frames();
    assert_eq!(expected.len(), 28);
    for (golden, (number, verdict)) in frames[42..70].iter().zip(expected) {
        assert_eq!(golden.number, number);
        assert_eq!(judge(&golden.bytes), verdict, "[{number}] {}", golden.title);
        assert_eq!(icrc_note(&golden.bytes), golden.note("icrc").unwrap(), "[{number}]");
    }
}

/// What the file says of the ICRC, found from the bytes alone, with the UDP length as it is.
fn icrc_note(bytes: &[u8]) -> &'static str {
    let (ip, rest) = bytes[ETHERNET_LEN..].split_at(20);
    let (udp, datagram) = UdpHeader::read_from_prefix(rest).unwrap();
    let Some((packet, icrc)) = datagram.split_last_chunk::<4>() else { return "none" };
    let seed = IcrcSeed::from_headers(ip, Some(&udp)).unwrap();
    if seed.verify(packet, *icrc) == IcrcVerdict::Full { "valid" } else { "wrong" }
}

#[test]
fn faults_of_well_formed_hostile_frames_are_in_plain_view() {
    let frames = scapy_frames();
    let packet = |number: usize| {
        let frame = RoceFrame::parse(&frames[number - 1].bytes).unwrap();
        Packet::parse(frame.packet).unwrap()
    };
    assert_eq!(packet(47).bth.transport_version(), 1);
    assert_eq!(packet(48).opcode.0, 0x1f);
    assert_eq!(packet(49).opcode.0, 0xff);
    assert_eq!(packet(50).facts.unwrap().service, Service::Ud);
    assert_eq!(packet(50).payload.len(), 8);
    assert!(packet(51).payload.is_empty());
    assert_eq!(packet(61).atomic_eth().unwrap().va() % 8, 1);
    assert_eq!(packet(62).reth().unwrap().len(), u32::MAX);
    assert_eq!(packet(62).payload.len(), 256);
    for (number, len) in [(63, 256), (64, 0x7fff_ffff)] {
        let reth = packet(number).reth().unwrap();
        assert_eq!(reth.len(), len);
        assert_eq!(reth.va().checked_add(reth.len().into()), None);
    }
    assert_eq!(packet(65).facts.unwrap().operation, Operation::ReadRequest);
    assert!(!packet(65).facts.unwrap().payload);
    assert_eq!(packet(65).payload, [0xaa; 8]);
    assert_eq!(packet(66).payload.len(), 15);
    assert_eq!(packet(68).bth.pkey(), 0);
    assert_eq!(packet(69).bth.dest_qp().get(), 0);
    assert_eq!(packet(70).bth.dest_qp(), QpNum::MULTICAST);
}

#[test]
fn frames_of_connectx() {
    let frames = scapy_frames();
    let bytes = &frames[70].bytes;
    let frame = RoceFrame::parse(bytes).unwrap();
    assert_eq!(rebuild::frame(&frame), *bytes);
    assert_eq!(frame.expected_icrc(), frame.icrc);
    assert_eq!(frame.route.src_port, 0);
    let packet = Packet::parse(frame.packet).unwrap();
    assert!(packet.bth.becn());
    assert_eq!((format!("{:?}", packet.opcode).as_str(), packet.payload), ("CNP", &[0; 16][..]));

    for (golden, pad, name) in
        [(&frames[71], 3, "RC RDMA_WRITE_ONLY"), (&frames[72], 0, "RC ACKNOWLEDGE")]
    {
        let version_1 = NotRoce::EtherType(EthernetHeader::ROCE_V1);
        assert_eq!(RoceFrame::parse(&golden.bytes), Err(version_1));
        let (grh, datagram) = golden.bytes[ETHERNET_LEN..].split_at(40);
        let (packet, icrc) = datagram.split_last_chunk::<4>().unwrap();
        let seed = IcrcSeed::from_headers(grh, None).unwrap();
        assert_eq!(seed.verify(packet, *icrc), IcrcVerdict::Full);
        let parsed = Packet::parse(packet).unwrap();
        assert_eq!(format!("{:?}", parsed.opcode), name);
        assert_eq!(parsed.bth.pad(), pad);
        assert_eq!(rebuild::packet(&parsed), packet);
    }
    let acknowledge = Packet::parse(&frames[72].bytes[54..70]).unwrap();
    assert!(acknowledge.bth.migreq());
    assert_eq!(acknowledge.aeth().unwrap().msn(), 5);
}
