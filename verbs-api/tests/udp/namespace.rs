//! Tests that need a network of their own: IPv6 addresses, interfaces that change.
//!
//! Such a test runs itself again under `unshare(1)`, as root of a namespace where only it is. Where
//! that is not permitted it says so and passes.

use std::net::Ipv6Addr;
use std::process::Command;
use std::time::Duration;

use softrnic_testing::not_run;
use softrnic_verbs::emulated::{self, EmulatedConfig};
use softrnic_verbs::{AsyncEvent, Context, Gid, Mtu, PortState, QpNum, QpType, SendOp, WcStatus};

use crate::world::{End, World, builder, connect, patient, until};

const INSIDE: &str = "SOFTRNIC_TEST_NAMESPACE";

/// Runs `body` in a network namespace of its own. `name` is that of the test.
fn in_namespace(name: &str, body: impl FnOnce()) {
    if std::env::var(INSIDE).is_ok_and(|inside| inside == name) {
        ip("link set lo up");
        return body();
    }
    const UNSHARE: [&str; 3] = ["--user", "--map-root-user", "--net"];
    let permitted = Command::new("unshare").args(UNSHARE).args(["ip", "link"]).output();
    if !permitted.is_ok_and(|output| output.status.success()) {
        not_run("unshare(1) or ip(8) is missing, or namespaces are not permitted");
        return;
    }
    let test = std::env::current_exe().unwrap();
    let path = format!("namespace::{name}");
    let run = Command::new("unshare")
        .args(UNSHARE)
        .arg(test)
        .args(["--exact", path.as_str(), "--nocapture"])
        .env(INSIDE, name)
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

fn v6(last: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, last)
}

/// An interface of our own; loopback has no multicast.
fn cable() {
    ip("link add cable type veth peer name other");
    ip("link set cable mtu 4200 addrgenmode none");
    ip("link set cable up");
    ip("link set other up");
}

/// Devices at fd77::1 and fd77::2.
fn v6_pair(change: impl Fn(&mut EmulatedConfig)) -> (Context, Context) {
    cable();
    for last in 1..=2 {
        ip(&format!("address add {}/64 dev cable nodad", v6(last)));
    }
    let open = |last| {
        let mut config = EmulatedConfig::new(v6(last).into());
        change(&mut config);
        emulated::open(config).unwrap()
    };
    (open(1), open(2))
}

#[test]
fn every_service_works_over_ipv6() {
    in_namespace("every_service_works_over_ipv6", || {
        let (near, far) = v6_pair(|_| ());
        for qp_type in [QpType::Rc, QpType::Uc] {
            let World { near, far } = World::of(qp_type, (near.clone(), far.clone()));
            far.qp.recv(1, far.sge(0, 100_000)).unwrap();
            near.qp.send(2, near.sge(1, 99_999)).unwrap();
            near.success();
            assert_eq!(far.success().byte_len, 99_999);
            assert!(far.bytes(0, 99_999) == near.bytes(1, 99_999), "{qp_type:?}");
        }
        let World { near: a, far: b } = World::of(QpType::Rc, (near.clone(), far.clone()));
        a.qp.read(1, a.sge(0, 50_000), b.mr.remote(9)).unwrap();
        a.qp.fetch_add(2, a.sge(60_000, 8), b.mr.remote(0), 1).unwrap();
        a.success();
        a.success();
        assert!(a.bytes(0, 50_000) == b.bytes(9, 50_000));
        assert_eq!(a.counter("rx_icrc_solved"), 0, "all bits of the ICRC are checked");

        let World { near: a, far: b } = World::of(QpType::Ud, (near, far));
        let ah = a.pd.create_ah(&a.qp.path_to(Gid(v6(2).octets()))).unwrap();
        b.qp.recv(1, b.sge(0, 5000)).unwrap();
        let (remote_qpn, remote_qkey) = (b.qp.num(), 0x1111_1111);
        let op = SendOp::SendTo { ah: ah.id(), remote_qpn, remote_qkey, imm: None };
        a.post(2, op, a.sge(0, 1000));
        assert_eq!(b.success().byte_len, 1040);
        assert_eq!(b.bytes(8, 16), v6(1).octets(), "the source, in an IPv6 header");
        assert_eq!(b.bytes(40, 1000), a.bytes(0, 1000));

        let group = Gid([0xff, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x77, 7]);
        let _membership = b.qp.join(group).unwrap();
        let ah = a.pd.create_ah(&a.qp.path_to(group)).unwrap();
        b.qp.recv(3, b.sge(0, 5000)).unwrap();
        let remote_qpn = QpNum::MULTICAST;
        let op = SendOp::SendTo { ah: ah.id(), remote_qpn, remote_qkey, imm: Some(5) };
        a.post(4, op, a.sge(0, 100));
        assert_eq!(b.success().imm_data, 5);
    });
}

#[test]
fn ipv6_in_foul_weather() {
    in_namespace("ipv6_in_foul_weather", || {
        let pair = v6_pair(|config| {
            config.faults = Some("drop=3%,reorder=3%,corrupt=2%,seed=4".into());
        });
        let World { near, far } = World::connected(QpType::Rc, pair, &Default::default());
        for round in 0..5 {
            near.qp.write(round, near.sge(round, 200_000), far.mr.remote(0)).unwrap();
            near.success();
            let from = usize::try_from(round).unwrap();
            assert!(far.bytes(0, 200_000) == near.bytes(from, 200_000));
        }
        assert!(near.counter("rx_bad_icrc") + far.counter("rx_bad_icrc") > 0);
    });
}

/// An interface with 10.77.0.1, and a device that follows it.
fn follower() -> Context {
    cable();
    ip("address add 10.77.0.1/24 dev cable");
    let context = emulated::open(EmulatedConfig::on_interface("cable")).unwrap();
    settle(&context);
    context
}

/// Waits until the carrier is there and nothing more is told.
fn settle(context: &Context) {
    until("the carrier is there", || context.port().unwrap().state == PortState::Active);
    while context.next_async_event(Some(Duration::from_millis(200))).unwrap().is_some() {}
}

/// The next asynchronous event, which is this one.
fn expect(context: &Context, expected: AsyncEvent) {
    let event = context.next_async_event(crate::world::PATIENCE).unwrap();
    assert_eq!(event, Some(expected));
}

#[test]
fn gids_follow_the_interface() {
    in_namespace("gids_follow_the_interface", || {
        let near = follower();
        assert_eq!(near.verbs().device().name, "softrnic_cable");
        let gid = |index| near.gid(index).unwrap();
        assert_eq!(gid(0).gid, Gid::from_v4([10, 77, 0, 1]));
        assert_eq!(near.port().unwrap().gid_tbl_len, 1);

        // A second address: a second GID, by which a peer reaches it.
        ip("address add 10.77.0.9/24 dev cable");
        expect(&near, AsyncEvent::GidChange);
        assert_eq!(gid(1).gid, Gid::from_v4([10, 77, 0, 9]));
        assert_eq!(gid(1).interface_index, gid(0).interface_index);
        let far = emulated::open_at([127, 0, 0, 1]).unwrap();
        let (near_end, far_end) =
            (End::new(near.clone(), QpType::Rc, 3), End::new(far, QpType::Rc, 5));
        let qp = |index| {
            let qp = builder(&near_end.pd, QpType::Rc, &near_end.cq).sgid_index(index);
            let (qp, peer) = (
                qp.build().unwrap(),
                builder(&far_end.pd, QpType::Rc, &far_end.cq).build().unwrap(),
            );
            connect(&qp, &peer, &patient());
            (qp, peer)
        };
        let (first, second) = (qp(0), qp(1));
        for (qp, peer) in [&first, &second] {
            qp.write(1, near_end.sge(0, 9000), far_end.mr.remote(0)).unwrap();
            near_end.success();
            peer.read(1, far_end.sge(0, 9000), near_end.mr.remote(0)).unwrap();
            far_end.success();
        }

        // The first address goes: its entry is empty, its connections die, the other one lives.
        ip("address del 10.77.0.1/24 dev cable");
        expect(&near, AsyncEvent::GidChange);
        // Linux takes the second address of a network with the first, unless told otherwise.
        ip("address replace 10.77.0.9/24 dev cable");
        until("the second address is there", || gid(1).gid == Gid::from_v4([10, 77, 0, 9]));
        assert_eq!(gid(0).gid, Gid::default());
        first.0.write(2, near_end.sge(0, 8), far_end.mr.remote(0)).unwrap();
        near_end.failure(WcStatus::RetryExceeded);
        assert_eq!(
            near_end
                .pd
                .create_ah(&first.0.path_to(Gid::from_v4([127, 0, 0, 1])))
                .unwrap_err()
                .source
                .errno(),
            22
        );
        second.0.write(3, near_end.sge(0, 9000), far_end.mr.remote(0)).unwrap();
        near_end.success();

        // It comes back where it was.
        ip("address add 10.77.0.1/24 dev cable");
        until("the first address is there", || gid(0).gid == Gid::from_v4([10, 77, 0, 1]));
        let again = qp(0);
        again.0.write(4, near_end.sge(0, 9000), far_end.mr.remote(0)).unwrap();
        near_end.success();
    });
}

#[test]
fn the_port_follows_the_interface() {
    in_namespace("the_port_follows_the_interface", || {
        let near = follower();
        let port = || near.port().unwrap();
        assert_eq!(port().active_mtu, Mtu::B4096);
        ip("link set cable mtu 1500");
        until("the MTU has changed", || port().active_mtu == Mtu::B1024);
        // Of what it carries no more.
        for (carried, mtu) in [(347, Mtu::B256), (400, Mtu::B256), (604, Mtu::B512)] {
            ip(&format!("link set cable mtu {carried}"));
            until("the MTU has changed", || port().active_mtu == mtu);
            ip("link set cable mtu 1500");
            until("the MTU has changed back", || port().active_mtu == Mtu::B1024);
        }
        ip("link set cable down");
        expect(&near, AsyncEvent::PortError);
        assert_eq!(port().state, PortState::Down);
        ip("link set cable up");
        expect(&near, AsyncEvent::PortActive);
        ip("link del cable");
        // The interface is gone with all its addresses.
        until("the GID is gone", || near.gid(0).unwrap().gid == Gid::default());
        until("the port is down", || port().state == PortState::Down);
    });
}

#[test]
fn a_device_at_an_address_loses_it_and_gets_it_back() {
    in_namespace("a_device_at_an_address_loses_it_and_gets_it_back", || {
        drop(follower());
        let near = emulated::open(EmulatedConfig::new([10, 77, 0, 1].into())).unwrap();
        settle(&near);
        ip("address add 10.77.0.9/24 dev cable");
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(near.port().unwrap().gid_tbl_len, 1, "others are none of its business");
        ip("address flush dev cable");
        expect(&near, AsyncEvent::GidChange);
        expect(&near, AsyncEvent::PortError);
        ip("address add 10.77.0.1/24 dev cable");
        expect(&near, AsyncEvent::GidChange);
        expect(&near, AsyncEvent::PortActive);
        let far = emulated::open_at([127, 0, 0, 1]).unwrap();
        let World { near, far } = World::of(QpType::Rc, (near, far));
        near.qp.write(1, near.sge(0, 9000), far.mr.remote(0)).unwrap();
        near.success();
        assert!(far.bytes(0, 9000) == near.bytes(0, 9000));
    });
}
