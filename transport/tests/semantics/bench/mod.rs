//! The bench: queue pairs on simulated hosts, connected, each with memory of its own.
//!
//! ```ignore
//! let mut bench = Setup { mtu: Mtu::B256, ..Setup::rc() }.pair();
//! let b = bench.remote(B);
//! bench.recv(B, 7, 0..600);
//! bench.post(A, wr(1, b.write(5000)).at(0..300));
//! bench.post(A, wr(2, send()).at(0..600));
//! bench.run();
//! assert_eq!(bench.sends(A), [(1, Success), (2, Success)]);
//! ```

mod forge;
mod rng;
mod setup;
mod tap;
mod weather;
mod work;

use std::ops::Range;

use softrnic_model::counters::Counter;
use softrnic_model::protection::RegionSpec;
use softrnic_model::verbs::{
    Access, AddressVector, AhId, AsyncEvent, BindInfo, CqId, Event, Gid, Key, PdId, Psn,
    QpAttributeMask, QpAttributes, QpNum, QpState, SendOp, SrqId, SrqNum, VerbError, Wc, WcFlags,
    WcOpcode, WcStatus, WindowType, XrcdId,
};
use softrnic_model::wire::Route;
use softrnic_model::{Device, FrameOut, Instant, Memory, MemoryId};
use softrnic_transport::sim::{Fabric, Host, HostId};

pub(crate) use forge::Forge;
pub(crate) use rng::{Digest, Rng};
pub(crate) use setup::{QKEY, Setup};
pub(crate) use tap::{Seen, Tap};
pub(crate) use weather::{TIMEOUT_CODE, Weather};
pub(crate) use work::{Remote, Wr, send, send_imm, send_invalidate, wr};

/// An end of the bench: a queue pair, with its objects and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EndId(pub(crate) usize);

/// The first end.
pub(crate) const A: EndId = EndId(0);
/// Its peer.
pub(crate) const B: EndId = EndId(1);

/// Address of the first byte of each end's memory.
pub(crate) const BASE: u64 = 0x7f00_0000_0000;

/// Longer than any test takes, in nanoseconds of virtual time.
pub(crate) const LONG_NS: u64 = 100_000_000_000_000;

/// Some trips from one host to the other, and far less than the time-outs of [`Setup`].
const SHORT_NS: u64 = 20_000;

/// One end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) host: HostId,
    pub(crate) pd: PdId,
    pub(crate) send_cq: CqId,
    pub(crate) recv_cq: CqId,
    pub(crate) srq: Option<SrqId>,
    /// What it sends with.
    pub(crate) qp: QpNum,
    /// What serves its peer: the same queue pair, but of XRC.
    pub(crate) target: QpNum,
    /// The domain of the target.
    pub(crate) xrcd: Option<XrcdId>,
    pub(crate) memory: MemoryId,
    /// Of all its memory, with all rights.
    pub(crate) key: Key,
    /// The sequence number that it starts sending with.
    pub(crate) first_psn: Psn,
    pub(crate) peer: Option<EndId>,
}

/// Ends on a fabric.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) fabric: Fabric,
    pub(crate) tap: Tap,
    ends: Vec<End>,
}

impl Bench {
    pub(crate) fn end(&self, end: EndId) -> End {
        self.ends[end.0]
    }

    pub(crate) fn device(&mut self, end: EndId) -> &mut Device {
        let host = self.end(end).host;
        &mut self.fabric.host_mut(host).device
    }

    /// The memory of an end, as its peers name it.
    pub(crate) fn remote(&self, end: EndId) -> Remote {
        Remote { key: self.end(end).key }
    }

    pub(crate) fn try_post(&mut self, end: EndId, wr: &Wr) -> Result<(), VerbError> {
        let End { qp, key, .. } = self.end(end);
        let remote_srq = self.remote_srq(end);
        wr.with(key, remote_srq, |wr| self.device(end).post_send(qp, wr))
    }

    /// The queue that requests of an end name.
    pub(crate) fn remote_srq(&self, end: EndId) -> SrqNum {
        let peer = self.end(end).peer.map(|peer| self.end(peer));
        let named = peer.and_then(|peer| {
            let device = &self.fabric.host(peer.host).device;
            device.srq_number(peer.srq.filter(|_| peer.xrcd.is_some())?).ok()
        });
        named.unwrap_or_default()
    }

    pub(crate) fn post(&mut self, end: EndId, wr: Wr) {
        self.try_post(end, &wr).unwrap();
    }

    pub(crate) fn try_recv(&mut self, end: EndId, wr: &Wr) -> Result<(), VerbError> {
        let End { qp, key, srq, .. } = self.end(end);
        wr.with_recv(key, |wr| match srq {
            Some(srq) => self.device(end).post_srq_recv(srq, wr),
            None => self.device(end).post_recv(qp, wr),
        })
    }

    /// Posts a receive into `range` of the end's memory; to its shared queue if it has one.
    pub(crate) fn recv(&mut self, end: EndId, id: u64, range: Range<u64>) {
        self.try_recv(end, &wr(id, send()).at(range)).unwrap();
    }

    /// All that the send queue has completed.
    pub(crate) fn sent(&mut self, end: EndId) -> Vec<Wc> {
        let cq = self.end(end).send_cq;
        self.poll(end, cq)
    }

    /// All that was received.
    pub(crate) fn received(&mut self, end: EndId) -> Vec<Wc> {
        let cq = self.end(end).recv_cq;
        self.poll(end, cq)
    }

    /// As [`Bench::sent`], number and status only.
    pub(crate) fn sends(&mut self, end: EndId) -> Vec<(u64, WcStatus)> {
        self.sent(end).iter().map(|wc| (wc.wr_id, wc.status)).collect()
    }

    /// As [`Bench::received`], number and status only.
    pub(crate) fn recvs(&mut self, end: EndId) -> Vec<(u64, WcStatus)> {
        self.received(end).iter().map(|wc| (wc.wr_id, wc.status)).collect()
    }

    pub(crate) fn poll(&mut self, end: EndId, cq: CqId) -> Vec<Wc> {
        let mut all = Vec::new();
        let mut some = [NO_COMPLETION; 32];
        loop {
            let n = self.device(end).poll_cq(cq, &mut some).unwrap();
            all.extend_from_slice(&some[..n]);
            if n < some.len() {
                return all;
            }
        }
    }

    /// The events of the end's host.
    pub(crate) fn events(&mut self, end: EndId) -> Vec<Event> {
        let device = self.device(end);
        std::iter::from_fn(|| device.next_event()).collect()
    }

    /// The asynchronous ones only.
    pub(crate) fn async_events(&mut self, end: EndId) -> Vec<AsyncEvent> {
        let asynchronous = |event| match event {
            Event::Async(event) => Some(event),
            Event::Completion(_) => None,
        };
        self.events(end).into_iter().filter_map(asynchronous).collect()
    }

    pub(crate) fn state(&mut self, end: EndId) -> QpState {
        let End { qp, target, .. } = self.end(end);
        let states = [qp, target].map(|qp| self.device(end).query_qp(qp).unwrap().0.state);
        // Of two queue pairs, the one in error.
        if states[1] == QpState::Err { states[1] } else { states[0] }
    }

    pub(crate) fn states(&mut self) -> (QpState, QpState) {
        (self.state(A), self.state(B))
    }

    /// All packets that the end's host has dropped.
    pub(crate) fn dropped(&mut self, end: EndId) -> u64 {
        let counters = self.device(end).counters();
        counters.iter().filter(|(name, ..)| name.starts_with("drop_")).map(|(.., n)| n).sum()
    }

    /// What the end's host has counted.
    pub(crate) fn count(&mut self, end: EndId, counter: Counter) -> u64 {
        self.device(end).counters().get(counter)
    }

    pub(crate) fn modify(
        &mut self,
        end: EndId,
        mask: QpAttributeMask,
        change: impl FnOnce(&mut QpAttributes),
    ) -> Result<(), VerbError> {
        let qp = self.end(end).qp;
        self.modify_qp(end, qp, mask, change)
    }

    fn modify_qp(
        &mut self,
        end: EndId,
        qp: QpNum,
        mask: QpAttributeMask,
        change: impl FnOnce(&mut QpAttributes),
    ) -> Result<(), VerbError> {
        let (mut attributes, _) = self.device(end).query_qp(qp)?;
        change(&mut attributes);
        self.device(end).modify_qp(qp, &attributes, mask)
    }

    /// As [`Bench::modify`], of what serves the peer.
    pub(crate) fn modify_target(
        &mut self,
        end: EndId,
        mask: QpAttributeMask,
        change: impl FnOnce(&mut QpAttributes),
    ) -> Result<(), VerbError> {
        let qp = self.end(end).target;
        self.modify_qp(end, qp, mask, change)
    }

    pub(crate) fn enter(&mut self, end: EndId, state: QpState) {
        let End { qp, target, .. } = self.end(end);
        self.modify(end, QpAttributeMask::STATE, |attr| attr.state = state).unwrap();
        if target != qp {
            self.modify_target(end, QpAttributeMask::STATE, |attr| attr.state = state).unwrap();
        }
    }

    /// Bytes of an end's memory.
    pub(crate) fn bytes(&self, end: EndId, range: Range<u64>) -> Vec<u8> {
        let End { host, memory, .. } = self.end(end);
        self.fabric.host(host).memory.bytes(memory)[range.start as usize..range.end as usize]
            .to_vec()
    }

    /// What the program itself writes.
    pub(crate) fn write(&self, end: EndId, at: u64, bytes: &[u8]) {
        let End { host, memory, .. } = self.end(end);
        self.fabric.host(host).memory.write(memory, at, bytes).unwrap();
    }

    pub(crate) fn word(&self, end: EndId, at: u64) -> u64 {
        u64::from_ne_bytes(self.bytes(end, at..at + 8).try_into().unwrap())
    }

    /// Registers a part of the end's memory.
    pub(crate) fn register(&mut self, end: EndId, range: Range<u64>, access: Access) -> Key {
        let End { pd, memory, .. } = self.end(end);
        let spec = RegionSpec {
            pd,
            memory,
            memory_offset: range.start,
            addr: BASE + range.start,
            length: range.end - range.start,
            access,
        };
        self.device(end).register(spec).unwrap()
    }

    /// A region of memory of its own, `length` bytes at [`BASE`].
    pub(crate) fn new_memory(&mut self, end: EndId, length: u64, access: Access) -> Key {
        let End { host, pd, .. } = self.end(end);
        let memory = self.fabric.host(host).memory.add(vec![0x55; length as usize]);
        let spec = RegionSpec { pd, memory, memory_offset: 0, addr: BASE, length, access };
        self.device(end).register(spec).unwrap()
    }

    /// Takes the next frame of an end's host from its device, in place of the fabric.
    pub(crate) fn fill_one(&mut self, end: EndId) -> Vec<u8> {
        let now = self.fabric.now();
        let Host { device, memory, .. } = self.fabric.host_mut(self.ends[end.0].host);
        let mut frame = FrameOut::default();
        assert!(device.next_frame(&mut frame));
        let mut bytes = vec![0; frame.len()];
        assert!(device.fill(now, memory, &frame, &mut bytes));
        bytes
    }

    /// An address handle of `end` that leads to the host of `to`.
    pub(crate) fn handle(&mut self, end: EndId, to: EndId) -> AhId {
        let dgid = self.gid(to);
        self.handle_to(end, dgid)
    }

    pub(crate) fn handle_to(&mut self, end: EndId, dgid: Gid) -> AhId {
        let pd = self.end(end).pd;
        let path = AddressVector { dgid, ..AddressVector::default() };
        self.device(end).create_ah(pd, path).unwrap()
    }

    pub(crate) fn gid(&self, end: EndId) -> Gid {
        self.fabric.host(self.end(end).host).device.gids()[0]
    }

    /// A datagram to `to`, by a new address handle.
    pub(crate) fn datagram(&mut self, end: EndId, to: EndId) -> SendOp {
        let ah = self.handle(end, to);
        let remote_qpn = self.end(to).qp;
        SendOp::SendTo { ah, remote_qpn, remote_qkey: QKEY, imm: None }
    }

    /// A window of the end's protection domain, not bound.
    pub(crate) fn window(&mut self, end: EndId, window_type: WindowType) -> Key {
        let pd = self.end(end).pd;
        self.device(end).alloc_mw(pd, window_type).unwrap()
    }

    /// A bind of a window to a part of the end's memory, with all rights of peers.
    pub(crate) fn bind(
        &self,
        end: EndId,
        window: Key,
        new_rkey: Key,
        window_type: WindowType,
        range: Range<u64>,
    ) -> SendOp {
        let bind = BindInfo {
            mr_lkey: self.end(end).key,
            addr: BASE + range.start,
            length: range.end - range.start,
            access: Access::REMOTE,
        };
        SendOp::BindMw { window, new_rkey, window_type, bind }
    }

    /// Hands a packet to the peer of `from`, as if `from` had sent it.
    pub(crate) fn inject(&mut self, from: EndId, packet: &Forge) {
        let to = self.end(from).peer.unwrap();
        let bytes = packet.bytes(self, from);
        let route = self.route(from);
        self.deliver(to, &route, &bytes);
    }

    /// How packets of `from` to its peer are addressed as they arrive.
    pub(crate) fn route(&self, from: EndId) -> Route {
        let to = self.end(from).peer.unwrap();
        let (src, dst) = (self.gid(from), self.gid(to));
        Route { src, dst, src_port: 0xc000, hop_limit: 63, ..Route::default() }
    }

    /// Hands bytes to the host of `to`.
    pub(crate) fn deliver(&mut self, to: EndId, route: &Route, bytes: &[u8]) {
        let now = self.fabric.now();
        let host = self.fabric.host_mut(self.ends[to.0].host);
        host.device.on_frame(now, &host.memory, route, bytes);
    }

    /// Runs until nothing is left to happen.
    pub(crate) fn run(&mut self) {
        assert!(self.fabric.run_until_idle(LONG_NS), "it never ends: {:?}", self.tap.last());
    }

    /// Runs until an end is in `state`, and returns when that was.
    pub(crate) fn run_to_state(&mut self, end: EndId, state: QpState) -> Instant {
        let until = self.fabric.now().plus_ns(LONG_NS);
        while self.state(end) != state {
            assert!(self.fabric.step(until), "it never gets to {state:?}: {:?}", self.tap.last());
        }
        self.fabric.now()
    }

    pub(crate) fn run_for(&mut self, ns: u64) {
        self.fabric.run_for(ns);
    }

    /// Sends what is ready and lets it arrive, long before any time-out. Returns the frames since
    /// the last call, in words.
    pub(crate) fn frames(&mut self) -> Vec<String> {
        self.run_for(SHORT_NS);
        self.tap.take()
    }

    /// The same, as they are.
    pub(crate) fn seen(&mut self) -> Vec<Seen> {
        self.run_for(SHORT_NS);
        self.tap.log()
    }
}

pub(crate) const NO_COMPLETION: Wc = Wc {
    wr_id: 0,
    status: WcStatus::GeneralError,
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
};
