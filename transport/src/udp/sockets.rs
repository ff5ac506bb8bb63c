//! The sockets of a link: one that receives, one for each multicast group, and those that send.
//!
//! They are apart because a sender must not be bound to the well-known port (its source port is
//! the entropy that switches spread flows by) and because a socket that is bound to one address
//! gets no multicast: each group has a socket bound to the group itself, which several processes
//! may share.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU16, Ordering};

use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockRef, Socket, Type};
use softrnic_model::verbs::Gid;
use softrnic_model::wire::Route;

use super::config::{Offload, UdpConfig};
use super::error::OpenError;
use crate::interfaces::{self, Interface};

/// The source ports that RoCEv2 takes its entropy from (annex A17; the dynamic ports of RFC 6335).
const SOURCE_PORTS: RangeInclusive<u16> = 0xc000..=0xffff;
const SOURCE_PORT_SOCKETS_MAX: u8 = 16;
/// A sending socket gets nothing worth keeping.
const UNREAD_BUFFER: usize = 2048;

pub(super) struct Sockets {
    /// What is sent to the address itself.
    pub(super) receiver: Receiver,
    groups: Vec<Receiver>,
    /// Those that were needed so far, at least one.
    pub(super) send: Vec<Sender>,
    /// Which of them frames to a destination slot leave from, by slot; none has been needed yet
    /// where there is none.
    by_slot: Box<[Option<u8>; 256]>,
    config: UdpConfig,
    /// Whether the kernel can cut a send into segments.
    pub(super) segments: bool,
    /// Whether IPv6 flow labels of our choice can be sent.
    pub(super) flow_labels: bool,
    pub(super) address: IpAddr,
    /// Scope of link-local addresses.
    pub(super) interface: u32,
    port: u16,
    gro: bool,
}

/// A socket that receives what is sent to one address.
pub(super) struct Receiver {
    pub(super) socket: UdpSocket,
    pub(super) address: Gid,
    /// The last that the kernel said of datagrams dropped, modulo 2^32.
    pub(super) overflow: u32,
}

/// A socket that sends.
pub(super) struct Sender {
    pub(super) socket: UdpSocket,
    pub(super) port: u16,
}

impl Sockets {
    /// Opens all sockets but those of groups. `ready_made` is a receiving socket that somebody
    /// else has bound.
    pub(super) fn open(
        config: &UdpConfig,
        ready_made: Option<UdpSocket>,
    ) -> Result<Self, OpenError> {
        let interface = find_interface(config)?;
        let scope = interface.index;
        let at = with_scope(config.address, config.port, scope);
        #[cfg(target_os = "linux")]
        let given = ready_made.is_some();
        let relayed = ready_made.as_ref().is_some_and(is_relayed);
        let receive = match ready_made {
            Some(socket) if relayed => socket,
            Some(socket) => {
                check_ready_made(&socket, at)
                    .map_err(|e| OpenError::new("use the receiving socket that was given", e))?;
                socket
            }
            None => bind_receiver(at)?,
        };
        let gro = config.gro == Offload::Auto;
        if !relayed {
            prepare_receiver(&receive, config.address.is_ipv4(), gro)
                .map_err(|e| OpenError::new("set the options of the receiving socket", e))?;
            set_buffers(&receive, config.receive_buffer, UNREAD_BUFFER)
                .map_err(|e| OpenError::new("set the size of the receive buffer", e))?;
        }
        #[cfg_attr(not(target_os = "linux"), expect(unused_mut, reason = "nothing to correct"))]
        let mut receiver = Receiver::new(receive, config.address.into());
        #[cfg(target_os = "linux")]
        if given && !relayed {
            // What an earlier owner has lost is not this one's loss.
            receiver.overflow = super::linux::dropped(&receiver.socket);
        }
        let (sender, segments) = open_sender(config, scope)?;
        Ok(Self {
            receiver,
            groups: Vec::new(),
            send: vec![sender],
            by_slot: Box::new([None; 256]),
            config: config.clone(),
            segments,
            flow_labels: cfg!(target_os = "linux"),
            address: config.address,
            interface: scope,
            port: config.port,
            gro,
        })
    }

    /// The socket from which frames to `slot` leave. Each slot has one of its own as long as there
    /// are enough. `segments`: it shall be able to segment.
    pub(super) fn sender_to(&mut self, slot: u8, segments: bool) -> usize {
        let place = usize::from(slot);
        if let Some(known) = self.by_slot[place] {
            return known.into();
        }
        let taken = self.by_slot.iter().flatten().max().map_or(0, |last| usize::from(*last) + 1);
        let max = self.config.source_ports.clamp(1, SOURCE_PORT_SOCKETS_MAX);
        if taken == self.send.len()
            && taken < usize::from(max)
            && let Ok((sender, able)) = open_sender(&self.config, self.interface)
        {
            // One that cannot segment where others can would refuse bursts.
            if able || !segments {
                self.send.push(sender);
            }
            if !segments {
                self.omit_checksums();
            }
        }
        let chosen = if taken < self.send.len() { taken } else { place % self.send.len() };
        self.by_slot[place] = u8::try_from(chosen).ok();
        chosen
    }

    /// Listens to `group` from now on.
    pub(super) fn join(&mut self, group: Gid) -> io::Result<()> {
        if !group.is_multicast() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a multicast group"));
        }
        if self.groups.iter().any(|joined| joined.address == group) {
            return Ok(());
        }
        let ip = IpAddr::from(group);
        let socket = new_socket(ip)?;
        socket.set_reuse_address(true)?;
        #[cfg(all(unix, not(target_os = "linux")))]
        socket.set_reuse_port(true)?;
        // Windows binds to no group; there the membership alone selects what arrives.
        let bound_to = if cfg!(windows) { unspecified(ip) } else { ip };
        socket.bind(&with_scope(bound_to, self.port, self.interface).into())?;
        let socket = UdpSocket::from(socket);
        prepare_receiver(&socket, ip.is_ipv4(), self.gro)?;
        let member = SockRef::from(&socket);
        match (ip, self.address) {
            (IpAddr::V4(group), IpAddr::V4(own)) => {
                #[cfg(target_os = "linux")]
                member.set_multicast_all_v4(false)?;
                let on = match self.interface {
                    0 => InterfaceIndexOrAddress::Address(own),
                    index => InterfaceIndexOrAddress::Index(index),
                };
                member.join_multicast_v4_n(&group, &on)?;
            }
            (IpAddr::V6(group), IpAddr::V6(_)) => {
                #[cfg(target_os = "linux")]
                member.set_multicast_all_v6(false)?;
                member.join_multicast_v6(&group, self.interface)?;
            }
            _ => {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "address families differ"));
            }
        }
        self.groups.push(Receiver::new(socket, group));
        Ok(())
    }

    /// Listens to `group` no more; returns whether it did.
    pub(super) fn leave(&mut self, group: Gid) -> bool {
        let before = self.groups.len();
        self.groups.retain(|joined| joined.address != group);
        self.groups.len() < before
    }

    pub(super) fn receivers(&self) -> impl Iterator<Item = &Receiver> {
        std::iter::once(&self.receiver).chain(&self.groups)
    }

    pub(super) fn receivers_mut(&mut self) -> impl Iterator<Item = &mut Receiver> {
        std::iter::once(&mut self.receiver).chain(&mut self.groups)
    }

    /// The route, as far as the ICRC covers it, of a frame that a socket sends to `dst`.
    pub(super) fn route_from(&self, socket: usize, dst: Gid) -> Route {
        let src_port = self.send.get(socket).map_or(0, |sender| sender.port);
        Route { src: self.address.into(), dst, src_port, ..Route::default() }
    }

    /// Sends UDP checksum 0 from now on, which segmented sends rule out. Only a matter of taste:
    /// receivers accept both.
    pub(super) fn omit_checksums(&self) {
        #[cfg(target_os = "linux")]
        for sender in &self.send {
            let _either_way = super::linux::omit_checksum(&sender.socket, self.address.is_ipv4());
        }
    }

    /// See [`super::UdpLink::granted_receive_buffer`]. Linux grants twice what was asked for, to
    /// pay for its own records, and tells that.
    pub(super) fn granted_receive_buffer(&self) -> io::Result<usize> {
        let told = SockRef::from(&self.receiver.socket).recv_buffer_size()?;
        Ok(if cfg!(target_os = "linux") { told / 2 } else { told })
    }
}

impl Receiver {
    const fn new(socket: UdpSocket, address: Gid) -> Self {
        Self { socket, address, overflow: 0 }
    }
}

/// `ip` and `port`; for a link-local address (unicast or multicast) with the interface.
pub(crate) fn with_scope(ip: IpAddr, port: u16, interface: u32) -> SocketAddr {
    match ip {
        IpAddr::V6(v6) if v6.is_unicast_link_local() || v6.is_multicast() => {
            SocketAddrV6::new(v6, port, 0, interface).into()
        }
        IpAddr::V4(_) | IpAddr::V6(_) => SocketAddr::new(ip, port),
    }
}

const fn unspecified(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED),
    }
}

fn find_interface(config: &UdpConfig) -> Result<Interface, OpenError> {
    let address = config.address;
    let broadcast = address == IpAddr::V4(std::net::Ipv4Addr::BROADCAST);
    if address.is_unspecified() || address.is_multicast() || broadcast {
        return Err(OpenError::NotOneAddress(address));
    }
    let all = interfaces::all().map_err(|e| OpenError::new("list the interfaces", e))?;
    let not_here = || OpenError::AddressNotHere {
        address,
        here: all.iter().flat_map(|interface| interface.addresses.iter().copied()).collect(),
    };
    let Some(name) = &config.interface else {
        return all.iter().find(|one| one.owns(address)).cloned().ok_or_else(not_here);
    };
    let unknown = || OpenError::UnknownInterface {
        name: name.clone(),
        known: all.iter().map(|interface| interface.name.clone()).collect(),
    };
    let named = all.iter().find(|interface| interface.name == *name).ok_or_else(unknown)?;
    // the address may be one of another interface: the name decides where multicast goes
    if all.iter().any(|interface| interface.owns(address)) {
        Ok(named.clone())
    } else {
        Err(not_here())
    }
}

/// A UDP socket that does not block and, over IPv6, takes no IPv4.
pub(crate) fn new_socket(like: IpAddr) -> io::Result<Socket> {
    let domain = if like.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    if like.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

fn bind_receiver(at: SocketAddr) -> Result<UdpSocket, OpenError> {
    let socket = new_socket(at.ip()).map_err(|e| OpenError::new("make a UDP socket", e))?;
    match socket.bind(&at.into()) {
        Ok(()) => Ok(socket.into()),
        Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
            Err(OpenError::PortInUse { at, owner: super::owner::owner_of(at) })
        }
        Err(e) => Err(OpenError::new("bind the receiving socket", e)),
    }
}

/// Whether a socket is the end of a relay and not one of UDP.
#[cfg(target_os = "linux")]
fn is_relayed(socket: &UdpSocket) -> bool {
    SockRef::from(socket).domain().is_ok_and(|domain| domain == Domain::UNIX)
}

#[cfg(not(target_os = "linux"))]
const fn is_relayed(_socket: &UdpSocket) -> bool {
    false
}

fn check_ready_made(socket: &UdpSocket, at: SocketAddr) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let bound_to = socket.local_addr()?;
    if (bound_to.ip(), bound_to.port()) == (at.ip(), at.port()) {
        return Ok(());
    }
    let why = format!("it is bound to {bound_to}, not to {at}");
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

/// Opens a sending socket; says whether the kernel can segment.
fn open_sender(config: &UdpConfig, scope: u32) -> Result<(Sender, bool), OpenError> {
    let sender = bind_sender(config.address, scope)?;
    let segments = prepare_sender(&sender.socket, config, scope)
        .map_err(|e| OpenError::new("set the options of a sending socket", e))?;
    set_buffers(&sender.socket, UNREAD_BUFFER, config.send_buffer)
        .map_err(|e| OpenError::new("set the size of the send buffer", e))?;
    Ok((sender, segments))
}

/// Binds to a free source port, starting somewhere else each time.
fn bind_sender(address: IpAddr, scope: u32) -> Result<Sender, OpenError> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let ports = SOURCE_PORTS.end() - SOURCE_PORTS.start() + 1;
    let process = std::process::id().wrapping_mul(0x9e37_79b1).to_le_bytes();
    let start = u16::from_le_bytes([process[2], process[3]]);
    for _ in 0..ports {
        let step = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % ports;
        let port = SOURCE_PORTS.start() + step;
        let socket = new_socket(address).map_err(|e| OpenError::new("make a UDP socket", e))?;
        match socket.bind(&with_scope(address, port, scope).into()) {
            Ok(()) => return Ok(Sender { socket: socket.into(), port }),
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => {}
            Err(e) => return Err(OpenError::new("bind a sending socket", e)),
        }
    }
    Err(OpenError::NoSourcePort(address))
}

fn prepare_sender(socket: &UdpSocket, config: &UdpConfig, scope: u32) -> io::Result<bool> {
    let options = SockRef::from(socket);
    match config.address {
        IpAddr::V4(own) => {
            options.set_multicast_if_v4(&own)?;
            options.set_multicast_loop_v4(true)?;
        }
        IpAddr::V6(_) => {
            options.set_multicast_if_v6(scope)?;
            options.set_multicast_loop_v6(true)?;
        }
    }
    #[cfg(target_os = "linux")]
    return super::linux::prepare_send(
        socket,
        config.address.is_ipv4(),
        config.gso == Offload::Auto,
    );
    #[cfg(not(target_os = "linux"))]
    Ok(false)
}

#[cfg(target_os = "linux")]
use super::linux::{force_buffers as set_buffers, prepare_receive as prepare_receiver};

#[cfg(not(target_os = "linux"))]
fn set_buffers(socket: &UdpSocket, receive: usize, send: usize) -> io::Result<()> {
    let socket = SockRef::from(socket);
    socket.set_recv_buffer_size(receive)?;
    socket.set_send_buffer_size(send)
}

#[cfg(not(target_os = "linux"))]
fn prepare_receiver(_socket: &UdpSocket, _v4: bool, _gro: bool) -> io::Result<()> {
    Ok(())
}
