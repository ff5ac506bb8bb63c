//! Once warm, links and taps move frames without asking for memory.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::UdpSocket;
use std::time::SystemTime;

use softrnic_model::Instant;
use softrnic_model::wire::Route;
use softrnic_transport::tap::{Capture, CaptureFile, FaultRules, Faults, Trace};
use softrnic_transport::udp::Offload;
use softrnic_transport::{Link, Outgoing, UdpConfig, UdpLink};

/// Two links, and a socket that keeps their port from others.
fn pair(host: u8, offload: Offload) -> (UdpLink, UdpLink, UdpSocket) {
    let reserved = UdpSocket::bind("127.255.0.4:0").unwrap();
    let port = reserved.local_addr().unwrap().port();
    let open = |host| {
        let mut config = UdpConfig::new([127, 80, 0, host].into()).with_port(port);
        (config.gso, config.gro) = (offload, offload);
        UdpLink::open(&config).unwrap()
    };
    (open(host), open(host + 1), reserved)
}

/// Moves some hundred packets of several lengths; returns how many arrived.
fn traffic(a: &mut impl Link, b: &mut impl Link, route: Route, now: &mut u64) -> usize {
    let mut got = 0;
    for round in 0..20usize {
        *now += 1_000_000;
        let now = Instant::from_ns(*now);
        for len in [12, 1036, 1036, 1036, 1052, 4108, 4108, 16 + 4 * round] {
            let frame = Outgoing { route, len, damage: None };
            let fill = &mut |out: &mut [u8]| {
                out.fill(3);
                true
            };
            a.transmit(now, frame, fill).unwrap();
        }
        a.flush(now).unwrap();
        got += b.receive(now, &mut |_, _| ()).unwrap();
        got += b.receive(now, &mut |_, _| ()).unwrap();
    }
    got
}

fn assert_no_allocation(a: &mut impl Link, b: &mut impl Link, route: Route) {
    let mut now = 0;
    assert!(traffic(a, b, route, &mut now) > 50);
    let (mut calls, mut arrived) = (0, 0);
    let used = allocation_counter::measure(|| {
        for _ in 0..10 {
            calls += 1;
            arrived += traffic(a, b, route, &mut now);
        }
    });
    assert!(arrived > 500);
    assert_eq!(used.count_total, 0, "{used:?} in {calls} rounds");
}

#[test]
fn udp_links() {
    for (host, offload) in [(1, Offload::Auto), (3, Offload::Off)] {
        let (mut a, mut b, _reserved) = pair(host, offload);
        let route = Route { src: a.gid(), dst: b.gid(), hop_limit: 64, ..Route::default() };
        assert_no_allocation(&mut a, &mut b, route);
    }
}

#[test]
fn taps() {
    let (a, b, _reserved) = pair(5, Offload::Auto);
    let route = Route { src: a.gid(), dst: b.gid(), hop_limit: 64, ..Route::default() };
    let file = CaptureFile::to(std::io::sink(), SystemTime::UNIX_EPOCH);
    let rules = "drop=5%,reorder=5%,duplicate=5%,delay=5%:1ms,corrupt=5%,ecn=5%";
    let wrap = |link, name| {
        let link = Capture::new(Trace::new(link, std::io::sink()), &file, name);
        Faults::new(link, FaultRules::parse(rules).unwrap())
    };
    let (mut a, mut b) = (wrap(a, "a"), wrap(b, "b"));
    assert_no_allocation(&mut a, &mut b, route);
}
