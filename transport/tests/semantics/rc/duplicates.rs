//! Requests that come again, at any age (IBA 9.7.5.1.4): SENDs and WRITEs are acknowledged and not
//! executed again, READs are answered again, atomics with what they found.

use softrnic_model::counters::Counter;
use softrnic_model::verbs::QpState::{Rts, Sqd};
use softrnic_model::verbs::WcStatus::Success;
use softrnic_model::verbs::{Access, Mtu, QpAttributeMask};
use softrnic_model::wire::Place;
use softrnic_transport::sim::Fate;

use crate::bench::{A, B, Bench, Forge, Setup, send, wr};

/// A request of each kind with sequence number `psn`: `[SEND, WRITE, READ, CAS, FAA]`.
fn requests(bench: &Bench, psn: i32) -> [Forge; 5] {
    let key = bench.remote(B).key;
    [
        Forge::send(Place::Only, psn).count_up(1, 8),
        Forge::write(Place::Only, psn).range(100, key, 8).count_up(1, 8),
        Forge::read(psn, 200, key, 8),
        Forge::swap(psn, 400, key, 0, 1),
        Forge::add(psn, 400, key, 1),
    ]
}

#[test]
fn each_kind_is_answered_again_and_not_done_again() {
    for kind in 0..5 {
        let mut bench = super::setup().pair();
        bench.write(B, 400, &0_u64.to_ne_bytes());
        bench.recv(B, 7, 0..8);
        bench.recv(B, 8, 8..16);
        let request = &requests(&bench, 0)[kind];
        bench.inject(A, request);
        let (first, memory) = (bench.frames(), bench.bytes(B, 0..1000));
        assert_eq!(first.len(), 1);
        for _ in 0..5 {
            bench.inject(A, request);
            assert_eq!(bench.frames(), first);
        }
        assert_eq!(bench.bytes(B, 0..1000), memory);
        let received = if kind == 0 { vec![(7, Success)] } else { vec![] };
        assert_eq!(bench.recvs(B), received);
        assert_eq!(bench.count(B, Counter::DuplicateRequest), 5);
        assert_eq!(bench.state(B), Rts);
    }
}

#[test]
fn a_duplicate_write_does_not_undo_what_came_later() {
    let mut bench = super::setup().pair();
    let key = bench.remote(B).key;
    let write = |psn, first| Forge::write(Place::Only, psn).range(0, key, 8).count_up(first, 8);
    bench.inject(A, &write(0, 1));
    bench.inject(A, &write(1, 100));
    bench.inject(A, &write(0, 1));
    assert_eq!(bench.bytes(B, 0..8), (100..108).collect::<Vec<u8>>());
    assert_eq!(bench.frames(), ["B ACK 1"], "everything up to the latest");
}

#[test]
fn duplicates_of_any_age_do_no_harm() {
    // The half of the circle behind the expected number is old.
    for age in [1, 2, 100, 1 << 16, (1 << 22) + 7, (1 << 23) - 1, 1 << 23] {
        for kind in 0..5 {
            let mut bench = super::setup().pair();
            bench.recv(B, 7, 0..8);
            let memory = bench.bytes(B, 0..1000);
            bench.inject(A, &requests(&bench, -age)[kind]);
            let answers = bench.frames();
            // Nobody remembers such READs and atomics.
            let expected = if kind < 2 { vec!["B ACK -1"] } else { vec![] };
            assert_eq!(answers, expected);
            assert_eq!(bench.bytes(B, 0..1000), memory);
            assert_eq!(bench.recvs(B), []);
            let dropped = bench.count(B, Counter::DropInvalidDuplicate);
            assert_eq!(dropped, u64::from(kind >= 2));
            assert_eq!(bench.state(B), Rts);
        }
    }
}

#[test]
fn the_other_half_of_the_circle_is_ahead() {
    let mut bench = super::setup().pair();
    bench.recv(B, 7, 0..8);
    bench.inject(A, &requests(&bench, (1 << 23) - 1)[0]);
    assert_eq!(bench.frames(), ["B NAK PsnSequence 0"]);
}

#[test]
fn as_many_atomics_as_may_be_open_are_remembered() {
    let mut bench = super::setup().pair();
    let key = bench.remote(B).key;
    bench.write(B, 400, &0_u64.to_ne_bytes());
    for psn in 0..6 {
        bench.inject(A, &Forge::add(psn, 400, key, 1));
        bench.frames();
    }
    for psn in 0..6 {
        bench.inject(A, &Forge::add(psn, 400, key, 1));
        let answers = bench.seen();
        let found: Vec<_> =
            answers.iter().map(|a| a.packet().atomic_ack_eth().unwrap().original()).collect();
        let remembered = psn >= 6 - 4;
        assert_eq!(found, if remembered { vec![psn as u64] } else { vec![] });
    }
    assert_eq!(bench.word(B, 400), 6);
}

#[test]
fn a_read_is_answered_again_in_part() {
    let mut bench = Setup { mtu: Mtu::B256, ..super::setup() }.pair();
    let key = bench.remote(B).key;
    bench.inject(A, &Forge::read(0, 1000, key, 1000));
    assert_eq!(bench.frames().len(), 4);
    bench.write(B, 1300, &[9; 8]);
    bench.inject(A, &Forge::read(1, 1256, key, 744));
    let log = bench.seen();
    let texts: Vec<_> = log.iter().map(|seen| seen.text.as_str()).collect();
    let rest = ["B RDMA_READ_RESPONSE_FIRST 1", "B RDMA_READ_RESPONSE_MIDDLE 2"];
    assert_eq!(texts, [&rest[..], &["B RDMA_READ_RESPONSE_LAST 3"]].concat());
    let bytes: Vec<u8> = log.iter().flat_map(|seen| seen.packet().payload.to_vec()).collect();
    assert_eq!(bytes, bench.bytes(B, 1256..2000), "as they are now");
}

#[test]
fn a_read_that_asks_for_other_bytes_under_an_old_number_gets_none() {
    let mut bench = Setup { mtu: Mtu::B256, ..super::setup() }.pair();
    let key = bench.remote(B).key;
    let other = bench.register(B, 0..4096, Access::REMOTE_READ);
    bench.inject(A, &Forge::read(0, 1000, key, 1000));
    bench.frames();
    let others = [
        Forge::read(0, 999, key, 1000),
        Forge::read(0, 1000, key, 1001),
        Forge::read(0, 1000, other, 1000),
        Forge::read(1, 1000, key, 100),
        Forge::read(1, 1256, key, 745),
        Forge::read(3, 1768, key, u32::MAX),
        Forge::read(0, 1000, key, 8).count_up(0, 4),
    ];
    for (dropped, request) in (1..).zip(&others) {
        bench.inject(A, request);
        assert_eq!(bench.frames(), Vec::<String>::new(), "{request:?}");
        assert_eq!(bench.count(B, Counter::DropInvalidDuplicate), dropped);
    }
    assert_eq!(bench.state(B), Rts);
}

#[test]
fn a_repeated_read_whose_right_has_ended_is_dropped() {
    let mut bench = super::setup().pair();
    let key = bench.register(B, 0..4096, Access::REMOTE_READ);
    bench.inject(A, &Forge::read(0, 0, key, 100));
    assert_eq!(bench.frames().len(), 1);
    bench.device(B).deregister(key).unwrap();
    bench.inject(A, &Forge::read(0, 0, key, 100));
    assert_eq!(bench.frames(), Vec::<String>::new());
    assert_eq!(bench.count(B, Counter::DropInvalidDuplicate), 1);
    assert_eq!(bench.state(B), Rts);
}

#[test]
fn repeated_reads_take_no_place_from_new_ones() {
    let mut bench = super::setup().pair();
    let key = bench.remote(B).key;
    for psn in 0..4 {
        bench.inject(A, &Forge::read(psn, 0, key, 100));
    }
    assert_eq!(bench.frames().len(), 4);
    // All come again, and as many new ones, before any answer leaves.
    for psn in 0..8 {
        bench.inject(A, &Forge::read(psn, 0, key, 100));
    }
    assert_eq!(bench.frames().len(), 8);
    assert_eq!(bench.state(B), Rts);
}

#[test]
fn a_change_of_depth_forgets_nothing_that_may_be_asked_for_again() {
    let mut bench = super::setup().pair();
    let b = bench.remote(B);
    let before = bench.word(B, 64);
    bench.tap.once("B ATOMIC_ACKNOWLEDGE 1", Fate::Drop);
    bench.post(A, wr(1, b.add(64, 1)).at(0..8));
    bench.post(A, wr(2, b.add(64, 1)).at(8..16));
    bench.run_for(10_000);
    bench.enter(B, Sqd);
    for depth in [2, 16, 3] {
        bench
            .modify_target(B, QpAttributeMask::MAX_DEST_RD_ATOMIC, |attr| {
                attr.max_dest_rd_atomic = depth;
            })
            .unwrap();
    }
    bench.run();
    assert_eq!(bench.sends(A), [(1, Success), (2, Success)]);
    assert_eq!(bench.word(B, 64), before.wrapping_add(2));
    assert_eq!(bench.word(A, 8), before.wrapping_add(1));
}

#[test]
fn a_lost_acknowledgement_delivers_nothing_twice() {
    let mut bench = Setup { mtu: Mtu::B256, ..super::setup() }.pair();
    bench.recv(B, 7, 0..2000);
    bench.recv(B, 8, 2000..4000);
    bench.tap.once("B ACK 3", Fate::Drop);
    bench.post(A, wr(1, send()).at(0..1000));
    bench.run();
    assert_eq!(bench.sends(A), [(1, Success)]);
    assert_eq!(bench.recvs(B), [(7, Success)]);
    assert_eq!(bench.count(B, Counter::DuplicateRequest), 4);
}

#[test]
fn an_answer_given_again_takes_no_acknowledgement_away() {
    let mut bench = super::setup().pair();
    let key = bench.remote(B).key;
    bench.write(B, 400, &0_u64.to_ne_bytes());
    let (read, add) = (Forge::read(0, 0, key, 8), Forge::add(1, 400, key, 1));
    bench.inject(A, &read);
    bench.inject(A, &add);
    assert_eq!(bench.frames().len(), 2);
    // Before the answer to a new request leaves, old ones come again.
    bench.inject(A, &Forge::write(Place::Only, 2).range(100, key, 8).count_up(0, 8));
    bench.inject(A, &read);
    bench.inject(A, &add);
    let answers = ["B RDMA_READ_RESPONSE_ONLY 0", "B ATOMIC_ACKNOWLEDGE 1", "B ACK 2"];
    assert_eq!(bench.frames(), answers);
}

#[test]
fn an_answer_under_way_begins_again_where_it_is_asked_to() {
    let mut bench = Setup { mtu: Mtu::B256, ..super::setup() }.pair();
    let key = bench.remote(B).key;
    bench.inject(A, &Forge::read(0, 1000, key, 1000));
    // Two packets have left and got lost when the peer asks for all of it once more.
    bench.fill_one(B);
    bench.fill_one(B);
    bench.inject(A, &Forge::read(0, 1000, key, 1000));
    let again = ["FIRST 0", "MIDDLE 1", "MIDDLE 2", "LAST 3"];
    assert_eq!(bench.frames(), again.map(|packet| format!("B RDMA_READ_RESPONSE_{packet}")));
}

#[test]
fn parts_of_a_read_that_touch_are_answered_one_by_one() {
    // Packets 0 and 1, and 2 and 3, in both orders: no byte of one is in the other.
    let halves = [(0, 1000, 512), (2, 1512, 488)];
    for order in [[0, 1], [1, 0]] {
        let mut bench = Setup { mtu: Mtu::B256, ..super::setup() }.pair();
        let key = bench.remote(B).key;
        bench.inject(A, &Forge::read(0, 1000, key, 1000));
        assert_eq!(bench.frames().len(), 4);
        for (psn, at, len) in order.map(|half| halves[half]) {
            bench.inject(A, &Forge::read(psn, at, key, len));
        }
        let of = |psn| [format!("FIRST {psn}"), format!("LAST {}", psn + 1)];
        let answers = order.map(|half| of(halves[half].0)).concat();
        assert_eq!(
            bench.frames(),
            answers
                .iter()
                .map(|packet| format!("B RDMA_READ_RESPONSE_{packet}"))
                .collect::<Vec<_>>()
        );
    }
}
