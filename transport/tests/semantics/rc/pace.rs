//! How long things take: a lossy path is slow, and not stuck.

use softrnic_model::counters::Counter;
use softrnic_model::verbs::QpState::Rts;
use softrnic_model::verbs::SendOp;
use softrnic_transport::sim::Fate;

use crate::bench::{A, B, LONG_NS, Remote, Rng, Setup, wr};

const LEN: u64 = 1 << 20;
const PACKETS: u64 = LEN / 1024;

/// Moves a megabyte in one message ten times while one frame of a hundred gets lost. Returns how
/// many time-outs that took, and how many frames.
fn lossy(op: fn(Remote) -> SendOp) -> (u64, u64) {
    let (mut timeouts, mut frames) = (0, 0);
    for seed in 0..10 {
        let mut bench = Setup { memory: LEN as usize, ..super::setup() }.pair();
        let mut rng = Rng::new(seed);
        bench.tap.silence();
        bench.tap.rule(move |_| if rng.chance(1) { Fate::Drop } else { Fate::Pass });
        let b = bench.remote(B);
        bench.post(A, wr(1, op(b)).at(0..LEN));
        let until = softrnic_model::Instant::from_ns(LONG_NS);
        while bench.sends(A).is_empty() {
            assert!(bench.fabric.step(until), "seed {seed} is stuck");
        }
        assert_eq!(bench.states(), (Rts, Rts));
        timeouts += bench.count(A, Counter::AckTimeout);
        frames += [A, B].map(|end| bench.count(end, Counter::SentPackets)).iter().sum::<u64>();
    }
    (timeouts, frames)
}

/// Almost all losses are found by what comes behind them, and not by waiting. Only what is lost
/// twice, and a lost last word, cost a time-out.
#[test]
fn losses_are_found_by_what_comes_behind_them() {
    for op in [(|b| b.write(0)) as fn(Remote) -> SendOp, |b| b.read(0)] {
        let (timeouts, frames) = lossy(op);
        let losses = 10 * PACKETS / 100;
        assert!(timeouts < losses / 5, "{timeouts} time-outs for some {losses} losses");
        assert!(frames < 10 * 10 * PACKETS, "{frames} frames in place of {}", 10 * PACKETS);
    }
}
