//! Many processes, one address: the port service.
//!
//! Peers name a queue pair by address and number and always send to one UDP port, so all
//! processes of an address share one space of numbers and one port. A service, one per user, port
//! and network namespace, owns the port: it binds a group of sockets (`SO_REUSEPORT`) of which the
//! kernel chooses one by the slot of the destination queue pair number (`group`), and hands each
//! process the socket of its slot. From then on the kernel delivers to the process itself.
//!
//! * [`Member`] is a process' side of it; it starts the service where there is none (`launch`).
//! * `server` is the service. What it owns is also held by a `keeper`, a process that does
//!   nothing but hold it and start the service anew when it dies: the position of a socket in its
//!   group, and so its slot, lasts as long as nobody closes a socket of the group.
//! * `message` is what the two say to each other.
//!
//! `docs/port-service.md` says how to use it, `docs/decisions/` why it is so.

mod channel;
mod codec;
mod estate;
#[cfg(feature = "fuzz-entry")]
#[doc(hidden)]
pub mod fuzz_entry;
mod gate;
mod group;
mod keeper;
mod launch;
mod member;
mod message;
mod ps;
mod server;
mod slots;
#[expect(unsafe_code, reason = "system calls that no crate covers")]
mod sys;
#[cfg(test)]
mod tests;
mod will;

use std::fmt;
use std::net::IpAddr;

use softrnic_model::cm::{CommId, ServiceId, State};
use softrnic_model::verbs::Gid;

pub use keeper::keep;
pub use member::{Granted, JoinError, Member, Notice, Rejoined};
pub use ps::{Listed, Listing, services};
pub use server::{Settings, resume, serve, start_detached};
pub use will::Will;

/// The environment variable that names the executable of the service, or forbids it (`off`).
pub const VARIABLE: &str = "SOFTRNIC_SERVICE";
/// The environment variable that names a user (by number) whose service is trusted as well.
pub const TRUST_VARIABLE: &str = "SOFTRNIC_SERVICE_UID";

/// An address in a network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The address.
    pub ip: IpAddr,
    /// Index of the interface of a link-local address, 0 for all others.
    pub scope: u32,
}

impl Place {
    /// An address of the interface with this index.
    #[must_use]
    pub const fn new(ip: IpAddr, interface: u32) -> Self {
        let scoped = matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
        Self { ip, scope: if scoped { interface } else { 0 } }
    }
}

/// Why the service refuses something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It serves other users only.
    NotAllowed,
    /// It does not understand the request.
    Malformed,
    /// It speaks another version of the protocol, or the asker does.
    Version(u8),
    /// The host does not have the address, or not yet.
    AddressNotHere,
    /// Somebody else has the port at this address; the number of the user, if it is known.
    AddressInUse(Option<u32>),
    /// Another process has the slot of this device at that address.
    SlotTaken,
    /// All slots of the address, or all that this user may have, are taken.
    NoSlot,
    /// The user has as many connections or addresses as one may have.
    TooMany,
    /// Not now; try again in a moment.
    Busy,
    /// Another process has the port of the connection manager; the number of the user, if it is
    /// another one.
    PortInUse(Option<u32>),
    /// The system said no: its error number (`errno(3)`).
    System(u32),
}

/// No user has this number (`setreuid(2)`).
const NOBODY_KNOWN: u32 = u32::MAX;

impl Refusal {
    const fn code(self) -> (u8, u32) {
        match self {
            Self::NotAllowed => (1, 0),
            Self::Malformed => (2, 0),
            Self::Version(version) => (3, version as u32),
            Self::AddressNotHere => (4, 0),
            Self::AddressInUse(None) => (5, NOBODY_KNOWN),
            Self::AddressInUse(Some(uid)) => (5, uid),
            Self::SlotTaken => (6, 0),
            Self::NoSlot => (7, 0),
            Self::TooMany => (8, 0),
            Self::Busy => (9, 0),
            Self::System(errno) => (10, errno),
            Self::PortInUse(None) => (11, NOBODY_KNOWN),
            Self::PortInUse(Some(uid)) => (11, uid),
        }
    }

    fn from_code(code: u8, detail: u32) -> Option<Self> {
        Some(match code {
            1 => Self::NotAllowed,
            2 => Self::Malformed,
            3 => Self::Version(detail.to_le_bytes()[0]),
            4 => Self::AddressNotHere,
            5 => Self::AddressInUse((detail != NOBODY_KNOWN).then_some(detail)),
            6 => Self::SlotTaken,
            7 => Self::NoSlot,
            8 => Self::TooMany,
            9 => Self::Busy,
            10 => Self::System(detail),
            11 => Self::PortInUse((detail != NOBODY_KNOWN).then_some(detail)),
            _ => return None,
        })
    }
}

impl From<rustix::io::Errno> for Refusal {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::System(errno.raw_os_error().unsigned_abs())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAllowed => f.write_str(
                "the port service does not serve this user; its owner can start it with \
                 `softrnic service --allow-uid`",
            ),
            Self::Malformed => f.write_str("the port service does not understand the request"),
            Self::Version(version) => write!(
                f,
                "the port service speaks version {version} of its protocol, not {}; end it and \
                 use one version of softrnic",
                message::VERSION
            ),
            Self::AddressNotHere => f.write_str("the host does not have the address (yet)"),
            Self::AddressInUse(Some(uid)) => write!(
                f,
                "a process of user {uid} has the port at this address; use another address, or \
                 let root or user {uid} start `softrnic service --allow-uid` for both users"
            ),
            Self::AddressInUse(None) => f.write_str(
                "another process, or the kernel's soft-RoCE driver, has the port at this \
                 address; stop it or use another address",
            ),
            Self::PortInUse(Some(uid)) => {
                write!(f, "a process of user {uid} has the port of the connection manager")
            }
            Self::PortInUse(None) => {
                f.write_str("another process has the port of the connection manager")
            }
            Self::SlotTaken => f.write_str("another process has the device's slot there"),
            Self::NoSlot => f.write_str("all slots of the address are taken"),
            Self::TooMany => f.write_str("too many connections or addresses of one user"),
            Self::Busy => f.write_str("the port service is busy; try again"),
            Self::System(errno) => {
                let errno = i32::try_from(*errno).unwrap_or(0);
                write!(f, "{}", std::io::Error::from_raw_os_error(errno))
            }
        }
    }
}

/// How a member is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Queue pairs that exist.
    pub queue_pairs: u64,
    /// Memory regions that exist.
    pub regions: u64,
    /// Packets sent.
    pub sent: u64,
    /// Bytes sent, UDP payload.
    pub sent_bytes: u64,
    /// Packets received, good or bad.
    pub received: u64,
    /// Bytes received, UDP payload.
    pub received_bytes: u64,
    /// Packets received and dropped, whatever the reason.
    pub dropped: u64,
    /// Listeners of the connection manager.
    pub listeners: u64,
    /// Its connections, in all states.
    pub connections: u64,
}

impl Status {
    const fn fields(&self) -> [u64; 9] {
        let Self {
            queue_pairs,
            regions,
            sent,
            sent_bytes,
            received,
            received_bytes,
            dropped,
            listeners,
            connections,
        } = *self;
        [
            queue_pairs,
            regions,
            sent,
            sent_bytes,
            received,
            received_bytes,
            dropped,
            listeners,
            connections,
        ]
    }

    const fn fields_mut(&mut self) -> [&mut u64; 9] {
        let Self {
            queue_pairs,
            regions,
            sent,
            sent_bytes,
            received,
            received_bytes,
            dropped,
            listeners,
            connections,
        } = self;
        [
            queue_pairs,
            regions,
            sent,
            sent_bytes,
            received,
            received_bytes,
            dropped,
            listeners,
            connections,
        ]
    }
}

/// A listener or a connection of the connection manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conversation {
    /// How far it is; `None` of a listener.
    pub state: Option<State>,
    /// What it is about.
    pub service: ServiceId,
    /// This end has asked.
    pub active: bool,
    /// The own communication ID; 0 of a listener.
    pub id: CommId,
    /// The own address; zero of a listener at all addresses.
    pub local: Gid,
    /// The peer's address; zero of a listener.
    pub peer: Gid,
}

/// So many listeners and connections a member tells of.
pub const CONVERSATIONS_MAX: usize = 40;

/// A process that shares addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its number, as the service sees it; 0 if it cannot see it.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Its slot: the high 8 bits of its queue pair numbers.
    pub slot: u8,
    /// What it calls itself.
    pub program: String,
    /// What its device is called.
    pub device: String,
    /// Its addresses.
    pub places: Vec<Place>,
    /// How it is doing, if it said so in time.
    pub status: Option<Status>,
    /// Its listeners and connections, the first [`CONVERSATIONS_MAX`] of them.
    pub conversations: Vec<Conversation>,
}
