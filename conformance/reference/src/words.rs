//! The words of the reference model.

use std::fmt;

/// How a work request ended (`ibv_wc_status`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// Done.
    Success,
    /// A local buffer is too short.
    LocalLength,
    /// A local key, range or right is wrong.
    LocalProtection,
    /// The same, or another fault of the program's own, on devices that do not tell them apart.
    LocalOperation,
    /// The queue pair was in error before its turn came.
    Flushed,
    /// A window could not be bound.
    WindowBind,
    /// The peer refused the request as invalid.
    RemoteInvalid,
    /// The peer refused access.
    RemoteAccess,
    /// The peer could not carry it out.
    RemoteOperation,
    /// The peer did not answer.
    RetryExceeded,
    /// The peer had no receive posted, too often.
    RnrRetryExceeded,
    /// Anything else.
    Other,
}

/// What a send work request was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// SEND
    Send,
    /// RDMA WRITE
    Write,
    /// RDMA READ
    Read,
    /// Compare and swap
    CompareSwap,
    /// Fetch and add
    FetchAdd,
    /// ATOMIC WRITE
    AtomicWrite,
    /// FLUSH
    Flush,
    /// Window bind
    BindWindow,
    /// Local invalidate
    LocalInvalidate,
}

/// What takes a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Arrival {
    /// A SEND.
    Message,
    /// A WRITE with immediate.
    WriteWithImmediate,
}

/// A completion of a send work request, as it was polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The program's number.
    pub id: u64,
    /// How it ended.
    pub status: Status,
    /// What it was; of a failed one nobody may look.
    pub kind: Kind,
    /// Bytes that an answer brought; of other kinds nobody may look.
    pub bytes: u32,
}

/// A successful receive completion, as it was polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// What took the receive.
    pub arrival: Arrival,
    /// Bytes.
    pub len: u32,
    /// The immediate, if it says that it has one.
    pub imm: Option<u32>,
    /// The key that it says it has invalidated.
    pub invalidated: Option<u32>,
}

/// Whether a request that is over was carried out at the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// Once.
    Done,
    /// Never.
    NotDone,
    /// Once or never, wholly or in part: its answer was never seen.
    Unknown,
}

/// Something that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(pub String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Violation {}

/// Fails with a violation unless something holds.
pub(crate) fn demand(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation(otherwise())) }
}
