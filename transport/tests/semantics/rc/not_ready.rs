//! No receive is posted: the peer waits as long as it is told, and asks again (IBA 9.7.5.2.8).

use softrnic_model::counters::Counter;
use softrnic_model::verbs::QpState::{Err, Rts};
use softrnic_model::verbs::WcStatus::{RnrRetryExceeded, Success, WorkRequestFlushed};
use softrnic_model::wire::{NakCode, Syndrome};
use softrnic_transport::sim::Fate;

use crate::bench::{A, B, Bench, Forge, send, wr};

/// Microseconds of each code, as the table of the specification has them.
const TIMER_US: [u64; 32] = [
    655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1_280, 1_920, 2_560, 3_840,
    5_120, 7_680, 10_240, 15_360, 20_480, 30_720, 40_960, 61_440, 81_920, 122_880, 163_840,
    245_760, 327_680, 491_520,
];

fn pair(timer: u8, rnr_retry: u8) -> Bench {
    let mut setup = super::setup();
    setup.attributes.min_rnr_timer = timer;
    setup.attributes.rnr_retry = rnr_retry;
    setup.pair()
}

#[test]
fn nothing_leaves_before_the_timer_ends() {
    for (code, timer_us) in (0..).zip(TIMER_US) {
        let mut bench = pair(code, 7);
        bench.post(A, wr(1, send()).at(0..8));
        bench.post(A, wr(2, send()).at(0..8));
        bench.run_for(10_000);
        bench.recv(B, 7, 0..8);
        bench.recv(B, 8, 8..16);
        bench.run();
        let log = bench.tap.log();
        let texts: Vec<&str> = log.iter().map(|seen| seen.text.as_str()).collect();
        let refused = format!("B RNR_NAK {code} 0");
        let again = ["A SEND_ONLY 0", "A SEND_ONLY 1", "B ACK 1"];
        assert_eq!(texts, [&["A SEND_ONLY 0", "A SEND_ONLY 1", &refused][..], &again].concat());
        let told = log[2].at.plus_ns(1_000);
        assert_eq!(log[3].at.ns_since(told), timer_us * 1_000, "code {code}");
        assert_eq!(bench.sends(A), [(1, Success), (2, Success)]);
    }
}

#[test]
fn retries_run_out_exactly() {
    for rnr_retry in 0..7 {
        let mut bench = pair(1, rnr_retry);
        bench.post(A, wr(1, send()).at(0..8));
        bench.post(A, wr(2, send()).at(0..8));
        bench.run();
        let tries = bench.tap.take().iter().filter(|text| *text == "A SEND_ONLY 0").count();
        assert_eq!(tries, 1 + usize::from(rnr_retry));
        assert_eq!(bench.sends(A), [(1, RnrRetryExceeded), (2, WorkRequestFlushed)]);
        assert_eq!(bench.states(), (Err, Rts));
        assert_eq!(bench.count(B, Counter::SentRnrNak), tries as u64);
        assert_eq!(bench.count(A, Counter::ReceivedRnrNak), tries as u64);
        assert_eq!(bench.count(A, Counter::RnrRetryExceeded), 1);
        assert_eq!(bench.async_events(B), []);
    }
}

#[test]
fn seven_retries_without_end() {
    let mut bench = pair(1, 7);
    bench.post(A, wr(1, send()).at(0..8));
    bench.run_for(100_000_000);
    assert!(bench.count(B, Counter::SentRnrNak) > 1_000);
    assert_eq!(bench.sends(A), []);
    bench.recv(B, 7, 0..8);
    bench.run();
    assert_eq!(bench.sends(A), [(1, Success)]);
}

#[test]
fn a_message_that_gets_through_renews_the_retries() {
    let mut bench = pair(1, 1);
    for id in 1..5 {
        bench.post(A, wr(id, send()).at(0..8));
        bench.run_for(5_000);
        bench.recv(B, 10 + id, 0..8);
        bench.run();
        assert_eq!(bench.sends(A), [(id, Success)]);
    }
    assert_eq!(bench.count(A, Counter::ReceivedRnrNak), 4);
}

#[test]
fn a_copy_of_the_nak_costs_no_retry_and_no_time() {
    let mut bench = pair(12, 1);
    bench.tap.once("B RNR_NAK 12 0", Fate::Duplicate(500_000));
    bench.post(A, wr(1, send()).at(0..8));
    bench.run_for(600_000);
    bench.recv(B, 7, 0..8);
    bench.run();
    let log = bench.tap.log();
    assert_eq!(log[2].text, "A SEND_ONLY 0");
    assert_eq!(log[2].at.ns_since(log[1].at), 1_000 + TIMER_US[12] * 1_000);
    assert_eq!(bench.sends(A), [(1, Success)]);
}

#[test]
fn signs_of_loss_that_come_late_do_not_disturb_the_wait() {
    // Without a time-out, only the timer of the wait gets it going again.
    let mut setup = super::setup();
    setup.attributes.timeout = 0;
    let mut bench = setup.pair();
    bench.post(A, wr(1, send()).at(0..8));
    bench.run_for(10_000);
    bench.inject(B, &Forge::acknowledge(0, Syndrome::Nak(NakCode::PsnSequence)));
    bench.recv(B, 7, 0..8);
    bench.run_for(TIMER_US[12] * 1_000 - 10_000);
    assert_eq!(bench.tap.take(), ["A SEND_ONLY 0", "B RNR_NAK 12 0"]);
    bench.run();
    assert_eq!(bench.tap.take(), ["A SEND_ONLY 0", "B ACK 0"]);
    assert_eq!(bench.sends(A), [(1, Success)]);
}

#[test]
fn only_the_last_packet_of_a_write_with_immediate_waits() {
    let mut bench = pair(1, 7);
    let b = bench.remote(B);
    bench.post(A, wr(1, b.write_imm(1000, 5)).at(0..3000));
    bench.run_for(8_000);
    assert_eq!(bench.bytes(B, 1000..3048), bench.bytes(A, 0..2048), "two packets are placed");
    assert_ne!(bench.bytes(B, 3048..4000), bench.bytes(A, 2048..3000), "the last is not");
    bench.recv(B, 7, 0..0);
    bench.run();
    assert_eq!(
        bench.tap.take(),
        [
            "A RDMA_WRITE_FIRST 0",
            "A RDMA_WRITE_MIDDLE 1",
            "A RDMA_WRITE_LAST_WITH_IMMEDIATE 2",
            "B RNR_NAK 1 2",
            "A RDMA_WRITE_LAST_WITH_IMMEDIATE 2",
            "B ACK 2",
        ]
    );
    assert_eq!(bench.bytes(B, 1000..4000), bench.bytes(A, 0..3000));
    assert_eq!(bench.recvs(B), [(7, Success)]);
}
