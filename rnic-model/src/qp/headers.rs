//! Headers that every packet of a queue pair begins with.

use crate::device::{FrameOut, Origin};
use crate::queue::SendWqe;
use crate::verbs::{Psn, QpNum};
use crate::wire::{Bth, Opcode, Operation, Place, Service, XrcEth};

use super::pair::Qp;

/// Which packet of which message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) service: Service,
    pub(super) operation: Operation,
    pub(super) place: Place,
    pub(super) imm: bool,
    pub(super) invalidate: bool,
}

impl Kind {
    pub(super) const fn new(service: Service, operation: Operation, place: Place) -> Self {
        Self { service, operation, place, imm: false, invalidate: false }
    }

    pub(super) const fn with(mut self, imm: bool, invalidate: bool) -> Self {
        self.imm = imm;
        self.invalidate = invalidate;
        self
    }

    /// The opcode. Posting has refused every combination that has none.
    fn opcode(self) -> Opcode {
        let Self { service, operation, place, imm, invalidate } = self;
        let opcode = Opcode::compose(service, operation, place, imm, invalidate);
        debug_assert!(opcode.is_some(), "no opcode for {self:?}");
        opcode.unwrap_or(Opcode(0))
    }
}

/// The place of a packet in its message.
pub(super) const fn place(begins: bool, ends: bool) -> Place {
    match (begins, ends) {
        (true, true) => Place::Only,
        (true, false) => Place::First,
        (false, false) => Place::Middle,
        (false, true) => Place::Last,
    }
}

/// Begins a request packet: the base transport header and, of XRC, which shared receive queue it
/// is for.
// [xrc/xrceth]
pub(super) fn request(qp: &Qp, wqe: &SendWqe, origin: Origin, bth: &Bth, frame: &mut FrameOut) {
    frame.begin(qp, origin, qp.requester.next_psn, bth);
    if qp.service() == Service::Xrc {
        frame.header.push(&XrcEth::new(wqe.remote_srq.get()));
    }
}

/// A base transport header. There is one path, so the migration bit stays clear, as soft-RoCE
/// leaves it.
pub(super) fn bth(qp: &Qp, kind: Kind, dest_qp: QpNum, psn: Psn, payload_len: u32) -> Bth {
    let pad = (payload_len.wrapping_neg() & 3) as usize;
    Bth::new(kind.opcode(), dest_qp, psn).with_pkey(qp.pkey).with_pad(pad)
}
