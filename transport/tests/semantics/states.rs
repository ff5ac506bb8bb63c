//! States of queue pairs, with traffic under way.

use softrnic_model::FrameOut;
use softrnic_model::counters::Counter;
use softrnic_model::verbs::QpState::{self, Err, Init, Reset, Rtr, Rts, Sqd};
use softrnic_model::verbs::WcStatus::{RetryExceeded, Success, WorkRequestFlushed};
use softrnic_model::verbs::{AsyncEvent, Mtu, QpAttributeMask as Mask, QpNum, QpType};
use softrnic_model::wire::Place::Only;
use softrnic_transport::sim::{FabricConfig, Fate};

use crate::bench::{A, B, Bench, Forge, Setup, send, wr};

const ALL_TYPES: [QpType; 3] = [QpType::Rc, QpType::Uc, QpType::Ud];

#[test]
fn what_may_be_posted_in_which_state() {
    for qp_type in ALL_TYPES {
        for state in [Reset, Init, Rtr, Rts, Sqd, Err] {
            let setup = Setup::of(qp_type);
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
        let setup = Setup::of(qp_type);
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
fn packets_carry_the_p_key_that_was_chosen() {
    for qp_type in ALL_TYPES {
        let mut setup = Setup::of(qp_type);
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
        let mut frame = FrameOut::default();
        assert!(bench.device(A).next_frame(&mut frame));
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
        let mut bench = Setup::of(qp_type).pair();
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

#[test]
fn a_query_tells_where_it_stands() {
    let mut bench = Setup { mtu: Mtu::B256, ..Setup::rc() }.pair();
    let (b, ends) = (bench.remote(B), [A, B].map(|end| bench.end(end)));
    bench.post(A, wr(1, b.write(0)).at(0..1000));
    bench.post(A, wr(2, b.read(0)).at(0..1000));
    bench.run();
    let [a, b] = [A, B].map(|end| bench.device(end).query_qp(ends[end.0].qp).unwrap());
    assert_eq!((a.0.state, a.0.current_state), (Rts, Rts));
    assert_eq!(a.0.sq_psn, ends[0].first_psn.plus(8));
    assert_eq!(b.0.rq_psn, a.0.sq_psn);
    assert_eq!((a.0.rq_psn, b.0.sq_psn), (ends[1].first_psn, ends[1].first_psn));
    assert_eq!((a.0.dest_qp, b.0.dest_qp), (ends[1].qp, ends[0].qp));
    assert_eq!(a.1.qp_type, QpType::Rc);
    assert_eq!(a.0.cap, Setup::rc().cap);
}

#[test]
fn ready_to_receive_is_ready_to_answer() {
    let setup = Setup::rc();
    let mut bench = setup.pair();
    bench.enter(B, Reset);
    bench.advance(&setup, B, Rtr);
    let b = bench.remote(B);
    bench.recv(B, 7, 0..8);
    bench.post(A, wr(1, send()).at(0..8));
    bench.post(A, wr(2, b.read(0)).at(0..8));
    bench.post(A, wr(3, b.add(64, 1)).at(0..8));
    bench.run();
    assert_eq!(bench.sends(A), [(1, Success), (2, Success), (3, Success)]);
}

#[test]
fn a_queue_pair_may_be_its_own_peer() {
    for qp_type in [QpType::Rc, QpType::Uc] {
        let mut setup = Setup::of(qp_type);
        setup.mtu = Mtu::B256;
        let mut bench = Bench::new(FabricConfig::default());
        let host = bench.add_host(&setup);
        bench.add_end(&setup, host);
        bench.connect(&setup, A, A);
        let a = bench.remote(A);
        bench.recv(A, 7, 10_000..11_000);
        bench.post(A, wr(1, send()).at(0..1000));
        bench.post(A, wr(2, a.write(20_000)).at(0..1000));
        bench.run();
        assert_eq!(bench.sends(A), [(1, Success), (2, Success)]);
        assert_eq!(bench.recvs(A), [(7, Success)]);
        assert_eq!(bench.bytes(A, 10_000..11_000), bench.bytes(A, 0..1000));
        assert_eq!(bench.bytes(A, 20_000..21_000), bench.bytes(A, 0..1000));
    }
}

#[test]
fn when_the_world_is_gone_what_is_posted_completes_as_flushed() {
    for qp_type in ALL_TYPES {
        let setup = Setup::of(qp_type);
        let mut bench = setup.pair();
        let fresh = Setup::of(qp_type);
        let host = bench.end(B).host;
        let idle = bench.add_end(&fresh, host);
        let op = if qp_type == QpType::Ud { bench.datagram(A, B) } else { send() };
        bench.tap.silence();
        bench.recv(A, 5, 0..64);
        bench.post(A, wr(1, op).at(0..8));
        bench.post(A, wr(2, op).at(0..8));
        bench.device(A).fail_queue_pairs();
        assert_eq!(bench.sends(A), [1, 2].map(|id| (id, WorkRequestFlushed)), "{qp_type:?}");
        assert_eq!(bench.recvs(A), [(5, WorkRequestFlushed)]);
        assert_eq!(bench.state(A), Err);
        bench.device(B).fail_queue_pairs();
        assert_eq!((bench.state(B), bench.state(idle)), (Err, Reset), "what has not begun stays");
    }
}
