//! Versions of IP, and the addresses that labs have of each.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use softrnic_model::verbs::Gid;

/// Which version of IP carries the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// That of an address.
    #[must_use]
    pub fn of(gid: Gid) -> Self {
        if gid.as_v4().is_some() { Self::V4 } else { Self::V6 }
    }

    /// The address of the simulated device with this number.
    #[must_use]
    pub const fn gid(self, device: u8) -> Gid {
        match self {
            Self::V4 => Gid::from_v4([10, 77, 0, 1 + device]),
            Self::V6 => Gid([0xfd, 0, 0, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 + device]),
        }
    }

    /// Two addresses of the loopback interface. Those of IPv4 are there on Linux; those of IPv6
    /// somebody has to add.
    #[must_use]
    pub const fn loopback(self) -> [IpAddr; 2] {
        match self {
            Self::V4 => [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2))],
            Self::V6 => [
                IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1)),
                IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2)),
            ],
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}
