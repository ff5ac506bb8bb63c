//! Seed corpora, made from the captures of `conformance/`. Targets that decode calls from bytes
//! (`arbitrary`) encode some of their own.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use softrnic_model::verbs::{Gid, QpNum};
use softrnic_model::wire::{Packet, RoceFrame, Service};

use crate::{Target, captures, cm, device, message, protection, requester, responder};

/// The captures.
const FILES: [&str; 3] = ["rxe-scenarios.pcapng", "rxe-tools.pcapng", "rxe-v6-scenarios.pcapng"];

static CAPTURES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/captures");
    FILES.iter().map(|name| std::fs::read(folder.join(name)).unwrap()).collect()
});

/// For the C ABI: a queue pair of each type that goes three steps, and posts a send and a receive.
#[must_use]
pub fn c_abi() -> Vec<Vec<u8>> {
    /// `struct ibv_qp_attr` and a mask, `struct ibv_send_wr` and four elements.
    const ATTR: usize = 144 + 4;
    const SEND: usize = 128 + 64;
    let seed = |qp_type: u8| {
        // Type, sizes that a device has; then calls with their hints: all is made right.
        let mut seed = vec![0; 22];
        seed[0] = qp_type;
        for (call, len) in [(0, ATTR), (0, ATTR), (0, ATTR), (1, SEND), (2, 76), (2, 76)] {
            seed.extend([call, 0]);
            seed.resize(seed.len() + len, 0);
        }
        seed
    };
    [2, 3, 4].map(seed).to_vec()
}

/// Packets of the captures in their order, with the queue pair that they are for.
pub(crate) fn packets() -> Vec<(u32, Vec<u8>)> {
    let frames = CAPTURES.iter().flat_map(|file| captures::frames(file));
    let packets = frames.filter_map(|frame| RoceFrame::parse(frame).ok());
    packets
        .filter_map(|frame| {
            let packet = Packet::parse(frame.packet).ok()?;
            Some((packet.bth.dest_qp().get(), frame.packet.to_vec()))
        })
        .collect()
}

/// Management datagrams to queue pair 1, with who has sent them.
pub(crate) fn mads() -> Vec<(Gid, Vec<u8>)> {
    let frames = CAPTURES.iter().flat_map(|file| captures::frames(file));
    let frames = frames.filter_map(|frame| RoceFrame::parse(frame).ok());
    frames
        .filter_map(|frame| {
            let packet = Packet::parse(frame.packet).ok()?;
            let is_mad = packet.bth.dest_qp() == QpNum::GSI;
            is_mad.then(|| (frame.route.src, packet.payload.to_vec()))
        })
        .collect()
}

/// Packets in runs of `len` of the same queue pair.
fn runs(of_requests: bool, len: usize) -> Vec<Vec<Vec<u8>>> {
    let mut by_pair: BTreeMap<(u32, Service), Vec<Vec<u8>>> = BTreeMap::new();
    for (qp, bytes) in packets() {
        let facts = Packet::parse(&bytes).ok().and_then(|packet| packet.facts);
        if let Some(facts) = facts.filter(|facts| facts.operation.is_request() == of_requests) {
            by_pair.entry((qp, facts.service)).or_default().push(bytes);
        }
    }
    by_pair.values().flat_map(|all| all.chunks(len)).map(<[Vec<u8>]>::to_vec).collect()
}

/// The seeds of a target; always the same ones.
#[must_use]
pub fn of(target: &Target) -> Vec<Vec<u8>> {
    match target.name {
        "frame" => {
            let frames = CAPTURES.iter().flat_map(|file| captures::frames(file));
            frames.map(<[u8]>::to_vec).collect()
        }
        "pcapng" => CAPTURES.iter().map(|file| file[..file.len().min(6_000)].to_vec()).collect(),
        "message" => message::seeds(),
        "responder" => {
            let all = runs(true, 16);
            let seed = |(n, packets): (usize, &Vec<_>)| responder::seed(n, packets);
            all.iter().enumerate().map(seed).collect()
        }
        "requester" => {
            let requests = [
                [(0, 300), (3, 600), (2, 8)],
                [(3, 700), (1, 512), (3, 0)],
                [(0, 300), (1, 512), (0, 0)],
            ];
            let all = runs(false, 8);
            let seed = |(n, packets): (usize, &Vec<_>)| {
                requester::seed(&requests[n / 3 % 3], requester::LEFT[n % 3], packets)
            };
            all.iter().enumerate().map(seed).collect()
        }
        "protection" => protection::seeds(),
        "device" => device::seeds(),
        "cm" => cm::seeds(),
        name => panic!("{name} has no seeds"),
    }
}
