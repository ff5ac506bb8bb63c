//! The send queue.

use alloc::boxed::Box;
use alloc::vec;

use crate::verbs::{Psn, SendFlags, SendOp, SendWr, Sge, SrqNum};

/// A send work request as the device keeps it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendWqe {
    pub(crate) wr_id: u64,
    pub(crate) op: SendOp,
    /// Bytes of the message.
    pub(crate) length: u32,
    /// Sequence number of its first packet, once it has started.
    pub(crate) first_psn: Psn,
    /// Sequence numbers that it takes, once it has started; a READ takes those of its responses.
    pub(crate) packets: u32,
    pub(crate) remote_srq: SrqNum,
    pub(crate) flags: SendFlags,
    sge_count: u8,
}

impl SendWqe {
    /// The sequence number after its last.
    pub(crate) fn end_psn(&self) -> Psn {
        self.first_psn.plus(self.packets)
    }
}

/// Work requests named by a running count. A slot becomes free when the program polls its
/// completion or a later one, so that a program which counts completions never overruns it.
#[derive(Debug)]
pub(crate) struct SendQueue {
    wqes: Box<[SendWqe]>,
    sges: Box<[Sge]>,
    sge_max: u32,
    inline: Box<[u8]>,
    inline_max: u32,
    capacity: u32,
    mask: u32,
    /// Count of the oldest slot that is not free.
    head: u32,
    /// Count of the next request to be posted.
    tail: u32,
}

impl SendQueue {
    pub(crate) fn new(wr_max: u32, sge_max: u32, inline_max: u32) -> Self {
        let empty = SendWqe {
            wr_id: 0,
            op: SendOp::Send { imm: None, invalidate: None },
            length: 0,
            first_psn: Psn::new(0),
            packets: 0,
            remote_srq: SrqNum::new(0),
            flags: SendFlags::empty(),
            sge_count: 0,
        };
        let slots = wr_max.next_power_of_two();
        Self {
            wqes: vec![empty; slots as usize].into(),
            sges: vec![Sge::default(); slots as usize * sge_max as usize].into(),
            sge_max,
            inline: vec![0; slots as usize * inline_max as usize].into(),
            inline_max,
            capacity: wr_max,
            mask: slots - 1,
            head: 0,
            tail: 0,
        }
    }

    /// Count that the next request will get.
    #[inline]
    pub(crate) fn tail(&self) -> u32 {
        self.tail
    }

    // [rc-requester/sq-full]
    pub(crate) fn is_full(&self) -> bool {
        self.tail.wrapping_sub(self.head) >= self.capacity
    }

    /// Adds a request; false when there is no free slot. The caller has checked the number of
    /// elements and of inline bytes.
    #[inline]
    // [attacks/wqe-changed]
    pub(crate) fn post(&mut self, wr: &SendWr<'_>, length: u32) -> bool {
        if self.is_full() {
            return false;
        }
        let slot = (self.tail & self.mask) as usize;
        let Some(wqe) = self.wqes.get_mut(slot) else { return false };
        wqe.wr_id = wr.wr_id;
        wqe.op = wr.op;
        wqe.length = length;
        wqe.packets = 0;
        wqe.remote_srq = wr.remote_srq;
        wqe.flags = wr.flags;
        // [rc-requester/inline-copied]
        if wr.flags.contains(SendFlags::INLINE) {
            wqe.sge_count = 0;
            let base = slot * self.inline_max as usize;
            if let Some(place) = self.inline.get_mut(base..base + wr.inline.len()) {
                place.copy_from_slice(wr.inline);
            }
        } else {
            wqe.sge_count = u8::try_from(wr.sges.len()).unwrap_or(u8::MAX);
            let base = slot * self.sge_max as usize;
            if let Some(places) = self.sges.get_mut(base..base + wr.sges.len()) {
                places.copy_from_slice(wr.sges);
            }
        }
        self.tail = self.tail.wrapping_add(1);
        true
    }

    /// The request with this count; it has been posted and is not free yet.
    #[inline]
    pub(crate) fn wqe(&self, count: u32) -> &SendWqe {
        &self.wqes[(count & self.mask) as usize]
    }

    #[inline]
    pub(crate) fn wqe_mut(&mut self, count: u32) -> &mut SendWqe {
        &mut self.wqes[(count & self.mask) as usize]
    }

    #[inline]
    pub(crate) fn sges(&self, count: u32) -> &[Sge] {
        let slot = (count & self.mask) as usize;
        let base = slot * self.sge_max as usize;
        let len = usize::from(self.wqes[slot].sge_count);
        self.sges.get(base..base + len).unwrap_or(&[])
    }

    #[inline]
    pub(crate) fn inline(&self, count: u32) -> &[u8] {
        let slot = (count & self.mask) as usize;
        let base = slot * self.inline_max as usize;
        let len = self.wqes[slot].length as usize;
        self.inline.get(base..base + len).unwrap_or(&[])
    }

    /// The completion of request `count` was polled: it and all before it are free.
    #[inline]
    // [completions/slot-freed-by-poll]
    pub(crate) fn free_through(&mut self, count: u32) {
        let after = count.wrapping_add(1);
        if after.wrapping_sub(self.head) <= self.tail.wrapping_sub(self.head) {
            self.head = after;
        }
    }

    /// Forgets everything (a reset).
    pub(crate) fn clear(&mut self) {
        self.head = self.tail;
    }
}
