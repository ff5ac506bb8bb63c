//! Windows and receives as they may not be used: each ends the connection in the way that the rules
//! demand.
#![expect(clippy::cast_possible_truncation, reason = "a plan bounds all lengths")]

use softrnic_reference::{Kind, Outcome, Received, Status, Violation};
use softrnic_verbs::{Access, BindInfo, Key, RecvWr, SendOp, Sge, WindowType};

use super::act::{Posting, sge};
use super::chance::Chance;
use super::ends::{Message, Then};
use super::plan::Service;
use super::run::Swarm;
use super::windows::{Phase, Window};

/// Bytes of a receive that may not be written.
const LEN: usize = 8;

type Posted = Option<Result<(), Violation>>;

impl Swarm<'_> {
    /// A window is used by somebody or in a way that it does not serve.
    pub(super) fn misuse(&mut self, end: usize, chance: &mut Chance) -> Posted {
        // There is always another domain, and seldom a window in the state that the others want: the
        // first of these that can be done is done.
        let seldom: [fn(&mut Self, usize, &mut Chance) -> Posted; 5] = [
            Self::through_unbound,
            Self::bind_again,
            Self::through_another_pair,
            Self::invalidate_here,
            Self::invalidate_there,
        ];
        let first = chance.index(2 * seldom.len());
        if first < seldom.len() {
            let mut from_first = seldom.iter().cycle().skip(first).take(seldom.len());
            return from_first.find_map(|misuse| misuse(self, end, chance));
        }
        if chance.percent(50) {
            self.through_another_domain(end, chance)
        } else {
            self.bind_across(end, chance)
        }
    }

    /// A window of the peer that does not serve it any more.
    fn through_unbound(&mut self, end: usize, chance: &mut Chance) -> Posted {
        let windows = &self.peer_host(end).windows;
        let free = windows
            .iter()
            .filter(|window| window.phase == Phase::Free && window.can_be_invalidated());
        let (key, address) = free.filter_map(|window| Some((window.key, window.last?))).next()?;
        self.intrude(end, (address, key), chance)
    }

    /// A window of type 2 that another queue pair of the peer's host has bound.
    fn through_another_pair(&mut self, end: usize, chance: &mut Chance) -> Posted {
        let peer = self.ends[end].peer;
        let host = self.peer_host(end);
        let (key, piece) =
            host.windows.iter().find_map(|window| belongs_elsewhere(window, peer))?;
        let address = host.region.remote(piece.at as u64).addr;
        self.intrude(end, (address, key), chance)
    }

    /// What is in another protection domain of the peer's host: a region, or a window.
    fn through_another_domain(&mut self, end: usize, chance: &mut Chance) -> Posted {
        let by_window = chance.percent(75);
        let offset = chance.index(16) * LEN;
        let target = self.peer_host(end).stranger.remote(offset, by_window);
        self.intrude(end, target, chance)
    }

    /// A READ or WRITE of one byte, which is inside of all that it might be for, that the peer must
    /// refuse.
    fn intrude(&mut self, end: usize, (address, rkey): (u64, Key), chance: &mut Chance) -> Posted {
        let piece = self.host(end).take_word()?;
        let host = self.host(end);
        host.refresh(&[piece]);
        let reads = chance.percent(50);
        let (kind, op) = if reads {
            (Kind::Read, SendOp::Read { remote_addr: address, rkey })
        } else {
            (Kind::Write, SendOp::Write { remote_addr: address, rkey, imm: None })
        };
        let mut posting = Posting::new(kind, op);
        posting.sges = vec![Sge { length: 1, ..sge(self.host(end), &piece) }];
        if reads {
            posting.sent.then = Then::Brought(vec![piece], Vec::new());
        }
        posting.sent.local = vec![piece];
        posting.outcome = Outcome::Fails(Status::RemoteAccess);
        Some(self.post(end, posting, chance))
    }

    /// A window of type 2 of this host that is bound is bound once more, by who has bound it.
    fn bind_again(&mut self, end: usize, chance: &mut Chance) -> Posted {
        let is_bound =
            |window: &&Window| window.phase == Phase::Bound && window.can_be_invalidated();
        let of = self.ends[end].host;
        let owns = |window: &Window| {
            let is_up = !self.ends[window.owner].failed && self.room(window.owner) >= 2;
            is_up.then_some(window.owner)
        };
        let host = &self.hosts[of];
        let mut found = host.windows.iter().enumerate().filter(|(_, window)| is_bound(window));
        let (which, owner) =
            found.find_map(|(which, window)| owns(window).map(|owner| (which, owner)))?;
        let (mr_lkey, base) = (host.region.lkey(), host.region.remote(0).addr);
        let window = &mut self.hosts[of].windows[which];
        // Nobody uses it from now on: with the connection it goes.
        window.phase = Phase::Changing;
        let (key, window_type, piece) = (window.key, window.kind, window.piece?);
        let addr = base + piece.at as u64;
        let access = Access::REMOTE_READ;
        let bind = BindInfo { mr_lkey, addr, length: 1 + piece.len as u64 / 2, access };
        self.bind_in_vain(owner, (key, window_type), bind, chance)
    }

    /// A window and a region of different protection domains.
    fn bind_across(&mut self, end: usize, chance: &mut Chance) -> Posted {
        let host = self.host(end);
        let access = Access::REMOTE_READ;
        if chance.percent(50) {
            let free = host
                .windows
                .iter()
                .find(|window| window.phase == Phase::Free && window.can_be_invalidated())?;
            let target = (free.key, free.kind);
            let Sge { addr, lkey, .. } = host.stranger.sge(0);
            let bind = BindInfo { mr_lkey: lkey, addr, length: LEN as u64, access };
            return self.bind_in_vain(end, target, bind, chance);
        }
        let target = (host.stranger.unbound(), WindowType::Type2A);
        let (mr_lkey, addr) = (host.region.lkey(), host.region.remote(0).addr);
        let bind = BindInfo { mr_lkey, addr, length: LEN as u64, access };
        self.bind_in_vain(end, target, bind, chance)
    }

    fn bind_in_vain(
        &mut self,
        end: usize,
        (window, window_type): (Key, WindowType),
        bind: BindInfo,
        chance: &mut Chance,
    ) -> Posted {
        let new_rkey = Key::from_parts(window.index(), window.variant().wrapping_add(1));
        let op = SendOp::BindMw { window, new_rkey, window_type, bind };
        let mut posting = Posting::new(Kind::BindWindow, op);
        posting.outcome = Outcome::Fails(Status::WindowBind);
        Some(self.post(end, posting, chance))
    }

    /// A window of this host that another queue pair has bound.
    fn invalidate_here(&mut self, end: usize, chance: &mut Chance) -> Posted {
        let windows = &self.host(end).windows;
        let (key, _) = windows.iter().find_map(|window| belongs_elsewhere(window, end))?;
        let mut posting = Posting::new(Kind::LocalInvalidate, SendOp::LocalInvalidate { key });
        posting.outcome = Outcome::Fails(Status::WindowBind);
        Some(self.post(end, posting, chance))
    }

    /// The same of the peer's host, by a SEND.
    fn invalidate_there(&mut self, end: usize, chance: &mut Chance) -> Posted {
        let peer = self.ends[end].peer;
        let windows = &self.peer_host(end).windows;
        let (key, _) = windows.iter().find_map(|window| belongs_elsewhere(window, peer))?;
        let len = self.length(end, chance);
        let payload = self.payload(end, len, chance)?;
        let op = SendOp::Send { imm: None, invalidate: Some(key) };
        let mut posting = Posting::new(Kind::Send, op);
        let what = Received { invalidated: Some(key.0), ..Received::message(len as u32) };
        let bytes = payload.bytes.clone();
        // It never arrives, but a receive must be there for the peer to look at it.
        self.deliver(end, &mut posting, what, Message { bytes, written: None, invalidates: None });
        self.load(end, &mut posting, payload);
        posting.outcome = Outcome::Fails(Status::RemoteAccess);
        Some(self.post(end, posting, chance))
    }

    /// A receive of memory that the device may not write, and a SEND that comes to it.
    pub(super) fn receive_badly(&mut self, end: usize, chance: &mut Chance) -> Posted {
        let peer = self.ends[end].peer;
        let waits = |one: usize| {
            let end = &self.ends[one];
            !end.failed && !end.channel.is_broken() && !end.channel.is_interrupted()
        };
        // Only so is it known which message the receive is for.
        let is_next = self.ends[end].service == Service::Rc
            && waits(end)
            && waits(peer)
            && self.ends[end].receives.is_empty()
            && self.ends[peer].channel.open() == 0
            && self.room(peer) >= 2;
        if !is_next {
            return None;
        }
        let len = 1 + chance.index(LEN);
        let payload = self.payload(peer, len, chance)?;
        let wr_id = self.ends[end].next_id << 20 | end as u64;
        let sges = [self.hosts[self.ends[end].host].guarded.read_only()];
        let own = &mut self.ends[end];
        own.next_id += 1;
        own.bad_receive = Some(wr_id);
        let posted = own.qp.post_recv(&[RecvWr { wr_id, sges: &sges }]);
        if let Err(error) = posted {
            return Some(Err(Violation(format!("a receive is refused: {error}"))));
        }
        own.receives.post(wr_id, Vec::new());
        self.tell(|| format!("end {end} posts receive {wr_id:#x} of memory that is only read"));
        let op = SendOp::Send { imm: None, invalidate: None };
        let mut posting = Posting::new(Kind::Send, op);
        self.load(peer, &mut posting, payload);
        posting.outcome = Outcome::Fails(Status::RemoteOperation);
        Some(self.post(peer, posting, chance))
    }
}

/// Key and place of a window that is bound, and that serves another end than this one alone.
fn belongs_elsewhere(window: &Window, end: usize) -> Option<(Key, super::hosts::Piece)> {
    let is_it = window.phase == Phase::Bound && window.owner != end && window.can_be_invalidated();
    window.piece.filter(|_| is_it).map(|piece| (window.key, piece))
}
