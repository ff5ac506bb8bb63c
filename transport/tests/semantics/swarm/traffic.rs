//! What is posted, and what must come of it.

use std::ops::Range;

use softrnic_model::verbs::{Access, BindInfo, Key, QpType, SendFlags, SendOp, WcOpcode};

use crate::bench::{BASE, Bench, EndId, Remote, Rng, Wr, send, send_imm, send_invalidate, wr};

use super::oracle::{COUNTER, Held, Incoming, Oracle, Phase, Posted, Then, own_word};
use super::plan::Plan;

/// What a step works with.
struct Step<'a> {
    bench: &'a mut Bench,
    oracle: &'a mut Oracle,
    plan: &'a Plan,
    rng: &'a mut Rng,
    end: EndId,
    peer: EndId,
    /// Side of the end.
    side: usize,
}

/// One step: time passes, completions are polled, and something is posted.
pub(super) fn step(bench: &mut Bench, oracle: &mut Oracle, plan: &Plan, rng: &mut Rng) {
    if rng.chance(60) {
        bench.run_for(rng.below(plan.pace_ns));
    }
    if rng.chance(50) {
        oracle.poll(bench);
    }
    let ends = oracle.posted.len() as u64;
    let end = EndId(rng.below(ends) as usize);
    let peer = bench.end(end).peer.unwrap();
    let side = oracle.side_of(end);
    let receive = rng.chance(plan.receives);
    let mut step = Step { bench, oracle, plan, rng, end, peer, side };
    if receive {
        step.receive();
    } else if step.oracle.room(end) > 0 {
        step.something();
    }
}

/// Posts receives where messages still wait for one.
pub(super) fn post_missing_receives(
    bench: &mut Bench,
    oracle: &mut Oracle,
    plan: &Plan,
    rng: &mut Rng,
) {
    for end in (0..oracle.posted.len()).map(EndId) {
        let (peer, side) = (bench.end(end).peer.unwrap(), oracle.side_of(end));
        if !oracle.incoming[end.0].is_empty() {
            Step { bench, oracle, plan, rng, end, peer, side }.receive();
        }
    }
}

impl Step<'_> {
    fn receive(&mut self) {
        let queue = self.oracle.queue_of(self.end);
        let cap = self.plan.setup.cap.max_recv_wr as usize;
        if self.oracle.receives[queue].len()
            >= self.plan.setup.srq.map_or(cap, |s| s.max_wr as usize)
        {
            return;
        }
        // Longer than any message, for nobody knows which one it will be.
        let len = self.plan.message_max + self.rng.below(100);
        let Some(pieces) = self.oracle.ground[self.side].take_pieces(self.rng, len, 4) else {
            return;
        };
        let id = self.oracle.next_id();
        let request = pieces.iter().cloned().fold(wr(id, send()), Wr::at);
        self.bench.try_recv(self.end, &request).unwrap();
        self.oracle.receives[queue].push_back((id, pieces));
    }

    fn something(&mut self) {
        match self.rng.below(18) {
            16 => self.write_word(),
            17 => self.flush(),
            0..4 => self.send(),
            4..7 => self.write(),
            7..10 => self.read(),
            10 => self.count_one(),
            11 => self.own_word(),
            12 => self.read_and_pass_on(),
            13 => self.bind(),
            14 => self.use_window(),
            _ => self.unbind(),
        };
    }

    /// A length that is interesting more often than chance would have it.
    fn length(&mut self) -> u64 {
        let mtu = u64::from(self.plan.setup.mtu.bytes());
        let around = mtu * self.rng.below(4) + self.rng.below(3);
        let lengths = [0, 1, 8, around.saturating_sub(1), self.rng.below(self.plan.message_max)];
        (*self.rng.pick(&lengths)).min(self.plan.message_max)
    }

    fn local(&mut self, len: u64) -> Option<Vec<Range<u64>>> {
        self.oracle.ground[self.side].take_pieces(self.rng, len, 4)
    }

    fn remote(&mut self, len: u64) -> Option<Range<u64>> {
        self.oracle.ground[1 - self.side].take(self.rng, len)
    }

    fn remote_key(&self) -> Remote {
        self.bench.remote(self.peer)
    }

    /// Posts a request with `pieces` as local memory, which are held until it completes.
    fn post(&mut self, op: SendOp, local: &[Range<u64>], posted: Posted) {
        let request = local.iter().cloned().fold(wr(posted.id, op), Wr::at);
        self.post_as(request, posted);
    }

    fn post_as(&mut self, request: Wr, posted: Posted) {
        let request = if posted.signaled { request } else { request.unsignaled() };
        let request = if self.rng.chance(5) {
            request.with_flags(SendFlags::FENCE)
        } else if self.rng.chance(20) {
            request.with_flags(SendFlags::SOLICITED)
        } else {
            request
        };
        self.oracle.post(self.bench, self.end, request, posted);
    }

    fn posted(&mut self, opcode: WcOpcode, then: Then) -> Posted {
        // The last slot is signalled, or polling would never free one again.
        let signaled = self.oracle.room(self.end) <= 2 || self.rng.chance(60);
        Posted {
            id: self.oracle.next_id(),
            signaled,
            opcode,
            byte_len: None,
            held: Vec::new(),
            then,
        }
    }

    fn hold(&self, posted: &mut Posted, local: Vec<Range<u64>>, remote: Option<Range<u64>>) {
        posted.held.push(Held { side: self.side, pieces: local });
        posted.held.extend(remote.map(|range| Held { side: 1 - self.side, pieces: vec![range] }));
    }

    /// The bytes of a message: inline, or gathered.
    fn message(&mut self, len: u64) -> Option<(Vec<Range<u64>>, Vec<u8>, bool)> {
        let inline = len <= u64::from(self.plan.setup.cap.max_inline_data) && self.rng.chance(30);
        if inline {
            let bytes = (0..len).map(|_| self.rng.next() as u8).collect();
            return Some((Vec::new(), bytes, true));
        }
        let pieces = self.local(len)?;
        let bytes = self.oracle.ground[self.side].gather(&pieces);
        Some((pieces, bytes, false))
    }

    fn request(
        &self,
        id: u64,
        op: SendOp,
        pieces: &[Range<u64>],
        bytes: &[u8],
        inline: bool,
    ) -> Wr {
        if inline {
            wr(id, op).inline(bytes)
        } else {
            pieces.iter().cloned().fold(wr(id, op), Wr::at)
        }
    }

    fn send(&mut self) -> Option<()> {
        let len = self.length();
        let (pieces, bytes, inline) = self.message(len)?;
        let imm = self.rng.chance(30).then(|| self.rng.next() as u32);
        let mut posted = self.posted(WcOpcode::Send, Then::Nothing);
        let op = imm.map_or_else(send, send_imm);
        let request = self.request(posted.id, op, &pieces, &bytes, inline);
        self.hold(&mut posted, pieces, None);
        let incoming =
            Incoming { opcode: WcOpcode::Recv, bytes, written: None, imm, invalidates: None };
        self.oracle.incoming[self.peer.0].push_back(incoming);
        self.post_as(request, posted);
        Some(())
    }

    fn write(&mut self) -> Option<()> {
        let len = self.length();
        let target = self.remote(len)?;
        let Some((pieces, bytes, inline)) = self.message(len) else {
            self.oracle.ground[1 - self.side].give_back(&[target]);
            return None;
        };
        let imm = self.rng.chance(30).then(|| self.rng.next() as u32);
        let mut posted = self.posted(WcOpcode::RdmaWrite, Then::Nothing);
        let remote = self.remote_key();
        // Nothing is looked up for a length of 0: any key will do.
        let remote = if len == 0 { Remote { key: Key(self.rng.next() as u32) } } else { remote };
        let op = match imm {
            Some(imm) => remote.write_imm(target.start, imm),
            None => remote.write(target.start),
        };
        let request = self.request(posted.id, op, &pieces, &bytes, inline);
        self.oracle.ground[1 - self.side].scatter(std::slice::from_ref(&target), &bytes);
        self.hold(&mut posted, pieces, Some(target.clone()));
        if imm.is_some() {
            let written = Some(target);
            let opcode = WcOpcode::RecvRdmaWithImm;
            let incoming = Incoming { opcode, bytes, written, imm, invalidates: None };
            self.oracle.incoming[self.peer.0].push_back(incoming);
        }
        self.post_as(request, posted);
        Some(())
    }

    fn read(&mut self) -> Option<()> {
        let len = self.length();
        let source = self.remote(len)?;
        let Some(pieces) = self.local(len) else {
            self.oracle.ground[1 - self.side].give_back(&[source]);
            return None;
        };
        let op = self.remote_key().read(source.start);
        self.brings(&source, &pieces);
        let mut posted = self.posted(WcOpcode::RdmaRead, Then::Brought(pieces.clone()));
        posted.byte_len = Some(len as u32);
        self.hold(&mut posted, pieces.clone(), Some(source));
        self.post(op, &pieces, posted);
        Some(())
    }

    fn brings(&mut self, source: &Range<u64>, pieces: &[Range<u64>]) {
        let bytes = self.oracle.ground[1 - self.side].gather(std::slice::from_ref(source));
        self.oracle.ground[self.side].scatter(pieces, &bytes);
    }

    /// Adds 1 to the counter of the other side, together with everybody else.
    fn count_one(&mut self) -> Option<()> {
        let pieces = self.local(8).filter(|pieces| pieces.len() == 1)?;
        let op = self.remote_key().add(COUNTER, 1);
        let mut posted = self.posted(WcOpcode::FetchAdd, Then::Found(pieces[0].clone()));
        posted.byte_len = Some(8);
        self.hold(&mut posted, pieces.clone(), None);
        self.post(op, &pieces, posted);
        Some(())
    }

    /// Changes the word of the other side that only this queue pair uses.
    fn own_word(&mut self) -> Option<()> {
        let pieces = self.local(8)?;
        let at = own_word(self.end);
        let word = at..at + 8;
        let found = self.oracle.ground[1 - self.side].gather(std::slice::from_ref(&word));
        let value = u64::from_ne_bytes(found.clone().try_into().unwrap());
        let (remote, operand) = (self.remote_key(), self.rng.next());
        let (op, opcode, after) = match self.rng.below(3) {
            0 => (remote.add(at, operand), WcOpcode::FetchAdd, value.wrapping_add(operand)),
            1 => (remote.swap(at, value, operand), WcOpcode::CompareSwap, operand),
            _ => (remote.swap(at, !value, operand), WcOpcode::CompareSwap, value),
        };
        self.oracle.ground[1 - self.side].scatter(&[word], &after.to_ne_bytes());
        self.oracle.ground[self.side].scatter(&pieces, &found);
        let mut posted = self.posted(opcode, Then::Brought(pieces.clone()));
        posted.byte_len = Some(8);
        self.hold(&mut posted, pieces.clone(), None);
        self.post(op, &pieces, posted);
        Some(())
    }

    /// Replaces the word of the other side that only this queue pair uses.
    fn write_word(&mut self) -> Option<()> {
        let (pieces, bytes, inline) = self.message(8)?;
        let word = own_word(self.end)..own_word(self.end) + 8;
        self.oracle.ground[1 - self.side].scatter(std::slice::from_ref(&word), &bytes);
        let mut posted = self.posted(WcOpcode::AtomicWrite, Then::Nothing);
        let op = self.remote_key().atomic_write(word.start);
        let request = self.request(posted.id, op, &pieces, &bytes, inline);
        self.hold(&mut posted, pieces, None);
        self.post_as(request, posted);
        Some(())
    }

    /// Asks for what is so already.
    fn flush(&mut self) -> Option<()> {
        let op = self.remote_key().flush(self.rng.below(1000), self.rng.below(1000) as u32);
        let posted = self.posted(WcOpcode::Flush, Then::Nothing);
        self.post(op, &[], posted);
        Some(())
    }

    /// A READ, and a fenced WRITE of what it brings.
    fn read_and_pass_on(&mut self) -> Option<()> {
        if self.oracle.room(self.end) < 3 {
            return None;
        }
        let len = self.length();
        let (source, target) = (self.remote(len)?, self.remote(len));
        let pieces = target.is_some().then(|| self.local(len)).flatten();
        let (Some(target), Some(pieces)) = (target.clone(), pieces) else {
            self.oracle.ground[1 - self.side].give_back(&[source]);
            self.oracle.ground[1 - self.side].give_back(target.as_slice());
            return None;
        };
        let remote = self.remote_key();
        self.brings(&source, &pieces);
        let bytes = self.oracle.ground[self.side].gather(&pieces);
        self.oracle.ground[1 - self.side].scatter(std::slice::from_ref(&target), &bytes);
        let mut read = self.posted(WcOpcode::RdmaRead, Then::Nothing);
        self.hold(&mut read, Vec::new(), Some(source.clone()));
        self.post(remote.read(source.start), &pieces, read);
        let mut write = self.posted(WcOpcode::RdmaWrite, Then::Brought(pieces.clone()));
        self.hold(&mut write, pieces.clone(), Some(target.clone()));
        let request = self.request(write.id, remote.write(target.start), &pieces, &[], false);
        self.post_as(request.with_flags(SendFlags::FENCE), write);
        Some(())
    }

    fn bind(&mut self) -> Option<()> {
        if self.plan.setup.qp_type == QpType::XrcSend {
            return None; // a window of type 2 serves who has bound it, and that never serves
        }
        let windows = &self.oracle.windows[self.side];
        let which = windows.iter().position(|window| window.phase == Phase::Free)?;
        let len = 1 + self.rng.below(self.plan.message_max);
        let range = self.oracle.ground[self.side].take(self.rng, len)?;
        let mr_lkey = self.bench.end(self.end).key;
        let window = &mut self.oracle.windows[self.side][which];
        let before = window.key;
        window.key = Key::from_parts(before.index(), before.variant().wrapping_add(1));
        window.phase = Phase::Changing;
        window.owner = self.end;
        window.range = range.clone();
        let access = Access::REMOTE_WRITE | Access::REMOTE_READ;
        let bind = BindInfo { mr_lkey, addr: BASE + range.start, length: len, access };
        let op = SendOp::BindMw {
            window: before,
            new_rkey: window.key,
            window_type: window.window_type,
            bind,
        };
        let mut posted = self.posted(WcOpcode::BindMw, Then::Bound(which));
        posted.signaled = true;
        self.post(op, &[], posted);
        Some(())
    }

    /// A window of the other side that this queue pair may use.
    fn window(&self) -> Option<usize> {
        self.oracle.windows[1 - self.side]
            .iter()
            .position(|window| window.phase == Phase::Bound && window.owner == self.peer)
    }

    fn use_window(&mut self) -> Option<()> {
        let which = self.window()?;
        let window = &self.oracle.windows[1 - self.side][which];
        if window.users > 0 {
            return None; // its memory belongs to one request at a time
        }
        let (range, remote) = (window.range.clone(), Remote { key: window.key });
        let start = range.start + self.rng.below(range.end - range.start);
        let len = self.rng.below(range.end - start + 1);
        let pieces = self.local(len)?;
        let part = start..start + len;
        let (op, opcode) = if self.rng.chance(50) {
            self.brings(&part, &pieces);
            (remote.read(start), WcOpcode::RdmaRead)
        } else {
            let bytes = self.oracle.ground[self.side].gather(&pieces);
            self.oracle.ground[1 - self.side].scatter(&[part], &bytes);
            (remote.write(start), WcOpcode::RdmaWrite)
        };
        self.oracle.windows[1 - self.side][which].users += 1;
        let mut posted = self.posted(opcode, Then::Used(which));
        posted.signaled = true;
        self.hold(&mut posted, pieces.clone(), None);
        self.post(op, &pieces, posted);
        Some(())
    }

    /// Ends a binding: the owner by itself, or the peer by a SEND.
    fn unbind(&mut self) -> Option<()> {
        if self.rng.chance(50) {
            let own = self.oracle.windows[self.side].iter().position(|window| {
                let own = window.owner == self.end;
                window.phase == Phase::Bound && window.users == 0 && own
            })?;
            let window = &mut self.oracle.windows[self.side][own];
            window.phase = Phase::Changing;
            let op = SendOp::LocalInvalidate { key: window.key };
            let mut posted = self.posted(WcOpcode::LocalInvalidate, Then::Unbound(own));
            posted.signaled = true;
            self.post(op, &[], posted);
            return Some(());
        }
        let which = self.window()?;
        let window = &self.oracle.windows[1 - self.side][which];
        let key = window.key;
        if window.users > 0 {
            return None;
        }
        let len = self.length();
        let pieces = self.local(len)?;
        let bytes = self.oracle.ground[self.side].gather(&pieces);
        self.oracle.windows[1 - self.side][which].phase = Phase::Changing;
        let mut posted = self.posted(WcOpcode::Send, Then::Nothing);
        self.hold(&mut posted, pieces.clone(), None);
        let invalidates = Some(which);
        let incoming =
            Incoming { opcode: WcOpcode::Recv, bytes, written: None, imm: None, invalidates };
        self.oracle.incoming[self.peer.0].push_back(incoming);
        self.post(send_invalidate(key), &pieces, posted);
        Some(())
    }
}
