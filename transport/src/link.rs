//! What every link does.

use std::io;
use std::net::UdpSocket;

use softrnic_model::verbs::Gid;
use softrnic_model::wire::Route;
use softrnic_model::{Filled, Instant};

use crate::LinkSet;

/// The longest packet, from the BTH to the end of the pad, that links carry: the payload of the
/// largest path MTU, 4,096 bytes, and more headers than any opcode has.
pub const PACKET_LEN_MAX: usize = 4204;

/// A frame that wants to leave.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing {
    /// Addressing.
    pub route: Route,
    /// Bytes from the BTH to the end of the pad; the ICRC comes on top.
    pub len: usize,
    /// A bit of the finished frame (ICRC included, counted from the BTH) that a fault rule wants
    /// flipped after the ICRC was made.
    pub damage: Option<u32>,
}

/// A way for frames to travel.
///
/// A *packet* here is the part that the transport made: BTH, extension headers, payload, pad. The
/// link adds IP and UDP headers and the ICRC, and checks and removes them.
pub trait Link: Send {
    /// Hands over what has arrived, at most one batch, by calling `deliver` for each packet. The
    /// ICRC was checked before and is not part of the slice. Never blocks.
    ///
    /// Returns how many packets were handed over; 0 means that nothing was waiting.
    ///
    /// # Errors
    /// The socket failed for good. A frame that is bad is counted and dropped instead.
    fn receive(
        &mut self,
        now: Instant,
        deliver: &mut dyn FnMut(&Route, &[u8]),
    ) -> io::Result<usize>;

    /// Whether another frame may be given to [`Link::transmit`] now. A link says no when its queue
    /// is full; the device keeps what it has and makes it later.
    fn ready(&self) -> bool;

    /// Takes one frame: calls `fill` once with a buffer of exactly `frame.len` bytes, and sends
    /// the result now or at the next [`Link::flush`]. When `fill` returns false nothing is sent.
    ///
    /// # Errors
    /// The socket failed for good. A frame that cannot be sent is counted and dropped instead.
    fn transmit(
        &mut self,
        now: Instant,
        frame: Outgoing,
        fill: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> io::Result<()>;

    /// Takes one frame and those like it that follow: calls `fill` again as long as it says that
    /// there are more, and the link is ready. The first may be given, as with [`Link::transmit`].
    ///
    /// # Errors
    /// As [`Link::transmit`].
    fn transmit_run(
        &mut self,
        now: Instant,
        frame: Outgoing,
        fill: &mut dyn FnMut(&mut [u8]) -> Filled,
    ) -> io::Result<()> {
        loop {
            let mut filled = Filled::Not;
            self.transmit(now, frame, &mut |out| {
                filled = fill(out);
                filled != Filled::Not
            })?;
            if filled != Filled::AndMore || !self.ready() {
                return Ok(());
            }
        }
    }

    /// Sends what is gathered.
    ///
    /// # Errors
    /// As [`Link::transmit`].
    fn flush(&mut self, now: Instant) -> io::Result<()>;

    /// When this link itself has something to do (a delayed frame), if ever.
    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// Listens to a multicast group. Frames to the group that this host sends are delivered as
    /// well.
    ///
    /// # Errors
    /// Not a group, of a family that the link does not have, or refused by the system.
    fn join(&mut self, group: Gid) -> io::Result<()>;

    /// Listens to a multicast group no more.
    fn leave(&mut self, group: Gid);

    /// Calls `each` with every socket on which frames arrive. They change with
    /// [`Link::join`] and [`Link::leave`].
    fn sockets(&self, each: &mut dyn FnMut(&UdpSocket));

    /// What it has counted so far.
    fn counters(&self) -> LinkCounters;

    /// The set of links in which the addresses of a device come and go, if this is one or
    /// decorates one.
    fn as_set(&mut self) -> Option<&mut LinkSet> {
        None
    }
}

impl<L: Link + ?Sized> Link for Box<L> {
    fn receive(
        &mut self,
        now: Instant,
        deliver: &mut dyn FnMut(&Route, &[u8]),
    ) -> io::Result<usize> {
        (**self).receive(now, deliver)
    }

    fn ready(&self) -> bool {
        (**self).ready()
    }

    fn transmit(
        &mut self,
        now: Instant,
        frame: Outgoing,
        fill: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> io::Result<()> {
        (**self).transmit(now, frame, fill)
    }

    fn transmit_run(
        &mut self,
        now: Instant,
        frame: Outgoing,
        fill: &mut dyn FnMut(&mut [u8]) -> Filled,
    ) -> io::Result<()> {
        (**self).transmit_run(now, frame, fill)
    }

    fn flush(&mut self, now: Instant) -> io::Result<()> {
        (**self).flush(now)
    }

    fn next_deadline(&self) -> Option<Instant> {
        (**self).next_deadline()
    }

    fn join(&mut self, group: Gid) -> io::Result<()> {
        (**self).join(group)
    }

    fn leave(&mut self, group: Gid) {
        (**self).leave(group);
    }

    fn sockets(&self, each: &mut dyn FnMut(&UdpSocket)) {
        (**self).sockets(each);
    }

    fn counters(&self) -> LinkCounters {
        (**self).counters()
    }

    fn as_set(&mut self) -> Option<&mut LinkSet> {
        (**self).as_set()
    }
}

/// What a link counts. All are numbers of frames unless the name says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Sent.
    pub tx_packets: u64,
    /// Bytes sent, UDP payload.
    pub tx_bytes: u64,
    /// Arrived, good or bad.
    pub rx_packets: u64,
    /// Bytes arrived, UDP payload.
    pub rx_bytes: u64,
    /// System calls that sent.
    pub tx_calls: u64,
    /// System calls that received something.
    pub rx_calls: u64,
    /// Dropped: too short for a BTH and an ICRC, or longer than any packet may be.
    pub rx_bad_length: u64,
    /// Dropped: wrong ICRC.
    pub rx_bad_icrc: u64,
    /// Checked over all 32 bits of the ICRC (IPv6, or an identification that was foreseen).
    pub rx_icrc_full: u64,
    /// Checked over 16 bits, with the IPv4 identification solved from the rest.
    pub rx_icrc_solved: u64,
    /// Solved identifications that do not fit the pattern of that peer.
    pub rx_icrc_odd_identification: u64,
    /// Lost because the receive buffer was full, as the kernel counts them.
    pub rx_overflow: u64,
    /// Not sent: no route, no buffer space, or refused by the kernel.
    pub tx_failed: u64,
    /// Frames that fault rules dropped.
    pub faults_dropped: u64,
    /// Frames that fault rules changed, repeated, delayed or marked.
    pub faults_applied: u64,
}

impl LinkCounters {
    /// Adds what another link has counted.
    pub fn merge(&mut self, other: &Self) {
        for ((_, sum), (_, more)) in self.fields_mut().into_iter().zip(other.fields()) {
            *sum += more;
        }
    }

    /// Names and values, in a fixed order.
    #[must_use]
    pub fn fields(&self) -> [(&'static str, u64); 15] {
        let mut copy = *self;
        copy.fields_mut().map(|(name, value)| (name, *value))
    }

    fn fields_mut(&mut self) -> [(&'static str, &mut u64); 15] {
        [
            ("tx_packets", &mut self.tx_packets),
            ("tx_bytes", &mut self.tx_bytes),
            ("rx_packets", &mut self.rx_packets),
            ("rx_bytes", &mut self.rx_bytes),
            ("tx_calls", &mut self.tx_calls),
            ("rx_calls", &mut self.rx_calls),
            ("rx_bad_length", &mut self.rx_bad_length),
            ("rx_bad_icrc", &mut self.rx_bad_icrc),
            ("rx_icrc_full", &mut self.rx_icrc_full),
            ("rx_icrc_solved", &mut self.rx_icrc_solved),
            ("rx_icrc_odd_identification", &mut self.rx_icrc_odd_identification),
            ("rx_overflow", &mut self.rx_overflow),
            ("tx_failed", &mut self.tx_failed),
            ("faults_dropped", &mut self.faults_dropped),
            ("faults_applied", &mut self.faults_applied),
        ]
    }
}
