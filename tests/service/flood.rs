//! One peer asks without end while another one connects.
//!
//! `cargo test --release --test service flood -- --ignored --nocapture` measures, and prints what
//! `docs/results` shows.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use softrnic_model::cm::ip::IpHeader;
use softrnic_model::cm::message::cell::Bytes;
use softrnic_model::cm::message::{Message, Req};
use softrnic_model::cm::{CommId, Guid, PortSpace, ServiceId};
use softrnic_model::device::mad_header;
use softrnic_model::verbs::{Gid, Psn, QpNum};
use softrnic_model::wire::Route;
use softrnic_transport::{Link, Outgoing, UdpConfig, UdpLink};

use crate::child::Child;
use crate::connections::listen;
use crate::world::free_port;

/// Requests a second.
const RATE: u64 = 100_000;
/// Requests that leave at one time.
const BURST: usize = 100;
/// Requests that differ, one after the other.
const DIFFERENT: u32 = 8192;

/// Asks for `service` at `to` until it is stopped, each time for another connection.
fn flood(
    from: IpAddr,
    to: IpAddr,
    udp_port: u16,
    cm_port: u16,
    stop: &AtomicBool,
    sent: &AtomicU64,
) {
    let now = softrnic_model::Instant::ZERO;
    let mut config = UdpConfig::new(from).with_port(udp_port);
    config.source_ports = 1;
    let mut link = UdpLink::open(&config).unwrap();
    let route = Route { src: link.gid(), dst: Gid::from(to), hop_limit: 64, ..Route::default() };
    let head = mad_header(Psn::new(0));
    let header = IpHeader { source_port: 1, source: from, destination: to };
    let mut request = Req {
        service_id: ServiceId::of_port(PortSpace::Tcp, cm_port),
        local_ca_guid: Guid(7),
        mtu: 3,
        private_data: Bytes::of(&header.to_bytes()).unwrap(),
        ..Req::default()
    };
    let packets: Vec<Vec<u8>> = (0..DIFFERENT)
        .map(|n| {
            (request.local_comm_id, request.local_qpn) = (CommId(n + 2), QpNum::new(n + 2));
            let mad = Message::from(request.clone()).to_mad(n.into(), 0);
            [head.as_slice(), &mad].concat()
        })
        .collect();
    let mut packets = packets.iter().cycle();
    let begun = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        for packet in packets.by_ref().take(BURST) {
            let frame = Outgoing { route, len: packet.len(), damage: None };
            let fill = &mut |out: &mut [u8]| {
                out.copy_from_slice(packet);
                true
            };
            link.transmit(now, frame, fill).unwrap();
        }
        sent.fetch_add(BURST as u64, Ordering::Relaxed);
        link.flush(now).unwrap();
        // What is refused is not read by anybody; the queue of the socket is full of it.
        let due = Duration::from_nanos(sent.load(Ordering::Relaxed) * (1_000_000_000 / RATE));
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
    }
}

#[test]
#[ignore = "it measures, and needs two processors for itself"]
fn flood_of_requests() {
    const COUNT: u32 = 200;
    let (port, at) = (free_port(), "127.0.68.1");
    let (mut server, mut client) = (Child::new(port, at), Child::new(port, "127.0.68.2"));
    let listens = listen(&mut server, &format!("{at}:0"));
    assert_eq!(server.ask("cm-serve"), "serving");
    let cm_port: u16 = listens.rsplit_once(':').unwrap().1.parse().unwrap();
    let mut connects = |when: &str| {
        let said = client.ask(&format!("cm-burst {listens} {COUNT}"));
        println!("{when}: {said}");
        assert!(said.starts_with(&format!("{COUNT} of {COUNT} ")), "{when}: {said}");
    };
    connects("before");
    let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let begun = Instant::now();
    let flooding = {
        let (stop, sent) = (Arc::clone(&stop), Arc::clone(&sent));
        let (from, to) = ("127.0.68.3".parse().unwrap(), at.parse().unwrap());
        std::thread::spawn(move || flood(from, to, port, cm_port, &stop, &sent))
    };
    std::thread::sleep(Duration::from_millis(500));
    connects("meanwhile");
    stop.store(true, Ordering::Relaxed);
    let seconds = begun.elapsed().as_secs_f64();
    flooding.join().unwrap();
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let rate = sent.load(Ordering::Relaxed) as f64 / seconds;
    println!("requests of the other peer: {rate:.0} a second for {seconds:.1} s");
    connects("after");
}
