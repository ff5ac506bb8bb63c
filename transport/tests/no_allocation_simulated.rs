//! Once warm, two devices on the simulated fabric exchange messages without asking for memory, in
//! fair and in foul weather.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use softrnic_model::protection::RegionSpec;
use softrnic_model::verbs::{
    Access, CqId, Gid, Key, QpAttributeMask as M, QpAttributes, QpCapabilities, QpInit, QpNum,
    QpState, QpType, RecvWr, SendFlags, SendOp, SendWr, Sge, Wc, WcStatus,
};
use softrnic_model::{Device, DeviceConfig};
use softrnic_transport::sim::{Fabric, FabricConfig, HostId};
use softrnic_transport::tap::FaultRules;

const LEN: u32 = 64 << 10;
const SHORT: u32 = 64;
const PACKETS: u64 = 100_000;

/// A host with a queue pair.
#[derive(Clone, Copy)]
struct End {
    host: HostId,
    cq: CqId,
    qp: QpNum,
    key: Key,
}

fn end(fabric: &mut Fabric, last: u8) -> End {
    let gids = vec![Gid::from_v4([10, 0, 0, last])];
    let host = fabric.add_host(Device::new(DeviceConfig { gids, ..DeviceConfig::default() }));
    let of = fabric.host_mut(host);
    let memory = of.memory.add(vec![last; LEN as usize]);
    let pd = of.device.alloc_pd().unwrap();
    let cq = of.device.create_cq(64).unwrap();
    let access = Access::LOCAL_WRITE | Access::REMOTE;
    let spec = RegionSpec { pd, memory, memory_offset: 0, addr: 0, length: LEN.into(), access };
    let key = of.device.register(spec).unwrap();
    let cap = QpCapabilities {
        max_send_wr: 16,
        max_recv_wr: 16,
        max_send_sge: 1,
        max_recv_sge: 1,
        max_inline_data: 0,
    };
    let init = QpInit {
        pd,
        qp_type: QpType::Rc,
        send_cq: cq,
        recv_cq: cq,
        srq: None,
        xrcd: None,
        cap,
        signal_all: false,
        create_flags: softrnic_model::verbs::QpCreateFlags::empty(),
    };
    let qp = of.device.create_qp(&init).unwrap();
    End { host, cq, qp, key }
}

fn connect(fabric: &mut Fabric, me: End, peer: End) {
    let dgid = fabric.host(peer.host).device.gids()[0];
    let mut attributes = QpAttributes {
        access: Access::REMOTE,
        dest_qp: peer.qp,
        max_dest_rd_atomic: 4,
        max_rd_atomic: 4,
        min_rnr_timer: 1,
        timeout: 10,
        retry_count: 7,
        rnr_retry: 7,
        ..QpAttributes::default()
    };
    attributes.path.dgid = dgid;
    let init = M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS;
    let rtr =
        M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN | M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER;
    let rts = M::SQ_PSN | M::MAX_QP_RD_ATOMIC | M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY;
    for (state, mask) in [(QpState::Init, init), (QpState::Rtr, rtr), (QpState::Rts, rts)] {
        attributes.state = state;
        let device = &mut fabric.host_mut(me.host).device;
        device.modify_qp(me.qp, &attributes, M::STATE | mask).unwrap();
    }
}

/// Carries out one request; a receive is posted for it whether it needs one or not.
fn carry_out(fabric: &mut Fabric, near: End, far: End, op: SendOp, length: u32) {
    let sges = [Sge { addr: 0, length, lkey: near.key }];
    let flags = SendFlags::SIGNALED;
    let wr = SendWr { wr_id: 1, op, flags, sges: &sges, ..SendWr::default() };
    fabric.host_mut(near.host).device.post_send(near.qp, &wr).unwrap();
    let mut done = [Wc::default()];
    loop {
        fabric.run_for(10_000);
        if fabric.host_mut(near.host).device.poll_cq(near.cq, &mut done).unwrap() == 1 {
            break;
        }
    }
    assert_eq!(done[0].status, WcStatus::Success);
    let device = &mut fabric.host_mut(far.host).device;
    if device.poll_cq(far.cq, &mut done).unwrap() == 1 {
        post_receive(fabric, far);
    }
}

fn post_receive(fabric: &mut Fabric, far: End) {
    let sges = [Sge { addr: 0, length: SHORT, lkey: far.key }];
    let device = &mut fabric.host_mut(far.host).device;
    device.post_recv(far.qp, &RecvWr { wr_id: 2, sges: &sges }).unwrap();
}

fn packets(fabric: &Fabric, ends: [End; 2]) -> u64 {
    let sent = |end: &End| {
        let counters = fabric.host(end.host).device.counters();
        counters.iter().find(|(name, ..)| *name == "sent_pkts").map_or(0, |(.., value)| value)
    };
    ends.iter().map(sent).sum()
}

/// Weather in which more frames are under way at a time than in any other here: buffers are made
/// when there have never been so many before.
const WORST: &str = "duplicate=20%,delay=40%:400us,seed=1";

fn set_weather(fabric: &mut Fabric, rules: &str) {
    fabric.set_weather(Some(Box::new(FaultRules::parse(rules).unwrap())));
}

fn assert_no_allocation(weather: &str, icrc: bool) {
    let mut fabric = Fabric::new(FabricConfig { latency_ns: 1_000, icrc });
    set_weather(&mut fabric, WORST);
    let (near, far) = (end(&mut fabric, 1), end(&mut fabric, 2));
    connect(&mut fabric, near, far);
    connect(&mut fabric, far, near);
    (0..8).for_each(|_| post_receive(&mut fabric, far));
    let (remote_addr, rkey) = (0, far.key);
    let operations = [
        (SendOp::Write { remote_addr, rkey, imm: None }, LEN),
        (SendOp::Read { remote_addr, rkey }, LEN),
        (SendOp::FetchAdd { remote_addr, rkey, add: 1 }, 8),
        (SendOp::Send { imm: None, invalidate: None }, SHORT),
        (SendOp::Write { remote_addr, rkey, imm: Some(7) }, SHORT),
    ];
    let run = |fabric: &mut Fabric, more: u64| {
        let until = packets(fabric, [near, far]) + more;
        while packets(fabric, [near, far]) < until {
            for (op, length) in operations {
                carry_out(fabric, near, far, op, length);
            }
        }
    };
    run(&mut fabric, PACKETS / 10);
    set_weather(&mut fabric, weather);
    let used = allocation_counter::measure(|| run(&mut fabric, PACKETS));
    assert_eq!(used.count_total, 0, "{weather:?}: {used:?}");
}

#[test]
fn in_fair_weather() {
    assert_no_allocation("seed=1", true);
    assert_no_allocation("seed=1", false);
}

#[test]
fn in_foul_weather() {
    let rules = "drop=1%,duplicate=2%,delay=2%:5us,reorder=2%,corrupt=1%,ecn=2%,seed=12";
    assert_no_allocation(rules, true);
}
