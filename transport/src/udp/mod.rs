//! RoCEv2 over an ordinary UDP socket.
//!
//! [`UdpLink`] gathers frames into bursts that leave in one system call (`queue`), makes their
//! ICRCs while they are in the cache, and takes apart and checks what arrives merged (`checker`).
//! The system calls are behind a seam (`system`) so that tests can play the kernel.
//!
//! * **Identification.** The ICRC covers the IPv4 identification. From an unconnected socket with
//!   `IP_MTU_DISCOVER` = `DO` Linux sends 0, and over the segments of one `UDP_SEGMENT` send it
//!   counts up from 0; so the sender knows it.
//! * **Checksum.** Segmented sends carry a UDP checksum, single datagrams 0; receivers of IPv6
//!   accept 0 (`UDP_NO_CHECK6_RX`). The ICRC does not cover it.
//! * **Ports.** A frame is received on the one well-known port and sent from one of a few dynamic
//!   ports, chosen by destination slot. [`Route::src_port`] of a frame to send is not looked at.

mod checker;
mod config;
#[cfg(target_os = "linux")]
mod control;
mod error;
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "system calls that no crate covers")]
#[expect(trivial_numeric_casts, reason = "the types of some fields differ between C libraries")]
mod linux;
mod owner;
#[cfg(any(test, not(target_os = "linux")))]
mod portable;
mod queue;
#[cfg(target_os = "linux")]
mod relay;
mod sockets;
mod split;
mod system;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::net::UdpSocket;

use softrnic_model::verbs::Gid;
use softrnic_model::wire::{Bth, ICRC_LEN, IcrcRoute, Route};
use softrnic_model::{Filled, Instant};
use zerocopy::FromBytes;

use self::checker::Checker;
pub(crate) use self::checker::Maker;
pub use self::config::{Offload, UdpConfig};
pub use self::error::OpenError;
#[cfg(target_os = "linux")]
pub(crate) use self::linux::interface_facts;
#[cfg(target_os = "linux")]
pub(crate) use self::owner::user_of;
use self::queue::{Destination, Queue};
#[cfg(target_os = "linux")]
pub(crate) use self::relay::Relay;
use self::sockets::Sockets;
#[cfg(target_os = "linux")]
pub(crate) use self::sockets::new_socket;
pub(crate) use self::sockets::with_scope;
use self::split::take_apart;
use self::system::{Arrival, SEGMENTS_MAX, SendFault, System};
use crate::link::{Link, LinkCounters, Outgoing, PACKET_LEN_MAX};

const PACKET_LEN_MIN: usize = size_of::<Bth>();
/// How long to wait when the kernel has no room for another send.
const RETRY_NS: u64 = 50_000;

/// A link over UDP sockets. See the module for how.
pub struct UdpLink {
    sockets: Sockets,
    system: Box<dyn System>,
    queue: Queue,
    maker: Maker,
    recent: Option<Recent>,
    checker: Checker,
    counters: LinkCounters,
    peer_port: u16,
    /// The kernel had no room: not before then.
    blocked_until: Option<Instant>,
    /// A segmented send was refused as invalid, and it is open whether for being segmented.
    segments_doubted: bool,
    last_send_error: Option<io::Error>,
}

impl UdpLink {
    /// Binds the sockets.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(config: &UdpConfig) -> Result<Self, OpenError> {
        Ok(Self::with_sockets(config, Sockets::open(config, None)?))
    }

    /// The same around a receiving socket that somebody else has bound to the address and port of
    /// `config`, for instance a member of a group that steers by queue pair number; or around the
    /// end of a relay that reads such a socket.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn adopt(receiver: UdpSocket, config: &UdpConfig) -> Result<Self, OpenError> {
        Ok(Self::with_sockets(config, Sockets::open(config, Some(receiver))?))
    }

    fn with_sockets(config: &UdpConfig, sockets: Sockets) -> Self {
        #[cfg(target_os = "linux")]
        let system = Box::new(linux::Calls::new());
        #[cfg(not(target_os = "linux"))]
        let system = Box::new(portable::Calls::new());
        Self::over(config, sockets, system)
    }

    fn over(config: &UdpConfig, sockets: Sockets, system: Box<dyn System>) -> Self {
        let segments_max = if sockets.segments { SEGMENTS_MAX } else { 1 };
        Self {
            sockets,
            system,
            queue: Queue::new(segments_max),
            maker: Maker::new(),
            recent: None,
            checker: Checker::new(),
            counters: LinkCounters::default(),
            peer_port: config.peer_port,
            blocked_until: None,
            segments_doubted: false,
            last_send_error: None,
        }
    }

    /// The GID of this end: the source of every frame that it sends.
    #[must_use]
    pub fn gid(&self) -> Gid {
        self.sockets.address.into()
    }

    /// Bytes of frames that the kernel keeps for this link before it drops any, about: bound what
    /// peers have in flight by it.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn granted_receive_buffer(&self) -> io::Result<usize> {
        self.sockets.granted_receive_buffer()
    }

    /// Listens to a multicast group, on the interface of the link. Frames to the group that this
    /// host sends are delivered as well.
    ///
    /// # Errors
    /// Not a group, of the wrong family, or refused by the system.
    pub fn join(&mut self, group: Gid) -> io::Result<()> {
        self.sockets.join(group)
    }

    /// Listens to a multicast group no more; returns whether it did.
    pub fn leave(&mut self, group: Gid) -> bool {
        self.sockets.leave(group)
    }

    /// The sockets to wait on until something arrives: that of the address, then those of the
    /// groups that were joined, which change with [`UdpLink::join`] and [`UdpLink::leave`].
    pub fn receivers(&self) -> impl Iterator<Item = &UdpSocket> {
        self.sockets.receivers().map(|receiver| &receiver.socket)
    }

    /// Whether frames leave in segmented sends; false after the kernel refused one.
    #[must_use]
    pub const fn segments(&self) -> bool {
        self.queue.joins()
    }

    /// Why the last frame that counts as [`LinkCounters::tx_failed`] could not be sent: what the
    /// kernel said; [`io::ErrorKind::InvalidInput`] if its length or its route is none that this
    /// link can send; [`io::ErrorKind::StorageFull`] if the link was not [ready](Link::ready).
    #[must_use]
    pub const fn last_send_error(&self) -> Option<&io::Error> {
        self.last_send_error.as_ref()
    }

    /// Sends what waits, until the kernel takes no more.
    fn send(&mut self, now: Instant) -> io::Result<()> {
        if self.blocked_until.is_some_and(|until| now < until) {
            return Ok(());
        }
        self.blocked_until = None;
        while !self.queue.is_empty() {
            let (bytes, run) = self.queue.front_run();
            let Some(sender) = run.first().and_then(|burst| self.sockets.send.get(burst.socket))
            else {
                break;
            };
            match self.system.send(&sender.socket, bytes, run) {
                Ok(sent) => self.sent(sent),
                Err(error) => match system::fault_of(&error) {
                    SendFault::Interrupted => {}
                    SendFault::NoRoom => {
                        self.blocked_until = Some(now.plus_ns(RETRY_NS));
                        break;
                    }
                    SendFault::Fatal => return Err(error),
                    SendFault::NoSegments | SendFault::Invalid if self.try_simpler(&error) => {}
                    SendFault::NoSegments | SendFault::Invalid | SendFault::Refused => {
                        self.give_up_front(error);
                    }
                },
            }
        }
        Ok(())
    }

    /// The first `bursts` bursts have left.
    fn sent(&mut self, bursts: usize) {
        self.counters.tx_calls += 1;
        for _ in 0..bursts {
            let Some(burst) = self.queue.pop() else { break };
            self.counters.tx_packets += burst.frames as u64;
            self.counters.tx_bytes += burst.len as u64;
        }
        if self.segments_doubted {
            // what was refused in segments is taken in pieces
            self.segments_doubted = false;
            self.stop_segmenting();
        }
    }

    /// The front burst was refused. Makes it plainer, if it can be; if not, returns false.
    fn try_simpler(&mut self, error: &io::Error) -> bool {
        let Some(front) = self.queue.front() else { return false };
        if front.frames > 1 {
            if system::fault_of(error) == SendFault::NoSegments {
                self.stop_segmenting();
            } else {
                self.segments_doubted = true;
                self.split(1);
            }
            return true;
        }
        self.sockets.flow_labels && {
            // somebody has leased flow labels for himself (`IPV6_FLOWLABEL_MGR`): do without
            self.sockets.flow_labels = false;
            self.recent = None;
            self.queue.clear_flow_labels()
        }
    }

    /// The front burst cannot be sent.
    fn give_up_front(&mut self, error: io::Error) {
        self.segments_doubted = false;
        if let Some(burst) = self.queue.pop() {
            self.fail(burst.frames, error);
        }
    }

    fn fail(&mut self, frames: usize, error: io::Error) {
        self.counters.tx_failed += frames as u64;
        self.last_send_error = Some(error);
    }

    /// One datagram per frame from now on.
    fn stop_segmenting(&mut self) {
        self.queue.never_join();
        self.split(usize::MAX);
        self.sockets.omit_checksums();
    }

    /// Makes single datagrams of the first `bursts` bursts. They leave with identification 0, so
    /// each ICRC changes by what its position in the burst had added, whatever the frame holds.
    fn split(&mut self, bursts: usize) {
        let (sockets, maker) = (&self.sockets, &mut self.maker);
        self.queue.split(bursts, &mut |burst, position, frame| {
            let route = sockets.route_from(burst.socket, burst.to.ip().into());
            let Some((packet, icrc)) = frame.split_last_chunk_mut::<ICRC_LEN>() else { return };
            let made = u32::from_le_bytes(maker.icrc(&route, position, packet));
            let single = u32::from_le_bytes(maker.icrc(&route, 0, packet));
            *icrc = (u32::from_le_bytes(*icrc) ^ made ^ single).to_le_bytes();
        });
    }

    /// Where a frame along `route` to `slot` goes, if it can.
    fn destination(&mut self, route: &Route, slot: u8) -> Option<Destination> {
        if route.src != self.gid() || route.is_v4() != route.src.as_v4().is_some() {
            return None;
        }
        let mut to = with_scope(route.dst.into(), self.peer_port, self.sockets.interface);
        if to.ip().is_unspecified() {
            return None;
        }
        if let std::net::SocketAddr::V6(to) = &mut to
            && self.sockets.flow_labels
        {
            to.set_flowinfo(route.flow_label & 0x000f_ffff);
        }
        let socket = self.sockets.sender_to(slot, self.queue.joins());
        let Route { traffic_class, hop_limit, .. } = *route;
        Some(Destination { to, traffic_class, hop_limit, socket, slot })
    }
}

/// What was worked out for the last run: the next one mostly goes the same way.
struct Recent {
    route: Route,
    slot: u8,
    destination: Destination,
    icrc: IcrcRoute,
}

impl UdpLink {
    /// Where a frame goes, and what its ICRC has in common with others; none if it cannot go there.
    fn way_of(&mut self, route: &Route, slot: u8) -> Option<&Recent> {
        let known = |recent: &Recent| recent.slot == slot && recent.route == *route;
        if !self.recent.as_ref().is_some_and(known) {
            let destination = self.destination(route, slot)?;
            let from = self.sockets.route_from(destination.socket, route.dst);
            let icrc = self.maker.route(&from);
            self.recent = Some(Recent { route: *route, slot, destination, icrc });
        }
        self.recent.as_ref()
    }
}

impl Link for UdpLink {
    fn receive(
        &mut self,
        _now: Instant,
        deliver: &mut dyn FnMut(&Route, &[u8]),
    ) -> io::Result<usize> {
        let Self { sockets, system, checker, counters, .. } = self;
        let mut delivered = 0;
        for receiver in sockets.receivers_mut() {
            let (dst, overflow) = (receiver.address, &mut receiver.overflow);
            let mut take = |arrival: &Arrival, bytes: &[u8]| {
                if let Some(total) = arrival.overflow {
                    counters.rx_overflow += u64::from(total.wrapping_sub(*overflow));
                    *overflow = total;
                }
                delivered += take_apart(arrival, dst, bytes, checker, counters, deliver);
            };
            match system.receive(&receiver.socket, &mut take) {
                Ok(_) => counters.rx_calls += 1,
                Err(error) if system::is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(delivered)
    }

    fn ready(&self) -> bool {
        self.queue.has_room()
    }

    fn transmit(
        &mut self,
        now: Instant,
        frame: Outgoing,
        fill: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> io::Result<()> {
        self.transmit_run(now, frame, &mut |out| match fill(out) {
            true => Filled::Once,
            false => Filled::Not,
        })
    }

    fn transmit_run(
        &mut self,
        now: Instant,
        frame: Outgoing,
        fill: &mut dyn FnMut(&mut [u8]) -> Filled,
    ) -> io::Result<()> {
        if !(PACKET_LEN_MIN..=PACKET_LEN_MAX).contains(&frame.len) {
            self.fail(1, io::ErrorKind::InvalidInput.into());
            return Ok(());
        }
        let len = frame.len + ICRC_LEN;
        let mut known = None;
        loop {
            let packet = &mut self.queue.room(len)[..frame.len];
            let filled = fill(packet);
            if filled == Filled::Not {
                return Ok(());
            }
            let slot = Bth::ref_from_prefix(packet).map_or(0, |(bth, _)| bth.dest_qp().slot());
            let way = |recent: &Recent| (recent.destination, recent.icrc.seed(len));
            let Some((destination, seed)) =
                known.or_else(|| self.way_of(&frame.route, slot).map(way))
            else {
                self.fail(1, io::ErrorKind::InvalidInput.into());
                return Ok(());
            };
            if !self.queue.has_room() {
                self.fail(1, io::ErrorKind::StorageFull.into());
                return Ok(());
            }
            known = Some((destination, seed));
            let identification = self.queue.append(len, &destination);
            let appended = self.queue.last_frame(len);
            if let Some((packet, icrc)) = appended.split_last_chunk_mut::<ICRC_LEN>() {
                *icrc = seed.with_identification(identification).finish(packet);
            }
            if let Some(bit) = frame.damage.and_then(|bit| usize::try_from(bit).ok())
                && let Some(byte) = appended.get_mut(bit / 8)
            {
                *byte ^= 1 << (bit % 8);
            }
            if self.queue.is_worth_sending() {
                self.send(now)?;
                // The kernel may have had something against the way.
                known = None;
            }
            if filled == Filled::Once || !self.queue.has_room() {
                return Ok(());
            }
        }
    }

    fn flush(&mut self, now: Instant) -> io::Result<()> {
        self.send(now)
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.blocked_until
    }

    fn join(&mut self, group: Gid) -> io::Result<()> {
        self.sockets.join(group)
    }

    fn leave(&mut self, group: Gid) {
        self.sockets.leave(group);
    }

    fn sockets(&self, each: &mut dyn FnMut(&UdpSocket)) {
        self.receivers().for_each(each);
    }

    fn counters(&self) -> LinkCounters {
        self.counters
    }
}

#[cfg(unix)]
impl std::os::fd::AsFd for UdpLink {
    /// The receiving socket of the address.
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.sockets.receiver.socket.as_fd()
    }
}

#[cfg(unix)]
impl std::os::fd::AsRawFd for UdpLink {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        std::os::fd::AsFd::as_fd(self).as_raw_fd()
    }
}

#[cfg(windows)]
impl std::os::windows::io::AsSocket for UdpLink {
    /// The receiving socket of the address.
    fn as_socket(&self) -> std::os::windows::io::BorrowedSocket<'_> {
        self.sockets.receiver.socket.as_socket()
    }
}

impl fmt::Debug for UdpLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UdpLink")
            .field("address", &self.sockets.address)
            .field("peer_port", &self.peer_port)
            .field("segments", &self.segments())
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}
