//! Which device has an address, or is where the address is.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use softrnic_model::verbs::Gid;
use softrnic_transport::interfaces;

use super::Holder;
use crate::provider::GidEntry;

/// All entries of all devices that lead anywhere.
fn entries<T: AsRef<[GidEntry]>>(devices: &[T]) -> impl Iterator<Item = (Holder, GidEntry)> {
    devices.iter().enumerate().flat_map(|(device, gids)| {
        let gids = (0..=u8::MAX).zip(gids.as_ref());
        let live = gids.filter(|(_, entry)| entry.gid != Gid::default());
        live.map(move |(gid_index, entry)| (Holder { device, gid_index }, *entry))
    })
}

/// The device that has `address`; a scope says on which interface.
pub(super) fn holder<T: AsRef<[GidEntry]>>(address: SocketAddr, devices: &[T]) -> Option<Holder> {
    let (wanted, scope) = (Gid::from(address.ip()), scope(address));
    let has = |entry: &GidEntry| {
        entry.gid == wanted && (scope == 0 || [0, scope].contains(&entry.interface_index))
    };
    entries(devices).find(|(_, entry)| has(entry)).map(|(holder, _)| holder)
}

/// The device that has another address of the interface that `source` is of: a device may be given only
/// some of them. The address is of the same kind: of a link, or of more than that.
pub(super) fn beside<T: AsRef<[GidEntry]>>(
    source: SocketAddr,
    devices: &[T],
    interface_of: &dyn Fn(IpAddr) -> Option<u32>,
) -> Option<(Holder, IpAddr)> {
    let ip = source.ip();
    let same_kind =
        |other: &IpAddr| other.is_ipv4() == ip.is_ipv4() && is_of_link(*other) == is_of_link(ip);
    let mut others = entries(devices)
        .map(|(holder, entry)| (holder, entry, address_of(entry.gid)))
        .filter(|(_, _, other)| same_kind(other));
    if ip.is_loopback() {
        let found = others.find(|(_, _, other)| other.is_loopback());
        return found.map(|(holder, _, other)| (holder, other));
    }
    let mut others = others.peekable();
    others.peek()?;
    let interface = match scope(source) {
        0 => interface_of(ip)?,
        scope => scope,
    };
    let found = others.find(|(_, entry, _)| entry.interface_index == interface);
    found.map(|(holder, _, other)| (holder, other))
}

/// The first device address from which an address of this host can be reached, whatever interface that
/// is of: another process' device has it, and the system delivers what is for itself.
pub(super) fn on_this_host<T: AsRef<[GidEntry]>>(
    destination: SocketAddr,
    devices: &[T],
) -> Option<(Holder, IpAddr)> {
    let ip = destination.ip();
    if ip.is_loopback() || is_of_link(ip) {
        return None;
    }
    let all = entries(devices).map(|(holder, entry)| (holder, address_of(entry.gid)));
    let mut usable = all.filter(|(_, other)| !other.is_loopback() && !is_of_link(*other));
    usable.find(|(_, other)| other.is_ipv4() == ip.is_ipv4())
}

/// Whether any device has a loopback address.
pub(super) fn has_loopback<T: AsRef<[GidEntry]>>(devices: &[T]) -> bool {
    entries(devices).any(|(_, entry)| address_of(entry.gid).is_loopback())
}

/// The first address of a family that any device has.
pub(super) fn first<T: AsRef<[GidEntry]>>(v4: bool, devices: &[T]) -> Option<(Holder, SocketAddr)> {
    let of_family = |entry: &GidEntry| entry.gid.as_v4().is_some() == v4;
    let (holder, entry) = entries(devices).find(|(_, entry)| of_family(entry))?;
    let address = match address_of(entry.gid) {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => {
            SocketAddrV6::new(v6, 0, 0, entry.interface_index).into()
        }
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => SocketAddr::new(ip, 0),
    };
    Some((holder, address))
}

/// The interface that has an address.
pub(super) fn interface_of(address: IpAddr) -> Option<u32> {
    interfaces::by_address(address).ok().flatten().map(|interface| interface.index)
}

fn address_of(gid: Gid) -> IpAddr {
    match gid.as_v4() {
        Some(v4) => Ipv4Addr::from(v4).into(),
        None => Ipv6Addr::from(gid.0).into(),
    }
}

fn scope(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(v6) => v6.scope_id(),
    }
}

fn is_of_link(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::GidType;

    fn table(addresses: &[(&str, u32)]) -> Vec<GidEntry> {
        let entry = |(address, interface_index): &(&str, u32)| GidEntry {
            gid: address.parse::<IpAddr>().unwrap().into(),
            gid_type: GidType::RoceV2,
            interface_index: *interface_index,
        };
        addresses.iter().map(entry).collect()
    }

    fn address(text: &str, scope: u32) -> SocketAddr {
        match text.parse().unwrap() {
            IpAddr::V6(v6) => SocketAddrV6::new(v6, 0, 0, scope).into(),
            v4 @ IpAddr::V4(_) => SocketAddr::new(v4, 0),
        }
    }

    /// Two interfaces, 2 and 3, with a device each.
    fn devices() -> [Vec<GidEntry>; 2] {
        [
            table(&[("fe80::1", 2), ("10.0.0.1", 2), ("10.0.0.2", 2)]),
            table(&[("fe80::1", 3), ("fd00::1", 3), ("192.0.2.1", 3)]),
        ]
    }

    #[test]
    fn the_device_that_has_the_address_is_found() {
        let devices = devices();
        let found = |text, scope| holder(address(text, scope), &devices);
        let at = |device, gid_index| Some(Holder { device, gid_index });
        assert_eq!(found("10.0.0.2", 0), at(0, 2));
        assert_eq!(found("192.0.2.1", 0), at(1, 2));
        assert_eq!(found("fd00::1", 0), at(1, 1));
        assert_eq!(found("10.0.0.3", 0), None);
        // A link-local address is on each of them.
        assert_eq!((found("fe80::1", 2), found("fe80::1", 3)), (at(0, 0), at(1, 0)));
        assert_eq!(found("fe80::1", 4), None);
    }

    #[test]
    fn a_device_with_some_addresses_of_an_interface_speaks_for_the_others() {
        let devices = devices();
        let interface = |ip: IpAddr| match ip.to_string().as_str() {
            "10.0.0.9" => Some(2),
            "fd00::9" | "192.0.2.9" => Some(3),
            "10.9.9.9" => Some(9),
            _ => None,
        };
        let found = |text| {
            let (holder, ip) = beside(address(text, 0), &devices, &interface)?;
            Some((holder.device, holder.gid_index, ip.to_string()))
        };
        assert_eq!(found("10.0.0.9"), Some((0, 1, "10.0.0.1".into())));
        assert_eq!(found("192.0.2.9"), Some((1, 2, "192.0.2.1".into())));
        assert_eq!(found("fd00::9"), Some((1, 1, "fd00::1".into())), "not the link-local one");
        assert_eq!((found("10.9.9.9"), found("10.8.8.8")), (None, None));
    }

    #[test]
    fn this_host_is_reached_from_any_of_its_interfaces() {
        let devices = devices();
        let found = |text| {
            let (holder, ip) = on_this_host(address(text, 0), &devices)?;
            Some((holder.device, holder.gid_index, ip.to_string()))
        };
        assert_eq!(found("203.0.113.1"), Some((0, 1, "10.0.0.1".into())));
        assert_eq!(found("fd77::1"), Some((1, 1, "fd00::1".into())), "not the link-local one");
        assert_eq!((found("127.0.0.1"), found("fe80::9")), (None, None));
    }

    #[test]
    fn loopback_addresses_are_of_one_interface() {
        let devices = [table(&[("10.0.0.1", 2)]), table(&[("127.0.0.2", 1)])];
        let none = |_| panic!("nobody has to be asked");
        let (holder, ip) = beside(address("127.0.0.1", 0), &devices, &none).unwrap();
        assert_eq!(
            (holder, ip.to_string()),
            (Holder { device: 1, gid_index: 0 }, "127.0.0.2".into())
        );
        assert_eq!(beside(address("127.0.0.1", 0), &devices[..1], &none), None);
    }

    #[test]
    fn the_first_of_a_family_has_its_scope() {
        let devices = devices();
        assert_eq!(first(true, &devices).unwrap().1, address("10.0.0.1", 0));
        assert_eq!(first(false, &devices).unwrap().1, address("fe80::1", 2));
        assert_eq!(first(true, &[table(&[])]), None);
    }

    #[test]
    fn an_address_that_has_gone_is_nobodys() {
        let mut devices = devices();
        devices[0][1].gid = Gid::default();
        assert_eq!(holder(address("10.0.0.1", 0), &devices), None);
        assert_eq!(first(true, &devices).unwrap().1, address("10.0.0.2", 0));
    }
}
