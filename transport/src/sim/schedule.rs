//! What happens next, in order of virtual time; ties are broken by the order of entry.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use softrnic_model::Instant;

/// Things that will happen. Most are entered in the order in which they happen; only the others need
/// the heap.
#[derive(Debug)]
pub(super) struct Schedule<T> {
    in_order: VecDeque<(Instant, u64, T)>,
    late: BinaryHeap<Reverse<(Instant, u64, T)>>,
    entered: u64,
}

impl<T: Copy + Ord> Schedule<T> {
    /// Nothing, with room for `usual` things.
    pub(super) fn with_capacity(usual: usize) -> Self {
        Self {
            in_order: VecDeque::with_capacity(usual),
            late: BinaryHeap::with_capacity(usual),
            entered: 0,
        }
    }

    pub(super) fn enter(&mut self, at: Instant, what: T) {
        self.entered += 1;
        if self.in_order.back().is_none_or(|(last, ..)| *last <= at) {
            self.in_order.push_back((at, self.entered, what));
        } else {
            self.late.push(Reverse((at, self.entered, what)));
        }
    }

    /// When the next thing happens, if ever.
    pub(super) fn next(&self) -> Option<Instant> {
        let in_order = self.in_order.front().map(|(at, ..)| *at);
        let late = self.late.peek().map(|Reverse((at, ..))| *at);
        match (in_order, late) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The next thing that has happened by `now`.
    pub(super) fn take(&mut self, now: Instant) -> Option<T> {
        let in_order = self.in_order.front().copied();
        let late = self.late.peek().map(|Reverse(late)| *late);
        let first = match (in_order, late) {
            (Some(a), Some(b)) => a.min(b),
            (a, b) => a.or(b)?,
        };
        if first.0 > now {
            return None;
        }
        if in_order == Some(first) {
            self.in_order.pop_front();
        } else {
            self.late.pop();
        }
        Some(first.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_happen_in_order_of_time_and_then_of_entry() {
        let mut schedule = Schedule::with_capacity(4);
        for (what, at) in [(0, 5), (1, 9), (2, 5), (3, 1), (4, 9), (5, 9)] {
            schedule.enter(Instant::from_ns(at), what);
        }
        assert_eq!(schedule.next(), Some(Instant::from_ns(1)));
        assert_eq!(schedule.take(Instant::ZERO), None);
        let all: Vec<u32> = std::iter::from_fn(|| schedule.take(Instant::from_ns(9))).collect();
        assert_eq!(all, [3, 0, 2, 1, 4, 5]);
        assert_eq!(schedule.next(), None);
    }
}
