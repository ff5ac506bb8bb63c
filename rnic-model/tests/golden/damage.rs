//! Golden frames cut short and with bits flipped.

use std::collections::BTreeSet;

use softrnic_model::wire::{IcrcSeed, IcrcVerdict, IpHeader, Packet, RoceFrame, split_icrc};

use crate::sources::{scapy_frames, well_formed};

const ETHERNET_LEN: usize = 14;

#[test]
fn a_frame_cut_short_is_refused_at_every_length() {
    for bytes in well_formed() {
        for len in 0..bytes.len() {
            assert!(RoceFrame::parse(&bytes[..len]).is_err(), "{len} of {}", bytes.len());
        }
    }
    for frame in scapy_frames() {
        for len in 0..frame.bytes.len() {
            let _ = RoceFrame::parse(&frame.bytes[..len]);
        }
    }
}

#[test]
fn a_packet_cut_short_never_panics_and_never_grows() {
    for bytes in one_of_each_kind() {
        let frame = RoceFrame::parse(&bytes).unwrap();
        let whole = Packet::parse(frame.packet).unwrap();
        let seed = IcrcSeed::new(&frame.route, frame.packet.len() + frame.icrc.len());
        let headers_and_pad = whole.facts.unwrap().header_len() + whole.bth.pad();
        for len in 0..frame.packet.len() {
            let cut = &frame.packet[..len];
            match Packet::parse(cut) {
                Ok(packet) => {
                    assert!(len >= headers_and_pad && len.is_multiple_of(4));
                    assert_eq!(packet.payload.len(), len - headers_and_pad);
                    let _ = format!("{packet:?}");
                }
                Err(_) => assert!(len < headers_and_pad || !len.is_multiple_of(4)),
            }
        }
        // The ICRC of a datagram that lost its tail, with the lengths of the whole one.
        for len in (0..frame.packet.len()).step_by(4).take(32) {
            if let Some((packet, icrc)) = split_icrc(&frame.packet[..len]) {
                assert_ne!(seed.verify(packet, icrc), IcrcVerdict::Full);
            }
        }
    }
}

/// Of the golden frames one for each IP version, opcode and length.
fn one_of_each_kind() -> Vec<Vec<u8>> {
    let mut kinds = BTreeSet::new();
    let mut frames = well_formed();
    frames.retain(|bytes| {
        let frame = RoceFrame::parse(bytes).unwrap();
        kinds.insert((frame.route.is_v4(), frame.packet[0], bytes.len()))
    });
    frames
}

/// Every bit, as index and number.
fn bits_of(bytes: &[u8]) -> impl Iterator<Item = (usize, u32)> + use<> {
    (0..bytes.len()).flat_map(|byte| (0..8).map(move |bit| (byte, bit)))
}

/// Whether the ICRC leaves the bit at `byte` and `mask` of a frame uncovered, told from the layout
/// alone: addresses of Ethernet; of IPv4 TOS, TTL and checksum; of IPv6 traffic class, flow label
/// and hop limit; UDP checksum; the byte behind the partition key.
fn is_uncovered(frame: &RoceFrame<'_>, byte: usize, mask: u8) -> bool {
    let Some(byte) = byte.checked_sub(ETHERNET_LEN) else { return true };
    let (masked, udp) = match frame.ip {
        IpHeader::V4 { .. } => (matches!(byte, 1 | 8 | 10 | 11), 20),
        IpHeader::V6(_) => (matches!(byte, 1..=3 | 7) || byte == 0 && mask < 0x10, 40),
    };
    masked || matches!(byte.checked_sub(udp), Some(6 | 7 | 12))
}

#[test]
fn every_flipped_bit_is_seen() {
    let mut refused = 0;
    let mut detected = 0;
    let mut uncovered = 0;
    for bytes in one_of_each_kind() {
        let original = RoceFrame::parse(&bytes).unwrap();
        let mut damaged = bytes.clone();
        for (byte, bit) in bits_of(&bytes) {
            let mask = 1 << bit;
            damaged[byte] ^= mask;
            match RoceFrame::parse(&damaged) {
                Err(_) => refused += 1,
                Ok(frame) if is_uncovered(&original, byte, mask) => {
                    uncovered += 1;
                    assert_eq!(frame.expected_icrc(), frame.icrc, "byte {byte} bit {bit}");
                }
                Ok(frame) => {
                    detected += 1;
                    assert_ne!(frame.expected_icrc(), frame.icrc, "byte {byte} bit {bit}");
                    let _ = Packet::parse(frame.packet).map(|packet| format!("{packet:?}"));
                }
            }
            damaged[byte] ^= mask;
        }
    }
    assert_eq!((refused, detected, uncovered), (11_476, 548_544, 20_444));
}

#[test]
fn a_receiver_that_cannot_see_the_identification_sees_every_flipped_bit_of_a_packet() {
    for bytes in one_of_each_kind() {
        let frame = RoceFrame::parse(&bytes).unwrap();
        let seed = IcrcSeed::new(&frame.route, frame.packet.len() + frame.icrc.len());
        let mut packet = frame.packet.to_vec();
        for (byte, bit) in bits_of(frame.packet).filter(|&(byte, _)| byte != 4) {
            packet[byte] ^= 1 << bit;
            assert_eq!(seed.verify(&packet, frame.icrc), IcrcVerdict::Bad, "byte {byte} bit {bit}");
            packet[byte] ^= 1 << bit;
        }
        for bit in 0..32 {
            let icrc = (u32::from_le_bytes(frame.icrc) ^ 1 << bit).to_le_bytes();
            assert_eq!(seed.verify(&packet, icrc), IcrcVerdict::Bad, "ICRC bit {bit}");
        }
    }
}
