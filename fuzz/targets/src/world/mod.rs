//! One device with one queue pair, and memory that may and may not be touched.

mod near;
mod step;

use std::collections::VecDeque;

use arbitrary::Arbitrary;
use softrnic_model::counters::Counter;
use softrnic_model::protection::RegionSpec;
use softrnic_model::verbs::{
    Access, AddressVector, AhId, CqId, Gid, Key, Mtu, PdId, Psn, QpAttributeMask as M,
    QpAttributes, QpCapabilities, QpCreateFlags, QpInit, QpNum, QpState, QpType, SrqAttributes,
    SrqId, SrqInit, Wc, WcOpcode, WcStatus, WindowType, XrcSrq,
};
use softrnic_model::wire::{Operation, Packet, Route, Service, Syndrome};
use softrnic_model::{Device, DeviceConfig, FrameOut, Instant, MemoryId};
use softrnic_transport::sim::SimMemory;

use crate::reach::{Reach, hit};
use near::{Distance, KeyChoice, Target};
pub(crate) use step::Step;

/// Address of the region, and its bytes.
pub(crate) const BASE: u64 = 0x1_0000;
pub(crate) const LEN: usize = 8192;
/// The region lies in the middle of the memory; what is around it must stay.
const BEFORE: usize = 4096;
/// What is there; no byte that a peer or the program brings is the same.
const GUARD: u8 = 0xa5;
/// What the region is filled with at first.
pub(crate) const FILL: u8 = 0x11;
pub(crate) const QKEY: u32 = 0x11;
const OURS: Gid = Gid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1]);
const THEIRS: Gid = Gid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2]);

/// A byte that is not mistaken for a guard.
pub(crate) const fn harmless(byte: u8) -> u8 {
    if byte == GUARD { 0 } else { byte }
}

/// What a world is like.
#[derive(Arbitrary, Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) qp_type: u8,
    pub(crate) psn: u32,
    pub(crate) mtu: u8,
    pub(crate) srq: bool,
    pub(crate) signal_all: bool,
    /// The queue pair is its own peer.
    pub(crate) own_peer: bool,
    pub(crate) small_queues: bool,
    /// Receives that are posted from the beginning.
    pub(crate) receives: u8,
    pub(crate) window: u16,
}

pub(crate) struct World {
    pub(crate) device: Device,
    pub(crate) memory: SimMemory,
    id: MemoryId,
    /// Memory of another protection domain.
    foreign_id: MemoryId,
    pd: PdId,
    cq: CqId,
    pub(crate) srq: Option<SrqId>,
    ah: AhId,
    pub(crate) qp: QpNum,
    pub(crate) qp_type: QpType,
    pub(crate) key: Key,
    foreign: Key,
    windows: [Key; 2],
    pub(crate) attributes: QpAttributes,
    /// Rights of the region.
    pub(crate) rights: Access,
    peer: Gid,
    pub(crate) now: Instant,
    flying: VecDeque<(Route, Vec<u8>)>,
    /// The region's bytes as they were when it went.
    frozen: Option<Vec<u8>>,
}

/// All that peers may do.
pub(crate) const RIGHTS: Access =
    Access::LOCAL_WRITE.union(Access::REMOTE).union(Access::MW_BIND).union(Access::FLUSH_GLOBAL);

impl World {
    pub(crate) fn new(setup: &Setup) -> Self {
        Self::with_rights(setup, RIGHTS)
    }

    pub(crate) fn with_rights(setup: &Setup, rights: Access) -> Self {
        let memory = SimMemory::default();
        let mut bytes = vec![GUARD; BEFORE + LEN + 4096];
        bytes[BEFORE..BEFORE + LEN].fill(FILL);
        let id = memory.add(bytes);
        let foreign_id = memory.add(vec![GUARD; LEN]);
        let mut device = Device::new(DeviceConfig {
            gids: vec![OURS],
            window_bytes: u32::from(setup.window) << 4,
            ..DeviceConfig::default()
        });
        let pd = device.alloc_pd().unwrap();
        let other = device.alloc_pd().unwrap();
        let cq = device.create_cq(if setup.small_queues { 8 } else { 512 }).unwrap();
        let foreign = region(other, foreign_id, 0, RIGHTS);
        let foreign = device.register(foreign).unwrap();
        let windows =
            [WindowType::Type1, WindowType::Type2B].map(|t| device.alloc_mw(pd, t).unwrap());
        let qp_type = QpType::ALL[usize::from(setup.qp_type) % QpType::ALL.len()];
        let srq = SrqAttributes { max_wr: 4, max_sge: 2, srq_limit: 0 };
        let xrcd = (qp_type == QpType::XrcRecv).then(|| device.open_xrcd().unwrap());
        let xrc = xrcd.map(|xrcd| XrcSrq { xrcd, cq });
        let init = SrqInit { pd, attributes: srq, xrc };
        let srq = (setup.srq || xrc.is_some()).then(|| device.create_srq_ex(&init).unwrap());
        let peer = if setup.own_peer { OURS } else { THEIRS };
        let path = AddressVector { dgid: peer, ..AddressVector::default() };
        let ah = device.create_ah(pd, path).unwrap();
        let cap = QpCapabilities {
            max_send_wr: if setup.small_queues { 3 } else { 8 },
            max_recv_wr: if setup.small_queues { 0 } else { 8 },
            max_send_sge: 2,
            max_recv_sge: 2,
            max_inline_data: 16,
        };
        let init = QpInit {
            pd,
            qp_type,
            send_cq: cq,
            recv_cq: cq,
            srq,
            xrcd,
            cap,
            signal_all: setup.signal_all,
            create_flags: QpCreateFlags::empty(),
        };
        let qp = device.create_qp(&init).unwrap();
        let attributes = QpAttributes {
            access: Access::REMOTE | Access::FLUSH_GLOBAL,
            qkey: QKEY,
            path,
            path_mtu: Mtu::ALL[usize::from(setup.mtu) % Mtu::ALL.len()],
            dest_qp: if setup.own_peer { qp } else { QpNum::new(0x77) },
            rq_psn: Psn::new(setup.psn),
            sq_psn: Psn::new(setup.psn),
            max_dest_rd_atomic: 2,
            max_rd_atomic: 2,
            min_rnr_timer: 1,
            timeout: 1,
            retry_count: 2,
            rnr_retry: 2,
            ..QpAttributes::default()
        };
        let mut world = Self {
            device,
            memory,
            id,
            foreign_id,
            pd,
            cq,
            srq,
            ah,
            qp,
            qp_type,
            key: Key(0),
            foreign,
            windows,
            attributes,
            rights,
            peer,
            now: Instant::ZERO,
            flying: VecDeque::new(),
            frozen: None,
        };
        world.register();
        world.connect();
        for n in 0..u16::from(setup.receives % 8) {
            world.step(&Step::Recv { offset: 1024 * n, len: 1024, foreign: false });
        }
        world
    }

    fn register(&mut self) {
        if self.device.protection().query_region(self.key).is_none() {
            let spec = region(self.pd, self.id, BEFORE as u64, self.rights);
            self.key = self.device.register(spec).unwrap();
            self.frozen = None;
        }
    }

    fn connect(&mut self) {
        for state in [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts] {
            self.to(state);
        }
    }

    fn to(&mut self, state: QpState) {
        let own = match (state, self.qp_type) {
            (QpState::Init, QpType::Ud) => M::PKEY_INDEX | M::PORT | M::QKEY,
            (QpState::Init, _) => M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS,
            (QpState::Rtr, QpType::Rc | QpType::XrcRecv) => {
                M::AV
                    | M::PATH_MTU
                    | M::DEST_QPN
                    | M::RQ_PSN
                    | M::MAX_DEST_RD_ATOMIC
                    | M::MIN_RNR_TIMER
            }
            (QpState::Rtr, QpType::Uc | QpType::XrcSend) => {
                M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN
            }
            (QpState::Rts, _) if self.state() != Some(QpState::Rtr) => M::empty(),
            (QpState::Rts, QpType::XrcRecv) => M::SQ_PSN | M::TIMEOUT,
            (QpState::Rts, QpType::Rc | QpType::XrcSend) => {
                M::SQ_PSN | M::MAX_QP_RD_ATOMIC | M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY
            }
            (QpState::Rts, _) => M::SQ_PSN,
            (QpState::Sqd, _) => M::EN_SQD_ASYNC_NOTIFY,
            _ => M::empty(),
        };
        let attributes = QpAttributes { state, sq_drained_event: true, ..self.attributes };
        let _ = self.device.modify_qp(self.qp, &attributes, M::STATE | own);
    }

    pub(crate) fn state(&self) -> Option<QpState> {
        self.device.query_qp(self.qp).ok().map(|(at, _)| at.state)
    }

    pub(crate) fn service(&self) -> Service {
        match self.qp_type {
            QpType::Rc => Service::Rc,
            QpType::Uc => Service::Uc,
            QpType::Ud => Service::Ud,
            QpType::XrcSend | QpType::XrcRecv => Service::Xrc,
        }
    }

    /// The next sequence number that is due: of requests, and the last one sent.
    pub(crate) fn due(&self) -> (Psn, Psn) {
        let at = self.device.query_qp(self.qp).map(|(at, _)| at).unwrap_or_default();
        (at.rq_psn, at.sq_psn.minus(1))
    }

    /// A frame from the peer.
    pub(crate) fn hand(&mut self, route: &Route, bytes: &[u8]) {
        self.device.on_frame(self.now, &self.memory, route, bytes);
    }

    pub(crate) fn route(&self) -> Route {
        Route { src: self.peer, dst: OURS, src_port: 0xc000, hop_limit: 60, ..Route::default() }
    }

    /// The bytes of the region.
    pub(crate) fn region(&self) -> Vec<u8> {
        let bytes = self.memory.bytes(self.id);
        bytes.get(BEFORE..BEFORE + LEN).map(<[u8]>::to_vec).unwrap_or_default()
    }

    /// Lets out what is due.
    pub(crate) fn drain(&mut self) -> Vec<Vec<u8>> {
        let mut left = Vec::new();
        let mut frame = FrameOut::default();
        while self.device.next_frame(&mut frame) {
            let mut bytes = vec![0; frame.len()];
            assert!(left.len() < 100_000, "endless sending");
            if !self.device.fill(self.now, &self.memory, &frame, &mut bytes) {
                continue;
            }
            let Ok(packet) = Packet::parse(&bytes) else {
                panic!("the device made what it cannot read: {bytes:02x?}");
            };
            let mut runs = packet.payload.split(|byte| *byte != GUARD);
            assert!(runs.all(|run| run.len() < 24), "bytes without a right have left");
            note(&packet);
            if self.peer == OURS && self.flying.len() < 256 {
                self.flying.push_back((frame.route, bytes.clone()));
            }
            left.push(bytes);
        }
        let mut events = 0;
        while self.device.next_event().is_some() {
            events += 1;
        }
        assert!(events < 64, "more events than there are objects to speak of");
        left
    }

    /// Takes all completions.
    pub(crate) fn poll(&mut self) -> Vec<Wc> {
        let mut all = Vec::new();
        let mut some = [Wc::default(); 16];
        while let Ok(count @ 1..) = self.device.poll_cq(self.cq, &mut some) {
            all.extend_from_slice(&some[..count]);
        }
        for wc in &all {
            completed(wc, self.qp_type);
        }
        all
    }

    /// What must hold whatever has come.
    pub(crate) fn check(&mut self) {
        self.poll();
        let bytes = self.memory.bytes(self.id);
        if !bytes.is_empty() {
            assert!(is_guard(&bytes[..BEFORE]), "written before the region");
            assert!(is_guard(&bytes[BEFORE + LEN..]), "written after the region");
        }
        assert!(is_guard(&self.memory.bytes(self.foreign_id)), "written to another domain");
        if let Some(frozen) = &self.frozen {
            assert!(*frozen == bytes, "written after the region went");
        }
        if self.device.counters().get(Counter::CompleterRetry) > 0 {
            hit(Reach::SentAgain);
        }
    }
}

/// The whole of a memory that begins `offset` bytes in.
fn region(pd: PdId, memory: MemoryId, offset: u64, access: Access) -> RegionSpec {
    RegionSpec { pd, memory, memory_offset: offset, addr: BASE, length: LEN as u64, access }
}

fn is_guard(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == GUARD)
}

/// What a packet of the device shows.
fn note(packet: &Packet<'_>) {
    let operation = packet.facts.map(|facts| facts.operation);
    match (operation, packet.aeth().map(|aeth| aeth.syndrome())) {
        (Some(Operation::ReadResponse), _) => hit(Reach::ReadAnswered),
        (Some(Operation::AtomicAcknowledge), _) => hit(Reach::AtomicAnswered),
        (_, Some(Syndrome::RnrNak { .. })) => hit(Reach::NotReady),
        (_, Some(Syndrome::Nak(_))) => hit(Reach::Refused),
        _ => {}
    }
}

fn completed(wc: &Wc, qp_type: QpType) {
    match (wc.status, wc.opcode) {
        (WcStatus::Success, WcOpcode::Recv | WcOpcode::RecvRdmaWithImm) => {
            hit(if qp_type == QpType::Ud { Reach::Datagram } else { Reach::Received });
        }
        (WcStatus::Success, WcOpcode::Send | WcOpcode::RdmaWrite) => hit(Reach::Sent),
        (WcStatus::Success, WcOpcode::RdmaRead) => hit(Reach::ReadCompleted),
        (WcStatus::Success, WcOpcode::CompareSwap | WcOpcode::FetchAdd) => {
            hit(Reach::AtomicCompleted);
        }
        (
            WcStatus::RemoteAccessError
            | WcStatus::RemoteInvalidRequest
            | WcStatus::RemoteOperationError
            | WcStatus::RnrRetryExceeded,
            _,
        ) => hit(Reach::FailedByPeer),
        _ => {}
    }
}
