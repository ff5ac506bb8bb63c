//! Where a packet travels: what the IP and UDP headers say.

use crate::verbs::Gid;

/// UDP destination port of RoCEv2 (annex A17).
// [packet-format/udp-ports]
pub const ROCE_PORT: u16 = 4791;

/// The addressing of one packet, the same for IPv4 and IPv6. Both addresses are of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Route {
    /// Sender.
    pub src: Gid,
    /// Receiver or multicast group.
    pub dst: Gid,
    /// UDP source port; the destination port is always [`ROCE_PORT`].
    pub src_port: u16,
    /// Traffic class (IPv6) or type of service (IPv4): DSCP in the high 6 bits, ECN in the low 2.
    pub traffic_class: u8,
    /// Hop limit or time to live, as sent or as it arrived.
    pub hop_limit: u8,
    /// IPv6 flow label, 20 bits; 0 for IPv4.
    pub flow_label: u32,
}

impl Route {
    /// ECN bits that say "congestion experienced" (RFC 3168, section 5).
    pub const ECN_CE: u8 = 0b11;

    /// Whether the addresses are IPv4 addresses.
    #[must_use]
    pub const fn is_v4(&self) -> bool {
        self.dst.as_v4().is_some()
    }

    /// Whether a switch on the way has marked congestion.
    #[must_use]
    pub const fn congestion_experienced(&self) -> bool {
        self.traffic_class & 0b11 == Self::ECN_CE
    }
}
