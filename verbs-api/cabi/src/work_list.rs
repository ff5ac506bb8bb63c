//! Work requests that a program builds call by call (`ibv_wr_post(3)`).
//!
//! From `ibv_wr_start` to `ibv_wr_complete` or `ibv_wr_abort` the list is one thread's. A mistake is
//! remembered and reported at the end; nothing of the list is posted then.

use core::mem::MaybeUninit;
use std::sync::{Mutex, MutexGuard, PoisonError};

use softrnic_model::verbs::{SendFlags, SendOp, SendWr, Sge, SrqNum};

use crate::convert::{BATCH, SendBatch, copy_in, filled};
use crate::errno::{Errno, Result};
use crate::turn::Turn;

/// A list, of one queue pair.
#[derive(Default)]
pub(crate) struct WorkList {
    pub(crate) turn: Turn,
    /// `ibv_qp_create_send_ops_flags`: what the program may build.
    pub(crate) operations: u64,
    /// The most that the send queue takes.
    limits: Limits,
    building: Mutex<Building>,
}

#[derive(Clone, Copy, Default)]
struct Limits {
    requests: usize,
    elements: usize,
    inline: usize,
}

/// Room is kept from list to list.
#[derive(Default)]
struct Building {
    requests: Vec<Request>,
    elements: Vec<Sge>,
    inline: Vec<u8>,
    mistake: Option<Errno>,
}

#[derive(Clone, Copy)]
struct Request {
    wr_id: u64,
    op: SendOp,
    flags: SendFlags,
    /// Where its data begins among all elements or all inline bytes, and how much of it there is.
    start: usize,
    len: usize,
    remote_srq: SrqNum,
}

impl WorkList {
    pub(crate) fn new(operations: u64, requests: u32, elements: u32, inline: u32) -> Self {
        let limits = Limits {
            requests: requests as usize,
            elements: elements as usize,
            inline: inline as usize,
        };
        Self { operations, limits, ..Self::default() }
    }

    fn building(&self) -> MutexGuard<'_, Building> {
        self.building.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a list.
    pub(crate) fn start(&self) {
        self.turn.take();
        self.building().clear();
    }

    /// Begins a request of the list.
    #[inline]
    pub(crate) fn request(&self, wr_id: u64, flags: Result<SendFlags>, op: Result<SendOp>) {
        let mut building = self.building();
        match (op, flags) {
            (Err(errno), _) | (_, Err(errno)) => building.note(errno),
            _ if building.requests.len() >= self.limits.requests => building.note(Errno::NO_MEMORY),
            (Ok(op), Ok(flags)) => {
                building.requests.push(Request {
                    wr_id,
                    op,
                    flags,
                    start: 0,
                    len: 0,
                    remote_srq: SrqNum::new(0),
                });
            }
        }
    }

    /// Changes the operation of the request at hand, if `change` finds it to be of the right kind.
    pub(crate) fn amend(&self, change: impl FnOnce(&mut SendOp) -> Result<()>) {
        let mut building = self.building();
        let changed = building.requests.last_mut().map(|request| change(&mut request.op));
        match changed {
            Some(Ok(())) => {}
            Some(Err(errno)) => building.note(errno),
            None => building.note(Errno::INVALID),
        }
    }

    /// Names the peer's shared receive queue of the request at hand (XRC).
    pub(crate) fn shared_queue(&self, number: SrqNum) {
        let mut building = self.building();
        match building.requests.last_mut() {
            Some(request) => request.remote_srq = number,
            None => building.note(Errno::INVALID),
        }
    }

    /// Gives the request at hand its elements.
    #[inline]
    pub(crate) fn elements(&self, sges: &[Sge]) {
        let mut building = self.building();
        if sges.len() > self.limits.elements {
            return building.note(Errno::INVALID);
        }
        let start = building.elements.len();
        building.elements.extend_from_slice(sges);
        building.data(start, sges.len(), false);
    }

    /// Gives the request at hand its bytes: pieces of program memory, by address and length.
    pub(crate) fn inline(&self, pieces: impl Iterator<Item = (u64, usize)> + Clone) {
        let mut building = self.building();
        let total = pieces.clone().try_fold(0_usize, |sum, (_, len)| sum.checked_add(len));
        let Some(total) = total.filter(|total| *total <= self.limits.inline) else {
            return building.note(Errno::NO_MEMORY);
        };
        let start = building.inline.len();
        for (at, len) in pieces {
            /// Bytes copied at a time.
            const PIECE: usize = 256;
            let mut at = at;
            let mut left = len;
            while left > 0 {
                let mut piece = [MaybeUninit::uninit(); PIECE];
                let now = left.min(PIECE);
                copy_in(at, &mut piece[..now]);
                building.inline.extend_from_slice(filled(&piece[..now]));
                (at, left) = (at.wrapping_add(now as u64), left - now);
            }
        }
        building.data(start, total, true);
    }

    /// Remembers a mistake.
    pub(crate) fn note(&self, errno: Errno) {
        self.building().note(errno);
    }

    /// Ends the list: posts it by `post`, in batches, unless there was a mistake.
    pub(crate) fn complete(&self, mut post: impl FnMut(&[SendWr<'_>]) -> Result<()>) -> Result<()> {
        let mut building = self.building();
        let result = match building.mistake {
            Some(errno) => Err(errno),
            None => building.requests.chunks(BATCH).try_for_each(|requests| {
                let mut batch = SendBatch::new();
                for request in requests {
                    batch.push(building.send(request));
                }
                post(batch.as_slice())
            }),
        };
        building.clear();
        drop(building);
        self.turn.give();
        result
    }

    /// Forgets the list.
    pub(crate) fn abort(&self) {
        self.building().clear();
        self.turn.give();
    }
}

impl Building {
    fn clear(&mut self) {
        self.requests.clear();
        self.elements.clear();
        self.inline.clear();
        self.mistake = None;
    }

    /// The first mistake counts.
    fn note(&mut self, errno: Errno) {
        self.mistake.get_or_insert(errno);
    }

    fn data(&mut self, start: usize, len: usize, inline: bool) {
        match self.requests.last_mut() {
            Some(request) => {
                (request.start, request.len) = (start, len);
                request.flags.set(SendFlags::INLINE, inline);
            }
            None => self.note(Errno::INVALID),
        }
    }

    fn send(&self, request: &Request) -> SendWr<'_> {
        let Request { wr_id, op, flags, start, len, remote_srq } = *request;
        let range = start..start + len;
        let is_inline = flags.contains(SendFlags::INLINE);
        let sges = if is_inline { None } else { self.elements.get(range.clone()) };
        let inline = if is_inline { self.inline.get(range) } else { None };
        let (sges, inline) = (sges.unwrap_or_default(), inline.unwrap_or_default());
        SendWr { wr_id, op, flags, sges, inline, remote_srq }
    }
}

#[cfg(test)]
mod tests {
    use softrnic_model::verbs::Key;

    use super::*;

    const SEND: SendOp = SendOp::Send { imm: None, invalidate: None };

    fn posted(list: &WorkList) -> Result<Vec<(u64, usize, Vec<u8>)>> {
        let mut all = Vec::new();
        list.complete(|wrs| {
            all.extend(wrs.iter().map(|wr| (wr.wr_id, wr.sges.len(), wr.inline.to_vec())));
            Ok(())
        })?;
        Ok(all)
    }

    fn sge(length: u32) -> Sge {
        Sge { addr: 0x1000, length, lkey: Key(1) }
    }

    #[test]
    fn a_list_is_posted_as_it_was_built_and_the_next_one_begins_empty() {
        let list = WorkList::new(u64::MAX, 40, 2, 600);
        let bytes: Vec<u8> = (0..=255).cycle().take(600).collect();
        for _ in 0..2 {
            list.start();
            list.request(1, Ok(SendFlags::SIGNALED), Ok(SEND));
            list.elements(&[sge(8), sge(9)]);
            list.request(2, Ok(SendFlags::empty()), Ok(SEND));
            list.inline([(bytes.as_ptr().expose_provenance() as u64, bytes.len())].into_iter());
            for wr_id in 3..40 {
                list.request(wr_id, Ok(SendFlags::empty()), Ok(SEND));
            }
            let all = posted(&list).unwrap();
            assert_eq!(all.len(), 39);
            assert_eq!(all[0], (1, 2, vec![]));
            assert_eq!(all[1], (2, 0, bytes.clone()));
            assert_eq!(all[38], (39, 0, vec![]));
        }
    }

    #[test]
    fn the_first_mistake_is_reported_at_the_end_and_nothing_is_posted() {
        let list = WorkList::new(u64::MAX, 2, 1, 16);
        let good = || list.request(0, Ok(SendFlags::empty()), Ok(SEND));
        let mistakes: [(&dyn Fn(), Errno); 5] = [
            (&|| list.elements(&[sge(1), sge(1)]), Errno::INVALID),
            (&|| list.inline([(0, 17)].into_iter()), Errno::NO_MEMORY),
            (&|| list.request(0, Err(Errno::INVALID), Ok(SEND)), Errno::INVALID),
            (&|| list.request(0, Ok(SendFlags::empty()), Err(Errno::NOT_SUPPORTED)), {
                Errno::NOT_SUPPORTED
            }),
            (&|| (good(), good()).0, Errno::NO_MEMORY),
        ];
        for (mistake, errno) in mistakes {
            list.start();
            good();
            mistake();
            list.note(Errno::IO);
            assert_eq!(posted(&list), Err(errno));
        }
        list.start();
        list.elements(&[sge(1)]);
        assert_eq!(posted(&list), Err(Errno::INVALID), "there is no request that they are of");
        list.start();
        good();
        list.abort();
        list.start();
        assert_eq!(posted(&list), Ok(vec![]));
    }
}
