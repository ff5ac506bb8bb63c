//! Shared receive queues.

use softrnic_verbs::{
    AsyncEvent, ConnectOptions, QpState, QpType, RecvWr, SrqAttributes, WcStatus,
};

use crate::world::{End, SIZES, connect, pair, patient, pattern};

#[test]
fn several_queue_pairs_take_from_one_queue_and_its_limit_is_told_once() {
    let (near, far) = pair();
    let pd = far.alloc_pd().unwrap();
    let (send_cq, recv_cq) = (far.create_cq(64).unwrap(), far.create_cq(64).unwrap());
    let attributes = SrqAttributes { max_wr: 16, max_sge: 1, srq_limit: 0 };
    let srq = pd.create_srq(&attributes).unwrap();
    assert!(srq.granted().max_wr >= 16);
    let inbox = pd.register(pattern(4096, 1), crate::world::ALL).unwrap();
    for wr_id in 0..12 {
        srq.post_recv(&[RecvWr { wr_id, sges: &[inbox.sge(64 * wr_id, 64)] }]).unwrap();
    }
    srq.arm_limit(8).unwrap();
    let senders: Vec<_> = (0..4).map(|seed| End::new(near.clone(), QpType::Rc, seed)).collect();
    let receivers: Vec<_> = senders
        .iter()
        .map(|sender| {
            let builder = pd.create_qp(QpType::Rc, &send_cq).capabilities(SIZES);
            let qp = builder.recv_cq(&recv_cq).srq(&srq).build().unwrap();
            connect(&sender.qp, &qp, &patient());
            qp
        })
        .collect();
    // The peers take turns, so the receives are used in the order in which they were posted.
    for wr_id in 0..12_u8 {
        let turn = usize::from(wr_id) % 4;
        let sender = &senders[turn];
        sender.qp.send(1, sender.sge(u64::from(wr_id), 64)).unwrap();
        sender.success();
        let received = recv_cq.wait_success(crate::world::PATIENCE).unwrap();
        assert_eq!((received.wr_id, received.qp_num), (wr_id.into(), receivers[turn].num()));
        let mut got = [0; 64];
        inbox.buffer().read(64 * usize::from(wr_id), &mut got).unwrap();
        assert_eq!(got.to_vec(), sender.bytes(wr_id.into(), 64));
    }
    let events: Vec<_> =
        std::iter::from_fn(|| far.next_async_event(Some(std::time::Duration::ZERO)).unwrap())
            .filter(|event| !matches!(event, AsyncEvent::CommunicationEstablished(_)))
            .collect();
    assert_eq!(events, [AsyncEvent::SrqLimitReached(srq.id())]);
    assert_eq!(srq.query().unwrap().srq_limit, 0, "disarmed");

    // With a queue pair in error the receives stay for the others, and its end is told.
    srq.post_recv(&[RecvWr { wr_id: 99, sges: &[inbox.sge(0, 64)] }]).unwrap();
    receivers[0].move_to(QpState::Err).unwrap();
    let event = far.next_async_event(crate::world::PATIENCE).unwrap();
    assert_eq!(event, Some(AsyncEvent::LastWqeReached(receivers[0].num())));
    senders[1].qp.send(1, senders[1].sge(0, 64)).unwrap();
    assert_eq!(recv_cq.wait_success(crate::world::PATIENCE).unwrap().wr_id, 99);

    // It grows while others use it.
    srq.resize(32).unwrap();
    assert_eq!(srq.query().unwrap().max_wr, 32);

    // An empty shared queue is a receiver that is not ready.
    let sender = &senders[2];
    let options = ConnectOptions { rnr_retry: 1, min_rnr_timer: 1, ..patient() };
    let qp = pd.create_qp(QpType::Rc, &send_cq).recv_cq(&recv_cq).srq(&srq).build().unwrap();
    let hasty = End::new(near, QpType::Rc, 9);
    connect(&hasty.qp, &qp, &options);
    hasty.qp.send(1, hasty.sge(0, 8)).unwrap();
    hasty.failure(WcStatus::RnrRetryExceeded);
    assert!(sender.is_idle());
}
