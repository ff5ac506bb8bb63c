//! Ethernet, IP and UDP headers, laid out as on the wire.

use core::fmt;

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{ROCE_PORT, Route};
use crate::verbs::Gid;

/// Protocol number of UDP.
pub(super) const PROTOCOL_UDP: u8 = 17;

/// Ethernet II header.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct EthernetHeader {
    /// Destination MAC address.
    pub dst: [u8; 6],
    /// Source MAC address.
    pub src: [u8; 6],
    /// What follows.
    pub ethertype: U16,
}

const _: () = assert!(size_of::<EthernetHeader>() == 14);

impl EthernetHeader {
    /// EtherType of IPv4.
    pub const IPV4: u16 = 0x0800;
    /// EtherType of IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// EtherType of a VLAN tag (IEEE 802.1Q).
    pub const VLAN: u16 = 0x8100;
    /// EtherType of RoCE version 1.
    pub const ROCE_V1: u16 = 0x8915;

    /// The header that a capture shows for a route: locally administered addresses that end in the
    /// IP address, and the standard group addresses for multicast (RFC 1112, RFC 2464).
    #[must_use]
    pub fn for_route(route: &Route) -> Self {
        let ethertype = if route.is_v4() { Self::IPV4 } else { Self::IPV6 };
        Self { dst: mac(&route.dst), src: mac(&route.src), ethertype: ethertype.into() }
    }
}

fn mac(gid: &Gid) -> [u8; 6] {
    let [.., a, b, c, d] = gid.0;
    match (gid.is_multicast(), gid.as_v4().is_some()) {
        (true, true) => [0x01, 0x00, 0x5e, b & 0x7f, c, d],
        (true, false) => [0x33, 0x33, a, b, c, d],
        (false, _) => [0x02, 0x00, a, b, c, d],
    }
}

/// The rest of a VLAN tag, behind EtherType [`EthernetHeader::VLAN`].
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct VlanTag {
    /// Priority (3), drop eligible (1), VLAN (12).
    pub control: U16,
    /// What follows.
    pub ethertype: U16,
}

const _: () = assert!(size_of::<VlanTag>() == 4);

/// IPv4 header without options (RFC 791).
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Ipv4Header {
    /// Version (4) and header length in words (4).
    pub version_ihl: u8,
    /// Type of service: DSCP (6) and ECN (2).
    pub tos: u8,
    /// Bytes of header and everything behind it.
    pub total_len: U16,
    /// Which datagram a fragment belongs to.
    pub identification: U16,
    /// Reserved, don't fragment, more fragments, offset (13).
    pub flags_fragment: U16,
    /// Time to live.
    pub ttl: u8,
    /// What follows.
    pub protocol: u8,
    /// Header checksum.
    pub checksum: U16,
    /// Source address.
    pub src: [u8; 4],
    /// Destination address.
    pub dst: [u8; 4],
}

const _: () = assert!(size_of::<Ipv4Header>() == 20);

impl Ipv4Header {
    /// In [`Ipv4Header::flags_fragment`]: don't fragment.
    pub const DONT_FRAGMENT: u16 = 1 << 14;
    /// In [`Ipv4Header::flags_fragment`]: more fragments, and the offset of this one.
    pub const FRAGMENT: u16 = 0x3fff;

    pub(super) const VERSION_4_WITHOUT_OPTIONS: u8 = 0x45;

    /// Length in bytes, without options.
    pub(super) const LEN: u16 = 20;

    /// The header in front of a UDP datagram whose IPv4 packet has `total_len` bytes, with
    /// don't-fragment set and the checksum made.
    #[must_use]
    pub fn new(route: &Route, identification: u16, total_len: u16) -> Self {
        let header = Self::unsummed(route, identification, total_len);
        Self { checksum: header.checksum(&[]).into(), ..header }
    }

    /// As [`Ipv4Header::new`] with a checksum of 0.
    // [packet-format/ipv4-header]
    pub(super) fn unsummed(route: &Route, identification: u16, total_len: u16) -> Self {
        Self {
            version_ihl: Self::VERSION_4_WITHOUT_OPTIONS,
            tos: route.traffic_class,
            total_len: total_len.into(),
            identification: identification.into(),
            flags_fragment: Self::DONT_FRAGMENT.into(),
            ttl: route.hop_limit,
            protocol: PROTOCOL_UDP,
            checksum: U16::ZERO,
            src: route.src.as_v4().unwrap_or_default(),
            dst: route.dst.as_v4().unwrap_or_default(),
        }
    }

    /// Version; 4 in a header that is one.
    #[must_use]
    pub const fn version(&self) -> u8 {
        self.version_ihl >> 4
    }

    /// Length in bytes, options included, as the header says.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        (self.version_ihl & 0x0f) as usize * 4
    }

    /// Whether this is a part of a datagram only.
    #[must_use]
    pub const fn is_fragment(&self) -> bool {
        self.flags_fragment.get() & Self::FRAGMENT != 0
    }

    /// The checksum that header and `options` should have (RFC 1071).
    #[must_use]
    pub fn checksum(&self, options: &[u8]) -> u16 {
        let header = Self { checksum: U16::ZERO, ..*self };
        let words = header.as_bytes().chunks(2).chain(options.chunks(2));
        let sum: u32 = words
            .map(|word| match *word {
                [high, low] => u32::from(u16::from_be_bytes([high, low])),
                [high] => u32::from(high) << 8,
                _ => 0,
            })
            .sum();
        // At most 30 words: two folds take every carry back in.
        let folded = (sum >> 16) + (sum & 0xffff);
        let [_, _, high, low] = (folded + (folded >> 16)).to_be_bytes();
        !u16::from_be_bytes([high, low])
    }

    /// The route of a UDP datagram behind this header.
    pub(super) const fn route(&self, src_port: u16) -> Route {
        Route {
            src: Gid::from_v4(self.src),
            dst: Gid::from_v4(self.dst),
            src_port,
            traffic_class: self.tos,
            hop_limit: self.ttl,
            flow_label: 0,
        }
    }

    /// With ones in the fields that the ICRC does not cover.
    // [icrc/ipv4-masked]
    pub(super) fn masked(self) -> Self {
        Self { tos: 0xff, ttl: 0xff, checksum: U16::new(0xffff), ..self }
    }
}

impl fmt::Debug for Ipv4Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ipv4Header")
            .field("version_ihl", &format_args!("{:#04x}", self.version_ihl))
            .field("tos", &format_args!("{:#04x}", self.tos))
            .field("total_len", &self.total_len)
            .field("identification", &format_args!("{:#06x}", self.identification))
            .field("flags_fragment", &format_args!("{:#06x}", self.flags_fragment))
            .field("ttl", &self.ttl)
            .field("protocol", &self.protocol)
            .field("checksum", &format_args!("{:#06x}", self.checksum))
            .field("src", &core::net::Ipv4Addr::from(self.src))
            .field("dst", &core::net::Ipv4Addr::from(self.dst))
            .finish()
    }
}

/// IPv6 header (RFC 8200).
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Ipv6Header {
    /// Version (4), traffic class (8), flow label (20).
    pub version_class_flow: U32,
    /// Bytes behind this header.
    pub payload_len: U16,
    /// What follows.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub src: [u8; 16],
    /// Destination address.
    pub dst: [u8; 16],
}

const _: () = assert!(size_of::<Ipv6Header>() == 40);

impl Ipv6Header {
    const FLOW_LABEL: u32 = 0x000f_ffff;
    const CLASS_AND_FLOW: u32 = 0x0fff_ffff;

    /// The header in front of a UDP datagram of `payload_len` bytes, UDP header included.
    #[must_use]
    // [packet-format/ipv6-header]
    pub fn new(route: &Route, payload_len: u16) -> Self {
        let word =
            6 << 28 | u32::from(route.traffic_class) << 20 | route.flow_label & Self::FLOW_LABEL;
        Self {
            version_class_flow: word.into(),
            payload_len: payload_len.into(),
            next_header: PROTOCOL_UDP,
            hop_limit: route.hop_limit,
            src: route.src.0,
            dst: route.dst.0,
        }
    }

    /// Version; 6 in a header that is one.
    #[must_use]
    pub const fn version(&self) -> u8 {
        self.version_class_flow.to_bytes()[0] >> 4
    }

    /// Traffic class: DSCP (6) and ECN (2).
    #[must_use]
    pub const fn traffic_class(&self) -> u8 {
        let [high, low, ..] = self.version_class_flow.to_bytes();
        high << 4 | low >> 4
    }

    /// Flow label, 20 bits.
    #[must_use]
    pub const fn flow_label(&self) -> u32 {
        self.version_class_flow.get() & Self::FLOW_LABEL
    }

    /// The route of a UDP datagram behind this header.
    pub(super) const fn route(&self, src_port: u16) -> Route {
        Route {
            src: Gid(self.src),
            dst: Gid(self.dst),
            src_port,
            traffic_class: self.traffic_class(),
            hop_limit: self.hop_limit,
            flow_label: self.flow_label(),
        }
    }

    /// With ones in the fields that the ICRC does not cover.
    // [icrc/ipv6-masked]
    pub(super) fn masked(self) -> Self {
        let word = self.version_class_flow.get() | Self::CLASS_AND_FLOW;
        Self { version_class_flow: word.into(), hop_limit: 0xff, ..self }
    }
}

impl fmt::Debug for Ipv6Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ipv6Header")
            .field("version", &self.version())
            .field("traffic_class", &format_args!("{:#04x}", self.traffic_class()))
            .field("flow_label", &format_args!("{:#07x}", self.flow_label()))
            .field("payload_len", &self.payload_len)
            .field("next_header", &self.next_header)
            .field("hop_limit", &self.hop_limit)
            .field("src", &core::net::Ipv6Addr::from(self.src))
            .field("dst", &core::net::Ipv6Addr::from(self.dst))
            .finish()
    }
}

/// UDP header (RFC 768).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct UdpHeader {
    /// Source port.
    pub src_port: U16,
    /// Destination port.
    pub dst_port: U16,
    /// Bytes of header and payload.
    pub len: U16,
    /// Checksum; 0 is none.
    pub checksum: U16,
}

const _: () = assert!(size_of::<UdpHeader>() == UdpHeader::LEN);

impl UdpHeader {
    /// Length in bytes.
    pub const LEN: usize = 8;

    /// The header of a RoCE datagram of `len` bytes, header included, without a checksum.
    #[must_use]
    // [packet-format/udp-length] [packet-format/udp-checksum]
    pub fn new(src_port: u16, len: u16) -> Self {
        Self {
            src_port: src_port.into(),
            dst_port: ROCE_PORT.into(),
            len: len.into(),
            checksum: U16::ZERO,
        }
    }

    /// With ones in the field that the ICRC does not cover.
    // [icrc/udp-checksum-masked]
    pub(super) fn masked(self) -> Self {
        Self { checksum: U16::new(0xffff), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1071: words are added in ones' complement, an odd byte has a zero behind it, and with the
    /// checksum in its place the sum is all ones.
    #[test]
    fn header_and_options_of_any_length_add_up_to_all_ones() {
        let route = Route { traffic_class: 0xfd, hop_limit: 255, ..Route::default() };
        let options: [u8; 40] = core::array::from_fn(|at| [0xff, 0xd7, 0x80, 0x01, 0x00][at % 5]);
        for len in 0..=options.len() {
            let header = Ipv4Header::unsummed(&route, 0xfedc, 4242);
            let checksum = header.checksum(&options[..len]);
            let mut bytes = header.as_bytes().to_vec();
            bytes.extend_from_slice(&options[..len]);
            bytes.resize(bytes.len().next_multiple_of(2), 0);
            let words =
                bytes.chunks_exact(2).map(|word| u64::from(word[0]) << 8 | u64::from(word[1]));
            let sum: u64 = words.sum::<u64>() + u64::from(checksum);
            assert_eq!(sum % 0xffff, 0, "{len} bytes of options");
            // Of the two that would do, all ones is never made of a header.
            assert_ne!(checksum, 0xffff);
        }
    }
}
