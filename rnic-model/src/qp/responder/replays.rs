//! What is kept to answer READs and atomics once more.

use alloc::boxed::Box;

use crate::verbs::{Key, PdId, Psn};

/// An answer that was given and may be asked for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Replay {
    Read { psn: Psn, psns: u32, pd: PdId, key: Key, addr: u64, length: u32, msn: u32 },
    Atomic { psn: Psn, original: u64, msn: u32 },
}

/// The last READs and atomics, as many as may be open at a time.
#[derive(Debug, Default)]
pub(super) struct Replays {
    ring: Box<[Option<Replay>]>,
    next: usize,
}

impl Replays {
    /// Changes how many there are, and keeps the latest.
    // [read-atomic/remembered-depth]
    pub(super) fn resize(&mut self, depth: usize) {
        let len = self.ring.len();
        let latest = len.min(depth);
        let mut ring = alloc::vec![None; depth];
        for (age, place) in (1..).zip(ring.iter_mut().take(latest).rev()) {
            *place = self.ring.get((self.next + len - age) % len).copied().flatten();
        }
        self.ring = ring.into();
        self.next = if latest == depth { 0 } else { latest };
    }

    pub(super) fn clear(&mut self) {
        self.ring.fill(None);
    }

    pub(super) fn keep(&mut self, replay: Replay) {
        if let Some(place) = self.ring.get_mut(self.next) {
            *place = Some(replay);
        }
        self.next = (self.next + 1) % self.ring.len().max(1);
    }

    /// The one that sequence number `psn` belongs to; the latest, for numbers come around.
    pub(super) fn find(&self, psn: Psn) -> Option<Replay> {
        let (later, latest) = self.ring.split_at_checked(self.next)?;
        let latest_first = later.iter().rev().chain(latest.iter().rev());
        latest_first.flatten().copied().find(|replay| match *replay {
            Replay::Read { psn: first, psns, .. } => psn.offset_from(first) < psns,
            Replay::Atomic { psn: first, .. } => psn == first,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn atomic(psn: u32, original: u64) -> Replay {
        Replay::Atomic { psn: Psn::new(psn), original, msn: 0 }
    }

    fn found(replays: &Replays, psn: u32) -> Option<u64> {
        match replays.find(Psn::new(psn))? {
            Replay::Atomic { original, .. } => Some(original),
            Replay::Read { .. } => None,
        }
    }

    #[test]
    fn of_equal_numbers_the_latest_is_answered() {
        // Sequence numbers come around; an old entry may have the number of a new one.
        for before in 0..4 {
            let mut replays = Replays::default();
            replays.resize(4);
            (0..before).for_each(|psn| replays.keep(atomic(100 + psn, 0)));
            replays.keep(atomic(7, 1));
            replays.keep(atomic(8, 2));
            replays.keep(atomic(7, 3));
            assert_eq!(found(&replays, 7), Some(3));
            assert_eq!(found(&replays, 8), Some(2));
        }
    }

    #[test]
    fn another_depth_keeps_the_latest() {
        for kept in 0..6_u32 {
            for (from, to) in [(3, 5), (5, 3), (4, 4), (4, 0), (1, 2)] {
                let mut replays = Replays::default();
                replays.resize(from);
                (0..kept).for_each(|psn| replays.keep(atomic(psn, u64::from(psn))));
                replays.resize(to);
                for age in 1..=kept {
                    let there = age as usize <= from.min(to);
                    let psn = kept - age;
                    assert_eq!(found(&replays, psn), there.then_some(u64::from(psn)));
                }
                // And the next ones push out the oldest.
                (100..).take(to).for_each(|psn| replays.keep(atomic(psn, 0)));
                assert!((0..kept).all(|psn| found(&replays, psn).is_none()), "{from} {to}");
            }
        }
    }
}
