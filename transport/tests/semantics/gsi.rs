//! Queue pair 1: management datagrams go out as they are, and come in if they are such.

use softrnic_model::cm::mad::{MAD_LEN, Mad};
use softrnic_model::counters::Counter;
use softrnic_model::device::mad_header;
use softrnic_model::verbs::Psn;

use crate::bench::{A, B, Setup};

fn mad(first: u8) -> Box<Mad> {
    Box::new(std::array::from_fn(|at| first.wrapping_add(at as u8)))
}

/// A packet with a management datagram, BTH and DETH in front of it.
fn packet() -> Vec<u8> {
    [mad_header(Psn::new(7)).as_slice(), &mad(0)[..]].concat()
}

#[test]
fn datagrams_arrive_in_order_and_as_they_were() {
    let mut bench = Setup::ud().pair();
    let (to_b, to_a) = (bench.route(A), bench.route(B));
    for first in 0..5 {
        bench.device(A).post_mad(to_b, mad(first));
        bench.device(B).post_mad(to_a, mad(100 + first));
    }
    bench.run();
    for first in 0..5 {
        let (route, came) = bench.device(B).take_mad().unwrap();
        assert_eq!((route.src, route.dst, came), (to_b.src, to_b.dst, mad(first)));
        let (route, came) = bench.device(A).take_mad().unwrap();
        assert_eq!((route.src, route.dst, came), (to_a.src, to_a.dst, mad(100 + first)));
    }
    assert!(bench.device(A).take_mad().is_none() && bench.device(B).take_mad().is_none());
    assert!(!bench.device(A).has_work() && !bench.device(B).has_work());
    assert_eq!((bench.dropped(A), bench.dropped(B)), (0, 0));
}

/// What is changed of a packet: its name, the place, the bytes there, and what counts it then.
type Change = (&'static str, usize, &'static [u8], Option<Counter>);

#[test]
fn what_is_no_management_datagram_is_counted_and_dropped() {
    // BTH: opcode, flags, P_Key of 2 bytes. DETH behind its 12 bytes: Q_Key of 4.
    let changes: [Change; 7] = [
        ("as it is", 0, &[0x64], None),
        ("limited member", 2, &[0x7f, 0xff], None),
        ("another partition", 2, &[0xff, 0xfe], Some(Counter::DropBadPkey)),
        ("high bit of the Q_Key", 12, &[0x00], Some(Counter::DropBadQkey)),
        ("low bit of the Q_Key", 15, &[0x01], Some(Counter::DropBadQkey)),
        ("immediate data", 0, &[0x65], Some(Counter::DropWrongService)),
        ("RC", 0, &[0x04], Some(Counter::DropWrongService)),
    ];
    for (name, at, bytes, counter) in changes {
        let mut bench = Setup::ud().pair();
        let route = bench.route(A);
        let mut packet = packet();
        packet[at..at + bytes.len()].copy_from_slice(bytes);
        bench.deliver(B, &route, &packet);
        assert_eq!(bench.device(B).take_mad().is_some(), counter.is_none(), "{name}");
        assert_eq!(bench.dropped(B), u64::from(counter.is_some()), "{name}");
        let counted = counter.is_none_or(|counter| bench.count(B, counter) == 1);
        assert!(counted, "{name}: {:?}", bench.device(B).counters());
    }
    for len in [0, 4, MAD_LEN - 4] {
        let mut bench = Setup::ud().pair();
        let route = bench.route(A);
        bench.deliver(B, &route, &packet()[..20 + len]);
        assert!(bench.device(B).take_mad().is_none());
        assert_eq!(bench.count(B, Counter::DropMalformed), 1, "{len} bytes");
    }
}

#[test]
fn who_takes_none_has_a_thousand_and_no_more() {
    let mut bench = Setup::ud().pair();
    let route = bench.route(A);
    for _ in 0..1030 {
        bench.deliver(B, &route, &packet());
    }
    let taken = std::iter::from_fn(|| bench.device(B).take_mad()).count();
    assert_eq!(taken, 1024);
    assert_eq!(bench.count(B, Counter::DropNoReceive), 6);
    bench.deliver(B, &route, &packet());
    assert!(bench.device(B).take_mad().is_some(), "there is room again");
}
