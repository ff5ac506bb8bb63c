//! The drained state, and what may be changed there and elsewhere.

use softrnic_model::verbs::QpState::{Err, Rts, Sqd};
use softrnic_model::verbs::WcStatus::Success;
use softrnic_model::verbs::{
    Access, AsyncEvent, Gid, QpAttributeMask as Mask, QpAttributes, QpType,
};
use softrnic_transport::sim::Fate;

use crate::bench::{A, B, Bench, Setup, send, wr};

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
        let mut bench = Setup::of(qp_type).pair();
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
    for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud] {
        let mut bench = Setup::of(qp_type).pair();
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
