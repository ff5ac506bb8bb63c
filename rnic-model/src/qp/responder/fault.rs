//! What can be wrong with a request, and what follows: the NAK, the receive completion, the event.

use crate::counters::Counter;
use crate::memory::MemoryFault;
use crate::profile::Profile;
use crate::protection::AccessFault;
use crate::qp::failure::Failure;
use crate::verbs::{AsyncEvent, QpNum, WcStatus};
use crate::wire::NakCode;

/// Why a request cannot be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Its opcode does not fit what came before.
    OpcodeSequence,
    /// The device does not do this.
    UnsupportedOpcode,
    /// The queue pair does not let peers do this.
    NotPermitted,
    /// More READs and atomics are open than the queue pair allows.
    TooManyReads,
    /// The payload or the length in the header is wrong.
    BadLength,
    /// An atomic's address is not a multiple of 8.
    Misaligned,
    /// The message is longer than the receive request.
    ReceiveTooSmall,
    /// A key, range or right is wrong.
    Access(AccessFault),
    /// The memory behind a region is gone.
    Memory,
    /// The receive request's own memory cannot be used.
    Local(Failure),
    /// No receive request is posted.
    NotReady,
    /// The shared receive queue that a request of XRC names is none, is in another XRC domain, or
    /// is not the one that its message began with.
    WrongSrq,
    /// That queue has failed.
    SrqFailed,
}

impl Fault {
    /// The NAK that a peer gets; none where it may try again (an RNR NAK is sent then).
    // [protection/same-answer]
    pub(super) fn nak(self, profile: &Profile) -> Option<NakCode> {
        match self {
            Self::OpcodeSequence
            | Self::UnsupportedOpcode
            | Self::NotPermitted
            | Self::TooManyReads
            | Self::BadLength
            | Self::Misaligned
            | Self::WrongSrq => Some(NakCode::InvalidRequest),
            Self::ReceiveTooSmall
                if profile.receive_too_small.requester == WcStatus::RemoteOperationError =>
            {
                Some(NakCode::RemoteOperational)
            }
            Self::ReceiveTooSmall => Some(NakCode::InvalidRequest),
            Self::Access(_) => Some(NakCode::RemoteAccess),
            // [rc-responder/receive-bad-lkey] [protection/memory-gone]
            Self::Memory | Self::Local(_) | Self::SrqFailed => Some(NakCode::RemoteOperational),
            Self::NotReady => None,
        }
    }

    /// How the receive request that was being filled ends, where it is itself at fault; in all
    /// other cases it is flushed.
    pub(super) fn receive_failure(self, profile: &Profile) -> Option<Failure> {
        match self {
            Self::ReceiveTooSmall => Some(profile.receive_too_small.responder.into()),
            Self::Local(why) => Some(why),
            Self::OpcodeSequence
            | Self::UnsupportedOpcode
            | Self::NotPermitted
            | Self::TooManyReads
            | Self::BadLength
            | Self::Misaligned
            | Self::Access(_)
            | Self::Memory
            | Self::NotReady
            | Self::WrongSrq
            | Self::SrqFailed => None,
        }
    }

    /// The event that tells the responder's program, where no completion does.
    // [events/access-error] [events/request-error] [events/fatal]
    pub(super) fn event(self, qp: QpNum) -> Option<AsyncEvent> {
        match self {
            Self::OpcodeSequence
            | Self::UnsupportedOpcode
            | Self::NotPermitted
            | Self::TooManyReads
            | Self::BadLength
            | Self::Misaligned
            | Self::ReceiveTooSmall
            | Self::WrongSrq => Some(AsyncEvent::QpRequestError(qp)),
            Self::Access(_) => Some(AsyncEvent::QpAccessError(qp)),
            Self::Memory | Self::Local(_) | Self::SrqFailed => Some(AsyncEvent::QpFatal(qp)),
            Self::NotReady => None,
        }
    }

    pub(super) fn counter(self) -> Counter {
        match self {
            Self::OpcodeSequence
            | Self::UnsupportedOpcode
            | Self::NotPermitted
            | Self::TooManyReads
            | Self::BadLength
            | Self::Misaligned
            | Self::WrongSrq => Counter::ResponderRemoteInvalidRequest,
            Self::ReceiveTooSmall => Counter::ResponderLocalLength,
            Self::Access(_) => Counter::ResponderRemoteAccess,
            Self::Memory | Self::Local(_) | Self::SrqFailed => Counter::ResponderRemoteOperation,
            Self::NotReady => Counter::SentRnrNak,
        }
    }

    /// What is counted when an unreliable service drops the message instead.
    pub(super) fn dropped_counter(self) -> Counter {
        match self {
            Self::OpcodeSequence => Counter::DropOpcodeSequence,
            Self::NotReady => Counter::DropNoReceive,
            Self::ReceiveTooSmall | Self::BadLength => Counter::DropTooLong,
            Self::UnsupportedOpcode
            | Self::NotPermitted
            | Self::TooManyReads
            | Self::Misaligned
            | Self::Access(_)
            | Self::Memory
            | Self::Local(_)
            | Self::WrongSrq
            | Self::SrqFailed => Counter::DropRefused,
        }
    }
}

impl From<AccessFault> for Fault {
    fn from(fault: AccessFault) -> Self {
        Self::Access(fault)
    }
}

impl From<MemoryFault> for Fault {
    fn from(_: MemoryFault) -> Self {
        Self::Memory
    }
}
