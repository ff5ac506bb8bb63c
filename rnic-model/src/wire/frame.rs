//! Whole Ethernet frames, as captures show them.

use alloc::vec::Vec;
use core::fmt;

use zerocopy::{FromBytes, IntoBytes};

use super::icrc::{ICRC_LEN, IcrcSeed, split_icrc};
use super::ip::{EthernetHeader, Ipv4Header, Ipv6Header, PROTOCOL_UDP, UdpHeader, VlanTag};
use super::{ROCE_PORT, Route};
use crate::planted;
use crate::verbs::Gid;

/// A RoCEv2 frame taken apart. Nothing is lost: [`RoceFrame::emit`] gives the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoceFrame<'a> {
    /// Ethernet header.
    pub ethernet: EthernetHeader,
    /// VLAN tag, if there is one.
    pub vlan: Option<VlanTag>,
    /// IP header.
    pub ip: IpHeader<'a>,
    /// UDP header.
    pub udp: UdpHeader,
    /// What the headers say about addressing.
    pub route: Route,
    /// Base transport header to the end of the pad; not looked at yet.
    pub packet: &'a [u8],
    /// Invariant CRC; not checked yet.
    pub icrc: [u8; ICRC_LEN],
    /// What Ethernet appended to reach its least length.
    pub trailer: &'a [u8],
}

/// The IP header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpHeader<'a> {
    /// IPv4.
    V4 {
        /// The fixed part.
        header: Ipv4Header,
        /// Options, mostly none.
        options: &'a [u8],
    },
    /// IPv6, without extension headers.
    V6(Ipv6Header),
}

/// Why a frame is not a RoCEv2 frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotRoce {
    /// The frame ends within its Ethernet header or VLAN tag.
    EthernetTooShort,
    /// Neither IPv4 nor IPv6, but this.
    EtherType(u16),
    /// The frame ends within its IP header.
    IpTooShort,
    /// Version or header length of the IP header is wrong.
    IpHeader,
    /// The IP length exceeds the frame, or is too small for the headers.
    IpLength,
    /// A fragment of an IPv4 datagram.
    Fragment,
    /// Not UDP, but this protocol (or IPv6 extension header).
    Protocol(u8),
    /// An IPv6 header with an IPv4-mapped address, which must not occur on a wire (RFC 4291,
    /// section 2.5.5.2) and would look like an IPv4 route.
    MappedAddress,
    /// The UDP length is not what the IP length leaves.
    UdpLength,
    /// Another UDP destination port.
    Port(u16),
    /// Too short for an ICRC.
    TooShortForIcrc,
}

impl fmt::Display for NotRoce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EthernetTooShort => f.write_str("shorter than an Ethernet header"),
            Self::EtherType(EthernetHeader::ROCE_V1) => f.write_str("RoCE version 1"),
            Self::EtherType(value) => write!(f, "EtherType {value:#06x}"),
            Self::IpTooShort => f.write_str("shorter than an IP header"),
            Self::IpHeader => f.write_str("bad IP version or header length"),
            Self::IpLength => f.write_str("IP length does not fit the frame"),
            Self::Fragment => f.write_str("IPv4 fragment"),
            Self::Protocol(value) => write!(f, "IP protocol {value}"),
            Self::MappedAddress => f.write_str("IPv4-mapped address in an IPv6 header"),
            Self::UdpLength => f.write_str("UDP length does not fit the IP length"),
            Self::Port(value) => write!(f, "UDP port {value}"),
            Self::TooShortForIcrc => f.write_str("shorter than an ICRC"),
        }
    }
}

impl core::error::Error for NotRoce {}

impl<'a> RoceFrame<'a> {
    /// Takes apart a frame, from the Ethernet header on, without frame check sequence.
    ///
    /// # Errors
    /// The first layer that is not as it must be. Checksums and ICRC are not checked.
    pub fn parse(frame: &'a [u8]) -> Result<Self, NotRoce> {
        let (ethernet, rest) =
            EthernetHeader::read_from_prefix(frame).map_err(|_| NotRoce::EthernetTooShort)?;
        let (vlan, ethertype, rest) = match ethernet.ethertype.get() {
            EthernetHeader::VLAN => {
                let (tag, rest) =
                    VlanTag::read_from_prefix(rest).map_err(|_| NotRoce::EthernetTooShort)?;
                (Some(tag), tag.ethertype.get(), rest)
            }
            ethertype => (None, ethertype, rest),
        };
        // [packet-format/ip-versions] [packet-format/bad-ip-version]
        let (ip, datagram, trailer) = match ethertype {
            EthernetHeader::IPV4 => parse_ipv4(rest)?,
            EthernetHeader::IPV6 => parse_ipv6(rest)?,
            other => return Err(NotRoce::EtherType(other)),
        };
        let (udp, payload) =
            UdpHeader::read_from_prefix(datagram).map_err(|_| NotRoce::IpLength)?;
        if udp.dst_port.get() != ROCE_PORT {
            return Err(NotRoce::Port(udp.dst_port.get()));
        }
        // [packet-format/udp-length]
        if usize::from(udp.len.get()) != datagram.len() {
            return Err(NotRoce::UdpLength);
        }
        let (packet, icrc) = split_icrc(payload).ok_or(NotRoce::TooShortForIcrc)?;
        let route = ip.route(udp.src_port.get());
        Ok(Self { ethernet, vlan, ip, udp, route, packet, icrc, trailer })
    }

    /// The ICRC that the frame should have.
    #[must_use]
    pub fn expected_icrc(&self) -> [u8; ICRC_LEN] {
        let seed = match self.ip {
            IpHeader::V4 { header, options } => IcrcSeed::of_ipv4(&header, options, &self.udp),
            IpHeader::V6(header) => IcrcSeed::of_ipv6(&header, Some(&self.udp)),
        };
        seed.finish(self.packet)
    }

    /// Appends the bytes of the frame to `out`.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.ethernet.as_bytes());
        if let Some(tag) = &self.vlan {
            out.extend_from_slice(tag.as_bytes());
        }
        match &self.ip {
            IpHeader::V4 { header, options } => {
                out.extend_from_slice(header.as_bytes());
                out.extend_from_slice(options);
            }
            IpHeader::V6(header) => out.extend_from_slice(header.as_bytes()),
        }
        out.extend_from_slice(self.udp.as_bytes());
        out.extend_from_slice(self.packet);
        out.extend_from_slice(&self.icrc);
        out.extend_from_slice(self.trailer);
    }
}

impl IpHeader<'_> {
    /// The IPv4 identification, if this is IPv4.
    #[must_use]
    pub const fn identification(&self) -> Option<u16> {
        match self {
            Self::V4 { header, .. } => Some(header.identification.get()),
            Self::V6(_) => None,
        }
    }

    /// The route of a datagram behind this header.
    const fn route(&self, src_port: u16) -> Route {
        match self {
            Self::V4 { header, .. } => header.route(src_port),
            Self::V6(header) => header.route(src_port),
        }
    }
}

/// Header, what IP carries, and what Ethernet carries behind it.
type IpParts<'a> = (IpHeader<'a>, &'a [u8], &'a [u8]);

fn parse_ipv4(bytes: &[u8]) -> Result<IpParts<'_>, NotRoce> {
    let (header, rest) = Ipv4Header::read_from_prefix(bytes).map_err(|_| NotRoce::IpTooShort)?;
    let options_len = header.header_len().checked_sub(size_of::<Ipv4Header>());
    let (4, Some(options_len)) = (header.version(), options_len) else {
        return Err(NotRoce::IpHeader);
    };
    let (options, rest) = rest.split_at_checked(options_len).ok_or(NotRoce::IpTooShort)?;
    let carried_len = usize::from(header.total_len.get()).checked_sub(header.header_len());
    let (carried, trailer) =
        carried_len.and_then(|len| rest.split_at_checked(len)).ok_or(NotRoce::IpLength)?;
    // [packet-format/fragments]
    if header.is_fragment() && !planted::has(planted::Fault::Fragment) {
        return Err(NotRoce::Fragment);
    }
    if header.protocol != PROTOCOL_UDP {
        return Err(NotRoce::Protocol(header.protocol));
    }
    Ok((IpHeader::V4 { header, options }, carried, trailer))
}

fn parse_ipv6(bytes: &[u8]) -> Result<IpParts<'_>, NotRoce> {
    let (header, rest) = Ipv6Header::read_from_prefix(bytes).map_err(|_| NotRoce::IpTooShort)?;
    if header.version() != 6 {
        return Err(NotRoce::IpHeader);
    }
    let (carried, trailer) =
        rest.split_at_checked(usize::from(header.payload_len.get())).ok_or(NotRoce::IpLength)?;
    if header.next_header != PROTOCOL_UDP {
        return Err(NotRoce::Protocol(header.next_header));
    }
    if Gid(header.src).as_v4().is_some() || Gid(header.dst).as_v4().is_some() {
        return Err(NotRoce::MappedAddress);
    }
    Ok((IpHeader::V6(header), carried, trailer))
}

/// A packet that no UDP datagram can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PacketTooLong {
    /// Bytes of the packet.
    pub len: usize,
}

impl fmt::Display for PacketTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a packet of {} bytes does not fit a UDP datagram", self.len)
    }
}

impl core::error::Error for PacketTooLong {}

/// Appends to `out` the frame that carries `packet` along `route`: Ethernet addresses made from the
/// IP addresses, real IP and UDP headers (IPv4: don't-fragment, `identification`, right checksum;
/// UDP checksum 0), and the right ICRC.
///
/// # Errors
/// The packet is too long for a datagram; `out` is then as it was.
pub fn emit_frame(
    route: &Route,
    identification: u16,
    packet: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), PacketTooLong> {
    let too_long = PacketTooLong { len: packet.len() };
    let datagram_len = packet.len().saturating_add(ICRC_LEN + UdpHeader::LEN);
    let udp_len = u16::try_from(datagram_len).map_err(|_| too_long)?;
    let seed = IcrcSeed::new(route, packet.len() + ICRC_LEN).with_identification(identification);
    if route.is_v4() {
        let total_len = udp_len.checked_add(Ipv4Header::LEN).ok_or(too_long)?;
        let header = Ipv4Header::new(route, identification, total_len);
        out.extend_from_slice(EthernetHeader::for_route(route).as_bytes());
        out.extend_from_slice(header.as_bytes());
    } else {
        out.extend_from_slice(EthernetHeader::for_route(route).as_bytes());
        out.extend_from_slice(Ipv6Header::new(route, udp_len).as_bytes());
    }
    out.extend_from_slice(UdpHeader::new(route.src_port, udp_len).as_bytes());
    out.extend_from_slice(packet);
    out.extend_from_slice(&seed.finish(packet));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{IcrcVerdict, Packet};

    fn v4() -> Route {
        Route {
            src: Gid::from_v4([10, 77, 0, 1]),
            dst: Gid::from_v4([10, 77, 0, 2]),
            src_port: 50_000,
            traffic_class: 2,
            hop_limit: 64,
            flow_label: 0,
        }
    }

    fn v6() -> Route {
        let (src, dst) = (Gid([0xfd; 16]), Gid([0xfe; 16]));
        Route { src, dst, flow_label: 0x12345, ..v4() }
    }

    const PACKET: [u8; 16] = [4, 0, 0xff, 0xff, 0, 0, 0, 17, 0x80, 0, 0, 1, 0xaa, 0xbb, 0xcc, 0xdd];

    fn emitted(route: &Route) -> Vec<u8> {
        let mut out = Vec::new();
        emit_frame(route, 0x1234, &PACKET, &mut out).unwrap();
        out
    }

    /// Where the IP header starts.
    const IP: usize = 14;

    #[test]
    // [packet-format/ip-versions] [packet-format/ipv4-header] [packet-format/ipv6-header]
    // [packet-format/udp-checksum]
    fn what_is_emitted_is_read_back() {
        for route in [v4(), v6()] {
            let bytes = emitted(&route);
            let frame = RoceFrame::parse(&bytes).unwrap();
            assert_eq!(frame.route, route);
            assert_eq!(frame.packet, PACKET);
            assert_eq!(frame.icrc, frame.expected_icrc());
            assert_eq!(frame.ip.identification(), route.is_v4().then_some(0x1234));
            assert_eq!(frame.vlan, None);
            assert!(frame.trailer.is_empty());
            if let IpHeader::V4 { header, options } = frame.ip {
                assert_eq!(header.checksum.get(), header.checksum(options));
                assert_eq!(header.flags_fragment.get(), Ipv4Header::DONT_FRAGMENT);
            }
            assert!(Packet::parse(frame.packet).is_ok());
        }
    }

    #[test]
    fn headers_and_what_is_none_are_told_in_words() {
        let told =
            |route: &Route| alloc::format!("{:?}", RoceFrame::parse(&emitted(route)).unwrap());
        for words in ["src: 10.77.0.1", "dst: 10.77.0.2", "identification: 0x1234", "ttl: 64"] {
            assert!(told(&v4()).contains(words), "{words}: {}", told(&v4()));
        }
        for words in ["flow_label: 0x12345", "traffic_class: 0x02", "hop_limit: 64", "src: fdfd:"] {
            assert!(told(&v6()).contains(words), "{words}: {}", told(&v6()));
        }
        let reasons = [
            (NotRoce::EthernetTooShort, "Ethernet header"),
            (NotRoce::EtherType(0x8915), "RoCE version 1"),
            (NotRoce::EtherType(0x0806), "EtherType 0x0806"),
            (NotRoce::IpTooShort, "shorter than an IP header"),
            (NotRoce::IpHeader, "bad IP version"),
            (NotRoce::IpLength, "IP length"),
            (NotRoce::Fragment, "fragment"),
            (NotRoce::Protocol(6), "protocol 6"),
            (NotRoce::MappedAddress, "IPv4-mapped"),
            (NotRoce::UdpLength, "UDP length"),
            (NotRoce::Port(53), "port 53"),
            (NotRoce::TooShortForIcrc, "ICRC"),
        ];
        for (reason, words) in reasons {
            assert!(alloc::format!("{reason}").contains(words), "{reason}");
        }
        assert!(alloc::format!("{}", PacketTooLong { len: 70_000 }).contains("70000 bytes"));
    }

    #[test]
    fn mac_addresses_tell_the_ip_addresses() {
        let of = |dst: Gid| EthernetHeader::for_route(&Route { dst, ..v4() }).dst;
        assert_eq!(of(Gid::from_v4([10, 77, 0, 2])), [2, 0, 10, 77, 0, 2]);
        assert_eq!(of(Gid::from_v4([239, 200, 1, 2])), [1, 0, 0x5e, 72, 1, 2]);
        assert_eq!(of(Gid([0xfe; 16])), [2, 0, 0xfe, 0xfe, 0xfe, 0xfe]);
        assert_eq!(of(Gid([0xff; 16])), [0x33, 0x33, 0xff, 0xff, 0xff, 0xff]);
    }

    #[test]
    fn vlan_tag_options_and_trailer_are_kept() {
        let mut bytes = emitted(&v4());
        // Four bytes of IPv4 options (no operation), counted in both lengths.
        bytes[IP] = 0x46;
        bytes[IP + 3] += 4;
        bytes.splice(IP + 20..IP + 20, [1, 1, 1, 0]);
        bytes.splice(12..12, [0x81, 0x00, 0x60, 0x05]);
        bytes.extend([0; 7]);
        let frame = RoceFrame::parse(&bytes).unwrap();
        assert_eq!(frame.vlan.map(|tag| tag.control.get()), Some(0x6005));
        let IpHeader::V4 { header, options } = frame.ip else { panic!("IPv4") };
        assert_eq!(options, [1, 1, 1, 0]);
        assert_eq!(frame.trailer, [0; 7]);
        assert_eq!(frame.packet, PACKET);
        let mut again = Vec::new();
        frame.emit(&mut again);
        assert_eq!(again, bytes);
        // The ICRC covers the options, and the checksum does too.
        assert_ne!(frame.icrc, frame.expected_icrc());
        assert_ne!(header.checksum(options), header.checksum(&[1, 1, 1, 1]));
        let seed = IcrcSeed::from_headers(&bytes[18..42], Some(&frame.udp)).unwrap();
        assert_eq!(seed.verify(&PACKET, frame.expected_icrc()), IcrcVerdict::Full);
    }

    /// The reason that remains after some bytes of a good frame were replaced.
    fn reason(route: &Route, changes: &[(usize, u8)]) -> Option<NotRoce> {
        let mut bytes = emitted(route);
        changes.iter().for_each(|&(at, value)| bytes[at] = value);
        RoceFrame::parse(&bytes).err()
    }

    #[test]
    // [packet-format/bad-ip-version] [packet-format/fragments] [packet-format/udp-length]
    fn each_reason() {
        let (v4, v6) = (v4(), v6());
        assert_eq!(RoceFrame::parse(&[0; 13]), Err(NotRoce::EthernetTooShort));
        assert_eq!(reason(&v4, &[(12, 0x89), (13, 0x15)]), Some(NotRoce::EtherType(0x8915)));
        assert_eq!(RoceFrame::parse(&emitted(&v4)[..IP + 19]), Err(NotRoce::IpTooShort));
        assert_eq!(RoceFrame::parse(&emitted(&v6)[..IP + 39]), Err(NotRoce::IpTooShort));
        for first in [0x65, 0x44, 0x05] {
            assert_eq!(reason(&v4, &[(IP, first)]), Some(NotRoce::IpHeader));
        }
        assert_eq!(reason(&v6, &[(IP, 0x45)]), Some(NotRoce::IpHeader));
        assert_eq!(reason(&v4, &[(IP, 0x4f)]), Some(NotRoce::IpTooShort));
        for len in [0, 19, 49] {
            assert_eq!(reason(&v4, &[(IP + 3, len)]), Some(NotRoce::IpLength));
        }
        assert_eq!(reason(&v4, &[(IP + 3, 27)]), Some(NotRoce::IpLength));
        assert_eq!(reason(&v6, &[(IP + 5, 29)]), Some(NotRoce::IpLength));
        assert_eq!(reason(&v4, &[(IP + 6, 0x60)]), Some(NotRoce::Fragment));
        assert_eq!(reason(&v4, &[(IP + 7, 1)]), Some(NotRoce::Fragment));
        assert_eq!(reason(&v4, &[(IP + 9, 6)]), Some(NotRoce::Protocol(6)));
        assert_eq!(reason(&v6, &[(IP + 6, 0)]), Some(NotRoce::Protocol(0)));
        assert_eq!(reason(&v4, &[(IP + 20 + 3, 0xb8)]), Some(NotRoce::Port(4792)));
        assert_eq!(reason(&v4, &[(IP + 20 + 5, 27)]), Some(NotRoce::UdpLength));
        assert_eq!(reason(&v6, &[(IP + 40 + 5, 29)]), Some(NotRoce::UdpLength));
        let short = [(IP + 3, 31), (IP + 20 + 5, 11)];
        assert_eq!(reason(&v4, &short), Some(NotRoce::TooShortForIcrc));
        let mut mapped = emitted(&v6);
        mapped[IP + 8..IP + 24].copy_from_slice(&v4.src.0);
        assert_eq!(RoceFrame::parse(&mapped), Err(NotRoce::MappedAddress));
    }

    #[test]
    fn a_packet_that_fits_no_datagram_is_refused() {
        let longest = [(v4(), 65_535 - 20 - 8 - 4), (v6(), 65_535 - 8 - 4)];
        for (route, longest) in longest {
            let mut out = Vec::from([7]);
            let packet = alloc::vec![0; longest + 1];
            let refused = emit_frame(&route, 0, &packet, &mut out);
            assert_eq!(refused, Err(PacketTooLong { len: longest + 1 }));
            assert_eq!(out, [7]);
            out.clear();
            emit_frame(&route, 0, &packet[1..], &mut out).unwrap();
            let frame = RoceFrame::parse(&out).unwrap();
            assert_eq!(frame.icrc, frame.expected_icrc());
        }
    }
}
