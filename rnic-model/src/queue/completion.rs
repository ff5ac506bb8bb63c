//! The completion queue.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::Instant;
use crate::profile::CompletionOrder;
use crate::timer::Timer;
use crate::verbs::{CqModeration, QpNum, Wc, WcStatus};

/// What a program has asked to be woken for (`ibv_req_notify_cq(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notify {
    /// Nothing.
    Disarmed,
    /// The next solicited or failed completion.
    Solicited,
    /// The next completion.
    Any,
}

/// Which slot of a work queue becomes free when the completion is polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// All send slots up to and including this count.
    Send(u32),
    /// None: a receive slot is free as soon as its message is complete.
    Receive,
}

/// A completion and what polling it frees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CqEntry {
    pub(crate) wc: Wc,
    pub(crate) slot: Slot,
}

/// What happened when a completion was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PushOutcome {
    /// Queued; nobody waits.
    Queued,
    /// Queued, and the program asked to be woken for it.
    Wakes,
    /// Queued; it may wait until then for others to be woken for as well.
    Waits(Instant),
    /// There was no room: the queue is dead from now on.
    Overrun,
    /// It was dead before; the completion is lost.
    Dead,
}

const NS_PER_US: u64 = 1_000;

/// After so many others the oldest completion is taken.
const PASSED_OVER_MAX: u8 = 8;

/// A ring of completions.
#[derive(Debug)]
pub(crate) struct CompletionQueue {
    ring: Box<[Option<CqEntry>]>,
    head: usize,
    len: usize,
    notify: Notify,
    moderation: CqModeration,
    /// Completions that would have woken the program and have not, since it was armed.
    held: u16,
    /// When they do.
    pub(crate) timer: Timer,
    dead: bool,
    /// How often the oldest completion was passed over.
    passed_over: u8,
    /// Completions are stamped with the time.
    timestamps: bool,
    /// Queue pairs that complete here; a queue in use cannot be destroyed.
    pub(crate) users: u32,
}

impl CompletionQueue {
    pub(crate) fn new(entries: u32, timestamps: bool) -> Self {
        Self {
            ring: ring(entries),
            head: 0,
            len: 0,
            notify: Notify::Disarmed,
            moderation: CqModeration::default(),
            held: 0,
            timer: Timer::default(),
            dead: false,
            passed_over: 0,
            timestamps,
            users: 0,
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.ring.len()
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead
    }

    /// Adds a completion. `solicited`: it wakes a program that waits for solicited ones only.
    #[inline]
    pub(crate) fn push(
        &mut self,
        mut entry: CqEntry,
        solicited: bool,
        now: Instant,
    ) -> PushOutcome {
        if self.dead {
            return PushOutcome::Dead;
        }
        // [completions/overrun]
        if self.len == self.ring.len() {
            self.dead = true;
            return PushOutcome::Overrun;
        }
        let mut at = self.head + self.len;
        if at >= self.ring.len() {
            at -= self.ring.len();
        }
        let failed = entry.wc.status != WcStatus::Success;
        // [completions/timestamps]
        if self.timestamps {
            entry.wc.timestamp = now.as_ns();
        }
        if let Some(place) = self.ring.get_mut(at) {
            *place = Some(entry);
            self.len += 1;
        }
        match self.notify {
            Notify::Any => {}
            // [completions/notify-solicited]
            Notify::Solicited if solicited => {}
            Notify::Solicited | Notify::Disarmed => return PushOutcome::Queued,
        }
        self.held = self.held.saturating_add(1);
        // A failure waits for nothing.
        if failed || self.is_woken_now() {
            self.wake();
            return PushOutcome::Wakes;
        }
        match (self.held, self.moderation.period_us) {
            (1, period_us @ 1..) => {
                PushOutcome::Waits(now.plus_ns(u64::from(period_us) * NS_PER_US))
            }
            _ => PushOutcome::Queued,
        }
    }

    /// Whether the completions that are held back are enough for an event.
    fn is_woken_now(&self) -> bool {
        let CqModeration { count, period_us } = self.moderation;
        self.held > 0 && (count == 0 && period_us == 0 || count != 0 && self.held >= count)
    }

    /// An event is raised: the next has to be asked for.
    fn wake(&mut self) {
        self.notify = Notify::Disarmed;
        self.held = 0;
    }

    /// The wait for more completions is over; returns whether the program is woken.
    pub(crate) fn on_time(&mut self) -> bool {
        let wakes = self.held > 0;
        if wakes {
            self.wake();
        }
        wakes
    }

    /// Changes how many events are raised; returns whether one is due.
    pub(crate) fn moderate(&mut self, moderation: CqModeration) -> bool {
        self.moderation = moderation;
        // What is held back was held back by other rules.
        self.on_time()
    }

    /// Takes the oldest completion.
    #[inline]
    // [completions/overrun-keeps]
    pub(crate) fn pop(&mut self) -> Option<CqEntry> {
        if self.len == 0 {
            return None;
        }
        let entry = self.ring.get_mut(self.head)?.take();
        self.head += 1;
        if self.head == self.ring.len() {
            self.head = 0;
        }
        self.len -= 1;
        entry
    }

    /// Takes the next completion in this order.
    #[inline]
    pub(crate) fn take_next(&mut self, order: CompletionOrder) -> Option<CqEntry> {
        match order {
            CompletionOrder::AsTheyCame => self.pop(),
            CompletionOrder::LatestQueueFirst => self.pop_of_latest_queue(),
        }
    }

    /// Takes the oldest completion of the work queue that has completed last, but does not pass over the
    /// oldest of all for ever.
    fn pop_of_latest_queue(&mut self) -> Option<CqEntry> {
        let work_queue = |entry: &CqEntry| (entry.wc.qp_num, matches!(entry.slot, Slot::Send(_)));
        let (head, places) = (self.head, self.ring.len());
        let place = |at: usize| (head + at) % places;
        let of = |at: usize| self.ring.get(place(at))?.as_ref().map(work_queue);
        let latest = of(self.len.checked_sub(1)?);
        let first = (0..self.len).find(|at| of(*at) == latest).unwrap_or(0);
        if first == 0 || self.passed_over >= PASSED_OVER_MAX {
            self.passed_over = 0;
            return self.pop();
        }
        self.passed_over += 1;
        let entry = self.ring.get_mut(place(first))?.take();
        (first + 1..self.len).for_each(|at| self.ring.swap(place(at - 1), place(at)));
        self.len -= 1;
        entry
    }

    /// Asks to be woken once. A request for any completion is not narrowed by a later one for
    /// solicited ones.
    // [completions/notify-not-narrowed] [completions/notify-not-past]
    pub(crate) fn arm(&mut self, solicited_only: bool) {
        if !solicited_only {
            self.notify = Notify::Any;
        } else if self.notify == Notify::Disarmed {
            self.notify = Notify::Solicited;
        }
    }

    /// Gives the ring another size; false if what is queued would not fit.
    // [completions/resize-keeps]
    pub(crate) fn resize(&mut self, entries: u32) -> bool {
        if self.len > entries as usize {
            return false;
        }
        let mut bigger = ring(entries);
        let mut moved = 0;
        while let (Some(entry), Some(place)) = (self.pop(), bigger.get_mut(moved)) {
            *place = Some(entry);
            moved += 1;
        }
        self.ring = bigger;
        self.head = 0;
        self.len = moved;
        true
    }

    /// Removes the completions of a queue pair that is destroyed or reset.
    pub(crate) fn purge(&mut self, qp: QpNum) {
        for _ in 0..self.len {
            let Some(entry) = self.pop() else { return };
            if entry.wc.qp_num != qp {
                let at = (self.head + self.len) % self.ring.len();
                if let Some(place) = self.ring.get_mut(at) {
                    *place = Some(entry);
                    self.len += 1;
                }
            }
        }
    }
}

fn ring(entries: u32) -> Box<[Option<CqEntry>]> {
    let mut ring = Vec::new();
    ring.resize_with(entries as usize, || None);
    ring.into_boxed_slice()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::{Key, WcFlags, WcOpcode};

    fn entry(wr_id: u64, qp: u32) -> CqEntry {
        let wc = Wc {
            wr_id,
            status: WcStatus::Success,
            opcode: WcOpcode::Send,
            flags: WcFlags::empty(),
            vendor_err: 0,
            byte_len: 0,
            imm_data: 0,
            invalidated_rkey: Key(0),
            qp_num: QpNum::new(qp),
            src_qp: QpNum::new(0),
            pkey_index: 0,
            timestamp: 0,
            sl: 0,
        };
        CqEntry { wc, slot: Slot::Receive }
    }

    fn drained(cq: &mut CompletionQueue) -> Vec<u64> {
        core::iter::from_fn(|| cq.pop()).map(|e| e.wc.wr_id).collect()
    }

    #[test]
    fn resize_keeps_all_and_refuses_what_would_lose() {
        for start in 0..4_u64 {
            let mut cq = CompletionQueue::new(4, false);
            for n in 0..start {
                cq.push(entry(100 + n, 1), false, Instant::ZERO);
                cq.pop();
            }
            for n in 0..3 {
                cq.push(entry(n, 1), false, Instant::ZERO);
            }
            assert!(!cq.resize(2), "three entries do not fit two places");
            assert!(cq.resize(3));
            assert_eq!(cq.capacity(), 3);
            assert_eq!(drained(&mut cq), [0, 1, 2]);
        }
    }

    #[test]
    fn overrun_kills_the_queue_but_keeps_what_is_in_it() {
        let mut cq = CompletionQueue::new(2, false);
        assert_eq!(cq.push(entry(0, 1), false, Instant::ZERO), PushOutcome::Queued);
        assert_eq!(cq.push(entry(1, 1), false, Instant::ZERO), PushOutcome::Queued);
        assert_eq!(cq.push(entry(2, 1), false, Instant::ZERO), PushOutcome::Overrun);
        assert_eq!(cq.pop().map(|e| e.wc.wr_id), Some(0));
        assert_eq!(cq.push(entry(3, 1), false, Instant::ZERO), PushOutcome::Dead);
        assert_eq!(drained(&mut cq), [1]);
    }

    #[test]
    fn arming_wakes_once_for_what_was_asked() {
        for (solicited_only, solicited, wakes) in
            [(false, false, true), (false, true, true), (true, false, false), (true, true, true)]
        {
            let mut cq = CompletionQueue::new(8, false);
            assert_eq!(
                cq.push(entry(0, 1), solicited, Instant::ZERO),
                PushOutcome::Queued,
                "not armed"
            );
            cq.arm(solicited_only);
            let expected = if wakes { PushOutcome::Wakes } else { PushOutcome::Queued };
            assert_eq!(cq.push(entry(1, 1), solicited, Instant::ZERO), expected);
            if wakes {
                assert_eq!(
                    cq.push(entry(2, 1), solicited, Instant::ZERO),
                    PushOutcome::Queued,
                    "only once"
                );
            }
        }
        let mut cq = CompletionQueue::new(8, false);
        cq.arm(false);
        cq.arm(true);
        assert_eq!(cq.push(entry(0, 1), false, Instant::ZERO), PushOutcome::Wakes, "not narrowed");
    }

    #[test]
    fn purge_takes_one_queue_pair_and_keeps_the_order_of_the_others() {
        let mut cq = CompletionQueue::new(5, false);
        cq.push(entry(9, 1), false, Instant::ZERO);
        cq.pop();
        for (n, qp) in [(0, 1), (1, 2), (2, 1), (3, 2), (4, 3)] {
            cq.push(entry(n, qp), false, Instant::ZERO);
        }
        cq.purge(QpNum::new(1));
        assert_eq!(drained(&mut cq), [1, 3, 4]);
    }
}
