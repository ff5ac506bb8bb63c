//! Why there is no connection.

use std::fmt;

use softrnic_model::cm::RejectReason;

use crate::cm::{CmError, CmEvent, CmEventKind, EventParam};
use crate::error::Error;
use crate::provider::OpenFailure;

/// Why there is no connection, in words that say what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectError {
    /// Nobody listens at the port, in the port space of connections.
    NoListener,
    /// The program at the other end says no, and maybe why.
    Refused {
        /// What it has said, padded with zeros.
        private_data: Vec<u8>,
    },
    /// The other end still knows a connection of the queue pair, or this end does.
    Stale,
    /// The other end speaks another version.
    Version,
    /// The path MTU is more than the other end carries.
    Mtu,
    /// The other end refuses for another reason.
    Rejected(RejectReason),
    /// The other end does not answer.
    Timeout,
    /// There is no way to the other end.
    NoRoute(CmError),
    /// The connection ended before it was complete.
    Ended,
    /// The connection manager refuses.
    Refusal(CmError),
    /// A verb is refused.
    Verb(Error),
    /// No device can be opened.
    Device(OpenFailure),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoListener => f.write_str(
                "nobody listens there: the program is not running, or listens to another port or \
                 in another port space",
            ),
            Self::Refused { private_data } => {
                f.write_str("the program there refused")?;
                let end = private_data.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
                match core::str::from_utf8(private_data.get(..end).unwrap_or_default()) {
                    Ok("") => Ok(()),
                    Ok(text) if !text.contains(char::is_control) => write!(f, ": {text}"),
                    Ok(_) | Err(_) => write!(f, " with {end} bytes of private data"),
                }
            }
            Self::Stale => f.write_str(
                "the other end still has a connection of this queue pair; try again in a second",
            ),
            Self::Version => f.write_str("the other end speaks another version of the protocol"),
            Self::Mtu => f.write_str(
                "the path MTU is larger than the other end carries; ask for a smaller one",
            ),
            Self::Rejected(reason) => write!(f, "the other end refused: {reason}"),
            Self::Timeout => f.write_str(
                "the other end does not answer: no RDMA device has that address, or UDP port 4791 \
                 is blocked on the way",
            ),
            Self::NoRoute(error) => write!(f, "there is no way to that address: {error}"),
            Self::Ended => f.write_str("the connection ended before it was complete"),
            Self::Refusal(error) => error.fmt(f),
            Self::Verb(error) => error.fmt(f),
            Self::Device(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NoRoute(error) | Self::Refusal(error) => Some(error),
            Self::Verb(error) => Some(error),
            Self::Device(error) => Some(error),
            Self::NoListener
            | Self::Refused { .. }
            | Self::Stale
            | Self::Version
            | Self::Mtu
            | Self::Rejected(_)
            | Self::Timeout
            | Self::Ended => None,
        }
    }
}

impl From<CmError> for ConnectError {
    fn from(error: CmError) -> Self {
        Self::Refusal(error)
    }
}

impl From<Error> for ConnectError {
    fn from(error: Error) -> Self {
        Self::Verb(error)
    }
}

impl From<OpenFailure> for ConnectError {
    fn from(error: OpenFailure) -> Self {
        Self::Device(error)
    }
}

impl ConnectError {
    /// What an event says that is not the one that was hoped for.
    pub(super) fn of(event: CmEvent) -> Self {
        match event.kind {
            CmEventKind::Rejected => {
                let reason = RejectReason(u16::try_from(event.status).unwrap_or(0));
                match (reason, event.param) {
                    (RejectReason::INVALID_SERVICE_ID, _) => Self::NoListener,
                    (RejectReason::CONSUMER_DEFINED, EventParam::Conn(param)) => {
                        Self::Refused { private_data: param.private_data }
                    }
                    (RejectReason::STALE_CONN, _) => Self::Stale,
                    (RejectReason::INVALID_CLASS_VERSION, _) => Self::Version,
                    (RejectReason::INVALID_MTU, _) => Self::Mtu,
                    (RejectReason::TIMEOUT, _) => Self::Timeout,
                    (reason, _) => Self::Rejected(reason),
                }
            }
            CmEventKind::Unreachable => Self::Timeout,
            CmEventKind::AddrError | CmEventKind::RouteError => {
                Self::NoRoute(CmError::with_errno(-event.status, "the address is not reachable"))
            }
            CmEventKind::AddrResolved
            | CmEventKind::RouteResolved
            | CmEventKind::ConnectRequest
            | CmEventKind::ConnectResponse
            | CmEventKind::ConnectError
            | CmEventKind::Established
            | CmEventKind::Disconnected
            | CmEventKind::DeviceRemoval
            | CmEventKind::MulticastJoin
            | CmEventKind::MulticastError
            | CmEventKind::AddrChange
            | CmEventKind::TimewaitExit => Self::Ended,
        }
    }
}
