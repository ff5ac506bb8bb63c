//! Events.

use super::{CqId, QpNum, SrqId};

/// Something that the driver passes on to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An armed completion queue got what it was armed for.
    Completion(CqId),
    /// An asynchronous event.
    Async(AsyncEvent),
}

/// An asynchronous event (`ibv_get_async_event(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AsyncEvent {
    /// A completion queue overran.
    CqError(CqId),
    /// A queue pair failed, and no completion says so.
    QpFatal(QpNum),
    /// A peer's request was invalid.
    QpRequestError(QpNum),
    /// A peer's request violated the protection.
    QpAccessError(QpNum),
    /// A packet arrived in RTR.
    CommunicationEstablished(QpNum),
    /// The send queue has drained.
    SqDrained(QpNum),
    /// A queue pair with a shared receive queue went to error and takes nothing more from it.
    LastWqeReached(QpNum),
    /// A shared receive queue failed.
    SrqError(SrqId),
    /// A shared receive queue holds fewer entries than its limit.
    SrqLimitReached(SrqId),
    /// The port became usable.
    PortActive,
    /// The port stopped being usable.
    PortError,
    /// The GID table changed.
    GidChange,
    /// The device failed.
    DeviceFatal,
}
