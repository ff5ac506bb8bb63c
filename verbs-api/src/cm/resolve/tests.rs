//! On the loopback interface, which every host has.

use softrnic_transport::interfaces;

use super::*;
use crate::provider::GidType;

fn device(addresses: &[&str]) -> Vec<GidEntry> {
    let lo = interfaces::by_address([127, 0, 0, 1].into()).unwrap().unwrap().index;
    let entry = |text: &&str| GidEntry {
        gid: text.parse::<IpAddr>().unwrap().into(),
        gid_type: GidType::RoceV2,
        interface_index: lo,
    };
    addresses.iter().map(entry).collect()
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn the_device_at_the_preferred_source_is_chosen() {
    let devices = [device(&["127.0.0.9"]), device(&["127.0.0.3", "127.0.0.1"])];
    let resolved = resolve(at("127.0.0.7:18515"), None, &devices).unwrap();
    let expected = Resolved {
        device: 1,
        gid_index: 1,
        source: at("127.0.0.1:0"),
        destination: at("127.0.0.7:18515"),
    };
    assert_eq!(resolved, expected);
}

#[test]
fn a_device_at_another_loopback_address_will_do() {
    let resolved = resolve(at("127.0.0.7:1"), None, &[device(&["127.0.0.9"])]).unwrap();
    assert_eq!(resolved.source, at("127.0.0.9:0"));
}

#[test]
fn a_bound_source_is_kept_with_its_port_or_has_no_device() {
    let devices = [device(&["127.0.0.9", "127.0.0.8"])];
    let resolved = resolve(at("127.0.0.7:1"), Some(at("127.0.0.8:77")), &devices).unwrap();
    assert_eq!((resolved.gid_index, resolved.source), (1, at("127.0.0.8:77")));
    let refused = |source| resolve(at("127.0.0.7:1"), Some(at(source)), &devices).unwrap_err();
    assert_eq!(refused("127.0.0.1:0"), ResolveError::NoDevice);
    assert_eq!(refused("198.51.100.7:0"), ResolveError::NoSuchSource);
    assert_eq!(refused("[::1]:0"), ResolveError::Malformed);
    let open = resolve(at("127.0.0.7:1"), Some(at("0.0.0.0:5")), &devices).unwrap();
    assert_eq!(open.source, at("127.0.0.9:5"));
}

#[test]
fn mapped_addresses_are_routed_as_ipv4_and_stay_mapped() {
    let devices = [device(&["127.0.0.9"])];
    let resolved = resolve(at("[::ffff:127.0.0.7]:1"), None, &devices).unwrap();
    assert_eq!(resolved.source, at("[::ffff:127.0.0.9]:0"));
    assert_eq!(resolved.destination, at("[::ffff:127.0.0.7]:1"));
    let bound = holder(at("[::ffff:127.0.0.9]:0"), &devices);
    assert_eq!(bound, Ok(Some(Holder { device: 0, gid_index: 0 })));
}

#[test]
fn a_wildcard_is_this_host() {
    let devices = [device(&["127.0.0.9"])];
    let resolved = resolve(at("0.0.0.0:5"), None, &devices).unwrap();
    assert_eq!((resolved.source, resolved.destination), (at("127.0.0.9:0"), at("127.0.0.9:5")));
    let bound = resolve(at("0.0.0.0:5"), Some(at("127.0.0.9:6")), &devices).unwrap();
    assert_eq!((bound.source, bound.destination), (at("127.0.0.9:6"), at("127.0.0.9:5")));
    assert_eq!(resolve(at("[::]:5"), None, &devices), Err(ResolveError::NoDevice));
}

#[test]
fn loopback_is_this_host_where_no_device_is_there() {
    let devices = [device(&["192.0.2.1", "fd00::1"])];
    let resolved = resolve(at("127.0.0.1:5"), None, &devices).unwrap();
    assert_eq!((resolved.source, resolved.destination), (at("192.0.2.1:0"), at("192.0.2.1:5")));
    let resolved = resolve(at("[::1]:5"), Some(at("[::1]:6")), &devices).unwrap();
    assert_eq!((resolved.source, resolved.destination), (at("[fd00::1]:6"), at("[fd00::1]:5")));
}

#[test]
fn binding_says_what_is_wrong() {
    let devices = [device(&["127.0.0.9"])];
    assert_eq!(holder(at("0.0.0.0:0"), &devices), Ok(None));
    assert_eq!(holder(at("[::]:0"), &devices), Ok(None));
    assert_eq!(holder(at("127.0.0.1:0"), &devices), Err(ResolveError::NoDevice));
    assert_eq!(holder(at("198.51.100.7:0"), &devices), Err(ResolveError::NoSuchSource));
    assert_eq!(holder(at("[fe80::1]:0"), &devices), Err(ResolveError::Malformed));
}

#[test]
fn link_local_needs_its_interface() {
    let devices = [device(&["127.0.0.9"])];
    assert_eq!(resolve(at("[fe80::1]:5"), None, &devices), Err(ResolveError::Malformed));
}

#[test]
fn errnos_are_those_of_linux() {
    assert_eq!(ResolveError::NoRoute(libc::EHOSTUNREACH).errno(), libc::EHOSTUNREACH);
    assert_eq!(ResolveError::NoSuchSource.errno(), libc::EADDRNOTAVAIL);
    assert_eq!(ResolveError::NoDevice.errno(), libc::ENODEV);
    assert_eq!(ResolveError::Malformed.errno(), libc::EINVAL);
}
