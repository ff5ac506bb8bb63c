//! Nobody answers: time-outs and retries (IBA 9.7.6.1.3).

use softrnic_model::counters::Counter;
use softrnic_model::verbs::QpState::{Err, Rts};
use softrnic_model::verbs::WcStatus::{RetryExceeded, Success, WorkRequestFlushed};
use softrnic_transport::sim::Fate;

use crate::bench::{A, B, Bench, send, wr};

fn pair(timeout: u8, retry_count: u8) -> Bench {
    let mut setup = super::setup();
    setup.attributes.timeout = timeout;
    setup.attributes.retry_count = retry_count;
    setup.pair()
}

#[test]
fn a_dead_peer_ends_after_all_retries_and_flushes_the_rest() {
    for timeout in 1..32 {
        for retry_count in [0, 1, 7] {
            let mut bench = pair(timeout, retry_count);
            let b = bench.remote(B);
            bench.tap.rule(|_| Fate::Drop);
            bench.post(A, wr(1, b.write(0)).at(0..8));
            bench.post(A, wr(2, b.read(0)).at(8..16).unsignaled());
            bench.post(A, wr(3, send()).at(0..8).unsignaled());
            let failed = bench.run_to_state(A, Err);
            let flushed = [(2, WorkRequestFlushed), (3, WorkRequestFlushed)];
            assert_eq!(bench.sends(A), [&[(1, RetryExceeded)][..], &flushed].concat());
            assert_eq!(bench.states(), (Err, Rts), "the other end knows of nothing");
            let mut tries: Vec<_> = bench.tap.log();
            tries.retain(|seen| seen.text == "A RDMA_WRITE_ONLY 0");
            assert_eq!(tries.len(), 1 + usize::from(retry_count));
            let times = tries.iter().map(|seen| seen.at).chain([failed]);
            let times: Vec<_> = times.collect();
            for pair in times.windows(2) {
                let waited = pair[1].ns_since(pair[0]);
                let least = 4_096 << timeout;
                assert!((least..=4 * least).contains(&waited), "code {timeout}: {waited} ns");
            }
            assert_eq!(bench.count(A, Counter::AckTimeout), tries.len() as u64);
            assert_eq!(bench.count(A, Counter::CompleterRetry), u64::from(retry_count));
            assert_eq!(bench.count(A, Counter::RetryExceeded), 1);
        }
    }
}

#[test]
fn code_0_waits_for_ever() {
    let mut bench = pair(0, 7);
    let b = bench.remote(B);
    bench.tap.once("A RDMA_WRITE_ONLY 0", Fate::Drop);
    bench.post(A, wr(1, b.write(0)).at(0..8));
    bench.run();
    assert_eq!(bench.sends(A), []);
    assert_eq!(bench.states(), (Rts, Rts));
    // The next message tells the peer what it lacks.
    bench.post(A, wr(2, b.write(8)).at(8..16));
    bench.run();
    assert_eq!(bench.sends(A), [(1, Success), (2, Success)]);
}

#[test]
fn the_timer_stands_still_when_nothing_is_under_way() {
    let mut bench = pair(10, 7);
    let b = bench.remote(B);
    for id in 1..4 {
        bench.post(A, wr(id, b.write(0)).at(0..8));
        bench.run_for(20_000);
        assert_eq!(bench.sends(A), [(id, Success)]);
        bench.run_for(1_000_000_000);
    }
    assert_eq!(bench.count(A, Counter::AckTimeout), 0);
}

#[test]
fn progress_renews_timer_and_retries() {
    // Each message is lost as often as it may be, and still all come.
    let mut bench = pair(8, 2);
    let b = bench.remote(B);
    let mut tries = 0;
    bench.tap.rule(move |seen| {
        if seen.text.starts_with('B') {
            return Fate::Pass;
        }
        tries += 1;
        if tries % 3 == 0 { Fate::Pass } else { Fate::Drop }
    });
    for id in 0..10 {
        bench.post(A, wr(id, b.write(0)).at(0..8));
        bench.run();
        assert_eq!(bench.sends(A), [(id, Success)]);
    }
}

#[test]
fn a_long_answer_is_no_silence() {
    // A READ whose answer takes longer than the time-out, but keeps coming.
    let mut setup = super::setup();
    setup.attributes.timeout = 1;
    let mut bench = setup.pair();
    let b = bench.remote(B);
    let mut late = 0;
    bench.tap.rule(move |seen| {
        if seen.text.starts_with("B RDMA_READ_RESPONSE") {
            late += 5_000;
            return Fate::Delay(late);
        }
        Fate::Pass
    });
    bench.post(A, wr(1, b.read(0)).at(30_000..50_480));
    bench.run();
    assert_eq!(bench.sends(A), [(1, Success)]);
    assert_eq!(bench.count(A, Counter::AckTimeout), 0);
    assert_eq!(bench.bytes(A, 30_000..50_480), bench.bytes(B, 0..20_480));
}

#[test]
fn an_error_of_the_peer_that_gets_lost_ends_in_silence() {
    let mut bench = pair(8, 3);
    let b = bench.remote(B);
    bench.tap.once("B NAK RemoteAccess 0", Fate::Drop);
    bench.post(A, wr(1, b.write(1 << 30)).at(0..8));
    bench.run();
    assert_eq!(bench.sends(A), [(1, RetryExceeded)]);
    assert_eq!(bench.states(), (Err, Err));
}
