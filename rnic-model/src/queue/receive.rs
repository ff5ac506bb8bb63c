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
    wqes: Box<[RecvWqe]>,
    sges: Box<[Sge]>,
    sge_max: u32,
    order: Box<[u32]>,
    head: u32,
    len: u32,
    free: Vec<u32>,
}

impl RecvQueue {
    pub(crate) fn new(wr_max: u32, sge_max: u32) -> Self {
        Self {
            wqes: vec![RecvWqe::default(); wr_max as usize].into(),
            sges: vec![Sge::default(); wr_max as usize * sge_max as usize].into(),
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

    /// Adds a request; false when there is no free record. The caller has checked the number of
    /// elements.
    pub(crate) fn post(&mut self, wr: &RecvWr<'_>) -> bool {
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
