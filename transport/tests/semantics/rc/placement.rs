//! ATOMIC WRITE and FLUSH (annex A19): what they do, in which order, and never twice.

use softrnic_model::counters::Counter;
use softrnic_model::protection::{RegionChanges, RegionSpec};
use softrnic_model::verbs::QpState::Rts;
use softrnic_model::verbs::WcStatus::{
    BadResponseError, LocalQpOperationError, RemoteInvalidRequest, Success,
};
use softrnic_model::verbs::{
    Access, DeviceCapabilities, Placement, Selectivity, SendFlags, SendOp, VerbError, WcOpcode,
};
use softrnic_model::wire::{Feth, Place, Syndrome};
use softrnic_transport::sim::Fate;

use crate::bench::{A, B, BASE, Forge, send, wr};

const GLOBAL: u8 = Feth::GLOBAL_VISIBILITY;

#[test]
fn eight_bytes_are_written_and_answered_without_data() {
    for inline in [false, true] {
        let mut bench = super::setup().pair();
        let op = bench.remote(B).atomic_write(64);
        bench.write(A, 0, &[1, 2, 3, 4, 5, 6, 7, 8]);
        let request = wr(1, op);
        let request =
            if inline { request.inline(&[1, 2, 3, 4, 5, 6, 7, 8]) } else { request.at(0..8) };
        bench.post(A, request);
        assert_eq!(bench.frames(), ["A ATOMIC_WRITE 0", "B RDMA_READ_RESPONSE_ONLY 0"]);
        assert_eq!(bench.bytes(B, 64..72), [1, 2, 3, 4, 5, 6, 7, 8]);
        let sent = bench.sent(A);
        assert_eq!(sent.len(), 1);
        assert_eq!((sent[0].status, sent[0].opcode), (Success, WcOpcode::AtomicWrite));
    }
}

#[test]
fn it_needs_eight_bytes_and_a_flush_none() {
    let mut bench = super::setup().pair();
    let b = bench.remote(B);
    for request in [
        wr(1, b.atomic_write(64)).at(0..4),
        wr(1, b.atomic_write(64)).at(0..8).at(8..16),
        wr(1, b.atomic_write(64)),
        wr(1, b.flush(0, 8)).at(0..8),
    ] {
        let refused = bench.try_post(A, &request);
        assert!(matches!(refused, Err(VerbError::Invalid(_))), "{request:?}");
    }
    // Gathered from two elements is as good as from one.
    bench.post(A, wr(1, b.atomic_write(64)).at(0..3).at(100..105));
    bench.run();
    assert_eq!(bench.bytes(B, 64..67), bench.bytes(A, 0..3));
    assert_eq!(bench.bytes(B, 67..72), bench.bytes(A, 100..105));
}

#[test]
fn a_flush_completes_behind_the_writes_before_it() {
    let mut bench = super::setup().pair();
    let b = bench.remote(B);
    bench.post(A, wr(1, b.write(0)).at(0..5000).unsignaled());
    bench.post(A, wr(2, b.flush(0, 5000)));
    bench.post(A, wr(3, b.write(8000)).at(0..8));
    bench.run();
    let told: Vec<_> = bench.sent(A).iter().map(|wc| (wc.wr_id, wc.status, wc.opcode)).collect();
    assert_eq!(told, [(2, Success, WcOpcode::Flush), (3, Success, WcOpcode::RdmaWrite)]);
    assert_eq!(bench.bytes(B, 0..5000), bench.bytes(A, 0..5000));
}

#[test]
fn of_a_whole_region_the_range_is_not_looked_at() {
    let mut bench = super::setup().pair();
    let rkey = bench.remote(B).key;
    for (remote_addr, length) in [(0, 0), (u64::MAX, u32::MAX), (BASE, 8)] {
        let (placement, selectivity) = (Placement::GLOBAL, Selectivity::Region);
        bench.post(A, wr(1, SendOp::Flush { remote_addr, rkey, length, placement, selectivity }));
        bench.run();
        assert_eq!(bench.sends(A), [(1, Success)], "{remote_addr:#x} {length}");
    }
    let range = bench.remote(B).flush(1 << 16, 0);
    bench.post(A, wr(2, range));
    bench.run();
    assert_eq!(bench.sends(A), [(2, Success)], "no bytes, at the end");
}

#[test]
fn what_comes_again_is_answered_again_and_not_done_again() {
    let mut bench = super::setup().pair();
    let key = bench.remote(B).key;
    for request in
        [Forge::atomic_write(0, 64, key), Forge::flush(1, GLOBAL, Feth::RANGE).range(0, key, 64)]
    {
        bench.inject(A, &request);
        let first = bench.frames();
        assert_eq!(first.len(), 1);
        bench.write(B, 64, &[9; 8]);
        for _ in 0..3 {
            bench.inject(A, &request);
            assert_eq!(bench.frames(), first);
        }
        assert_eq!(bench.bytes(B, 64..72), [9; 8]);
    }
    // Under an old number, but of something else: nobody has seen that.
    for other in [Forge::atomic_write(0, 72, key), Forge::flush(0, GLOBAL, 0).range(0, key, 8)] {
        bench.inject(A, &other);
        assert_eq!(bench.frames(), Vec::<String>::new());
    }
    assert_eq!(bench.count(B, Counter::DropInvalidDuplicate), 2);
    assert_eq!(bench.states(), (Rts, Rts));
}

#[test]
fn a_lost_answer_is_asked_for_again() {
    let mut bench = super::setup().pair();
    let b = bench.remote(B);
    bench.tap.once("B RDMA_READ_RESPONSE_ONLY 0", Fate::Drop);
    bench.post(A, wr(1, b.atomic_write(64)).inline(&[7; 8]));
    bench.run_for(10_000);
    assert_eq!(bench.bytes(B, 64..72), [7; 8]);
    bench.write(B, 64, &[9; 8]);
    bench.run();
    assert_eq!(bench.sends(A), [(1, Success)]);
    assert_eq!(bench.bytes(B, 64..72), [9; 8], "once");
}

#[test]
fn an_acknowledgement_of_what_follows_does_not_stand_for_the_answer() {
    let mut bench = super::setup().pair();
    let b = bench.remote(B);
    bench.recv(B, 7, 0..8);
    bench.tap.once("B RDMA_READ_RESPONSE_ONLY 0", Fate::Drop);
    bench.post(A, wr(1, b.flush(0, 8)));
    bench.post(A, wr(2, send()).at(0..8));
    bench.run();
    assert_eq!(bench.count(A, Counter::ImpliedNak), 1);
    assert_eq!(bench.sends(A), [(1, Success), (2, Success)]);
    assert_eq!(bench.recvs(B), [(7, Success)], "once");
}

#[test]
fn answers_with_data_or_of_another_kind_do_not_fit() {
    for flush in [false, true] {
        let mut bench = super::setup().pair();
        let b = bench.remote(B);
        bench.tap.rule(|seen| if seen.text.starts_with("A ") { Fate::Drop } else { Fate::Pass });
        let request = if flush { wr(1, b.flush(0, 8)) } else { wr(1, b.atomic_write(0)).at(0..8) };
        bench.post(A, request);
        bench.run_for(10_000);
        bench.inject(B, &Forge::atomic_response(0, 5));
        assert_eq!(bench.count(A, Counter::DropUnexpectedResponse), 1);
        bench.inject(B, &Forge::acknowledge(0, Syndrome::ACK));
        assert_eq!(bench.sends(A), [], "that is none");
        bench.inject(B, &Forge::read_response(Place::Only, 0).count_up(0, 8));
        assert_eq!(bench.sends(A), [(1, BadResponseError)]);
    }
}

#[test]
fn they_take_their_place_among_the_reads() {
    let mut bench = super::setup().pair();
    let b = bench.remote(B);
    let ops = [b.read(0), b.flush(0, 8), b.atomic_write(64), b.add(72, 1), b.flush(0, 8)];
    for (id, op) in (0..).zip(ops) {
        let request = wr(id, op);
        bench.post(A, if matches!(op, SendOp::Flush { .. }) { request } else { request.at(0..8) });
    }
    bench.fabric.step(softrnic_model::Instant::from_ns(1));
    let left = bench.tap.take().len();
    assert_eq!(left, 4, "as many as may be open");
    bench.run();
    assert_eq!(bench.sends(A), [0, 1, 2, 3, 4].map(|id| (id, Success)));
    // With no place at all they cannot be carried out.
    let mut setup = super::setup();
    setup.attributes.max_rd_atomic = 0;
    let mut bench = setup.pair();
    bench.post(A, wr(1, b.flush(0, 8)));
    bench.run();
    assert_eq!(bench.sends(A), [(1, LocalQpOperationError)]);
}

#[test]
fn a_fence_waits_for_them() {
    let mut bench = super::setup().pair();
    let b = bench.remote(B);
    bench.post(A, wr(1, b.flush(0, 8)));
    bench.post(A, wr(2, b.write(0)).at(0..8).with_flags(SendFlags::FENCE));
    let frames = bench.frames();
    let expected = ["A FLUSH 0", "B RDMA_READ_RESPONSE_ONLY 0", "A RDMA_WRITE_ONLY 1", "B ACK 1"];
    assert_eq!(frames, expected);
}

#[test]
fn persistence_is_promised_to_nobody() {
    let mut bench = super::setup().pair();
    let can = bench.device(B).query_device().capabilities;
    assert!(can.contains(DeviceCapabilities::FLUSH_GLOBAL | DeviceCapabilities::ATOMIC_WRITE));
    assert!(!can.contains(DeviceCapabilities::FLUSH_PERSISTENT));
    let (pd, memory) = (bench.end(B).pd, bench.end(B).memory);
    let access = Access::LOCAL_WRITE | Access::FLUSH_PERSISTENT;
    let spec = RegionSpec { pd, memory, memory_offset: 0, addr: BASE, length: 64, access };
    let refused = bench.device(B).register(spec);
    assert!(matches!(refused, Err(VerbError::NotSupported(_))));
    let key = bench.end(B).key;
    let changes = RegionChanges { access: Some(access), ..RegionChanges::default() };
    let refused = bench.device(B).reregister(key, changes);
    assert!(matches!(refused, Err(VerbError::NotSupported(_))));
    assert!(bench.device(B).protection().query_region(key).is_some());
}

#[test]
fn a_device_that_cannot_refuses() {
    let mut setup = super::setup();
    setup.device.attributes.capabilities = DeviceCapabilities::empty();
    setup.attributes.access = Access::all();
    for flush in [false, true] {
        let mut bench = setup.pair();
        let b = bench.remote(B);
        let request = if flush { wr(1, b.flush(0, 8)) } else { wr(1, b.atomic_write(0)).at(0..8) };
        bench.post(A, request);
        bench.run();
        assert_eq!(bench.sends(A), [(1, RemoteInvalidRequest)]);
    }
}
