//! The reference model: what must come of all that was posted.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::ops::Range;

use softrnic_model::verbs::{
    AsyncEvent, Key, QpState, VerbError, Wc, WcFlags, WcOpcode, WcStatus, WindowType,
};

use crate::bench::{A, B, Bench, Digest, EndId, Wr};

use super::ground::{Ground, index};
use super::plan::Plan;

/// Pieces of the memory of a side.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) side: usize,
    pub(super) pieces: Vec<Range<u64>>,
}

/// A send request that was posted and whose slot is not free yet.
#[derive(Debug)]
pub(super) struct Posted {
    pub(super) id: u64,
    pub(super) signaled: bool,
    pub(super) opcode: WcOpcode,
    /// What a READ or an atomic brings, in bytes.
    pub(super) byte_len: Option<u32>,
    /// Memory that it uses until it completes.
    pub(super) held: Vec<Held>,
    pub(super) then: Then,
}

/// What is to be looked at when a send request has completed.
#[derive(Debug)]
pub(super) enum Then {
    Nothing,
    /// Memory at the requester that must be as the model has it.
    Brought(Vec<Range<u64>>),
    /// What an addition of 1 to the counter that all share has found.
    Found(Range<u64>),
    /// A window of the requester's side is bound.
    Bound(usize),
    /// A window of the requester's side is bound no more.
    Unbound(usize),
    /// A window of the peer's side is not used by this one any more.
    Used(usize),
}

/// A message that takes a receive of the end that it is for.
pub(super) struct Incoming {
    pub(super) opcode: WcOpcode,
    /// What a SEND carries; of a WRITE the range that it went to.
    pub(super) bytes: Vec<u8>,
    pub(super) written: Option<Range<u64>>,
    pub(super) imm: Option<u32>,
    /// The window that it invalidates.
    pub(super) invalidates: Option<usize>,
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {} bytes", self.opcode, self.bytes.len())
    }
}

/// What a window is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Free,
    /// A bind, or what ends one, is on its way.
    Changing,
    Bound,
}

#[derive(Debug)]
pub(super) struct Window {
    pub(super) key: Key,
    pub(super) window_type: WindowType,
    pub(super) phase: Phase,
    /// The queue pair that has bound it.
    pub(super) owner: EndId,
    pub(super) range: Range<u64>,
    /// Requests of the owner's peer that go through it now.
    pub(super) users: u32,
}

/// The counter that all queue pairs of the other side add 1 to.
pub(super) const COUNTER: u64 = 0;
/// Bytes with fixed uses: the counter, and a word for each queue pair of the other side.
const FIXED: u64 = 128;

pub(super) const fn own_word(end: EndId) -> u64 {
    8 + 8 * end.0 as u64
}

#[derive(Debug)]
pub(super) struct Oracle {
    pub(super) sides: [Vec<EndId>; 2],
    pub(super) ground: [Ground; 2],
    pub(super) windows: [Vec<Window>; 2],
    /// By end: requests whose slots are not free.
    pub(super) posted: Vec<VecDeque<Posted>>,
    /// By end: messages that are to be received there, in order.
    pub(super) incoming: Vec<VecDeque<Incoming>>,
    /// By receive queue, own or shared: number and memory.
    pub(super) receives: Vec<VecDeque<(u64, Vec<Range<u64>>)>>,
    counter_found: [BTreeSet<u64>; 2],
    srq: bool,
    signal_all: bool,
    send_capacity: usize,
    ids: u64,
    digest: Digest,
}

impl Oracle {
    pub(super) fn new(bench: &mut Bench, plan: &Plan, sides: [Vec<EndId>; 2]) -> Self {
        let ends = sides[0].len() + sides[1].len();
        for side in [A, B] {
            bench.write(side, 0, &[0; FIXED as usize]);
        }
        let len = plan.setup.memory as u64;
        let windows = [A, B].map(|side| {
            let types = [WindowType::Type2A, WindowType::Type2B];
            types.map(|window_type| window(bench, side, window_type)).into_iter().collect()
        });
        Self {
            sides,
            ground: [A, B].map(|side| Ground::new(bench.bytes(side, 0..len), FIXED)),
            windows,
            posted: (0..ends).map(|_| VecDeque::new()).collect(),
            incoming: (0..ends).map(|_| VecDeque::new()).collect(),
            receives: (0..ends).map(|_| VecDeque::new()).collect(),
            counter_found: Default::default(),
            srq: plan.setup.srq.is_some(),
            signal_all: plan.setup.signal_all,
            send_capacity: plan.setup.cap.max_send_wr as usize,
            ids: 0,
            digest: Digest::default(),
        }
    }

    pub(super) fn next_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    pub(super) fn side_of(&self, end: EndId) -> usize {
        usize::from(self.sides[1].contains(&end))
    }

    /// Which receive queue an end takes from.
    pub(super) fn queue_of(&self, end: EndId) -> usize {
        if self.srq { self.side_of(end) } else { end.0 }
    }

    /// Send requests that an end can still post.
    pub(super) fn room(&self, end: EndId) -> usize {
        self.send_capacity - self.posted[end.0].len()
    }

    /// Posts what there must be room for.
    pub(super) fn post(&mut self, bench: &mut Bench, end: EndId, wr: Wr, posted: Posted) {
        assert!(self.room(end) > 0);
        bench.post(end, wr);
        self.posted[end.0].push_back(posted);
        if self.room(end) == 0 {
            let more = crate::bench::wr(0, crate::bench::send());
            let refused = bench.try_post(end, &more);
            assert!(matches!(refused, Err(VerbError::Full(_))), "{refused:?}");
        }
    }

    /// Takes all completions and judges them.
    pub(super) fn poll(&mut self, bench: &mut Bench) {
        let polled = [A, B].map(|end| (bench.sent(end), bench.received(end)));
        let all = polled.iter().flat_map(|(sent, received)| sent.iter().chain(received));
        let bad: Vec<_> = all.filter(|wc| wc.status != WcStatus::Success).collect();
        assert!(bad.is_empty(), "{bad:#?}");
        for (side, (sent, received)) in polled.iter().enumerate() {
            for wc in sent {
                let end = self.end_of(bench, side, wc);
                self.on_send(bench, end, wc);
            }
            for wc in received {
                let end = self.end_of(bench, side, wc);
                self.on_receive(bench, end, wc);
            }
        }
    }

    fn end_of(&mut self, bench: &Bench, side: usize, wc: &Wc) -> EndId {
        self.digest.add(&[bench.fabric.now().as_ns(), wc.wr_id, wc.status as u64]);
        let is = |end: &&EndId| [bench.end(**end).qp, bench.end(**end).target].contains(&wc.qp_num);
        *self.sides[side].iter().find(is).unwrap()
    }

    fn on_send(&mut self, bench: &Bench, end: EndId, wc: &Wc) {
        loop {
            let posted = self.posted[end.0].pop_front().unwrap();
            let last = posted.id == wc.wr_id;
            assert!(last || !(posted.signaled || self.signal_all), "{posted:?} is left out");
            if last {
                assert_eq!(wc.opcode, posted.opcode);
                assert!(posted.byte_len.is_none_or(|len| len == wc.byte_len), "{wc:?} {posted:?}");
            }
            self.done(bench, end, posted);
            if last {
                return;
            }
        }
    }

    fn done(&mut self, bench: &Bench, end: EndId, posted: Posted) {
        let side = self.side_of(end);
        match posted.then {
            Then::Nothing => {}
            Then::Brought(pieces) => self.compare(bench, side, &pieces),
            Then::Found(word) => {
                let found = bench.word(end, word.start);
                assert!(self.counter_found[1 - side].insert(found), "{found} was found twice");
                self.ground[side].scatter(&[word], &found.to_ne_bytes());
            }
            Then::Bound(window) => self.windows[side][window].phase = Phase::Bound,
            Then::Unbound(window) => self.unbound(side, window),
            Then::Used(window) => self.windows[1 - side][window].users -= 1,
        }
        for held in posted.held {
            self.ground[held.side].give_back(&held.pieces);
        }
    }

    fn unbound(&mut self, side: usize, window: usize) {
        let window = &mut self.windows[side][window];
        window.phase = Phase::Free;
        self.ground[side].give_back(std::slice::from_ref(&window.range));
    }

    fn on_receive(&mut self, bench: &Bench, end: EndId, wc: &Wc) {
        let side = self.side_of(end);
        let queue = &mut self.receives[if self.srq { side } else { end.0 }];
        let at = queue.iter().position(|(id, _)| *id == wc.wr_id).unwrap();
        assert!(self.srq || at == 0, "receives complete in order");
        let (_, pieces) = queue.remove(at).unwrap();
        let message = self.incoming[end.0].pop_front().unwrap();
        assert_eq!(wc.opcode, message.opcode);
        assert_eq!(wc.byte_len as usize, message.bytes.len());
        let mut flags = WcFlags::empty();
        flags.set(WcFlags::WITH_IMM, message.imm.is_some());
        flags.set(WcFlags::WITH_INV, message.invalidates.is_some());
        assert_eq!(wc.flags, flags);
        assert_eq!(wc.imm_data, message.imm.unwrap_or(0));
        if let Some(window) = message.invalidates {
            assert_eq!(wc.invalidated_rkey, self.windows[side][window].key);
            self.unbound(side, window);
        }
        match message.written {
            Some(range) => self.compare(bench, side, &[range]),
            None => {
                self.ground[side].scatter(&pieces, &message.bytes);
                self.compare(bench, side, &pieces);
            }
        }
        self.ground[side].give_back(&pieces);
    }

    fn compare(&self, bench: &Bench, side: usize, pieces: &[Range<u64>]) {
        for piece in pieces {
            let is = bench.bytes([A, B][side], piece.clone());
            let should = &self.ground[side].bytes[index(piece)];
            assert!(is == *should, "{piece:?} of side {side} is wrong");
        }
    }

    /// Whether all that must complete has completed.
    pub(super) fn is_idle(&self) -> bool {
        let waits = |posted: &Posted| posted.signaled || self.signal_all;
        self.incoming.iter().all(VecDeque::is_empty) && !self.posted.iter().flatten().any(waits)
    }

    /// When all is done: the last requests may be unsignalled, and have nothing to show but what
    /// they did.
    pub(super) fn check_all(&mut self, bench: &mut Bench) {
        for end in (0..self.posted.len()).map(EndId) {
            while let Some(posted) = self.posted[end.0].pop_front() {
                self.done(bench, end, posted);
            }
            assert_eq!(bench.state(end), QpState::Rts);
        }
        for (side, end) in [A, B].into_iter().enumerate() {
            let found = &self.counter_found[side];
            assert!(found.iter().copied().eq(0..found.len() as u64), "each addition happened once");
            let count = found.len() as u64;
            let counter = COUNTER..COUNTER + 8;
            self.ground[side].scatter(std::slice::from_ref(&counter), &count.to_ne_bytes());
            let all = 0..self.ground[side].bytes.len() as u64;
            self.compare(bench, side, &[all]);
            assert_eq!(bench.async_events(end), Vec::<AsyncEvent>::new());
        }
    }

    pub(super) fn digest(&self) -> u64 {
        self.digest.value()
    }
}

fn window(bench: &mut Bench, side: EndId, window_type: WindowType) -> Window {
    let pd = bench.end(side).pd;
    let key = bench.device(side).alloc_mw(pd, window_type).unwrap();
    Window { key, window_type, phase: Phase::Free, owner: side, range: 0..0, users: 0 }
}
