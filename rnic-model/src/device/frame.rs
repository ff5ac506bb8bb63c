//! A frame that wants to leave.

use crate::verbs::{Key, PdId, Psn};
use crate::wire::{HeaderBuf, Route};

/// A packet whose headers are made and whose payload still lies in program memory.
///
/// It describes what [`Device::fill`](super::Device::fill) will write; until that is called the
/// device has not moved on, and dropping the frame loses nothing. If the device is told something
/// else in between and the frame is due no more, it is not filled.
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
    Request { psns: u32, ends_request: bool },
    Response,
    Cnp,
}

impl FrameOut {
    /// Bytes from the BTH to the end of the pad; the ICRC comes on top.
    #[must_use]
    pub fn len(&self) -> usize {
        self.header.as_slice().len() + (self.payload_len as usize).next_multiple_of(4)
    }

    /// Never: a packet has at least a BTH.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }
}
