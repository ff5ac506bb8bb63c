//! The seam between what a link wants and the system calls that do it.

use std::io;
use std::net::{SocketAddr, UdpSocket};

/// The most frames that one segmented send may hold (`UDP_MAX_SEGMENTS` of the kernels that first
/// had it).
pub(super) const SEGMENTS_MAX: usize = 64;

/// The most bytes of one UDP datagram over IPv4, and so of one segmented send.
pub(super) const DATAGRAM_MAX: usize = 65_507;

/// Frames that leave in one call, all of one length but the last, which may be shorter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Burst {
    /// Peer, with scope and flow label if it is an IPv6 address.
    pub(super) to: SocketAddr,
    /// As [`softrnic_model::wire::Route::traffic_class`].
    pub(super) traffic_class: u8,
    /// As [`softrnic_model::wire::Route::hop_limit`]; 0 leaves it to the system.
    pub(super) hop_limit: u8,
    /// Which of the sending sockets.
    pub(super) socket: usize,
    /// The destination slot of all its frames.
    pub(super) slot: u8,
    /// Where its bytes begin.
    pub(super) start: usize,
    /// How many bytes.
    pub(super) len: usize,
    /// Bytes of each frame, ICRC included.
    pub(super) segment: usize,
    /// How many frames.
    pub(super) frames: usize,
}

/// What is known of datagrams that arrived together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    pub(super) from: SocketAddr,
    pub(super) traffic_class: u8,
    pub(super) hop_limit: u8,
    pub(super) flow_label: u32,
    /// Bytes of each datagram; the last may be shorter.
    pub(super) segment: usize,
    /// What the socket has dropped so far for want of buffer space, modulo 2^32.
    pub(super) overflow: Option<u32>,
}

/// System calls on datagram sockets, with the buffers they need. None of them blocks.
pub(super) trait System: Send {
    /// Sends the first of `bursts`, whose bytes lie in `bytes`, and as many of the others as one
    /// call takes. Returns how many bursts left.
    fn send(&mut self, socket: &UdpSocket, bytes: &[u8], bursts: &[Burst]) -> io::Result<usize>;

    /// Receives what waits, up to one batch, and gives it to `take`. Returns how many times it
    /// did; [`io::ErrorKind::WouldBlock`] if nothing waits.
    fn receive(
        &mut self,
        socket: &UdpSocket,
        take: &mut dyn FnMut(&Arrival, &[u8]),
    ) -> io::Result<usize>;
}

/// What an error of a send means for the burst that it was to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendFault {
    /// Try again.
    Interrupted,
    /// Try again later.
    NoRoom,
    /// The network device cannot segment.
    NoSegments,
    /// Something about the call is invalid: a segment too long for the route, or an option that
    /// the kernel does not know.
    Invalid,
    /// This burst cannot be sent; others may.
    Refused,
    /// Nothing can be sent any more.
    Fatal,
}

/// See [`SendFault`].
pub(super) fn fault_of(error: &io::Error) -> SendFault {
    use io::ErrorKind::{Interrupted, InvalidInput, OutOfMemory, WouldBlock};
    let (kind, code) = (error.kind(), error.raw_os_error());
    if kind == Interrupted {
        SendFault::Interrupted
    } else if matches!(kind, WouldBlock | OutOfMemory) || code == Some(codes::NO_BUFFER_SPACE) {
        SendFault::NoRoom
    } else if kind == InvalidInput {
        SendFault::Invalid
    } else if code == Some(codes::IO) {
        SendFault::NoSegments
    } else if code.is_some_and(|code| codes::NO_SOCKET.contains(&code)) {
        SendFault::Fatal
    } else {
        SendFault::Refused
    }
}

/// Whether an error of a receive says only that there is nothing now.
pub(super) fn is_passing(error: &io::Error) -> bool {
    !error.raw_os_error().is_some_and(|code| codes::NO_SOCKET.contains(&code))
}

#[cfg(target_os = "linux")]
mod codes {
    pub(super) const IO: i32 = libc::EIO;
    pub(super) const NO_BUFFER_SPACE: i32 = libc::ENOBUFS;
    pub(super) const NO_SOCKET: [i32; 2] = [libc::EBADF, libc::ENOTSOCK];
}

#[cfg(windows)]
mod codes {
    // the numbers of winsock2.h
    pub(super) const IO: i32 = 5;
    pub(super) const NO_BUFFER_SPACE: i32 = 10_055;
    pub(super) const NO_SOCKET: [i32; 2] = [10_009, 10_038];
}

#[cfg(not(any(target_os = "linux", windows)))]
mod codes {
    // the numbers of the BSDs' errno.h
    pub(super) const IO: i32 = 5;
    pub(super) const NO_BUFFER_SPACE: i32 = 55;
    pub(super) const NO_SOCKET: [i32; 2] = [9, 38];
}
