//! Devices that stand in for those of a capture: their objects are guessed from what peers ask for.
//!
//! Queue pairs exist that requests are for, in the state to receive and with the sequence number of
//! the first request; shared receive queues for XRC that requests name; regions exist that requests name,
//! as long as all of them reach, with all rights; a receive is posted for each message that takes one. Memory is zero. What a device answers
//! then is what a device answers that everything was prepared for.

use std::collections::BTreeMap;
use std::fmt;

use softrnic_model::protection::RegionSpec;
use softrnic_model::verbs::{
    Access, AddressVector, CqId, Gid, Key, Mtu, PdId, Psn, QpAttributeMask as M, QpAttributes,
    QpCapabilities, QpCreateFlags, QpInit, QpNum, QpState, QpType, RecvWr, Sge, SrqAttributes,
    SrqInit, SrqNum, Wc, XrcSrq, XrcdId,
};
use softrnic_model::wire::{AtomicEth, OpcodeFacts, Operation, Packet, Reth, RoceFrame, Service};
use softrnic_model::{Device, DeviceConfig, FrameOut, Instant};
use softrnic_transport::sim::SimMemory;

use super::words::sentences;

/// Something that was guessed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assumption(pub String);

impl fmt::Display for Assumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What requests say of a queue pair.
#[derive(Clone, Copy, Debug)]
struct Seen {
    peer: Gid,
    qp_type: QpType,
    first_psn: Psn,
    /// Bytes of the longest packet that is not the last of its message.
    piece: usize,
    /// Messages that take a receive.
    receives: u32,
}

/// All that is known of a queue pair or region that stands in.
struct StandIn {
    device: Device,
    memory: SimMemory,
    cq: CqId,
    /// The domain of all objects, and that of the XRC targets and queues, once there is one.
    pd: Option<PdId>,
    xrcd: Option<XrcdId>,
    /// Their numbers in the capture, and here.
    qps: BTreeMap<u32, QpNum>,
    keys: BTreeMap<u32, Key>,
    srqs: BTreeMap<u32, SrqNum>,
}

/// See the module.
pub struct StandIns {
    devices: BTreeMap<Gid, StandIn>,
    assumptions: Vec<Assumption>,
    now: Instant,
}

impl fmt::Debug for StandIns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StandIns").field("devices", &self.devices.len()).finish_non_exhaustive()
    }
}

/// Bytes of all guessed regions of a device at most: a capture may name any addresses.
const MEMORY_MAX: u64 = 64 << 20;
/// Bytes of a guessed receive.
const RECEIVE: u32 = 1 << 20;
/// Receives of a queue pair at most.
const RECEIVES_MAX: u32 = 4096;
/// Queue pairs and regions of a device at most.
const OBJECTS_MAX: usize = 4096;

const fn qp_type(service: Service) -> Option<QpType> {
    match service {
        Service::Rc => Some(QpType::Rc),
        Service::Uc => Some(QpType::Uc),
        Service::Ud => Some(QpType::Ud),
        Service::Xrc => Some(QpType::XrcRecv),
        Service::Rd | Service::Cnp => None,
    }
}

/// A range of addresses: first byte, and the one behind the last.
type Span = (u64, u64);

impl StandIns {
    /// Guesses what there must have been.
    pub fn guess<'a, 'b: 'a>(frames: impl Iterator<Item = &'a RoceFrame<'b>>) -> Self {
        let mut qps: BTreeMap<(Gid, u32), Seen> = BTreeMap::new();
        let mut spans: BTreeMap<(Gid, u32), Span> = BTreeMap::new();
        let mut queues: BTreeMap<(Gid, u32), u32> = BTreeMap::new();
        for frame in frames {
            let Ok(packet) = Packet::parse(frame.packet) else { continue };
            let Some(facts) = packet.opcode.facts() else { continue };
            if !facts.operation.is_request() {
                continue;
            }
            note_qp(&mut qps, frame, &packet, facts);
            note_queue(&mut queues, frame.route.dst, &packet, facts);
            note_region(&mut spans, frame.route.dst, &packet);
        }
        let mut all =
            Self { devices: BTreeMap::new(), assumptions: Vec::new(), now: Instant::ZERO };
        for ((dst, number), seen) in qps {
            all.add_qp(dst, number, &seen);
        }
        for ((dst, number), receives) in queues {
            all.add_queue(dst, number, receives);
        }
        for ((dst, key), span) in spans {
            all.add_region(dst, key, span);
        }
        all
    }

    /// What was guessed, in words.
    #[must_use]
    pub fn assumptions(&self) -> &[Assumption] {
        &self.assumptions
    }

    fn assume(&mut self, text: String) {
        self.assumptions.push(Assumption(text));
    }

    fn add_qp(&mut self, dst: Gid, number: u32, seen: &Seen) {
        let device = self.devices.entry(dst).or_insert_with(|| StandIn::new(dst));
        let Seen { peer, qp_type, first_psn, receives, .. } = *seen;
        let text = match device.add_qp(number, seen) {
            Some(()) => format!(
                "{dst}: queue pair {number:#08x} is {qp_type:?}, connected to {peer}, expects PSN \
                 {:#08x} and has {receives} receives",
                first_psn.get()
            ),
            None => {
                format!("{dst}: queue pair {number:#08x} has no place; its requests are not fed")
            }
        };
        self.assume(text);
    }

    fn add_queue(&mut self, dst: Gid, number: u32, receives: u32) {
        let Some(device) = self.devices.get_mut(&dst) else { return };
        let text = match device.add_queue(number, receives) {
            Some(()) => {
                format!("{dst}: shared receive queue {number:#08x} has {receives} receives")
            }
            None => format!("{dst}: shared receive queue {number:#08x} has no place"),
        };
        self.assume(text);
    }

    fn add_region(&mut self, dst: Gid, key: u32, (first, end): Span) {
        let Some(device) = self.devices.get_mut(&dst) else { return };
        let text = match device.add_region(key, (first, end)) {
            Some(()) => {
                let len = end - first;
                format!("{dst}: key {key:#010x} is a region of {len} bytes from {first:#x} on")
            }
            None => format!("{dst}: key {key:#010x} names nothing: it would be too large a region"),
        };
        self.assume(text);
    }

    /// Feeds a frame, if it is a request, and says what comes of it.
    pub fn feed(&mut self, at_ns: u64, frame: &RoceFrame<'_>) -> Vec<String> {
        self.now = self.now.max(Instant::from_ns(at_ns));
        let now = self.now;
        let Ok(packet) = Packet::parse(frame.packet) else {
            return vec!["dropped: it cannot be read".into()];
        };
        let is_request = packet.opcode.facts().is_some_and(|facts| facts.operation.is_request());
        if !is_request {
            return Vec::new();
        }
        let Some(device) = self.devices.get_mut(&frame.route.dst) else {
            return vec!["not fed: its service has no stand-in".into()];
        };
        device.feed(now, frame, &packet)
    }
}

fn note_qp(
    qps: &mut BTreeMap<(Gid, u32), Seen>,
    frame: &RoceFrame<'_>,
    packet: &Packet<'_>,
    facts: &OpcodeFacts,
) {
    let Some(qp_type) = qp_type(facts.service) else { return };
    let key = (frame.route.dst, packet.bth.dest_qp().get());
    let seen = qps.entry(key).or_insert(Seen {
        peer: frame.route.src,
        qp_type,
        first_psn: packet.bth.psn(),
        piece: 0,
        receives: 0,
    });
    if !facts.place.ends() {
        seen.piece = seen.piece.max(packet.payload.len());
    }
    // What an XRC target receives comes into a queue that the packet names.
    if qp_type != QpType::XrcRecv {
        seen.receives = seen.receives.saturating_add(receives_of(packet, facts));
    }
}

/// Receives that are over with a packet.
fn receives_of(packet: &Packet<'_>, facts: &OpcodeFacts) -> u32 {
    let takes = facts.operation == Operation::Send || packet.imm_dt().is_some();
    u32::from(takes && facts.place.ends())
}

fn note_queue(
    queues: &mut BTreeMap<(Gid, u32), u32>,
    dst: Gid,
    packet: &Packet<'_>,
    facts: &OpcodeFacts,
) {
    if let Some(xrc) = packet.xrc_eth() {
        let receives = queues.entry((dst, xrc.srq())).or_insert(0);
        *receives = receives.saturating_add(receives_of(packet, facts));
    }
}

fn note_region(spans: &mut BTreeMap<(Gid, u32), Span>, dst: Gid, packet: &Packet<'_>) {
    let reth = packet.reth().map(|reth| (reth.rkey(), reth.va(), u64::from(reth.len())));
    let atomic = packet.atomic_eth().map(|eth| (eth.rkey(), eth.va(), 8));
    let Some((key, va, len)) = reth.or(atomic) else { return };
    let Some(end) = va.checked_add(len) else { return };
    if len == 0 {
        return;
    }
    let span = spans.entry((dst, key.0)).or_insert((va, end));
    *span = (span.0.min(va), span.1.max(end));
}

impl StandIn {
    fn new(gid: Gid) -> Self {
        let mut device = Device::new(DeviceConfig { gids: vec![gid], ..DeviceConfig::default() });
        let cq = device.create_cq(1 << 16).unwrap_or(CqId(0));
        let memory = SimMemory::default();
        let (qps, keys, srqs) = Default::default();
        Self { device, memory, cq, pd: None, xrcd: None, qps, keys, srqs }
    }

    /// The one protection domain.
    fn pd(&mut self) -> Option<PdId> {
        if self.pd.is_none() {
            self.pd = self.device.alloc_pd().ok();
        }
        self.pd
    }

    /// The one domain of XRC.
    fn xrcd(&mut self) -> Option<XrcdId> {
        if self.xrcd.is_none() {
            self.xrcd = self.device.open_xrcd().ok();
        }
        self.xrcd
    }

    /// Memory into which all receives of one queue go.
    fn landing(&mut self, pd: PdId) -> Option<Sge> {
        let memory = self.memory.add(vec![0; RECEIVE as usize]);
        let access = Access::LOCAL_WRITE;
        let length = RECEIVE.into();
        let spec = RegionSpec { pd, memory, memory_offset: 0, addr: 0, length, access };
        let lkey = self.device.register(spec).ok()?;
        Some(Sge { addr: 0, length: RECEIVE, lkey })
    }

    /// A shared receive queue for XRC.
    fn add_queue(&mut self, number: u32, receives: u32) -> Option<()> {
        if self.srqs.len() >= OBJECTS_MAX {
            return None;
        }
        let (pd, xrcd) = (self.pd()?, self.xrcd()?);
        let receives = receives.min(RECEIVES_MAX);
        let attributes = SrqAttributes { max_wr: receives.max(1), max_sge: 1, srq_limit: 0 };
        let xrc = Some(XrcSrq { xrcd, cq: self.cq });
        let srq = self.device.create_srq_ex(&SrqInit { pd, attributes, xrc }).ok()?;
        if receives > 0 {
            let sges = [self.landing(pd)?];
            for wr_id in 1..=receives {
                let wr = RecvWr { wr_id: wr_id.into(), sges: &sges };
                self.device.post_srq_recv(srq, &wr).ok()?;
            }
        }
        self.srqs.insert(number, self.device.srq_number(srq).ok()?);
        Some(())
    }

    fn add_qp(&mut self, number: u32, seen: &Seen) -> Option<()> {
        if self.qps.len() >= OBJECTS_MAX {
            return None;
        }
        let pd = self.pd()?;
        let is_target = seen.qp_type == QpType::XrcRecv;
        let xrcd = if is_target { Some(self.xrcd()?) } else { None };
        let receives = seen.receives.min(RECEIVES_MAX);
        let init = QpInit {
            pd,
            qp_type: seen.qp_type,
            send_cq: self.cq,
            recv_cq: self.cq,
            srq: None,
            xrcd,
            cap: QpCapabilities {
                max_send_wr: 1,
                max_recv_wr: receives.max(1),
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: 0,
            },
            signal_all: false,
            create_flags: QpCreateFlags::empty(),
        };
        let qp = self.device.create_qp(&init).ok()?;
        let all = Access::LOCAL_WRITE | Access::REMOTE | Access::FLUSH_GLOBAL;
        let piece = u32::try_from(seen.piece).unwrap_or(u32::MAX);
        let mtu = Mtu::ALL.into_iter().find(|mtu| mtu.bytes() >= piece.max(1));
        let attributes = QpAttributes {
            access: all,
            path: AddressVector { dgid: seen.peer, ..AddressVector::default() },
            path_mtu: if piece == 0 { Mtu::B4096 } else { mtu? },
            rq_psn: seen.first_psn,
            max_dest_rd_atomic: 16,
            ..QpAttributes::default()
        };
        let connected = M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN;
        let (own, ready) = match seen.qp_type {
            QpType::Ud => (M::QKEY, M::empty()),
            QpType::Uc => (M::ACCESS_FLAGS, connected),
            QpType::Rc | QpType::XrcSend | QpType::XrcRecv => {
                (M::ACCESS_FLAGS, connected | M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER)
            }
        };
        let init = QpAttributes { state: QpState::Init, ..attributes };
        self.device.modify_qp(qp, &init, M::STATE | M::PKEY_INDEX | M::PORT | own).ok()?;
        if receives > 0 {
            let sges = [self.landing(pd)?];
            for wr_id in 1..=receives {
                let wr = RecvWr { wr_id: wr_id.into(), sges: &sges };
                self.device.post_recv(qp, &wr).ok()?;
            }
        }
        let ready_to = QpAttributes { state: QpState::Rtr, ..attributes };
        self.device.modify_qp(qp, &ready_to, M::STATE | ready).ok()?;
        while self.device.next_event().is_some() {}
        self.qps.insert(number, qp);
        Some(())
    }

    fn add_region(&mut self, key: u32, (first, end): Span) -> Option<()> {
        let length = end - first;
        if length > MEMORY_MAX || self.keys.len() >= OBJECTS_MAX {
            return None;
        }
        let pd = self.pd()?;
        let memory = self.memory.add(vec![0; usize::try_from(length).ok()?]);
        let access = Access::LOCAL_WRITE | Access::REMOTE | Access::FLUSH_GLOBAL;
        let spec = RegionSpec { pd, memory, memory_offset: 0, addr: first, length, access };
        let here = self.device.register(spec).ok()?;
        self.keys.insert(key, here);
        Some(())
    }

    fn feed(&mut self, now: Instant, frame: &RoceFrame<'_>, packet: &Packet<'_>) -> Vec<String> {
        let Some(qp) = self.qps.get(&packet.bth.dest_qp().get()).copied() else {
            return vec!["not fed: its queue pair has no stand-in".into()];
        };
        let before = self.dropped();
        let bytes = self.translated(packet, qp);
        self.device.on_frame(now, &self.memory, &frame.route, &bytes);
        let mut said = Vec::new();
        let mut out = FrameOut::default();
        let mut buffer = Vec::new();
        while self.device.next_frame(&mut out) {
            buffer.resize(out.len(), 0);
            if !self.device.fill(now, &self.memory, &out, &mut buffer) {
                continue;
            }
            if let Ok(answer) = Packet::parse(&buffer) {
                let words = sentences(&answer).join(", ");
                let psn = answer.bth.psn().get();
                said.push(format!("{:?} psn {psn:#08x}: {words}", answer.opcode));
            }
        }
        let mut some = [Wc::default(); 4];
        while let Ok(count @ 1..) = self.device.poll_cq(self.cq, &mut some) {
            for wc in &some[..count] {
                said.push(format!("receive {}: {:?}, {} bytes", wc.wr_id, wc.status, wc.byte_len));
            }
        }
        while let Some(event) = self.device.next_event() {
            said.push(format!("event: {event:?}"));
        }
        let why = self.dropped().into_iter().zip(before);
        for ((name, now), (_, before)) in why {
            if now != before {
                said.push(format!("dropped ({name})"));
            }
        }
        said
    }

    fn dropped(&self) -> Vec<(&'static str, u64)> {
        let counters = self.device.counters().iter();
        let drops = counters.filter(|(name, ..)| name.starts_with("drop_"));
        drops.map(|(name, _, value)| (name, value)).collect()
    }

    /// The packet with the numbers that objects have here.
    fn translated(&self, packet: &Packet<'_>, qp: QpNum) -> Vec<u8> {
        let mut bytes = packet.as_bytes().to_vec();
        let mut put = |at: Option<usize>, number: [u8; 4], first: usize| {
            let place = at.and_then(|at| bytes.get_mut(at + first..at + 4));
            if let Some(place) = place {
                place.copy_from_slice(&number[first..]);
            }
        };
        // Of a word that holds a number of 24 bits the first byte says something else.
        put(Some(4), qp.get().to_be_bytes(), 1);
        let (reth, atomic) = (packet.reth(), packet.atomic_eth());
        let keys = [
            (reth.map(Reth::rkey), offset_of(packet, reth)),
            (atomic.map(AtomicEth::rkey), offset_of(packet, atomic)),
        ];
        for (key, at) in keys {
            if let Some(here) = key.and_then(|key| self.keys.get(&key.0)) {
                // Behind the address.
                put(at.map(|at| at + 8), here.0.to_be_bytes(), 0);
            }
        }
        let xrc = packet.xrc_eth();
        if let Some(here) = xrc.and_then(|xrc| self.srqs.get(&xrc.srq())) {
            put(offset_of(packet, xrc), here.get().to_be_bytes(), 1);
        }
        // Any Q_Key is the right one.
        put(offset_of(packet, packet.deth()), [0; 4], 0);
        bytes
    }
}

/// Where a header of a packet begins in it, if it has one.
fn offset_of<H>(packet: &Packet<'_>, header: Option<&H>) -> Option<usize> {
    let begins = std::ptr::from_ref(header?).addr();
    begins.checked_sub(packet.as_bytes().as_ptr().addr())
}
