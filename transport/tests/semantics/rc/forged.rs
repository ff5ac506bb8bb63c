//! Responses that nobody gave, or that are wrong: out of the window they change nothing, inside it
//! their effect is bounded and counted.

use softrnic_model::counters::Counter;
use softrnic_model::verbs::QpState::{Err, Rts};
use softrnic_model::verbs::WcStatus::{
    self, BadResponseError, RemoteAccessError, RemoteInvalidRequest, RemoteOperationError, Success,
    WorkRequestFlushed,
};
use softrnic_model::verbs::{Mtu, QpState};
use softrnic_model::wire::Place::{First, Last, Middle, Only};
use softrnic_model::wire::{NakCode, Syndrome};
use softrnic_transport::sim::Fate;

use crate::bench::{A, B, Bench, Forge, Setup, send, wr};

/// A has sent two WRITEs and a READ of 300 bytes, two packets; nothing has arrived.
fn waiting() -> Bench {
    let mut bench = Setup { mtu: Mtu::B256, ..super::setup() }.pair();
    let b = bench.remote(B);
    bench.tap.rule(|_| Fate::Drop);
    bench.post(A, wr(1, b.write(0)).at(0..8));
    bench.post(A, wr(2, b.write(0)).at(0..8));
    bench.post(A, wr(3, b.read(0)).at(1000..1300));
    assert_eq!(bench.frames().len(), 3);
    bench
}

/// One of each kind of response.
fn responses(psn: i32) -> Vec<Forge> {
    let naks = [NakCode::PsnSequence, NakCode::InvalidRequest, NakCode::RemoteAccess];
    let mut all: Vec<_> =
        naks.iter().map(|&code| Forge::acknowledge(psn, Syndrome::Nak(code))).collect();
    all.push(Forge::acknowledge(psn, Syndrome::ACK));
    all.push(Forge::acknowledge(psn, Syndrome::RnrNak { timer: 1 }));
    all.push(Forge::read_response(Only, psn).count_up(0, 8));
    all.push(Forge::read_response(Middle, psn).count_up(0, 256));
    all.push(Forge::atomic_response(psn, 5));
    all
}

#[test]
fn out_of_the_window_nothing_happens() {
    let mut bench = waiting();
    let memory = bench.bytes(A, 0..4096);
    let mut dropped = 0;
    for psn in [-1, -2, 4, 5, 1 << 22, (1 << 23) - 1, -(1 << 23)] {
        for response in responses(psn) {
            bench.inject(B, &response);
            dropped += 1;
            assert_eq!(bench.count(A, Counter::DropStaleResponse), dropped);
        }
    }
    assert_eq!(bench.bytes(A, 0..4096), memory);
    assert_eq!((bench.sends(A), bench.state(A)), (vec![], Rts));
    assert_eq!(bench.frames(), Vec::<String>::new());
}

#[test]
fn before_anything_was_sent_everything_is_out_of_the_window() {
    let mut bench = super::setup().pair();
    for psn in [-1, 0, 1] {
        responses(psn).iter().for_each(|response| bench.inject(B, response));
    }
    assert_eq!(bench.count(A, Counter::DropStaleResponse), 3 * responses(0).len() as u64);
    assert_eq!(bench.states(), (Rts, Rts));
}

#[test]
fn a_queue_pair_that_sends_nothing_takes_no_responses() {
    for state in [QpState::Rtr, Err] {
        let setup = super::setup();
        let mut bench = setup.pair();
        bench.enter(A, QpState::Reset);
        bench.advance(&setup, A, QpState::Rtr);
        if state == Err {
            bench.enter(A, Err);
        }
        responses(0).iter().for_each(|response| bench.inject(B, response));
        assert_eq!(bench.count(A, Counter::DropQpState), responses(0).len() as u64);
        assert_eq!(bench.state(A), state);
    }
}

#[test]
fn refusals_fail_the_request_that_they_name() {
    for (code, status) in [
        (NakCode::InvalidRequest, RemoteInvalidRequest),
        (NakCode::RemoteAccess, RemoteAccessError),
        (NakCode::RemoteOperational, RemoteOperationError),
        (NakCode::InvalidRd, RemoteInvalidRequest),
    ] {
        for psn in 0..4_i32 {
            let mut bench = waiting();
            bench.inject(B, &Forge::acknowledge(psn, Syndrome::Nak(code)));
            // In the middle of the READ: it cannot have been answered so far.
            let failed = psn as usize;
            let expected = (0..3).map(|at| match at {
                at if at < failed => Success,
                at if at == failed => status,
                _ => WorkRequestFlushed,
            });
            let statuses: Vec<_> = bench.sends(A).iter().map(|wc| wc.1).collect();
            if psn == 3 {
                assert_eq!(statuses, [Success, Success], "the READ is asked for again");
                assert_eq!(bench.state(A), Rts);
            } else {
                assert_eq!(statuses, expected.collect::<Vec<_>>());
                assert_eq!(bench.state(A), Err);
            }
        }
    }
}

#[test]
fn an_acknowledgement_without_a_meaning_is_none() {
    let mut bench = waiting();
    for byte in [0x40, 0x5f, 0x65, 0x7f, 0x80, 0xff] {
        bench.inject(B, &Forge::acknowledge(1, Syndrome::Reserved(byte)));
    }
    assert_eq!(bench.count(A, Counter::DropMalformed), 6);
    assert_eq!((bench.sends(A), bench.state(A)), (vec![], Rts));
}

#[test]
fn answers_to_what_was_not_asked_are_dropped() {
    let cases: [(&str, Forge); 3] = [
        ("data for a WRITE", Forge::read_response(Only, 0).count_up(0, 8)),
        ("an atomic's answer for a WRITE", Forge::atomic_response(1, 5)),
        ("an atomic's answer for a READ", Forge::atomic_response(2, 5)),
    ];
    for (what, response) in cases {
        let mut bench = waiting();
        let memory = bench.bytes(A, 0..4096);
        bench.inject(B, &response);
        assert_eq!(bench.count(A, Counter::DropUnexpectedResponse), 1, "{what}");
        assert_eq!(bench.bytes(A, 0..4096), memory, "{what}");
        assert_eq!(bench.state(A), Rts, "{what}");
    }
}

#[test]
fn data_of_the_wrong_length_or_place_fails_the_read_and_is_not_placed() {
    let first = [
        (First, 255),
        (First, 252),
        (First, 260),
        (First, 0),
        (First, 300),
        (Only, 256),
        (Only, 300),
        (Only, 0),
        (Last, 256),
        (Last, 44),
        (Middle, 252),
        (Middle, 256),
    ];
    let second = [(Last, 43), (Last, 45), (Last, 0), (Last, 256), (Middle, 44), (Middle, 256)];
    let cases = first.map(|case| (2, case)).into_iter().chain(second.map(|case| (3, case)));
    for (psn, (place, len)) in cases {
        let mut bench = waiting();
        if psn == 3 {
            bench.inject(B, &Forge::read_response(First, 2).count_up(7, 256));
        }
        let memory = bench.bytes(A, 0..4096);
        bench.inject(B, &Forge::read_response(place, psn).count_up(99, len));
        let statuses: Vec<WcStatus> = bench.sends(A).iter().map(|wc| wc.1).collect();
        assert_eq!(statuses, [Success, Success, BadResponseError], "{psn} {place:?} {len}");
        assert_eq!(bench.bytes(A, 0..4096), memory, "{psn} {place:?} {len}");
        assert_eq!(bench.state(A), Err);
    }
}

#[test]
fn right_data_is_taken_whoever_sent_it() {
    let mut bench = waiting();
    bench.inject(B, &Forge::read_response(First, 2).count_up(7, 256));
    bench.inject(B, &Forge::read_response(Last, 3).count_up(9, 44));
    assert_eq!(bench.sends(A), [(1, Success), (2, Success), (3, Success)]);
    assert_eq!(bench.bytes(A, 1000..1004), [7, 8, 9, 10]);
    assert_eq!(bench.bytes(A, 1256..1260), [9, 10, 11, 12]);
}

#[test]
fn data_that_comes_before_what_it_follows_is_asked_for_again() {
    for place in [Last, Middle] {
        let mut bench = waiting();
        let memory = bench.bytes(A, 1000..1300);
        bench.inject(B, &Forge::read_response(place, 3).count_up(9, 44));
        assert_eq!(bench.sends(A), [(1, Success), (2, Success)], "it acknowledges those before");
        assert_eq!(bench.count(A, Counter::ImpliedNak), 1);
        assert_eq!(bench.count(A, Counter::DropUnexpectedResponse), 1);
        assert_eq!(bench.frames(), ["A RDMA_READ_REQUEST 2"]);
        assert_eq!(bench.bytes(A, 1000..1300), memory);
    }
}

#[test]
fn a_hail_of_forged_losses_ends_in_an_error_and_not_in_a_storm() {
    let mut bench = waiting();
    bench.frames();
    for _ in 0..10_000 {
        bench.inject(B, &Forge::acknowledge(0, Syndrome::Nak(NakCode::PsnSequence)));
        bench.run_for(100);
    }
    let frames = bench.tap.take().len();
    assert!(frames < 300, "a millisecond of hail causes {frames} frames");
    assert_eq!(bench.count(A, Counter::ReceivedSequenceNak), 10_000);
}

#[test]
fn an_acknowledgement_of_all_ends_all_that_needs_no_data() {
    let mut bench = super::setup().pair();
    bench.tap.rule(|_| Fate::Drop);
    for id in 0..5 {
        bench.post(A, wr(id, send()).at(0..8));
    }
    bench.frames();
    bench.inject(B, &Forge::acknowledge(4, Syndrome::ACK));
    assert_eq!(bench.sends(A).len(), 5);
    bench.inject(B, &Forge::acknowledge(4, Syndrome::ACK));
    assert_eq!(bench.count(A, Counter::DropStaleResponse), 1);
}

#[test]
fn a_response_with_data_that_does_not_acknowledge_is_a_bad_one() {
    let syndromes = [
        Syndrome::Nak(NakCode::RemoteAccess),
        Syndrome::RnrNak { timer: 1 },
        Syndrome::Reserved(0x40),
    ];
    for syndrome in syndromes {
        for atomic in [false, true] {
            let mut bench = super::setup().pair();
            let b = bench.remote(B);
            bench.tap.rule(|_| Fate::Drop);
            let op = if atomic { b.add(0, 1) } else { b.read(0) };
            bench.post(A, wr(1, op).at(0..8));
            bench.frames();
            let before = bench.bytes(A, 0..8);
            let response = match atomic {
                true => Forge::atomic_response(0, 5),
                false => Forge::read_response(Only, 0).count_up(0, 8),
            };
            bench.inject(B, &response.says(syndrome));
            assert_eq!(bench.sends(A), [(1, BadResponseError)], "{syndrome:?} {atomic}");
            assert_eq!((bench.bytes(A, 0..8), bench.state(A)), (before, Err));
        }
    }
}
