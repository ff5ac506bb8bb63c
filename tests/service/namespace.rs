//! Network namespaces: each has services of its own; and IPv6, which needs one here.
//!
//! Such a test runs itself again under `unshare(1)`. Where that is not permitted it says so and
//! passes.

use std::process::Command;

use softrnic_testing::not_run;

use crate::child::{Child, connect, write};
use crate::world::{free_port, service_of, until};

const INSIDE: &str = "SOFTRNIC_TEST_NAMESPACE";

/// Runs `body` in a network namespace of its own, with `told`. `name` is that of the test.
fn in_namespace(name: &str, told: &str, body: impl FnOnce(&str)) {
    if let Ok(inside) = std::env::var(INSIDE) {
        ip("link set lo up");
        return body(&inside);
    }
    const UNSHARE: [&str; 3] = ["--user", "--map-root-user", "--net"];
    let permitted = Command::new("unshare").args(UNSHARE).args(["ip", "link"]).output();
    if !permitted.is_ok_and(|output| output.status.success()) {
        not_run("unshare(1) or ip(8) is missing, or namespaces are not permitted");
        return;
    }
    let path = format!("namespace::{name}");
    let run = Command::new("unshare")
        .args(UNSHARE)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", path.as_str(), "--nocapture"])
        .env(INSIDE, told)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    let complained = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}\n{complained}");
    assert!(said.contains("1 passed"), "the test was not found: {said}");
}

fn ip(arguments: &str) {
    let done = Command::new("ip").args(arguments.split_ascii_whitespace()).output().unwrap();
    assert!(done.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&done.stderr));
}

/// An interface with two addresses of IPv6.
fn cable() {
    ip("link add cable type veth peer name other");
    ip("link set cable mtu 4200 addrgenmode none");
    ip("link set cable up");
    ip("link set other up");
    ip("address add fd77::1/64 dev cable nodad");
    ip("address add fe80::77/64 dev cable nodad");
}

#[test]
fn each_network_namespace_has_its_own_service() {
    let outside = std::env::var(INSIDE).is_err().then(|| {
        let port = free_port();
        (port, Child::new(port, "127.0.0.1"))
    });
    let told = outside.as_ref().map_or_else(String::new, |(port, _)| port.to_string());
    in_namespace("each_network_namespace_has_its_own_service", &told, |port| {
        let port = port.parse().unwrap();
        assert_eq!(service_of(port), None, "that of the other namespace is not seen");
        let mut a = Child::new(port, "127.0.0.1");
        let mut b = Child::new(port, "127.0.0.1");
        assert_eq!((a.slot(), b.slot()), (1, 2));
        connect(&mut a, &mut b);
        assert_eq!(write(&mut a, &b, 20), "done");
    });
    if let Some((port, child)) = outside {
        assert_eq!(service_of(port).unwrap().members.len(), 1);
        assert_eq!(child.slot(), 1);
    }
}

#[test]
fn processes_share_addresses_of_ipv6() {
    in_namespace("processes_share_addresses_of_ipv6", "-", |_| {
        cable();
        for at in ["fd77::1", "fe80::77", "::1"] {
            let mut children: Vec<_> = (0..2).map(|_| Child::new(4791, at)).collect();
            let [a, b] = &mut children[..] else { panic!("two") };
            assert_ne!(a.slot(), b.slot());
            connect(a, b);
            assert_eq!(write(a, b, 50), "done", "{at}");
            assert_eq!(write(b, a, 50), "done", "{at}");
        }
    });
}

#[test]
fn processes_that_follow_an_interface_share_what_comes_later() {
    in_namespace("processes_that_follow_an_interface_share_what_comes_later", "-", |_| {
        cable();
        ip("address add 10.77.0.1/24 dev cable");
        let mut children: Vec<_> = (0..2).map(|_| Child::new(4791, "cable")).collect();
        let [a, b] = &mut children[..] else { panic!("two") };
        connect(a, b);
        assert_eq!(write(a, b, 50), "done");
        let places = || {
            let mut members = service_of(4791)?.members;
            members.sort_by_key(|row| row.slot);
            Some(members.iter().map(|row| (row.slot, row.places.len())).collect::<Vec<_>>())
        };
        assert_eq!(places(), Some(vec![(1, 3), (2, 3)]));
        ip("address add 10.77.0.9/24 dev cable");
        until("the new address is shared", || (places()? == [(1, 4), (2, 4)]).then_some(()));
        ip("address del fd77::1/64 dev cable");
        until("the old one is given back", || (places()? == [(1, 3), (2, 3)]).then_some(()));
        // One that comes to the new address alone shares it with both.
        let mut c = Child::new(4791, "10.77.0.9");
        assert_eq!(c.slot(), 3);
        let mut d = Child::new(4791, "10.77.0.9");
        connect(&mut c, &mut d);
        assert_eq!(write(&mut c, &d, 50), "done");
    });
}
