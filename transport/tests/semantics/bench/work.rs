//! Work requests, short to write.

use std::ops::Range;

use softrnic_model::verbs::{
    Key, Placement, RecvWr, Selectivity, SendFlags, SendOp, SendWr, Sge, SrqNum,
};

use super::BASE;

/// A piece of local memory.
#[derive(Clone, Copy, Debug)]
enum Piece {
    /// Of the memory that the end itself has, by its own key.
    Own { at: u64, length: u32 },
    /// As it is.
    Raw(Sge),
}

/// A work request in the making: signalled, without memory.
#[derive(Clone, Debug)]
pub(crate) struct Wr {
    pub(crate) id: u64,
    pub(crate) op: SendOp,
    pub(crate) flags: SendFlags,
    pieces: Vec<Piece>,
    inline: Vec<u8>,
    srq: Option<SrqNum>,
}

pub(crate) const fn wr(id: u64, op: SendOp) -> Wr {
    Wr { id, op, flags: SendFlags::SIGNALED, pieces: Vec::new(), inline: Vec::new(), srq: None }
}

impl Wr {
    /// With `range` of the end's memory as its next element.
    pub(crate) fn at(mut self, range: Range<u64>) -> Self {
        let length = u32::try_from(range.end - range.start).unwrap();
        self.pieces.push(Piece::Own { at: range.start, length });
        self
    }

    /// With any element.
    pub(crate) fn sge(mut self, addr: u64, length: u32, lkey: Key) -> Self {
        self.pieces.push(Piece::Raw(Sge { addr, length, lkey }));
        self
    }

    /// Naming this shared receive queue, not that of the peer (XRC).
    pub(crate) fn to(mut self, srq: SrqNum) -> Self {
        self.srq = Some(srq);
        self
    }

    pub(crate) fn inline(mut self, bytes: &[u8]) -> Self {
        self.inline = bytes.to_vec();
        self.with_flags(SendFlags::INLINE)
    }

    pub(crate) fn with_flags(mut self, flags: SendFlags) -> Self {
        self.flags |= flags;
        self
    }

    pub(crate) fn unsignaled(mut self) -> Self {
        self.flags -= SendFlags::SIGNALED;
        self
    }

    fn sges(&self, key: Key) -> Vec<Sge> {
        let sge = |piece: &Piece| match *piece {
            Piece::Own { at, length } => Sge { addr: BASE + at, length, lkey: key },
            Piece::Raw(sge) => sge,
        };
        self.pieces.iter().map(sge).collect()
    }

    pub(crate) fn with<T>(
        &self,
        key: Key,
        remote_srq: SrqNum,
        act: impl FnOnce(&SendWr<'_>) -> T,
    ) -> T {
        let (wr_id, op, flags) = (self.id, self.op, self.flags);
        let remote_srq = self.srq.unwrap_or(remote_srq);
        act(&SendWr { wr_id, op, flags, sges: &self.sges(key), inline: &self.inline, remote_srq })
    }

    pub(crate) fn with_recv<T>(&self, key: Key, act: impl FnOnce(&RecvWr<'_>) -> T) -> T {
        act(&RecvWr { wr_id: self.id, sges: &self.sges(key) })
    }
}

/// SEND.
pub(crate) const fn send() -> SendOp {
    SendOp::Send { imm: None, invalidate: None }
}

/// SEND with immediate.
pub(crate) const fn send_imm(imm: u32) -> SendOp {
    SendOp::Send { imm: Some(imm), invalidate: None }
}

/// SEND with invalidate.
pub(crate) const fn send_invalidate(key: Key) -> SendOp {
    SendOp::Send { imm: None, invalidate: Some(key) }
}

/// Memory of a peer; places in it are counted from the first byte of the peer's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remote {
    pub(crate) key: Key,
}

impl Remote {
    pub(crate) const fn write(self, at: u64) -> SendOp {
        SendOp::Write { remote_addr: BASE + at, rkey: self.key, imm: None }
    }

    pub(crate) const fn write_imm(self, at: u64, imm: u32) -> SendOp {
        SendOp::Write { remote_addr: BASE + at, rkey: self.key, imm: Some(imm) }
    }

    pub(crate) const fn read(self, at: u64) -> SendOp {
        SendOp::Read { remote_addr: BASE + at, rkey: self.key }
    }

    pub(crate) const fn add(self, at: u64, add: u64) -> SendOp {
        SendOp::FetchAdd { remote_addr: BASE + at, rkey: self.key, add }
    }

    pub(crate) const fn atomic_write(self, at: u64) -> SendOp {
        SendOp::AtomicWrite { remote_addr: BASE + at, rkey: self.key }
    }

    /// A FLUSH of a range towards global visibility.
    pub(crate) const fn flush(self, at: u64, length: u32) -> SendOp {
        SendOp::Flush {
            remote_addr: BASE + at,
            rkey: self.key,
            length,
            placement: Placement::GLOBAL,
            selectivity: Selectivity::Range,
        }
    }

    pub(crate) const fn swap(self, at: u64, compare: u64, swap: u64) -> SendOp {
        SendOp::CompareSwap { remote_addr: BASE + at, rkey: self.key, compare, swap }
    }
}
