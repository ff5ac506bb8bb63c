//! The system calls that the standard library lacks, each behind a safe function; the only `unsafe`
//! of this program.
#![expect(
    unsafe_code,
    reason = "memfd, mmap, scheduling and UDP segmentation are bare system calls"
)]

use std::fs::File;
use std::io;
use std::mem::{size_of, size_of_val, zeroed};
use std::net::UdpSocket;
use std::ops::Deref;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

use libc::{c_int, c_void};

use super::device;

/// The result of a call that says -1 for an error.
fn check(result: c_int) -> io::Result<c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A number on a cache line of its own, neighbours that the prefetcher pairs included.
#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct Line(pub(super) AtomicU64);

/// What the two processes of a measurement share. All zero is the beginning.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Page {
    /// How far the two have come; see `pair`.
    pub(super) phase: Line,
    /// Written by the parent in the measurement of a line's latency.
    pub(super) ping: Line,
    /// Written by the peer in answer.
    pub(super) pong: Line,
    /// Packets that the peer has received.
    pub(super) credit: Line,
    /// Not 0: the parent has sent all.
    pub(super) stop: Line,
    /// UDP ports: the parent's, the peer's.
    pub(super) ports: [AtomicU64; 2],
    /// What the peer found.
    pub(super) results: [AtomicU64; 4],
    /// How to reach the devices: the parent's, the peer's.
    pub(super) ends: [[AtomicU64; device::TOLD]; 2],
}

/// A [`Page`] in shared memory.
#[derive(Debug)]
pub(super) struct SharedPage {
    file: File,
    page: NonNull<Page>,
}

const SEALS: c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;

impl SharedPage {
    /// A new page, that only this process has.
    pub(super) fn create() -> io::Result<Self> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name is a C string, and the call keeps no pointer.
        let fd = check(unsafe { libc::memfd_create(c"softrnic-limits".as_ptr(), flags) })?;
        // SAFETY: `fd` was just made and belongs to nobody else.
        let file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        file.set_len(size_of::<Page>() as u64)?;
        // SAFETY: the descriptor is open, and F_ADD_SEALS takes a number.
        check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, SEALS) })?;
        Self::map(file)
    }

    /// Maps the page that `file`, from another process, holds.
    pub(super) fn map(file: File) -> io::Result<Self> {
        // SAFETY: the descriptor is open, and F_GET_SEALS takes no argument.
        let seals = check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) })?;
        if seals & SEALS != SEALS || file.metadata()?.len() < size_of::<Page>() as u64 {
            return Err(io::Error::other("not the shared page of a measurement"));
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a mapping where the kernel likes disturbs nothing that exists.
        let at = unsafe {
            libc::mmap(ptr::null_mut(), size_of::<Page>(), protection, flags, file.as_raw_fd(), 0)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let page = NonNull::new(at.cast()).ok_or_else(|| io::Error::other("mapped at 0"))?;
        Ok(Self { file, page })
    }

    /// The memory as a descriptor, for another process.
    pub(super) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.file.try_clone().map(OwnedFd::from)
    }
}

impl Deref for SharedPage {
    type Target = Page;

    fn deref(&self) -> &Page {
        // SAFETY: the mapping is aligned to a memory page, at least as long as `Page`, lives as long
        // as `self`, and cannot lose its memory, for the file is sealed against shrinking. Any bytes
        // are a valid `Page`, which is made of atomics alone, so that what the other process does to
        // it is no data race.
        unsafe { self.page.as_ref() }
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `map`, and no reference outlives `self`.
        unsafe { libc::munmap(self.page.as_ptr().cast(), size_of::<Page>()) };
    }
}

/// A set of processors.
#[derive(Clone, Copy)]
pub(super) struct Cpus(libc::cpu_set_t);

impl Cpus {
    const LIMIT: usize = libc::CPU_SETSIZE as usize;

    /// Those on which this thread may run.
    pub(super) fn allowed() -> io::Result<Self> {
        // SAFETY: `cpu_set_t` is an array of integers, for which zero is a value.
        let mut set: libc::cpu_set_t = unsafe { zeroed() };
        // SAFETY: the call writes at most the size that it is given to `set`.
        check(unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) })?;
        Ok(Self(set))
    }

    /// One processor.
    pub(super) fn only(cpu: usize) -> io::Result<Self> {
        if cpu >= Self::LIMIT {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        // SAFETY: as in `allowed`.
        let mut set: libc::cpu_set_t = unsafe { zeroed() };
        // SAFETY: `cpu` is within the set.
        unsafe { libc::CPU_SET(cpu, &mut set) };
        Ok(Self(set))
    }

    /// Their numbers, ascending.
    pub(super) fn numbers(&self) -> impl Iterator<Item = usize> {
        // SAFETY: the numbers stay within the set.
        (0..Self::LIMIT).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &self.0) })
    }

    /// Lets this thread run on them alone.
    pub(super) fn bind_thread(&self) -> io::Result<()> {
        // SAFETY: the call reads the set within its size.
        check(unsafe { libc::sched_setaffinity(0, size_of_val(&self.0), &raw const self.0) })
            .map(drop)
    }
}

/// Bytes that this process has allocated and not freed, as its allocator counts them: small blocks
/// with the allocator's own headers, and large ones (`mallinfo2(3)`).
#[cfg(target_env = "gnu")]
pub(super) fn allocated_bytes() -> u64 {
    // SAFETY: the call takes nothing and returns numbers.
    let found = unsafe { libc::mallinfo2() };
    (found.uordblks + found.hblkhd) as u64
}

/// Bytes of memory that this process has in use (`statm` of proc(5)), for want of a count of what it
/// has allocated.
#[cfg(not(target_env = "gnu"))]
pub(super) fn allocated_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split_whitespace().nth(1).and_then(|pages| pages.parse().ok());
    // SAFETY: the call takes a number and returns one.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    pages.unwrap_or(0_u64) * u64::try_from(page).unwrap_or(4096)
}

/// Whether this thread is scheduled before all ordinary ones (`SCHED_FIFO`, the lowest priority).
pub(super) fn schedule_realtime(on: bool) -> io::Result<()> {
    let (policy, sched_priority) = if on { (libc::SCHED_FIFO, 1) } else { (libc::SCHED_OTHER, 0) };
    let parameters = libc::sched_param { sched_priority };
    // SAFETY: the call reads the parameters and keeps no pointer.
    check(unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) }).map(drop)
}

/// Has this process killed when the thread that started it ends.
pub(super) fn die_with_parent() -> io::Result<()> {
    // SAFETY: the call takes numbers and affects nothing but this process.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) }).map(drop)
}

/// Has this process killed after `seconds`, whatever it does then.
pub(super) fn die_after(seconds: u32) {
    // SAFETY: the call takes a number; no handler for SIGALRM is installed, so it ends the process.
    unsafe { libc::alarm(seconds) };
}

/// Sets an option of a socket that takes a number.
fn set_option(socket: &UdpSocket, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    let bytes = length(size_of_val(&value));
    let value: *const c_int = &raw const value;
    // SAFETY: `value` points to so many bytes; the call keeps no pointer.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value.cast(), bytes) })
        .map(drop)
}

/// Asks for large buffers: beyond the limit of ordinary users where that is permitted.
pub(super) fn enlarge_buffers(socket: &UdpSocket) -> io::Result<()> {
    for (forced, plain, large) in [
        (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, 16 << 20),
        (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, 8 << 20),
    ] {
        set_option(socket, libc::SOL_SOCKET, forced, large)
            .or_else(|_| set_option(socket, libc::SOL_SOCKET, plain, 4 << 20))?;
    }
    Ok(())
}

/// Lets received datagrams of one length arrive together (`UDP_GRO`, udp(7)).
pub(super) fn coalesce_received(socket: &UdpSocket) -> io::Result<()> {
    set_option(socket, libc::SOL_UDP, libc::UDP_GRO, 1)
}

/// Room for one control message that holds a number.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// A length in the type that this libc has for it; all of them are far below any limit.
fn length<T: TryFrom<usize> + Default>(bytes: usize) -> T {
    T::try_from(bytes).unwrap_or_default()
}

/// Sends `burst` to the connected peer as datagrams of `segment` bytes, the last perhaps shorter
/// (`UDP_SEGMENT`, udp(7)).
pub(super) fn send_segments(socket: &UdpSocket, burst: &[u8], segment: u16) -> io::Result<()> {
    let mut control = Control([0; 64]);
    let mut part = libc::iovec { iov_base: burst.as_ptr().cast_mut().cast(), iov_len: burst.len() };
    // SAFETY: all zero is a valid `msghdr`.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    let argument_size = length(size_of_val(&segment));
    // SAFETY: CMSG_SPACE computes a number; 24 here, far below the room there is.
    message.msg_controllen = length(unsafe { libc::CMSG_SPACE(argument_size) } as usize);
    // SAFETY: `message` has control bytes, aligned and long enough for a header: it is not null.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_UDP;
        (*header).cmsg_type = libc::UDP_SEGMENT;
        (*header).cmsg_len = length(libc::CMSG_LEN(argument_size) as usize);
        libc::CMSG_DATA(header).cast::<u16>().write_unaligned(segment);
    }
    // SAFETY: every pointer in `message` is to a local or to `burst`, which the call only reads.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, 0) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// What one call received.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received {
    /// Bytes of all datagrams together.
    pub(super) bytes: usize,
    /// Bytes of each datagram, the last perhaps shorter.
    pub(super) segment: usize,
}

/// Receives one datagram, or several of one length after [`coalesce_received`].
pub(super) fn receive_coalesced(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Received> {
    let mut control = Control([0; 64]);
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all zero is a valid `msghdr`.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast::<c_void>();
    message.msg_controllen = length(size_of_val(&control));
    // SAFETY: every pointer in `message` is to a local or to `buffer`, with the right length.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    let Ok(bytes) = usize::try_from(received) else { return Err(io::Error::last_os_error()) };
    let mut segment = bytes;
    // SAFETY: the kernel wrote `msg_controllen` bytes of well-formed control messages.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !header.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR give headers within the control bytes.
        let (level, kind) = unsafe { ((*header).cmsg_level, (*header).cmsg_type) };
        if level == libc::SOL_UDP && kind == libc::UDP_GRO {
            // SAFETY: a message of this type holds an int.
            let size = unsafe { libc::CMSG_DATA(header).cast::<c_int>().read_unaligned() };
            segment = usize::try_from(size).unwrap_or(bytes);
        }
        // SAFETY: `header` is one of this message's.
        header = unsafe { libc::CMSG_NXTHDR(&raw const message, header) };
    }
    Ok(Received { bytes, segment: segment.max(1) })
}
