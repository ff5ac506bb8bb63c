//! Deadlines of queue pairs.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::Instant;

/// When one queue pair wants to be woken.
///
/// Deadlines move with every acknowledgement, so a heap entry is only a hint: the truth is
/// `deadline` here, and an entry that comes up too early is put back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timer {
    deadline: Option<Instant>,
}

impl Timer {
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}

/// All deadlines of a device.
///
/// A deadline that moves forward leaves its entry behind. A peer can make that happen as often as it
/// likes (an RNR NAK is a short wait in place of a long one), so such entries are swept out
/// whenever there are as many of them as there are queue pairs.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, u32)>>,
    /// The entry of each owner that counts, by its place.
    queued: Vec<Option<Instant>>,
    /// More entries than this are swept.
    entries_max: usize,
}

impl Timers {
    /// Makes room for an owner's deadlines, so that setting one never needs an allocation later.
    /// What was left of an earlier owner in its place is forgotten.
    pub(crate) fn admit(&mut self, owner: u32) {
        let place = owner as usize;
        if place >= self.queued.len() {
            self.queued.resize(place + 1, None);
        }
        self.queued[place] = None;
        self.entries_max = 2 * self.queued.len();
        self.heap.reserve((self.entries_max + 1).saturating_sub(self.heap.len()));
    }

    /// Sets or clears the deadline of queue pair `owner`.
    #[inline]
    pub(crate) fn set(&mut self, timer: &mut Timer, owner: u32, deadline: Option<Instant>) {
        timer.deadline = deadline;
        let Some(at) = deadline else { return };
        let Some(queued) = self.queued.get_mut(owner as usize) else { return };
        if queued.is_none_or(|queued| queued > at) {
            *queued = Some(at);
            self.heap.push(Reverse((at, owner)));
            if self.heap.len() > self.entries_max {
                self.sweep();
            }
        }
    }

    /// Removes the entries that count no more.
    fn sweep(&mut self) {
        let queued = &self.queued;
        self.heap.retain(|Reverse((at, owner))| {
            queued.get(*owner as usize).copied().flatten() == Some(*at)
        });
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
        let Some(queued) = self.queued.get_mut(owner as usize) else { return false };
        if *queued != Some(at) {
            return false; // left over from before the deadline moved forward
        }
        *queued = None;
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
        timers.admit(0);
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

    #[test]
    fn short_waits_between_long_ones_leave_nothing_behind() {
        let (mut timers, mut timer) = (Timers::default(), Timer::default());
        timers.admit(0);
        timers.admit(1);
        let room = timers.heap.capacity();
        for now in 0..10_000 {
            timers.set(&mut timer, 1, Some(at(now + 1_000_000_000)));
            timers.set(&mut timer, 1, Some(at(now + 1)));
            assert_eq!(due(&mut timers, &mut timer, now + 1), 1);
        }
        assert!(timers.heap.len() <= 4, "{} entries for two owners", timers.heap.len());
        assert_eq!(timers.heap.capacity(), room, "no allocation");
        timers.set(&mut timer, 1, Some(at(20_000)));
        assert_eq!(due(&mut timers, &mut timer, 20_000), 1, "and none that counts is lost");
    }
}
