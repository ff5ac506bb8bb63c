//! What a request is for: service IDs, and the port spaces behind them.

use core::fmt;
use core::net::IpAddr;

/// A space of port numbers (`rdma_create_id(3)`), with the numbers of `enum rdma_port_space`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum PortSpace {
    /// Datagrams with the addressing of IP over InfiniBand.
    Ipoib = 0x0002,
    /// Connections like those of TCP.
    Tcp = 0x0106,
    /// Datagrams like those of UDP.
    Udp = 0x0111,
    /// Any service of InfiniBand.
    Ib = 0x013f,
}

impl PortSpace {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Ipoib, Self::Tcp, Self::Udp, Self::Ib];

    /// The space with this number.
    #[must_use]
    pub fn from_raw(raw: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|space| *space as u16 == raw)
    }

    /// Whether its requests resolve a service (SIDR) and make no connection.
    #[must_use]
    pub const fn is_datagram(self) -> bool {
        matches!(self, Self::Udp | Self::Ipoib)
    }
}

/// What a request asks for: 64 bits. Those of a port space (annex A11.2) hold its number and a
/// port.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceId(pub u64);

impl ServiceId {
    /// That of a port.
    #[must_use]
    pub const fn of_port(space: PortSpace, port: u16) -> Self {
        Self((space as u64) << 16 | port as u64)
    }

    /// Port space and port, if it is one of a port.
    #[must_use]
    pub fn port(self) -> Option<(PortSpace, u16)> {
        let space = u16::try_from(self.0 >> 16).ok()?;
        Some((PortSpace::from_raw(space)?, (self.0 & 0xffff) as u16))
    }
}

impl fmt::Debug for ServiceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port() {
            Some((space, port)) => write!(f, "{space:?}:{port}"),
            None => write!(f, "{:#018x}", self.0),
        }
    }
}

/// Requests to which destinations somebody takes, as their IP addressing headers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListenAt {
    /// To all, and those without a header.
    All,
    /// To all of IPv4.
    V4,
    /// To all of IPv6.
    V6,
    /// To one.
    One(IpAddr),
}

impl ListenAt {
    /// How well it fits a destination, the more exact the more; 0 is not at all.
    #[must_use]
    pub fn fit(self, destination: Option<IpAddr>) -> u8 {
        match (self, destination) {
            (Self::One(own), Some(asked)) if own == asked => 3,
            (Self::V4, Some(IpAddr::V4(_))) | (Self::V6, Some(IpAddr::V6(_))) => 2,
            (Self::All, _) => 1,
            (Self::One(_) | Self::V4 | Self::V6, _) => 0,
        }
    }

    /// Whether there are destinations that both take.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        let family = |at| match at {
            Self::All => None,
            Self::V4 | Self::One(IpAddr::V4(_)) => Some(4),
            Self::V6 | Self::One(IpAddr::V6(_)) => Some(6),
        };
        match (self, other) {
            (Self::One(a), Self::One(b)) => a == b,
            (a, b) => family(a).zip(family(b)).is_none_or(|(a, b)| a == b),
        }
    }
}
