//! The pump between devices and links that are queues in memory.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::VecDeque;
use std::io;
use std::net::UdpSocket;
use std::sync::{Arc, Mutex};

use softrnic_model::protection::RegionSpec;
use softrnic_model::verbs::{
    Access, CqId, Gid, Key, QpAttributeMask as M, QpAttributes, QpCapabilities, QpInit, QpNum,
    QpState, QpType, SendFlags, SendOp, SendWr, Sge, Wc, WcStatus,
};
use softrnic_model::wire::Route;
use softrnic_model::{Device, DeviceConfig, Instant};
use softrnic_transport::sim::SimMemory;
use softrnic_transport::{Link, LinkCounters, Outgoing, pump};

type Frames = Arc<Mutex<VecDeque<(Route, Vec<u8>)>>>;

/// One end of a wire that hands over one frame at a time.
struct Wire {
    arriving: Frames,
    leaving: Frames,
}

impl Link for Wire {
    fn receive(
        &mut self,
        _now: Instant,
        deliver: &mut dyn FnMut(&Route, &[u8]),
    ) -> io::Result<usize> {
        let Some((route, packet)) = self.arriving.lock().unwrap().pop_front() else { return Ok(0) };
        deliver(&route, &packet);
        Ok(1)
    }
    fn ready(&self) -> bool {
        true
    }
    fn transmit(
        &mut self,
        _now: Instant,
        frame: Outgoing,
        fill: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> io::Result<()> {
        let mut packet = vec![0; frame.len];
        if fill(&mut packet) {
            self.leaving.lock().unwrap().push_back((frame.route, packet));
        }
        Ok(())
    }
    fn flush(&mut self, _now: Instant) -> io::Result<()> {
        Ok(())
    }
    fn join(&mut self, _group: Gid) -> io::Result<()> {
        Ok(())
    }
    fn leave(&mut self, _group: Gid) {}
    fn sockets(&self, _each: &mut dyn FnMut(&UdpSocket)) {}
    fn counters(&self) -> LinkCounters {
        LinkCounters::default()
    }
}

const LEN: u32 = 64;

/// A device with one completion queue and some queue pairs.
struct End {
    device: Device,
    memory: SimMemory,
    link: Wire,
    cq: CqId,
    key: Key,
    qps: Vec<QpNum>,
}

impl End {
    fn new(last: u8, link: Wire, qps: usize) -> Self {
        let gids = vec![Gid::from_v4([10, 0, 0, last])];
        let mut device = Device::new(DeviceConfig { gids, ..DeviceConfig::default() });
        let memory = SimMemory::default();
        let pd = device.alloc_pd().unwrap();
        let cq = device.create_cq(64).unwrap();
        let spec = RegionSpec {
            pd,
            memory: memory.add(vec![last; LEN as usize]),
            memory_offset: 0,
            addr: 0,
            length: LEN.into(),
            access: Access::LOCAL_WRITE | Access::REMOTE,
        };
        let key = device.register(spec).unwrap();
        let cap = QpCapabilities { max_send_wr: 4, max_send_sge: 1, ..QpCapabilities::default() };
        let init = QpInit {
            pd,
            qp_type: QpType::Rc,
            send_cq: cq,
            recv_cq: cq,
            srq: None,
            xrcd: None,
            cap,
            signal_all: true,
            create_flags: softrnic_model::verbs::QpCreateFlags::empty(),
        };
        let qps = (0..qps).map(|_| device.create_qp(&init).unwrap()).collect();
        Self { device, memory, link, cq, key, qps }
    }

    fn connect(&mut self, peer: &Self) {
        let init = M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS;
        let rtr = M::AV
            | M::PATH_MTU
            | M::DEST_QPN
            | M::RQ_PSN
            | M::MAX_DEST_RD_ATOMIC
            | M::MIN_RNR_TIMER;
        let rts = M::SQ_PSN | M::MAX_QP_RD_ATOMIC | M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY;
        for (own, dest_qp) in self.qps.iter().zip(&peer.qps) {
            let mut attributes = QpAttributes {
                access: Access::REMOTE,
                dest_qp: *dest_qp,
                timeout: 10,
                retry_count: 7,
                ..QpAttributes::default()
            };
            attributes.path.dgid = peer.device.gids()[0];
            for (state, mask) in [(QpState::Init, init), (QpState::Rtr, rtr), (QpState::Rts, rts)] {
                attributes.state = state;
                self.device.modify_qp(*own, &attributes, M::STATE | mask).unwrap();
            }
        }
    }

    fn pump(&mut self, at_ns: u64) -> usize {
        let now = Instant::from_ns(at_ns);
        pump(&mut self.device, &mut self.link, &self.memory, now).unwrap()
    }

    fn counter(&self, name: &str) -> u64 {
        let counters = self.device.counters();
        counters.iter().find(|(own, ..)| *own == name).map_or(0, |(.., value)| value)
    }
}

fn ends(qps: usize) -> (End, End) {
    let (there, back): (Frames, Frames) = Default::default();
    let near = Wire { arriving: Arc::clone(&back), leaving: Arc::clone(&there) };
    let (mut near, mut far) =
        (End::new(1, near, qps), End::new(2, Wire { arriving: there, leaving: back }, qps));
    near.connect(&far);
    far.connect(&near);
    (near, far)
}

#[test]
fn an_answer_that_waits_is_no_silence() {
    const QPS: usize = 20;
    let (mut near, mut far) = ends(QPS);
    let op = SendOp::Write { remote_addr: 0, rkey: far.key, imm: None };
    let sges = [Sge { addr: 0, length: LEN, lkey: near.key }];
    for qp in near.qps.clone() {
        let wr =
            SendWr { wr_id: 1, op, flags: SendFlags::empty(), sges: &sges, ..SendWr::default() };
        near.device.post_send(qp, &wr).unwrap();
    }
    near.pump(0);
    while far.pump(1_000) != 0 {}
    // The near end runs again when its time-outs of 4 ms are over; all answers are there.
    near.pump(50_000_000);
    assert_eq!(near.counter("local_ack_timeout_err"), 0);
    let mut done = [Wc::default(); QPS];
    assert_eq!(near.device.poll_cq(near.cq, &mut done).unwrap(), QPS);
    assert!(done.iter().all(|wc| wc.status == WcStatus::Success));
}

#[test]
fn silence_is_noticed_all_the_same() {
    let (mut near, far) = ends(1);
    let op = SendOp::Write { remote_addr: 0, rkey: far.key, imm: None };
    let sges = [Sge { addr: 0, length: LEN, lkey: near.key }];
    let wr = SendWr { wr_id: 1, op, flags: SendFlags::empty(), sges: &sges, ..SendWr::default() };
    near.device.post_send(near.qps[0], &wr).unwrap();
    near.pump(0);
    near.pump(50_000_000);
    assert_eq!(near.counter("local_ack_timeout_err"), 1);
}
