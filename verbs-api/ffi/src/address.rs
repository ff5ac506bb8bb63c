//! Socket addresses between C and Rust (`ip(7)`, `ipv6(7)`), with the numbers of Linux.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Room for an address of any family (`struct sockaddr_storage`).
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug)]
pub struct Storage(pub [u8; 128]);

/// `AF_INET`
pub const AF_INET: u16 = 2;
/// `AF_INET6`
pub const AF_INET6: u16 = 10;

/// `sizeof(struct sockaddr_in)`
pub const V4_LEN: usize = 16;
/// `sizeof(struct sockaddr_in6)`
pub const V6_LEN: usize = 28;

impl Storage {
    /// No address: of no family.
    pub const EMPTY: Self = Self([0; 128]);

    /// The address that it holds; `None`: none of IP.
    #[must_use]
    pub fn parse(&self) -> Option<SocketAddr> {
        parse(&self.0)
    }

    /// Bytes that its address has, by its family.
    #[must_use]
    pub fn address_len(&self) -> usize {
        match self.parse() {
            Some(SocketAddr::V4(_)) => V4_LEN,
            Some(SocketAddr::V6(_)) => V6_LEN,
            None => 0,
        }
    }

    /// The port, network byte order, 0 without an address.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.parse().map_or(0, |address| address.port().to_be())
    }
}

impl From<SocketAddr> for Storage {
    fn from(address: SocketAddr) -> Self {
        let mut bytes = [0; 128];
        let mut put = |at: usize, field: &[u8]| {
            for (place, byte) in bytes.iter_mut().skip(at).zip(field) {
                *place = *byte;
            }
        };
        put(2, &address.port().to_be_bytes());
        match address {
            SocketAddr::V4(v4) => {
                put(0, &AF_INET.to_ne_bytes());
                put(4, &v4.ip().octets());
            }
            SocketAddr::V6(v6) => {
                put(0, &AF_INET6.to_ne_bytes());
                put(4, &v6.flowinfo().to_be_bytes());
                put(8, &v6.ip().octets());
                put(24, &v6.scope_id().to_ne_bytes());
            }
        }
        Self(bytes)
    }
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// The IP address at the start of `bytes`.
#[must_use]
pub fn parse(bytes: &[u8]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(field(bytes, 2)?);
    match u16::from_ne_bytes(field(bytes, 0)?) {
        AF_INET => Some((Ipv4Addr::from(field::<4>(bytes, 4)?), port).into()),
        AF_INET6 => {
            let ip = Ipv6Addr::from(field::<16>(bytes, 8)?);
            let flow = u32::from_be_bytes(field(bytes, 4)?);
            let scope = u32::from_ne_bytes(field(bytes, 24)?);
            Some(SocketAddrV6::new(ip, port, flow, scope).into())
        }
        _ => None,
    }
}
