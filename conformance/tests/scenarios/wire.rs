//! Packets against packets.
//!
//! A packet here is compared with the recorded one as a whole, once the names that the recording's
//! hosts happened to have (queue pair, buffer, key, first sequence number) are put in place of the
//! own ones. What came again is left out: how often a request is repeated, and when, depends on the
//! hosts. Requests and responses are compared each in their order; how the two interleave depends
//! on the hosts as well.

use softrnic_conformance::difference::Exchange;
use softrnic_conformance::lab::{Endpoint, Tapped};
use softrnic_conformance::scenario::Side;
use softrnic_model::verbs::Psn;
use softrnic_model::wire::{Aeth, AtomicEth, Bth, Deth, IcrcSeed, NakCode, Packet, Reth, Syndrome};

use crate::capture::{Captured, Names, Scene};

/// A connection of the simulated lab by its names.
pub(crate) fn names(ends: &[Endpoint; 2], first_psn: [Psn; 2]) -> Names {
    Names {
        qp: [ends[0].qp, ends[1].qp],
        first_psn,
        rkey: [ends[0].buffer.rkey, ends[1].buffer.rkey],
        addr: [ends[0].buffer.addr, ends[1].buffer.addr],
    }
}

/// Packets by the side that sent them, in order, repetitions left out.
pub(crate) fn by_sender(packets: &[Tapped], requester: &Endpoint) -> [Vec<Vec<u8>>; 2] {
    distinct(packets.iter().map(|tapped| {
        let from =
            if tapped.route.src == requester.gid { Side::Requester } else { Side::Responder };
        (from, tapped.packet.clone())
    }))
}

/// The same of packets whose sender is known.
pub(crate) fn distinct(packets: impl Iterator<Item = (Side, Vec<u8>)>) -> [Vec<Vec<u8>>; 2] {
    let mut all = [Vec::new(), Vec::new()];
    for (from, packet) in packets {
        let sent: &mut Vec<_> = &mut all[from as usize];
        if !sent.contains(&packet) {
            sent.push(packet);
        }
    }
    all
}

/// Holds packets against the recorded ones; a text for each that differs.
pub(crate) fn compare(
    packets: &[Vec<Vec<u8>>; 2],
    own: &Names,
    scene: &Scene,
    difference: Option<Exchange>,
) -> Vec<String> {
    let mut problems = Vec::new();
    let recorded = distinct(scene.frames.iter().map(|frame| (frame.from, frame.packet.clone())));
    let recorded = match difference {
        Some(Exchange::Nak(code)) => [recorded[0].clone(), with_nak(&recorded[1], code)],
        Some(Exchange::Refused(code)) => {
            assert!(recorded.concat().is_empty(), "nothing was recorded");
            return refused(packets, code);
        }
        None => recorded,
    };
    for side in Side::ALL {
        let (found, right) = (&packets[side as usize], &recorded[side as usize]);
        if found.len() != right.len() {
            problems.push(format!("{side}: {} packets, not {}", found.len(), right.len()));
        }
        for (found, right) in found.iter().zip(right) {
            let renamed = rename(found, side, own, &scene.names);
            if renamed != *right {
                problems.push(format!("{side}: {}\n  right is {}", show(&renamed), show(right)));
            }
            // The same packet gets the same ICRC on the way that the recorded one took.
            let frame = scene.frames.iter().find(|frame| frame.packet == renamed);
            if let Some(Captured { route, identification, icrc, .. }) = frame {
                let seed = IcrcSeed::new(route, renamed.len() + icrc.len())
                    .with_identification(*identification);
                if seed.finish(&renamed) != *icrc {
                    problems.push(format!("{side}: another ICRC for {}", show(&renamed)));
                }
            }
        }
    }
    problems
}

fn parse(packet: &[u8]) -> Packet<'_> {
    Packet::parse(packet).expect("devices send packets")
}

fn show(packet: &[u8]) -> String {
    let parsed = parse(packet);
    let payload = &parsed.payload[..parsed.payload.len().min(8)];
    format!("{parsed:?} {payload:02x?}…")
}

/// Puts the names `to` where a packet has the names `from`; other names stay.
fn rename(packet: &[u8], sender: Side, from: &Names, to: &Names) -> Vec<u8> {
    let parsed = parse(packet);
    let peer = sender.other() as usize;
    let shift = to.first_psn[0].offset_from(from.first_psn[0]);
    let mut bth = parsed.bth.with_psn(parsed.bth.psn().plus(shift));
    if bth.dest_qp() == from.qp[peer] {
        bth = bth.with_dest_qp(to.qp[peer]);
    }
    let mut renamed = packet.to_vec();
    put(&mut renamed, 0, &bth);
    let behind = size_of::<Bth>();
    let address = |va: u64| va.wrapping_sub(from.addr[peer]).wrapping_add(to.addr[peer]);
    let key = |key| if key == from.rkey[peer] { to.rkey[peer] } else { key };
    if let Some(reth) = parsed.reth() {
        put(&mut renamed, behind, &Reth::new(address(reth.va()), key(reth.rkey()), reth.len()));
    }
    if let Some(eth) = parsed.atomic_eth() {
        let eth =
            AtomicEth::new(address(eth.va()), key(eth.rkey()), eth.swap_or_add(), eth.compare());
        put(&mut renamed, behind, &eth);
    }
    if let Some(deth) = parsed.deth()
        && deth.src_qp() == from.qp[sender as usize]
    {
        put(&mut renamed, behind, &Deth::new(deth.qkey(), to.qp[sender as usize]));
    }
    renamed
}

fn put(packet: &mut [u8], at: usize, header: &(impl zerocopy::IntoBytes + zerocopy::Immutable)) {
    let bytes = header.as_bytes();
    packet[at..at + bytes.len()].copy_from_slice(bytes);
}

/// The same responses with another code in their NAK.
fn with_nak(responses: &[Vec<u8>], code: NakCode) -> Vec<Vec<u8>> {
    let change = |packet: &Vec<u8>| {
        let mut changed = packet.clone();
        let parsed = parse(packet);
        if let Some(aeth) = parsed.aeth()
            && matches!(aeth.syndrome(), Syndrome::Nak(_))
        {
            put(&mut changed, size_of::<Bth>(), &Aeth::new(Syndrome::Nak(code), aeth.msn()));
        }
        changed
    };
    let changed: Vec<_> = responses.iter().map(change).collect();
    assert_ne!(changed, responses, "the difference is none");
    changed
}

/// One request of one packet, one NAK for it, and no message counted.
fn refused(packets: &[Vec<Vec<u8>>; 2], code: NakCode) -> Vec<String> {
    let [requests, responses] = packets;
    let nak = Aeth::new(Syndrome::Nak(code), 0);
    let is_right = matches!((requests.as_slice(), responses.as_slice()), ([request], [response])
        if parse(request).bth.psn() == parse(response).bth.psn()
            && parse(request).bth.ack_req()
            && parse(response).aeth() == Some(&nak));
    if is_right { Vec::new() } else { vec![format!("not one request refused: {packets:02x?}")] }
}
