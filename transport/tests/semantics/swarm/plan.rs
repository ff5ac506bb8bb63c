//! What a run is made of.

use softrnic_model::verbs::{Mtu, SrqAttributes};
use softrnic_transport::sim::FabricConfig;

use crate::bench::{A, B, Bench, EndId, Rng, Setup, TIMEOUT_CODE};

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) setup: Setup,
    /// Pairs of connected queue pairs; all on one side share memory and completion queues.
    pairs: u64,
    /// Both sides are on one host.
    one_host: bool,
    pub(super) steps: u64,
    /// Bytes of the longest message.
    pub(super) message_max: u64,
    /// How often of a hundred times a receive is posted rather than something sent.
    pub(super) receives: u64,
    /// Time between two steps, at most, in nanoseconds.
    pub(super) pace_ns: u64,
}

impl Plan {
    pub(super) fn drawn(rng: &mut Rng) -> Self {
        let mut setup = if rng.chance(30) { Setup::xrc() } else { Setup::rc() };
        setup.mtu = *rng.pick(&Mtu::ALL);
        // Half of the runs pass the end of the sequence numbers.
        setup.first_psn = std::array::from_fn(|_| {
            let near = (1 << 24) - rng.below(200);
            if rng.chance(50) { near as u32 } else { rng.below(1 << 24) as u32 }
        });
        setup.attributes.timeout = TIMEOUT_CODE;
        setup.attributes.min_rnr_timer = 1 + rng.below(12) as u8;
        setup.attributes.max_rd_atomic = 1 + rng.below(16) as u8;
        setup.attributes.max_dest_rd_atomic = setup.attributes.max_rd_atomic;
        setup.cap.max_send_wr = 2 + rng.below(30) as u32;
        setup.cap.max_recv_wr = 1 + rng.below(16) as u32;
        setup.signal_all = rng.chance(20);
        let shared = rng.chance(40) || setup.srq.is_some();
        setup.srq = shared.then(|| SrqAttributes {
            max_wr: 4 + rng.below(16) as u32,
            max_sge: 4,
            srq_limit: 0,
        });
        setup.memory = 1 << 19;
        setup.device.window_bytes = *rng.pick(&[1, 20_000, 1 << 20]);
        setup.cqe = 4096;
        setup.v6 = rng.chance(30);
        let mtu = u64::from(setup.mtu.bytes());
        Self {
            setup,
            pairs: 1 + rng.below(4),
            one_host: rng.chance(10),
            steps: 200,
            message_max: (*rng.pick(&[1, 3, 12]) * mtu).min(10_000),
            receives: 20 + rng.below(30),
            pace_ns: *rng.pick(&[100, 10_000, 1_000_000]),
        }
    }

    /// The bench, and the ends of both sides.
    pub(super) fn bench(&self) -> (Bench, [Vec<EndId>; 2]) {
        let setup = &self.setup;
        let mut bench = Bench::new(FabricConfig::default());
        for side in [A, B] {
            let host = if self.one_host && side == B { 0 } else { bench.add_host(setup) };
            bench.add_end(setup, host);
        }
        let mut sides = [vec![A], vec![B]];
        for _ in 1..self.pairs {
            for ends in &mut sides {
                let first = ends[0];
                ends.push(bench.add_sibling(setup, first));
            }
        }
        for (one, other) in sides[0].iter().zip(&sides[1]) {
            bench.connect(setup, *one, *other);
        }
        (bench, sides)
    }
}
