//! Two links on addresses of this host.

use super::*;

/// Lengths of packets: every one that is a multiple of 4, in runs that make bursts of all kinds.
fn lengths() -> Vec<usize> {
    let mut lengths = Vec::new();
    for len in (12..=4200).step_by(4) {
        for _ in 0..1 + len % 5 {
            lengths.push(len);
        }
    }
    for run in [1, 2, 63, 64, 65, 130] {
        lengths.extend(std::iter::repeat_n(1036, run));
        lengths.push(1052);
        lengths.extend(std::iter::repeat_n(16, run));
        lengths.push(12);
    }
    lengths
}

/// Sends packets of these lengths and checks that they arrive unchanged and in order.
fn exchange(from: &mut UdpLink, to: &mut UdpLink, lengths: &[usize]) {
    let route = route(from, to);
    for (batch, chunk) in lengths.chunks(100).enumerate() {
        for (i, &len) in chunk.iter().enumerate() {
            assert!(from.ready());
            send(from, route, &packet(100 * batch + i, len));
        }
        from.flush(Instant::ZERO).unwrap();
        let got = receive(to, chunk.len());
        assert_eq!(got.len(), chunk.len(), "{:?} {:?}", from.counters(), to.counters());
        for (i, (&len, (came_by, bytes))) in chunk.iter().zip(got).enumerate() {
            assert_eq!(bytes, packet(100 * batch + i, len));
            assert_eq!((came_by.src, came_by.dst), (route.src, route.dst));
            assert!(came_by.src_port >= 0xc000);
            assert_eq!(came_by.hop_limit, 64);
        }
    }
    let (sent, got) = (from.counters(), to.counters());
    assert_eq!(sent.tx_packets, lengths.len() as u64);
    assert_eq!(sent.tx_bytes, lengths.iter().map(|&len| len as u64 + 4).sum::<u64>());
    assert_eq!((sent.tx_packets, sent.tx_bytes), (got.rx_packets, got.rx_bytes));
    assert_eq!(got.rx_icrc_full, got.rx_packets, "every identification was foreseen: {got:?}");
    assert_eq!(sent.tx_failed + got.rx_bad_icrc + got.rx_bad_length + got.rx_overflow, 0);
}

#[test]
fn all_lengths_arrive_in_order_with_and_without_offload() {
    for gso in [Offload::Auto, Offload::Off] {
        for gro in [Offload::Auto, Offload::Off] {
            let place = Place::new();
            let (mut a, mut b) = place.pair(|config| (config.gso, config.gro) = (gso, gro));
            exchange(&mut a, &mut b, &lengths());
            if cfg!(target_os = "linux") {
                assert_eq!(a.segments(), gso == Offload::Auto);
            }
            let merged = b.counters().rx_calls * 3 < b.counters().rx_packets;
            if a.segments() && gro == Offload::Auto {
                assert!(merged, "bursts arrive whole: {:?}", b.counters());
            }
        }
    }
}

#[test]
fn v6_links_on_one_address_with_two_ports() {
    let (one, other) = (Place::new(), Place::new());
    let config = |own: &Place, peer: &Place| {
        let mut config = UdpConfig::new(std::net::Ipv6Addr::LOCALHOST.into());
        (config.port, config.peer_port) = (own.port, peer.port);
        config
    };
    let Ok(mut a) = UdpLink::open(&config(&one, &other)) else {
        softrnic_testing::not_run("this host has no IPv6");
        return;
    };
    let mut b = UdpLink::open(&config(&other, &one)).unwrap();
    exchange(&mut a, &mut b, &lengths());
    assert_eq!(b.counters().rx_icrc_solved, 0);

    drop(a);
    // A port that is free over IPv4 may be taken over IPv6.
    let single = || UdpConfig { gso: Offload::Off, ..config(&Place::new(), &other) };
    let mut a = (0..16).find_map(|_| UdpLink::open(&single()).ok()).unwrap();
    let before = b.counters();
    let there = route(&a, &b);
    send(&mut a, there, &packet(1, 64));
    a.flush(Instant::ZERO).unwrap();
    assert_eq!(receive(&mut b, 1).len(), 1, "UDP checksum 0 is accepted");
    assert_eq!(b.counters().rx_icrc_full, before.rx_icrc_full + 1);
}

#[test]
fn portable_and_native_calls_understand_each_other() {
    let place = Place::new();
    let portable = |host| {
        let mut config = place.config(host);
        config.gso = Offload::Off;
        config.gro = Offload::Off;
        let sockets = Sockets::open(&config, None).unwrap();
        UdpLink::over(&config, sockets, Box::new(portable::Calls::new()))
    };
    let (mut a, mut b) = (portable(1), portable(2));
    let mut c = UdpLink::open(&place.config(3)).unwrap();
    for (from, to) in [(&mut a, &mut b)] {
        let route = Route { hop_limit: 0, ..route(from, to) };
        for i in 0..50 {
            send(from, route, &packet(i, 100 + 4 * i));
        }
        from.flush(Instant::ZERO).unwrap();
        let got: Vec<_> = receive(to, 50).into_iter().map(|(_, bytes)| bytes).collect();
        assert_eq!(got, (0..50).map(|i| packet(i, 100 + 4 * i)).collect::<Vec<_>>());
    }
    // bursts of a native sender reach a portable receiver cut by the kernel, and the other way
    let there = route(&c, &a);
    for i in 0..20 {
        send(&mut c, there, &packet(i, 1000));
    }
    c.flush(Instant::ZERO).unwrap();
    assert_eq!(receive(&mut a, 20).len(), 20);
    let back = route(&a, &c);
    send(&mut a, back, &packet(3, 1000));
    a.flush(Instant::ZERO).unwrap();
    assert_eq!(receive(&mut c, 1)[0].1, packet(3, 1000));
}

#[test]
fn traffic_class_and_hop_limit_travel() {
    let place = Place::new();
    let (mut a, mut b) = place.pair(|_| ());
    for traffic_class in [0, 0x02, 0x6a, 0xff] {
        for hop_limit in [1, 64, 255] {
            let route = Route { traffic_class, hop_limit, ..route(&a, &b) };
            send(&mut a, route, &packet(0, 32));
            a.flush(Instant::ZERO).unwrap();
            let (came_by, _) = receive(&mut b, 1).remove(0);
            assert_eq!((came_by.traffic_class, came_by.hop_limit), (traffic_class, hop_limit));
        }
    }
}

#[test]
fn traffic_class_hop_limit_and_flow_label_travel_over_v6() {
    let (one, other) = (Place::new(), Place::new());
    let mut config = UdpConfig::new(std::net::Ipv6Addr::LOCALHOST.into());
    (config.port, config.peer_port) = (one.port, other.port);
    let Ok(mut a) = UdpLink::open(&config) else {
        softrnic_testing::not_run("this host has no IPv6");
        return;
    };
    (config.port, config.peer_port) = (other.port, one.port);
    let mut b = UdpLink::open(&config).unwrap();
    for (traffic_class, hop_limit, flow_label) in [(0x6a, 7, 0xa_bcde), (0, 64, 1), (3, 255, 0)] {
        let route = Route { traffic_class, hop_limit, flow_label, ..route(&a, &b) };
        send(&mut a, route, &packet(0, 32));
        a.flush(Instant::ZERO).unwrap();
        let (came_by, _) = receive(&mut b, 1).remove(0);
        assert_eq!((came_by.traffic_class, came_by.hop_limit), (traffic_class, hop_limit));
        if flow_label != 0 {
            assert_eq!(came_by.flow_label, flow_label);
        }
    }
}

#[test]
fn a_multicast_frame_reaches_every_member_once() {
    let place = Place::new();
    let (mut a, mut b) = place.pair(|_| ());
    let group = Gid::from_v4([239, 7, 7, 7]);
    a.join(group).unwrap();
    b.join(group).unwrap();
    b.join(group).unwrap();
    assert_eq!((a.receivers().count(), b.receivers().count()), (2, 2));
    let to_group = Route { dst: group, ..route(&a, &b) };
    send(&mut a, to_group, &packet(1, 64));
    a.flush(Instant::ZERO).unwrap();
    for member in [&mut b, &mut a] {
        let (came_by, bytes) = receive(member, 1).remove(0);
        assert_eq!((came_by.dst, came_by.src), (group, to_group.src));
        assert_eq!(bytes, packet(1, 64));
    }
    assert!(b.leave(group));
    assert!(!b.leave(group));
    send(&mut a, to_group, &packet(2, 64));
    a.flush(Instant::ZERO).unwrap();
    assert_eq!(receive(&mut a, 1)[0].1, packet(2, 64));
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(receive_now(&mut a) + receive_now(&mut b), 0, "once, and not after leaving");
    assert!(a.join(b.gid()).is_err(), "not a group");
    assert!(a.join(Gid([0xff; 16])).is_err(), "of the other family");
}

#[test]
fn a_multicast_frame_over_v6_comes_back_to_its_host() {
    let wanted = |ip: &&IpAddr| ip.is_ipv6() && !ip.is_loopback();
    let interfaces = crate::interfaces::all().unwrap();
    let Some(&address) = interfaces.iter().flat_map(|one| &one.addresses).find(wanted) else {
        softrnic_testing::not_run("no IPv6 address but that of the loopback interface");
        return;
    };
    let mut config = UdpConfig::new(address).with_port(Place::new().port);
    let mut a = UdpLink::open(&config).unwrap();
    // a group of this host only
    let group = Gid::from("ff01::7:7".parse::<IpAddr>().unwrap());
    a.join(group).unwrap();
    config.port = Place::new().port;
    let mut b = UdpLink::open(&config).unwrap();
    let to_group = Route { dst: group, ..route(&b, &a) };
    send(&mut b, to_group, &packet(1, 64));
    b.flush(Instant::ZERO).unwrap();
    assert!(b.last_send_error().is_none(), "{:?}", b.last_send_error());
    let (came_by, bytes) = receive(&mut a, 1).remove(0);
    assert_eq!((came_by.dst, came_by.src, bytes), (group, b.gid(), packet(1, 64)));
    assert!(a.leave(group));
    send(&mut b, to_group, &packet(1, 64));
    b.flush(Instant::ZERO).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(receive_now(&mut a), 0);
}

fn receive_now(link: &mut UdpLink) -> usize {
    link.receive(Instant::ZERO, &mut |_, _| ()).unwrap()
}

#[test]
fn damaged_frames_are_counted_and_dropped() {
    let place = Place::new();
    let (mut a, mut b) = place.pair(|_| ());
    let (route, bytes) = (route(&a, &b), packet(5, 256));
    let bits = (256 + 4) * 8;
    for bit in (0..bits).filter(|bit| bit / 8 != 4) {
        let frame = Outgoing { route, len: bytes.len(), damage: Some(bit) };
        let fill = &mut |buffer: &mut [u8]| {
            buffer.copy_from_slice(&bytes);
            true
        };
        a.transmit(Instant::ZERO, frame, fill).unwrap();
        if bit % 50 == 0 {
            a.flush(Instant::ZERO).unwrap();
            assert_eq!(receive_now(&mut b), 0);
        }
    }
    send(&mut a, route, &bytes);
    a.flush(Instant::ZERO).unwrap();
    assert_eq!(receive(&mut b, 1)[0].1, bytes);
    assert_eq!(b.counters().rx_bad_icrc, u64::from(bits) - 8);
}

#[test]
fn garbage_is_counted_and_does_no_harm() {
    let place = Place::new();
    let mut b = UdpLink::open(&place.config(2)).unwrap();
    let stranger = UdpSocket::bind((place.address(9), 0)).unwrap();
    let to = (place.address(2), place.port);
    let mut noise = 1u64;
    let mut lengths = vec![0, 1, 3, 11, 12, 15, 4209, 9000, 65507];
    lengths.extend([16, 20, 999, 4208].repeat(20));
    for &len in &lengths {
        let bytes: Vec<u8> = (0..len)
            .map(|_| {
                noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                noise.to_le_bytes()[6]
            })
            .collect();
        stranger.send_to(&bytes, to).unwrap();
        receive_now(&mut b);
    }
    std::thread::sleep(Duration::from_millis(20));
    while receive_now(&mut b) > 0 {}
    let counters = b.counters();
    assert_eq!(counters.rx_packets, lengths.len() as u64);
    assert_eq!(counters.rx_bad_length, 9);
    // one in 65,536 of the others would pass as a frame with an unknown identification
    assert_eq!(counters.rx_bad_icrc, 80);
}

#[test]
fn slots_do_not_share_a_burst_or_a_port() {
    let place = Place::new();
    let (mut a, mut b) = place.pair(|config| config.source_ports = 4);
    let route = route(&a, &b);
    let of_slot = |slot: u8, i| {
        let mut bytes = packet(i, 64);
        bytes[5] = slot;
        bytes
    };
    for i in 0..40usize {
        send(&mut a, route, &of_slot(i.to_le_bytes()[0] % 4, i));
    }
    a.flush(Instant::ZERO).unwrap();
    let got = receive(&mut b, 40);
    let ports: Vec<Vec<u16>> = (0..4)
        .map(|slot| {
            let mut ports: Vec<u16> =
                got.iter().filter(|(_, b)| b[5] == slot).map(|(r, _)| r.src_port).collect();
            assert_eq!(ports.len(), 10);
            ports.dedup();
            ports
        })
        .collect();
    assert!(ports.iter().all(|ports| ports.len() == 1), "{ports:?}");
    assert!((1..4).all(|slot| ports[slot] != ports[0]));
}

#[test]
fn what_fill_rejects_is_not_sent() {
    let place = Place::new();
    let (mut a, mut b) = place.pair(|_| ());
    let route = route(&a, &b);
    let frame = Outgoing { route, len: 64, damage: None };
    let mut calls = 0;
    for i in 0..9 {
        let fill = &mut |buffer: &mut [u8]| {
            assert_eq!(buffer.len(), 64);
            calls += 1;
            buffer.copy_from_slice(&packet(i, 64));
            i % 3 == 0
        };
        a.transmit(Instant::ZERO, frame, fill).unwrap();
    }
    a.flush(Instant::ZERO).unwrap();
    let got: Vec<_> = receive(&mut b, 3).into_iter().map(|(_, bytes)| bytes).collect();
    assert_eq!(got, [0, 3, 6].map(|i| packet(i, 64)));
    assert_eq!((calls, a.counters().tx_packets, a.counters().tx_failed), (9, 3, 0));
}

#[test]
fn frames_that_cannot_be_sent_are_counted() {
    let place = Place::new();
    let (mut a, mut b) = place.pair(|_| ());
    let good = route(&a, &b);
    let elsewhere = Route { src: b.gid(), ..good };
    let other_family = Route { dst: Gid([0xfe; 16]), ..good };
    let nowhere = Route { dst: Gid::from_v4([0; 4]), ..good };
    let broadcast = Route { dst: Gid::from_v4([255; 4]), ..good };
    for (i, route) in [elsewhere, other_family, nowhere, broadcast].into_iter().enumerate() {
        send(&mut a, route, &packet(0, 64));
        a.flush(Instant::ZERO).unwrap();
        assert_eq!(a.counters().tx_failed, 1 + i as u64, "{route:?}");
        assert!(a.last_send_error().is_some());
    }
    for len in [0, 11, PACKET_LEN_MAX + 1] {
        let frame = Outgoing { route: good, len, damage: None };
        a.transmit(Instant::ZERO, frame, &mut |_| panic!("no room for it")).unwrap();
    }
    assert_eq!((a.counters().tx_failed, a.counters().tx_packets), (7, 0));
    send(&mut a, good, &packet(0, 64));
    a.flush(Instant::ZERO).unwrap();
    assert_eq!(receive(&mut b, 1).len(), 1, "and the link still works");
}

#[test]
fn errors_of_opening_say_what_to_do() {
    let place = Place::new();
    let _first = UdpLink::open(&place.config(1)).unwrap();
    let text = UdpLink::open(&place.config(1)).unwrap_err().to_string();
    assert!(text.contains(&format!("UDP port {} of {}", place.port, place.address(1))), "{text}");
    assert!(text.contains("stop it or use another address"), "{text}");
    if cfg!(target_os = "linux") {
        assert!(text.contains(&format!("process {} (", std::process::id())), "{text}");
    }
    let fails = |change: &dyn Fn(&mut UdpConfig)| {
        let mut config = place.config(3);
        change(&mut config);
        UdpLink::open(&config).unwrap_err()
    };
    let error = fails(&|config| config.address = [198, 51, 100, 7].into());
    assert!(matches!(error, OpenError::AddressNotHere { .. }));
    assert!(error.to_string().contains("127.0.0.1"), "it lists what there is: {error}");
    let error = fails(&|config| config.interface = Some("nosuch0".into()));
    assert!(matches!(error, OpenError::UnknownInterface { .. }));
    assert!(error.to_string().contains("\"nosuch0\"; there are"), "{error}");
    for address in ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255"] {
        let error = fails(&|config| config.address = address.parse().unwrap());
        assert!(matches!(error, OpenError::NotOneAddress(_)), "{error}");
    }
}

#[test]
fn the_granted_buffer_is_told_and_its_overflow_counted() {
    let place = Place::new();
    let (mut a, mut b) = place.pair(|config| config.receive_buffer = 64 << 10);
    let granted = b.granted_receive_buffer().unwrap();
    assert!((32 << 10..256 << 10).contains(&granted), "{granted}");
    let route = route(&a, &b);
    for i in 0..2000 {
        send(&mut a, route, &packet(i, 1000));
    }
    a.flush(Instant::ZERO).unwrap();
    let (mut got, mut last) = (0, std::time::Instant::now());
    while last.elapsed() < Duration::from_millis(50) {
        let more = receive_now(&mut b);
        got += more;
        if more > 0 {
            last = std::time::Instant::now();
        }
    }
    assert!(got < 2000);
    // the kernel tells of losses with the next datagram
    send(&mut a, route, &packet(0, 64));
    a.flush(Instant::ZERO).unwrap();
    assert_eq!(receive(&mut b, 1).len(), 1);
    assert!(!cfg!(target_os = "linux") || b.counters().rx_overflow > 0, "{:?}", b.counters());
}

#[test]
fn a_socket_that_somebody_else_bound_can_be_adopted() {
    let place = Place::new();
    let socket = UdpSocket::bind((place.address(2), place.port)).unwrap();
    let error = UdpLink::adopt(socket.try_clone().unwrap(), &place.config(1)).unwrap_err();
    assert!(error.to_string().contains("it is bound to"), "{error}");
    let mut b = UdpLink::adopt(socket, &place.config(2)).unwrap();
    let mut a = UdpLink::open(&place.config(1)).unwrap();
    let there = route(&a, &b);
    send(&mut a, there, &packet(1, 64));
    a.flush(Instant::ZERO).unwrap();
    assert_eq!(receive(&mut b, 1)[0].1, packet(1, 64));
}
