//! The 40 bytes in front of the data of a received datagram.

use zerocopy::{FromBytes, IntoBytes};

use super::Route;
use super::icrc::low_16;
use super::ip::{Ipv4Header, Ipv6Header, UdpHeader};
use crate::verbs::Gid;

/// Global routing header as a UD receive delivers it (annex A17; `ibv_create_ah_from_wc(3)`): the
/// IPv6 header as on the wire, or 20 bytes without meaning and then the IPv4 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grh(pub [u8; Grh::LEN]);

impl Grh {
    /// Length in bytes.
    pub const LEN: usize = 40;

    /// Where the IPv4 header starts; what is in front of it is undefined (zero as made here).
    pub const IPV4_OFFSET: usize = Self::LEN - size_of::<Ipv4Header>();

    /// The header of a datagram that came along `route` with `udp_payload_len` bytes of packet and
    /// ICRC. The IPv4 identification is unknown to a receiver and shown as 0.
    #[must_use]
    // [ud/grh-40-bytes] [ud/grh-ipv4] [ud/grh-ipv6]
    pub fn new(route: &Route, udp_payload_len: usize) -> Self {
        let udp_len = low_16(udp_payload_len.wrapping_add(UdpHeader::LEN));
        let mut bytes = [0; Self::LEN];
        if route.is_v4() {
            let header = Ipv4Header::new(route, 0, udp_len.wrapping_add(Ipv4Header::LEN));
            bytes[Self::IPV4_OFFSET..].copy_from_slice(header.as_bytes());
        } else {
            bytes.copy_from_slice(Ipv6Header::new(route, udp_len).as_bytes());
        }
        Self(bytes)
    }

    /// The route that a received header tells of, without the source port, which it does not show
    /// (0). `None` if it holds neither an IPv6 nor an IPv4 header.
    ///
    /// The bytes in front of an IPv4 header may look like anything, so that one is tried first, and
    /// its checksum decides.
    #[must_use]
    pub fn parse(bytes: &[u8; Self::LEN]) -> Option<Route> {
        let v4 = Ipv4Header::read_from_bytes(&bytes[Self::IPV4_OFFSET..]).ok()?;
        if v4.version_ihl == Ipv4Header::VERSION_4_WITHOUT_OPTIONS
            && v4.checksum.get() == v4.checksum(&[])
        {
            return Some(v4.route(0));
        }
        let v6 = Ipv6Header::read_from_bytes(bytes).ok()?;
        let mapped = Gid(v6.src).as_v4().is_some() || Gid(v6.dst).as_v4().is_some();
        (v6.version() == 6 && !mapped).then(|| v6.route(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4() -> Route {
        Route {
            src: Gid::from_v4([10, 77, 0, 1]),
            dst: Gid::from_v4([10, 77, 0, 2]),
            src_port: 0,
            traffic_class: 0x1a,
            hop_limit: 63,
            flow_label: 0,
        }
    }

    fn v6() -> Route {
        let mut dst = [0xfe; 16];
        dst[15] = 9;
        let (src, dst) = (Gid([0xfd; 16]), Gid(dst));
        Route { src, dst, src_port: 0, traffic_class: 0xa5, hop_limit: 1, flow_label: 0xa_bcde }
    }

    #[test]
    fn ipv4_lies_in_the_second_half_whatever_is_in_front() {
        let Grh(mut bytes) = Grh::new(&v4(), 68);
        assert_eq!(bytes[..20], [0; 20]);
        assert_eq!(bytes[20..30], [0x45, 0x1a, 0, 20 + 8 + 68, 0, 0, 0x40, 0, 63, 17]);
        assert_eq!(bytes[32..], [10, 77, 0, 1, 10, 77, 0, 2]);
        for poison in [0x00, 0x45, 0x60, 0x6b, 0xff] {
            bytes[..20].fill(poison);
            assert_eq!(Grh::parse(&bytes), Some(v4()), "{poison:#x}");
        }
    }

    #[test]
    fn ipv6_is_as_on_the_wire() {
        let Grh(bytes) = Grh::new(&v6(), 68);
        assert_eq!(bytes[..8], [0x6a, 0x5a, 0xbc, 0xde, 0, 8 + 68, 17, 1]);
        assert_eq!(Grh::parse(&bytes), Some(v6()));
    }

    #[test]
    fn an_ipv4_header_with_a_wrong_checksum_is_not_believed() {
        let Grh(mut bytes) = Grh::new(&v4(), 68);
        bytes[39] ^= 1;
        assert_eq!(Grh::parse(&bytes), None);
        bytes[0] = 0x60;
        assert_eq!(Grh::parse(&bytes).map(|route| route.is_v4()), Some(false));
    }

    #[test]
    fn nothing_and_mapped_addresses_are_no_header() {
        assert_eq!(Grh::parse(&[0; 40]), None);
        let mut mapped = v6();
        mapped.src = Gid::from_v4([1, 2, 3, 4]);
        assert_eq!(Grh::parse(&Grh::new(&mapped, 0).0), None);
    }

    #[test]
    fn lengths_that_cannot_be_do_no_harm() {
        for route in [v4(), v6()] {
            assert_eq!(Grh::parse(&Grh::new(&route, usize::MAX).0), Some(route));
        }
    }
}
