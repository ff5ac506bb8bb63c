//! How many bytes one thread moves from one UDP link to another on this host: frames are made,
//! sent, received, checked and handed over, with and without segmented sends and merged receives.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant as Clock};

use softrnic_model::Instant;
use softrnic_model::wire::Route;
use softrnic_transport::udp::Offload;
use softrnic_transport::{Link, Outgoing, UdpConfig, UdpLink};

const PORT: u16 = 47_910;
const SAMPLE: Duration = Duration::from_millis(100);

fn open(host: u8, offload: Offload) -> UdpLink {
    let address = IpAddr::from(Ipv4Addr::new(127, 0, 7, host));
    let mut config = UdpConfig::new(address).with_port(PORT);
    (config.gso, config.gro) = (offload, offload);
    UdpLink::open(&config).unwrap_or_else(|error| {
        eprintln!("{error}");
        std::process::exit(1)
    })
}

/// Payload bytes per nanosecond, and how many packets a call moved.
fn sample(a: &mut UdpLink, b: &mut UdpLink, payload: usize) -> (f64, f64, f64) {
    let route = Route { src: a.gid(), dst: b.gid(), hop_limit: 64, ..Route::default() };
    let frame = Outgoing { route, len: payload + 16, damage: None };
    let source = vec![0x5a; payload];
    let mut target = vec![0; payload];
    let (before_a, before_b) = (a.counters(), b.counters());
    let started = Clock::now();
    let now = Instant::ZERO;
    let run = || -> std::io::Result<()> {
        while started.elapsed() < SAMPLE {
            for _ in 0..(128 << 10) / payload {
                a.transmit(now, frame, &mut |packet| {
                    packet[..16].fill(0);
                    packet[16..].copy_from_slice(&source);
                    true
                })?;
            }
            a.flush(now)?;
            while b.receive(now, &mut |_, packet| target.copy_from_slice(&packet[16..]))? > 0 {}
        }
        Ok(())
    };
    if let Err(error) = { run }() {
        eprintln!("{error}");
        std::process::exit(1);
    }
    let elapsed = started.elapsed().as_secs_f64();
    let packets = (b.counters().rx_icrc_full - before_b.rx_icrc_full) as f64;
    let sends = (a.counters().tx_calls - before_a.tx_calls) as f64;
    let receives = (b.counters().rx_calls - before_b.rx_calls) as f64;
    (packets * payload as f64 / elapsed / 1e9, packets / sends, packets / receives)
}

fn main() {
    println!("payload  offload   GB/s  packets/send  packets/receive");
    for offload in [Offload::Auto, Offload::Off] {
        let (mut a, mut b) = (open(1, offload), open(2, offload));
        for payload in [64, 256, 1024, 4096] {
            let mut samples: Vec<_> = (0..5).map(|_| sample(&mut a, &mut b, payload)).collect();
            samples.sort_by(|x, y| x.0.total_cmp(&y.0));
            let (speed, per_send, per_receive) = samples[samples.len() / 2];
            let offload = format!("{offload:?}");
            println!("{payload:7}  {offload:7}  {speed:5.2}  {per_send:12.1}  {per_receive:15.1}");
        }
    }
}
