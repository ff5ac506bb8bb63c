//! Two devices that talk over UDP on this host, in fair and in foul weather.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant as Clock};

use softrnic_model::protection::RegionSpec;
use softrnic_model::verbs::{
    Access, CqId, Gid, Key, Psn, QpAttributeMask, QpAttributes, QpCapabilities, QpInit, QpNum,
    QpState, QpType, RecvWr, SendFlags, SendOp, SendWr, Sge, Wc, WcFlags, WcOpcode, WcStatus,
};
use softrnic_model::{Device, DeviceConfig, Instant, MemoryId};
use softrnic_transport::sim::SimMemory;
use softrnic_transport::tap::{FaultRules, Faults, Trace};
use softrnic_transport::{Link, UdpConfig, UdpLink, pump};

const BASE: u64 = 0x10_0000;
const REGION_LEN: usize = 1 << 20;

/// A device, its memory, its link, and one queue pair.
struct End {
    device: Device,
    memory: SimMemory,
    link: Box<dyn Link>,
    region: MemoryId,
    key: Key,
    cq: CqId,
    qp: QpNum,
    gid: Gid,
}

impl End {
    fn new(address: IpAddr, port: u16, faults: &str) -> Self {
        let link = UdpLink::open(&UdpConfig::new(address).with_port(port)).unwrap();
        let link = Trace::new(link, std::io::sink());
        let link = Faults::new(link, FaultRules::parse(faults).unwrap());
        let gid = Gid::from(address);
        let mut device = Device::new(DeviceConfig { gids: vec![gid], ..DeviceConfig::default() });
        let memory = SimMemory::default();
        let fill = (0..REGION_LEN).map(|i| (i * 7 + i / 251).to_le_bytes()[0] ^ gid.0[15]);
        let region = memory.add(fill.collect());
        let pd = device.alloc_pd().unwrap();
        let cq = device.create_cq(256).unwrap();
        let access = Access::LOCAL_WRITE | Access::REMOTE;
        let spec = RegionSpec {
            pd,
            memory: region,
            memory_offset: 0,
            addr: BASE,
            length: REGION_LEN as u64,
            access,
        };
        let key = device.register(spec).unwrap();
        let cap = QpCapabilities {
            max_send_wr: 64,
            max_recv_wr: 64,
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
            signal_all: true,
            create_flags: softrnic_model::verbs::QpCreateFlags::empty(),
        };
        let qp = device.create_qp(&init).unwrap();
        Self { device, memory, link: Box::new(link), region, key, cq, qp, gid }
    }

    fn connect(&mut self, peer: QpNum, peer_gid: Gid) {
        use QpAttributeMask as M;
        let mut attributes = QpAttributes {
            state: QpState::Init,
            access: Access::REMOTE | Access::LOCAL_WRITE,
            dest_qp: peer,
            rq_psn: Psn::new(0xff_ff00),
            sq_psn: Psn::new(0xff_ff00),
            max_dest_rd_atomic: 16,
            max_rd_atomic: 16,
            min_rnr_timer: 1,
            timeout: 12,
            retry_count: 7,
            rnr_retry: 7,
            ..QpAttributes::default()
        };
        attributes.path.dgid = peer_gid;
        let to_init = M::STATE | M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS;
        self.device.modify_qp(self.qp, &attributes, to_init).unwrap();
        attributes.state = QpState::Rtr;
        let to_rtr = M::STATE
            | M::AV
            | M::PATH_MTU
            | M::DEST_QPN
            | M::RQ_PSN
            | M::MAX_DEST_RD_ATOMIC
            | M::MIN_RNR_TIMER;
        self.device.modify_qp(self.qp, &attributes, to_rtr).unwrap();
        attributes.state = QpState::Rts;
        let to_rts =
            M::STATE | M::SQ_PSN | M::MAX_QP_RD_ATOMIC | M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY;
        self.device.modify_qp(self.qp, &attributes, to_rts).unwrap();
    }

    fn sge(&self, offset: u64, length: u32) -> [Sge; 1] {
        [Sge { addr: BASE + offset, length, lkey: self.key }]
    }

    fn post(&mut self, op: SendOp, offset: u64, length: u32) {
        let sges = &self.sge(offset, length);
        let wr = SendWr { wr_id: 1, op, flags: SendFlags::SIGNALED, sges, ..SendWr::default() };
        self.device.post_send(self.qp, &wr).unwrap();
    }

    fn poll(&mut self) -> Option<Wc> {
        let mut wcs = [Wc {
            wr_id: 0,
            status: WcStatus::Success,
            opcode: WcOpcode::Send,
            flags: WcFlags::empty(),
            vendor_err: 0,
            byte_len: 0,
            imm_data: 0,
            invalidated_rkey: Key(0),
            qp_num: QpNum::new(0),
            src_qp: QpNum::new(0),
            pkey_index: 0,
            timestamp: 0,
            sl: 0,
        }];
        (self.device.poll_cq(self.cq, &mut wcs).unwrap() == 1).then_some(wcs[0])
    }

    fn bytes(&self, offset: usize, len: usize) -> Vec<u8> {
        self.memory.bytes(self.region)[offset..offset + len].to_vec()
    }
}

/// Drives both ends until `a` has this many completions; what they are.
fn run(a: &mut End, b: &mut End, count: usize) -> Vec<Wc> {
    let started = Clock::now();
    let mut wcs = Vec::new();
    while wcs.len() < count {
        assert!(started.elapsed() < Duration::from_secs(60), "{:?}", a.link.counters());
        let now = Instant::from_ns(u64::try_from(started.elapsed().as_nanos()).unwrap());
        for end in [&mut *a, &mut *b] {
            pump(&mut end.device, &mut *end.link, &end.memory, now).unwrap();
        }
        wcs.extend(a.poll());
    }
    wcs
}

fn exchange(faults: &str) {
    let reserved = UdpSocket::bind("127.255.0.3:0").unwrap();
    let port = reserved.local_addr().unwrap().port();
    let mut a = End::new([127, 79, 0, 1].into(), port, faults);
    let mut b = End::new([127, 79, 0, 2].into(), port, faults);
    let (a_qp, b_qp, a_gid, b_gid) = (a.qp, b.qp, a.gid, b.gid);
    a.connect(b_qp, b_gid);
    b.connect(a_qp, a_gid);
    let rkey = b.key;
    let sges = &b.sge(900_000, 8000);
    b.device.post_recv(b_qp, &RecvWr { wr_id: 7, sges }).unwrap();
    let before = u64::from_ne_bytes(b.bytes(800_000, 8).try_into().unwrap());
    a.post(SendOp::Write { remote_addr: BASE + 3, rkey, imm: None }, 1, 300_001);
    a.post(SendOp::Read { remote_addr: BASE + 400_000, rkey }, 400_000, 200_000);
    a.post(SendOp::FetchAdd { remote_addr: BASE + 800_000, rkey, add: 5 }, 800_000, 8);
    a.post(SendOp::Send { imm: Some(9), invalidate: None }, 700_000, 7001);
    let wcs = run(&mut a, &mut b, 4);
    assert!(wcs.iter().all(|wc| wc.status == WcStatus::Success), "{faults}: {wcs:?}");
    assert_eq!(b.bytes(3, 300_001), a.bytes(1, 300_001));
    assert_eq!(a.bytes(400_000, 200_000), b.bytes(400_000, 200_000));
    let after = u64::from_ne_bytes(b.bytes(800_000, 8).try_into().unwrap());
    assert_eq!(after, before.wrapping_add(5), "once");
    assert_eq!(a.bytes(800_000, 8), before.to_ne_bytes());
    let received = b.poll().unwrap();
    assert_eq!((received.byte_len, received.imm_data), (7001, 9));
    assert_eq!(b.bytes(900_000, 7001), a.bytes(700_000, 7001));
    let spoilt = a.link.counters().faults_dropped + b.link.counters().faults_dropped;
    assert_eq!(spoilt > 0, faults.contains("drop"), "{:?}", a.link.counters());
}

#[test]
fn everything_arrives_in_fair_weather() {
    exchange("");
}

#[test]
fn everything_arrives_in_foul_weather() {
    for seed in 0..3 {
        exchange(&format!(
            "drop=2%,reorder=2%,duplicate=1%,delay=1%:300us,corrupt=1%,ecn=5%,seed={seed}"
        ));
    }
}
