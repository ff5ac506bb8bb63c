//! Every operation of every service.

use softrnic_model::wire::Grh;
use softrnic_verbs::{
    Access, AddressVector, Gid, Placement, QpType, RecvWr, Selectivity, SendFlags, SendOp, SendWr,
    WcFlags, WcOpcode, WcStatus,
};

use crate::world::{ALL, End, LEN, World, builder, connect, pair, patient, pattern};

/// Lengths around everything that a length can be in the way of: nothing, words, the MTU, bursts.
const LENGTHS: [u32; 12] = [0, 1, 3, 8, 64, 1023, 1025, 4095, 4096, 4097, 12_345, 300_001];

#[test]
fn atomic_writes_and_flushes() {
    let access = ALL | Access::FLUSH_GLOBAL;
    let World { near, far } = World::new(QpType::Rc);
    let region = far.pd.register(pattern(4096, 9), access).unwrap();
    let qp = builder(&far.pd, QpType::Rc, &far.cq).access(Access::REMOTE | Access::FLUSH_GLOBAL);
    let qp = qp.build().unwrap();
    let near_qp = builder(&near.pd, QpType::Rc, &near.cq).build().unwrap();
    connect(&near_qp, &qp, &patient());
    near_qp.atomic_write(1, near.sge(0, 8), region.remote(64)).unwrap();
    let (global, whole) = (Placement::GLOBAL, Selectivity::Region);
    near_qp.flush(2, region.remote(0), 0, global, whole).unwrap();
    assert_eq!(near.success().opcode, WcOpcode::AtomicWrite);
    assert_eq!(near.success().opcode, WcOpcode::Flush);
    let mut got = [0; 8];
    region.buffer().read(64, &mut got).unwrap();
    assert_eq!(got.to_vec(), near.bytes(0, 8));
    // What cannot be promised cannot be had.
    let refused = far.pd.register(pattern(64, 9), ALL | Access::FLUSH_PERSISTENT).unwrap_err();
    assert_eq!(refused.source.errno_name(), "EOPNOTSUPP");
    let persistent = Placement::PERSISTENT;
    near_qp.flush(3, region.remote(0), 8, persistent, Selectivity::Range).unwrap();
    near.failure(WcStatus::RemoteInvalidRequest);
}

#[test]
fn rc_write_and_read_move_the_bytes_and_no_others() {
    let World { near, far } = World::new(QpType::Rc);
    for (round, &len) in (0_u64..).zip(&LENGTHS) {
        let (own, there) = (round * 13 % 64, 400_000 + round * 7 % 32);
        let bytes = len as usize;
        let (from, to) = (usize::try_from(own).unwrap(), usize::try_from(there).unwrap());
        let before = far.bytes(0, LEN);
        near.qp.write(round, near.sge(own, len), far.mr.remote(there)).unwrap();
        assert_eq!(near.success().opcode, WcOpcode::RdmaWrite);
        let mut expected = before;
        expected[to..to + bytes].copy_from_slice(&near.bytes(from, bytes));
        assert!(far.bytes(0, LEN) == expected, "WRITE of {len}");

        let (back, source) = (500_000 + round * 5 % 48, 100 + round * 11);
        let (into, out) = (usize::try_from(back).unwrap(), usize::try_from(source).unwrap());
        let mut expected = near.bytes(0, LEN);
        expected[into..into + bytes].copy_from_slice(&far.bytes(out, bytes));
        near.qp.read(round, near.sge(back, len), far.mr.remote(source)).unwrap();
        let read = near.success();
        assert_eq!((read.opcode, read.byte_len), (WcOpcode::RdmaRead, len));
        assert!(near.bytes(0, LEN) == expected, "READ of {len}");
    }
}

/// SEND of every length; the same for both connected services.
fn sends_arrive_whole(qp_type: QpType) {
    let World { near, far } = World::new(qp_type);
    for (round, &len) in (0_u64..).zip(&LENGTHS) {
        let bytes = len as usize;
        let imm = (round % 2 == 0).then_some(0x0102_0304 + len);
        far.qp.recv(70 + round, far.sge(2, 300_001)).unwrap();
        near.post(round, SendOp::Send { imm, invalidate: None }, near.sge(1, len));
        assert_eq!((near.success().wr_id, near.is_idle()), (round, true));
        let received = far.success();
        assert_eq!(
            (received.wr_id, received.opcode, received.byte_len),
            (70 + round, WcOpcode::Recv, len)
        );
        assert_eq!(received.flags.contains(WcFlags::WITH_IMM), imm.is_some());
        assert_eq!(received.imm_data, imm.unwrap_or(0));
        assert_eq!(far.bytes(2, bytes), near.bytes(1, bytes), "SEND of {len}");
    }
}

#[test]
fn rc_send() {
    sends_arrive_whole(QpType::Rc);
}

#[test]
fn uc_send() {
    sends_arrive_whole(QpType::Uc);
}

/// WRITE and WRITE with immediate; the same for both connected services.
fn writes_with_immediate_tell(qp_type: QpType) {
    let World { near, far } = World::new(qp_type);
    for (round, &len) in (0_u64..).zip(&LENGTHS) {
        far.qp.post_recv(&[RecvWr { wr_id: 7, sges: &[] }]).unwrap();
        let to = far.mr.remote(600_000);
        near.qp.write(round, near.sge(9, len), far.mr.remote(100)).unwrap();
        near.qp.write_with_imm(round, near.sge(5, len), to, 0xdead_0000 + len).unwrap();
        assert!([near.success(), near.success()].iter().all(|wc| wc.wr_id == round));
        let told = far.success();
        assert_eq!((told.wr_id, told.opcode), (7, WcOpcode::RecvRdmaWithImm));
        assert_eq!((told.imm_data, told.byte_len), (0xdead_0000 + len, len));
        assert_eq!(far.bytes(600_000, len as usize), near.bytes(5, len as usize));
        assert_eq!(far.bytes(100, len as usize), near.bytes(9, len as usize));
    }
}

#[test]
fn rc_write_with_immediate() {
    writes_with_immediate_tell(QpType::Rc);
}

#[test]
fn uc_write_with_immediate() {
    writes_with_immediate_tell(QpType::Uc);
}

#[test]
fn rc_atomics_find_and_change() {
    let World { near, far } = World::new(QpType::Rc);
    far.mr.buffer().store_u64(64, 40).unwrap();
    near.qp.fetch_add(1, near.sge(8, 8), far.mr.remote(64), 2).unwrap();
    assert_eq!(near.success().opcode, WcOpcode::FetchAdd);
    assert_eq!((near.word(8), far.word(64)), (40, 42));
    for (compare, after) in [(41, 42), (42, 7)] {
        near.qp.compare_swap(2, near.sge(8, 8), far.mr.remote(64), (compare, 7)).unwrap();
        assert_eq!(near.success().opcode, WcOpcode::CompareSwap);
        assert_eq!((near.word(8), far.word(64)), (42, after));
    }
    near.qp.fetch_add(3, near.sge(8, 8), far.mr.remote(64), u64::MAX).unwrap();
    near.success();
    assert_eq!((near.word(8), far.word(64)), (7, 6), "modulo 2^64");
}

#[test]
fn elements_are_gathered_scattered_and_inlined() {
    let World { near, far } = World::new(QpType::Rc);
    let pieces = [near.sge(100, 5), near.sge(5000, 0), near.sge(40_000, 4097), near.sge(3, 1)];
    let places = [far.sge(10, 2000), far.sge(9000, 1), far.sge(70_000, 5000)];
    far.qp.post_recv(&[RecvWr { wr_id: 1, sges: &places }]).unwrap();
    let send = SendOp::Send { imm: None, invalidate: None };
    let flags = SendFlags::SIGNALED;
    let gathered = SendWr { wr_id: 2, op: send, flags, sges: &pieces, ..SendWr::default() };
    near.qp.post_send(&[gathered]).unwrap();
    assert_eq!(far.success().byte_len, 4103);
    let sent = [near.bytes(100, 5), near.bytes(40_000, 4097), near.bytes(3, 1)].concat();
    let got = [far.bytes(10, 2000), far.bytes(9000, 1), far.bytes(70_000, 2102)].concat();
    assert_eq!(got, sent);

    far.qp.recv(3, far.sge(0, 300)).unwrap();
    let inline: Vec<u8> = (0..=255).collect();
    let flags = flags | SendFlags::INLINE;
    near.qp
        .post_send(&[SendWr {
            wr_id: 4,
            op: send,
            flags,
            sges: &[],
            inline: &inline,
            ..SendWr::default()
        }])
        .unwrap();
    assert_eq!(far.success().byte_len, 256);
    assert_eq!(far.bytes(0, 256), inline);
    assert_eq!([near.success().wr_id, near.success().wr_id], [2, 4]);
}

#[test]
fn only_what_is_signalled_completes_and_completions_come_in_order() {
    let World { near, far } = World::new(QpType::Rc);
    for wr_id in 0..90 {
        let op = match wr_id % 3 {
            0 => {
                SendOp::Write { remote_addr: far.mr.remote(0).addr, rkey: far.mr.rkey(), imm: None }
            }
            1 => SendOp::Read { remote_addr: far.mr.remote(0).addr, rkey: far.mr.rkey() },
            _ => {
                SendOp::FetchAdd { remote_addr: far.mr.remote(8).addr, rkey: far.mr.rkey(), add: 1 }
            }
        };
        let flags = if wr_id % 5 == 0 { SendFlags::SIGNALED } else { SendFlags::empty() };
        let flags = if wr_id % 7 == 0 { flags | SendFlags::FENCE } else { flags };
        let sges = &[near.sge(8 * wr_id, 8)];
        near.qp.post_send(&[SendWr { wr_id, op, flags, sges, ..SendWr::default() }]).unwrap();
    }
    let order: Vec<_> = (0..18).map(|_| near.success().wr_id).collect();
    assert!(order.iter().copied().eq((0..90).step_by(5)), "{order:?}");
    assert!(near.is_idle());
}

#[test]
fn ud_delivers_behind_a_header_that_tells_the_way_back() {
    let World { near, far } = World::new(QpType::Ud);
    let ah = near.pd.create_ah(&near.qp.path_to(far.qp.endpoint().unwrap().gid)).unwrap();
    for (round, len) in [0_u32, 1, 4, 1000, 4096].into_iter().enumerate() {
        let imm = (round % 2 == 0).then_some(len);
        let (remote_qpn, remote_qkey) = (far.qp.num(), 0x1111_1111);
        far.qp.recv(1, far.sge(0, 5000)).unwrap();
        let op = SendOp::SendTo { ah: ah.id(), remote_qpn, remote_qkey, imm };
        near.post(2, op, near.sge(77, len));
        assert_eq!(near.success().opcode, WcOpcode::Send);
        let received = far.success();
        assert_eq!((received.byte_len, received.src_qp), (40 + len, near.qp.num()));
        assert!(received.flags.contains(WcFlags::GRH));
        assert_eq!(received.flags.contains(WcFlags::WITH_IMM), imm.is_some());
        assert_eq!(far.bytes(40, len as usize), near.bytes(77, len as usize));
        let grh: [u8; 40] = far.bytes(0, 40).try_into().unwrap();
        let route = Grh::parse(&grh).unwrap();
        assert_eq!(route.src, near.qp.endpoint().unwrap().gid);
        assert_eq!(route.dst, far.qp.endpoint().unwrap().gid);
    }
    // The answer goes where the header says.
    let grh: [u8; 40] = far.bytes(0, 40).try_into().unwrap();
    let back = far.qp.path_to(Grh::parse(&grh).unwrap().src);
    let back = far.pd.create_ah(&back).unwrap();
    near.qp.recv(1, near.sge(0, 100)).unwrap();
    let (remote_qpn, remote_qkey) = (near.qp.num(), 0x1111_1111);
    let op = SendOp::SendTo { ah: back.id(), remote_qpn, remote_qkey, imm: None };
    far.post(2, op, far.sge(0, 16));
    assert_eq!(near.success().src_qp, far.qp.num());
}

#[test]
fn ud_to_the_wrong_key_or_nobody_is_lost_without_trace() {
    let World { near, far } = World::new(QpType::Ud);
    let ah = near.pd.create_ah(&near.qp.path_to(far.qp.endpoint().unwrap().gid)).unwrap();
    far.qp.recv(1, far.sge(0, 5000)).unwrap();
    for (remote_qpn, remote_qkey) in
        [(far.qp.num(), 0x2222_2222), (near.qp.num(), 0x1111_1111), (far.qp.num(), 0x1111_1111)]
    {
        let op = SendOp::SendTo { ah: ah.id(), remote_qpn, remote_qkey, imm: Some(remote_qkey) };
        near.post(2, op, near.sge(0, 8));
        near.success();
    }
    assert_eq!(far.success().imm_data, 0x1111_1111, "the last one");
    assert!(far.is_idle());
    assert_eq!(far.counter("drop_bad_qkey"), 1);
}

#[test]
fn a_device_reaches_itself() {
    let (context, _other) = pair();
    let (near, far) = (End::new(context.clone(), QpType::Rc, 3), End::new(context, QpType::Rc, 5));
    connect(&near.qp, &far.qp, &patient());
    near.qp.write(1, near.sge(0, 100_000), far.mr.remote(0)).unwrap();
    near.success();
    assert!(far.bytes(0, 100_000) == near.bytes(0, 100_000));
}

#[test]
fn path_fields_travel() {
    let World { near, far } = World::new(QpType::Ud);
    let dgid: Gid = far.qp.endpoint().unwrap().gid;
    let path = AddressVector { dgid, hop_limit: 9, traffic_class: 0x68, ..near.qp.path_to(dgid) };
    let ah = near.pd.create_ah(&path).unwrap();
    far.qp.recv(1, far.sge(0, 5000)).unwrap();
    let (remote_qpn, remote_qkey) = (far.qp.num(), 0x1111_1111);
    let op = SendOp::SendTo { ah: ah.id(), remote_qpn, remote_qkey, imm: None };
    near.post(2, op, near.sge(0, 8));
    far.success();
    let route = Grh::parse(&far.bytes(0, 40).try_into().unwrap()).unwrap();
    assert_eq!((route.hop_limit, route.traffic_class), (9, 0x68));
}

#[test]
fn a_refused_request_says_why_at_both_ends() {
    let outside = u64::try_from(LEN).unwrap() - 4;
    let World { near, far } = World::new(QpType::Rc);
    near.qp.write(1, near.sge(0, 8), far.mr.remote(outside)).unwrap();
    near.qp.write(2, near.sge(0, 8), far.mr.remote(0)).unwrap();
    assert_eq!(near.failure(WcStatus::RemoteAccessError).wr_id, 1);
    assert_eq!(near.failure(WcStatus::WorkRequestFlushed).wr_id, 2);

    let World { near, .. } = World::new(QpType::Rc);
    near.qp.send(1, near.sge(outside, 8)).unwrap();
    assert_eq!(near.failure(WcStatus::LocalProtectionError).wr_id, 1);

    let World { near, far } = World::new(QpType::Rc);
    far.qp.recv(5, far.sge(0, 7)).unwrap();
    near.qp.send(1, near.sge(0, 8)).unwrap();
    near.failure(WcStatus::RemoteInvalidRequest);
    far.failure(WcStatus::LocalLengthError);
}

#[test]
fn completions_say_when_they_completed() {
    let (near, far) = pair();
    let cq = near.create_cq_with_timestamps(16, None).unwrap();
    let near = End::on(near, QpType::Rc, 1, cq);
    let far = End::new(far, QpType::Rc, 2);
    connect(&near.qp, &far.qp, &patient());
    let mut last = near.context.clock_ns().unwrap();
    for wr_id in 0..10 {
        near.qp.read(wr_id, near.sge(0, 64), far.mr.remote(0)).unwrap();
        let at = near.success().timestamp;
        let now = near.context.clock_ns().unwrap();
        assert!(last <= at && at <= now, "{last} {at} {now}");
        last = now;
    }
}
