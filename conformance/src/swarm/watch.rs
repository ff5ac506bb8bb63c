//! What completes, held against the reference model.
#![expect(
    clippy::cast_possible_truncation,
    reason = "a plan bounds all lengths, and of what chance draws a part will do"
)]

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;

use softrnic_reference::{
    Arrival, Completion, Counts, Fate, Kind, Received, Receives, Retired, Status, Violation,
};
use softrnic_verbs::buffer::SharedBuffer;
use softrnic_verbs::{
    AsyncEvent, QpAttributeMask, QpAttributes, QpState, Wc, WcFlags, WcOpcode, WcStatus,
};

use super::act::own_word;
use super::chance::Chance;
use super::ends::{GRH, Made, Message, Sent, Then, make};
use super::hosts::{Host, Piece, SHARED_WORD};
use super::plan::Service;
use super::run::{Outcome, Swarm};
use super::windows::{Phase, Window};

/// Statuses that a device of these services may report; all others are [`Status::Other`].
const STATUSES: [(WcStatus, Status); 11] = [
    (WcStatus::Success, Status::Success),
    (WcStatus::LocalLengthError, Status::LocalLength),
    (WcStatus::LocalProtectionError, Status::LocalProtection),
    (WcStatus::LocalQpOperationError, Status::LocalOperation),
    (WcStatus::WorkRequestFlushed, Status::Flushed),
    (WcStatus::MwBindError, Status::WindowBind),
    (WcStatus::RemoteInvalidRequest, Status::RemoteInvalid),
    (WcStatus::RemoteAccessError, Status::RemoteAccess),
    (WcStatus::RemoteOperationError, Status::RemoteOperation),
    (WcStatus::RetryExceeded, Status::RetryExceeded),
    (WcStatus::RnrRetryExceeded, Status::RnrRetryExceeded),
];

pub(super) fn status(of: WcStatus) -> Status {
    STATUSES.iter().find(|(status, _)| *status == of).map_or(Status::Other, |(_, status)| *status)
}

fn kind(of: WcOpcode) -> Result<Kind, Violation> {
    Ok(match of {
        WcOpcode::Send => Kind::Send,
        WcOpcode::RdmaWrite => Kind::Write,
        WcOpcode::RdmaRead => Kind::Read,
        WcOpcode::CompareSwap => Kind::CompareSwap,
        WcOpcode::FetchAdd => Kind::FetchAdd,
        WcOpcode::BindMw => Kind::BindWindow,
        WcOpcode::LocalInvalidate => Kind::LocalInvalidate,
        WcOpcode::Flush => Kind::Flush,
        WcOpcode::AtomicWrite => Kind::AtomicWrite,
        WcOpcode::Recv | WcOpcode::RecvRdmaWithImm => {
            return Err(Violation(format!("a send completes as {of:?}")));
        }
    })
}

impl Swarm<'_> {
    /// Takes all completions of a host and judges them.
    pub(super) fn poll(&mut self, host: usize) -> Result<(), Violation> {
        self.drain(host, true)?;
        self.drain(host, false)?;
        // What still was under way to them arrives soon; all are looked at in the end.
        self.judge_vanished(self.vanished.len().saturating_sub(2))?;
        (0..self.hosts[host].own_ends.len())
            .try_for_each(|index| self.tend(self.hosts[host].own_ends[index]))
    }

    /// Memory that was deregistered, from number `first` on, is as it was then.
    fn judge_vanished(&self, first: usize) -> Result<(), Violation> {
        let changed = |(buffer, bytes): &(SharedBuffer, Vec<u8>)| {
            buffer.to_vec().ok().as_ref() != Some(bytes)
        };
        if self.vanished[first..].iter().any(changed) {
            return Err(Violation("memory was written after its deregistration".into()));
        }
        Ok(())
    }

    /// Takes all completions of sends, or of receives.
    fn drain(&mut self, host: usize, sends: bool) -> Result<(), Violation> {
        let mut some = [Wc::default(); 32];
        loop {
            let own = &self.hosts[host];
            let cq = if sends { &own.send_cq } else { &own.recv_cq };
            let polled = cq.poll(&mut some);
            let count = polled.map_err(|error| Violation(error.to_string()))?;
            for wc in &some[..count] {
                self.fabric.mix(wc.wr_id << 8 | wc.status as u64);
                let end = self.hosts[host].ends.get(&wc.qp_num.get()).copied();
                let end = end.ok_or_else(|| {
                    Violation(format!("a completion of queue pair {:?}", wc.qp_num))
                })?;
                if sends { self.sent(end, wc)? } else { self.received(end, wc)? }
            }
            if count < some.len() {
                return Ok(());
            }
        }
    }

    fn sent(&mut self, end: usize, wc: &Wc) -> Result<(), Violation> {
        let status = status(wc.status);
        let kind = if status == Status::Success { kind(wc.opcode)? } else { Kind::Send };
        let completion = Completion { id: wc.wr_id, status, kind, bytes: wc.byte_len };
        self.tell(|| format!("end {end}: request {} ends {status:?}", wc.wr_id));
        let host = self.ends[end].host;
        self.hosts[host].counts.send(&completion);
        let Self { ends, over, .. } = self;
        let judged = ends[end].channel.complete(&completion, |retired| {
            over.push_back(retired);
            Ok(())
        });
        judged.map_err(|Violation(text)| Violation(format!("end {end}: {text}")))?;
        while let Some(retired) = self.over.pop_front() {
            self.over(end, retired)?;
        }
        Ok(())
    }

    /// A request is over.
    fn over(&mut self, end: usize, retired: Retired<Sent>) -> Result<(), Violation> {
        let Retired { id, kind, fate, flushed, carries: Sent { local, remote, then } } = retired;
        let own = self.ends[end].host;
        let peer = self.ends[self.ends[end].peer].host;
        self.hosts[own].counts.retired(kind, flushed);
        let wrong = |Violation(text)| Violation(format!("end {end}, {kind:?} {id}: {text}"));
        self.then(end, fate, then).map_err(wrong)?;
        let reliable = self.ends[end].service.is_reliable();
        if fate == Fate::Done && reliable {
            self.hosts[peer].give(&remote);
        } else {
            // Packets of it may still be under way.
            self.ends[end].quarantine.extend(remote.into_iter().map(|piece| (peer, piece)));
        }
        if fate == Fate::Done {
            self.hosts[own].give(&local);
        } else {
            self.ends[end].quarantine.extend(local.into_iter().map(|piece| (own, piece)));
        }
        Ok(())
    }

    fn then(&mut self, end: usize, fate: Fate, then: Then) -> Result<(), Violation> {
        let own = self.ends[end].host;
        let peer = self.ends[self.ends[end].peer].host;
        let done = fate == Fate::Done;
        match then {
            Then::Nothing | Then::Vanished => Ok(()),
            Then::Written(piece, bytes) => match fate {
                Fate::Done => {
                    self.hosts[peer].scatter(&[piece], &bytes);
                    self.hosts[peer].compare(&[piece])
                }
                Fate::NotDone => self.hosts[peer].compare(&[piece]),
                Fate::Unknown => {
                    self.hosts[peer].forget(&[piece]);
                    Ok(())
                }
            },
            Then::Brought(pieces, bytes) => {
                if !done {
                    self.hosts[own].forget(&pieces);
                    return Ok(());
                }
                self.hosts[own].scatter(&pieces, &bytes);
                self.hosts[own].compare(&pieces)
            }
            Then::Added(piece) if done => {
                let bytes = self.hosts[own].found(&[piece]);
                self.hosts[own].scatter(&[piece], &bytes);
                let value = word_of(&bytes);
                self.hosts[peer].memory.forget(SHARED_WORD..SHARED_WORD + 8);
                self.hosts[peer].additions.found(value)
            }
            Then::Added(piece) => {
                self.hosts[own].forget(&[piece]);
                self.hosts[peer].memory.forget(SHARED_WORD..SHARED_WORD + 8);
                if fate == Fate::Unknown {
                    self.hosts[peer].additions.lost();
                }
                Ok(())
            }
            Then::Swapped { word, now, before, found } => {
                if !done {
                    self.hosts[own].forget(&[found]);
                    self.hosts[peer].memory.forget(word..word + 8);
                    return Ok(());
                }
                self.hosts[peer].memory.write(word, &now.to_ne_bytes());
                self.hosts[own].scatter(&[found], &before.to_ne_bytes());
                self.hosts[own].compare(&[found])
            }
            Then::Bound(which) => {
                if done {
                    self.hosts[own].windows[which].phase = Phase::Bound;
                }
                Ok(())
            }
            Then::Unbound(which) => {
                if done {
                    self.unbound(own, which);
                }
                Ok(())
            }
            Then::Left(which, inner) => {
                self.hosts[peer].windows[which].users -= 1;
                self.then(end, fate, *inner)
            }
        }
    }

    fn unbound(&mut self, host: usize, which: usize) {
        let host = &mut self.hosts[host];
        host.windows[which].phase = Phase::Free;
        let piece = host.windows[which].piece.take();
        let address = |piece: Piece| host.region.remote(piece.at as u64).addr;
        host.windows[which].last = piece.map(address);
        host.give(piece.as_slice());
    }

    fn received(&mut self, end: usize, wc: &Wc) -> Result<(), Violation> {
        let (host, service) = (self.ends[end].host, self.ends[end].service);
        let status = status(wc.status);
        self.tell(|| format!("end {end}: receive {:#x} ends {status:?}", wc.wr_id));
        self.hosts[host].counts.receive(status);
        let Self { hosts, ends, .. } = self;
        let must_fail = ends[end].bad_receive.take_if(|id| *id == wc.wr_id).is_some();
        let queue = match service {
            Service::RcShared => &mut hosts[host].shared,
            Service::Xrc => &mut hosts[host].xrc,
            Service::Rc | Service::Uc | Service::Ud => &mut ends[end].receives,
        };
        let wrong = |Violation(text)| Violation(format!("end {end}: {text}"));
        if must_fail && status == self::status(self.plan.profile().bad_lkey) {
            queue.take(wc.wr_id).map_err(wrong)?;
        } else if must_fail && status != Status::Flushed {
            let text = format!("a receive of memory that is only read ends with {status:?}");
            return Err(wrong(Violation(text)));
        } else if status == Status::Success {
            let pieces = queue.take(wc.wr_id).map_err(wrong)?;
            self.message(end, wc, &pieces).map_err(wrong)?;
            self.hosts[host].give(&pieces);
        } else if status == Status::Flushed {
            let pieces = queue.flush(wc.wr_id).map_err(wrong)?;
            // A message may have been written in part.
            self.hosts[host].forget(&pieces);
            self.hosts[host].give(&pieces);
            let own = &self.ends[end];
            if !(own.failed || own.channel.is_broken() || own.channel.is_interrupted()) {
                return Err(wrong(Violation("a receive was flushed without a reason".into())));
            }
        } else {
            return Err(wrong(Violation(format!("a receive ends with {status:?}"))));
        }
        Ok(())
    }

    /// A message is in the memory of a receive.
    fn message(&mut self, end: usize, wc: &Wc, pieces: &[Piece]) -> Result<(), Violation> {
        let (host, peer) = (self.ends[end].host, self.ends[end].peer);
        let service = self.ends[end].service;
        let arrivals = [
            (WcOpcode::Recv, Arrival::Message),
            (WcOpcode::RecvRdmaWithImm, Arrival::WriteWithImmediate),
        ];
        let arrival = arrivals.iter().find(|(opcode, _)| *opcode == wc.opcode);
        let Some((_, arrival)) = arrival.copied() else {
            return Err(Violation(format!("a receive completes as {:?}", wc.opcode)));
        };
        let headers = if service == Service::Ud { GRH } else { 0 };
        let len = (wc.byte_len as usize).checked_sub(headers);
        let len = len.ok_or_else(|| Violation("a datagram without room for its GRH".into()))?;
        let received = Received {
            arrival,
            len: len as u32,
            imm: wc.flags.contains(WcFlags::WITH_IMM).then_some(wc.imm_data),
            invalidated: wc.flags.contains(WcFlags::WITH_INV).then_some(wc.invalidated_rkey.0),
        };
        if service.is_reliable() {
            let delivery = self.ends[peer].channel.arrive(&received)?;
            let Message { bytes, written, invalidates } = delivery.carries;
            if let Some(which) = invalidates {
                self.unbound(host, which);
            }
            if written.is_some() {
                // It is looked at when the WRITE is over; nothing came into the receive itself.
                return Ok(());
            }
            self.hosts[host].scatter(pieces, &bytes);
            return self.hosts[host].compare(pieces_of(pieces, bytes.len()).as_slice());
        }
        // What a message that lost its end has left behind stays unknown.
        let pieces = pieces_of(pieces, headers + len);
        let all = self.hosts[host].found(&pieces);
        let here = if arrival == Arrival::Message { headers..headers + len } else { 0..0 };
        let bytes = all.get(here).unwrap_or_default();
        let repeats = self.plan.weather.repeats();
        self.ends[end].unreliable.arrived(&received, bytes, repeats)?;
        self.hosts[host].scatter(&pieces, &all);
        Ok(())
    }

    /// A connection that has failed is taken down at both ends, and made anew when everything has
    /// been told.
    fn tend(&mut self, end: usize) -> Result<(), Violation> {
        let peer = self.ends[end].peer;
        let pair = [end, peer];
        if !self.ends[end].failed && pair.iter().any(|one| self.ends[*one].channel.is_broken()) {
            for one in pair {
                let end = &mut self.ends[one];
                end.failed = true;
                end.channel.interrupt();
                end.channel.allow_silence();
                let down = end.qp.move_to(QpState::Err);
                down.map_err(|error| Violation(error.to_string()))?;
                if let Some(target) = &end.target {
                    let error = QpAttributes { state: QpState::Err, ..QpAttributes::default() };
                    let down = target.modify(&error, QpAttributeMask::STATE);
                    down.map_err(|error| Violation(error.to_string()))?;
                }
            }
            self.tell(|| format!("ends {end} and {peer} have failed"));
            // What is flushed by that is told at once.
            for one in pair {
                self.drain(self.ends[one].host, true)?;
                self.drain(self.ends[one].host, false)?;
            }
        }
        let told = |one: &usize| {
            let end = &self.ends[*one];
            end.failed && end.channel.is_told() && end.receives.is_empty()
        };
        if !pair.iter().all(told) {
            return Ok(());
        }
        // Whatever had arrived before the failure has been told by now.
        pair.iter().try_for_each(|one| self.drain(self.ends[*one].host, false))?;
        for one in pair {
            let rest: Vec<_> = self.ends[one].channel.settle().collect();
            rest.into_iter().try_for_each(|retired| self.over(one, retired))?;
        }
        if let Some(one) = pair.iter().find(|one| self.ends[**one].channel.expected() != 0) {
            let missing = self.ends[*one].channel.expected();
            return Err(Violation(format!(
                "end {one}: {missing} messages of requests that have succeeded never arrived"
            )));
        }
        self.renew(pair)
    }

    fn renew(&mut self, pair: [usize; 2]) -> Result<(), Violation> {
        let pair = if pair[0] < pair[1] { pair } else { [pair[1], pair[0]] };
        let wrong = |error: softrnic_verbs::Error| Violation(error.to_string());
        for one in pair {
            let end = &mut self.ends[one];
            end.channel = Default::default();
            if self.hosts.iter().any(|host| host.parted || host.paused) {
                end.channel.allow_silence();
            }
            end.receives = Receives::new(false);
            end.bad_receive = None;
            end.failed = false;
            let host = end.host;
            for (host, piece) in std::mem::take(&mut end.quarantine) {
                self.hosts[host].give(&[piece]);
            }
            let end = &self.ends[one];
            let numbers = [Some(end.qp.num().get()), end.target.as_ref().map(|t| t.num().get())];
            for number in numbers.into_iter().flatten() {
                self.hosts[host].ends.remove(&number);
            }
            let host = &mut self.hosts[host];
            for window in host
                .windows
                .iter_mut()
                .filter(|window| window.owner == one && window.phase != Phase::Free)
            {
                let piece = window.piece.take();
                let new = Window::new(&host.pd, window.kind);
                *window = new.map_err(|error| Violation(error.to_string()))?;
                if let Some(piece) = piece {
                    window.piece = Some(piece);
                }
            }
            let back: Vec<Piece> = host
                .windows
                .iter_mut()
                .filter(|window| window.phase == Phase::Free)
                .filter_map(|window| window.piece.take())
                .collect();
            host.give(&back);
        }
        let [near, far] = pair;
        let of = [self.ends[near].host, self.ends[far].host];
        let service = self.ends[near].service;
        let mut chance = Chance::new(self.plan.seed ^ self.renewed << 40 ^ near as u64);
        let made = make(&self.hosts, of, service, self.plan, &mut chance).map_err(wrong)?;
        for (one, Made { qp, target, ah }) in pair.into_iter().zip(made) {
            let end = &mut self.ends[one];
            (end.qp, end.target, end.ah) = (qp, target, ah);
            self.know(one);
            // Nobody knows what the last swaps did.
            let word = own_word(one);
            let host = &mut self.hosts[of[usize::from(one == near)]];
            let _ = host.region.buffer().store_u64(word, 0);
            host.memory.write(word, &[0; 8]);
            self.ends[one].own_word = 0;
        }
        self.renewed += 1;
        self.tell(|| format!("ends {near} and {far} are connected anew"));
        Ok(())
    }

    /// Posts receives where messages still wait for one.
    pub(super) fn post_missing_receives(
        &mut self,
        host: usize,
        chance: &mut Chance,
    ) -> Result<(), Violation> {
        for index in 0..self.hosts[host].own_ends.len() {
            let end = self.hosts[host].own_ends[index];
            let peer = self.ends[end].peer;
            if !self.ends[end].failed && self.ends[peer].channel.expected() > 0 {
                while self.receive(end, chance)? {}
            }
        }
        Ok(())
    }

    /// Whether everything has been told that must be.
    pub(super) fn is_idle(&self) -> bool {
        self.ends.iter().all(|end| !end.failed && end.channel.is_idle())
    }

    pub(super) fn what_is_open(&self) -> String {
        let of = |(number, end): (usize, &super::ends::End)| {
            let (open, expected) = (end.channel.open(), end.channel.expected());
            let waits = end.failed || !end.channel.is_idle();
            let failed = if end.failed { ", failed" } else { "" };
            waits.then(|| {
                format!("end {number}: {open} requests open, {expected} messages missing{failed}")
            })
        };
        self.ends.iter().enumerate().filter_map(of).collect::<Vec<_>>().join("; ")
    }

    /// Nothing is left to happen.
    pub(super) fn conclude(mut self) -> Result<Outcome, Violation> {
        for end in 0..self.ends.len() {
            let rest: Vec<_> = self.ends[end].channel.settle().collect();
            rest.into_iter().try_for_each(|retired| self.over(end, retired))?;
            let state = self.ends[end].qp.query().map_err(|error| Violation(error.to_string()))?;
            if state.0.state != QpState::Rts {
                return Err(Violation(format!("end {end} is in {:?} at the end", state.0.state)));
            }
        }
        self.judge_vanished(0)?;
        let devices: Result<Vec<_>, _> = self.hosts.iter().map(Host::counters).collect();
        let devices = devices.map_err(|error| Violation(error.to_string()))?;
        let again = |device: &BTreeMap<_, u64>| device.get("completer_retry_err") != Some(&0);
        let repeated = self.plan.weather.repeats() || devices.iter().any(again);
        let wire = self.wire.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut packets = 0;
        for (number, host) in self.hosts.iter_mut().enumerate() {
            let wrong = |Violation(text)| Violation(format!("host {number}: {text}"));
            let word = host.region.buffer().load_u64(SHARED_WORD).unwrap_or(0);
            host.additions.check(word).map_err(wrong)?;
            host.compare_all().map_err(wrong)?;
            host.guarded.compare().map_err(wrong)?;
            host.stranger.compare().map_err(wrong)?;
            let device = &devices[number];
            let [sent, came] = wire[number];
            let counts = Counts {
                sent,
                came,
                failures: self.renewed,
                repeated,
                counts_refusals: self.plan.profile().responder_errors_counted,
                ..host.counts
            };
            let of = |name: &str| device.get(name).copied().unwrap_or(0);
            counts.check(&of).map_err(wrong)?;
            packets += traffic(host, number)?;
            events(host, number)?;
        }
        Ok(Outcome {
            event_hash: self.fabric.event_hash().get(),
            packets,
            requests: self.requests,
            renewed: self.renewed,
            time: self.fabric.now(),
        })
    }
}

/// Packets that a host has sent: the device must have counted those that its link has.
fn traffic(host: &Host, number: usize) -> Result<u64, Violation> {
    let counters = host.counters().map_err(|error| Violation(error.to_string()))?;
    let of = |name: &str| counters.get(name).copied().unwrap_or(0);
    let (sent, received) = (of("tx_packets"), of("rx_packets") - of("rx_bad_icrc"));
    for (name, should) in [("sent_pkts", sent), ("rcvd_pkts", received)] {
        let is = of(name);
        if is != should {
            let text = format!("host {number}: counter {name} is {is} and must be {should}");
            return Err(Violation(text));
        }
    }
    Ok(sent)
}

/// Of asynchronous events there are only those of connections that had to fail.
fn events(host: &Host, number: usize) -> Result<(), Violation> {
    while let Ok(Some(event)) = host.context.next_async_event(Some(Duration::ZERO)) {
        let foreseen = matches!(
            event,
            AsyncEvent::QpAccessError(_)
                | AsyncEvent::QpRequestError(_)
                | AsyncEvent::QpFatal(_)
                | AsyncEvent::LastWqeReached(_)
                | AsyncEvent::CommunicationEstablished(_)
        );
        if !foreseen {
            return Err(Violation(format!("host {number} has raised {event:?}")));
        }
    }
    Ok(())
}

/// The first `len` bytes of some pieces.
fn pieces_of(pieces: &[Piece], mut len: usize) -> Vec<Piece> {
    let mut first = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let here = piece.len.min(len);
        first.push(Piece { len: here, ..*piece });
        len -= here;
    }
    first
}

fn word_of(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word))
}
