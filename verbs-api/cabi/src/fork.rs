//! Forked children. A device belongs to the process that opened it: the child has no engine thread and
//! must not use the parent's sockets and numbers. Its verbs answer `EIO`; it may open devices of its own.
//! It closes its copies of the sockets, or it would keep the parent's port when the parent is gone.

use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Once;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use rustix::net::sockopt::socket_type;
use rustix::net::{SocketAddrUnix, SocketType, getpeername, getsockname};

/// How many forks lie between the process that loaded the library and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// A process, as far as the library can tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    /// This one. From now on forks are noticed.
    pub(crate) fn current() -> Self {
        static WATCH: Once = Once::new();
        WATCH.call_once(watch);
        Self(GENERATION.load(Ordering::Relaxed))
    }

    /// Whether it is this one.
    #[inline]
    pub(crate) fn is_current(self) -> bool {
        self.0 == GENERATION.load(Ordering::Relaxed)
    }
}

/// UDP ports of devices that have been opened; 0 is none. Processes use one port, hardly ever two.
static PORTS: [AtomicU16; 4] = [const { AtomicU16::new(0) }; 4];

/// A device with this UDP port is about to be open.
pub(crate) fn note_port(port: u16) {
    for known in &PORTS {
        match known.compare_exchange(0, port, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return,
            Err(other) if other == port => return,
            Err(_) => {}
        }
    }
}

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    // The C library keeps its allocator usable in a forked child.
    let _ = crate::errno::guarded(|| {
        for entry in std::fs::read_dir("/proc/self/fd")?.flatten() {
            if let Some(descriptor) = entry.file_name().to_str().and_then(|name| name.parse().ok())
            {
                close_if_ours(descriptor);
            }
        }
        Ok(())
    });
}

/// Whether a socket is a connection to the port service: who has a copy of it keeps the slot.
fn leads_to_service(socket: BorrowedFd<'_>) -> bool {
    let peer = getpeername(socket).ok().flatten();
    let peer = peer.and_then(|peer| SocketAddrUnix::try_from(peer).ok());
    let name = peer.as_ref().and_then(SocketAddrUnix::abstract_name);
    name.is_some_and(|name| name.starts_with(b"softrnic/"))
}

/// Closes a descriptor if it is a socket of a device.
#[expect(unsafe_code, reason = "closes what objects of the parent own")]
fn close_if_ours(descriptor: RawFd) {
    // SAFETY: it was open a moment ago, and this process has one thread.
    let socket = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let is_datagram = socket_type(socket) == Ok(SocketType::DGRAM);
    let address = getsockname(socket).ok().filter(|_| is_datagram);
    let address = address.and_then(|address| std::net::SocketAddr::try_from(address).ok());
    let port = address.map_or(0, |address| address.port());
    let of_device = port != 0 && PORTS.iter().any(|known| known.load(Ordering::Relaxed) == port);
    if of_device || leads_to_service(socket) {
        // SAFETY: the device that owns it is never used in this process, and never dropped.
        drop(unsafe { OwnedFd::from_raw_fd(descriptor) });
    }
}

#[expect(unsafe_code, reason = "registers a handler with the C library")]
fn watch() {
    // SAFETY: a child has one thread, and the library is never unloaded (`-z nodelete`). Without memory
    // for it forks go unnoticed here; the device itself still refuses all but posting and polling.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}
