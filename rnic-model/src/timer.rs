//! Deadlines of queue pairs.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use crate::Instant;

/// When one queue pair wants to be woken.
///
/// Deadlines move with every acknowledgement, so a heap entry is only a hint: the truth is
/// `deadline` here, and an entry that comes up too early is put back. Two entries are remembered,
/// for a short wait may come in the middle of a long one again and again: the long one's entry
/// then serves the next one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timer {
    deadline: Option<Instant>,
    /// The earlier entry.
    queued: Option<Instant>,
    /// The later entry.
    queued_later: Option<Instant>,
}

impl Timer {
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}

/// All deadlines of a device.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, u32)>>,
}

impl Timers {
    /// Makes room so that one more queue pair never needs an allocation later.
    pub(crate) fn reserve_for(&mut self, queue_pairs: usize) {
        self.heap.reserve((2 * queue_pairs).saturating_sub(self.heap.len()));
    }

    /// Sets or clears the deadline of queue pair `owner`.
    #[inline]
    pub(crate) fn set(&mut self, timer: &mut Timer, owner: u32, deadline: Option<Instant>) {
        timer.deadline = deadline;
        let Some(at) = deadline else { return };
        if timer.queued.is_none_or(|queued| queued > at) {
            if timer.queued.is_some() {
                timer.queued_later = timer.queued;
            }
            timer.queued = Some(at);
            self.heap.push(Reverse((at, owner)));
        }
    }

    /// The earliest entry. It may be too early, never too late.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes an entry that is due; the caller then asks [`Timers::fires`].
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(Instant, u32)> {
        let Reverse((at, _)) = self.heap.peek()?;
        if *at > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry)
    }

    /// Whether the entry for `at` means that the deadline has passed. If the deadline has moved
    /// on, it is queued again.
    pub(crate) fn fires(
        &mut self,
        timer: &mut Timer,
        at: Instant,
        owner: u32,
        now: Instant,
    ) -> bool {
        if timer.queued != Some(at) {
            return false; // left over from before the deadline moved forward
        }
        timer.queued = timer.queued_later.take();
        match timer.deadline {
            Some(deadline) if deadline <= now => {
                timer.deadline = None;
                true
            }
            Some(deadline) => {
                self.set(timer, owner, Some(deadline));
                false
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Instant {
        Instant::from_ns(ns)
    }

    #[test]
    fn short_waits_within_long_ones_leave_nothing_behind() {
        let (mut timers, mut timer) = (Timers::default(), Timer::default());
        for round in 0..10_000 {
            let now = round * 20;
            timers.set(&mut timer, 0, Some(at(now + 1_000_000)));
            timers.set(&mut timer, 0, Some(at(now + 10)));
            assert_eq!(due(&mut timers, &mut timer, now + 9), 0);
            assert_eq!(due(&mut timers, &mut timer, now + 10), 1);
            assert!(timers.heap.len() <= 2, "{round}");
        }
        timers.set(&mut timer, 0, Some(at(5_000_000)));
        assert_eq!(due(&mut timers, &mut timer, 4_999_999), 0);
        assert_eq!(due(&mut timers, &mut timer, 5_000_000), 1);
    }

    fn due(timers: &mut Timers, timer: &mut Timer, now: u64) -> usize {
        let mut fired = 0;
        while let Some((entry, owner)) = timers.pop_due(at(now)) {
            fired += usize::from(timers.fires(timer, entry, owner, at(now)));
        }
        fired
    }

    #[test]
    fn a_deadline_that_moves_fires_once_and_never_early() {
        let (mut timers, mut timer) = (Timers::default(), Timer::default());
        timers.set(&mut timer, 0, Some(at(100)));
        timers.set(&mut timer, 0, Some(at(300)));
        assert_eq!(due(&mut timers, &mut timer, 200), 0);
        timers.set(&mut timer, 0, Some(at(250)));
        assert_eq!(due(&mut timers, &mut timer, 249), 0);
        assert_eq!(due(&mut timers, &mut timer, 250), 1);
        assert_eq!(due(&mut timers, &mut timer, 1000), 0);
        timers.set(&mut timer, 0, Some(at(2000)));
        timers.set(&mut timer, 0, None);
        assert_eq!(due(&mut timers, &mut timer, 3000), 0);
    }
}
