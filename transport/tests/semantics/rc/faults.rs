//! Requests that the responder refuses: which NAK, what its program is told, what the requester's
//! program is told, and that both ends are in error with everything flushed in order.

use softrnic_model::MemoryId;
use softrnic_model::counters::Counter;
use softrnic_model::protection::RegionSpec;
use softrnic_model::verbs::QpState::Err;
use softrnic_model::verbs::WcStatus::{
    self, LocalLengthError, RemoteAccessError, RemoteInvalidRequest, RemoteOperationError,
    WorkRequestFlushed,
};
use softrnic_model::verbs::{Access, AsyncEvent, Key, Mtu, QpAttributeMask, QpNum};
use softrnic_model::wire::Feth;
use softrnic_model::wire::Place::{First, Last, Middle, Only};
use softrnic_transport::sim::Fate;

use crate::bench::{A, B, BASE, Bench, End, Forge, Setup, send, wr};

const MTU: usize = 256;

/// What the responder's program gets to know.
#[derive(Clone, Copy, Debug)]
enum Told {
    /// An event, and its receives are flushed.
    RequestError,
    AccessError,
    Fatal,
    /// The oldest receive ends with this status, and the others are flushed.
    Receive(WcStatus),
}

/// A fault: what is sent, one packet after the other; how the last one is refused.
struct Case {
    what: &'static str,
    packets: fn(&mut Bench) -> Vec<Forge>,
    told: Told,
    status: WcStatus,
}

const fn case(
    what: &'static str,
    told: Told,
    status: WcStatus,
    packets: fn(&mut Bench) -> Vec<Forge>,
) -> Case {
    Case { what, packets, told, status }
}

/// Refused as invalid, with an event.
const fn invalid(what: &'static str, packets: fn(&mut Bench) -> Vec<Forge>) -> Case {
    case(what, Told::RequestError, RemoteInvalidRequest, packets)
}

/// Refused for want of a right, with an event.
const fn denied(what: &'static str, packets: fn(&mut Bench) -> Vec<Forge>) -> Case {
    case(what, Told::AccessError, RemoteAccessError, packets)
}

/// The key of all of B's memory.
pub(super) fn key(bench: &Bench) -> Key {
    bench.remote(B).key
}

pub(super) fn allow(bench: &mut Bench, access: Access) {
    bench.modify_target(B, QpAttributeMask::ACCESS_FLAGS, |attr| attr.access = access).unwrap();
}

/// A region of B whose memory is gone.
pub(super) fn gone(bench: &mut Bench) -> Key {
    let host = bench.end(B).host;
    let memory = bench.fabric.host(host).memory.add(vec![0; 4096]);
    let key = region_of(bench, memory, 0);
    bench.fabric.host(host).memory.unmap(memory);
    key
}

fn region_of(bench: &mut Bench, memory: MemoryId, memory_offset: u64) -> Key {
    let pd = bench.end(B).pd;
    let access = Access::LOCAL_WRITE | Access::REMOTE;
    let spec = RegionSpec { pd, memory, memory_offset, addr: BASE, length: 4000, access };
    bench.device(B).register(spec).unwrap()
}

#[rustfmt::skip]
const SEQUENCE: &[Case] = &[
    invalid("SEND Middle without a First", |_| vec![Forge::send(Middle, 0).count_up(0, MTU)]),
    invalid("SEND Last without a First", |_| vec![Forge::send(Last, 0).count_up(0, 8)]),
    invalid("WRITE Middle without a First", |_| vec![Forge::write(Middle, 0).count_up(0, MTU)]),
    invalid("WRITE Last without a First", |_| vec![Forge::write(Last, 0).count_up(0, 8)]),
    invalid("SEND First within a SEND", |_| vec![
        Forge::send(First, 0).count_up(0, MTU), Forge::send(First, 1).count_up(0, MTU)]),
    invalid("SEND Only within a SEND", |_| vec![
        Forge::send(First, 0).count_up(0, MTU), Forge::send(Only, 1).count_up(0, 8)]),
    invalid("WRITE Last within a SEND", |_| vec![
        Forge::send(First, 0).count_up(0, MTU), Forge::write(Last, 1).count_up(0, 8)]),
    invalid("SEND Last within a WRITE", |bench| vec![
        Forge::write(First, 0).range(0, key(bench), 300).count_up(0, MTU),
        Forge::send(Last, 1).count_up(0, 44)]),
    invalid("READ within a SEND", |bench| vec![
        Forge::send(First, 0).count_up(0, MTU), Forge::read(1, 0, key(bench), 8)]),
    invalid("FETCH_ADD within a WRITE", |bench| vec![
        Forge::write(First, 0).range(0, key(bench), 300).count_up(0, MTU),
        Forge::add(1, 0, key(bench), 8)]),
];

#[rustfmt::skip]
const OPCODES: &[Case] = &[
    invalid("reserved opcode 0x15", |_| vec![Forge::opcode(0x15, 0)]),
    invalid("reserved opcode 0x18", |_| vec![Forge::opcode(0x18, 0).count_up(0, 64)]),
    invalid("reserved opcode 0x1f", |_| vec![Forge::opcode(0x1f, 0).count_up(0, 5)]),
    invalid("FLUSH towards nothing", |bench| vec![
        Forge::flush(0, 0, Feth::RANGE).range(0, key(bench), 8)]),
    invalid("FLUSH towards a placement that does not exist", |bench| vec![
        Forge::flush(0, 5, Feth::RANGE).range(0, key(bench), 8)]),
    invalid("FLUSH of what cannot be selected", |bench| vec![
        Forge::flush(0, Feth::GLOBAL_VISIBILITY, 2).range(0, key(bench), 8)]),
    invalid("FLUSH towards persistence, which is not promised", |bench| {
        allow(bench, Access::all());
        vec![Forge::flush(0, Feth::PERSISTENCE, Feth::RANGE).range(0, key(bench), 8)]
    }),
    invalid("FLUSH towards both", |bench| {
        allow(bench, Access::all());
        vec![Forge::flush(0, 3, Feth::RANGE).range(0, key(bench), 8)]
    }),
    invalid("FLUSH that the queue pair does not allow", |bench| {
        allow(bench, Access::REMOTE);
        vec![Forge::flush(0, Feth::GLOBAL_VISIBILITY, Feth::REGION).range(0, key(bench), 8)]
    }),
    invalid("more FLUSHes than may be open", |bench| (0..5).map(|psn|
        Forge::flush(psn, Feth::GLOBAL_VISIBILITY, Feth::RANGE).range(0, key(bench), 8)).collect()),
    invalid("ATOMIC WRITE that the queue pair does not allow", |bench| {
        allow(bench, Access::REMOTE_READ | Access::REMOTE_ATOMIC);
        vec![Forge::atomic_write(0, 0, key(bench))]
    }),
    invalid("more ATOMIC WRITEs than may be open", |bench| (0..5)
        .map(|psn| Forge::atomic_write(psn, 0, key(bench))).collect()),
    invalid("ATOMIC WRITE at an address that is no multiple of 8", |bench| vec![
        Forge::atomic_write(0, 4, key(bench))]),
    invalid("FLUSH within a SEND", |bench| vec![
        Forge::send(First, 0).count_up(0, MTU),
        Forge::flush(1, Feth::GLOBAL_VISIBILITY, Feth::RANGE).range(0, key(bench), 8)]),
    invalid("WRITE that the queue pair does not allow", |bench| {
        allow(bench, Access::REMOTE_READ | Access::REMOTE_ATOMIC);
        vec![Forge::write(Only, 0).range(0, key(bench), 8).count_up(0, 8)]
    }),
    invalid("READ that the queue pair does not allow", |bench| {
        allow(bench, Access::REMOTE_WRITE | Access::REMOTE_ATOMIC);
        vec![Forge::read(0, 0, key(bench), 8)]
    }),
    invalid("atomic that the queue pair does not allow", |bench| {
        allow(bench, Access::REMOTE_WRITE | Access::REMOTE_READ);
        vec![Forge::add(0, 0, key(bench), 8)]
    }),
    invalid("more READs than may be open", |bench| (0..5)
        .map(|psn| Forge::read(psn, 0, key(bench), 8)).collect()),
    invalid("more atomics than may be open", |bench| (0..5)
        .map(|psn| Forge::add(psn, 0, key(bench), 8)).collect()),
    invalid("atomic at an address that is no multiple of 8", |bench| vec![
        Forge::swap(0, 4, key(bench), 0, 0)]),
];

#[rustfmt::skip]
const LENGTHS: &[Case] = &[
    invalid("SEND First shorter than the MTU", |_| vec![Forge::send(First, 0).count_up(0, MTU - 4)]),
    invalid("SEND First longer than the MTU", |_| vec![Forge::send(First, 0).count_up(0, MTU + 4)]),
    invalid("SEND First with a pad", |_| vec![Forge::send(First, 0).count_up(0, MTU - 1)]),
    invalid("SEND Middle shorter than the MTU", |_| vec![
        Forge::send(First, 0).count_up(0, MTU), Forge::send(Middle, 1).count_up(0, 8)]),
    invalid("SEND Last without data", |_| vec![
        Forge::send(First, 0).count_up(0, MTU), Forge::send(Last, 1)]),
    invalid("SEND Last longer than the MTU", |_| vec![
        Forge::send(First, 0).count_up(0, MTU), Forge::send(Last, 1).count_up(0, MTU + 1)]),
    invalid("SEND Only longer than the MTU", |_| vec![Forge::send(Only, 0).count_up(0, MTU + 1)]),
    invalid("WRITE Only shorter than it says", |bench| vec![
        Forge::write(Only, 0).range(0, key(bench), 9).count_up(0, 8)]),
    invalid("WRITE Only longer than it says", |bench| vec![
        Forge::write(Only, 0).range(0, key(bench), 7).count_up(0, 8)]),
    invalid("WRITE Only that says 0", |bench| vec![
        Forge::write(Only, 0).range(0, key(bench), 0).count_up(0, 8)]),
    invalid("WRITE First of a message of one packet", |bench| vec![
        Forge::write(First, 0).range(0, key(bench), MTU as u32).count_up(0, MTU)]),
    invalid("WRITE Middle that ends the message", |bench| vec![
        Forge::write(First, 0).range(0, key(bench), 512).count_up(0, MTU),
        Forge::write(Middle, 1).count_up(0, MTU)]),
    invalid("WRITE Last that leaves bytes out", |bench| vec![
        Forge::write(First, 0).range(0, key(bench), 512).count_up(0, MTU),
        Forge::write(Last, 1).count_up(0, MTU - 1)]),
    invalid("WRITE Last that brings too many", |bench| vec![
        Forge::write(First, 0).range(0, key(bench), 300).count_up(0, MTU),
        Forge::write(Last, 1).count_up(0, 45)]),
    invalid("WRITE of more than 2^31", |bench| vec![
        Forge::write(First, 0).range(0, key(bench), (1 << 31) + 1).count_up(0, MTU)]),
    invalid("READ of more than 2^31", |bench| vec![
        Forge::read(0, 0, key(bench), (1 << 31) + 1)]),
    invalid("READ of 2^32 - 1", |bench| vec![Forge::read(0, 0, key(bench), u32::MAX)]),
    invalid("READ with data", |bench| vec![Forge::read(0, 0, key(bench), 8).count_up(0, 4)]),
    invalid("atomic with data", |bench| vec![Forge::add(0, 0, key(bench), 8).count_up(0, 4)]),
    invalid("ATOMIC WRITE of 4 bytes", |bench| vec![
        Forge::atomic_write(0, 0, key(bench)).range(0, key(bench), 4).count_up(0, 4)]),
    invalid("ATOMIC WRITE that says 16", |bench| vec![
        Forge::atomic_write(0, 0, key(bench)).range(0, key(bench), 16)]),
    invalid("ATOMIC WRITE of 16 bytes that says 8", |bench| vec![
        Forge::atomic_write(0, 0, key(bench)).count_up(0, 16)]),
    invalid("FLUSH with data", |bench| vec![
        Forge::flush(0, Feth::GLOBAL_VISIBILITY, Feth::RANGE).range(0, key(bench), 8)
            .count_up(0, 4)]),
    case("SEND longer than the receive", Told::Receive(LocalLengthError), RemoteInvalidRequest,
        |_| vec![Forge::send(Only, 0).count_up(0, 8), Forge::send(Only, 1).count_up(0, 101)]),
    case("SEND longer than the receive at its end", Told::Receive(LocalLengthError),
        RemoteInvalidRequest,
        |_| vec![Forge::send(First, 0).count_up(0, MTU), Forge::send(Last, 1).count_up(0, 145)]),
];

#[rustfmt::skip]
const ACCESS: &[Case] = &[
    denied("WRITE under a key that is none", |_| vec![
        Forge::write(Only, 0).range(0, Key(0xdead_0000), 8).count_up(0, 8)]),
    denied("READ under a key that is none", |_| vec![Forge::read(0, 0, Key(0xdead_0000), 8)]),
    denied("atomic under a key that is none", |_| vec![Forge::add(0, 0, Key(0xdead_0000), 8)]),
    denied("ATOMIC WRITE under a key that is none", |_| vec![
        Forge::atomic_write(0, 0, Key(0xdead_0000))]),
    denied("ATOMIC WRITE past the end", |bench| vec![
        Forge::atomic_write(0, 1 << 16, key(bench))]),
    denied("ATOMIC WRITE without the right", |bench| {
        let read_only = bench.register(B, 0..64, Access::REMOTE_READ | Access::FLUSH_GLOBAL);
        vec![Forge::atomic_write(0, 0, read_only)]
    }),
    denied("FLUSH of no bytes under a key that is none", |_| vec![
        Forge::flush(0, Feth::GLOBAL_VISIBILITY, Feth::RANGE).range(0, Key(0xdead_0000), 0)]),
    denied("FLUSH of a region under a key that is none", |_| vec![
        Forge::flush(0, Feth::GLOBAL_VISIBILITY, Feth::REGION).range(0, Key(0xdead_0000), 0)]),
    denied("FLUSH past the end", |bench| vec![
        Forge::flush(0, Feth::GLOBAL_VISIBILITY, Feth::RANGE).range(8, key(bench), 1 << 16)]),
    denied("FLUSH without the right", |bench| {
        let plain = bench.register(B, 0..64, Access::LOCAL_WRITE | Access::REMOTE);
        vec![Forge::flush(0, Feth::GLOBAL_VISIBILITY, Feth::REGION).range(0, plain, 8)]
    }),
    denied("WRITE under a key that was one", |bench| {
        let stale = bench.register(B, 0..64, Access::LOCAL_WRITE | Access::REMOTE);
        bench.device(B).deregister(stale).unwrap();
        vec![Forge::write(Only, 0).range(0, stale, 8).count_up(0, 8)]
    }),
    denied("WRITE one byte past the end", |bench| vec![
        Forge::write(Only, 0).range((1 << 16) - 7, key(bench), 8).count_up(0, 8)]),
    denied("WRITE one byte before the start", |bench| vec![
        Forge::write(Only, 0).reth(BASE - 1, key(bench), 8).count_up(0, 8)]),
    denied("WRITE around the end of all addresses", |bench| vec![
        Forge::write(Only, 0).reth(u64::MAX - 3, key(bench), 8).count_up(0, 8)]),
    denied("WRITE whose first packet alone is in range", |bench| vec![
        Forge::write(First, 0).range((1 << 16) - 256, key(bench), 300).count_up(0, MTU)]),
    denied("READ one byte past the end", |bench| vec![
        Forge::read(0, 0, key(bench), (1 << 16) + 1)]),
    denied("READ around the end of all addresses", |bench| vec![
        Forge::read(0, 0, key(bench), 8).reth(u64::MAX - 3, key(bench), 8)]),
    denied("atomic past the end", |bench| vec![Forge::add(0, 1 << 16, key(bench), 8)]),
    denied("WRITE without the right", |bench| {
        let read_only = bench.register(B, 0..64, Access::REMOTE_READ);
        vec![Forge::write(Only, 0).range(0, read_only, 8).count_up(0, 8)]
    }),
    denied("READ without the right", |bench| {
        let write_only = bench.register(B, 0..64, Access::LOCAL_WRITE | Access::REMOTE_WRITE);
        vec![Forge::read(0, 0, write_only, 8)]
    }),
    denied("atomic without the right", |bench| {
        let rights = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
        let no_atomics = bench.register(B, 0..64, rights);
        vec![Forge::swap(0, 0, no_atomics, 0, 0)]
    }),
    denied("WRITE under a key of another protection domain", |bench| {
        let pd = bench.device(B).alloc_pd().unwrap();
        let memory = bench.end(B).memory;
        let access = Access::LOCAL_WRITE | Access::REMOTE;
        let spec = RegionSpec { pd, memory, memory_offset: 0, addr: BASE, length: 64, access };
        let foreign = bench.device(B).register(spec).unwrap();
        vec![Forge::write(Only, 0).range(0, foreign, 8).count_up(0, 8)]
    }),
    denied("SEND that invalidates a region", |bench| vec![
        Forge::send(Only, 0).invalidate(key(bench)).count_up(0, 8)]),
    denied("SEND that invalidates nothing", |_| vec![
        Forge::send(Only, 0).invalidate(Key(0xdead_0000)).count_up(0, 8)]),
];

#[rustfmt::skip]
const MEMORY: &[Case] = &[
    case("WRITE to memory that is gone", Told::Fatal, RemoteOperationError, |bench| {
        let key = gone(bench);
        vec![Forge::write(Only, 0).range(0, key, 8).count_up(0, 8)]
    }),
    case("ATOMIC WRITE to memory that is gone", Told::Fatal, RemoteOperationError, |bench| {
        let key = gone(bench);
        vec![Forge::atomic_write(0, 0, key)]
    }),
    case("READ of memory that is gone", Told::Fatal, RemoteOperationError, |bench| {
        let key = gone(bench);
        vec![Forge::read(0, 0, key, 8)]
    }),
    case("atomic on memory that is gone", Told::Fatal, RemoteOperationError, |bench| {
        let key = gone(bench);
        vec![Forge::add(0, 0, key, 8)]
    }),
    case("atomic on memory that the host cannot align", Told::Fatal, RemoteOperationError,
        |bench| {
            let memory = bench.end(B).memory;
            let key = region_of(bench, memory, 4);
            vec![Forge::add(0, 0, key, 8)]
        }),
];

/// Runs a case. A posts a request that never arrives; the packets of the case arrive in its place.
fn check(case: &Case) {
    let what = case.what;
    let mut bench = Setup { mtu: Mtu::B256, ..super::setup() }.pair();
    bench.recv(B, 7, 0..400);
    bench.recv(B, 8, 400..500);
    let packets = (case.packets)(&mut bench);
    bench.tap.rule(|seen| if seen.text.starts_with("A ") { Fate::Drop } else { Fate::Pass });
    for id in 0..packets.len() as u64 {
        bench.post(A, wr(id, send()).inline(&[0; 8]));
    }
    bench.post(A, wr(100, send()).inline(&[0; 8]).unsignaled());
    bench.frames();
    let memory = bench.bytes(B, 1000..1 << 16);
    for packet in &packets {
        bench.inject(A, packet);
    }
    let last = packets.len() as u64 - 1;
    let answers = bench.frames();
    let nak = if case.status == RemoteInvalidRequest {
        "InvalidRequest"
    } else if case.status == RemoteAccessError {
        "RemoteAccess"
    } else {
        "RemoteOperational"
    };
    assert_eq!(answers.last().unwrap(), &format!("B NAK {nak} {last}"), "{what}");
    assert_eq!(bench.states(), (Err, Err), "{what}");
    judge_requester(&mut bench, case, last);
    judge_responder(&mut bench, case);
    assert_eq!(bench.bytes(B, 1000..1 << 16), memory, "{what}: nothing else was touched");
    // Nothing more comes of it, nor of what the peer sends now.
    bench.inject(A, &Forge::send(Only, last as i32 + 1).count_up(0, 8));
    bench.run();
    assert_eq!((bench.tap.take().len(), bench.sends(A).len()), (0, 0), "{what}");
    assert_eq!(bench.count(B, Counter::DropQpState), 1, "{what}");
}

fn judge_requester(bench: &mut Bench, case: &Case, last: u64) {
    let sends = bench.sends(A);
    let failed: Vec<_> = sends.iter().skip(last as usize).copied().collect();
    // READs cannot be told from SENDs by what is missing: then the first one fails.
    let expected = [(last, case.status), (100, WorkRequestFlushed)];
    assert_eq!(failed, expected, "{}: {sends:?}", case.what);
    assert_eq!(bench.async_events(A), [], "{}: the completion says it", case.what);
}

fn judge_responder(bench: &mut Bench, case: &Case) {
    let End { target, srq, .. } = bench.end(B);
    let event = event(case.told, target);
    assert_eq!(bench.async_events(B), event.into_iter().collect::<Vec<_>>(), "{}", case.what);
    let mut recvs = bench.recvs(B);
    recvs.retain(|(_, status)| *status != WcStatus::Success);
    if let Told::Receive(status) = case.told {
        assert_eq!(recvs.remove(0).1, status, "{}", case.what);
    }
    assert!(recvs.iter().all(|(_, status)| *status == WorkRequestFlushed), "{}", case.what);
    assert!(recvs.windows(2).all(|pair| pair[0].0 < pair[1].0), "{}: {recvs:?}", case.what);
    if srq.is_some() {
        assert!(recvs.len() <= 1, "{}: but for the one that was being filled", case.what);
        return; // a shared queue lives on
    }
    assert!(bench.try_recv(B, &wr(50, send()).at(0..8)).is_ok());
    assert_eq!(bench.recvs(B), [(50, WorkRequestFlushed)], "{}: posted too late", case.what);
}

fn event(told: Told, qp: QpNum) -> Option<AsyncEvent> {
    match told {
        Told::RequestError => Some(AsyncEvent::QpRequestError(qp)),
        Told::AccessError => Some(AsyncEvent::QpAccessError(qp)),
        Told::Fatal => Some(AsyncEvent::QpFatal(qp)),
        Told::Receive(_) => None,
    }
}

#[test]
fn wrong_order_of_packets() {
    SEQUENCE.iter().for_each(check);
}

#[test]
fn operations_that_are_not_there_or_not_allowed() {
    OPCODES.iter().for_each(check);
}

#[test]
fn wrong_lengths() {
    LENGTHS.iter().for_each(check);
}

#[test]
fn wrong_keys_ranges_and_rights() {
    ACCESS.iter().for_each(check);
}

#[test]
// [protection/memory-gone]
fn memory_that_is_gone() {
    MEMORY.iter().for_each(check);
}
