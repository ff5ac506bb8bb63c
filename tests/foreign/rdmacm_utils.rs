//! The example programs of librdmacm.

use super::ends::{Running, Setting, free_port, fresh_address, is_installed, on_device};
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
            std::thread::sleep(std::time::Duration::from_millis(50));
            client = rping(fresh_address(), &["-c", "-C", "100"]).finish();
        }
        assert!(client.good, "{}", client.text);
    }
    assert!(server.is_running());
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
