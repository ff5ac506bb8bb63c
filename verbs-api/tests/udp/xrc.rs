//! Extended reliable connections over real sockets, through the handles.

use softrnic_verbs::{Access, QpType, RecvWr, SendFlags, SendOp, SendWr, SrqAttributes, WcStatus};

use crate::world::{ALL, End, PATIENCE, pair, patient, pattern};

const SEND: SendOp = SendOp::Send { imm: Some(7), invalidate: None };
const SIZES: SrqAttributes = SrqAttributes { max_wr: 16, max_sge: 1, srq_limit: 0 };

#[test]
fn one_connection_serves_several_queues_and_a_target_lives_until_all_have_dropped_it() {
    let (near, far) = pair();
    let near = End::new(near, QpType::XrcSend, 1);
    let xrcd = far.open_xrcd().unwrap();
    let queues: Vec<_> = (0..3)
        .map(|seed| {
            let (pd, cq) = (far.alloc_pd().unwrap(), far.create_cq(16).unwrap());
            let srq = xrcd.create_srq(&pd, &cq, &SIZES).unwrap();
            (srq, cq, pd.register(pattern(4096, seed), ALL).unwrap())
        })
        .collect();
    let target = xrcd.create_target(Access::REMOTE).unwrap();
    near.qp.connect_with(&target.endpoint().unwrap(), &patient()).unwrap();
    target.connect(&near.qp.endpoint().unwrap(), &patient()).unwrap();
    let shared = xrcd.open_target(target.num()).unwrap();
    drop(target);
    for (n, (srq, cq, inbox)) in (0..).zip(&queues) {
        srq.post_recv(&[RecvWr { wr_id: n, sges: &[inbox.sge(0, 512)] }]).unwrap();
        let remote_srq = srq.number().unwrap();
        let sges = [near.sge(n * 100, 300)];
        let flags = SendFlags::SIGNALED;
        let send =
            SendWr { wr_id: n, op: SEND, flags, sges: &sges, remote_srq, ..SendWr::default() };
        let to = inbox.remote(1000);
        let op = SendOp::Write { remote_addr: to.addr, rkey: to.rkey, imm: None };
        near.qp.post_send(&[SendWr { op, ..send }, send]).unwrap();
        near.success();
        near.success();
        let received = cq.wait_success(PATIENCE).unwrap();
        assert_eq!((received.wr_id, received.imm_data, received.byte_len), (n, 7, 300));
        assert_eq!(received.qp_num, shared.num());
        for at in [0, 1000] {
            let mut got = [0; 300];
            inbox.buffer().read(at, &mut got).unwrap();
            assert_eq!(got.to_vec(), near.bytes(100 * usize::try_from(n).unwrap(), 300));
        }
    }
    // What keeps a domain busy keeps it alive.
    let number = queues[0].0.number().unwrap();
    drop(queues);
    let sges = [near.sge(0, 8)];
    let flags = SendFlags::SIGNALED;
    let send = SendWr { op: SEND, flags, sges: &sges, remote_srq: number, ..SendWr::default() };
    near.qp.post_send(&[send]).unwrap();
    near.failure(WcStatus::RemoteInvalidRequest);
    drop(shared);
}
