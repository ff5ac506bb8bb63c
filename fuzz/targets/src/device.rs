//! A whole device under a sequence of verbs and frames. Nothing panics, every frame that the device
//! makes parses, bytes without a right never change and never leave, and after a deregistration
//! the region's bytes stay as they are.

use std::collections::VecDeque;

use arbitrary::{Arbitrary, Unstructured};
use softrnic_model::counters::Counter;
use softrnic_model::protection::RegionSpec;
use softrnic_model::verbs::{
    Access, AddressVector, AhId, BindInfo, CqId, Gid, Key, Mtu, PdId, Placement, Psn,
    QpAttributeMask as M, QpAttributes, QpCapabilities, QpInit, QpNum, QpState, QpType, RecvWr,
    Selectivity, SendFlags, SendOp, SendWr, Sge, SrqAttributes, SrqId, SrqInit, SrqNum, Wc,
    WindowType, XrcSrq,
};
use softrnic_model::wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Extensions as E, Feth, HeaderBuf, Ieth, ImmDt,
    Opcode, OpcodeFacts, Operation, Packet, Reth, Route, Syndrome, XrcEth,
};
use softrnic_model::{Device, DeviceConfig, FrameOut, Instant, MemoryId};
use softrnic_transport::sim::SimMemory;

use crate::Reached;

#[derive(Arbitrary, Debug)]
enum Step {
    /// A packet whose headers are what its opcode demands and near what the queue pair expects.
    Near {
        opcode: u8,
        psn: Distance,
        ack: bool,
        marked: bool,
        solicited: bool,
        body: Body,
        at: Target,
        len: Length,
    },
    /// Any base transport header for the queue pair, and any bytes behind it.
    Loose {
        opcode: u8,
        flags: u8,
        psn: i8,
        body: Vec<u8>,
    },
    /// Any bytes.
    Raw(Vec<u8>),
    /// Frames of its own come back to it, or are lost.
    Deliver {
        lost: bool,
        twice: bool,
        frames: u8,
    },
    Send {
        op: u8,
        offset: u16,
        len: u16,
        at: Target,
        flags: u8,
        foreign: bool,
    },
    Inline {
        write: bool,
        at: Target,
        len: u8,
    },
    Bind {
        type_2: bool,
        offset: u16,
        len: u16,
        access: u8,
        variant: u8,
        foreign: bool,
    },
    Invalidate(Target),
    Recv {
        offset: u16,
        len: u16,
        foreign: bool,
    },
    Time(u32),
    Modify(u8),
    Change {
        access: u8,
        depth: u8,
        timeout: u8,
        retries: u8,
    },
    Reconnect,
    Deregister,
    Register,
    Unmap,
    DestroyQp,
    ResizeCq(u8),
    Arm(bool),
    Limit(u8),
    Poll,
}

/// How far a sequence number is from the one that is due.
#[derive(Arbitrary, Debug, Clone, Copy)]
enum Distance {
    Due,
    Near(i8),
    Far(u32),
}

/// What the payload is.
#[derive(Arbitrary, Debug)]
enum Body {
    /// As long as the path MTU.
    Full(u8),
    Short(Vec<u8>),
}

#[derive(Arbitrary, Debug, Clone, Copy)]
enum Length {
    /// That of the payload.
    Same,
    Any(u32),
}

/// A place for a peer, by key.
#[derive(Arbitrary, Debug, Clone, Copy)]
struct Target {
    key: KeyChoice,
    va: i16,
}

#[derive(Arbitrary, Debug, Clone, Copy)]
enum KeyChoice {
    Right,
    /// Of the other protection domain.
    Foreign,
    Window1,
    Window2,
    Stale,
    Any(u32),
}

#[derive(Arbitrary, Debug)]
struct Run {
    qp_type: u8,
    psn: u32,
    mtu: u8,
    srq: bool,
    signal_all: bool,
    /// The queue pair is its own peer.
    own_peer: bool,
    small_queues: bool,
    /// Receives that are posted from the beginning.
    receives: u8,
    window: u16,
    steps: Vec<Step>,
}

const BASE: u64 = 0x1_0000;
const LEN: usize = 8192;
/// The region lies in the middle of the memory; what is around it must stay.
const BEFORE: usize = 4096;
/// What is there; no byte that a peer or the program brings is the same.
const GUARD: u8 = 0xa5;
const QKEY: u32 = 0x11;
const OURS: Gid = Gid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1]);
const THEIRS: Gid = Gid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2]);

fn harmless(byte: u8) -> u8 {
    if byte == GUARD { 0 } else { byte }
}

struct World {
    device: Device,
    memory: SimMemory,
    id: MemoryId,
    /// Memory of another protection domain.
    foreign_id: MemoryId,
    pd: PdId,
    cq: CqId,
    srq: Option<SrqId>,
    ah: AhId,
    qp: QpNum,
    qp_type: QpType,
    key: Key,
    foreign: Key,
    windows: [Key; 2],
    attributes: QpAttributes,
    peer: Gid,
    now: Instant,
    flying: VecDeque<(Route, Vec<u8>)>,
    /// The region's bytes as they were when it went.
    frozen: Option<Vec<u8>>,
}

impl World {
    fn new(run: &Run) -> Self {
        let memory = SimMemory::default();
        let mut bytes = vec![GUARD; BEFORE + LEN + 4096];
        bytes[BEFORE..BEFORE + LEN].fill(0x11);
        let id = memory.add(bytes);
        let foreign_id = memory.add(vec![GUARD; LEN]);
        let mut device = Device::new(DeviceConfig {
            gids: vec![OURS],
            window_bytes: u32::from(run.window) << 4,
            ..DeviceConfig::default()
        });
        let pd = device.alloc_pd().unwrap();
        let other = device.alloc_pd().unwrap();
        let cq = device.create_cq(if run.small_queues { 8 } else { 512 }).unwrap();
        let access = Access::LOCAL_WRITE | Access::REMOTE | Access::MW_BIND;
        let spec = RegionSpec {
            pd: other,
            memory: foreign_id,
            memory_offset: 0,
            addr: BASE,
            length: LEN as u64,
            access,
        };
        let foreign = device.register(spec).unwrap();
        let windows =
            [WindowType::Type1, WindowType::Type2B].map(|t| device.alloc_mw(pd, t).unwrap());
        let qp_type = QpType::ALL[usize::from(run.qp_type) % QpType::ALL.len()];
        let srq = SrqAttributes { max_wr: 4, max_sge: 2, srq_limit: 0 };
        let xrcd = (qp_type == QpType::XrcRecv).then(|| device.open_xrcd().unwrap());
        let xrc = xrcd.map(|xrcd| XrcSrq { xrcd, cq });
        let init = SrqInit { pd, attributes: srq, xrc };
        let srq = (run.srq || xrc.is_some()).then(|| device.create_srq_ex(&init).unwrap());
        let peer = if run.own_peer { OURS } else { THEIRS };
        let path = AddressVector { dgid: peer, ..AddressVector::default() };
        let ah = device.create_ah(pd, path).unwrap();
        let cap = QpCapabilities {
            max_send_wr: if run.small_queues { 3 } else { 8 },
            max_recv_wr: if run.small_queues { 0 } else { 8 },
            max_send_sge: 2,
            max_recv_sge: 2,
            max_inline_data: 16,
        };
        let signal_all = run.signal_all;
        let init = QpInit {
            pd,
            qp_type,
            send_cq: cq,
            recv_cq: cq,
            srq,
            xrcd,
            cap,
            signal_all,
            create_flags: softrnic_model::verbs::QpCreateFlags::empty(),
        };
        let qp = device.create_qp(&init).unwrap();
        let attributes = QpAttributes {
            access: Access::REMOTE | Access::FLUSH_GLOBAL,
            qkey: QKEY,
            path,
            path_mtu: Mtu::ALL[usize::from(run.mtu % 5)],
            dest_qp: if run.own_peer { qp } else { QpNum::new(0x77) },
            rq_psn: Psn::new(run.psn),
            sq_psn: Psn::new(run.psn),
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
            peer,
            now: Instant::ZERO,
            flying: VecDeque::new(),
            frozen: None,
        };
        world.register();
        world.connect();
        for n in 0..u16::from((run.receives >> 1) % 8) {
            world.step(&Step::Recv { offset: 1024 * n, len: 1024, foreign: false });
        }
        world
    }

    fn register(&mut self) {
        let access = Access::LOCAL_WRITE | Access::REMOTE | Access::MW_BIND;
        let spec = RegionSpec {
            pd: self.pd,
            memory: self.id,
            memory_offset: BEFORE as u64,
            addr: BASE,
            length: LEN as u64,
            access,
        };
        if self.device.protection().query_region(self.key).is_none() {
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

    fn state(&self) -> Option<QpState> {
        self.device.query_qp(self.qp).ok().map(|(at, _)| at.state)
    }

    fn key(&self, choice: KeyChoice) -> Key {
        let present = |window| self.device.protection().query_window(window).map(|(key, ..)| key);
        match choice {
            KeyChoice::Right => self.key,
            KeyChoice::Foreign => self.foreign,
            KeyChoice::Window1 => present(self.windows[0]).unwrap_or_default(),
            KeyChoice::Window2 => present(self.windows[1]).unwrap_or_default(),
            KeyChoice::Stale => Key(self.key.0 ^ 1),
            KeyChoice::Any(raw) => Key(raw),
        }
    }

    fn place(&self, at: Target) -> (u64, Key) {
        (BASE.wrapping_add(i64::from(at.va) as u64), self.key(at.key))
    }

    fn local(&self, offset: u16, len: u16, foreign: bool) -> Sge {
        let lkey = if foreign { self.foreign } else { self.key };
        // Mostly inside.
        let (offset, len) = (u64::from(offset & 0x1fff), u32::from(len & 0x07ff));
        Sge { addr: BASE + offset, length: len, lkey }
    }

    /// A frame from the peer.
    fn hand(&mut self, route: &Route, bytes: &[u8]) {
        self.device.on_frame(self.now, &self.memory, route, bytes);
    }

    fn route(&self) -> Route {
        Route { src: self.peer, dst: OURS, src_port: 0xc000, hop_limit: 60, ..Route::default() }
    }

    fn due(&self, facts: Option<&OpcodeFacts>, distance: Distance) -> Psn {
        let at = self.device.query_qp(self.qp).map(|(at, _)| at).unwrap_or_default();
        let answers = facts.is_some_and(|facts| facts.operation.is_response());
        let due = if answers { at.sq_psn.get().wrapping_sub(1) } else { at.rq_psn.get() };
        Psn::new(match distance {
            Distance::Due => due,
            Distance::Near(by) => due.wrapping_add(i32::from(by) as u32),
            Distance::Far(psn) => psn,
        })
    }

    fn near(&mut self, step: &Step) {
        let Step::Near { opcode, psn, ack, marked, solicited, body, at, len } = step else {
            return;
        };
        // Half of them are of the queue pair's own service.
        let own = match self.qp_type {
            QpType::Rc => opcode & 0x1f,
            QpType::Uc => 0x20 | opcode & 0x0f,
            QpType::Ud => 0x64 | opcode & 1,
            QpType::XrcSend | QpType::XrcRecv => 0xa0 | opcode & 0x1f,
        };
        let opcode = Opcode(if opcode & 0x80 == 0 { own } else { *opcode });
        let facts = opcode.facts();
        let mut payload = match body {
            Body::Full(byte) => vec![harmless(*byte); self.attributes.path_mtu.bytes() as usize],
            Body::Short(bytes) => bytes.iter().map(|byte| harmless(*byte)).collect(),
        };
        let (va, key) = self.place(*at);
        let len = match *len {
            Length::Same => payload.len() as u32,
            Length::Any(len) => len,
        };
        let words: Vec<u64> = payload
            .chunks(8)
            .map(|word| word.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
            .collect();
        let word = |n: usize| words.get(n).copied().unwrap_or_default();
        let mut header = HeaderBuf::new();
        let has_payload = facts.is_none_or(|facts| facts.payload);
        let pad = if has_payload { payload.len().wrapping_neg() & 3 } else { 0 };
        let psn = self.due(facts, *psn);
        header.push(
            &Bth::new(opcode, self.qp, psn)
                .with_ack_req(*ack)
                .with_solicited(*solicited)
                .with_pad(pad),
        );
        if let Some(facts) = facts {
            let has = |e| facts.extensions.contains(e);
            if has(E::DETH) {
                header.push(&Deth::new(QKEY, QpNum::new(5)));
            }
            if has(E::XRCETH) {
                // Mostly the right one.
                let number = self.srq.and_then(|srq| self.device.srq_number(srq).ok());
                let number = number.filter(|_| len % 8 != 7).map_or(len, SrqNum::get);
                header.push(&XrcEth::new(number));
            }
            if has(E::FETH) {
                header.push(&Feth::new(len as u8, 0));
            }
            if has(E::RETH) {
                header.push(&Reth::new(va, key, len));
            }
            if has(E::ATOMIC_ETH) {
                header.push(&AtomicEth::new(va & !7, key, word(0), word(1)));
            }
            if has(E::AETH) {
                let syndrome = match facts.operation {
                    Operation::Acknowledge => Syndrome::from(len as u8),
                    _ => Syndrome::ACK,
                };
                header.push(&Aeth::new(syndrome, len >> 8));
            }
            if has(E::ATOMIC_ACK_ETH) {
                header.push(&AtomicAckEth::new(word(0)));
            }
            if has(E::IMM) {
                header.push(&ImmDt::new(len));
            }
            if has(E::IETH) {
                header.push(&Ieth::new(key));
            }
        }
        let mut bytes = header.as_slice().to_vec();
        if has_payload {
            bytes.append(&mut payload);
            bytes.resize(bytes.len() + pad, 0);
        }
        let mut route = self.route();
        if *marked {
            route.traffic_class = Route::ECN_CE;
        }
        self.hand(&route, &bytes);
    }

    fn send(&mut self, op: SendOp, sges: &[Sge], flags: SendFlags, inline: &[u8]) {
        let _ = self
            .device
            .post_send(self.qp, &SendWr { wr_id: 1, op, flags, sges, inline, ..SendWr::default() });
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Near { .. } => self.near(step),
            Step::Loose { opcode, flags, psn, body } => {
                let psn = self.due(None, Distance::Near(*psn));
                let mut bytes = vec![*opcode, *flags, 0xff, 0xff];
                bytes.extend(self.qp.get().to_be_bytes());
                bytes.extend((psn.get() | 1 << 31).to_be_bytes());
                bytes.extend(body.iter().map(|byte| harmless(*byte)));
                bytes.resize(bytes.len().next_multiple_of(4), 0);
                let route = self.route();
                self.hand(&route, &bytes);
            }
            Step::Raw(bytes) => {
                let route = self.route();
                let bytes: Vec<u8> = bytes.iter().map(|byte| harmless(*byte)).collect();
                self.hand(&route, &bytes);
            }
            Step::Deliver { lost, twice, frames } => {
                for _ in 0..=frames % 8 {
                    let Some((route, bytes)) = self.flying.pop_front() else { return };
                    for _ in 0..if *lost { 0 } else { 1 + u8::from(*twice) } {
                        self.hand(&route, &bytes);
                    }
                    self.drain();
                }
            }
            Step::Send { op, offset, len, at, flags, foreign } => {
                let (remote_addr, rkey) = self.place(*at);
                let op = match (self.qp_type, op % 9) {
                    (QpType::Ud, _) => SendOp::SendTo {
                        ah: self.ah,
                        remote_qpn: self.attributes.dest_qp,
                        remote_qkey: QKEY,
                        imm: None,
                    },
                    (_, 0) => SendOp::Send { imm: None, invalidate: None },
                    (_, 1) => SendOp::Write { remote_addr, rkey, imm: None },
                    (_, 2) => SendOp::Read { remote_addr, rkey },
                    (_, 3) => SendOp::FetchAdd { remote_addr, rkey, add: 1 },
                    (_, 4) => SendOp::CompareSwap { remote_addr, rkey, compare: 0, swap: 1 },
                    (_, 5) => SendOp::Write { remote_addr, rkey, imm: Some(7) },
                    (_, 6) => SendOp::AtomicWrite { remote_addr, rkey },
                    (_, 7) => SendOp::Flush {
                        remote_addr,
                        rkey,
                        length: u32::from(*len),
                        placement: Placement::GLOBAL,
                        selectivity: if len % 2 == 0 {
                            Selectivity::Range
                        } else {
                            Selectivity::Region
                        },
                    },
                    (_, _) => SendOp::Send { imm: None, invalidate: Some(rkey) },
                };
                let words = op.has_own_answer() && !matches!(op, SendOp::Read { .. });
                let len = if words { 8 } else { *len };
                let sges = [self.local(*offset, len, *foreign)];
                let sges = if matches!(op, SendOp::Flush { .. }) { &sges[..0] } else { &sges };
                self.send(op, sges, SendFlags::from_bits_truncate(flags & 7), &[]);
            }
            Step::Inline { write, at, len } => {
                let (remote_addr, rkey) = self.place(*at);
                let op = if *write {
                    SendOp::Write { remote_addr, rkey, imm: None }
                } else {
                    SendOp::Send { imm: None, invalidate: None }
                };
                self.send(op, &[], SendFlags::INLINE, &vec![3; usize::from(*len)]);
            }
            Step::Bind { type_2, offset, len, access, variant, foreign } => {
                let (window_type, choice) = match type_2 {
                    true => (WindowType::Type2B, KeyChoice::Window2),
                    false => (WindowType::Type1, KeyChoice::Window1),
                };
                let window = self.key(choice);
                let bind = BindInfo {
                    mr_lkey: if *foreign { self.foreign } else { self.key },
                    addr: BASE + u64::from(*offset),
                    length: u64::from(*len),
                    access: Access::from_bits_truncate(u32::from(*access)),
                };
                let new_rkey = Key::from_parts(window.index(), *variant);
                let op = SendOp::BindMw { window, new_rkey, window_type, bind };
                self.send(op, &[], SendFlags::SIGNALED, &[]);
            }
            Step::Invalidate(at) => {
                let key = self.key(at.key);
                self.send(SendOp::LocalInvalidate { key }, &[], SendFlags::empty(), &[]);
            }
            Step::Recv { offset, len, foreign } => {
                let sges = [self.local(*offset, *len, *foreign)];
                let wr = RecvWr { wr_id: 2, sges: &sges };
                let _ = match self.srq {
                    Some(srq) => self.device.post_srq_recv(srq, &wr),
                    None => self.device.post_recv(self.qp, &wr),
                };
            }
            Step::Time(ns) => {
                self.now = self.now.plus_ns(u64::from(*ns));
                self.device.on_time(self.now);
            }
            Step::Modify(state) => self.to(QpState::ALL[usize::from(state % 7)]),
            Step::Change { access, depth, timeout, retries } => {
                self.attributes.access = Access::from_bits_truncate(u32::from(*access));
                self.attributes.max_rd_atomic = depth & 3;
                self.attributes.max_dest_rd_atomic = depth >> 2 & 3;
                self.attributes.timeout = timeout & 31;
                self.attributes.retry_count = retries & 7;
                self.attributes.rnr_retry = retries >> 3 & 7;
                let mask = M::ACCESS_FLAGS
                    | M::MAX_QP_RD_ATOMIC
                    | M::MAX_DEST_RD_ATOMIC
                    | M::TIMEOUT
                    | M::RETRY_CNT
                    | M::RNR_RETRY;
                let _ = self.device.modify_qp(self.qp, &self.attributes, mask);
            }
            Step::Reconnect => self.connect(),
            Step::Deregister => {
                if self.device.deregister(self.key).is_ok() {
                    self.frozen = Some(self.memory.bytes(self.id));
                }
            }
            Step::Register => {
                self.check();
                self.register();
            }
            Step::Unmap => {
                self.check();
                self.memory.unmap(self.id);
                self.frozen = None;
            }
            Step::DestroyQp => {
                if self.device.destroy_qp(self.qp).is_ok()
                    && let Some(srq) = self.srq
                {
                    assert!(self.device.destroy_srq(srq).is_ok(), "nobody uses it any more");
                }
            }
            Step::ResizeCq(entries) => {
                let _ = self.device.resize_cq(self.cq, u32::from(*entries));
            }
            Step::Arm(solicited) => {
                let _ = self.device.req_notify_cq(self.cq, *solicited);
            }
            Step::Limit(limit) => {
                if let Some(srq) = self.srq {
                    let _ = self.device.set_srq_limit(srq, u32::from(*limit));
                }
            }
            Step::Poll => {
                let _ = self.device.poll_cq(self.cq, &mut [Wc::default(); 16]);
            }
        }
    }

    /// Lets out what is due.
    fn drain(&mut self) {
        let mut frames = 0;
        let mut frame = FrameOut::default();
        while self.device.next_frame(&mut frame) {
            let mut bytes = vec![0; frame.len()];
            frames += 1;
            assert!(frames < 100_000, "endless sending");
            if !self.device.fill(self.now, &self.memory, &frame, &mut bytes) {
                continue;
            }
            let packet = Packet::parse(&bytes);
            let packet = packet.unwrap_or_else(|_| panic!("the device made what it cannot read"));
            let mut runs = packet.payload.split(|byte| *byte != GUARD);
            assert!(runs.all(|run| run.len() < 24), "bytes without a right have left");
            if self.peer == OURS && self.flying.len() < 256 {
                self.flying.push_back((frame.route, bytes));
            }
        }
        let mut events = 0;
        while self.device.next_event().is_some() {
            events += 1;
        }
        assert!(events < 64, "more events than there are objects to speak of");
    }

    fn check(&self) {
        let bytes = self.memory.bytes(self.id);
        if !bytes.is_empty() {
            assert!(is_guard(&bytes[..BEFORE]), "written before the region");
            assert!(is_guard(&bytes[BEFORE + LEN..]), "written after the region");
        }
        assert!(is_guard(&self.memory.bytes(self.foreign_id)), "written to another domain");
        if let Some(frozen) = &self.frozen {
            assert!(*frozen == bytes, "written after the region went");
        }
    }
}

fn is_guard(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == GUARD)
}

/// Runs what these bytes say.
pub fn run(bytes: &[u8]) -> Reached {
    let mut reached = Reached::default();
    let Ok(run) = Run::arbitrary(&mut Unstructured::new(bytes)) else { return reached };
    let mut world = World::new(&run);
    for step in run.steps.iter().take(96) {
        world.step(step);
        world.drain();
    }
    // What was written stays written.
    world.check();
    let of = |counter| world.device.counters().get(counter);
    reached.executed = of(Counter::RdmaReceives) + of(Counter::DuplicateRequest);
    reached.datagrams = u64::from(run.is_datagram()) * of(Counter::RdmaReceives);
    reached.not_ready = of(Counter::SentRnrNak);
    reached
}

impl Run {
    fn is_datagram(&self) -> bool {
        QpType::ALL[usize::from(self.qp_type) % QpType::ALL.len()] == QpType::Ud
    }
}
