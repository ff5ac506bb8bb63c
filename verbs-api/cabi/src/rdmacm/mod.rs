//! librdmacm: connections found by IP address (`rdma_cm(7)`).
//!
//! What the kernel does for librdmacm, [`ConnectionManager`](softrnic_verbs::cm::ConnectionManager) does
//! here; this is what the library adds: identifiers and events as C holds them, queue pairs that are
//! brought from state to state with their connection, and operations that wait where a program wants
//! them to.

pub(crate) mod address;
pub(crate) mod addrinfo;
pub(crate) mod channel;
pub(crate) mod connect;
pub(crate) mod devices;
pub(crate) mod endpoint;
pub(crate) mod events;
pub(crate) mod id;
pub(crate) mod layout;
mod manager;
pub(crate) mod multicast;
pub(crate) mod options;
mod params;
pub(crate) mod queue_pair;
pub(crate) mod shared_receive;
mod sockaddr;
mod space;
mod transitions;

pub(crate) use channel::EventChannel;
pub(crate) use events::Event;
pub(crate) use id::Id;

use core::ffi::c_int;

use crate::errno::{Errno, Result};

/// What a verb gave back, which has set `errno` if that is nothing.
fn made<T>(object: Option<T>) -> Result<T> {
    object.ok_or_else(|| std::io::Error::last_os_error().into())
}

/// What a verb gave back: 0 or an errno.
const fn done(status: c_int) -> Result<()> {
    if status == 0 { Ok(()) } else { Err(Errno(status)) }
}
