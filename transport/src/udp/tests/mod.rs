//! Links that talk to each other, and a played kernel.

mod loopback;
#[cfg(target_os = "linux")]
mod namespaces;
mod played;

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use softrnic_model::Instant;
use softrnic_model::wire::Route;

use super::*;

/// An address of the loopback network and a port of its own for each pair of links, so that tests
/// that run at the same time, even of two processes, do not meet.
struct Place {
    port: u16,
    net: u8,
}

impl Place {
    fn new() -> Self {
        static NEXT: AtomicU8 = AtomicU8::new(1);
        static KEPT: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());
        // the system gives each port to one process at a time; keep it until the end of this one
        let socket = UdpSocket::bind("127.255.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        KEPT.lock().unwrap().push(socket);
        Self { port, net: NEXT.fetch_add(1, Ordering::Relaxed) }
    }

    fn address(&self, host: u8) -> IpAddr {
        Ipv4Addr::new(127, 77, self.net, host).into()
    }

    fn config(&self, host: u8) -> UdpConfig {
        UdpConfig::new(self.address(host)).with_port(self.port)
    }

    fn pair(&self, change: impl Fn(&mut UdpConfig)) -> (UdpLink, UdpLink) {
        let open = |host| {
            let mut config = self.config(host);
            change(&mut config);
            UdpLink::open(&config).unwrap()
        };
        (open(1), open(2))
    }
}

fn route(from: &UdpLink, to: &UdpLink) -> Route {
    Route { src: from.gid(), dst: to.gid(), hop_limit: 64, ..Route::default() }
}

/// A packet that says by its bytes which one it is.
fn packet(number: usize, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        (0..len).map(|i| (i * 31 + number * 7 + len).to_le_bytes()[0]).collect();
    bytes[5..8].copy_from_slice(&[0, 0, 9]);
    bytes
}

fn send(link: &mut UdpLink, route: Route, packet: &[u8]) {
    let frame = Outgoing { route, len: packet.len(), damage: None };
    let fill = &mut |buffer: &mut [u8]| {
        buffer.copy_from_slice(packet);
        true
    };
    link.transmit(Instant::ZERO, frame, fill).unwrap();
}

/// Receives `count` packets, or what comes within some seconds.
fn receive(link: &mut UdpLink, count: usize) -> Vec<(Route, Vec<u8>)> {
    let mut got = Vec::new();
    let started = std::time::Instant::now();
    while got.len() < count && started.elapsed() < Duration::from_secs(5) {
        let deliver = &mut |route: &Route, packet: &[u8]| got.push((*route, packet.to_vec()));
        if link.receive(Instant::ZERO, deliver).unwrap() == 0 {
            std::thread::yield_now();
        }
    }
    got
}
