use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::verbs::Gid;

fn route_v4() -> impl Strategy<Value = Route> {
    (any::<[u8; 4]>(), any::<[u8; 4]>(), any::<[u8; 4]>()).prop_map(|(src, dst, rest)| Route {
        src: Gid::from_v4(src),
        dst: Gid::from_v4(dst),
        src_port: u16::from_be_bytes([rest[0], rest[1]]),
        traffic_class: rest[2],
        hop_limit: rest[3],
        flow_label: 0,
    })
}

fn route_v6() -> impl Strategy<Value = Route> {
    (any::<[u8; 16]>(), any::<[u8; 16]>(), any::<u16>()).prop_map(|(mut src, mut dst, port)| {
        (src[0], dst[0]) = (0xfd, 0xfd);
        let (src, dst) = (Gid(src), Gid(dst));
        Route { src, dst, src_port: port, traffic_class: 3, hop_limit: 9, flow_label: 77 }
    })
}

fn packet() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..300)
}

/// The rule of the annex, spelled out over the bytes of a whole datagram.
// [icrc/ipv6-masked] [icrc/udp-checksum-masked]
fn by_the_rule(route: &Route, identification: u16, packet: &[u8]) -> [u8; ICRC_LEN] {
    let udp_len = u16::try_from(8 + packet.len() + ICRC_LEN).unwrap();
    let mut bytes: Vec<u8> = [0xff; 8].into();
    if let (Some(src), Some(dst)) = (route.src.as_v4(), route.dst.as_v4()) {
        bytes.extend([0x45, 0xff]);
        bytes.extend((20 + udp_len).to_be_bytes());
        bytes.extend(identification.to_be_bytes());
        bytes.extend([0x40, 0, 0xff, 17, 0xff, 0xff]);
        bytes.extend(src.into_iter().chain(dst));
    } else {
        bytes.extend([0x6f, 0xff, 0xff, 0xff]);
        bytes.extend(udp_len.to_be_bytes());
        bytes.extend([17, 0xff]);
        bytes.extend(route.src.0.into_iter().chain(route.dst.0));
    }
    bytes.extend(route.src_port.to_be_bytes());
    bytes.extend(4791u16.to_be_bytes());
    bytes.extend(udp_len.to_be_bytes());
    bytes.extend([0xff, 0xff]);
    let start = bytes.len();
    bytes.extend(packet);
    if let Some(masked) = bytes.get_mut(start + 4) {
        *masked = 0xff;
    }
    crc32fast::hash(&bytes).to_le_bytes()
}

#[test]
fn solving_agrees_with_trying_all_identifications() {
    let route = Route { src_port: 0xc000, ..Route::default() };
    let route =
        Route { src: Gid::from_v4([10, 0, 0, 1]), dst: Gid::from_v4([10, 0, 0, 2]), ..route };
    for (len, identification) in [(0, 0), (12, 1), (36, 0x8001), (1068, 0xffff)] {
        let packet: Vec<u8> = (0..=u8::MAX).cycle().take(len).collect();
        let seed = IcrcSeed::new(&route, len + ICRC_LEN);
        let right = seed.with_identification(identification).finish(&packet);
        // One that is right for some identification, and 300 random ones, which are not.
        let mut icrcs = Vec::from([right]);
        icrcs.extend((0..300u32).map(|i| {
            (u32::from_le_bytes(right) ^ i.wrapping_add(1).wrapping_mul(0x9e37_79b9)).to_le_bytes()
        }));
        let of = |id: u16| seed.with_identification(id).finish(&packet);
        let mut made: Vec<_> = (0..=u16::MAX).map(|id| (of(id), id)).collect();
        made.sort_unstable();
        assert!(made.windows(2).all(|pair| pair[0].0 != pair[1].0), "one solution at most");
        for icrc in icrcs {
            let found = made.binary_search_by_key(&icrc, |entry| entry.0);
            let tried = found.ok().map(|at| made[at].1);
            assert_eq!(seed.solve_identification(&packet, icrc), tried);
            let guess = seed.with_identification(0x1234);
            assert_eq!(guess.solve_identification(&packet, icrc), tried);
        }
    }
}

#[test]
fn no_single_flipped_bit_passes_for_another_identification() {
    // A flip and an identification are the same number of bytes from the end of the packet
    // whatever its length, so the offset is all that matters.
    let mistaken = |offset: u16| {
        (0..8).any(|bit| {
            let effect = feed(0, &[1 << bit]);
            field_from_effect(effect, BEHIND_IDENTIFICATION + offset + 1).is_some()
        })
    };
    assert_eq!((0..u16::MAX / 2).find(|&offset| mistaken(offset)), Some(26_744));
}

#[test]
fn every_length_is_by_the_rule() {
    let (src, dst) = (Gid::from_v4([10, 0, 0, 1]), Gid::from_v4([10, 0, 0, 2]));
    let route = Route { src, dst, src_port: 0xc123, ..Route::default() };
    let bytes: Vec<u8> =
        (0..4_200u32).map(|n| n.wrapping_mul(0x9e37_79b9).to_le_bytes()[3]).collect();
    for len in (0..700).chain([1036, 1052, 4108, 4124, 4200]) {
        let seed = IcrcSeed::new(&route, len + ICRC_LEN);
        assert_eq!(seed.finish(&bytes[..len]), by_the_rule(&route, 0, &bytes[..len]), "{len}");
    }
}

#[test]
fn lengths_that_cannot_be_do_no_harm() {
    let seed = IcrcSeed::new(&Route::default(), usize::MAX);
    assert_eq!(seed.verify(&[0; 70_000], [0; 4]), IcrcVerdict::Bad);
    let v4 = Route { dst: Gid::from_v4([1, 2, 3, 4]), ..Route::default() };
    assert_eq!(IcrcSeed::new(&v4, 70_000).solve_identification(&[0; 70_000], [0; 4]), None);
}

#[test]
fn headers_that_are_none_give_no_seed() {
    let udp = UdpHeader::new(1, 8);
    let mut v4 = [0; 24];
    v4[0] = 0x45;
    assert!(IcrcSeed::from_headers(&v4[..20], Some(&udp)).is_some());
    assert_eq!(IcrcSeed::from_headers(&v4, Some(&udp)), None);
    assert_eq!(IcrcSeed::from_headers(&v4[..20], None), None);
    assert_eq!(IcrcSeed::from_headers(&v4[..19], Some(&udp)), None);
    v4[0] = 0x46;
    assert!(IcrcSeed::from_headers(&v4, Some(&udp)).is_some());
    assert_eq!(IcrcSeed::from_headers(&[0x60; 39], Some(&udp)), None);
    assert_eq!(IcrcSeed::from_headers(&[0x50; 40], Some(&udp)), None);
    assert_eq!(IcrcSeed::from_headers(&[], Some(&udp)), None);
}

proptest! {
    #[test]
    fn v4_is_by_the_rule(route in route_v4(), packet in packet(), id: u16, other: u16) {
        let seed = IcrcSeed::new(&route, packet.len() + ICRC_LEN);
        prop_assert_eq!(seed.finish(&packet), by_the_rule(&route, 0, &packet));
        let moved = seed.with_identification(other).with_identification(id);
        let icrc = moved.finish(&packet);
        prop_assert_eq!(icrc, by_the_rule(&route, id, &packet));
        prop_assert_eq!(moved.verify(&packet, icrc), IcrcVerdict::Full);
        prop_assert_eq!(seed.solve_identification(&packet, icrc), Some(id));
    }

    #[test]
    fn v6_is_by_the_rule(route in route_v6(), packet in packet(), id: u16, flip in 0..32u32) {
        let seed = IcrcSeed::new(&route, packet.len() + ICRC_LEN);
        let icrc = seed.finish(&packet);
        prop_assert_eq!(icrc, by_the_rule(&route, 0, &packet));
        prop_assert_eq!(seed.with_identification(id), seed);
        let wrong = (u32::from_le_bytes(icrc) ^ (1 << flip)).to_le_bytes();
        prop_assert_eq!(seed.verify(&packet, wrong), IcrcVerdict::Bad);
        prop_assert_eq!(seed.solve_identification(&packet, icrc), None);
    }
}
