//! Requests and receives judged: what is dropped without a word, what is refused first, and what is
//! still answered.

use softrnic_model::counters::Counter;
use softrnic_model::verbs::QpState::{Err, Rts};
use softrnic_model::verbs::WcStatus::{
    LocalProtectionError, RemoteAccessError, RemoteOperationError, Success, WorkRequestFlushed,
};
use softrnic_model::verbs::{Access, AsyncEvent, Gid, Key, Mtu};
use softrnic_model::wire::Place::Only;

use super::faults::{allow, gone, key};
use crate::bench::{A, B, BASE, Bench, Forge, Remote, Setup, Wr, send, wr};

/// A receive whose own buffer cannot be used: (what, the receive).
#[test]
fn receives_that_are_at_fault_themselves() {
    type Receive = fn(&mut Bench) -> Wr;
    let receives: [(&str, Receive); 5] = [
        ("a key that is none", |_| wr(7, send()).sge(BASE, 100, Key(0xdead_0000))),
        ("out of range", |bench| wr(7, send()).sge(BASE + (1 << 16) - 4, 8, key(bench))),
        ("around the end of all addresses", |bench| wr(7, send()).sge(u64::MAX - 3, 8, key(bench))),
        ("no local write", |bench| {
            let read_only = bench.register(B, 0..64, Access::empty());
            wr(7, send()).sge(BASE, 8, read_only)
        }),
        ("memory that is gone", |bench| {
            let key = gone(bench);
            wr(7, send()).sge(BASE, 8, key)
        }),
    ];
    for (what, receive) in receives {
        let mut bench = super::setup().pair();
        let receive = receive(&mut bench);
        bench.try_recv(B, &receive).unwrap();
        bench.recv(B, 8, 0..8);
        bench.post(A, wr(1, send()).at(0..8));
        bench.run();
        let mut recvs = vec![(7, LocalProtectionError)];
        // A shared queue keeps the others.
        recvs.extend(bench.end(B).srq.is_none().then_some((8, WorkRequestFlushed)));
        assert_eq!(bench.recvs(B), recvs, "{what}");
        assert_eq!(bench.sends(A), [(1, RemoteOperationError)], "{what}");
        assert_eq!(bench.async_events(B), [], "{what}: the completion says it");
        assert_eq!(bench.states(), (Err, Err), "{what}");
    }
}

#[test]
fn bytes_of_length_0_need_no_key() {
    let mut bench = super::setup().pair();
    let nothing = Remote { key: Key(0xdead_beef) };
    bench.post(A, wr(1, nothing.write(1 << 40)));
    bench.post(A, wr(2, nothing.read(1 << 40)));
    bench.recv(B, 7, 0..0);
    bench.post(A, wr(3, nothing.write_imm(1 << 40, 5)));
    bench.run();
    let all: Vec<_> = (1..4).map(|id| (id, Success)).collect();
    assert_eq!(bench.sends(A), all);
    assert_eq!(bench.states(), (Rts, Rts));
}

/// What is wrong with a packet that is dropped without a word (IBA 9.6.1): (what, the packet's
/// change, who counts it).
#[test]
fn packets_that_are_not_the_peers_are_dropped() {
    let alien = Gid::from_v4([10, 9, 9, 9]);
    type Change = fn(&mut Vec<u8>);
    let changes: [(&str, Change, Counter); 6] = [
        ("transport version", |bytes| bytes[1] |= 1, Counter::DropBadTransportVersion),
        ("P_Key", |bytes| bytes[3] ^= 1, Counter::DropBadPkey),
        ("queue pair", |bytes| bytes[7] ^= 0x80, Counter::DropUnknownQp),
        ("slot", |bytes| bytes[5] ^= 0x80, Counter::DropUnknownQp),
        ("service UC", |bytes| bytes[0] = bytes[0] & 0x1f | 1 << 5, Counter::DropWrongService),
        ("truncated", |bytes| bytes.truncate(8), Counter::DropMalformed),
    ];
    let mut bench = super::setup().pair();
    bench.recv(B, 7, 0..8);
    let good = Forge::send(Only, 0).count_up(0, 8).bytes(&bench, A);
    let route = bench.route(A);
    for (what, change, counter) in changes {
        let mut bytes = good.clone();
        change(&mut bytes);
        bench.deliver(B, &route, &bytes);
        assert_eq!(bench.count(B, counter), if what == "slot" { 2 } else { 1 }, "{what}");
    }
    let mut wrong_source = route;
    wrong_source.src = alien;
    let mut wrong_destination = route;
    wrong_destination.dst = alien;
    for (counted, route) in [(1, wrong_source), (2, wrong_destination)] {
        bench.deliver(B, &route, &good);
        assert_eq!(bench.count(B, Counter::DropBadSource), counted);
    }
    assert_eq!(bench.frames(), Vec::<String>::new());
    assert_eq!(bench.states(), (Rts, Rts));
    bench.deliver(B, &route, &good);
    assert_eq!(bench.frames(), ["B ACK 0"]);
}

#[test]
fn what_came_before_a_fault_is_answered_first() {
    let mut bench = Setup { mtu: Mtu::B256, ..super::setup() }.pair();
    let (b, before) = (bench.remote(B), bench.word(B, 64));
    bench.recv(B, 7, 0..8);
    bench.post(A, wr(1, b.read(0)).at(1000..1600));
    bench.post(A, wr(2, b.add(64, 1)).at(0..8));
    bench.post(A, wr(3, send()).at(0..8));
    bench.post(A, wr(4, b.write(1 << 40)).at(0..8));
    bench.post(A, wr(5, b.read(0)).at(1000..1600));
    // All arrive at once, and the fault is found before any answer has left.
    let frames = bench.frames();
    let answers: Vec<_> = frames.iter().filter(|text| text.starts_with("B ")).collect();
    let expected = [
        "B RDMA_READ_RESPONSE_FIRST 0",
        "B RDMA_READ_RESPONSE_MIDDLE 1",
        "B RDMA_READ_RESPONSE_LAST 2",
        "B ATOMIC_ACKNOWLEDGE 3",
        "B NAK RemoteAccess 5",
    ];
    assert_eq!(answers, expected);
    let good = [1, 2, 3].map(|id| (id, Success));
    let bad = [(4, RemoteAccessError), (5, WorkRequestFlushed)];
    assert_eq!(bench.sends(A), [&good[..], &bad].concat());
    assert_eq!(bench.recvs(B), [(7, Success)]);
    assert_eq!(bench.word(A, 0), before);
    assert_eq!(bench.states(), (Err, Err));
}

#[test]
fn an_answer_that_cannot_be_given_any_more_is_refused_in_place_of_the_fault_behind_it() {
    let mut bench = super::setup().pair();
    let key = bench.register(B, 0..64, Access::REMOTE_READ);
    let (short, qp) = (Remote { key }, bench.end(B).target);
    bench.post(A, wr(1, short.read(0)).at(1000..1008));
    bench.post(A, wr(2, short.write(0)).at(0..8));
    bench.fabric.step(softrnic_model::Instant::from_ns(1_000));
    bench.device(B).deregister(key).unwrap();
    bench.run();
    assert_eq!(bench.sends(A), [(1, RemoteAccessError), (2, WorkRequestFlushed)]);
    assert_eq!(bench.async_events(B), [AsyncEvent::QpAccessError(qp)], "once");
}

#[test]
fn a_queue_pair_that_its_program_puts_into_error_answers_nothing_more() {
    let mut bench = super::setup().pair();
    let b = bench.remote(B);
    bench.post(A, wr(1, b.read(0)).at(0..8));
    bench.post(A, wr(2, b.write(0)).at(0..8));
    bench.fabric.step(softrnic_model::Instant::from_ns(1_000));
    bench.enter(B, Err);
    assert_eq!(bench.frames(), ["A RDMA_READ_REQUEST 0", "A RDMA_WRITE_ONLY 1"]);
}

/// Of several faults the first counts: the queue pair's rights, how many are open, the key, the
/// range (as measured on hardware).
#[test]
fn the_order_of_judgement() {
    let nowhere = Key(0xdead_0000);
    type Faulty = fn(&mut Bench) -> Forge;
    let cases: [(Faulty, &str); 5] = [
        (
            |bench| {
                allow(bench, Access::empty());
                Forge::write(Only, 0).range(0, Key(0xdead_0000), 8).count_up(0, 8)
            },
            "InvalidRequest",
        ),
        (
            |bench| {
                allow(bench, Access::empty());
                Forge::read(0, 1 << 40, key(bench), 8)
            },
            "InvalidRequest",
        ),
        (|_| Forge::write(Only, 0).range(0, Key(0xdead_0000), 9).count_up(0, 8), "InvalidRequest"),
        (|_| Forge::add(0, 4, Key(0xdead_0000), 1), "InvalidRequest"),
        (|_| Forge::read(0, 1 << 40, Key(0xdead_0000), 8), "RemoteAccess"),
    ];
    for (faulty, nak) in cases {
        let mut bench = super::setup().pair();
        let packet = faulty(&mut bench);
        bench.inject(A, &packet);
        assert_eq!(bench.frames(), [format!("B NAK {nak} 0")], "{packet:?}");
    }
    let mut bench = super::setup().pair();
    for psn in 0..5 {
        let last = if psn == 4 { nowhere } else { key(&bench) };
        bench.inject(A, &Forge::read(psn, 0, last, 8));
    }
    assert_eq!(bench.frames().last().unwrap(), "B NAK InvalidRequest 4");
}
