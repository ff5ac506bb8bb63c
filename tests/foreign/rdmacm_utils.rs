//! The example programs of librdmacm.

use std::process::Command;
use std::time::Duration;

use super::ends::{
    Running, Setting, build_libraries, cannot_run, free_port, fresh_address, is_installed,
    on_device,
};
use super::meeting::{Meeting, Places, all_meet};

const PACKAGE: &str = "rdmacm-utils";

/// At two addresses and at one.
fn everywhere<'a>(meeting: &Meeting<'a>) -> [Meeting<'a>; 2] {
    [meeting.clone(), meeting.clone().at(Places::One)]
}

#[test]
fn rping() {
    if !is_installed("rping", PACKAGE) {
        return;
    }
    let lines = [
        ("rping -s -a SERVER -p PORT -C 1000 -V", "rping -c -a SERVER -p PORT -C 1000 -V"),
        (
            "rping -s -a 0.0.0.0 -p PORT -C 20 -V -S 65000",
            "rping -c -a SERVER -p PORT -C 20 -V -S 65000",
        ),
        // Queue pairs of its own; the client bound to its address.
        (
            "rping -s -a SERVER -p PORT -C 20 -V -q",
            "rping -c -a SERVER -I CLIENT -p PORT -C 20 -V -q",
        ),
    ];
    all_meet(lines.iter().flat_map(|(server, client)| everywhere(&Meeting::new(server, client))));
}

/// A server that stays and serves one client after the other. (Of two that ask at the same time it
/// forgets one.)
#[test]
fn persistent_rping() {
    if !is_installed("rping", PACKAGE) {
        return;
    }
    let (there, port) = (fresh_address(), free_port().to_string());
    let rping = |own, role: &[&str]| {
        let mut command = on_device(own, &Setting::default());
        command.arg("rping").args(role).args(["-a", &there.to_string(), "-p", &port, "-V"]);
        Running::start(command)
    };
    let server = rping(there, &["-s", "-P"]);
    for _ in 0..5 {
        let mut client = rping(fresh_address(), &["-c", "-C", "100"]).finish();
        // Until the server is there.
        for _ in 0..100 {
            if client.good || !client.text.contains("REJECTED") {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
            client = rping(fresh_address(), &["-c", "-C", "100"]).finish();
        }
        assert!(client.good, "{}", client.text);
    }
    assert!(server.is_running());
}

/// One of two is killed in the middle: the other one is told that the connection has ended, long before
/// it would find out by itself, and ends.
#[test]
fn killed_rping() {
    if !is_installed("rping", PACKAGE) {
        return;
    }
    for server_is_killed in [true, false] {
        let (there, port) = (fresh_address(), free_port().to_string());
        let rping = |own, role: &str| {
            let mut command = on_device(own, &Setting::default());
            command.args(["rping", role, "-v", "-a", &there.to_string(), "-p", &port]);
            Running::start(command)
        };
        let mut server = rping(there, "-s");
        std::thread::sleep(Duration::from_secs(1));
        let mut client = rping(fresh_address(), "-c");
        client.await_words("ping data");
        server.await_words("server ping data");
        let (killed, survivor) = if server_is_killed { (server, client) } else { (client, server) };
        killed.kill();
        let text = survivor.finish().text;
        assert!(text.contains("DISCONNECT EVENT"), "{text}");
        assert!(!text.contains("it does not end"), "{text}");
    }
}

#[test]
fn ucmatose() {
    if !is_installed("ucmatose", PACKAGE) {
        return;
    }
    let lines = [
        ("ucmatose -p PORT -c 5 -C 20 -S 1000", "ucmatose -s SERVER -p PORT -c 5 -C 20 -S 1000"),
        // Identifiers that move to other channels, an address to be bound to, a type of service.
        ("ucmatose -b SERVER -p PORT -c 3 -m", "ucmatose -s SERVER -b CLIENT -p PORT -c 3 -m -t 8"),
        ("ucmatose -p PORT -P ib", "ucmatose -s SERVER -p PORT -P ib"),
    ];
    all_meet(lines.iter().flat_map(|(server, client)| everywhere(&Meeting::new(server, client))));
}

#[test]
fn udaddy() {
    if !is_installed("udaddy", PACKAGE) {
        return;
    }
    let lines = [
        ("udaddy -c 3 -C 20 -S 1000", "udaddy -s SERVER -c 3 -C 20 -S 1000"),
        ("udaddy -b SERVER -p 0x2", "udaddy -s SERVER -b CLIENT -p 0x2"),
    ];
    all_meet(lines.iter().flat_map(|(server, client)| everywhere(&Meeting::new(server, client))));
}

#[test]
fn mckey() {
    if !is_installed("mckey", PACKAGE) {
        return;
    }
    // What is sent before the other one has joined is lost, and it would wait for it for ever.
    let meeting = Meeting {
        head_start: Duration::from_secs(3),
        ..Meeting::new(
            "mckey -m 239.9.9.9 -b SERVER -C 20",
            "mckey -m 239.9.9.9 -b CLIENT -s -C 20",
        )
    };
    all_meet(everywhere(&meeting));
}

#[test]
fn a_thousand_connections() {
    if !is_installed("cmtime", PACKAGE) {
        return;
    }
    let meeting = Meeting::new("cmtime -p PORT -c 1000", "cmtime -s SERVER -p PORT -c 1000");
    all_meet(everywhere(&meeting.with_endless_server()));
}

#[test]
fn synchronous_programs() {
    if !is_installed("rdma_server", PACKAGE) {
        return;
    }
    let lines = [
        ("rdma_server -p PORT", "rdma_client -s SERVER -p PORT"),
        ("rdma_xserver -p PORT", "rdma_xclient -s SERVER -p PORT"),
        ("rdma_xserver -p PORT -c x", "rdma_xclient -s SERVER -p PORT -c x"),
    ];
    all_meet(lines.iter().flat_map(|(server, client)| everywhere(&Meeting::new(server, client))));
}

/// IPv6: loopback has one address only, so the ends live in a network namespace of the test's own that
/// has two, and an interface with a link-local address.
#[test]
fn by_ipv6() {
    if !is_installed("rping", PACKAGE) || !is_installed("ip", "iproute2") {
        return;
    }
    let allowed = Command::new("unshare").args(["-rn", "true"]).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        cannot_run("network namespaces may not be made here");
        return;
    }
    const SCRIPT: &str = r#"
        set -e
        ip link set lo up
        ip addr add fd00::1/128 dev lo nodad
        ip addr add fd00::2/128 dev lo nodad
        ip link add rdma0 type veth peer name rdma1
        ip link set rdma1 up
        ip link set rdma0 up
        pair() {
            "$SOFTRNIC" run -d fd00::1 -- $1 &
            sleep 1
            "$SOFTRNIC" run -d fd00::2 -- $2
            wait $!
        }
        pair "rping -s -a ::0 -C 50 -V" "rping -c -a fd00::1 -C 50 -V"
        pair "rping -s -a fd00::1 -C 50 -V" "rping -c -a fd00::1 -I fd00::2 -C 50 -V"
        pair "ucmatose -f ipv6 -b ::0" "ucmatose -f ipv6 -s fd00::1"
        pair "udaddy -f ipv6 -b ::0" "udaddy -f ipv6 -s fd00::1"
        pair "rdma_server -s fd00::1" "rdma_client -s fd00::1"
        while ip -6 addr show dev rdma0 scope link | grep -q tentative; do sleep 0.1; done
        own=$(ip -6 -o addr show dev rdma0 scope link | sed 's/.*inet6 \([^/]*\).*/\1/')
        "$SOFTRNIC" run -d rdma0 -- rping -s -a "$own%rdma0" -C 20 -V &
        sleep 1
        "$SOFTRNIC" run -d rdma0 -- rping -c -a "$own%rdma0" -C 20 -V
        wait $!
        echo all is well
    "#;
    build_libraries();
    let mut command = Command::new("unshare");
    command.args(["-rn", "sh", "-c", SCRIPT]).env("SOFTRNIC", env!("CARGO_BIN_EXE_softrnic"));
    let ended = Running::start(command).finish();
    assert!(ended.good && ended.text.contains("all is well"), "{}", ended.text);
}
