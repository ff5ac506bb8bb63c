//! The system calls of the service that no crate covers: steering in a group of sockets
//! (`SO_ATTACH_REUSEPORT_CBPF`, `socket(7)`), signals as a descriptor (`signalfd(2)`), what
//! is inherited (`close_range(2)`) and what of a socket is unread (`unix(7)`).

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// An instruction of the classic packet filter: code, jumps if true and if false, constant.
pub(super) type Instruction = (u16, u8, u8, u32);

/// Lets a program choose the socket of the group that `socket` is in. Its result is the position
/// of the socket in the group.
pub(super) fn steer(socket: &impl AsFd, program: &[Instruction]) -> io::Result<()> {
    let mut filter: Vec<libc::sock_filter> =
        program.iter().map(|&(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k }).collect();
    let len = libc::c_ushort::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog { len, filter: filter.as_mut_ptr() };
    // SAFETY: the value is a program of the stated length, whose instructions outlive the call.
    check(unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast(),
            socklen_of::<libc::sock_fprog>(),
        )
    })
}

/// Whether the network namespace of this process belongs to its user namespace
/// (`ioctl_ns(2)`). Whoever may not even ask is a guest there.
pub(super) fn owns_network() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    /// `_IO(0xb7, 1)`
    const NS_GET_USERNS: libc::Ioctl = 0xb701;
    let owner = || -> io::Result<bool> {
        let network = std::fs::File::open("/proc/self/ns/net")?;
        // SAFETY: the call takes no argument, and answers with a new descriptor or an error.
        let owner = unsafe { libc::ioctl(network.as_raw_fd(), NS_GET_USERNS) };
        check(owner)?;
        // SAFETY: it was just opened and belongs to nobody else.
        let owner = std::fs::File::from(unsafe { OwnedFd::from_raw_fd(owner) });
        let (own, owner) = (std::fs::metadata("/proc/self/ns/user")?, owner.metadata()?);
        Ok((own.dev(), own.ino()) == (owner.dev(), owner.ino()))
    };
    owner().unwrap_or(false)
}

/// Who is at the other end (`SO_PEERCRED`, `unix(7)`). rustix' answer has no place for the number 0 that a
/// process of another PID namespace has.
pub(super) fn peer_credentials(socket: &impl AsFd) -> io::Result<libc::ucred> {
    let mut peer = libc::ucred { pid: 0, uid: libc::uid_t::MAX, gid: libc::gid_t::MAX };
    let mut len = socklen_of::<libc::ucred>();
    // SAFETY: there is room for `len` bytes of plain integers, and the kernel writes no more.
    check(unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut len,
        )
    })?;
    Ok(peer)
}

/// A descriptor that is readable when the process was asked to end (`SIGINT`, `SIGTERM`,
/// `SIGHUP`). From now
/// on none of them ends it, nor any thread that is started later.
pub(super) fn termination() -> io::Result<OwnedFd> {
    // SAFETY: a set of signals is plain integers, for which zero is a valid value; `sigemptyset`
    // writes it all the same, as the interface demands.
    let mut signals: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is valid for writes.
    unsafe { libc::sigemptyset(&raw mut signals) };
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the set is valid and was initialised.
        unsafe { libc::sigaddset(&raw mut signals, signal) };
    }
    // SAFETY: the set is valid; the old one is not asked for.
    let masked =
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signals, std::ptr::null_mut()) };
    if masked != 0 {
        return Err(io::Error::from_raw_os_error(masked));
    }
    // SAFETY: the set is valid; -1 asks for a new descriptor.
    let fd = unsafe { libc::signalfd(-1, &raw const signals, libc::SFD_CLOEXEC) };
    check(fd)?;
    // SAFETY: it was just opened and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Lets every signal through again: what starts this process may have held some back.
pub(super) fn unblock_signals() -> io::Result<()> {
    // SAFETY: as in `termination`.
    let mut none: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is valid for writes.
    unsafe { libc::sigemptyset(&raw mut none) };
    // SAFETY: the set is valid; the old one is not asked for.
    let masked =
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()) };
    if masked == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(masked)) }
}

/// Lets no program that this process starts inherit any descriptor but the standard ones.
pub(super) fn bequeath_nothing() {
    const FIRST: libc::c_uint = 3;
    const CLOSE_RANGE_CLOEXEC: libc::c_uint = 4;
    // SAFETY: no memory is passed, and nothing is closed in this process. A kernel without the
    // call lets the descriptors be inherited, which is untidy but no more.
    unsafe {
        libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, CLOSE_RANGE_CLOEXEC);
    }
}

/// Bytes that were sent on a unix socket and that the other side has not read yet, with the
/// kernel's own records.
pub(super) fn unread(socket: &impl AsFd) -> io::Result<u32> {
    let mut bytes: c_int = 0;
    // SAFETY: the request writes one C int, for which there is room.
    check(unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) })?;
    Ok(bytes.unsigned_abs())
}

fn check(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[expect(clippy::cast_possible_truncation, reason = "the structures of C are small")]
const fn socklen_of<T>() -> libc::socklen_t {
    size_of::<T>() as libc::socklen_t
}
