//! Memory that changes hands while traffic is under way: no access after the verb has returned, a
//! right status for everything that was posted, and nothing twice.

use softrnic_model::protection::{RegionChanges, Translation};
use softrnic_model::verbs::QpState::{Err, Rts};
use softrnic_model::verbs::WcStatus::{
    self, LocalProtectionError, RemoteAccessError, RemoteOperationError, Success,
    WorkRequestFlushed,
};
use softrnic_model::verbs::{Access, AsyncEvent, Key, Mtu, QpType, SendOp, WindowType};
use softrnic_model::wire::Place::{First, Last, Only};
use softrnic_transport::sim::Fate;

use crate::bench::{A, B, BASE, Bench, EndId, Forge, Remote, Setup, send, wr};

/// What happens to a region of [`REGION`] bytes.
#[derive(Clone, Copy, Debug)]
enum Change {
    Deregistered,
    Unmapped,
    /// Its bytes are registered again, elsewhere.
    Moved,
    Shrunk,
    WithoutRights,
    InAnotherDomain,
}

use Change::{Deregistered, InAnotherDomain, Moved, Shrunk, Unmapped, WithoutRights};

const ALL: [Change; 6] = [Deregistered, Unmapped, Moved, Shrunk, WithoutRights, InAnotherDomain];
const REGION: u64 = 4096;

/// A region of its own memory at an end.
fn region(bench: &mut Bench, end: EndId) -> Key {
    bench.new_memory(end, REGION, Access::LOCAL_WRITE | Access::REMOTE)
}

fn change(bench: &mut Bench, end: EndId, key: Key, change: Change) {
    let spec = bench.device(end).protection().query_region(key).unwrap();
    let translation = |addr, length| {
        let (memory, memory_offset) = (spec.memory, 0);
        Some(Translation { memory, memory_offset, addr, length })
    };
    let nothing = RegionChanges::default();
    let changes = match change {
        Deregistered => {
            bench.device(end).deregister(key).unwrap();
            return;
        }
        Unmapped => {
            let host = bench.end(end).host;
            return bench.fabric.host(host).memory.unmap(spec.memory);
        }
        Moved => RegionChanges { translation: translation(BASE + (1 << 30), REGION), ..nothing },
        Shrunk => RegionChanges { translation: translation(BASE, 300), ..nothing },
        WithoutRights => RegionChanges { access: Some(Access::empty()), ..nothing },
        InAnotherDomain => {
            let pd = bench.device(end).alloc_pd().unwrap();
            RegionChanges { pd: Some(pd), ..nothing }
        }
    };
    let new = bench.device(end).reregister(key, changes).unwrap();
    assert_eq!(new != key, changes.translation.is_some(), "the earlier key is stale");
}

/// How a peer is told, and how the owner.
fn refusal(change: Change) -> (WcStatus, fn(softrnic_model::verbs::QpNum) -> AsyncEvent) {
    match change {
        Unmapped => (RemoteOperationError, AsyncEvent::QpFatal),
        Deregistered | Moved | Shrunk | WithoutRights | InAnotherDomain => {
            (RemoteAccessError, AsyncEvent::QpAccessError)
        }
    }
}

fn pair() -> Bench {
    Setup { mtu: Mtu::B256, ..Setup::rc() }.pair()
}

/// What A has posted fails with `status` at its place, and B's queue pair with it.
fn expect_refusal(bench: &mut Bench, how: Change, sends: &[(u64, WcStatus)]) {
    let qp = bench.end(B).qp;
    let (_, event) = refusal(how);
    assert_eq!(bench.sends(A), sends, "{how:?}");
    assert_eq!(bench.async_events(B), [event(qp)], "{how:?}");
    assert_eq!(bench.states(), (Err, Err), "{how:?}");
    bench.run();
    assert_eq!((bench.sends(A), bench.recvs(B)), (vec![], vec![]), "{how:?}");
}

#[test]
// [protection/rereg-translation]
fn the_target_of_a_write_changes_between_its_packets() {
    for how in ALL {
        let mut bench = pair();
        let key = region(&mut bench, B);
        let place = bench.device(B).protection().query_region(key).unwrap().memory;
        let target = Remote { key };
        bench.tap.once("A RDMA_WRITE_MIDDLE 1", Fate::Delay(5_000));
        bench.post(A, wr(1, target.write(0)).at(0..1000));
        bench.post(A, wr(2, send()).at(0..8));
        bench.run_for(2_000);
        let host = bench.end(B).host;
        let before = bench.fabric.host(host).memory.bytes(place);
        assert_eq!(before[..256], bench.bytes(A, 0..256), "the first is placed");
        change(&mut bench, B, key, how);
        bench.run_for(50_000);
        let (status, _) = refusal(how);
        expect_refusal(&mut bench, how, &[(1, status), (2, WorkRequestFlushed)]);
        let after = bench.fabric.host(host).memory.bytes(place);
        assert!(after.is_empty() || after == before, "{how:?}: no byte after the verb");
    }
}

#[test]
fn the_source_of_a_read_changes_before_it_is_answered() {
    for how in ALL {
        let mut bench = pair();
        let key = region(&mut bench, B);
        let source = Remote { key };
        let memory = bench.bytes(A, 0..1000);
        bench.post(A, wr(1, source.read(0)).at(0..1000));
        bench.post(A, wr(2, send()).at(0..8));
        bench.recv(B, 7, 0..8);
        // Both requests arrive; the answer is due but has not left.
        bench.fabric.step(softrnic_model::Instant::from_ns(1_000));
        change(&mut bench, B, key, how);
        bench.run_for(50_000);
        let (status, _) = refusal(how);
        assert_eq!(bench.recvs(B), [(7, Success)], "it was executed before the READ failed");
        expect_refusal(&mut bench, how, &[(1, status), (2, WorkRequestFlushed)]);
        assert_eq!(bench.bytes(A, 0..1000), memory, "{how:?}");
    }
}

#[test]
fn the_source_of_a_read_changes_in_the_middle_of_the_answer() {
    for how in ALL {
        let mut bench = pair();
        let key = region(&mut bench, B);
        let source = Remote { key };
        bench.post(A, wr(1, source.read(0)).at(0..1000));
        bench.fabric.step(softrnic_model::Instant::from_ns(1_000));
        let first = bench.fill_one(B);
        let route = bench.route(B);
        bench.deliver(A, &route, &first);
        change(&mut bench, B, key, how);
        bench.run_for(50_000);
        let (status, _) = refusal(how);
        // 300 bytes reach into the second packet.
        assert_eq!(bench.tap.take().last().unwrap().split(' ').next_back(), Some("1"));
        expect_refusal(&mut bench, how, &[(1, status)]);
    }
}

#[test]
fn a_window_ends_between_the_packets_of_a_write() {
    let mut bench = pair();
    let window_type = WindowType::Type2B;
    let window = bench.window(B, window_type);
    let bind = bench.bind(B, window, window, window_type, 0..4096);
    bench.post(B, wr(1, bind));
    bench.frames();
    bench.inject(A, &Forge::write(First, 0).range(0, window, 300).count_up(1, 256));
    bench.post(B, wr(2, SendOp::LocalInvalidate { key: window }));
    bench.run_for(1);
    let memory = bench.bytes(B, 0..4096);
    bench.inject(A, &Forge::write(Last, 1).count_up(100, 44));
    assert_eq!(bench.frames().last().unwrap(), "B NAK RemoteAccess 1");
    assert_eq!(bench.bytes(B, 0..4096), memory);
    assert_eq!(bench.sends(B), [(1, Success), (2, Success)]);
    assert_eq!(bench.state(B), Err);
}

#[test]
fn the_source_of_a_send_changes_before_it_is_sent_again() {
    for how in ALL {
        let mut bench = pair();
        let key = region(&mut bench, A);
        let b = bench.remote(B);
        bench.tap.once("A SEND_LAST 2", Fate::Drop);
        bench.recv(B, 7, 0..1000);
        bench.post(A, wr(1, b.write(0)).at(0..8));
        bench.post(A, wr(2, send()).sge(BASE, 500, key));
        bench.frames();
        assert_eq!(bench.sends(A), [(1, Success)], "{how:?}");
        change(&mut bench, A, key, how);
        bench.run();
        // Reading its own memory is a right that nobody can take from a program.
        let (status, state) = match how {
            WithoutRights => (Success, Rts),
            Unmapped | Deregistered | Moved | Shrunk | InAnotherDomain => {
                (LocalProtectionError, Err)
            }
        };
        assert_eq!(bench.sends(A), [(2, status)], "{how:?}");
        assert_eq!(bench.states(), (state, Rts));
        assert_eq!(bench.async_events(A), []);
    }
}

#[test]
fn a_request_whose_source_is_gone_fails_once_and_in_its_turn() {
    // All were received, only the acknowledgement was lost. When they are sent again the second
    // cannot be, while the first waits to be acknowledged.
    let mut bench = Setup::rc().pair();
    let key = region(&mut bench, A);
    let b = bench.remote(B);
    bench.tap.once("B ACK 2", Fate::Drop);
    bench.post(A, wr(1, b.write(0)).at(0..8));
    bench.post(A, wr(2, b.write(8)).sge(BASE, 8, key));
    bench.post(A, wr(3, b.write(16)).at(0..8).unsignaled());
    bench.frames();
    bench.device(A).deregister(key).unwrap();
    bench.run();
    let rest = [(2, LocalProtectionError), (3, WorkRequestFlushed)];
    assert_eq!(bench.sends(A), [&[(1, Success)][..], &rest].concat());
    assert_eq!(bench.state(A), Err);
}

#[test]
fn a_refusal_of_a_request_that_has_failed_already_is_no_second_failure() {
    let mut bench = Setup::rc().pair();
    let key = region(&mut bench, A);
    let b = bench.remote(B);
    bench.tap.rule(|_| Fate::Drop);
    bench.post(A, wr(1, b.write(0)).at(0..8));
    bench.post(A, wr(2, b.write(8)).sge(BASE, 8, key));
    bench.frames();
    bench.device(A).deregister(key).unwrap();
    // Sent again after the time-out; the second waits to fail.
    bench.run_for(100_000_000);
    bench.tap.calm();
    let nak = softrnic_model::wire::Syndrome::Nak(softrnic_model::wire::NakCode::RemoteAccess);
    bench.inject(B, &Forge::acknowledge(1, nak));
    bench.run();
    assert_eq!(bench.sends(A), [(1, Success), (2, LocalProtectionError)]);
}

#[test]
fn where_a_read_puts_its_data_changes_before_it_comes() {
    for how in ALL {
        let mut bench = pair();
        let key = region(&mut bench, A);
        let b = bench.remote(B);
        bench.post(A, wr(1, b.read(0)).sge(BASE, 1000, key));
        bench.post(A, wr(2, b.write(0)).at(0..8));
        bench.fabric.send();
        change(&mut bench, A, key, how);
        bench.run();
        let failed = [(1, LocalProtectionError), (2, WorkRequestFlushed)];
        assert_eq!(bench.sends(A), failed, "{how:?}");
        assert_eq!(bench.states(), (Err, Rts), "{how:?}");
    }
}

#[test]
fn where_an_atomic_puts_what_it_found_changes_before_it_comes() {
    for how in [Deregistered, Unmapped, WithoutRights, InAnotherDomain] {
        let mut bench = pair();
        let key = region(&mut bench, A);
        let (b, before) = (bench.remote(B), bench.word(B, 64));
        bench.post(A, wr(1, b.add(64, 1)).sge(BASE, 8, key));
        bench.fabric.send();
        change(&mut bench, A, key, how);
        bench.run();
        assert_eq!(bench.sends(A), [(1, LocalProtectionError)], "{how:?}");
        assert_eq!(bench.word(B, 64), before.wrapping_add(1), "once");
    }
}

#[test]
fn a_receive_changes_between_the_packets_of_its_message() {
    for qp_type in [QpType::Rc, QpType::Uc] {
        for how in ALL {
            let mut bench = Setup { mtu: Mtu::B256, ..Setup::of(qp_type) }.pair();
            let key = region(&mut bench, B);
            bench.try_recv(B, &wr(7, send()).sge(BASE, 1000, key)).unwrap();
            bench.recv(B, 8, 0..8);
            bench.inject(A, &Forge::send(First, 0).count_up(0, 256));
            change(&mut bench, B, key, how);
            bench.inject(A, &Forge::send(Last, 1).count_up(0, 100));
            let flushed = (8, WorkRequestFlushed);
            assert_eq!(bench.recvs(B), [(7, LocalProtectionError), flushed], "{how:?}");
            assert_eq!((bench.async_events(B), bench.state(B)), (vec![], Err), "{how:?}");
            let reliable = qp_type == QpType::Rc;
            let answer = if reliable { vec!["B NAK RemoteOperational 1"] } else { vec![] };
            assert_eq!(bench.frames(), answer);
        }
    }
}

#[test]
fn a_key_that_is_gone_leads_nowhere_even_when_its_index_is_used_again() {
    let mut bench = Setup::rc().pair();
    let old = region(&mut bench, B);
    bench.device(B).deregister(old).unwrap();
    let new: Vec<_> = (0..50).map(|_| region(&mut bench, B)).collect();
    assert!(!new.contains(&old));
    bench.inject(A, &Forge::write(Only, 0).range(0, old, 8).count_up(0, 8));
    assert_eq!(bench.frames(), ["B NAK RemoteAccess 0"]);
}

#[test]
fn a_region_with_a_window_stays() {
    let mut bench = Setup::rc().pair();
    let window_type = WindowType::Type2A;
    let (window, key) = (bench.window(B, window_type), bench.end(B).key);
    let bind = bench.bind(B, window, window, window_type, 0..64);
    bench.post(B, wr(1, bind));
    bench.frames();
    assert!(bench.device(B).deregister(key).is_err());
    bench.recv(B, 7, 0..8);
    bench.inject(A, &Forge::send(Only, 0).invalidate(window).count_up(0, 8));
    bench.device(B).deregister(key).unwrap();
}

#[test]
fn a_duplicate_send_invalidates_nothing() {
    let mut bench = Setup::rc().pair();
    let window_type = WindowType::Type2A;
    let window = bench.window(B, window_type);
    let bind = |bench: &mut Bench, window: Key, id| {
        bench.post(B, wr(id, bench.bind(B, window, window, window_type, 0..64)));
        bench.frames();
        assert_eq!(bench.sends(B), [(id, Success)]);
    };
    bind(&mut bench, window, 1);
    bench.recv(B, 7, 0..8);
    let request = Forge::send(Only, 0).invalidate(window).count_up(0, 8);
    bench.inject(A, &request);
    // Bound anew under the same key, which a program may choose.
    bind(&mut bench, window, 2);
    bench.inject(A, &request);
    bench.inject(A, &Forge::read(1, 0, window, 8));
    assert_eq!(bench.frames(), ["B RDMA_READ_RESPONSE_ONLY 1"]);
}
