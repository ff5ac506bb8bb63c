//! A frame that wants to leave.

use crate::qp::pair::Qp;
use crate::verbs::{Key, PdId, Psn};
use crate::wire::{Bth, HeaderBuf, Route};

/// A packet whose headers are made and whose payload still lies in program memory.
///
/// It describes what [`Device::fill`](super::Device::fill) will write; until that is called the
/// device has not moved on, and dropping the frame loses nothing. If the device is told something
/// else in between and the frame is due no more, it is not filled.
///
/// It is a place that [`Device::next_frame`](super::Device::next_frame) writes: made once and used
/// for one packet after the other, so that none is moved about.
#[derive(Debug)]
pub struct FrameOut {
    /// Addressing.
    pub route: Route,
    pub(crate) header: HeaderBuf,
    pub(crate) payload: Payload,
    pub(crate) payload_len: u32,
    /// Place of the queue pair in the device's table.
    pub(crate) owner: u32,
    pub(crate) psn: Psn,
    pub(crate) origin: Origin,
}

/// Where the payload lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payload {
    /// There is none.
    None,
    /// In the local memory of send request `wqe`, from byte `offset` of the message on.
    Message { wqe: u32, offset: u32 },
    /// In the memory that a peer READs.
    Region { pd: PdId, key: Key, addr: u64 },
}

/// Which machine made the frame and moves on when it has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Request {
        psns: u32,
        ends_request: bool,
    },
    Response,
    Cnp,
    /// A management datagram, the first of those that wait.
    Gsi,
    /// It is not sent: it brings bytes to memory that were held back.
    Late,
}

/// What became of a frame that was to be filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// It must not be sent.
    Not,
    /// It was.
    Once,
    /// It was, and the next frame is like it: of the same length, to the same queue pair on the same
    /// route.
    AndMore,
}

impl Default for FrameOut {
    /// A frame that is never due.
    fn default() -> Self {
        Self {
            route: Route::default(),
            header: HeaderBuf::new(),
            payload: Payload::None,
            payload_len: 0,
            owner: u32::MAX,
            psn: Psn::new(0),
            origin: Origin::Response,
        }
    }
}

impl FrameOut {
    /// Begins a packet of `qp` with this header.
    #[inline]
    pub(crate) fn begin(&mut self, qp: &Qp, origin: Origin, psn: Psn, bth: &Bth) {
        self.route = qp.route;
        self.header.clear();
        self.header.push(bth);
        self.payload = Payload::None;
        self.payload_len = 0;
        self.owner = qp.index;
        self.psn = psn;
        self.origin = origin;
    }

    /// Bytes from the BTH to the end of the pad; the ICRC comes on top.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.header.as_slice().len() + (self.payload_len as usize).next_multiple_of(4)
    }

    /// Never: a packet has at least a BTH.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }
}
