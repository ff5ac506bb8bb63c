//! The network interfaces of this host: their addresses as GIDs, MTU and link state.

use std::io;
use std::net::IpAddr;

use softrnic_model::verbs::Gid;

/// A network interface with all its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Name, as in `eth0`.
    pub name: String,
    /// Number by which the system knows it, the scope of link-local addresses; 0 if unknown.
    pub index: u32,
    /// Its addresses: link-local IPv6, other IPv6, IPv4, each in the order of the system.
    pub addresses: Vec<IpAddr>,
    /// Largest IP packet in bytes, if the system tells.
    pub mtu: Option<u32>,
    /// Whether it is up and has a carrier.
    pub up: bool,
}

impl Interface {
    /// The GIDs of its addresses, in the same order.
    #[must_use]
    pub fn gids(&self) -> Vec<Gid> {
        self.addresses.iter().copied().map(Gid::from).collect()
    }

    /// Whether it has this address.
    #[must_use]
    pub fn owns(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address) || self.routes_loopback(address)
    }

    /// Every address of 127.0.0.0/8 is one of the loopback interface on Linux, listed or not.
    fn routes_loopback(&self, address: IpAddr) -> bool {
        let v4_loopback = |ip: IpAddr| ip.is_ipv4() && ip.is_loopback();
        cfg!(target_os = "linux")
            && v4_loopback(address)
            && self.addresses.iter().any(|&own| v4_loopback(own))
    }
}

/// All interfaces that have an address, in the order of the system.
///
/// # Errors
/// The system does not tell.
pub fn all() -> io::Result<Vec<Interface>> {
    let mut found: Vec<Interface> = Vec::new();
    for entry in if_addrs::get_if_addrs()? {
        let address = entry.ip();
        if let Some(known) = found.iter_mut().find(|known| known.name == entry.name) {
            known.addresses.push(address);
            continue;
        }
        let up = entry.is_oper_up();
        let (mtu, up) = mtu_and_state(&entry.name).map_or((None, up), |(m, up)| (Some(m), up));
        found.push(Interface {
            index: entry.index.unwrap_or(0),
            addresses: vec![address],
            name: entry.name,
            mtu,
            up,
        });
    }
    for interface in &mut found {
        interface.addresses.sort_by_key(rank);
        interface.addresses.dedup();
    }
    Ok(found)
}

const fn rank(address: &IpAddr) -> u8 {
    match address {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => 0,
        IpAddr::V6(_) => 1,
        IpAddr::V4(_) => 2,
    }
}

/// The interface called `name`, if there is one with an address.
///
/// # Errors
/// As [`all`].
pub fn by_name(name: &str) -> io::Result<Option<Interface>> {
    Ok(all()?.into_iter().find(|interface| interface.name == name))
}

/// The interface that owns `address`, if any.
///
/// # Errors
/// As [`all`].
pub fn by_address(address: IpAddr) -> io::Result<Option<Interface>> {
    Ok(all()?.into_iter().find(|interface| interface.owns(address)))
}

#[cfg(target_os = "linux")]
fn mtu_and_state(name: &str) -> Option<(u32, bool)> {
    crate::udp::interface_facts(name).ok()
}

#[cfg(not(target_os = "linux"))]
const fn mtu_and_state(_name: &str) -> Option<(u32, bool)> {
    None
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    #[test]
    fn loopback_is_found_by_address_and_by_name() {
        let lo = by_address(Ipv4Addr::LOCALHOST.into()).unwrap().expect("every host has one");
        assert!(lo.up);
        assert!(lo.gids().contains(&Gid::from_v4([127, 0, 0, 1])));
        assert_eq!(by_name(&lo.name).unwrap(), Some(lo.clone()));
        #[cfg(target_os = "linux")]
        {
            assert!(lo.mtu.unwrap() >= 1280);
            assert!(lo.owns(Ipv4Addr::new(127, 9, 8, 7).into()));
        }
        assert!(!lo.owns(Ipv4Addr::new(198, 51, 100, 1).into()));
        assert_eq!(by_address(Ipv4Addr::new(198, 51, 100, 1).into()).unwrap(), None);
        assert_eq!(by_name("no such interface").unwrap(), None);
    }

    #[test]
    fn link_local_comes_first_and_v4_last() {
        let mut addresses: [IpAddr; 3] = [
            Ipv4Addr::new(10, 0, 0, 1).into(),
            Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).into(),
            Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1).into(),
        ];
        addresses.sort_by_key(rank);
        assert!(matches!(addresses[0], IpAddr::V6(a) if a.is_unicast_link_local()));
        assert!(addresses[2].is_ipv4());
    }
}
