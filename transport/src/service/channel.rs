//! Sequenced-packet unix sockets that carry messages and descriptors.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{self, Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    bind, connect, listen, recvmsg, sendmsg, socket_with, socketpair,
};

use super::message::PLACES_MAX;
use super::sys;

/// Connections that may wait to be accepted; the system may allow fewer.
const BACKLOG: i32 = 1024;

/// The name of the service of user `uid` for `port`, in the abstract name space of the network
/// namespace (`unix(7)`).
pub(super) fn name_of(port: u16, uid: u32) -> String {
    format!("softrnic/{port}/{uid}")
}

/// Port and user of a name.
pub(super) fn parse_name(name: &str) -> Option<(u16, u32)> {
    let (port, uid) = name.strip_prefix("softrnic/")?.split_once('/')?;
    Some((port.parse().ok()?, uid.parse().ok()?))
}

fn new_socket(flags: SocketFlags) -> io::Result<OwnedFd> {
    let flags = flags | SocketFlags::CLOEXEC;
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Takes a name and listens there.
///
/// # Errors
/// [`io::ErrorKind::AddrInUse`]: somebody has it.
pub(super) fn listener(name: &str) -> io::Result<OwnedFd> {
    let socket = new_socket(SocketFlags::NONBLOCK)?;
    bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Connects to a name; nothing on this connection blocks.
///
/// # Errors
/// [`io::ErrorKind::ConnectionRefused`]: nobody has the name. [`io::ErrorKind::WouldBlock`]: too
/// many are waiting.
pub(super) fn connect_to(name: &str) -> io::Result<OwnedFd> {
    let socket = new_socket(SocketFlags::NONBLOCK)?;
    connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    Ok(socket)
}

/// Two connected sockets that block, on which nobody waits longer than `patience` to send.
pub(super) fn pair(patience: Duration) -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    for end in [&pair.0, &pair.1] {
        set_socket_timeout(end, Timeout::Send, Some(patience))?;
    }
    Ok(pair)
}

/// The two ends of a relay, of which the first is written: datagrams, `bytes` of them about.
/// Neither blocks.
pub(super) fn relay(bytes: usize) -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (writer, reader) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    // What is unread counts against the writer. The reader is told the same number, by which it
    // knows how much may be on its way.
    if sockopt::set_socket_send_buffer_size_force(&writer, bytes).is_err() {
        sockopt::set_socket_send_buffer_size(&writer, bytes)?;
    }
    let granted = sockopt::socket_send_buffer_size(&writer)? / 2;
    if sockopt::set_socket_recv_buffer_size_force(&reader, granted).is_err() {
        sockopt::set_socket_recv_buffer_size(&reader, granted)?;
    }
    Ok((writer, reader))
}

/// Process and user at the other end: of an accepted connection those that connected, of one's own
/// those that listened, each when they did so.
pub(super) fn peer_of(socket: &impl AsFd) -> io::Result<(u32, u32)> {
    let peer = sys::peer_credentials(socket)?;
    // A process of another PID namespace is not seen and has the number 0.
    let pid = peer.pid.unsigned_abs();
    Ok((pid, if stands_for_many(peer.uid) { NOBODY } else { peer.uid }))
}

/// No user has this number.
pub(super) const NOBODY: u32 = u32::MAX;

/// Whether processes of several users may look like this one. A user namespace shows all that it does
/// not map as one user, whom a process of its own may be mapped to as well; whoever reaches us from
/// outside comes by a network namespace that is not of our user namespace.
fn stands_for_many(uid: u32) -> bool {
    /// The kernel's own choice.
    const USUAL: u32 = 65_534;
    let text = |path| std::fs::read_to_string(path).unwrap_or_default();
    let overflow = text("/proc/sys/kernel/overflowuid").trim().parse().unwrap_or(USUAL);
    uid == overflow && !maps_all(&text("/proc/self/uid_map")) && !sys::owns_network()
}

/// Whether a map of users (`user_namespaces(7)`) is that of the first namespace.
fn maps_all(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// Sends one message with descriptors.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`]: the other side does not read.
pub(super) fn send(
    socket: &impl AsFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PLACES_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    loop {
        match sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL) {
            Err(rustix::io::Errno::INTR) => {}
            result => return result.map(drop).map_err(Into::into),
        }
    }
}

/// Receives one message without blocking if the socket does not; `None` at the end of the
/// connection. Descriptors that come with it are not taken.
pub(super) fn receive<'a>(
    socket: &impl AsFd,
    buffer: &'a mut [u8],
) -> io::Result<Option<&'a [u8]>> {
    receive_into(socket, buffer, &mut RecvAncillaryBuffer::default())
}

/// The same with the descriptors that come with it.
pub(super) fn receive_with<'a>(
    socket: &impl AsFd,
    buffer: &'a mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<Option<&'a [u8]>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PLACES_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let bytes = receive_into(socket, buffer, &mut control)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    Ok(bytes)
}

fn receive_into<'a>(
    socket: &impl AsFd,
    buffer: &'a mut [u8],
    control: &mut RecvAncillaryBuffer<'_>,
) -> io::Result<Option<&'a [u8]>> {
    let received = loop {
        let mut vector = [IoSliceMut::new(buffer)];
        match recvmsg(socket, &mut vector, control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            result => break result?,
        }
    };
    if received.flags.contains(ReturnFlags::TRUNC) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // No message of ours is empty: this is the end.
    Ok(buffer.get(..received.bytes).filter(|bytes| !bytes.is_empty()))
}

/// Waits until one of the sockets can be read or is closed at the other end; `None` waits for
/// ever. Returns which.
pub(super) fn wait(sockets: &[BorrowedFd<'_>], timeout: Option<Duration>) -> io::Result<Vec<bool>> {
    let mut polled: Vec<_> =
        sockets.iter().map(|socket| PollFd::from_borrowed_fd(*socket, PollFlags::IN)).collect();
    let timeout = timeout.map(|timeout| Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    });
    match poll(&mut polled, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(polled.iter().map(|one| !one.revents().is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use super::maps_all;

    #[test]
    fn only_the_first_namespace_maps_all_users() {
        assert!(maps_all("         0          0 4294967295\n"));
        for map in ["", "0 100000 65536\n", "0 0 1\n", "0 0 4294967295\n1 1 1\n", "65534 1000 1\n"]
        {
            assert!(!maps_all(map), "{map:?}");
        }
    }
}
