//! Typed handles work over simulated devices as over others.

use softrnic_verbs::buffer::Buffer;
use softrnic_verbs::provider::GidType;
use softrnic_verbs::simulated::Fabric;
use softrnic_verbs::{
    Access, Device, QpType, RecvWr, SendFlags, SendOp, SendWr, SrqAttributes, VerbError, WcOpcode,
    WcStatus,
};

use super::{LEN, SECOND, pair, star};

#[test]
fn every_operation_of_a_connection() {
    let (fabric, hosts) = star(2);
    let [a, b] = pair(&fabric, hosts[0], hosts[1], QpType::Rc);
    a.region.buffer().write(0, &[1; 5000]).unwrap();
    b.qp.post_recv(&[RecvWr { wr_id: 9, sges: &[b.region.sge(8192, 5000)] }]).unwrap();
    a.qp.write(1, a.region.sge(0, 5000), b.region.remote(100)).unwrap();
    a.qp.read(2, a.region.sge(10_000, 5000), b.region.remote(100)).unwrap();
    let op =
        SendOp::FetchAdd { remote_addr: b.region.remote(0).addr, rkey: b.region.rkey(), add: 5 };
    let sges = [a.region.sge(20_000, 8)];
    let flags = SendFlags::SIGNALED;
    a.qp.post_send(&[SendWr { wr_id: 3, op, flags, sges: &sges, ..SendWr::default() }]).unwrap();
    let op = SendOp::Send { imm: Some(77), invalidate: None };
    let sges = [a.region.sge(0, 5000)];
    a.qp.post_send(&[SendWr { wr_id: 4, op, flags, sges: &sges, ..SendWr::default() }]).unwrap();
    let kinds = [WcOpcode::RdmaWrite, WcOpcode::RdmaRead, WcOpcode::FetchAdd, WcOpcode::Send];
    for (wr_id, opcode) in (1..).zip(kinds) {
        let wc = a.ok();
        assert_eq!((wc.wr_id, wc.opcode), (wr_id, opcode));
    }
    let wc = b.ok();
    assert_eq!((wc.wr_id, wc.byte_len, wc.imm_data), (9, 5000, 77));
    let bytes = b.region.buffer().to_vec().unwrap();
    assert_eq!(
        (bytes[100..5100].to_vec(), bytes[8192..13_192].to_vec()),
        (vec![1; 5000], vec![1; 5000])
    );
    assert_eq!(b.region.buffer().load_u64(0), Ok(5));
}

#[test]
fn datagrams_multicast_and_shared_receives() {
    let (fabric, hosts) = star(3);
    let ends: Vec<_> =
        hosts.iter().map(|host| super::End::new(&fabric, *host, QpType::Ud)).collect();
    let group = softrnic_verbs::Gid::from_v4([239, 1, 2, 3]);
    let _members: Vec<_> = ends[1..].iter().map(|end| end.qp.join(group).unwrap()).collect();
    for end in &ends {
        end.qp.activate().unwrap();
        end.qp.post_recv(&[RecvWr { wr_id: 1, sges: &[end.region.sge(0, 1040)] }]).unwrap();
    }
    let ah = ends[0].pd.create_ah(&ends[0].qp.path_to(group)).unwrap();
    let op = SendOp::SendTo {
        ah: ah.id(),
        remote_qpn: softrnic_verbs::QpNum::MULTICAST,
        remote_qkey: 0x1111_1111,
        imm: None,
    };
    let sges = [ends[0].region.sge(0, 1000)];
    let flags = SendFlags::SIGNALED;
    ends[0]
        .qp
        .post_send(&[SendWr { wr_id: 1, op, flags, sges: &sges, ..SendWr::default() }])
        .unwrap();
    assert_eq!(ends[0].ok().opcode, WcOpcode::Send);
    for end in &ends[1..] {
        assert_eq!(end.ok().byte_len, 1040);
    }

    let (fabric, hosts) = star(2);
    let [a, b] = pair(&fabric, hosts[0], hosts[1], QpType::Rc);
    let shared = SrqAttributes { max_wr: 4, max_sge: 1, srq_limit: 0 };
    let srq = b.pd.create_srq(&shared).unwrap();
    let qp = b.pd.create_qp(QpType::Rc, &b.cq).srq(&srq).build().unwrap();
    let peer = a.pd.create_qp(QpType::Rc, &a.cq).build().unwrap();
    qp.connect(&peer.endpoint().unwrap()).unwrap();
    peer.connect(&qp.endpoint().unwrap()).unwrap();
    srq.post_recv(&[RecvWr { wr_id: 5, sges: &[b.region.sge(0, 64)] }]).unwrap();
    let sges = [a.region.sge(0, 64)];
    peer.post_send(&[SendWr { flags, sges: &sges, ..SendWr::default() }]).unwrap();
    assert_eq!((a.ok().opcode, b.ok().wr_id), (WcOpcode::Send, 5));
}

#[test]
fn a_wrong_key_is_refused_as_everywhere() {
    let (fabric, hosts) = star(2);
    let [a, b] = pair(&fabric, hosts[0], hosts[1], QpType::Rc);
    let mut beyond = b.region.remote(0);
    beyond.addr += LEN as u64 - 7;
    a.qp.write(1, a.region.sge(0, 8), beyond).unwrap();
    assert_eq!(a.cq.wait_one(SECOND).unwrap().unwrap().status, WcStatus::RemoteAccessError);
}

#[test]
fn devices_are_listed_and_opened_by_name() {
    let (fabric, _) = star(2);
    let provider = fabric.provider();
    let devices = Device::list(&provider).unwrap();
    assert_eq!(devices.iter().map(Device::name).collect::<Vec<_>>(), ["host0", "host1"]);
    let context = devices[1].open().unwrap();
    let (index, gid) = context.first_gid().unwrap();
    assert_eq!((index, gid.as_v4()), (0, Some([10, 0, 0, 2])));
    assert_eq!(context.gid(1).unwrap().gid_type, GidType::RoceV2);
    let refused = provider.open("host2").unwrap_err();
    assert!(refused.to_string().contains("there are host0, host1"), "{refused}");
}

#[test]
fn a_host_may_have_several_devices() {
    let (fabric, hosts) = star(2);
    let first = pair(&fabric, hosts[0], hosts[1], QpType::Rc);
    let second = pair(&fabric, hosts[0], hosts[1], QpType::Rc);
    for (byte, [a, b]) in [(1, &first), (2, &second)] {
        a.region.buffer().write(0, &[byte; 64]).unwrap();
        a.qp.write(1, a.region.sge(0, 64), b.region.remote(0)).unwrap();
    }
    for (byte, [a, b]) in [(1, &first), (2, &second)] {
        a.ok();
        assert_eq!(b.region.buffer().to_vec().unwrap()[..64], [byte; 64]);
    }
}

#[test]
fn events_come_through_channels_but_not_through_descriptors() {
    let (fabric, hosts) = star(2);
    let [a, b] = pair(&fabric, hosts[0], hosts[1], QpType::Rc);
    let channel = b.context.create_comp_channel().unwrap();
    #[cfg(unix)]
    assert!(matches!(channel.descriptor().unwrap_err().source, VerbError::NotSupported(_)));
    let cq = channel.create_cq(4).unwrap();
    let qp = b.pd.create_qp(QpType::Rc, &b.cq).recv_cq(&cq).build().unwrap();
    let peer = a.pd.create_qp(QpType::Rc, &a.cq).build().unwrap();
    qp.connect(&peer.endpoint().unwrap()).unwrap();
    peer.connect(&qp.endpoint().unwrap()).unwrap();
    qp.post_recv(&[RecvWr { wr_id: 5, sges: &[b.region.sge(0, 64)] }]).unwrap();
    cq.arm(false).unwrap();
    assert_eq!(channel.wait(SECOND).unwrap(), None);
    peer.post_send(&[SendWr { sges: &[a.region.sge(0, 64)], ..SendWr::default() }]).unwrap();
    assert_eq!(channel.wait(SECOND).unwrap(), Some(cq.id()));
    assert_eq!(cq.poll_one().unwrap().unwrap().wr_id, 5);
}

#[test]
fn memory_that_is_deregistered_is_not_touched_any_more() {
    let (fabric, hosts) = star(2);
    let [a, b] = pair(&fabric, hosts[0], hosts[1], QpType::Rc);
    let access = Access::LOCAL_WRITE | Access::REMOTE;
    let region = b.pd.register(Buffer::new(64).unwrap(), access).unwrap();
    let (remote, buffer) = (region.remote(0), region.buffer().clone());
    a.region.buffer().write(0, &[9; 64]).unwrap();
    a.qp.write(1, a.region.sge(0, 64), remote).unwrap(); // is under way now
    drop(region);
    assert_eq!(a.cq.wait_one(SECOND).unwrap().unwrap().status, WcStatus::RemoteAccessError);
    assert_eq!(buffer.to_vec().unwrap(), [0; 64]);
}

#[test]
fn a_fabric_may_be_shared_by_threads() {
    let (fabric, hosts) = star(2);
    let [a, b] = pair(&fabric, hosts[0], hosts[1], QpType::Rc);
    let threads = [1_u8, 2].map(|n| {
        let (qp, cq) = (a.pd.create_qp(QpType::Rc, &a.cq).build().unwrap(), a.context.create_cq(8));
        drop((qp, cq));
        let fabric: Fabric = fabric.clone();
        std::thread::spawn(move || {
            fabric.run_for(std::time::Duration::from_millis(n.into()));
            fabric.now()
        })
    });
    a.qp.write(1, a.region.sge(0, 64), b.region.remote(0)).unwrap();
    a.ok();
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(fabric.now() >= std::time::Duration::from_millis(3));
}
