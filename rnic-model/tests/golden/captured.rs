//! Frames of a soft-RoCE device.

use std::collections::BTreeMap;

use softrnic_model::wire::{Grh, IcrcSeed, IcrcVerdict, NotRoce, Packet, ROCE_PORT, RoceFrame};

use crate::rebuild;
use crate::sources::frames_of;

/// Each file, and how many RoCEv2 frames it holds.
const FILES: [(&str, usize); 3] =
    [("rxe-scenarios.pcapng", 215), ("rxe-v6-scenarios.pcapng", 167), ("rxe-tools.pcapng", 1_163)];

#[test]
fn every_frame_is_made_again_byte_for_byte() {
    let mut total = 0;
    for (name, expected) in FILES {
        let mut count = 0;
        for bytes in frames_of(name) {
            let frame = match RoceFrame::parse(&bytes) {
                Ok(frame) => frame,
                Err(why) => {
                    assert!(is_another_protocol(why), "{name}: {why}");
                    continue;
                }
            };
            count += 1;
            assert_eq!(rebuild::frame(&frame), bytes, "{name} {count}");
            let mut again = Vec::new();
            frame.emit(&mut again);
            assert_eq!(again, bytes, "{name} {count}");
        }
        assert_eq!(count, expected, "{name}");
        total += count;
    }
    assert_eq!(total, 1_545);
}

/// ARP and ICMPv6, and the TCP connections by which programs exchange addresses.
fn is_another_protocol(why: NotRoce) -> bool {
    const ARP: u16 = 0x0806;
    const TCP: u8 = 6;
    const ICMPV6: u8 = 58;
    const HOP_BY_HOP: u8 = 0;
    matches!(
        why,
        NotRoce::EtherType(ARP) | NotRoce::Protocol(TCP | ICMPV6 | HOP_BY_HOP) | NotRoce::Port(_)
    ) && why != NotRoce::Port(ROCE_PORT)
}

#[test]
fn every_icrc_is_right_and_gives_its_identification_away() {
    for (name, _) in FILES {
        for bytes in frames_of(name) {
            let Ok(frame) = RoceFrame::parse(&bytes) else { continue };
            assert_eq!(frame.expected_icrc(), frame.icrc);
            let seed = IcrcSeed::new(&frame.route, frame.packet.len() + frame.icrc.len());
            let blind = seed.verify(frame.packet, frame.icrc);
            match frame.ip.identification() {
                Some(identification) => {
                    assert_ne!(identification, 0);
                    assert_eq!(blind, IcrcVerdict::Solved(identification));
                    let told = seed.with_identification(identification);
                    assert_eq!(told.verify(frame.packet, frame.icrc), IcrcVerdict::Full);
                    assert_eq!(
                        seed.solve_identification(frame.packet, frame.icrc),
                        Some(identification)
                    );
                }
                None => assert_eq!(blind, IcrcVerdict::Full),
            }
        }
    }
}

#[test]
fn a_grh_tells_the_route_of_every_frame() {
    for (name, _) in FILES {
        for bytes in frames_of(name) {
            let Ok(frame) = RoceFrame::parse(&bytes) else { continue };
            let grh = Grh::new(&frame.route, frame.packet.len() + frame.icrc.len());
            if !frame.route.is_v4() {
                assert_eq!(grh.0, bytes[14..54], "an IPv6 header as on the wire");
            }
            let mut expected = frame.route;
            expected.src_port = 0;
            assert_eq!(Grh::parse(&grh.0), Some(expected));
        }
    }
}

/// How often tshark 4.0.17 finds each opcode in the three files.
const OPCODES: &[(u8, usize)] = &[
    (0x00, 130),
    (0x01, 242),
    (0x02, 127),
    (0x03, 2),
    (0x04, 176),
    (0x05, 2),
    (0x06, 52),
    (0x07, 36),
    (0x08, 50),
    (0x09, 2),
    (0x0a, 19),
    (0x0b, 19),
    (0x0c, 41),
    (0x0d, 24),
    (0x0e, 6),
    (0x0f, 24),
    (0x10, 11),
    (0x11, 445),
    (0x12, 24),
    (0x13, 2),
    (0x14, 26),
    (0x20, 2),
    (0x21, 2),
    (0x22, 2),
    (0x26, 4),
    (0x27, 4),
    (0x28, 2),
    (0x29, 2),
    (0x2a, 2),
    (0x64, 59),
    (0x65, 6),
];

#[test]
fn opcodes_are_as_tshark_counts_them() {
    let mut seen = BTreeMap::new();
    for (name, _) in FILES {
        for bytes in frames_of(name) {
            let Ok(frame) = RoceFrame::parse(&bytes) else { continue };
            let packet = Packet::parse(frame.packet).unwrap();
            let facts = packet.facts.unwrap();
            assert!(facts.payload || packet.payload.is_empty());
            assert_eq!(packet.bth.transport_version(), 0);
            *seen.entry(packet.opcode.0).or_insert(0) += 1;
        }
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), OPCODES);
}
