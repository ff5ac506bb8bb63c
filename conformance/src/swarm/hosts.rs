//! Hosts: a device, the program's memory, and what the reference model knows of them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use softrnic_reference::{Additions, Counts, Memory, Receives, Violation};
use softrnic_verbs::buffer::Buffer;
use softrnic_verbs::provider::Verb;
use softrnic_verbs::simulated::{Fabric, NodeId};
use softrnic_verbs::{
    Access, Context, Cq, Error, Key, Mr, Pd, Srq, SrqAttributes, WindowType, Xrcd,
};

use super::chance::Chance;
use super::guarded::Guarded;
use super::plan::Plan;
use super::stranger::Stranger;
use super::windows::Window;

/// Rights of the one region that each host has for all.
pub(super) const ALL_RIGHTS: Access =
    Access::LOCAL_WRITE.union(Access::REMOTE).union(Access::MW_BIND).union(Access::FLUSH_GLOBAL);

/// The word that everybody adds 1 to.
pub(super) const SHARED_WORD: usize = 0;

/// A piece of a host's memory that somebody uses: nobody else does for that long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) slot: u32,
    pub(super) at: usize,
    pub(super) len: usize,
}

/// A receive's memory.
pub(super) type Pieces = Vec<Piece>;

pub(super) struct Host {
    pub(super) node: NodeId,
    pub(super) context: Context,
    pub(super) pd: Pd,
    pub(super) send_cq: Cq,
    pub(super) recv_cq: Cq,
    pub(super) region: Mr,
    pub(super) srq: Srq,
    pub(super) xrcd: Xrcd,
    pub(super) xrc_srq: Srq,
    /// Which end a queue pair number is of.
    pub(super) ends: BTreeMap<u32, usize>,
    /// The ends that are here.
    pub(super) own_ends: Vec<usize>,
    pub(super) memory: Memory,
    pub(super) shared: Receives<Pieces>,
    pub(super) xrc: Receives<Pieces>,
    pub(super) additions: Additions,
    pub(super) counts: Counts,
    pub(super) windows: Vec<Window>,
    pub(super) guarded: Guarded,
    pub(super) stranger: Stranger,
    pub(super) parted: bool,
    pub(super) paused: bool,
    slots: Slots,
    /// Places that requests leave free: one for each receive queue.
    reserved: usize,
    fresh: u64,
    scratch: Vec<u8>,
}

/// Places for messages.
struct Slots {
    first: usize,
    bytes: usize,
    count: u32,
    free: Vec<u32>,
    /// Places that somebody has used so far: those below this one.
    used: u32,
}

impl Slots {
    fn new(first: usize, bytes: usize, count: u32) -> Self {
        Self { first, bytes, count, free: (0..count).rev().collect(), used: 0 }
    }

    /// A free place, of those that were used before if there is one; and where it begins.
    fn take(&mut self) -> Option<(u32, usize)> {
        let slot = self.free.pop()?;
        self.used = self.used.max(slot + 1);
        Some((slot, self.first + self.bytes * slot as usize))
    }

    /// Where the places end that somebody has used, and one more behind them.
    fn end_of_used(&self) -> usize {
        self.first + self.bytes * (self.used + 1).min(self.count) as usize
    }
}

impl Host {
    pub(super) fn new(
        fabric: &Fabric,
        node: NodeId,
        plan: &Plan,
        ends: u32,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let context = fabric.open(node)?;
        let pd = context.alloc_pd()?;
        let [send_depth, recv_depth] = plan.depths;
        let shared = 4 * recv_depth;
        // A completion for each request that can be open, and those of a connection that was replaced.
        let send_cq = context.create_cq((ends * send_depth * 2).max(16))?;
        let recv_cq = context.create_cq((ends * recv_depth * 2 + 2 * shared).max(16))?;
        let bytes = (plan.message_max as usize + 128).next_multiple_of(64);
        let count = ends * plan.slots + 2 * shared;
        // In front: the shared word, and one for each end.
        let first = (8 + 8 * 2 * plan.connections as usize).next_multiple_of(64);
        let len = first + bytes * count as usize;
        let region = pd.register(Buffer::new(len)?, ALL_RIGHTS)?;
        let attributes = SrqAttributes { max_wr: shared, max_sge: 3, srq_limit: 0 };
        let srq = pd.create_srq(&attributes)?;
        let xrcd = context.open_xrcd()?;
        let xrc_srq = xrcd.create_srq(&pd, &recv_cq, &attributes)?;
        let kinds = [WindowType::Type1, WindowType::Type2A, WindowType::Type2B];
        let windows = kinds.map(|kind| Window::new(&pd, kind));
        let guarded = Guarded::new(&pd)?;
        let stranger = Stranger::new(fabric, &context)?;
        Ok(Self {
            node,
            guarded,
            stranger,
            windows: windows.into_iter().collect::<Verb<_>>()?,
            context,
            pd,
            send_cq,
            recv_cq,
            region,
            srq,
            xrcd,
            xrc_srq,
            ends: BTreeMap::new(),
            own_ends: Vec::new(),
            memory: Memory::new(len),
            shared: Receives::new(true),
            xrc: Receives::new(true),
            additions: Additions::default(),
            counts: Counts::default(),
            parted: false,
            paused: false,
            slots: Slots::new(first, bytes, count),
            reserved: ends as usize + 2,
            fresh: u64::from(node.get()) << 40,
            scratch: Vec::new(),
        })
    }

    pub(super) fn key(&self) -> Key {
        self.region.rkey()
    }

    /// Takes a place for `len` bytes, at some offset if there is room.
    pub(super) fn take(&mut self, len: usize, chance: &mut Chance) -> Option<Piece> {
        if self.slots.free.len() <= self.reserved { None } else { self.take_reserved(len, chance) }
    }

    /// Places for a receive. A queue without any gets one of those that requests have to leave: else both
    /// could wait for each other.
    pub(super) fn take_for_receive(
        &mut self,
        len: usize,
        only: bool,
        chance: &mut Chance,
    ) -> Option<Pieces> {
        match self.take_pieces(len, chance) {
            None if only => self.take_reserved(len, chance).map(|piece| vec![piece]),
            pieces => pieces,
        }
    }

    fn take_reserved(&mut self, len: usize, chance: &mut Chance) -> Option<Piece> {
        if len > self.slots.bytes {
            return None;
        }
        let (slot, begin) = self.slots.take()?;
        let room = self.slots.bytes - len;
        Some(Piece { slot, at: begin + chance.index(room.min(63) + 1), len })
    }

    /// Takes a place for a word.
    pub(super) fn take_word(&mut self) -> Option<Piece> {
        let (slot, at) = self.slots.take()?;
        Some(Piece { slot, at, len: 8 })
    }

    /// Takes one to three places for `len` bytes in all.
    pub(super) fn take_pieces(&mut self, len: usize, chance: &mut Chance) -> Option<Pieces> {
        let count = 1 + chance.index(3).min(len.saturating_sub(1));
        let mut left = len;
        let mut pieces = Vec::with_capacity(count);
        for number in (0..count).rev() {
            let here = if number == 0 { left } else { chance.index(left + 1) };
            let Some(piece) = self.take(here, chance) else {
                self.give(&pieces);
                return None;
            };
            left -= here;
            pieces.push(piece);
        }
        Some(pieces)
    }

    pub(super) fn give(&mut self, pieces: &[Piece]) {
        self.slots.free.extend(pieces.iter().map(|piece| piece.slot));
    }

    /// The program writes bytes that are nowhere else.
    pub(super) fn refresh(&mut self, pieces: &[Piece]) {
        for piece in pieces {
            self.scratch.clear();
            while self.scratch.len() < piece.len {
                self.fresh = self.fresh.wrapping_add(1);
                let word = self.fresh.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                self.scratch.extend_from_slice(&word.to_le_bytes());
            }
            self.scratch.truncate(piece.len);
            // Inside the buffer by construction.
            let _ = self.region.buffer().write(piece.at, &self.scratch);
            self.memory.write(piece.at, &self.scratch);
        }
    }

    /// What must be in some pieces, one after the other.
    pub(super) fn gather(&self, pieces: &[Piece]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(pieces.iter().map(|piece| piece.len).sum());
        for piece in pieces {
            bytes.extend_from_slice(self.memory.read(piece.at..piece.at + piece.len));
        }
        bytes
    }

    /// Bytes must have come into some pieces, from the first byte of the first on.
    pub(super) fn scatter(&mut self, pieces: &[Piece], mut bytes: &[u8]) {
        for piece in pieces {
            let here;
            (here, bytes) = bytes.split_at(piece.len.min(bytes.len()));
            self.memory.write(piece.at, here);
        }
    }

    pub(super) fn forget(&mut self, pieces: &[Piece]) {
        for piece in pieces {
            self.memory.forget(piece.at..piece.at + piece.len);
        }
    }

    /// What really is in some pieces.
    pub(super) fn found(&mut self, pieces: &[Piece]) -> Vec<u8> {
        let mut bytes = vec![0; pieces.iter().map(|piece| piece.len).sum()];
        let mut from = 0;
        for piece in pieces {
            let _ = self.region.buffer().read(piece.at, &mut bytes[from..from + piece.len]);
            from += piece.len;
        }
        bytes
    }

    /// Holds what is in some pieces against what must be.
    pub(super) fn compare(&mut self, pieces: &[Piece]) -> Result<(), Violation> {
        for piece in pieces {
            self.scratch.resize(piece.len, 0);
            let _ = self.region.buffer().read(piece.at, &mut self.scratch);
            self.memory.compare(piece.at, &self.scratch)?;
        }
        Ok(())
    }

    /// The same of all its memory that was ever used, and of the place behind it.
    pub(super) fn compare_all(&mut self) -> Result<(), Violation> {
        let len = self.slots.end_of_used();
        self.compare(&[Piece { slot: 0, at: 0, len }])
    }

    /// What the device says of its counters, by their names.
    pub(super) fn counters(&self) -> Result<BTreeMap<Cow<'static, str>, u64>, Error> {
        let counters = self.context.counters()?;
        Ok(counters.into_iter().map(|counter| (counter.name, counter.value)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_leave_a_place_for_each_receive_queue() {
        let plan = Plan::drawn(7, 1);
        let fabric = Fabric::star(1, 7);
        let ends = 2;
        let mut host = Host::new(&fabric, fabric.hosts()[0], &plan, ends).unwrap();
        let mut chance = Chance::new(7);
        while host.take(8, &mut chance).is_some() {}
        assert!(host.take_pieces(8, &mut chance).is_none());
        assert!(host.take_for_receive(8, false, &mut chance).is_none(), "it has receives");
        for queue in 0..ends + 2 {
            assert!(host.take_for_receive(8, true, &mut chance).is_some(), "queue {queue}");
        }
        assert!(host.take_for_receive(8, true, &mut chance).is_none());
    }
}
