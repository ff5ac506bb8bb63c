//! Completion queues, and the slots that polling frees.

use softrnic_model::verbs::QpState::{Err, Rts};
use softrnic_model::verbs::WcStatus::{Success, WorkRequestFlushed};
use softrnic_model::verbs::{AsyncEvent, CqModeration, Event, SendFlags, VerbError};
use softrnic_transport::sim::FabricConfig;

use crate::bench::{A, B, Bench, EndId, NO_COMPLETION, Setup, send, wr};

const C: EndId = EndId(2);
const D: EndId = EndId(3);

/// A and C are on one host and share their queues, so are B and D.
fn two_pairs(setup: &Setup) -> Bench {
    let mut bench = Bench::new(FabricConfig::default());
    for _ in [A, B] {
        let host = bench.add_host(setup);
        bench.add_end(setup, host);
    }
    for of in [A, B] {
        bench.add_sibling(setup, of);
    }
    bench.connect(setup, A, B);
    bench.connect(setup, C, D);
    bench
}

#[test]
fn a_queue_that_overruns_is_dead_and_its_queue_pairs_are_in_error() {
    let mut bench = two_pairs(&Setup { cqe: 4, ..Setup::rc() });
    let (b, cq) = (bench.remote(B), bench.end(A).send_cq);
    bench.recv(A, 20, 0..8);
    for id in 0..4 {
        bench.post(A, wr(id, b.write(0)).at(0..8));
    }
    bench.run();
    assert_eq!((bench.state(A), bench.state(C)), (Rts, Rts), "full is not over");
    bench.post(C, wr(4, b.write(0)).at(0..8));
    bench.run();
    assert_eq!(bench.async_events(A), [AsyncEvent::CqError(cq)]);
    assert!(bench.device(A).cq_overran(cq));
    assert_eq!((bench.state(A), bench.state(C)), (Err, Err));
    assert_eq!((bench.state(B), bench.state(D)), (Rts, Rts));
    assert_eq!(bench.sends(A), (0..4).map(|id| (id, Success)).collect::<Vec<_>>());
    assert_eq!(bench.recvs(A), [(20, WorkRequestFlushed)], "the other queue lives");
    // What comes later is lost, without another event.
    bench.post(A, wr(5, b.write(0)).at(0..8));
    bench.run();
    assert_eq!((bench.sends(A), bench.async_events(A)), (vec![], vec![]));
}

#[test]
fn an_overrun_by_receives_fails_the_receiver() {
    let mut bench = two_pairs(&Setup { cqe: 2, ..Setup::rc() });
    for id in 0..3 {
        bench.recv(B, id, 0..8);
        bench.post(A, wr(id, send()).at(0..8).unsignaled());
    }
    bench.run_for(100_000);
    let cq = bench.end(B).recv_cq;
    assert_eq!(bench.async_events(B), [AsyncEvent::CqError(cq)]);
    assert_eq!((bench.state(B), bench.state(D)), (Err, Err));
    assert_eq!(bench.recvs(B), [(0, Success), (1, Success)]);
}

#[test]
fn an_overrun_by_flushing_is_one_too() {
    let mut bench = two_pairs(&Setup { cqe: 2, ..Setup::rc() });
    for id in 0..3 {
        bench.recv(B, id, 0..8);
    }
    bench.enter(B, Err);
    let cq = bench.end(B).recv_cq;
    assert_eq!(bench.async_events(B), [AsyncEvent::CqError(cq)]);
    assert_eq!((bench.state(B), bench.state(D)), (Err, Err));
}

#[test]
fn a_resize_in_the_middle_of_traffic_loses_nothing() {
    let mut bench = Setup { cqe: 20, ..Setup::rc() }.pair();
    let (b, cq) = (bench.remote(B), bench.end(A).send_cq);
    let mut polled = Vec::new();
    for id in 0..60 {
        bench.post(A, wr(id, b.write(0)).at(0..8));
        bench.run_for(id * 50);
        let some = &mut [NO_COMPLETION; 2];
        let n = bench.device(A).poll_cq(cq, &mut some[..(id % 3) as usize]).unwrap();
        polled.extend(some[..n].iter().map(|wc| wc.wr_id));
        let size = 1 + (id * 7 % 40) as u32;
        match bench.device(A).resize_cq(cq, size) {
            Ok(()) => assert_eq!(bench.device(A).cq_capacity(cq), Ok(size)),
            Result::Err(refused) => assert!(matches!(refused, VerbError::Invalid(_))),
        }
        bench.device(A).resize_cq(cq, 64).unwrap();
    }
    bench.run();
    polled.extend(bench.sends(A).iter().map(|(id, _)| id));
    assert!(polled.into_iter().eq(0..60));
}

#[test]
fn sizes_that_are_none() {
    let mut bench = Setup::rc().pair();
    let cq = bench.end(A).send_cq;
    let max = bench.device(A).query_device().max_cqe;
    for size in [0, max + 1, u32::MAX] {
        assert!(bench.device(A).create_cq(size).is_err());
        assert!(bench.device(A).resize_cq(cq, size).is_err());
    }
    assert!(matches!(bench.device(A).destroy_cq(cq), Result::Err(VerbError::Busy(_))));
    assert_eq!(bench.device(A).poll_cq(cq, &mut []), Ok(0));
}

#[test]
fn an_event_comes_once_and_only_for_what_was_asked() {
    let mut bench = Setup::rc().pair();
    let cq = bench.end(B).recv_cq;
    for id in 0..20 {
        bench.recv(B, id, 0..8);
    }
    let plain = |bench: &mut Bench| {
        bench.post(A, wr(1, send()).at(0..8));
        bench.run();
        bench.events(B)
    };
    let solicited = |bench: &mut Bench| {
        bench.post(A, wr(1, send()).at(0..8).with_flags(SendFlags::SOLICITED));
        bench.run();
        bench.events(B)
    };
    let woken = vec![Event::Completion(cq)];
    assert_eq!((plain(&mut bench), solicited(&mut bench)), (vec![], vec![]), "nobody asked");
    bench.device(B).req_notify_cq(cq, false).unwrap();
    assert_eq!(bench.events(B), [], "what waits already is none");
    assert_eq!((plain(&mut bench), plain(&mut bench)), (woken.clone(), vec![]), "once");
    bench.device(B).req_notify_cq(cq, true).unwrap();
    assert_eq!(plain(&mut bench), []);
    assert_eq!(solicited(&mut bench), woken);
    assert_eq!(solicited(&mut bench), []);
    bench.device(B).req_notify_cq(cq, true).unwrap();
    bench.enter(B, Err);
    assert_eq!(bench.events(B), woken, "a failure wakes as well");
}

#[test]
fn of_a_long_message_the_end_asks_for_the_event() {
    let mut bench = Setup::rc().pair();
    let (b, cq) = (bench.remote(B), bench.end(B).recv_cq);
    bench.recv(B, 1, 0..0);
    bench.device(B).req_notify_cq(cq, true).unwrap();
    bench.post(A, wr(1, b.write_imm(0, 1)).at(0..5000).with_flags(SendFlags::SOLICITED));
    bench.run();
    let log = bench.tap.log();
    let asks: Vec<bool> = log
        .iter()
        .filter(|seen| seen.text.starts_with("A "))
        .map(|seen| seen.packet().bth.solicited())
        .collect();
    assert_eq!(asks, [false, false, false, false, true]);
    assert_eq!(bench.events(B), [Event::Completion(cq)]);
}

#[test]
fn slots_are_freed_by_polling_a_later_completion_and_by_nothing_else() {
    let mut setup = Setup::rc();
    setup.cap.max_send_wr = 4;
    let mut bench = setup.pair();
    let b = bench.remote(B);
    let full = |bench: &mut Bench| {
        let refused = bench.try_post(A, &wr(99, b.write(0)).at(0..8));
        matches!(refused, Result::Err(VerbError::Full(_)))
    };
    for id in 0..4 {
        let request = wr(id, b.write(0)).at(0..8);
        bench.post(A, if id == 2 { request } else { request.unsignaled() });
    }
    assert!(full(&mut bench));
    bench.run();
    assert!(full(&mut bench), "all are done, none was polled");
    assert_eq!(bench.sends(A), [(2, Success)]);
    for id in 4..7 {
        let request = wr(id, b.write(0)).at(0..8);
        bench.post(A, if id == 6 { request } else { request.unsignaled() });
    }
    assert!(full(&mut bench), "the slot of 3, which came after 2, was not free");
    bench.run();
    assert_eq!(bench.sends(A), [(6, Success)]);
    for id in 7..11 {
        bench.post(A, wr(id, b.write(0)).at(0..8));
    }
    assert!(full(&mut bench));
}

#[test]
fn a_queue_of_unsignalled_requests_fills_up_for_good() {
    let mut setup = Setup::rc();
    setup.cap.max_send_wr = 3;
    let mut bench = setup.pair();
    let b = bench.remote(B);
    for id in 0..3 {
        bench.post(A, wr(id, b.write(0)).at(0..8).unsignaled());
    }
    bench.run();
    let refused = bench.try_post(A, &wr(9, b.write(0)).at(0..8));
    assert_eq!(refused.unwrap_err().errno_name(), "ENOMEM");
    // Only a reset empties it.
    bench.enter(A, softrnic_model::verbs::QpState::Reset);
    bench.enter(B, softrnic_model::verbs::QpState::Reset);
    bench.advance(&setup, A, Rts);
    bench.advance(&setup, B, Rts);
    bench.post(A, wr(9, b.write(0)).at(0..8));
    bench.run();
    assert_eq!(bench.sends(A), [(9, Success)]);
}

#[test]
fn a_queue_pair_that_signals_all_does() {
    let mut bench = Setup { signal_all: true, ..Setup::rc() }.pair();
    let b = bench.remote(B);
    bench.post(A, wr(1, b.write(0)).at(0..8).unsignaled());
    bench.run();
    assert_eq!(bench.sends(A), [(1, Success)]);
}

#[test]
fn slots_of_receives_are_free_when_their_message_is_there() {
    let mut setup = Setup::rc();
    setup.cap.max_recv_wr = 2;
    let mut bench = setup.pair();
    bench.recv(B, 0, 0..8);
    for id in 1..5 {
        bench.recv(B, id, 0..8);
        let refused = bench.try_recv(B, &wr(99, send()).at(0..8));
        assert!(matches!(refused, Result::Err(VerbError::Full(_))), "{refused:?}");
        bench.post(A, wr(id, send()).at(0..8));
        bench.run();
    }
    assert_eq!(bench.recvs(B), [0, 1, 2, 3].map(|id| (id, Success)), "none was polled before");
}

#[test]
fn a_reset_takes_the_completions_of_its_queue_pair_only() {
    let mut bench = two_pairs(&Setup::rc());
    let b = bench.remote(B);
    for id in 0..6 {
        let end = if id % 2 == 0 { A } else { C };
        bench.post(end, wr(id, b.write(0)).at(0..8));
        bench.run();
    }
    bench.enter(A, softrnic_model::verbs::QpState::Reset);
    assert_eq!(bench.sends(A), [(1, Success), (3, Success), (5, Success)]);
    bench.post(C, wr(7, b.write(0)).at(0..8));
    bench.run();
    let qp = bench.end(C).qp;
    bench.device(A).destroy_qp(qp).unwrap();
    assert_eq!(bench.sends(A), []);
}

#[test]
fn completions_say_when_they_completed_if_that_was_asked_for() {
    let mut bench = Setup::rc().pair();
    let [plain, stamped] =
        [false, true].map(|timestamps| bench.device(A).create_cq_ex(8, timestamps).unwrap());
    assert_eq!(bench.device(A).query_device().core_clock_khz, 1_000_000, "nanoseconds");
    let b = bench.remote(B);
    for cq in [plain, stamped] {
        bench.use_send_cq(&Setup::rc(), A, cq);
        let mut before = bench.fabric.now().as_ns();
        for id in 0..3 {
            bench.run_for(1_000_000);
            bench.post(A, wr(id, b.read(0)).at(0..8));
            bench.run();
            let wc = bench.poll(A, cq)[0];
            assert_eq!(wc.wr_id, id);
            if cq == plain {
                assert_eq!(wc.timestamp, 0);
            } else {
                assert!(wc.timestamp > before + 1_000_000, "there and back takes time");
                assert!(wc.timestamp <= bench.fabric.now().as_ns());
                before = wc.timestamp;
            }
        }
    }
}

/// B, armed and moderated, receives; `times` are when messages are sent, in microseconds. Returns
/// when events came.
fn events_at(count: u16, period_us: u16, solicited_only: bool, times: &[(u64, bool)]) -> Vec<u64> {
    let mut bench = Setup::rc().pair();
    let cq = bench.end(B).recv_cq;
    (0..times.len() as u64).for_each(|id| bench.recv(B, id, 0..8));
    bench.device(B).moderate_cq(cq, CqModeration { count, period_us }).unwrap();
    bench.device(B).req_notify_cq(cq, solicited_only).unwrap();
    let start = bench.fabric.now().as_ns();
    let mut came = Vec::new();
    let mut times = times.iter().peekable();
    for us in 0..200 {
        while let Some((_, solicited)) = times.next_if(|(at, _)| *at == us) {
            let request = wr(1, send()).at(0..8);
            let flags = if *solicited { SendFlags::SOLICITED } else { SendFlags::empty() };
            bench.post(A, request.with_flags(flags));
        }
        bench.run_for(1000);
        came.extend(
            bench
                .events(B)
                .iter()
                .filter(|event| **event == Event::Completion(cq))
                .map(|_| (bench.fabric.now().as_ns() - start) / 1000),
        );
    }
    came
}

#[test]
fn events_can_be_fewer_than_completions() {
    let messages: Vec<_> = (0..6).map(|n| (10 * n, false)).collect();
    // Messages are on their way for some microseconds.
    let trip = events_at(0, 0, false, &messages)[0];
    assert!(trip < 10);
    for (count, period_us, expected) in [
        (0, 0, vec![0]),
        (1, 100, vec![0]),
        (3, 0, vec![20]),
        (7, 0, vec![]),
        (0, 15, vec![15]),
        (0, 100, vec![100]),
        (3, 15, vec![15]),
        (2, 15, vec![10]),
        (7, 90, vec![90]),
    ] {
        let came = events_at(count, period_us, false, &messages);
        let expected: Vec<_> = expected.iter().map(|at| at + trip).collect();
        // When a wait is over is seen up to a microsecond later.
        let close = came.iter().zip(&expected).all(|(a, b)| a.abs_diff(*b) <= 1);
        assert!(
            close && came.len() == expected.len(),
            "{count} {period_us}: {came:?} {expected:?}"
        );
    }
    // Only what would have woken the program counts.
    let messages = [(0, false), (10, true), (20, false), (30, true)];
    let came = events_at(2, 0, true, &messages);
    assert_eq!(came, [30 + trip]);
}

#[test]
fn held_events_come_when_the_rules_change_or_something_fails() {
    let mut bench = Setup::rc().pair();
    let cq = bench.end(B).recv_cq;
    let never = CqModeration { count: 100, period_us: 0 };
    bench.device(B).moderate_cq(cq, never).unwrap();
    bench.device(B).req_notify_cq(cq, false).unwrap();
    (0..4).for_each(|id| bench.recv(B, id, 0..8));
    let receive = |bench: &mut Bench| {
        bench.post(A, wr(1, send()).at(0..8));
        bench.run();
    };
    receive(&mut bench);
    assert_eq!(bench.events(B), []);
    let each = CqModeration { count: 1, period_us: 5 };
    bench.device(B).moderate_cq(cq, each).unwrap();
    assert_eq!(bench.events(B), [Event::Completion(cq)]);
    bench.device(B).req_notify_cq(cq, false).unwrap();
    receive(&mut bench);
    assert_eq!(bench.events(B), [Event::Completion(cq)]);
    bench.device(B).moderate_cq(cq, never).unwrap();
    bench.device(B).req_notify_cq(cq, false).unwrap();
    receive(&mut bench);
    assert_eq!(bench.events(B), []);
    bench.enter(B, Err);
    assert_eq!(bench.events(B), [Event::Completion(cq)], "the flush of the last one");
    // A queue that goes leaves no wait behind.
    let device = bench.device(B);
    let old = device.create_cq(4).unwrap();
    device.moderate_cq(old, CqModeration { count: 0, period_us: 9 }).unwrap();
    device.destroy_cq(old).unwrap();
    assert!(matches!(device.moderate_cq(old, never), Result::Err(VerbError::NoSuchObject(_))));
    bench.run_for(1_000_000);
}

#[test]
fn no_more_is_held_back_than_the_device_can() {
    let mut setup = Setup::rc();
    setup.device.attributes.max_cq_moderation_count = 10;
    setup.device.attributes.max_cq_moderation_period_us = 100;
    let mut bench = setup.pair();
    let cq = bench.end(B).recv_cq;
    for (count, period_us, fits) in
        [(0, 0, true), (10, 100, true), (1, 1, true), (11, 1, false), (1, 101, false)]
    {
        let done = bench.device(B).moderate_cq(cq, CqModeration { count, period_us });
        let as_should =
            if fits { done.is_ok() } else { matches!(done, Result::Err(VerbError::Invalid(_))) };
        assert!(as_should, "{count} {period_us}: {done:?}");
    }
}
