//! Lost packets: one NAK for each gap, and answers that say that others were lost (IBA 9.7.5.2).

use softrnic_model::counters::Counter;
use softrnic_model::verbs::QpState::{Err, Rts};
use softrnic_model::verbs::WcStatus::{RetryExceeded, Success};
use softrnic_model::verbs::{Key, Mtu, WindowType};
use softrnic_model::wire::Place;
use softrnic_transport::sim::Fate;

use crate::bench::{A, B, Forge, Setup, send, wr};

#[test]
fn a_gap_is_reported_once_and_all_after_it_is_sent_again() {
    let mut bench = super::setup().pair();
    for id in 0..6 {
        bench.recv(B, 10 + id, id * 8..id * 8 + 8);
        bench.post(A, wr(id, send()).at(id * 8..id * 8 + 8));
    }
    bench.tap.once("A SEND_ONLY 1", Fate::Drop);
    bench.run_for(100_000);
    assert_eq!(bench.sends(A).len(), 6, "long before the time-out");
    let frames = bench.tap.take();
    let naks: Vec<_> = frames.iter().filter(|text| text.contains("NAK")).collect();
    assert_eq!(naks, ["B NAK PsnSequence 1"]);
    assert_eq!(frames.iter().filter(|text| text.starts_with("A ")).count(), 6 + 5);
    assert_eq!(bench.recvs(B), (10..16).map(|id| (id, Success)).collect::<Vec<_>>());
    assert_eq!(bench.bytes(A, 0..48), bench.bytes(B, 0..48));
    assert_eq!(bench.count(B, Counter::OutOfSequenceRequest), 1);
    assert_eq!(bench.count(B, Counter::DropPsnGap), 3);
    assert_eq!(bench.count(A, Counter::ReceivedSequenceNak), 1);
    assert_eq!(bench.count(A, Counter::CompleterRetry), 1);
}

#[test]
fn the_next_gap_is_reported_again() {
    let mut bench = super::setup().pair();
    let b = bench.remote(B);
    // The fifth is lost when it is sent for the first time, and for the second.
    for lost in [1, 5, 5] {
        bench.tap.once(&format!("A RDMA_WRITE_ONLY {lost}"), Fate::Drop);
    }
    for id in 0..8 {
        bench.post(A, wr(id, b.write(id * 8)).at(100..108));
    }
    bench.run_for(100_000);
    assert_eq!(bench.sends(A).len(), 8);
    let naks: Vec<_> = bench.tap.take().into_iter().filter(|text| text.contains("NAK")).collect();
    assert_eq!(naks, ["B NAK PsnSequence 1", "B NAK PsnSequence 5"]);
}

#[test]
fn gaps_cost_retries() {
    for (retry_count, status, states) in [(0, RetryExceeded, (Err, Rts)), (1, Success, (Rts, Rts))]
    {
        let mut setup = super::setup();
        setup.attributes.retry_count = retry_count;
        let mut bench = setup.pair();
        let b = bench.remote(B);
        bench.tap.once("A RDMA_WRITE_ONLY 0", Fate::Drop);
        bench.post(A, wr(1, b.write(0)).at(0..8));
        bench.post(A, wr(2, b.write(0)).at(0..8));
        bench.run();
        assert_eq!(bench.sends(A)[0], (1, status));
        assert_eq!(bench.states(), states);
    }
}

#[test]
fn the_middle_of_a_message_is_sent_again_from_where_it_broke() {
    let mut bench = Setup { mtu: Mtu::B256, ..super::setup() }.pair();
    bench.recv(B, 7, 0..2000);
    bench.tap.once("A SEND_MIDDLE 3", Fate::Drop);
    bench.post(A, wr(1, send()).at(0..2000));
    bench.run_for(100_000);
    let again: Vec<_> = bench.tap.take().into_iter().skip(8).collect();
    let resumed = ["A SEND_MIDDLE 3", "A SEND_MIDDLE 4", "A SEND_MIDDLE 5", "A SEND_MIDDLE 6"];
    let expected = [&["B NAK PsnSequence 3"][..], &resumed, &["A SEND_LAST 7", "B ACK 7"]].concat();
    assert_eq!(again, expected);
    assert_eq!(bench.recvs(B), [(7, Success)]);
    assert_eq!(bench.bytes(A, 0..2000), bench.bytes(B, 0..2000));
}

#[test]
fn an_answer_that_skips_a_read_says_that_its_answer_was_lost() {
    let mut bench = super::setup().pair();
    let b = bench.remote(B);
    bench.tap.once("B RDMA_READ_RESPONSE_ONLY 0", Fate::Drop);
    bench.post(A, wr(1, b.read(0)).at(1000..1008));
    bench.post(A, wr(2, b.write(0)).at(0..8));
    bench.run_for(100_000);
    assert_eq!(bench.sends(A), [(1, Success), (2, Success)], "without a time-out");
    assert_eq!(bench.count(A, Counter::ImpliedNak), 1);
}

#[test]
fn a_read_asks_again_for_what_is_missing_and_no_more() {
    for lost in 0..8_u32 {
        let mut bench = Setup { mtu: Mtu::B256, ..super::setup() }.pair();
        let b = bench.remote(B);
        let place = if lost == 0 { "FIRST" } else { "MIDDLE" };
        bench.tap.once(&format!("B RDMA_READ_RESPONSE_{place} {lost}"), Fate::Drop);
        bench.post(A, wr(1, b.read(100)).at(30_000..32_200));
        bench.run();
        let log = bench.tap.log();
        let asked: Vec<_> = log.iter().filter_map(|seen| seen.packet().reth().copied()).collect();
        assert_eq!(asked.len(), 2);
        assert_eq!(asked[1].va(), asked[0].va() + u64::from(lost * 256));
        assert_eq!(asked[1].len(), asked[0].len() - lost * 256);
        assert_eq!(bench.sends(A), [(1, Success)]);
        assert_eq!(bench.bytes(A, 30_000..32_200), bench.bytes(B, 100..2300));
    }
}

#[test]
fn an_atomic_whose_answer_is_skipped_is_asked_for_again_and_done_once() {
    let mut bench = super::setup().pair();
    let b = bench.remote(B);
    let before = bench.word(B, 64);
    bench.tap.once("B ATOMIC_ACKNOWLEDGE 0", Fate::Drop);
    bench.post(A, wr(1, b.add(64, 5)).at(0..8));
    bench.post(A, wr(2, b.write(0)).at(8..16));
    bench.run_for(100_000);
    assert_eq!(bench.sends(A), [(1, Success), (2, Success)]);
    assert_eq!(bench.word(B, 64), before.wrapping_add(5));
    assert_eq!(bench.word(A, 0), before);
}

#[test]
fn sending_again_passes_over_what_needed_no_packet() {
    // A bind or an invalidate between lost requests was carried out already.
    let mut bench = super::setup().pair();
    let b = bench.remote(B);
    let window_type = WindowType::Type2A;
    let window = bench.window(A, window_type);
    let op = bench.bind(A, window, Key(window.0 + 1), window_type, 0..8);
    bench.tap.once("A RDMA_WRITE_ONLY 0", Fate::Drop);
    bench.post(A, wr(1, b.write(0)).at(0..8));
    bench.post(A, wr(2, op));
    bench.run_for(1_000);
    bench.post(A, wr(3, b.write(8)).at(0..8));
    bench.post(A, wr(4, b.write(16)).at(0..8));
    bench.run();
    assert_eq!(bench.sends(A), [(1, Success), (2, Success), (3, Success), (4, Success)]);
}

#[test]
fn naks_that_wait_to_be_sent_are_merged() {
    // A driver takes in a batch before it sends: each gap in it gets no answer of its own.
    let mut bench = super::setup().pair();
    let b = bench.remote(B);
    let packet = |psn| Forge::write(Place::Only, psn).range(0, b.key, 4).count_up(0, 4).quiet();
    for psn in 0..1000 {
        bench.inject(A, &packet(psn + 1));
        bench.inject(A, &packet(psn));
    }
    assert_eq!(bench.frames(), ["B NAK PsnSequence 999"]);
}

#[test]
fn acknowledgements_count_messages() {
    let mut bench = Setup { mtu: Mtu::B256, ..super::setup() }.pair();
    let b = bench.remote(B);
    bench.recv(B, 7, 0..1000);
    let requests = [
        wr(1, b.write(0)).at(0..1000),
        wr(2, b.read(0)).at(0..1000),
        wr(3, send()).at(0..1000),
        wr(4, b.add(64, 1)).at(0..8),
    ];
    for (message, request) in (1..).zip(requests) {
        bench.post(A, request);
        let seen = bench.seen();
        let counts: Vec<_> = seen.iter().filter_map(|seen| seen.packet().aeth().copied()).collect();
        assert!(!counts.is_empty() && counts.iter().all(|aeth| aeth.msn() == message));
    }
}

#[test]
fn with_a_long_time_out_what_comes_later_still_tells_of_a_loss() {
    // The answer is lost twice; the second time nothing follows it, and time-outs take hours.
    for timeout in [0, 31] {
        let mut setup = super::setup();
        setup.attributes.timeout = timeout;
        let mut bench = setup.pair();
        let b = bench.remote(B);
        for _ in 0..2 {
            bench.tap.once("B RDMA_READ_RESPONSE_ONLY 0", Fate::Drop);
        }
        bench.post(A, wr(1, b.read(0)).at(1000..1008));
        bench.post(A, wr(2, b.write(0)).at(0..8));
        bench.run_for(200_000_000);
        assert_eq!(bench.sends(A), []);
        bench.post(A, wr(3, b.write(0)).at(0..8));
        bench.run_for(100_000);
        assert_eq!(bench.sends(A), [(1, Success), (2, Success), (3, Success)]);
    }
}
