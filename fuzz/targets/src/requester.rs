//! Forged responses for a requester that waits for them. Only what was asked for is written; each
//! request completes once and in order; what the requester sends can be read.

use softrnic_model::counters::Counter;
use softrnic_model::protection::RegionSpec;
use softrnic_model::verbs::{
    Access, AddressVector, CqId, Gid, Key, Mtu, Psn, QpAttributeMask as M, QpAttributes,
    QpCapabilities, QpCreateFlags, QpInit, QpNum, QpState, QpType, SendFlags, SendOp, SendWr, Sge,
    Wc, WcStatus,
};
use softrnic_model::wire::{
    Aeth, AtomicAckEth, Bth, Extensions, HeaderBuf, Opcode, Packet, Route, Syndrome,
};
use softrnic_model::{Device, DeviceConfig, FrameOut, Instant, MemoryId};
use softrnic_transport::sim::SimMemory;

use crate::{Bytes, Reached};

const BASE: u64 = 0x10_0000;
/// Where answers may write, and what must stay around it.
const TARGET: std::ops::Range<usize> = 4096..8192;
const LEN: usize = 12_288;
const GUARD: u8 = 0xa5;
const OURS: Gid = Gid::from_v4([10, 0, 0, 1]);
const THEIRS: Gid = Gid::from_v4([10, 0, 0, 2]);

/// The opcodes of answers.
const ANSWERS: [u8; 6] = [0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x12];

struct World {
    device: Device,
    memory: SimMemory,
    id: MemoryId,
    qp: QpNum,
    cq: CqId,
    key: Key,
    now: Instant,
    posted: u64,
    /// The number of the next request that completes.
    next: u64,
    failed: bool,
    completed: u64,
}

impl World {
    fn new(mtu: Mtu, psn: u32) -> Self {
        let memory = SimMemory::default();
        let id = memory.add(vec![GUARD; LEN]);
        let mut device = Device::new(DeviceConfig { gids: vec![OURS], ..DeviceConfig::default() });
        let (pd, cq) = (device.alloc_pd().unwrap(), device.create_cq(4096).unwrap());
        let spec = RegionSpec {
            pd,
            memory: id,
            memory_offset: 0,
            addr: BASE,
            length: LEN as u64,
            access: Access::LOCAL_WRITE,
        };
        let key = device.register(spec).unwrap();
        let cap = QpCapabilities {
            max_send_wr: 16,
            max_recv_wr: 1,
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
            create_flags: QpCreateFlags::empty(),
        };
        let qp = device.create_qp(&init).unwrap();
        let attributes = QpAttributes {
            path: AddressVector { dgid: THEIRS, ..AddressVector::default() },
            path_mtu: mtu,
            sq_psn: Psn::new(psn),
            max_rd_atomic: 4,
            timeout: 5,
            retry_count: 3,
            rnr_retry: 3,
            ..QpAttributes::default()
        };
        let to = |state| QpAttributes { state, ..attributes };
        let rtr = M::AV
            | M::PATH_MTU
            | M::DEST_QPN
            | M::RQ_PSN
            | M::MAX_DEST_RD_ATOMIC
            | M::MIN_RNR_TIMER;
        let rts = M::SQ_PSN | M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::MAX_QP_RD_ATOMIC;
        let first = M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS;
        for (state, mask) in [(QpState::Init, first), (QpState::Rtr, rtr), (QpState::Rts, rts)] {
            device.modify_qp(qp, &to(state), M::STATE | mask).unwrap();
        }
        Self {
            device,
            memory,
            id,
            qp,
            cq,
            key,
            now: Instant::ZERO,
            posted: 0,
            next: 0,
            failed: false,
            completed: 0,
        }
    }

    fn post(&mut self, kind: u8, len: u16) {
        let (remote_addr, rkey) = (0x9000, Key(0x1234));
        let op = match kind % 4 {
            0 => SendOp::Read { remote_addr, rkey },
            1 => SendOp::Send { imm: None, invalidate: None },
            2 => SendOp::FetchAdd { remote_addr, rkey, add: 1 },
            _ => SendOp::Write { remote_addr, rkey, imm: None },
        };
        let len = match op {
            SendOp::FetchAdd { .. } => 8,
            _ => u32::from(len) % 4097,
        };
        let sges = [Sge { addr: BASE + TARGET.start as u64, length: len, lkey: self.key }];
        let flags = SendFlags::SIGNALED;
        let wr = SendWr { wr_id: self.posted, op, flags, sges: &sges, ..SendWr::default() };
        self.posted += u64::from(self.device.post_send(self.qp, &wr).is_ok());
    }

    fn answer(&mut self, bytes: &mut Bytes<'_>) {
        let kind = bytes.u8();
        let opcode = Opcode(ANSWERS[usize::from(kind) % ANSWERS.len()]);
        let at = self.device.query_qp(self.qp).map(|(at, _)| at).unwrap_or_default();
        // Near what is next to be sent; in the window more often than not.
        let psn = at.sq_psn.minus(u32::from(bytes.u8() % 16)).plus(u32::from(kind >> 7));
        let syndrome = match bytes.u8() {
            0..=127 => Syndrome::ACK,
            other => Syndrome::from(other),
        };
        let (msn, len) = (u32::from(bytes.u8()), usize::from(bytes.u16() % 4200));
        let Some(facts) = opcode.facts() else { return };
        // A piece that is not the last is as long as the path MTU, unless the input insists.
        let whole = at.path_mtu.bytes() as usize;
        let len = if facts.place.ends() || kind & 0x40 != 0 { len } else { whole };
        let len = if facts.payload { len } else { 0 };
        let pad = len.wrapping_neg() & 3;
        let mut header = HeaderBuf::new();
        header.push(&Bth::new(opcode, self.qp, psn).with_pad(pad));
        if facts.extensions.contains(Extensions::AETH) {
            header.push(&Aeth::new(syndrome, msn));
        }
        if facts.extensions.contains(Extensions::ATOMIC_ACK_ETH) {
            header.push(&AtomicAckEth::new(0x0101_0101));
        }
        let mut packet = header.as_slice().to_vec();
        packet.resize(packet.len() + len + pad, 0x33);
        self.hand(&packet);
    }

    fn hand(&mut self, packet: &[u8]) {
        let route =
            Route { src: THEIRS, dst: OURS, src_port: 0xc000, hop_limit: 63, ..Route::default() };
        self.device.on_frame(self.now, &self.memory, &route, packet);
    }

    fn drain(&mut self) {
        let mut frame = FrameOut::default();
        let mut frames = 0;
        while self.device.next_frame(&mut frame) {
            frames += 1;
            assert!(frames < 100_000, "endless sending");
            let mut bytes = vec![0; frame.len()];
            if self.device.fill(self.now, &self.memory, &frame, &mut bytes) {
                assert!(Packet::parse(&bytes).is_ok(), "the device made what it cannot read");
            }
        }
        while self.device.next_event().is_some() {}
        let mut some = [Wc::default(); 8];
        while let Ok(count @ 1..) = self.device.poll_cq(self.cq, &mut some) {
            for wc in &some[..count] {
                assert_eq!(wc.wr_id, self.next, "each request completes once and in order");
                assert!(self.next < self.posted, "what completes was posted");
                self.next += 1;
                let well = wc.status == WcStatus::Success;
                assert!(!(self.failed && well), "nothing succeeds behind a failure");
                self.failed |= !well;
                self.completed += u64::from(well);
            }
        }
        let bytes = self.memory.bytes(self.id);
        let untouched = |bytes: &[u8]| bytes.iter().all(|byte| *byte == GUARD);
        assert!(untouched(&bytes[..TARGET.start]), "written before the target");
        assert!(untouched(&bytes[TARGET.end..]), "written behind the target");
    }
}

/// Does what these bytes say.
pub fn run(bytes: &[u8]) -> Reached {
    let bytes = &mut Bytes(bytes);
    let mtu = Mtu::ALL[usize::from(bytes.u8() % 5)];
    let psn = u32::from(bytes.u16()) << 8 | u32::from(bytes.u8());
    let mut world = World::new(mtu, psn);
    for _ in 0..96 {
        if bytes.is_empty() {
            break;
        }
        match bytes.u8() % 8 {
            0 | 1 => {
                let (kind, len) = (bytes.u8(), bytes.u16());
                world.post(kind, len);
            }
            2 => {
                world.now = world.now.plus_ns(u64::from(bytes.u16()) * 1000);
                world.device.on_time(world.now);
            }
            3 => {
                let len = usize::from(bytes.u8());
                let any = bytes.take(len).to_vec();
                world.hand(&any);
            }
            _ => world.answer(bytes),
        }
        world.drain();
    }
    let stale = world.device.counters().get(Counter::DropStaleResponse);
    Reached { executed: world.completed, not_ready: stale, ..Reached::default() }
}
