//! Receive queues: of one queue pair, or shared.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use crate::verbs::{RecvWr, Sge};

/// Which record of a receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecvSlot(u32);

/// A receive work request as the device keeps it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecvWqe {
    pub(crate) wr_id: u64,
    /// Bytes of all its scatter elements.
    pub(crate) length: u64,
    sge_count: u32,
}

/// Receive work requests in the order in which they were posted. One that was taken keeps its
/// record until it is released, for with a shared queue several are under way at a time.
#[derive(Debug)]
pub(crate) struct RecvQueue {
    /// At least as many as the capacity: records that are in use keep their places when it changes.
    wqes: Vec<RecvWqe>,
    sges: Vec<Sge>,
    sge_max: u32,
    order: Box<[u32]>,
    head: u32,
    len: u32,
    free: Vec<u32>,
}

impl RecvQueue {
    pub(crate) fn new(wr_max: u32, sge_max: u32) -> Self {
        Self {
            wqes: vec![RecvWqe::default(); wr_max as usize],
            sges: vec![Sge::default(); wr_max as usize * sge_max as usize],
            sge_max,
            order: vec![0; wr_max as usize].into(),
            head: 0,
            len: 0,
            free: (0..wr_max).rev().collect(),
        }
    }

    /// Requests that wait.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn capacity(&self) -> u32 {
        u32::try_from(self.order.len()).unwrap_or(u32::MAX)
    }

    /// Records of requests that wait or have been taken.
    fn in_use(&self) -> usize {
        self.wqes.len() - self.free.len()
    }

    /// Changes how many there may be; false if there are more already.
    // [srq/resize-keeps]
    pub(crate) fn resize(&mut self, wr_max: u32) -> bool {
        let records = wr_max as usize;
        if self.in_use() > records {
            return false;
        }
        let waiting = (0..self.len).map(|n| (self.head + n) % self.capacity());
        let mut order: Vec<u32> =
            waiting.filter_map(|at| self.order.get(at as usize).copied()).collect();
        order.resize(records, 0);
        self.order = order.into();
        self.head = 0;
        if let Ok(known) = u32::try_from(self.wqes.len()) {
            self.free.extend((known..wr_max).rev());
        }
        let records = records.max(self.wqes.len());
        self.wqes.resize(records, RecvWqe::default());
        self.sges.resize(records * self.sge_max as usize, Sge::default());
        true
    }

    /// Adds a request; false when there is no free record. The caller has checked the number of
    /// elements.
    pub(crate) fn post(&mut self, wr: &RecvWr<'_>) -> bool {
        if self.in_use() >= self.order.len() {
            return false;
        }
        let Some(slot) = self.free.pop() else { return false };
        let base = slot as usize * self.sge_max as usize;
        for (place, sge) in self.sges.iter_mut().skip(base).zip(wr.sges) {
            *place = *sge;
        }
        let at = (self.head + self.len) % self.capacity();
        if let (Some(wqe), Some(place)) =
            (self.wqes.get_mut(slot as usize), self.order.get_mut(at as usize))
        {
            *wqe = RecvWqe {
                wr_id: wr.wr_id,
                length: wr.sges.iter().map(|sge| u64::from(sge.length)).sum(),
                sge_count: u32::try_from(wr.sges.len()).unwrap_or(self.sge_max),
            };
            *place = slot;
            self.len += 1;
        }
        true
    }

    /// The oldest request, which stays where it is.
    pub(crate) fn peek(&self) -> Option<RecvWqe> {
        if self.len == 0 {
            return None;
        }
        let slot = *self.order.get(self.head as usize)?;
        self.wqes.get(slot as usize).copied()
    }

    /// Takes the oldest request. Its record stays until [`RecvQueue::release`].
    #[inline]
    pub(crate) fn take(&mut self) -> Option<RecvSlot> {
        if self.len == 0 {
            return None;
        }
        let slot = *self.order.get(self.head as usize)?;
        self.head += 1;
        if self.head == self.capacity() {
            self.head = 0;
        }
        self.len -= 1;
        Some(RecvSlot(slot))
    }

    /// The record of a request that was taken.
    pub(crate) fn wqe(&self, slot: RecvSlot) -> RecvWqe {
        self.wqes.get(slot.0 as usize).copied().unwrap_or_default()
    }

    /// Its scatter elements.
    pub(crate) fn sges(&self, slot: RecvSlot) -> &[Sge] {
        let base = slot.0 as usize * self.sge_max as usize;
        let count = self.wqe(slot).sge_count as usize;
        self.sges.get(base..base + count).unwrap_or(&[])
    }

    /// Frees the record of a request that was taken.
    pub(crate) fn release(&mut self, slot: RecvSlot) {
        debug_assert!(!self.free.contains(&slot.0), "a record is released once");
        self.free.push(slot.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(queue: &mut RecvQueue, wr_id: u64) -> bool {
        queue.post(&RecvWr { wr_id, sges: &[Sge { addr: wr_id, ..Sge::default() }] })
    }

    #[test]
    fn another_size_loses_nothing_wherever_the_queue_stands() {
        for (from, to, skip, taken, waiting) in [
            (4, 9, 3, 0, 4),
            (4, 9, 2, 2, 2),
            (9, 4, 7, 1, 3),
            (9, 4, 0, 4, 0),
            (4, 4, 1, 1, 3),
            (1, 2, 0, 1, 0),
        ] {
            let mut queue = RecvQueue::new(from, 1);
            for id in 0..skip {
                assert!(post(&mut queue, id));
                let slot = queue.take().unwrap();
                queue.release(slot);
            }
            let all: Vec<u64> = (100..100 + taken + waiting).collect();
            all.iter().for_each(|id| assert!(post(&mut queue, *id)));
            let slots: Vec<_> = (0..taken).map(|_| queue.take().unwrap()).collect();
            assert!(queue.resize(to));
            assert_eq!(queue.capacity(), to);
            // What was taken is where it was.
            for (slot, id) in slots.iter().zip(&all) {
                assert_eq!((queue.wqe(*slot).wr_id, queue.sges(*slot)[0].addr), (*id, *id));
            }
            // There is room for exactly the rest, in order behind what waits.
            let more = u64::from(to) - taken - waiting;
            (200..200 + more).for_each(|id| assert!(post(&mut queue, id)));
            assert!(!post(&mut queue, 999), "{from} {to}");
            slots.into_iter().for_each(|slot| queue.release(slot));
            let got: Vec<u64> =
                core::iter::from_fn(|| queue.take().map(|slot| queue.wqe(slot).wr_id)).collect();
            let expected: Vec<u64> = all[usize::try_from(taken).unwrap()..]
                .iter()
                .copied()
                .chain(200..200 + more)
                .collect();
            assert_eq!(got, expected);
        }
    }

    #[test]
    fn it_holds_what_is_in_it() {
        let mut queue = RecvQueue::new(4, 1);
        (0..3).for_each(|id| assert!(post(&mut queue, id)));
        let slot = queue.take().unwrap();
        assert!(!queue.resize(2), "two wait and one is being filled");
        assert!(queue.resize(3));
        assert!(!post(&mut queue, 9));
        queue.release(slot);
        assert!(post(&mut queue, 9));
    }
}
