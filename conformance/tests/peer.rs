//! A device that is judged from the wire, through a helper.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "all of it is a test")]

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use softrnic_conformance::cases;
use softrnic_conformance::deviation::{Deviations, matches};
use softrnic_conformance::program::serve;
use softrnic_conformance::report::Status;
use softrnic_conformance::runner::{self, Options};
use softrnic_conformance::world::Peer;
use softrnic_verbs::emulated::{EmulatedConfig, EmulatedContext};
use softrnic_verbs::provider::Context;

/// The device, and where its scripts are.
const DEVICE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 77, 1, 1));
const SCRIPT: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 77, 1, 2));

/// A helper for a device on this UDP port; it serves `clients` clients.
fn helper(port: u16, clients: usize) -> (SocketAddr, thread::JoinHandle<Vec<u64>>) {
    let config = EmulatedConfig { port, ..EmulatedConfig::new(DEVICE) };
    let verbs: Arc<dyn Context> = Arc::new(EmulatedContext::open(config).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = thread::spawn(move || {
        let mut served = Vec::new();
        for _ in 0..clients {
            let (stream, _) = listener.accept().unwrap();
            served.push(serve::client(&stream, &verbs).unwrap());
        }
        served
    });
    (address, thread)
}

fn free_port() -> u16 {
    std::net::UdpSocket::bind((DEVICE, 0)).unwrap().local_addr().unwrap().port()
}

#[test]
fn cases_are_judged_through_a_helper() {
    let port = free_port();
    let wanted = ["rc-responder/gap-nak", "rnr/nak", "read-atomic/compare-swap"];
    let mut cases = cases::all();
    cases.retain(|case| wanted.iter().any(|rule| matches(rule, &case.name())));
    let count = cases.len();
    assert!(count > 15, "{count}");
    let (address, helper) = helper(port, count);
    let world = Peer { helper: address, address: Some(SCRIPT), port };
    let none = Deviations::default();
    let report = runner::run(cases, Box::new(world), &none, &Options::default(), &mut |_| {});
    let passed = report.results.iter().filter(|result| result.status == Status::Pass).count();
    assert_eq!(passed, count, "{:?}", report.results);
    assert!(helper.join().unwrap().iter().all(|commands| *commands > 3));
}

#[test]
fn a_line_that_is_no_command_is_answered_and_the_next_one_too() {
    let (address, helper) = helper(free_port(), 1);
    let stream = TcpStream::connect(address).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    for (line, expected) in [
        ("fly", r#"{"Err":{"errno":null,"why":"\"fly\" is no command"}}"#),
        (
            "region big len=0xffffffffffffffff",
            r#"{"Err":{"errno":null,"why":"len: 18446744073709551615 bytes are more than 67108864"}}"#,
        ),
        ("state", r#"{"Err":{"errno":null,"why":"there is no queue pair called qp"}}"#),
        ("poll", r#"{"Ok":{"completions":[]}}"#),
    ] {
        (&stream).write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        lines.read_line(&mut answer).unwrap();
        assert_eq!(answer.trim_end(), expected, "{line}");
    }
    drop((stream, lines));
    assert_eq!(helper.join().unwrap(), [4]);
}
