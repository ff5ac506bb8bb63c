//! States of queue pairs, with traffic under way.

use softrnic_model::counters::Counter;
use softrnic_model::verbs::QpState::{self, Err, Init, Reset, Rtr, Rts, Sqd};
use softrnic_model::verbs::WcStatus::{RetryExceeded, Success, WorkRequestFlushed};
use softrnic_model::verbs::{
    Access, AsyncEvent, Gid, Mtu, QpAttributeMask as Mask, QpAttributes, QpNum, QpType,
};
use softrnic_model::wire::Place::Only;
use softrnic_transport::sim::Fate;

use crate::bench::{A, B, Bench, Forge, Setup, send, wr};

const ALL_TYPES: [QpType; 3] = [QpType::Rc, QpType::Uc, QpType::Ud];

fn setup(qp_type: QpType) -> Setup {
    match qp_type {
        QpType::Rc => Setup::rc(),
        QpType::Uc => Setup::uc(),
        QpType::Ud => Setup::ud(),
    }
}

fn drain(bench: &mut Bench, notify: bool) {
    let mask = if notify { Mask::STATE | Mask::EN_SQD_ASYNC_NOTIFY } else { Mask::STATE };
    bench
        .modify(A, mask, |attr| {
            attr.state = Sqd;
            attr.sq_drained_event = true;
        })
        .unwrap();
}

#[test]
fn a_queue_drains_what_it_has_begun_and_nothing_else() {
    let mut setup = Setup::rc();
    setup.attributes.max_rd_atomic = 1;
    let mut bench = setup.pair();
    let (b, qp) = (bench.remote(B), bench.end(A).qp);
    bench.post(A, wr(1, b.write(0)).at(0..3000));
    bench.post(A, wr(2, b.read(0)).at(0..3000));
    bench.post(A, wr(3, b.read(0)).at(3000..6000));
    bench.post(A, wr(4, b.write(0)).at(0..8));
    bench.fabric.send();
    drain(&mut bench, true);
    assert_eq!(bench.async_events(A), [], "not before the READ is answered");
    bench.run();
    assert_eq!(bench.sends(A), [(1, Success), (2, Success)]);
    assert_eq!(bench.async_events(A), [AsyncEvent::SqDrained(qp)]);
    bench.post(A, wr(5, b.write(0)).at(0..8));
    bench.run();
    assert_eq!((bench.sends(A), bench.async_events(A)), (vec![], vec![]), "it waits");
    bench.enter(A, Rts);
    bench.run();
    assert_eq!(bench.sends(A), [(3, Success), (4, Success), (5, Success)]);
    assert_eq!(bench.async_events(A), []);
}

#[test]
fn a_message_that_was_begun_is_sent_to_its_end() {
    for qp_type in [QpType::Rc, QpType::Uc] {
        let mut bench = setup(qp_type).pair();
        let (b, qp) = (bench.remote(B), bench.end(A).qp);
        bench.post(A, wr(1, b.write(0)).at(0..5000));
        bench.post(A, wr(2, b.write(5000)).at(0..8));
        // One packet leaves, and gets lost.
        bench.fill_one(A);
        drain(&mut bench, true);
        bench.run();
        assert_eq!(bench.sends(A), [(1, Success)]);
        assert_eq!(bench.async_events(A), [AsyncEvent::SqDrained(qp)]);
    }
}

#[test]
fn a_queue_with_nothing_under_way_is_drained_at_once() {
    for qp_type in ALL_TYPES {
        let mut bench = setup(qp_type).pair();
        let qp = bench.end(A).qp;
        drain(&mut bench, true);
        assert_eq!(bench.async_events(A), [AsyncEvent::SqDrained(qp)]);
        bench.enter(A, Rts);
        drain(&mut bench, false);
        assert_eq!(bench.async_events(A), [], "nobody asked this time");
    }
}

#[test]
fn leaving_before_it_has_drained_takes_the_wish_back() {
    let mut bench = Setup::rc().pair();
    let b = bench.remote(B);
    bench.post(A, wr(1, b.write(0)).at(0..8));
    bench.fabric.send();
    drain(&mut bench, true);
    bench.enter(A, Rts);
    bench.run();
    drain(&mut bench, false);
    assert_eq!(bench.sends(A), [(1, Success)]);
    assert_eq!(bench.async_events(A), []);
}

#[test]
fn what_may_be_posted_in_which_state() {
    for qp_type in ALL_TYPES {
        for state in [Reset, Init, Rtr, Rts, Sqd, Err] {
            let setup = setup(qp_type);
            let mut bench = setup.pair();
            let op = if qp_type == QpType::Ud { bench.datagram(A, B) } else { send() };
            if matches!(state, Sqd | Err) {
                bench.enter(A, state);
            } else {
                bench.enter(A, Reset);
                bench.advance(&setup, A, state);
            }
            let sends = bench.try_post(A, &wr(1, op).at(0..8)).is_ok();
            let receives = bench.try_recv(A, &wr(2, send()).at(0..8)).is_ok();
            assert_eq!(sends, matches!(state, Rts | Sqd | Err), "{qp_type:?} {state:?}");
            assert_eq!(receives, state != Reset, "{qp_type:?} {state:?}");
            let flushed = usize::from(state == Err);
            assert_eq!((bench.sends(A).len(), bench.recvs(A).len()), (flushed, flushed));
        }
    }
}

#[test]
fn in_error_all_that_was_posted_is_flushed_in_order_and_nothing_leaves() {
    let mut bench = Setup::rc().pair();
    let b = bench.remote(B);
    for id in 0..5 {
        bench.post(A, wr(id, b.write(0)).at(0..8).unsignaled());
        bench.recv(A, 10 + id, 0..8);
    }
    bench.fabric.send();
    bench.post(A, wr(5, b.write(0)).at(0..8).unsignaled());
    bench.tap.take();
    bench.enter(A, Err);
    assert_eq!(bench.sends(A), [0, 1, 2, 3, 4, 5].map(|id| (id, WorkRequestFlushed)));
    assert_eq!(bench.recvs(A), [10, 11, 12, 13, 14].map(|id| (id, WorkRequestFlushed)));
    bench.post(A, wr(6, b.write(0)).at(0..8).unsignaled());
    assert_eq!(bench.sends(A), [(6, WorkRequestFlushed)]);
    bench.run();
    assert_eq!(bench.tap.take(), ["B ACK 4"], "the peer had got them");
    assert_eq!((bench.sends(A), bench.state(B)), (vec![], Rts));
    assert_eq!(bench.async_events(A), []);
}

#[test]
fn the_first_packet_establishes_the_communication() {
    for qp_type in [QpType::Rc, QpType::Uc] {
        let setup = setup(qp_type);
        let mut bench = setup.pair();
        let qp = bench.end(B).qp;
        for state in [Rtr, Rts] {
            bench.enter(B, Reset);
            bench.advance(&setup, B, state);
            bench.recv(B, 1, 0..8);
            bench.recv(B, 2, 0..8);
            bench.inject(A, &Forge::send(Only, 0).count_up(0, 8));
            let events =
                if state == Rtr { vec![AsyncEvent::CommunicationEstablished(qp)] } else { vec![] };
            assert_eq!(bench.async_events(B), events);
            bench.inject(A, &Forge::send(Only, 1).count_up(0, 8));
            assert_eq!(bench.async_events(B), [], "once");
            assert_eq!(bench.recvs(B).len(), 2);
        }
    }
}

#[test]
fn a_refused_change_changes_nothing() {
    type Change = fn(&mut QpAttributes);
    let alien = Gid::from_v4([224, 0, 0, 1]);
    assert!(alien.is_multicast());
    let changes: [(Mask, Change); 12] = [
        (Mask::PORT, |attr| attr.port = 2),
        (Mask::PKEY_INDEX, |attr| attr.pkey_index = 1),
        (Mask::TIMEOUT, |attr| attr.timeout = 32),
        (Mask::RETRY_CNT, |attr| attr.retry_count = 8),
        (Mask::RNR_RETRY, |attr| attr.rnr_retry = 8),
        (Mask::MIN_RNR_TIMER, |attr| attr.min_rnr_timer = 32),
        (Mask::MAX_QP_RD_ATOMIC, |attr| attr.max_rd_atomic = 17),
        (Mask::MAX_DEST_RD_ATOMIC, |attr| attr.max_dest_rd_atomic = 17),
        (Mask::ACCESS_FLAGS, |attr| attr.access = Access::from_bits_retain(1 << 15)),
        (Mask::AV, |attr| attr.path.sgid_index = 1),
        (Mask::AV, |attr| attr.path.dgid = Gid([0xfd; 16])),
        (Mask::AV, |attr| attr.path.dgid = Gid::from_v4([224, 0, 0, 1])),
    ];
    let mut bench = Setup::rc().pair();
    let (b, qp) = (bench.remote(B), bench.end(A).qp);
    drain(&mut bench, false);
    let before = bench.device(A).query_qp(qp).unwrap();
    for (mask, change) in changes {
        // With it comes a change that would be all right.
        let refused = bench.modify(A, mask | Mask::TIMEOUT | Mask::ACCESS_FLAGS, |attr| {
            attr.timeout = 3;
            attr.access = Access::REMOTE_READ;
            change(attr);
        });
        assert!(refused.is_err(), "{mask:?}");
        assert_eq!(bench.device(A).query_qp(qp).unwrap(), before, "{mask:?}");
    }
    let wrong_state = bench.modify(A, Mask::STATE | Mask::CUR_STATE, |attr| {
        attr.state = Rts;
        attr.current_state = Rts;
    });
    assert!(wrong_state.is_err());
    assert_eq!(bench.state(A), Sqd);
    bench.enter(A, Rts);
    bench.post(A, wr(1, b.write(0)).at(0..8));
    bench.run();
    assert_eq!(bench.sends(A), [(1, Success)]);
}

#[test]
fn what_is_changed_counts_from_now_on() {
    // Time-outs, retries and depths may change while the queue is drained.
    let mut bench = Setup::rc().pair();
    let b = bench.remote(B);
    drain(&mut bench, false);
    let mask = Mask::TIMEOUT | Mask::RETRY_CNT | Mask::MAX_QP_RD_ATOMIC | Mask::AV;
    bench
        .modify(A, mask, |attr| {
            (attr.timeout, attr.retry_count, attr.max_rd_atomic) = (5, 1, 2);
            attr.path.hop_limit = 3;
        })
        .unwrap();
    bench.enter(A, Rts);
    bench.tap.rule(|_| Fate::Drop);
    for id in 0..4 {
        bench.post(A, wr(id, b.read(0)).at(0..8));
    }
    let start = bench.fabric.now();
    let failed = bench.run_to_state(A, Err);
    assert_eq!(failed.ns_since(start), 2 * (4_096 << 5));
    let log = bench.tap.log();
    assert_eq!(log.len(), 2 * 2, "two READs at a time, twice");
    assert!(log.iter().all(|seen| seen.route.hop_limit == 3));
    // Rights and the RNR timer, at any time.
    let mut bench = Setup::rc().pair();
    bench
        .modify(B, Mask::ACCESS_FLAGS | Mask::MIN_RNR_TIMER, |attr| {
            attr.access = Access::REMOTE_READ;
            attr.min_rnr_timer = 3;
        })
        .unwrap();
    bench.post(A, wr(1, send()).at(0..8));
    assert_eq!(bench.frames()[..2], ["A SEND_ONLY 0", "B RNR_NAK 3 0"]);
    bench.recv(B, 7, 0..8);
    bench.post(A, wr(2, b.write(0)).at(0..8));
    bench.run();
    assert_eq!(bench.states(), (Err, Err));
}

#[test]
fn packets_carry_the_p_key_that_was_chosen() {
    for qp_type in ALL_TYPES {
        let mut setup = setup(qp_type);
        setup.device.pkeys = vec![0xffff, 0x8123];
        setup.attributes.pkey_index = 1;
        let mut bench = setup.pair();
        let op = if qp_type == QpType::Ud { bench.datagram(A, B) } else { send() };
        bench.recv(B, 7, 0..100);
        bench.post(A, wr(1, op).at(0..8));
        bench.run();
        assert_eq!(bench.recvs(B), [(7, Success)], "{qp_type:?}");
        assert!(bench.tap.log().iter().all(|seen| seen.packet().bth.pkey() == 0x8123));
        assert_eq!(bench.dropped(A) + bench.dropped(B), 0);
    }
}

/// Work of all kinds under way in both directions, some of it lost.
fn busy(setup: &Setup) -> Bench {
    let mut bench = setup.pair();
    for (from, to) in [(A, B), (B, A)] {
        let remote = bench.remote(to);
        for id in 0..8 {
            bench.recv(to, 100 + id, 0..2000);
            bench.post(from, wr(id, send()).at(0..2000));
            bench.post(from, wr(20 + id, remote.read(0)).at(30_000..34_000));
        }
    }
    for lost in ["A SEND_MIDDLE 6", "B SEND_MIDDLE 6", "A RDMA_READ_RESPONSE_FIRST 8"] {
        bench.tap.once(lost, Fate::Drop);
    }
    bench.run_for(3_500);
    bench
}

#[test]
fn a_reset_forgets_everything_and_a_new_connection_knows_nothing_of_it() {
    let setup = Setup { mtu: Mtu::B256, ..Setup::rc() };
    let mut bench = busy(&setup);
    for end in [A, B] {
        bench.enter(end, Reset);
    }
    // Frames of the old connection are still on their way when the new one is there.
    for end in [A, B] {
        bench.advance(&setup, end, Rts);
        assert_eq!((bench.sends(end), bench.recvs(end)), (vec![], vec![]));
    }
    bench.frames();
    assert_eq!((bench.sends(A), bench.sends(B)), (vec![], vec![]));
    for (from, to) in [(A, B), (B, A)] {
        let remote = bench.remote(to);
        bench.recv(to, 200, 8000..10_000);
        bench.post(from, wr(50, send()).at(0..2000));
        bench.post(from, wr(51, remote.read(50_000)).at(40_000..48_000));
    }
    bench.run();
    for (end, peer) in [(A, B), (B, A)] {
        assert_eq!(bench.sends(end), [(50, Success), (51, Success)]);
        assert_eq!(bench.recvs(end), [(200, Success)]);
        assert_eq!(bench.bytes(end, 40_000..48_000), bench.bytes(peer, 50_000..58_000));
    }
    assert_eq!(bench.states(), (Rts, Rts));
}

#[test]
fn a_queue_pair_that_is_destroyed_with_traffic_under_way_is_gone() {
    let setup = Setup { mtu: Mtu::B256, ..Setup::rc() };
    let mut bench = busy(&setup);
    let old = bench.end(B).qp;
    let memory = bench.bytes(B, 0..1 << 16);
    bench.device(B).destroy_qp(old).unwrap();
    assert!(bench.device(B).query_qp(old).is_err());
    bench.run();
    assert_eq!(bench.bytes(B, 0..1 << 16), memory, "no access after the verb");
    assert!(bench.count(B, Counter::DropUnknownQp) > 0);
    assert_eq!((bench.sends(B), bench.recvs(B)), (vec![], vec![]));
    let statuses: Vec<_> = bench.sends(A).iter().map(|(_, status)| *status).collect();
    let failed = statuses.iter().position(|status| *status == RetryExceeded).unwrap();
    assert!(statuses[..failed].iter().all(|status| *status == Success));
    assert!(statuses[failed + 1..].iter().all(|status| *status == WorkRequestFlushed));
    assert_eq!(statuses.len(), 16);
    assert_eq!(bench.async_events(B), []);
    // All that belonged to it can go.
    let end = bench.end(B);
    let device = bench.device(B);
    device.destroy_cq(end.send_cq).unwrap();
    device.destroy_cq(end.recv_cq).unwrap();
    device.deregister(end.key).unwrap();
    device.dealloc_pd(end.pd).unwrap();
}

#[test]
fn numbers_of_queue_pairs_rest_before_they_are_used_again() {
    let setup = Setup::rc();
    let mut bench = setup.pair();
    let first = bench.end(B).qp;
    let mut seen = vec![first];
    for _ in 0..1000 {
        let qp = bench.end(B).qp;
        bench.device(B).destroy_qp(qp).unwrap();
        bench.create_qp(&setup, B);
        let new = bench.end(B).qp;
        assert!(!seen.contains(&new));
        seen.push(new);
    }
    assert!(seen.iter().all(|qp| *qp != QpNum::new(0) && *qp != QpNum::GSI));
}

#[test]
fn a_frame_whose_queue_pair_has_moved_on_is_not_sent() {
    // A driver that asks the device for a frame may be told something else before it fills it.
    for change in [Err, Reset] {
        let mut bench = Setup::rc().pair();
        let b = bench.remote(B);
        bench.post(A, wr(1, b.write(0)).at(0..8));
        let frame = bench.device(A).next_frame().unwrap();
        bench.enter(A, change);
        let mut bytes = vec![0; frame.len()];
        let host = bench.fabric.host_mut(0);
        let now = softrnic_model::Instant::ZERO;
        assert!(!host.device.fill(now, &host.memory, &frame, &mut bytes));
        bench.run();
        let flushed = if change == Err { vec![(1, WorkRequestFlushed)] } else { vec![] };
        assert_eq!(bench.sends(A), flushed);
        bench.enter(A, Reset);
        bench.advance(&Setup::rc(), A, Rts);
        bench.post(A, wr(2, b.write(0)).at(0..8));
        bench.run();
        assert_eq!(bench.sends(A), [(2, Success)]);
    }
}

#[test]
fn from_error_the_only_way_is_reset() {
    for qp_type in ALL_TYPES {
        let mut bench = setup(qp_type).pair();
        bench.enter(A, Err);
        for state in QpState::ALL {
            let all = Mask::STATE;
            let ok = bench.modify(A, all, |attr| attr.state = state).is_ok();
            assert_eq!(ok, matches!(state, Reset | Err), "{state:?}");
            if state == Reset {
                bench.enter(A, Err);
            }
        }
    }
}
