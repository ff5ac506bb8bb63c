//! A requester heeds the receive credits that a peer grants.
#![expect(clippy::unwrap_used, reason = "all of it is a test")]

use softrnic_model::verbs::{
    AddressVector, Gid, Psn, QpAttributeMask as Mask, QpAttributes, QpCapabilities, QpInit, QpNum,
    QpState, QpType, SendFlags, SendOp, SendWr,
};
use softrnic_model::wire::{
    Aeth, Bth, HeaderBuf, Opcode, Operation, Place, Route, Service, Syndrome,
};
use softrnic_model::{Device, DeviceConfig, FrameOut, Instant, Memory, MemoryFault, MemoryId};

struct NoMemory;

impl Memory for NoMemory {
    fn read(&self, _: MemoryId, _: u64, _: &mut [u8]) -> Result<(), MemoryFault> {
        Err(MemoryFault)
    }
    fn write(&self, _: MemoryId, _: u64, _: &[u8]) -> Result<(), MemoryFault> {
        Err(MemoryFault)
    }
    fn compare_swap(&self, _: MemoryId, _: u64, _: u64, _: u64) -> Result<u64, MemoryFault> {
        Err(MemoryFault)
    }
    fn fetch_add(&self, _: MemoryId, _: u64, _: u64) -> Result<u64, MemoryFault> {
        Err(MemoryFault)
    }
}

const OURS: Gid = Gid::from_v4([10, 0, 0, 1]);
const THEIRS: Gid = Gid::from_v4([10, 0, 0, 2]);

struct Bench {
    device: Device,
    qp: QpNum,
}

impl Bench {
    fn new() -> Self {
        let mut device = Device::new(DeviceConfig { gids: vec![OURS], ..DeviceConfig::default() });
        let pd = device.alloc_pd().unwrap();
        let cq = device.create_cq(64).unwrap();
        let cap = QpCapabilities { max_send_wr: 16, ..QpCapabilities::default() };
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
        let attributes = QpAttributes {
            path: AddressVector { dgid: THEIRS, ..AddressVector::default() },
            dest_qp: QpNum::new(0x77),
            timeout: 14,
            retry_count: 7,
            rnr_retry: 7,
            ..QpAttributes::default()
        };
        let init = Mask::PKEY_INDEX | Mask::PORT | Mask::ACCESS_FLAGS;
        let rtr = Mask::AV
            | Mask::PATH_MTU
            | Mask::DEST_QPN
            | Mask::RQ_PSN
            | Mask::MAX_DEST_RD_ATOMIC
            | Mask::MIN_RNR_TIMER;
        let rts = Mask::SQ_PSN
            | Mask::MAX_QP_RD_ATOMIC
            | Mask::TIMEOUT
            | Mask::RETRY_CNT
            | Mask::RNR_RETRY;
        for (state, mask) in [(QpState::Init, init), (QpState::Rtr, rtr), (QpState::Rts, rts)] {
            let step = QpAttributes { state, ..attributes };
            device.modify_qp(qp, &step, mask | Mask::STATE).unwrap();
        }
        Self { device, qp }
    }

    fn post(&mut self, op: SendOp) {
        let wr = SendWr { wr_id: 0, op, flags: SendFlags::empty(), sges: &[], ..SendWr::default() };
        self.device.post_send(self.qp, &wr).unwrap();
    }

    /// How many packets leave.
    fn leave(&mut self) -> usize {
        let mut left = 0;
        let mut frame = FrameOut::default();
        while self.device.next_frame(&mut frame) {
            let mut bytes = vec![0; frame.len()];
            assert!(self.device.fill(Instant::ZERO, &NoMemory, &frame, &mut bytes));
            left += 1;
        }
        left
    }

    fn acknowledge(&mut self, psn: u32, msn: u32, credits: u8) {
        let opcode =
            Opcode::compose(Service::Rc, Operation::Acknowledge, Place::Only, false, false);
        let mut packet = HeaderBuf::new();
        packet.push(&Bth::new(opcode.unwrap(), self.qp, Psn::new(psn)));
        packet.push(&Aeth::new(Syndrome::Ack { credits }, msn));
        let route = Route { src: THEIRS, dst: OURS, hop_limit: 64, ..Route::default() };
        self.device.on_frame(Instant::ZERO, &NoMemory, &route, packet.as_slice());
    }
}

const SEND: SendOp = SendOp::Send { imm: None, invalidate: None };

#[test]
fn a_message_waits_for_a_receive_of_the_peer() {
    let mut bench = Bench::new();
    bench.post(SEND);
    assert_eq!(bench.leave(), 1);
    bench.acknowledge(0, 1, 1); // one more receive is posted there
    (0..3).for_each(|_| bench.post(SEND));
    assert_eq!(bench.leave(), 1, "there is a receive for one");
    bench.acknowledge(1, 2, 0);
    assert_eq!(bench.leave(), 1, "one may probe");
    assert_eq!(bench.leave(), 0);
    bench.acknowledge(2, 3, 2);
    assert_eq!(bench.leave(), 1);
    bench.acknowledge(3, 4, Syndrome::NO_CREDITS);
    (0..5).for_each(|_| bench.post(SEND));
    assert_eq!(bench.leave(), 5, "a peer that does not count has no limit");
}

#[test]
fn what_takes_no_receive_needs_no_credit() {
    let mut bench = Bench::new();
    bench.post(SEND);
    assert_eq!(bench.leave(), 1);
    bench.acknowledge(0, 1, 0);
    let rkey = softrnic_model::verbs::Key(1);
    let write = |imm| SendOp::Write { remote_addr: 0, rkey, imm };
    (0..3).for_each(|_| bench.post(write(None)));
    bench.post(write(Some(1)));
    assert_eq!(bench.leave(), 3, "the one with an immediate takes a receive");
}
