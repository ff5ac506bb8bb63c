//! The system calls of Linux that no crate covers: `sendmmsg(2)` with `UDP_SEGMENT`, `recvmmsg(2)`
//! with `UDP_GRO`, and the socket options beside them (`udp(7)`, `ip(7)`, `ipv6(7)`).
//!
//! The calls go past the functions of the C library, which in a program of several threads make each
//! of them a cancellation point: two atomic operations that nobody here has a use for.
//!
//! The only module of this crate that uses `unsafe`.

use std::ffi::c_int;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;

use socket2::{Domain, SockRef, Socket, Type};

use super::control::Control;
use super::relay::taken_apart;
use super::system::{Arrival, Burst, System};

const UDP_NO_CHECK6_TX: c_int = 101;
const UDP_NO_CHECK6_RX: c_int = 102;
const UDP_SEGMENT: c_int = 103;
const UDP_GRO: c_int = 104;
/// Room for the longest address, `sockaddr_in6`.
const NAME_LEN: usize = size_of::<libc::sockaddr_in6>();
/// The longest that one receive can yield.
pub(super) const BUFFER_LEN: usize = 1 << 16;
/// Receive buffers: how many datagrams or merged bursts one call may bring.
const RECEIVE_BATCH: usize = 8;
/// After so many small datagrams in a row several are asked for at once. Request, acknowledgement and
/// answer are no row yet.
const STREAK: u32 = 4;
/// How many bursts one call may send.
const SEND_BATCH: usize = 16;
/// From this many bytes on a burst is worth a call of its own: the next one is received after it
/// was handled, into the same buffer, which then is still in the cache.
const LARGE: usize = 16 << 10;

/// The hop limit of the sockets that send to one receiver, which needs no control message.
const HOP_LIMIT: u8 = 64;

/// `recvmmsg` and `sendmmsg`, and their buffers.
pub(super) struct Calls {
    buffers: Box<[[u8; BUFFER_LEN]]>,
    receive_controls: Box<[Control; RECEIVE_BATCH]>,
    send_controls: Box<[Control; SEND_BATCH]>,
    /// Small datagrams that were taken one by one since none was waiting.
    streak: u32,
}

impl Calls {
    pub(super) fn new() -> Self {
        Self {
            buffers: vec![[0; BUFFER_LEN]; RECEIVE_BATCH].into_boxed_slice(),
            receive_controls: Box::new([const { Control::new() }; RECEIVE_BATCH]),
            send_controls: Box::new([const { Control::new() }; SEND_BATCH]),
            streak: 0,
        }
    }
}

impl System for Calls {
    fn send(&mut self, socket: &UdpSocket, bytes: &[u8], bursts: &[Burst]) -> io::Result<usize> {
        if let [burst] = bursts {
            return send_one(socket, bytes, burst, &mut self.send_controls[0]);
        }
        let mut names = [[0u8; NAME_LEN]; SEND_BATCH];
        let mut vectors = [const { empty_vector() }; SEND_BATCH];
        let mut headers = [const { empty_header() }; SEND_BATCH];
        let mut count = 0;
        for (i, burst) in bursts.iter().take(SEND_BATCH).enumerate() {
            let payload = &bytes[burst.start..burst.start + burst.len];
            let control = &mut self.send_controls[i];
            put_control(control, burst);
            vectors[i] = vector_of(payload);
            let header = &mut headers[i].msg_hdr;
            header.msg_namelen = put_name(&mut names[i], burst.to);
            header.msg_name = names[i].as_mut_ptr().cast();
            header.msg_iov = &raw mut vectors[i];
            header.msg_iovlen = 1;
            let control = control.filled();
            header.msg_control = control.as_ptr().cast_mut().cast();
            header.msg_controllen = control.len() as _;
            count = i + 1;
        }
        // SAFETY: the first `count` headers point to names, vectors and controls of the lengths
        // they state, and the vectors into `bytes`; all of them outlive the call, and the kernel
        // writes to nothing but `msg_len` of the headers.
        let sent = unsafe {
            libc::syscall(
                libc::SYS_sendmmsg,
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                batch_len(count),
                libc::MSG_DONTWAIT,
            )
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    fn receive(
        &mut self,
        socket: &UdpSocket,
        take: &mut dyn FnMut(&Arrival, &[u8]),
    ) -> io::Result<usize> {
        if self.streak < STREAK {
            self.receive_one(socket, take)
        } else {
            self.receive_many(socket, take)
        }
    }
}

impl Calls {
    /// What most calls find is one datagram, or nothing: this costs the least.
    fn receive_one(
        &mut self,
        socket: &UdpSocket,
        take: &mut dyn FnMut(&Arrival, &[u8]),
    ) -> io::Result<usize> {
        let mut name = [0u8; NAME_LEN];
        let mut vector =
            libc::iovec { iov_base: self.buffers[0].as_mut_ptr().cast(), iov_len: BUFFER_LEN };
        let mut header = empty_header().msg_hdr;
        put_room(&mut header, &mut name, &mut vector, &mut self.receive_controls[0]);
        // SAFETY: the header points to a name, a vector, a control and through the vector to a
        // buffer of the lengths it states. All are borrowed or owned by this function and outlive
        // the call; nothing reads or writes them meanwhile.
        let bytes = unsafe {
            libc::syscall(
                libc::SYS_recvmsg,
                socket.as_raw_fd(),
                &raw mut header,
                libc::MSG_DONTWAIT,
            )
        };
        let Ok(bytes) = usize::try_from(bytes) else {
            self.streak = 0;
            return Err(io::Error::last_os_error());
        };
        // What comes in large bursts is received one by one: each is handled while it is in the
        // cache, and the next goes into the same buffer.
        self.streak = if bytes < LARGE { self.streak + 1 } else { 0 };
        let bytes = bytes.min(BUFFER_LEN);
        let control = self.receive_controls[0].received(control_len(&header));
        let bytes = &self.buffers[0][..bytes];
        if let Some((arrival, bytes)) = understood(&header, &name, control, bytes) {
            take(&arrival, bytes);
        }
        Ok(1)
    }

    fn receive_many(
        &mut self,
        socket: &UdpSocket,
        take: &mut dyn FnMut(&Arrival, &[u8]),
    ) -> io::Result<usize> {
        let mut names = [[0u8; NAME_LEN]; RECEIVE_BATCH];
        let mut vectors = [const { empty_vector() }; RECEIVE_BATCH];
        let mut headers = [const { empty_header() }; RECEIVE_BATCH];
        for i in 0..RECEIVE_BATCH {
            vectors[i].iov_base = self.buffers[i].as_mut_ptr().cast();
            vectors[i].iov_len = BUFFER_LEN;
            put_room(
                &mut headers[i].msg_hdr,
                &mut names[i],
                &mut vectors[i],
                &mut self.receive_controls[i],
            );
        }
        // SAFETY: as in `receive_one`, of every header.
        let received = unsafe {
            libc::syscall(
                libc::SYS_recvmmsg,
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                batch_len(RECEIVE_BATCH),
                libc::MSG_DONTWAIT,
                std::ptr::null_mut::<libc::timespec>(),
            )
        };
        let Ok(received) = usize::try_from(received) else {
            self.streak = 0;
            return Err(io::Error::last_os_error());
        };
        let mut total = 0;
        for i in 0..received {
            let header = &headers[i].msg_hdr;
            let bytes = usize::try_from(headers[i].msg_len).unwrap_or(0).min(BUFFER_LEN);
            total += bytes;
            let control = self.receive_controls[i].received(control_len(header));
            let bytes = &self.buffers[i][..bytes];
            if let Some((arrival, bytes)) = understood(header, &names[i], control, bytes) {
                take(&arrival, bytes);
            }
        }
        if received < RECEIVE_BATCH || total > received * LARGE {
            self.streak = 0;
        }
        Ok(received)
    }
}

/// Sends one burst: the plainest call that does.
fn send_one(
    socket: &UdpSocket,
    bytes: &[u8],
    burst: &Burst,
    control: &mut Control,
) -> io::Result<usize> {
    let payload = &bytes[burst.start..burst.start + burst.len];
    let mut name = [0u8; NAME_LEN];
    let name_len = put_name(&mut name, burst.to);
    put_control(control, burst);
    let control = control.filled();
    let sent = if control.is_empty() {
        // SAFETY: payload and name are slices of the stated lengths, which the kernel reads.
        unsafe {
            libc::syscall(
                libc::SYS_sendto,
                socket.as_raw_fd(),
                payload.as_ptr(),
                payload.len(),
                libc::MSG_DONTWAIT,
                name.as_ptr(),
                name_len,
            )
        }
    } else {
        let mut vector = vector_of(payload);
        let mut header = empty_header().msg_hdr;
        header.msg_namelen = name_len;
        header.msg_name = name.as_mut_ptr().cast();
        header.msg_iov = &raw mut vector;
        header.msg_iovlen = 1;
        header.msg_control = control.as_ptr().cast_mut().cast();
        header.msg_controllen = control.len() as _;
        // SAFETY: the header points to a name, a vector and a control of the lengths it states,
        // and the vector to `payload`; all outlive the call, and the kernel only reads them.
        unsafe {
            libc::syscall(
                libc::SYS_sendmsg,
                socket.as_raw_fd(),
                &raw const header,
                libc::MSG_DONTWAIT,
            )
        }
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(1) }
}

/// Tells the kernel where one datagram goes.
fn put_room(
    header: &mut libc::msghdr,
    name: &mut [u8; NAME_LEN],
    vector: &mut libc::iovec,
    control: &mut Control,
) {
    header.msg_name = name.as_mut_ptr().cast();
    header.msg_namelen = socklen_of::<libc::sockaddr_in6>();
    header.msg_iov = std::ptr::from_mut(vector);
    header.msg_iovlen = 1;
    let control = control.room();
    header.msg_controllen = control.len() as _;
    header.msg_control = control.as_mut_ptr().cast();
}

fn vector_of(bytes: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}

/// No more than [`RECEIVE_BATCH`] or [`SEND_BATCH`].
fn batch_len(count: usize) -> libc::c_uint {
    libc::c_uint::try_from(count).unwrap_or(0)
}

const fn empty_vector() -> libc::iovec {
    libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }
}

const fn empty_header() -> libc::mmsghdr {
    // SAFETY: null pointers and zero lengths are valid values of every field.
    unsafe { std::mem::zeroed() }
}

#[cfg_attr(target_env = "gnu", expect(clippy::unnecessary_cast, reason = "elsewhere it is not"))]
const fn control_len(header: &libc::msghdr) -> usize {
    header.msg_controllen as usize
}

#[expect(clippy::cast_possible_truncation, reason = "the structures of C are small")]
const fn socklen_of<T>() -> libc::socklen_t {
    size_of::<T>() as libc::socklen_t
}

/// Writes `to` as a C socket address; returns its length.
fn put_name(name: &mut [u8; NAME_LEN], to: SocketAddr) -> libc::socklen_t {
    name[2..4].copy_from_slice(&to.port().to_be_bytes());
    match to {
        SocketAddr::V4(to) => {
            name[..2].copy_from_slice(&family(libc::AF_INET));
            name[4..8].copy_from_slice(&to.ip().octets());
            socklen_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(to) => {
            name[..2].copy_from_slice(&family(libc::AF_INET6));
            name[4..8].copy_from_slice(&to.flowinfo().to_be_bytes());
            name[8..24].copy_from_slice(&to.ip().octets());
            name[24..28].copy_from_slice(&to.scope_id().to_ne_bytes());
            socklen_of::<libc::sockaddr_in6>()
        }
    }
}

/// Reads a C socket address of either family.
fn read_name(name: &[u8; NAME_LEN]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes([name[2], name[3]]);
    if name[..2] == family(libc::AF_INET) {
        let ip = Ipv4Addr::new(name[4], name[5], name[6], name[7]);
        return Some(SocketAddrV4::new(ip, port).into());
    }
    if name[..2] == family(libc::AF_INET6) {
        let ip = Ipv6Addr::from(<[u8; 16]>::try_from(&name[8..24]).ok()?);
        let flow = u32::from_be_bytes(name[4..8].try_into().ok()?);
        let scope = u32::from_ne_bytes(name[24..28].try_into().ok()?);
        return Some(SocketAddrV6::new(ip, port, flow, scope).into());
    }
    None
}

fn family(family: c_int) -> [u8; 2] {
    libc::sa_family_t::try_from(family).unwrap_or_default().to_ne_bytes()
}

/// The header fields of `burst` as control messages; those that are the system's defaults are left
/// out.
fn put_control(control: &mut Control, burst: &Burst) {
    control.clear();
    let v4 = burst.to.is_ipv4();
    if burst.traffic_class != 0 {
        let (level, kind) = if v4 {
            (libc::IPPROTO_IP, libc::IP_TOS)
        } else {
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS)
        };
        control.push(level, kind, &c_int::from(burst.traffic_class).to_ne_bytes());
    }
    if burst.hop_limit != 0 && (burst.hop_limit != HOP_LIMIT || burst.to.ip().is_multicast()) {
        let (level, kind) = if v4 {
            (libc::IPPROTO_IP, libc::IP_TTL)
        } else {
            (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT)
        };
        control.push(level, kind, &c_int::from(burst.hop_limit).to_ne_bytes());
    }
    if burst.len > burst.segment {
        let segment = u16::try_from(burst.segment).unwrap_or(u16::MAX);
        control.push(libc::SOL_UDP, UDP_SEGMENT, &segment.to_ne_bytes());
    }
}

/// What was received, and what is known of it. What comes without a source does not come from a
/// UDP socket but from a relay.
fn understood<'a>(
    header: &libc::msghdr,
    name: &[u8; NAME_LEN],
    control: super::control::Messages<'_>,
    bytes: &'a [u8],
) -> Option<(Arrival, &'a [u8])> {
    if header.msg_namelen == 0 {
        return taken_apart(bytes);
    }
    Some((read_arrival(name, bytes.len(), control)?, bytes))
}

/// What the name and the control messages of a received datagram of `bytes` bytes say.
fn read_arrival(
    name: &[u8; NAME_LEN],
    bytes: usize,
    control: super::control::Messages<'_>,
) -> Option<Arrival> {
    let mut arrival = Arrival {
        from: read_name(name)?,
        traffic_class: 0,
        hop_limit: 0,
        flow_label: 0,
        segment: bytes,
        overflow: None,
    };
    for message in control {
        let Some(value) = message.int() else { continue };
        match (message.level, message.kind) {
            (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                arrival.traffic_class = low_byte(value);
            }
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                arrival.hop_limit = low_byte(value);
            }
            (libc::IPPROTO_IPV6, libc::IPV6_FLOWINFO) => {
                arrival.flow_label = u32::from_be(value.cast_unsigned()) & 0x000f_ffff;
            }
            (libc::SOL_UDP, UDP_GRO) => {
                arrival.segment = usize::try_from(value).unwrap_or(bytes);
            }
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                arrival.overflow = Some(value.cast_unsigned());
            }
            _ => {}
        }
    }
    Some(arrival)
}

const fn low_byte(value: c_int) -> u8 {
    value.to_le_bytes()[0]
}

/// What a receiving socket shall say about each datagram, and that it takes UDP checksum 0 over
/// IPv6, which RoCE peers send. A kernel that cannot merge datagrams is none the worse.
pub(super) fn prepare_receive(socket: &UdpSocket, v4: bool, gro: bool) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)?;
    if v4 {
        set(socket, libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
        set(socket, libc::IPPROTO_IP, libc::IP_RECVTTL, 1)?;
    } else {
        set(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
        set(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1)?;
        set(socket, libc::IPPROTO_IPV6, libc::IPV6_FLOWINFO, 1)?;
        set(socket, libc::SOL_UDP, UDP_NO_CHECK6_RX, 1)?;
    }
    // Off as well: the socket may have had another owner before.
    let _unknown_to_old_kernels = set(socket, libc::SOL_UDP, UDP_GRO, gro.into());
    Ok(())
}

/// How many datagrams the socket has dropped so far for want of buffer space, modulo 2^32
/// (`SO_MEMINFO`); 0 if the kernel does not tell.
pub(super) fn dropped(socket: &UdpSocket) -> u32 {
    /// Numbers that the kernel tells, and which of them counts what was dropped (`sock_diag(7)`).
    const COUNT: usize = 9;
    const DROPS: usize = 8;
    let mut numbers = [0_u32; COUNT];
    let mut len = socklen_of::<[u32; COUNT]>();
    // SAFETY: there is room for `len` bytes of plain integers, and the kernel writes no more.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            numbers.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if result == 0 { numbers[DROPS] } else { 0 }
}

/// Don't fragment, and with it identification 0 in the IPv4 header (`IP_MTU_DISCOVER`); flow
/// labels of our choice over IPv6. Returns whether the kernel can segment.
pub(super) fn prepare_send(socket: &UdpSocket, v4: bool, gso: bool) -> io::Result<bool> {
    if v4 {
        set(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)?;
        set(socket, libc::IPPROTO_IP, libc::IP_TTL, c_int::from(HOP_LIMIT))?;
    } else {
        set(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DO)?;
        set(socket, libc::IPPROTO_IPV6, libc::IPV6_FLOWINFO_SEND, 1)?;
        set(socket, libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, c_int::from(HOP_LIMIT))?;
    }
    let segments = gso && set(socket, libc::SOL_UDP, UDP_SEGMENT, 0).is_ok();
    if !segments {
        omit_checksum(socket, v4)?;
    }
    Ok(segments)
}

/// UDP checksum 0 from now on, as RoCE peers send it. A socket that does so cannot segment.
pub(super) fn omit_checksum(socket: &UdpSocket, v4: bool) -> io::Result<()> {
    if v4 {
        set(socket, libc::SOL_SOCKET, libc::SO_NO_CHECK, 1)
    } else {
        set(socket, libc::SOL_UDP, UDP_NO_CHECK6_TX, 1)
    }
}

/// Sets the receive and send buffer, past the limits of the system if the process may.
pub(super) fn force_buffers(socket: &UdpSocket, receive: usize, send: usize) -> io::Result<()> {
    let bytes = |n: usize| c_int::try_from(n).unwrap_or(c_int::MAX);
    if set(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes(receive)).is_err() {
        SockRef::from(socket).set_recv_buffer_size(receive)?;
    }
    if set(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, bytes(send)).is_err() {
        SockRef::from(socket).set_send_buffer_size(send)?;
    }
    Ok(())
}

fn set(socket: &UdpSocket, level: c_int, option: c_int, value: c_int) -> io::Result<()> {
    let len = socklen_of::<c_int>();
    // SAFETY: the value is a C int of the stated length and outlives the call.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), len)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// MTU of the interface `name` in bytes, and whether it is up and has a carrier
/// (`netdevice(7)`: `SIOCGIFMTU`, `SIOCGIFFLAGS`).
pub(crate) fn interface_facts(name: &str) -> io::Result<(u32, bool)> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    let fd = socket.as_raw_fd();
    // SAFETY: all zeroes is a valid value of every field and of every member of the union.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // the last byte stays zero and ends the name
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::NotFound.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    // SAFETY: the request is a valid `ifreq` with a terminated name; the kernel writes its union.
    if unsafe { libc::ioctl(fd, libc::SIOCGIFMTU as _, &raw mut request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `SIOCGIFMTU` has written this member, and any bytes are a valid integer.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    // SAFETY: as the first call.
    if unsafe { libc::ioctl(fd, libc::SIOCGIFFLAGS as _, &raw mut request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `SIOCGIFFLAGS` has written this member, and any bytes are a valid integer.
    let flags = c_int::from(unsafe { request.ifr_ifru.ifru_flags });
    let running = libc::IFF_UP | libc::IFF_RUNNING;
    Ok((u32::try_from(mtu).unwrap_or(0), flags & running == running))
}

/// Moves the calling thread into another network namespace (`setns(2)`). Sockets that it opens from
/// then on stay there, whoever uses them.
#[cfg(test)]
pub(super) fn enter_network(namespace: &std::fs::File) -> io::Result<()> {
    // SAFETY: passes a descriptor that is open, and no memory.
    let result = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_written() {
        for text in ["127.0.0.1:4791", "[::1]:4791", "[fe80::1%3]:65535", "0.0.0.0:0"] {
            let mut address: SocketAddr = text.parse().unwrap();
            if let SocketAddr::V6(v6) = &mut address {
                v6.set_flowinfo(0x000a_bcde);
            }
            let mut name = [0; NAME_LEN];
            let len = put_name(&mut name, address);
            assert_eq!(len, socket2::SockAddr::from(address).len());
            assert_eq!(read_name(&name), Some(address));
        }
        assert_eq!(read_name(&[0; NAME_LEN]), None);
    }

    #[test]
    fn loopback_has_an_mtu() {
        let (mtu, up) = interface_facts("lo").unwrap();
        assert!(mtu >= 1280);
        assert!(up);
        assert!(interface_facts("no-such-interface-at-all").is_err());
        assert!(interface_facts("nosuch0").is_err());
    }
}
