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
    /// A queue pair took its alternate path; raised by real devices only.
    PathMigrated(QpNum),
    /// It could not; raised by real devices only.
    PathMigrationFailed(QpNum),
    /// The port became usable.
    PortActive,
    /// The port stopped being usable.
    PortError,
    /// The GID table changed.
    GidChange,
    /// The port's LID changed; raised by real devices only, as are those down to `ClientReregister`.
    LidChange,
    /// The P_Key table changed.
    PkeyChange,
    /// There is another subnet manager.
    SubnetManagerChange,
    /// The subnet manager wants to be told anew of what it was told before.
    ClientReregister,
    /// The device failed.
    DeviceFatal,
}

/// What an asynchronous event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A completion queue.
    Cq(CqId),
    /// A queue pair.
    Qp(QpNum),
    /// A shared receive queue.
    Srq(SrqId),
    /// The port or the whole device.
    Device,
}

impl AsyncEvent {
    /// What it is about.
    #[must_use]
    pub const fn subject(&self) -> Subject {
        match *self {
            Self::CqError(cq) => Subject::Cq(cq),
            Self::QpFatal(qp)
            | Self::QpRequestError(qp)
            | Self::QpAccessError(qp)
            | Self::CommunicationEstablished(qp)
            | Self::SqDrained(qp)
            | Self::LastWqeReached(qp)
            | Self::PathMigrated(qp)
            | Self::PathMigrationFailed(qp) => Subject::Qp(qp),
            Self::SrqError(srq) | Self::SrqLimitReached(srq) => Subject::Srq(srq),
            Self::PortActive
            | Self::PortError
            | Self::GidChange
            | Self::LidChange
            | Self::PkeyChange
            | Self::SubnetManagerChange
            | Self::ClientReregister
            | Self::DeviceFatal => Subject::Device,
        }
    }
}
