//! Shared receive queues.

use softrnic_model::counters::Counter;
use softrnic_model::verbs::QpState::{Err, Reset, Rts};
use softrnic_model::verbs::WcStatus::{Success, WorkRequestFlushed};
use softrnic_model::verbs::{AsyncEvent, Mtu, QpType, SrqAttributes, VerbError};
use softrnic_model::wire::Place::{First, Last, Only};
use softrnic_transport::sim::FabricConfig;

use crate::bench::{A, B, BASE, Bench, EndId, Forge, Setup, send, wr};

const C: EndId = EndId(2);
const D: EndId = EndId(3);

fn setup(qp_type: QpType) -> Setup {
    let srq = Some(SrqAttributes { max_wr: 4, max_sge: 2, srq_limit: 0 });
    Setup { mtu: Mtu::B256, srq, ..Setup::of(qp_type) }
}

/// A sends to B, and C to D; B and D receive from one queue.
fn two_senders(qp_type: QpType) -> Bench {
    let setup = setup(qp_type);
    let mut bench = Bench::new(FabricConfig::default());
    for _ in [A, B] {
        let host = bench.add_host(&setup);
        bench.add_end(&setup, host);
    }
    for of in [A, B] {
        bench.add_sibling(&setup, of);
    }
    bench.connect(&setup, A, B);
    bench.connect(&setup, C, D);
    bench
}

#[test]
fn several_messages_under_way_each_have_a_receive_of_their_own() {
    for qp_type in [QpType::Rc, QpType::Uc] {
        let mut bench = two_senders(qp_type);
        bench.recv(B, 10, 0..1000);
        bench.recv(B, 11, 1000..2000);
        bench.recv(B, 12, 2000..3000);
        bench.inject(A, &Forge::send(First, 0).count_up(1, 256));
        bench.inject(C, &Forge::send(First, 0).count_up(101, 256));
        bench.inject(C, &Forge::send(Last, 1).count_up(201, 8));
        bench.inject(C, &Forge::send(Only, 2).count_up(51, 8));
        bench.inject(A, &Forge::send(Last, 1).count_up(9, 8));
        let (b, d) = (bench.end(B).qp, bench.end(D).qp);
        let got: Vec<_> =
            bench.received(B).iter().map(|wc| (wc.wr_id, wc.qp_num, wc.byte_len)).collect();
        assert_eq!(got, [(11, d, 264), (12, d, 8), (10, b, 264)]);
        assert_eq!(bench.bytes(B, 0..2), [1, 2]);
        assert_eq!(bench.bytes(B, 256..258), [9, 10]);
        assert_eq!(bench.bytes(B, 1000..1002), [101, 102]);
        assert_eq!(bench.bytes(B, 1256..1258), [201, 202]);
    }
}

#[test]
fn an_error_of_one_takes_its_own_receive_and_no_other() {
    let mut bench = two_senders(QpType::Rc);
    for id in 10..14 {
        bench.recv(B, id, 0..1000);
    }
    bench.inject(A, &Forge::send(First, 0).count_up(1, 256));
    bench.inject(C, &Forge::send(First, 0).count_up(1, 256));
    bench.inject(A, &Forge::send(Only, 1).count_up(1, 8));
    let qp = bench.end(B).qp;
    assert_eq!((bench.state(B), bench.state(D)), (Err, Rts));
    assert_eq!(bench.recvs(B), [(10, WorkRequestFlushed)], "the message that was under way");
    let events = [AsyncEvent::QpRequestError(qp), AsyncEvent::LastWqeReached(qp)];
    assert_eq!(bench.async_events(B), events);
    // The record of the flushed one is free again, the others serve on.
    bench.recv(B, 14, 0..1000);
    bench.inject(C, &Forge::send(Last, 1).count_up(1, 8));
    for psn in 2..5 {
        bench.inject(C, &Forge::send(Only, psn).count_up(1, 8));
    }
    assert_eq!(bench.recvs(B), [11, 12, 13, 14].map(|id| (id, Success)));
    // In error already: it is not raised twice.
    bench.enter(B, Err);
    assert_eq!(bench.async_events(B), []);
}

#[test]
fn the_last_event_says_that_nothing_more_is_taken() {
    let mut bench = two_senders(QpType::Rc);
    bench.recv(B, 10, 0..8);
    bench.enter(B, Err);
    let qp = bench.end(B).qp;
    assert_eq!(bench.async_events(B), [AsyncEvent::LastWqeReached(qp)]);
    assert_eq!(bench.recvs(B), [], "what waits in the shared queue is not flushed");
    bench.post(C, wr(1, send()).at(0..8));
    bench.run();
    assert_eq!(bench.recvs(B), [(10, Success)]);
}

#[test]
fn the_limit_is_reported_once_for_each_time_it_is_set() {
    let mut bench = two_senders(QpType::Rc);
    let srq = bench.end(B).srq.unwrap();
    for id in 0..4 {
        bench.recv(B, id, 0..8);
    }
    let mut psn = 0;
    let mut take = |bench: &mut Bench| {
        bench.inject(A, &Forge::send(Only, psn).count_up(0, 8));
        psn += 1;
        bench.async_events(B)
    };
    bench.device(B).set_srq_limit(srq, 3).unwrap();
    assert_eq!(bench.device(B).query_srq(srq).unwrap().srq_limit, 3);
    assert_eq!(take(&mut bench), [], "three are left");
    assert_eq!(take(&mut bench), [AsyncEvent::SrqLimitReached(srq)]);
    assert_eq!(bench.device(B).query_srq(srq).unwrap().srq_limit, 0);
    assert_eq!(take(&mut bench), [], "once");
    bench.device(B).set_srq_limit(srq, 2).unwrap();
    assert_eq!(bench.async_events(B), [AsyncEvent::SrqLimitReached(srq)], "there is one only");
    bench.device(B).set_srq_limit(srq, 1).unwrap();
    bench.device(B).set_srq_limit(srq, 0).unwrap();
    assert_eq!(take(&mut bench), [], "disarmed");
    assert!(bench.device(B).set_srq_limit(srq, 5).is_err(), "more than it holds");
}

#[test]
fn an_empty_queue_makes_reliable_senders_wait() {
    let mut bench = two_senders(QpType::Rc);
    bench.post(A, wr(1, send()).at(0..8));
    bench.post(C, wr(2, send()).at(0..8));
    bench.run_for(100_000);
    assert_eq!(bench.count(B, Counter::SentRnrNak), 2);
    bench.recv(B, 10, 0..8);
    bench.recv(B, 11, 0..8);
    bench.run();
    assert_eq!(bench.sends(A), [(1, Success), (2, Success)]);
}

#[test]
fn every_service_receives_from_it() {
    for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud] {
        let mut bench = setup(qp_type).pair();
        let op = if qp_type == QpType::Ud { bench.datagram(A, B) } else { send() };
        for id in 0..10 {
            bench.recv(B, id, 0..100);
            bench.post(A, wr(id, op).at(0..8));
            bench.run();
            assert_eq!(bench.recvs(B), [(id, Success)]);
            assert_eq!(bench.sends(A), [(id, Success)]);
        }
    }
}

#[test]
fn it_holds_what_it_says_also_after_messages_were_given_up() {
    // A queue pair that is reset or destroyed in the middle of a message frees its receive.
    let setup = setup(QpType::Rc);
    for destroy in [false, true] {
        let mut bench = setup.pair();
        for round in 0..10 {
            bench.recv(B, round, 0..1000);
            bench.inject(A, &Forge::send(First, 0).count_up(0, 256));
            if destroy {
                let qp = bench.end(B).qp;
                bench.device(B).destroy_qp(qp).unwrap();
                bench.create_qp(&setup, B);
            } else {
                bench.enter(B, Reset);
            }
            bench.advance(&setup, B, Rts);
        }
        for id in 0..4 {
            bench.recv(B, id, 0..8);
        }
        let refused = bench.try_recv(B, &wr(4, send()).at(0..8));
        assert!(matches!(refused, Result::Err(VerbError::Full(_))), "{refused:?}");
    }
}

#[test]
fn the_receive_of_a_broken_unreliable_message_goes_with_its_queue_pair() {
    let setup = setup(QpType::Uc);
    let mut bench = setup.pair();
    for round in 0..10 {
        bench.recv(B, round, 0..1000);
        bench.inject(A, &Forge::send(First, 0).count_up(0, 256));
        bench.inject(A, &Forge::send(First, 5).count_up(0, 256));
        bench.inject(A, &Forge::send(Last, 7).count_up(0, 8));
        bench.enter(B, Reset);
        bench.advance(&setup, B, Rts);
    }
    for id in 0..4 {
        bench.recv(B, id, 0..8);
    }
}

#[test]
fn its_buffers_belong_to_its_own_protection_domain() {
    let mut setup = setup(QpType::Rc);
    setup.srq = None;
    let mut bench = setup.pair();
    // A shared queue of another domain, with memory of that domain.
    let memory = bench.end(B).memory;
    let device = bench.device(B);
    let pd = device.alloc_pd().unwrap();
    let attributes = SrqAttributes { max_wr: 2, max_sge: 1, srq_limit: 0 };
    let srq = device.create_srq(pd, attributes).unwrap();
    let access = softrnic_model::verbs::Access::LOCAL_WRITE;
    let spec = softrnic_model::protection::RegionSpec {
        pd,
        memory,
        memory_offset: 0,
        addr: BASE,
        length: 64,
        access,
    };
    let key = device.register(spec).unwrap();
    bench.use_srq(&setup, B, srq);
    assert!(matches!(bench.device(B).destroy_srq(srq), Result::Err(VerbError::Busy(_))));
    bench.try_recv(B, &wr(10, send()).sge(BASE, 64, key)).unwrap();
    let own = wr(11, send()).at(0..64);
    bench.try_recv(B, &own).unwrap();
    bench.post(A, wr(1, send()).at(0..8));
    bench.post(A, wr(2, send()).at(0..8));
    bench.run();
    let local = softrnic_model::verbs::WcStatus::LocalProtectionError;
    assert_eq!(bench.recvs(B), [(10, Success), (11, local)]);
}

#[test]
fn own_receives_and_shared_ones_exclude_each_other() {
    let mut bench = setup(QpType::Rc).pair();
    let (qp, key) = (bench.end(B).qp, bench.end(B).key);
    let sge = softrnic_model::verbs::Sge { addr: BASE, length: 8, lkey: key };
    let request = softrnic_model::verbs::RecvWr { wr_id: 1, sges: &[sge] };
    assert!(matches!(bench.device(B).post_recv(qp, &request), Result::Err(VerbError::Invalid(_))));
    let (_, init) = bench.device(B).query_qp(qp).unwrap();
    assert_eq!((init.cap.max_recv_wr, init.cap.max_recv_sge), (0, 0));
    let many = wr(1, send()).at(0..8).at(8..16).at(16..24);
    assert!(matches!(bench.try_recv(B, &many), Result::Err(VerbError::Invalid(_))));
}

#[test]
fn absurd_receive_capacities_are_ignored_with_it() {
    let mut setup = setup(QpType::Rc);
    setup.cap.max_recv_wr = u32::MAX;
    setup.cap.max_recv_sge = u32::MAX;
    let mut bench = setup.pair();
    bench.recv(B, 1, 0..8);
    bench.post(A, wr(1, send()).at(0..8));
    bench.run();
    assert_eq!(bench.recvs(B), [(1, Success)]);
}

#[test]
fn it_can_be_resized_in_the_middle_of_traffic() {
    let mut bench = two_senders(QpType::Rc);
    let srq = bench.end(B).srq.unwrap();
    for id in 0..4 {
        bench.recv(B, id, 1000 * id..1000 * id + 1000);
    }
    bench.inject(A, &Forge::send(First, 0).count_up(1, 256));
    let modify = |bench: &mut Bench, limit, size| bench.device(B).modify_srq(srq, limit, size);
    for size in [0, 3, u32::MAX] {
        assert!(matches!(modify(&mut bench, None, Some(size)), Result::Err(VerbError::Invalid(_))));
    }
    assert!(matches!(modify(&mut bench, None, None), Result::Err(VerbError::Invalid(_))));
    assert!(modify(&mut bench, Some(7), Some(6)).is_err(), "the limit is above the size");
    assert_eq!(bench.device(B).query_srq(srq).unwrap().max_wr, 4, "all or nothing");
    modify(&mut bench, Some(2), Some(6)).unwrap();
    assert!(modify(&mut bench, None, Some(1)).is_err());
    bench.recv(B, 4, 4000..5000);
    bench.recv(B, 5, 5000..6000);
    let refused = bench.try_recv(B, &wr(6, send()).at(0..8));
    assert!(matches!(refused, Result::Err(VerbError::Full(_))));
    bench.inject(A, &Forge::send(Last, 1).count_up(5, 8));
    assert_eq!(bench.bytes(B, 256..258), [5, 6], "the receive that was being filled stays");
    for psn in 0..5 {
        bench.inject(C, &Forge::send(Only, psn).count_up(0, 8));
    }
    assert_eq!(bench.recvs(B), [0, 1, 2, 3, 4, 5].map(|id| (id, Success)));
    assert_eq!(bench.async_events(B), [AsyncEvent::SrqLimitReached(srq)]);
    modify(&mut bench, None, Some(1)).unwrap();
    bench.recv(B, 7, 0..8);
    assert!(bench.try_recv(B, &wr(8, send()).at(0..8)).is_err());
}
