//! What is posted, and what must come of it.
#![expect(
    clippy::cast_possible_truncation,
    reason = "a plan bounds all lengths, and of what chance draws a part will do"
)]

use softrnic_reference::{Delivery, Kind, Outcome, Received, Request, Status, Violation};
use softrnic_verbs::buffer::Buffer;
use softrnic_verbs::{
    Access, Key, Placement, RecvWr, Selectivity, SendFlags, SendOp, SendWr, Sge, WindowRange,
    WindowType,
};

use super::chance::Chance;
use super::ends::{GRH, Message, QKEY, Sent, Then};
use super::hosts::{Piece, SHARED_WORD};
use super::plan::Service;
use super::run::Swarm;
use super::steps::Op;

/// A request that is about to be posted.
pub(super) struct Posting {
    pub(super) kind: Kind,
    pub(super) op: SendOp,
    pub(super) sges: Vec<Sge>,
    pub(super) inline: Option<Vec<u8>>,
    pub(super) flags: SendFlags,
    pub(super) answer: Option<u32>,
    pub(super) outcome: Outcome,
    pub(super) delivers: Option<Delivery<Message>>,
    pub(super) sent: Sent,
    /// Its success must be told.
    pub(super) told: bool,
}

impl Posting {
    pub(super) fn new(kind: Kind, op: SendOp) -> Self {
        Self {
            kind,
            op,
            sges: Vec::new(),
            inline: None,
            flags: SendFlags::empty(),
            answer: None,
            outcome: Outcome::Succeeds,
            delivers: None,
            sent: Sent { local: Vec::new(), remote: Vec::new(), then: Then::Nothing },
            told: false,
        }
    }
}

/// A message that leaves: gathered, or inline.
pub(super) struct Payload {
    pieces: Vec<Piece>,
    inline: Option<Vec<u8>>,
    pub(super) bytes: Vec<u8>,
}

impl Swarm<'_> {
    /// A step of an end. What does not fit is passed over.
    pub(super) fn act(&mut self, op: Op, end: usize, chance: &mut Chance) -> Result<(), Violation> {
        if self.ends[end].failed {
            return Ok(());
        }
        let service = self.ends[end].service;
        if op == Op::Receive {
            return self.receive(end, chance).map(|_| ());
        }
        if self.room(end) < 2 {
            return Ok(());
        }
        let done = match (op, service) {
            (Op::Send, _) => self.send(end, chance),
            (Op::Write, Service::Rc | Service::RcShared | Service::Xrc | Service::Uc) => {
                self.write(end, chance)
            }
            (_, Service::Uc | Service::Ud) => return Ok(()),
            (Op::Read, _) => self.read(end, chance),
            (Op::PassOn, _) => self.pass_on(end, chance),
            (Op::Add, _) => self.add(end, chance),
            (Op::Swap, _) => self.swap(end, chance),
            (Op::WriteWord, _) => self.write_word(end, chance),
            (Op::Flush, _) => self.flush(end, chance),
            (Op::Offend, _) => self.offend(end, chance),
            (Op::Blunder, _) => self.blunder(end, chance),
            (Op::ReceiveBadly, _) => self.receive_badly(end, chance),
            (Op::Vanish, _) => self.vanish(end, chance),
            // What an initiator binds, the target does not serve: another queue pair.
            (_, Service::Xrc) => return Ok(()),
            (Op::Bind, _) => self.bind(end, chance),
            (Op::UseWindow, _) => self.use_window(end, chance),
            (Op::Unbind, _) => self.unbind(end, chance),
            (Op::Misuse, _) => self.misuse(end, chance),
            (Op::Run | Op::Poll | Op::Part | Op::Pause | Op::Receive, _) => return Ok(()),
        };
        done.unwrap_or(Ok(()))
    }

    /// Requests that an end can still post.
    pub(super) fn room(&self, end: usize) -> usize {
        (self.plan.depths[0] as usize).saturating_sub(self.ends[end].channel.open())
    }

    pub(super) fn host(&mut self, end: usize) -> &mut super::hosts::Host {
        &mut self.hosts[self.ends[end].host]
    }

    pub(super) fn peer_host(&mut self, end: usize) -> &mut super::hosts::Host {
        let peer = self.ends[end].peer;
        self.host(peer)
    }

    /// A length that is interesting more often than chance would have it.
    pub(super) fn length(&self, end: usize, chance: &mut Chance) -> usize {
        let mtu = 1 << self.plan.mtu_shift;
        let most = match self.ends[end].service {
            Service::Ud => self.plan.message_max.min(mtu),
            Service::Rc | Service::RcShared | Service::Xrc | Service::Uc => self.plan.message_max,
        };
        let around = mtu * chance.below(4) + chance.below(3);
        let lengths = [0, 1, 8, around.saturating_sub(1), chance.below(most), chance.below(most)];
        chance.pick(&lengths).min(most) as usize
    }

    /// A receive of memory for any message. Returns whether there was room.
    pub(super) fn receive(&mut self, end: usize, chance: &mut Chance) -> Result<bool, Violation> {
        let (service, host) = (self.ends[end].service, self.ends[end].host);
        let own = self.plan.depths[1] as usize;
        let Self { hosts, ends, plan, .. } = self;
        let queue = match service {
            Service::RcShared => &hosts[host].shared,
            Service::Xrc => &hosts[host].xrc,
            Service::Rc | Service::Uc | Service::Ud => &ends[end].receives,
        };
        if queue.len() >= if service.shares_receives() { 4 * own } else { own } {
            return Ok(false);
        }
        let headers = if service == Service::Ud { GRH } else { 0 };
        let len = plan.message_max as usize + headers;
        let Some(pieces) = hosts[host].take_pieces(len, chance) else { return Ok(false) };
        let wr_id = ends[end].next_id;
        ends[end].next_id += 1;
        // Numbers of one queue differ, also where ends share it.
        let wr_id = wr_id << 20 | end as u64;
        let own = &mut hosts[host];
        if !service.is_reliable() {
            // A message that loses its end leaves its beginning there, until another one comes.
            own.forget(&pieces);
        }
        let sges: Vec<Sge> = pieces.iter().map(|piece| sge(own, piece)).collect();
        let wrs = [RecvWr { wr_id, sges: &sges }];
        let posted = match service {
            Service::RcShared => own.srq.post_recv(&wrs),
            Service::Xrc => own.xrc_srq.post_recv(&wrs),
            Service::Rc | Service::Uc | Service::Ud => ends[end].qp.post_recv(&wrs),
        };
        posted.map_err(|error| Violation(format!("a receive is refused: {error}")))?;
        let queue = match service {
            Service::RcShared => &mut own.shared,
            Service::Xrc => &mut own.xrc,
            Service::Rc | Service::Uc | Service::Ud => &mut ends[end].receives,
        };
        queue.post(wr_id, pieces);
        self.tell(|| format!("end {end} posts receive {wr_id:#x} of {len} bytes"));
        Ok(true)
    }

    pub(super) fn post(
        &mut self,
        end: usize,
        posting: Posting,
        chance: &mut Chance,
    ) -> Result<(), Violation> {
        let Posting { kind, op, sges, inline, mut flags, answer, outcome, delivers, sent, told } =
            posting;
        // The last places are signalled, or polling would never free one again.
        let signaled = told || self.room(end) <= 3 || chance.percent(60);
        flags.set(SendFlags::SIGNALED, signaled);
        flags.set(SendFlags::INLINE, inline.is_some());
        flags |= match chance.below(20) {
            0 => SendFlags::FENCE,
            1..5 => SendFlags::SOLICITED,
            _ => SendFlags::empty(),
        };
        let id = self.ends[end].next_id;
        self.ends[end].next_id += 1;
        let remote_srq = match self.ends[end].service {
            Service::Xrc => self.peer_host(end).xrc_srq.number().unwrap_or_default(),
            Service::Rc | Service::RcShared | Service::Uc | Service::Ud => Default::default(),
        };
        let inline = inline.as_deref().unwrap_or_default();
        let wr = SendWr { wr_id: id, op, flags, sges: &sges, inline, remote_srq };
        let refused = |text: String| Violation(format!("{kind:?} of end {end} is refused: {text}"));
        if let (SendOp::BindMw { window_type: WindowType::Type1, bind, .. }, Some(which)) =
            (op, sent.then.binds())
        {
            let Self { hosts, ends, .. } = self;
            let host = &mut hosts[ends[end].host];
            let range = WindowRange {
                region: &host.region,
                offset: bind.addr.saturating_sub(host.region.remote(0).addr),
                length: bind.length,
                access: bind.access,
            };
            let window = &mut host.windows[which];
            let bound = window.window.bind(&ends[end].qp, id, flags, range);
            window.key = bound.map_err(|error| refused(error.to_string()))?.rkey;
        } else {
            let posted = self.ends[end].qp.post_send(&[wr]);
            posted.map_err(|error| refused(error.to_string()))?;
        }
        self.requests += 1;
        self.tell(|| {
            let len =
                sges.iter().map(|sge| u64::from(sge.length)).sum::<u64>() + inline.len() as u64;
            format!("end {end} posts {kind:?} {id} of {len} bytes, {flags:?}, must end {outcome:?}")
        });
        let request = Request { id, kind, signaled, answer, outcome, delivers, carries: sent };
        self.ends[end].channel.post(request);
        if outcome != Outcome::Succeeds {
            // It takes the connection down: both queue pairs, and what is under way either way.
            for one in [end, self.ends[end].peer] {
                self.ends[one].channel.allow_silence();
                self.ends[one].channel.interrupt();
            }
        }
        Ok(())
    }

    /// The bytes of a message, written anew by the program.
    pub(super) fn payload(
        &mut self,
        end: usize,
        len: usize,
        chance: &mut Chance,
    ) -> Option<Payload> {
        if len <= 64 && chance.percent(30) {
            let bytes: Vec<u8> = (0..len).map(|_| chance.draw().to_le_bytes()[0]).collect();
            return Some(Payload { pieces: Vec::new(), inline: Some(bytes.clone()), bytes });
        }
        let host = self.host(end);
        let pieces = host.take_pieces(len, chance)?;
        host.refresh(&pieces);
        let bytes = host.gather(&pieces);
        Some(Payload { pieces, inline: None, bytes })
    }

    pub(super) fn load(&mut self, end: usize, posting: &mut Posting, payload: Payload) {
        let host = self.host(end);
        posting.sges = payload.pieces.iter().map(|piece| sge(host, piece)).collect();
        posting.inline = payload.inline;
        posting.sent.local = payload.pieces;
    }

    /// A message that will arrive at the peer, as sure as the service is.
    pub(super) fn deliver(
        &mut self,
        end: usize,
        posting: &mut Posting,
        what: Received,
        message: Message,
    ) {
        if self.ends[end].service.is_reliable() {
            posting.delivers = Some(Delivery { what, carries: message });
        } else {
            let peer = self.ends[end].peer;
            self.ends[peer].unreliable.sent(&what, message.bytes);
        }
    }

    fn send(&mut self, end: usize, chance: &mut Chance) -> Option<Result<(), Violation>> {
        let len = self.length(end, chance);
        let payload = self.payload(end, len, chance)?;
        let imm = chance.percent(30).then(|| chance.draw() as u32);
        let op = match (&self.ends[end].ah, self.ends[end].peer) {
            (Some(ah), peer) => SendOp::SendTo {
                ah: ah.id(),
                remote_qpn: self.ends[peer].qp.num(),
                remote_qkey: QKEY,
                imm,
            },
            (None, _) => SendOp::Send { imm, invalidate: None },
        };
        let mut posting = Posting::new(Kind::Send, op);
        let what = Received { imm, ..Received::message(len as u32) };
        let bytes = payload.bytes.clone();
        self.deliver(end, &mut posting, what, Message { bytes, written: None, invalidates: None });
        self.load(end, &mut posting, payload);
        Some(self.post(end, posting, chance))
    }

    fn write(&mut self, end: usize, chance: &mut Chance) -> Option<Result<(), Violation>> {
        // What an unreliable WRITE may still reach is not used again; receives need places too.
        if self.ends[end].quarantine.len() >= self.plan.slots as usize / 4 {
            return None;
        }
        let len = self.length(end, chance);
        let target = self.peer_host(end).take(len, chance)?;
        let Some(payload) = self.payload(end, len, chance) else {
            self.peer_host(end).give(&[target]);
            return None;
        };
        let imm = chance.percent(30).then(|| chance.draw() as u32);
        // Nothing is looked up for a length of 0: any key will do.
        let rkey = if len == 0 { Key(chance.draw() as u32) } else { self.peer_host(end).key() };
        let remote_addr = self.peer_host(end).region.remote(target.at as u64).addr;
        let mut posting = Posting::new(Kind::Write, SendOp::Write { remote_addr, rkey, imm });
        posting.sent.remote = vec![target];
        if self.ends[end].service.is_reliable() {
            posting.sent.then = Then::Written(target, payload.bytes.clone());
        } else {
            // It arrives wholly, in part or not at all, and late.
            self.peer_host(end).forget(&[target]);
        }
        if imm.is_some() {
            let arrival = softrnic_reference::Arrival::WriteWithImmediate;
            let what = Received { arrival, imm, ..Received::message(len as u32) };
            let written = self.ends[end].service.is_reliable().then_some(target);
            let message = Message { bytes: Vec::new(), written, invalidates: None };
            self.deliver(end, &mut posting, what, message);
        }
        self.load(end, &mut posting, payload);
        Some(self.post(end, posting, chance))
    }

    /// Memory of the peer that is to be read, written anew by its program.
    fn source(&mut self, end: usize, len: usize, chance: &mut Chance) -> Option<(Piece, Vec<u8>)> {
        let host = self.peer_host(end);
        let source = host.take(len, chance)?;
        host.refresh(&[source]);
        Some((source, host.gather(&[source])))
    }

    fn read(&mut self, end: usize, chance: &mut Chance) -> Option<Result<(), Violation>> {
        let len = self.length(end, chance);
        let (source, bytes) = self.source(end, len, chance)?;
        let Some(pieces) = self.host(end).take_pieces(len, chance) else {
            self.peer_host(end).give(&[source]);
            return None;
        };
        let mut posting = self.reading(end, source);
        let host = self.host(end);
        posting.sges = pieces.iter().map(|piece| sge(host, piece)).collect();
        posting.sent.local.clone_from(&pieces);
        posting.sent.then = Then::Brought(pieces, bytes);
        Some(self.post(end, posting, chance))
    }

    fn reading(&mut self, end: usize, source: Piece) -> Posting {
        let host = self.peer_host(end);
        let (remote_addr, rkey) = (host.region.remote(source.at as u64).addr, host.key());
        let mut posting = Posting::new(Kind::Read, SendOp::Read { remote_addr, rkey });
        posting.answer = Some(source.len as u32);
        posting.sent.remote = vec![source];
        posting
    }

    /// A SEND that waits by its fence for the READ that brings its bytes.
    fn pass_on(&mut self, end: usize, chance: &mut Chance) -> Option<Result<(), Violation>> {
        if self.room(end) < 4 {
            return None;
        }
        let len = self.length(end, chance);
        let (source, bytes) = self.source(end, len, chance)?;
        let Some(between) = self.host(end).take(len, chance) else {
            self.peer_host(end).give(&[source]);
            return None;
        };
        let mut first = self.reading(end, source);
        first.sges = vec![sge(self.host(end), &between)];
        first.sent.then = Then::Brought(vec![between], bytes.clone());
        let mut second = Posting::new(Kind::Send, SendOp::Send { imm: None, invalidate: None });
        second.flags = SendFlags::FENCE;
        second.sges = vec![sge(self.host(end), &between)];
        second.sent.local = vec![between];
        let what = Received::message(len as u32);
        self.deliver(end, &mut second, what, Message { bytes, written: None, invalidates: None });
        if let Err(violation) = self.post(end, first, chance) {
            return Some(Err(violation));
        }
        Some(self.post(end, second, chance))
    }

    fn add(&mut self, end: usize, chance: &mut Chance) -> Option<Result<(), Violation>> {
        let found = self.host(end).take_word()?;
        let host = self.peer_host(end);
        let (remote_addr, rkey) = (host.region.remote(SHARED_WORD as u64).addr, host.key());
        let mut posting =
            Posting::new(Kind::FetchAdd, SendOp::FetchAdd { remote_addr, rkey, add: 1 });
        posting.sges = vec![sge(self.host(end), &found)];
        posting.answer = Some(8);
        posting.sent.local = vec![found];
        posting.sent.then = Then::Added(found);
        posting.told = true;
        Some(self.post(end, posting, chance))
    }

    fn swap(&mut self, end: usize, chance: &mut Chance) -> Option<Result<(), Violation>> {
        let found = self.host(end).take_word()?;
        let word = own_word(end);
        let host = self.peer_host(end);
        let (remote_addr, rkey) = (host.region.remote(word as u64).addr, host.key());
        let before = self.ends[end].own_word;
        let swap = chance.draw();
        // Half of them expect what is not there.
        let matches = chance.percent(50);
        let compare = if matches { before } else { before ^ 1 };
        let now = if matches { swap } else { before };
        self.ends[end].own_word = now;
        let op = SendOp::CompareSwap { remote_addr, rkey, compare, swap };
        let mut posting = Posting::new(Kind::CompareSwap, op);
        posting.sges = vec![sge(self.host(end), &found)];
        posting.answer = Some(8);
        posting.sent.local = vec![found];
        posting.sent.then = Then::Swapped { word, now, before, found };
        Some(self.post(end, posting, chance))
    }

    fn write_word(&mut self, end: usize, chance: &mut Chance) -> Option<Result<(), Violation>> {
        let source = self.host(end).take_word()?;
        let Some(target) = self.peer_host(end).take_word() else {
            self.host(end).give(&[source]);
            return None;
        };
        self.host(end).refresh(&[source]);
        let bytes = self.host(end).gather(&[source]);
        let host = self.peer_host(end);
        let (remote_addr, rkey) = (host.region.remote(target.at as u64).addr, host.key());
        let mut posting =
            Posting::new(Kind::AtomicWrite, SendOp::AtomicWrite { remote_addr, rkey });
        posting.sges = vec![sge(self.host(end), &source)];
        posting.sent.local = vec![source];
        posting.sent.remote = vec![target];
        posting.sent.then = Then::Written(target, bytes);
        Some(self.post(end, posting, chance))
    }

    fn flush(&mut self, end: usize, chance: &mut Chance) -> Option<Result<(), Violation>> {
        let host = self.peer_host(end);
        let (remote_addr, rkey) = (host.region.remote(0).addr, host.key());
        let selectivity = if chance.percent(50) { Selectivity::Range } else { Selectivity::Region };
        let length = 1 + chance.below(1000);
        let placement = Placement::GLOBAL;
        let op = SendOp::Flush { remote_addr, rkey, length, placement, selectivity };
        Some(self.post(end, Posting::new(Kind::Flush, op), chance))
    }

    /// The peer writes to a region of this end that goes meanwhile.
    fn vanish(&mut self, end: usize, chance: &mut Chance) -> Option<Result<(), Violation>> {
        let writer = self.ends[end].peer;
        if self.ends[writer].failed || self.room(writer) < 4 {
            return None;
        }
        let len = (self.plan.message_max as usize).max(8);
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let region = self.host(end).pd.register(Buffer::new(len).ok()?, access).ok()?;
        let to = region.remote(0);
        for _ in 0..1 + chance.below(2) {
            let payload = self.payload(writer, len, chance)?;
            let op = SendOp::Write { remote_addr: to.addr, rkey: to.rkey, imm: None };
            let mut posting = Posting::new(Kind::Write, op);
            self.load(writer, &mut posting, payload);
            posting.sent.then = Then::Vanished;
            posting.outcome = Outcome::Either(Status::RemoteAccess);
            posting.told = true;
            if let Err(violation) = self.post(writer, posting, chance) {
                return Some(Err(violation));
            }
        }
        let ns = u64::from(chance.below(20_000));
        self.fabric.run_for(std::time::Duration::from_nanos(ns));
        let buffer = region.buffer().clone();
        // The last handle: it is deregistered when this returns.
        drop(region);
        let bytes = buffer.to_vec().unwrap_or_default();
        self.tell(|| format!("end {end} has deregistered a region of {len} bytes"));
        self.vanished.push((buffer, bytes));
        None
    }
}

/// Where a word lies that only one end changes, at its peer.
pub(super) const fn own_word(end: usize) -> usize {
    8 + 8 * end
}

pub(super) fn sge(host: &super::hosts::Host, piece: &Piece) -> Sge {
    host.region.sge(piece.at as u64, piece.len as u32)
}
