//! Unreliable connections: what is lost is lost, and no more than that (IBA 9.8).

use softrnic_model::counters::Counter;
use softrnic_model::verbs::QpState::{Err, Rts, Sqe};
use softrnic_model::verbs::WcStatus::{LocalProtectionError, Success, WorkRequestFlushed};
use softrnic_model::verbs::{Access, Key, Mtu};
use softrnic_model::wire::Place::{First, Last, Middle, Only};
use softrnic_transport::sim::Fate;

use crate::bench::{A, B, BASE, Bench, Forge, Setup, send, send_imm, wr};

const MTU: usize = 256;

fn pair() -> Bench {
    Setup { mtu: Mtu::B256, ..Setup::uc() }.pair()
}

fn key(bench: &Bench) -> Key {
    bench.remote(B).key
}

#[test]
fn a_lost_packet_costs_its_message_and_no_receive() {
    for lost in ["FIRST 3", "MIDDLE 4", "LAST 5"] {
        let mut bench = pair();
        for id in 0..3 {
            bench.recv(B, 10 + id, 1000 * id..1000 * id + 1000);
            bench.post(A, wr(id, send()).at(1000 * id..1000 * id + 600));
        }
        bench.tap.once(&format!("A SEND_{lost}"), Fate::Drop);
        bench.run();
        assert_eq!(bench.sends(A), [(0, Success), (1, Success), (2, Success)], "nobody knows");
        assert_eq!(bench.recvs(B), [(10, Success), (11, Success)], "{lost}");
        assert_eq!(bench.bytes(B, 0..600), bench.bytes(A, 0..600));
        assert_eq!(bench.bytes(B, 1000..1600), bench.bytes(A, 2000..2600), "the third message");
        assert!(bench.tap.take().iter().all(|text| text.starts_with("A ")), "no answers");
        assert_eq!(bench.states(), (Rts, Rts));
        // The receive that is left serves the next one.
        bench.post(A, wr(3, send()).at(0..8));
        bench.run();
        assert_eq!(bench.recvs(B), [(12, Success)]);
    }
}

#[test]
fn lost_messages_of_one_packet() {
    let mut bench = pair();
    for id in 0..4 {
        bench.recv(B, 10 + id, 8 * id..8 * id + 8);
        bench.post(A, wr(id, send_imm(id as u32)).at(8 * id..8 * id + 8));
    }
    for lost in [0, 2] {
        bench.tap.once(&format!("A SEND_ONLY_WITH_IMMEDIATE {lost}"), Fate::Drop);
    }
    bench.run();
    let got: Vec<_> = bench.received(B).iter().map(|wc| (wc.wr_id, wc.imm_data)).collect();
    assert_eq!(got, [(10, 1), (11, 3)]);
}

#[test]
fn a_write_with_immediate_tells_of_itself_only_when_whole() {
    let mut bench = pair();
    let b = bench.remote(B);
    bench.recv(B, 10, 0..0);
    bench.recv(B, 11, 0..0);
    bench.tap.once("A RDMA_WRITE_MIDDLE 1", Fate::Drop);
    bench.tap.once("A RDMA_WRITE_LAST_WITH_IMMEDIATE 5", Fate::Drop);
    for id in 0..3 {
        bench.post(A, wr(id, b.write_imm(1000 * id, id as u32)).at(0..700));
    }
    bench.run();
    let got: Vec<_> = bench.received(B).iter().map(|wc| (wc.wr_id, wc.imm_data)).collect();
    assert_eq!(got, [(10, 2)]);
    assert_eq!(bench.bytes(B, 2000..2700), bench.bytes(A, 0..700));
    assert_eq!(bench.states(), (Rts, Rts));
}

#[test]
fn a_receive_of_a_broken_message_serves_whatever_needs_one_next() {
    let mut bench = pair();
    let b = bench.remote(B);
    bench.recv(B, 10, 0..1000);
    bench.tap.once("A SEND_LAST 1", Fate::Drop);
    bench.post(A, wr(0, send()).at(0..500));
    bench.post(A, wr(1, b.write_imm(2000, 7)).at(0..8));
    bench.run();
    assert_eq!(bench.recvs(B), [(10, Success)]);
    assert_eq!(bench.count(B, Counter::DropNoReceive), 0);
}

#[test]
fn a_receive_of_a_broken_message_is_flushed_like_all_others() {
    let mut bench = pair();
    bench.recv(B, 10, 0..1000);
    bench.recv(B, 11, 0..1000);
    bench.tap.once("A SEND_LAST 1", Fate::Drop);
    bench.post(A, wr(0, send()).at(0..500));
    bench.run();
    bench.enter(B, Err);
    assert_eq!(bench.recvs(B), [(10, WorkRequestFlushed), (11, WorkRequestFlushed)]);
}

/// A fault, the packets that have it, and who counts the last of them.
type Case = (&'static str, fn(&mut Bench) -> Vec<Forge>, Counter);

#[rustfmt::skip]
const FAULTS: &[Case] = &[
    ("Middle without a First", |_| vec![Forge::send(Middle, 0).count_up(0, MTU)],
        Counter::DropOpcodeSequence),
    ("WRITE Last within a SEND", |_| vec![
        Forge::send(First, 0).count_up(0, MTU), Forge::write(Last, 1).count_up(0, 8)],
        Counter::DropOpcodeSequence),
    ("First shorter than the MTU", |_| vec![Forge::send(First, 0).count_up(0, MTU - 4)],
        Counter::DropTooLong),
    ("Last without data", |_| vec![
        Forge::send(First, 0).count_up(0, MTU), Forge::send(Last, 1)], Counter::DropTooLong),
    ("Only longer than the MTU", |_| vec![Forge::send(Only, 0).count_up(0, MTU + 4)],
        Counter::DropTooLong),
    ("longer than the receive", |_| vec![
        Forge::send(First, 0).count_up(0, MTU), Forge::send(Middle, 1).count_up(0, MTU),
        Forge::send(Last, 2).count_up(0, MTU)], Counter::DropTooLong),
    ("WRITE longer than it says", |bench| vec![
        Forge::write(Only, 0).range(0, key(bench), 7).count_up(0, 8)], Counter::DropTooLong),
    ("WRITE under a key that is none", |_| vec![
        Forge::write(Only, 0).range(0, Key(0xdead_0000), 8).count_up(0, 8)], Counter::DropRefused),
    ("WRITE past the end", |bench| vec![
        Forge::write(Only, 0).range(1 << 16, key(bench), 8).count_up(0, 8)], Counter::DropRefused),
    ("WRITE without the right", |bench| {
        let read_only = bench.register(B, 0..64, Access::REMOTE_READ);
        vec![Forge::write(Only, 0).range(0, read_only, 8).count_up(0, 8)]
    }, Counter::DropRefused),
    ("an opcode that is none", |_| vec![Forge::opcode(0x2c, 0)], Counter::DropUnknownOpcode),
    ("an opcode of RC", |_| vec![Forge::opcode(0x04, 0)], Counter::DropWrongService),
];

#[test]
fn what_is_wrong_is_dropped_and_nothing_else_happens() {
    for (what, packets, counter) in FAULTS {
        let mut bench = pair();
        bench.recv(B, 10, 0..600);
        let packets = packets(&mut bench);
        let memory = bench.bytes(B, 1000..1 << 16);
        for packet in &packets {
            bench.inject(A, packet);
        }
        assert_eq!((bench.dropped(B), bench.count(B, *counter)), (1, 1), "{what}");
        assert_eq!(bench.frames(), Vec::<String>::new(), "{what}");
        assert_eq!((bench.recvs(B), bench.async_events(B)), (vec![], vec![]), "{what}");
        assert_eq!(bench.bytes(B, 1000..1 << 16), memory, "{what}");
        // The next message finds all as it was.
        let psn = packets.len() as i32;
        bench.inject(A, &Forge::send(Only, psn).count_up(0, 8));
        assert_eq!(bench.recvs(B), [(10, Success)], "{what}");
        assert_eq!(bench.states(), (Rts, Rts), "{what}");
    }
}

#[test]
fn the_rest_of_a_message_that_was_given_up_is_dropped() {
    let mut bench = pair();
    bench.recv(B, 10, 0..100);
    bench.inject(A, &Forge::send(First, 0).count_up(0, MTU));
    bench.inject(A, &Forge::send(Middle, 1).count_up(0, MTU));
    bench.inject(A, &Forge::send(Last, 2).count_up(0, 8));
    assert_eq!(bench.dropped(B), 3);
    bench.inject(A, &Forge::send(Only, 3).count_up(0, 8));
    assert_eq!(bench.recvs(B), [(10, Success)]);
}

#[test]
fn without_a_receive_messages_are_dropped_and_writes_are_not() {
    let mut bench = pair();
    let b = bench.remote(B);
    bench.post(A, wr(1, send()).at(0..600));
    bench.post(A, wr(2, b.write(0)).at(0..600));
    bench.post(A, wr(3, b.write_imm(1000, 1)).at(0..8));
    bench.run();
    assert_eq!(bench.count(B, Counter::DropNoReceive), 2);
    assert_eq!(bench.bytes(B, 0..600), bench.bytes(A, 0..600));
    assert_ne!(bench.bytes(B, 1000..1008), bench.bytes(A, 0..8), "without it nothing is placed");
    assert_eq!(bench.states(), (Rts, Rts));
}

#[test]
fn a_receive_that_is_at_fault_itself_fails_with_its_queue_pair() {
    let mut bench = pair();
    let faulty = wr(10, send()).sge(BASE, 8, Key(0xdead_0000));
    bench.try_recv(B, &faulty).unwrap();
    bench.recv(B, 11, 0..8);
    bench.post(A, wr(1, send()).at(0..8));
    bench.run();
    assert_eq!(bench.recvs(B), [(10, LocalProtectionError), (11, WorkRequestFlushed)]);
    assert_eq!(bench.states(), (Rts, Err));
}

#[test]
fn nobody_asks_for_acknowledgements() {
    let mut bench = pair();
    let b = bench.remote(B);
    bench.recv(B, 10, 0..20_000);
    bench.post(A, wr(1, send()).at(0..20_000));
    bench.post(A, wr(2, b.write(0)).at(0..20_000));
    bench.run();
    let log = bench.tap.log();
    assert_eq!(log.len(), 2 * 20_000_usize.div_ceil(MTU));
    assert!(log.iter().all(|seen| !seen.packet().bth.ack_req()));
}

#[test]
fn a_copy_of_a_packet_is_another_packet() {
    let mut bench = pair();
    for id in 0..3 {
        bench.recv(B, 10 + id, 0..1000);
    }
    bench.tap.once("A SEND_ONLY 0", Fate::Duplicate(0));
    bench.tap.once("A SEND_MIDDLE 2", Fate::Duplicate(0));
    bench.post(A, wr(1, send()).at(0..8));
    bench.post(A, wr(2, send()).at(0..600));
    bench.post(A, wr(3, send()).at(0..16));
    bench.run();
    let lengths: Vec<_> = bench.received(B).iter().map(|wc| wc.byte_len).collect();
    assert_eq!(lengths, [8, 8, 16], "a message with a packet twice is broken");
}

#[test]
fn a_send_that_fails_by_itself_stops_sending_and_not_receiving() {
    let mut bench = pair();
    let b = bench.remote(B);
    bench.recv(A, 20, 0..8);
    bench.post(A, wr(1, b.write(0)).at(0..8));
    bench.post(A, wr(2, send()).sge(BASE, 8, Key(0xdead_0000)));
    bench.post(A, wr(3, b.write(0)).at(0..8).unsignaled());
    bench.run();
    let flushed = (3, WorkRequestFlushed);
    assert_eq!(bench.sends(A), [(1, Success), (2, LocalProtectionError), flushed]);
    assert_eq!(bench.states(), (Sqe, Rts));
    bench.post(A, wr(4, b.write(0)).at(0..8));
    assert_eq!(bench.sends(A), [(4, WorkRequestFlushed)]);
    bench.post(B, wr(5, send()).at(0..8));
    bench.run();
    assert_eq!(bench.recvs(A), [(20, Success)]);
    bench.enter(A, Rts);
    bench.post(A, wr(6, b.write(100)).at(100..108));
    bench.run();
    assert_eq!(bench.sends(A), [(6, Success)]);
    assert_eq!(bench.bytes(B, 100..108), bench.bytes(A, 100..108));
}

#[test]
fn a_message_is_done_when_its_last_packet_has_left() {
    let mut bench = pair();
    let b = bench.remote(B);
    bench.post(A, wr(1, b.write(0)).at(0..600));
    for _ in 0..2 {
        bench.fill_one(A);
        assert_eq!(bench.sends(A), []);
    }
    bench.fill_one(A);
    assert_eq!(bench.sends(A), [(1, Success)]);
}
