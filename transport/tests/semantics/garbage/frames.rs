//! Frames as they are, and what can become of them.

use softrnic_model::verbs::{Key, QpType};
use softrnic_model::wire::Route;
use softrnic_transport::sim::Fate;

use crate::bench::{A, B, BASE, Rng, Setup, send, send_imm, send_invalidate, wr};

use super::world::{Target, World};

/// Frames of all kinds, by service.
pub(super) struct Frames {
    by_type: Vec<(QpType, Vec<Vec<u8>>)>,
}

impl Frames {
    /// What really passes between queue pairs that do everything.
    pub(super) fn recorded() -> Self {
        let by_type = [QpType::Rc, QpType::Uc, QpType::Ud, QpType::XrcSend]
            .map(|qp_type| (qp_type, record(qp_type)));
        Self { by_type: by_type.into() }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.by_type.iter().flat_map(|(_, frames)| frames)
    }

    /// A frame for one of the world's queue pairs, more or less damaged.
    pub(super) fn damaged(&self, rng: &mut Rng, world: &World) -> (Route, Vec<u8>) {
        let targets = world.targets();
        // The first ones, which are connected and ready, can be told most.
        let target =
            if rng.chance(50) { &targets[rng.below(2) as usize] } else { rng.pick(&targets) };
        // Sometimes of another service.
        // Both ends of XRC have been recorded together.
        let recorded = match target.qp_type {
            QpType::XrcRecv => QpType::XrcSend,
            of @ (QpType::Rc | QpType::Uc | QpType::Ud | QpType::XrcSend) => of,
        };
        let of_service = |(qp_type, _): &&(QpType, _)| *qp_type == recorded;
        let (_, frames) = match self.by_type.iter().find(of_service) {
            Some(frames) if rng.chance(95) => frames,
            _ => &self.by_type[0],
        };
        // Half are responses, which only some queue pairs wait for.
        let half = rng.chance(50);
        let wanted = match target.qp_type {
            QpType::XrcSend => true,
            QpType::XrcRecv => false,
            QpType::Rc | QpType::Uc | QpType::Ud => half,
        };
        let mut bytes = rng.pick(frames).clone();
        while target.qp_type.is_reliable() && is_response(&bytes) != wanted {
            bytes.clone_from(rng.pick(frames));
        }
        aim(rng, &mut bytes, target, world.keys());
        for _ in 0..rng.below(3) {
            damage(rng, &mut bytes);
        }
        (world.route(rng), bytes)
    }
}

/// Whether a frame is one of the responses of RC or XRC.
fn is_response(bytes: &[u8]) -> bool {
    matches!(bytes[0] & !XRC, 0x0d..=0x12)
}

/// The service of XRC; the opcodes of XRC are those of RC under it.
const XRC: u8 = 0xa0;

/// Makes a frame one for `target` that is likely to be looked at.
fn aim(rng: &mut Rng, bytes: &mut [u8], target: &Target, keys: &[Key]) {
    bytes[5..8].copy_from_slice(&target.num.get().to_be_bytes()[1..]);
    let origin = if is_response(bytes) { target.first_psn } else { target.expected };
    let psn = match rng.below(10) {
        0..6 => origin,
        6 => origin.plus(rng.below(4) as u32),
        7 => origin.minus(1 + rng.below(4) as u32),
        8 => origin.plus((1 << 23) - 2 + rng.below(4) as u32),
        _ => origin.plus(rng.below(12) as u32),
    };
    bytes[9..12].copy_from_slice(&psn.get().to_be_bytes()[1..]);
    // Of acknowledgements of all kinds.
    if bytes[0] & !XRC == 0x11 {
        bytes[12] = *rng.pick(&[0x1f, 0x00, 0x21, 0x3f, 0x60, 0x61, 0x62, 0x63, 0x64, 0x65, 0x80]);
    }
    let is_xrc = bytes[0] & 0xe0 == XRC;
    if is_xrc && !is_response(bytes) && rng.chance(90) {
        bytes[12..16].copy_from_slice(&target.srq.get().to_be_bytes());
    }
    // RETH and AtomicETH begin with address and key.
    let kind = bytes[0] & !XRC;
    if matches!(kind, 0x06 | 0x0a..=0x0c | 0x13 | 0x14 | 0x1c | 0x1d | 0x26 | 0x2a | 0x2b) {
        let behind = 12 + 4 * usize::from(is_xrc) + 4 * usize::from(kind == 0x1c);
        let address = match rng.below(4) {
            0 => rng.next(),
            1 => u64::MAX - rng.below(64),
            _ => BASE + rng.below(4200) / 8 * 8,
        };
        bytes[behind..behind + 8].copy_from_slice(&address.to_be_bytes());
        bytes[behind + 8..behind + 12].copy_from_slice(&rng.pick(keys).0.to_be_bytes());
    }
}

fn damage(rng: &mut Rng, bytes: &mut Vec<u8>) {
    let len = bytes.len() as u64;
    match rng.below(8) {
        0 => bytes.truncate(rng.below(len + 1) as usize),
        1 => bytes.resize((len + 4 * rng.below(80)) as usize, 0xcc),
        2 => bytes.truncate((len / 4).saturating_sub(rng.below(4)) as usize * 4),
        3 if len > 0 => bytes[0] = rng.next() as u8,
        4 if len > 28 => bytes[24..28].copy_from_slice(&(rng.next() as u32).to_be_bytes()),
        5 if len > 1 => bytes[1] ^= (rng.below(4) as u8) << 4,
        _ if len > 0 => {
            let bit = rng.below(len * 8) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        _ => {}
    }
}

fn record(qp_type: QpType) -> Vec<Vec<u8>> {
    let setup = if qp_type == QpType::XrcSend { Setup::xrc() } else { Setup::of(qp_type) };
    let setup = Setup { mtu: softrnic_model::verbs::Mtu::B256, ..setup };
    let mut bench = setup.pair();
    let b = bench.remote(B);
    let datagram = (qp_type == QpType::Ud).then(|| bench.datagram(A, B));
    for id in 0..8 {
        bench.recv(B, id, 0..1000);
    }
    let ops = [
        send(),
        send_imm(7),
        send_invalidate(Key(0)),
        b.write(0),
        b.write_imm(0, 9),
        b.read(0),
        b.add(0, 1),
        b.swap(0, 1, 2),
        b.atomic_write(0),
    ];
    for op in datagram.into_iter().chain(ops) {
        for len in [0, 8, 700] {
            // What the service does not have is refused.
            let _ = bench.try_post(A, &wr(1, op).at(0..len));
        }
    }
    let _ = bench.try_post(A, &wr(1, b.flush(0, 8)));
    // A NAK or two.
    bench.tap.once("A RDMA_WRITE_MIDDLE 13", Fate::Drop);
    bench.tap.rule(|seen| if seen.text.contains("ONLY 3") { Fate::Mark } else { Fate::Pass });
    bench.run_for(2_000_000);
    let mut frames: Vec<_> = bench.tap.log().into_iter().map(|seen| seen.bytes).collect();
    frames.sort_by_key(|bytes| (bytes[0], bytes.len()));
    frames.dedup_by_key(|bytes| (bytes[0], bytes.len()));
    frames
}
