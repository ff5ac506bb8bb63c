//! Two network namespaces joined by a cable: what the kernel really puts on the wire.
//!
//! Needs root and `ip(8)`; says so and does nothing without.

use std::fs::File;
use std::io::Read;
use std::net::Ipv6Addr;
use std::process::{Command, Stdio};

use socket2::{Domain, Protocol, Socket, Type};
use softrnic_model::wire::{ROCE_PORT, RoceFrame, emit_frame};

use super::super::linux::enter_network;
use super::*;

const ETHERNET_HEADER: usize = 14;

/// Two namespaces, each with one end of a cable: 10.77.0.1 and .2, fd77::1 and ::2.
struct Cable {
    names: [String; 2],
}

impl Cable {
    /// `mtu` bytes; every frame on its own if not `segments`.
    fn new(mtu: u32, segments: bool) -> Option<Self> {
        static NEXT: AtomicU8 = AtomicU8::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = |end: char| format!("softrnic-{}-{number}-{end}", std::process::id());
        let cable = Self { names: [name('a'), name('b')] };
        let [a, b] = &cable.names;
        let mut fine = ip(&format!("netns add {a}")) && ip(&format!("netns add {b}"));
        fine &= ip(&format!("link add c netns {a} type veth peer name c netns {b}"));
        for (host, name) in [(1, a), (2, b)] {
            fine &= ip(&format!("-n {name} link set lo up"));
            fine &= ip(&format!("-n {name} addr add 10.77.0.{host}/24 dev c"));
            fine &= ip(&format!("-n {name} addr add fd77::{host}/64 dev c nodad"));
            let segments = if segments { "" } else { "gso_max_segs 1" };
            fine &= ip(&format!("-n {name} link set c mtu {mtu} {segments} up"));
        }
        if !fine {
            softrnic_testing::not_run("no network namespaces without root and ip(8)");
        }
        fine.then_some(cable)
    }

    /// What `make` makes in the namespace of host 1 or 2.
    fn at<T: Send>(&self, host: usize, make: impl FnOnce() -> T + Send) -> T {
        let path = format!("/run/netns/{}", self.names[host - 1]);
        std::thread::scope(|scope| {
            let made = scope.spawn(|| {
                enter_network(&File::open(path).unwrap()).unwrap();
                make()
            });
            made.join().unwrap()
        })
    }

    fn link(&self, host: usize, v4: bool, change: impl FnOnce(&mut UdpConfig) + Send) -> UdpLink {
        let last = u8::try_from(host).unwrap();
        let address: IpAddr = if v4 {
            Ipv4Addr::new(10, 77, 0, last).into()
        } else {
            Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, last.into()).into()
        };
        let mut config = UdpConfig::new(address);
        change(&mut config);
        self.at(host, || UdpLink::open(&config).unwrap())
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&format!("netns del {name}"));
        }
    }
}

fn ip(arguments: &str) -> bool {
    let mut command = Command::new("ip");
    command.args(arguments.split_ascii_whitespace()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The RoCEv2 frames that `tap` has seen, until nothing more comes: identification and packet.
/// Checks the ICRC of each over the headers that it really has.
fn frames_on_the_wire(tap: &Socket) -> Vec<(Option<u16>, Vec<u8>)> {
    let (mut tap, mut buffer, mut frames) = (tap, vec![0; 1 << 16], Vec::new());
    let started = std::time::Instant::now();
    // the first waits until the neighbour is found, which may take a repetition after a second
    while started.elapsed() < Duration::from_secs(5) {
        let Ok(len) = tap.read(&mut buffer) else {
            if frames.is_empty() { continue } else { break }
        };
        let Ok(frame) = RoceFrame::parse(&buffer[..len]) else { continue };
        assert_eq!(frame.icrc, frame.expected_icrc(), "{:?}", frame.ip);
        frames.push((frame.ip.identification(), frame.packet.to_vec()));
    }
    frames
}

/// Sees every frame of a namespace (`packet(7)`).
fn tap() -> Socket {
    const ETH_P_ALL: u16 = 3;
    let protocol = Protocol::from(i32::from(ETH_P_ALL.to_be()));
    let tap = Socket::new(Domain::PACKET, Type::RAW, Some(protocol)).unwrap();
    tap.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    tap.set_recv_buffer_size(4 << 20).unwrap();
    tap
}

#[test]
fn identifications_and_icrcs_on_the_wire_are_as_foreseen() {
    for v4 in [true, false] {
        for gso in [Offload::Auto, Offload::Off] {
            let Some(cable) = Cable::new(4200, false) else { return };
            let mut a = cable.link(1, v4, |config| config.gso = gso);
            let mut b = cable.link(2, v4, |_| ());
            let tap = cable.at(2, tap);
            let there = Route { traffic_class: 0x6a, ..route(&a, &b) };
            let lengths = [12, 1036, 1036, 1036, 1036, 600, 600, 4100, 4100, 4100, 64];
            for (i, &len) in lengths.iter().enumerate() {
                send(&mut a, there, &packet(i, len));
            }
            a.flush(Instant::ZERO).unwrap();
            assert!(a.last_send_error().is_none(), "{:?}", a.last_send_error());
            let seen = frames_on_the_wire(&tap);
            let packets: Vec<_> = seen.iter().map(|(_, packet)| packet.clone()).collect();
            let sent: Vec<_> = lengths.iter().enumerate().map(|(i, &l)| packet(i, l)).collect();
            assert_eq!(packets, sent);
            let numbers: Vec<_> = seen.iter().map(|(id, _)| *id).collect();
            let expected = match (v4, gso) {
                (false, _) => [None; 11],
                (true, Offload::Off) => [Some(0); 11],
                (true, Offload::Auto) => [0, 0, 1, 2, 3, 4, 0, 0, 1, 2, 3].map(Some),
            };
            assert_eq!(numbers, expected);
            let got: Vec<_> = receive(&mut b, 11).into_iter().collect();
            assert_eq!(got.len(), 11);
            assert!(got.iter().all(|(came_by, _)| came_by.traffic_class == 0x6a));
            assert_eq!(b.counters().rx_icrc_full, 11, "{:?}", b.counters());
        }
    }
}

#[test]
fn a_peer_that_counts_in_its_own_way_is_understood() {
    let Some(cable) = Cable::new(1500, true) else { return };
    let mut b = cable.link(2, true, |_| ());
    let raw = cable.at(1, || {
        let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255))).unwrap();
        raw.set_header_included_v4(true).unwrap();
        raw
    });
    let route = Route {
        src: Gid::from_v4([10, 77, 0, 1]),
        dst: b.gid(),
        src_port: 0xd00d,
        hop_limit: 17,
        ..Route::default()
    };
    let to = std::net::SocketAddr::from(([10, 77, 0, 2], ROCE_PORT)).into();
    let mut from_nic = |identification: u16, n: usize, spoil: bool| {
        let mut frame = Vec::new();
        emit_frame(&route, identification, &packet(n, 64), &mut frame).unwrap();
        let last = frame.len() - 1;
        frame[last] ^= u8::from(spoil);
        raw.send_to(&frame[ETHERNET_HEADER..], &to).unwrap();
        receive_one(&mut b)
    };
    let numbers = [500, 501, 502, 510, 511, 40_000];
    for (n, &identification) in numbers.iter().enumerate() {
        let (came_by, bytes) = from_nic(identification, n, false).expect("it is delivered");
        assert_eq!(bytes, packet(n, 64));
        assert_eq!((came_by.src_port, came_by.hop_limit), (0xd00d, 17));
    }
    assert!(from_nic(40_001, 9, true).is_none());
    let counters = b.counters();
    // 501, 502, 511 were foreseen; 500 is the first, 510 is a gap, 40,000 fits nothing
    assert_eq!((counters.rx_icrc_full, counters.rx_icrc_solved), (3, 3));
    assert_eq!((counters.rx_icrc_odd_identification, counters.rx_bad_icrc), (1, 1));
}

/// The next packet, or none if what comes is not good.
fn receive_one(link: &mut UdpLink) -> Option<(Route, Vec<u8>)> {
    let before = link.counters().rx_packets;
    let (mut got, started) = (None, std::time::Instant::now());
    while link.counters().rx_packets == before && started.elapsed() < Duration::from_secs(2) {
        link.receive(Instant::ZERO, &mut |route, packet| got = Some((*route, packet.to_vec())))
            .unwrap();
    }
    got
}

#[test]
fn a_packet_longer_than_the_path_is_refused_and_others_go_on() {
    for v4 in [true, false] {
        let Some(cable) = Cable::new(1500, true) else { return };
        let (mut a, mut b) = (cable.link(1, v4, |_| ()), cable.link(2, v4, |_| ()));
        let there = route(&a, &b);
        for len in [4100, 4100, 4100, 2000] {
            send(&mut a, there, &packet(0, len));
        }
        send(&mut a, Route { hop_limit: 63, ..there }, &packet(1, 1036));
        a.flush(Instant::ZERO).unwrap();
        assert_eq!(a.counters().tx_failed, 4, "{:?}", a.last_send_error());
        let error = a.last_send_error().unwrap();
        assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE), "{error}");
        assert!(a.segments(), "segmenting is not to blame");
        assert_eq!(receive(&mut b, 1)[0].1, packet(1, 1036));
    }
}

#[test]
fn bursts_cross_the_cable_whole() {
    for v4 in [true, false] {
        let Some(cable) = Cable::new(1500, true) else { return };
        let (mut a, mut b) = (cable.link(1, v4, |_| ()), cable.link(2, v4, |_| ()));
        let there = route(&a, &b);
        for i in 0..200 {
            send(&mut a, there, &packet(i, 1036));
        }
        a.flush(Instant::ZERO).unwrap();
        let got: Vec<_> = receive(&mut b, 200).into_iter().map(|(_, bytes)| bytes).collect();
        assert_eq!(got, (0..200).map(|i| packet(i, 1036)).collect::<Vec<_>>());
        assert!(b.counters().rx_calls < 50, "{:?}", b.counters());
        assert_eq!(b.counters().rx_icrc_full, 200);
    }
}

#[test]
fn groups_and_link_local_addresses_work_across_the_cable() {
    let Some(cable) = Cable::new(1500, true) else { return };
    // the link comes up and the address is free to use only after a moment
    let open = |host| {
        let started = std::time::Instant::now();
        loop {
            let link = cable.at(host, || {
                let interface = crate::interfaces::by_name("c").unwrap().unwrap();
                assert_eq!(interface.mtu, Some(1500));
                let first = interface.addresses[0];
                let usable = matches!(first, IpAddr::V6(v6) if v6.is_unicast_link_local());
                (interface.up && usable).then(|| UdpLink::open(&UdpConfig::new(first)).ok())
            });
            if let Some(link) = link.flatten() {
                return link;
            }
            assert!(started.elapsed() < Duration::from_secs(10), "no link-local address");
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    let (mut a, mut b) = (open(1), open(2));
    let there = route(&a, &b);
    send(&mut a, there, &packet(1, 64));
    a.flush(Instant::ZERO).unwrap();
    assert_eq!(receive(&mut b, 1)[0].0.src, a.gid());

    let (mut c, mut d) = (cable.link(1, true, |_| ()), cable.link(2, true, |_| ()));
    for (from, to, group) in [(&mut a, &mut b, "ff0e::5"), (&mut c, &mut d, "239.9.9.9")] {
        let group = Gid::from(group.parse::<IpAddr>().unwrap());
        cable.at(2, || to.join(group).unwrap());
        let there = Route { dst: group, ..route(from, to) };
        for i in 0..3 {
            send(from, there, &packet(i, 64));
        }
        from.flush(Instant::ZERO).unwrap();
        let got = receive(to, 3);
        assert_eq!(got.len(), 3, "{:?}", from.last_send_error());
        assert_eq!((got[2].0.dst, got[2].0.src), (group, from.gid()));
    }
}
