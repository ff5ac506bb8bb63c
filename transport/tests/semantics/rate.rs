//! Rate limits: a queue pair sends no faster, and not much slower.

use softrnic_model::verbs::WcStatus::Success;
use softrnic_model::verbs::{Mtu, QpAttributeMask};

use crate::bench::{A, B, Bench, Setup, wr};

/// Bytes of a message, and around each of its packets.
const MESSAGE: u64 = 60_000;
const AROUND: u64 = 12 + 16 + 32;

fn limit(bench: &mut Bench, kbps: u32) {
    bench.modify(A, QpAttributeMask::RATE_LIMIT, |attr| attr.rate_limit = kbps).unwrap();
}

/// How long `count` messages take, in nanoseconds.
fn takes(bench: &mut Bench, count: u64) -> u64 {
    let (b, before) = (bench.remote(B), bench.fabric.now());
    for id in 0..count {
        bench.post(A, wr(id, b.write(0)).at(0..MESSAGE));
    }
    bench.run();
    assert_eq!(bench.sends(A), (0..count).map(|id| (id, Success)).collect::<Vec<_>>());
    bench.fabric.now().ns_since(before)
}

#[test]
// [rc-requester/rate-limit]
fn a_queue_pair_keeps_its_rate() {
    for mtu in [Mtu::B256, Mtu::B4096] {
        let mut bench = Setup { mtu, ..Setup::rc() }.pair();
        let unlimited = takes(&mut bench, 10);
        for kbps in [10_000, 100_000, 1_000_000] {
            limit(&mut bench, kbps);
            let packets = MESSAGE.div_ceil(u64::from(mtu.bytes()));
            // Only the first packet of a message names its target.
            let bytes = 10 * (MESSAGE + packets * AROUND - (packets - 1) * 16);
            let due = bytes * 8 * 1_000_000 / u64::from(kbps);
            let took = takes(&mut bench, 10);
            // A millisecond may be saved up from before, and the last answer takes a trip.
            let early = due.saturating_sub(1_500_000);
            assert!((early..=due + unlimited + 1_000_000).contains(&took), "{kbps}: {took} {due}");
        }
        limit(&mut bench, 0);
        assert!(takes(&mut bench, 10) <= unlimited + 1000, "no limit any more");
    }
}

#[test]
fn a_limit_can_be_lifted_while_packets_wait() {
    let mut bench = Setup::rc().pair();
    limit(&mut bench, 1);
    let b = bench.remote(B);
    bench.post(A, wr(1, b.write(0)).at(0..MESSAGE));
    bench.run_for(1_000_000_000);
    assert_eq!(bench.sends(A), [], "it takes minutes");
    limit(&mut bench, 0);
    bench.run_for(1_000_000);
    assert_eq!(bench.sends(A), [(1, Success)]);
}

#[test]
fn others_are_not_slowed_down() {
    let setup = Setup::rc();
    let mut bench = setup.pair();
    let c = bench.add_sibling(&setup, A);
    let d = bench.add_sibling(&setup, B);
    bench.connect(&setup, c, d);
    limit(&mut bench, 1000);
    let b = bench.remote(B);
    bench.post(A, wr(1, b.write(0)).at(0..MESSAGE));
    bench.post(c, wr(2, b.write(0)).at(0..MESSAGE));
    bench.run_for(1_000_000);
    assert_eq!(bench.sends(A), [(2, Success)]);
    // And what the peer asks of it is answered at once.
    let a = bench.remote(A);
    bench.post(B, wr(3, a.read(0)).at(0..1000));
    bench.run_for(1_000_000);
    assert_eq!(bench.sends(B), [(3, Success)]);
    bench.run();
    assert_eq!(bench.sends(A), [(1, Success)]);
}
