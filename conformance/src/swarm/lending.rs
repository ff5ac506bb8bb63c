//! Windows: bound, used, and ended.
#![expect(clippy::cast_possible_truncation, reason = "a plan bounds all lengths")]

use softrnic_reference::{Kind, Received, Violation};
use softrnic_verbs::{Access, BindInfo, Key, SendOp, WindowType};

use super::act::{Posting, sge};
use super::chance::Chance;
use super::ends::{Message, Then};
use super::hosts::Piece;
use super::run::Swarm;
use super::windows::Phase;

impl Swarm<'_> {
    pub(super) fn bind(
        &mut self,
        end: usize,
        chance: &mut Chance,
    ) -> Option<Result<(), Violation>> {
        let len = 1 + self.length(end, chance);
        let host = self.host(end);
        let which = host.windows.iter().position(|window| window.phase == Phase::Free)?;
        let piece = host.take(len, chance)?;
        host.refresh(&[piece]);
        let (lkey, addr) = (host.region.lkey(), host.region.remote(piece.at as u64).addr);
        let window = &mut host.windows[which];
        let old = window.key;
        // The key of one of type 1 is the device's to choose, when the bind is posted.
        if window.kind != WindowType::Type1 {
            window.key = Key::from_parts(old.index(), old.variant().wrapping_add(1));
        }
        (window.phase, window.owner, window.piece) = (Phase::Changing, end, Some(piece));
        let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
        let bind = BindInfo { mr_lkey: lkey, addr, length: len as u64, access };
        let op =
            SendOp::BindMw { window: old, new_rkey: window.key, window_type: window.kind, bind };
        let mut posting = Posting::new(Kind::BindWindow, op);
        posting.sent.then = Then::Bound(which);
        posting.told = true;
        Some(self.post(end, posting, chance))
    }

    /// A window of the peer that this connection may use, and that nobody does now.
    fn window(&mut self, end: usize) -> Option<usize> {
        let peer = self.ends[end].peer;
        self.peer_host(end).windows.iter().position(|window| {
            window.phase == Phase::Bound && window.owner == peer && window.users == 0
        })
    }

    pub(super) fn use_window(
        &mut self,
        end: usize,
        chance: &mut Chance,
    ) -> Option<Result<(), Violation>> {
        let which = self.window(end)?;
        let host = self.peer_host(end);
        let (rkey, whole) = (host.windows[which].key, host.windows[which].piece?);
        let from = chance.index(whole.len);
        let len = 1 + chance.index(whole.len - from);
        let part = Piece { slot: whole.slot, at: whole.at + from, len };
        let remote_addr = host.region.remote(part.at as u64).addr;
        let reads = chance.percent(50);
        let mut posting = if reads {
            let bytes = host.gather(&[part]);
            let into = self.host(end).take(len, chance)?;
            let mut posting = Posting::new(Kind::Read, SendOp::Read { remote_addr, rkey });
            posting.answer = Some(len as u32);
            posting.sges = vec![sge(self.host(end), &into)];
            posting.sent.local = vec![into];
            posting.sent.then = Then::Left(which, Box::new(Then::Brought(vec![into], bytes)));
            posting
        } else {
            let payload = self.payload(end, len, chance)?;
            let op = SendOp::Write { remote_addr, rkey, imm: None };
            let mut posting = Posting::new(Kind::Write, op);
            let then = Then::Written(part, payload.bytes.clone());
            posting.sent.then = Then::Left(which, Box::new(then));
            self.load(end, &mut posting, payload);
            posting
        };
        posting.told = true;
        self.peer_host(end).windows[which].users += 1;
        Some(self.post(end, posting, chance))
    }

    /// Ends a binding: the owner by itself, or the peer by a SEND.
    pub(super) fn unbind(
        &mut self,
        end: usize,
        chance: &mut Chance,
    ) -> Option<Result<(), Violation>> {
        if chance.percent(50) {
            let host = self.host(end);
            let own = host.windows.iter().position(|window| {
                window.phase == Phase::Bound && window.owner == end && window.users == 0
            })?;
            let window = &mut host.windows[own];
            window.phase = Phase::Changing;
            let mut posting = if window.can_be_invalidated() {
                let op = SendOp::LocalInvalidate { key: window.key };
                Posting::new(Kind::LocalInvalidate, op)
            } else {
                let (window, new_rkey, window_type) = (window.key, window.key, window.kind);
                let mr_lkey = host.region.lkey();
                let bind = BindInfo { mr_lkey, addr: 0, length: 0, access: Access::empty() };
                let op = SendOp::BindMw { window, new_rkey, window_type, bind };
                Posting::new(Kind::BindWindow, op)
            };
            posting.sent.then = Then::Unbound(own);
            posting.told = true;
            return Some(self.post(end, posting, chance));
        }
        let which = self.window(end)?;
        if !self.peer_host(end).windows[which].can_be_invalidated() {
            return None;
        }
        let len = self.length(end, chance);
        let payload = self.payload(end, len, chance)?;
        let window = &mut self.peer_host(end).windows[which];
        window.phase = Phase::Changing;
        let key = window.key;
        let op = SendOp::Send { imm: None, invalidate: Some(key) };
        let mut posting = Posting::new(Kind::Send, op);
        let what = Received { invalidated: Some(key.0), ..Received::message(len as u32) };
        let bytes = payload.bytes.clone();
        let message = Message { bytes, written: None, invalidates: Some(which) };
        self.deliver(end, &mut posting, what, message);
        self.load(end, &mut posting, payload);
        Some(self.post(end, posting, chance))
    }
}
