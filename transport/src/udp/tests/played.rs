//! A kernel that says what the test wants, to see what the link makes of it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use softrnic_model::wire::{IcrcSeed, split_icrc};

use super::super::system::Burst;
use super::*;

/// What the played kernel answers and has seen.
#[derive(Default)]
struct Script {
    /// Answers to the next sends; when there are none left, everything is taken.
    answers: VecDeque<io::Result<usize>>,
    sent: Vec<(Burst, Vec<u8>)>,
}

#[derive(Clone, Default)]
struct Played(Arc<Mutex<Script>>);

impl System for Played {
    fn send(&mut self, _: &UdpSocket, bytes: &[u8], bursts: &[Burst]) -> io::Result<usize> {
        let mut script = self.0.lock().unwrap();
        let count = script.answers.pop_front().unwrap_or(Ok(bursts.len()))?.min(bursts.len());
        for burst in &bursts[..count] {
            script.sent.push((*burst, bytes[burst.start..burst.start + burst.len].to_vec()));
        }
        Ok(count)
    }

    fn receive(&mut self, _: &UdpSocket, _: &mut dyn FnMut(&Arrival, &[u8])) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}

impl Played {
    fn link(&self) -> UdpLink {
        let place = Place::new();
        let mut config = place.config(1);
        config.source_ports = 2;
        let mut sockets = Sockets::open(&config, None).unwrap();
        sockets.segments = true;
        UdpLink::over(&config, sockets, Box::new(self.clone()))
    }

    fn answer(&self, code: i32) {
        self.0.lock().unwrap().answers.push_back(Err(io::Error::from_raw_os_error(code)));
    }

    fn sent(&self) -> Vec<(Burst, Vec<u8>)> {
        std::mem::take(&mut self.0.lock().unwrap().sent)
    }
}

fn away(link: &UdpLink) -> Route {
    Route { src: link.gid(), dst: Gid::from_v4([127, 0, 0, 99]), hop_limit: 9, ..Route::default() }
}

/// The frames of `sent`, each with the identification that it leaves with.
fn frames(sent: &[(Burst, Vec<u8>)]) -> Vec<(u16, Vec<u8>)> {
    sent.iter()
        .flat_map(|(burst, bytes)| bytes.chunks(burst.segment).map(<[u8]>::to_vec).zip(0..))
        .map(|(bytes, position)| (position, bytes))
        .collect()
}

/// Checks that `sent` are the packets with `numbers` of `len` bytes, in order, each with the ICRC
/// for the identification that the kernel gives it.
fn assert_sent(link: &UdpLink, sent: &[(Burst, Vec<u8>)], numbers: &[usize], len: usize) {
    let got = frames(sent);
    assert_eq!(got.len(), numbers.len());
    for ((identification, frame), &number) in got.iter().zip(numbers) {
        let (bytes, icrc) = split_icrc(frame).unwrap();
        assert_eq!(bytes, packet(number, len));
        let route = link.sockets.route_from(0, away(link).dst);
        let seed = IcrcSeed::new(&route, frame.len()).with_identification(*identification);
        assert_eq!(seed.finish(bytes), icrc);
    }
}

#[test]
fn frames_of_one_length_share_a_burst_and_a_shorter_one_ends_it() {
    let kernel = Played::default();
    let mut link = kernel.link();
    let route = away(&link);
    let shapes = |link: &mut UdpLink, lengths: &[usize]| {
        for (i, &len) in lengths.iter().enumerate() {
            send(link, route, &packet(i, len));
        }
        link.flush(Instant::ZERO).unwrap();
        kernel.sent().iter().map(|(burst, _)| (burst.segment, burst.frames)).collect::<Vec<_>>()
    };
    assert_eq!(shapes(&mut link, &[64, 64, 64]), [(68, 3)]);
    assert_eq!(shapes(&mut link, &[64, 64, 60, 60]), [(68, 3), (64, 1)]);
    assert_eq!(shapes(&mut link, &[60, 64, 60]), [(64, 1), (68, 2)]);
    assert_eq!(shapes(&mut link, &[12; 130]), [(16, 64), (16, 64), (16, 2)]);
    let burst = 65_507 / 4104;
    assert_eq!(shapes(&mut link, &[4100; 20]), [(4104, burst), (4104, 20 - burst)]);
    assert_eq!(link.counters().tx_packets, 3 + 4 + 3 + 130 + 20);
}

#[test]
fn other_headers_or_sockets_start_another_burst() {
    let kernel = Played::default();
    let mut link = kernel.link();
    let base = away(&link);
    let marked = Route { traffic_class: 2, ..base };
    let near = Route { hop_limit: 1, ..base };
    let other = Route { dst: Gid::from_v4([127, 0, 0, 98]), ..base };
    for route in [base, base, marked, near, other, base] {
        send(&mut link, route, &packet(0, 64));
    }
    let mut to_slot_1 = packet(0, 64);
    to_slot_1[5] = 1;
    send(&mut link, base, &to_slot_1);
    link.flush(Instant::ZERO).unwrap();
    let sent = kernel.sent();
    assert_eq!(sent.iter().map(|(b, _)| b.frames).collect::<Vec<_>>(), [2, 1, 1, 1, 1, 1]);
    assert_eq!(sent.iter().map(|(b, _)| b.socket).collect::<Vec<_>>(), [0, 0, 0, 0, 0, 1]);
    assert_eq!(link.counters().tx_calls, 2, "one call for each run of one socket");
}

#[test]
fn a_device_that_cannot_segment_gets_single_datagrams_for_good() {
    const EIO: i32 = 5;
    let kernel = Played::default();
    let mut link = kernel.link();
    let route = away(&link);
    for i in 0..10 {
        send(&mut link, route, &packet(i, 100));
    }
    kernel.answer(EIO);
    link.flush(Instant::ZERO).unwrap();
    let sent = kernel.sent();
    assert!(sent.iter().all(|(burst, _)| burst.frames == 1));
    assert_sent(&link, &sent, &(0..10).collect::<Vec<_>>(), 100);
    assert!(!link.segments());
    for i in 10..14 {
        send(&mut link, route, &packet(i, 100));
    }
    link.flush(Instant::ZERO).unwrap();
    let sent = kernel.sent();
    assert_eq!(sent.len(), 4);
    assert_sent(&link, &sent, &[10, 11, 12, 13], 100);
    assert_eq!(link.counters().tx_failed, 0);
}

#[test]
fn invalid_blames_segmenting_only_if_single_datagrams_pass() {
    const EINVAL: i32 = 22;
    let kernel = Played::default();
    let mut link = kernel.link();
    let route = away(&link);
    // segments too long for the route: the single ones are refused as well
    for i in 0..3 {
        send(&mut link, route, &packet(i, 100));
    }
    for _ in 0..4 {
        kernel.answer(EINVAL);
    }
    link.flush(Instant::ZERO).unwrap();
    assert!(link.segments());
    assert_eq!((link.counters().tx_failed, link.counters().tx_packets), (3, 0));
    // the kernel does not know the option
    for i in 3..9 {
        send(&mut link, route, &packet(i, 100));
    }
    kernel.answer(EINVAL);
    link.flush(Instant::ZERO).unwrap();
    assert!(!link.segments());
    assert_sent(&link, &kernel.sent(), &[3, 4, 5, 6, 7, 8], 100);
    assert_eq!(link.counters().tx_failed, 3);
}

#[test]
fn damage_survives_the_fallback() {
    const EIO: i32 = 5;
    let kernel = Played::default();
    let mut link = kernel.link();
    let route = away(&link);
    for damage in [None, Some(300), Some(108 * 8 - 5)] {
        let fill = &mut |buffer: &mut [u8]| {
            buffer.copy_from_slice(&packet(1, 104));
            true
        };
        link.transmit(Instant::ZERO, Outgoing { route, len: 104, damage }, fill).unwrap();
    }
    kernel.answer(EIO);
    link.flush(Instant::ZERO).unwrap();
    let sent = kernel.sent();
    assert_sent(&link, &sent[..1], &[1], 104);
    let (good, bad, worse) = (&sent[0].1, &sent[1].1, &sent[2].1);
    let differing = |frame: &[u8]| {
        let bits = |(a, b): (&u8, &u8)| (a ^ b).count_ones();
        good.iter().zip(frame).map(bits).sum::<u32>()
    };
    assert_eq!((differing(bad), differing(worse)), (1, 1), "one bit each, and nothing else");
}

#[test]
fn a_full_kernel_is_asked_again_later_and_nothing_is_lost() {
    for code in [11, 105] {
        // EAGAIN, ENOBUFS
        let kernel = Played::default();
        let mut link = kernel.link();
        let route = away(&link);
        kernel.0.lock().unwrap().answers.push_back(Ok(1));
        kernel.answer(code);
        for i in 0..3 {
            send(&mut link, route, &packet(i, 100));
            send(&mut link, route, &packet(i, 96));
        }
        link.flush(Instant::ZERO).unwrap();
        assert_eq!(link.counters().tx_packets, 2);
        let again = link.next_deadline().expect("it will try again");
        link.flush(Instant::ZERO).unwrap();
        assert_eq!(link.counters().tx_packets, 2, "not yet");
        link.flush(again).unwrap();
        assert_eq!((link.counters().tx_packets, link.counters().tx_failed), (6, 0));
        assert_eq!(link.next_deadline(), None);
        assert_eq!(kernel.sent().len(), 3);
    }
}

#[test]
fn when_the_queue_is_full_the_link_says_so() {
    const EAGAIN: i32 = 11;
    for len in [12, 1036, 4200] {
        let kernel = Played::default();
        let mut link = kernel.link();
        let route = away(&link);
        kernel.answer(EAGAIN);
        let mut taken = 0;
        while link.ready() {
            send(&mut link, route, &packet(taken, len));
            taken += 1;
            assert!(taken <= 256);
        }
        assert!(taken >= 29, "{taken} of {len} bytes");
        // one more is dropped, and says so
        send(&mut link, route, &packet(taken, len));
        assert_eq!((link.counters().tx_failed, link.counters().tx_packets), (1, 0));
        link.flush(link.next_deadline().unwrap()).unwrap();
        assert_sent(&link, &kernel.sent(), &(0..taken).collect::<Vec<_>>(), len);
        assert!(link.ready());
    }
}

#[test]
fn frames_stay_in_order_while_the_kernel_takes_them_one_burst_at_a_time() {
    const EAGAIN: i32 = 11;
    let kernel = Played::default();
    let mut link = kernel.link();
    let route = away(&link);
    let (mut given, mut now) = (0, Instant::ZERO);
    let mut seen = Vec::new();
    for round in 0..400 {
        kernel.0.lock().unwrap().answers.push_back(Ok(1));
        kernel.answer(EAGAIN);
        for _ in 0..round % 7 {
            if link.ready() {
                send(&mut link, route, &packet(given, 2048));
                given += 1;
            }
        }
        now = now.plus_ns(RETRY_NS);
        link.flush(now).unwrap();
        seen.extend(kernel.sent());
        kernel.0.lock().unwrap().answers.clear();
    }
    link.flush(now.plus_ns(RETRY_NS)).unwrap();
    seen.extend(kernel.sent());
    assert!(given > 600);
    assert_sent(&link, &seen, &(0..given).collect::<Vec<_>>(), 2048);
    assert_eq!(link.counters().tx_failed, 0);
}

#[test]
fn what_is_refused_is_dropped_and_the_next_goes_on() {
    // EPERM, EMSGSIZE, ENETUNREACH, EHOSTUNREACH, EACCES
    for code in [1, 90, 101, 113, 13] {
        let kernel = Played::default();
        let mut link = kernel.link();
        let route = away(&link);
        kernel.answer(code);
        for i in 0..3 {
            send(&mut link, route, &packet(i, 200));
        }
        send(&mut link, Route { hop_limit: 3, ..route }, &packet(3, 200));
        link.flush(Instant::ZERO).unwrap();
        assert_eq!((link.counters().tx_failed, link.counters().tx_packets), (3, 1));
        assert_eq!(link.last_send_error().unwrap().raw_os_error(), Some(code));
        assert_sent(&link, &kernel.sent(), &[3], 200);
    }
}

#[test]
fn a_closed_socket_is_the_end() {
    const EBADF: i32 = 9;
    let kernel = Played::default();
    let mut link = kernel.link();
    let route = away(&link);
    kernel.answer(EBADF);
    send(&mut link, route, &packet(0, 200));
    assert_eq!(link.flush(Instant::ZERO).unwrap_err().raw_os_error(), Some(EBADF));
}
