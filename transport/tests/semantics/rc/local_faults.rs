//! Send requests that fail by themselves: nothing of them leaves, they fail in their turn, and what
//! follows is flushed.

use softrnic_model::protection::RegionSpec;
use softrnic_model::verbs::QpState::{Err, Rts};
use softrnic_model::verbs::WcStatus::{
    self, LocalProtectionError, MwBindError, Success, WorkRequestFlushed,
};
use softrnic_model::verbs::{Access, Key, SendOp, Sge, WindowType};

use crate::bench::{A, B, BASE, Bench, Wr, send, send_imm, wr};

/// Elements that may not be used: (what, the element). The key may only be read.
fn elements(bench: &mut Bench) -> Vec<(&'static str, Sge)> {
    let own = bench.end(A).key;
    let peers = bench.remote(B).key;
    let stale = bench.register(A, 0..64, Access::LOCAL_WRITE);
    bench.device(A).deregister(stale).unwrap();
    let short = bench.register(A, 100..164, Access::LOCAL_WRITE);
    let window = bench.window(A, WindowType::Type2A);
    let memory = bench.end(A).memory;
    let pd = bench.device(A).alloc_pd().unwrap();
    let access = Access::LOCAL_WRITE;
    let spec = RegionSpec { pd, memory, memory_offset: 0, addr: BASE, length: 64, access };
    let foreign = bench.device(A).register(spec).unwrap();
    let element = |addr, length, lkey| Sge { addr, length, lkey };
    vec![
        ("a key that is none", element(BASE, 8, Key(0xdead_0000))),
        ("a key that was one", element(BASE, 8, stale)),
        ("a key of the peer's device", element(BASE, 8, Key(peers.0 | 0xff))),
        ("a key of a window", element(BASE, 8, window)),
        ("a key of another protection domain", element(BASE, 8, foreign)),
        ("a byte past the end", element(BASE + 160, 8, short)),
        ("a byte before the start", element(BASE + 99, 8, short)),
        ("around the end of all addresses", element(u64::MAX - 3, 8, own)),
        ("longer than all memory", element(BASE, u32::MAX / 4, own)),
    ]
}

fn expect_failure(bench: &mut Bench, faulty: Wr, what: &str, status: WcStatus) {
    let b = bench.remote(B);
    bench.post(A, wr(1, b.write(0)).at(0..8).unsignaled());
    bench.post(A, wr(2, b.read(0)).at(8..16));
    bench.post(A, faulty.unsignaled());
    bench.post(A, wr(4, b.write(0)).at(0..8).unsignaled());
    bench.run();
    // Data is judged as it is copied: packets in front of the fault leave, the last one never.
    let frames = bench.tap.take();
    let ends = |text: &&String| text.contains("SEND_LAST") || text.contains("SEND_ONLY");
    assert_eq!(frames.iter().find(ends), None, "{what}: {frames:?}");
    let others = frames.iter().filter(|text| text.starts_with("A ") && !text.contains("SEND_"));
    assert_eq!(others.count(), 2, "{what}: {frames:?}");
    assert_eq!(bench.sends(A), [(2, Success), (3, status), (4, WorkRequestFlushed)], "{what}");
    assert_eq!(bench.states(), (Err, Rts), "{what}");
    assert_eq!((bench.async_events(A), bench.async_events(B)), (vec![], vec![]), "{what}");
}

#[test]
fn elements_that_may_not_be_read() {
    let count = elements(&mut super::setup().pair()).len();
    for at in 0..count {
        for op in 0..2 {
            let mut bench = super::setup().pair();
            let (what, sge) = elements(&mut bench)[at];
            let op = [send(), send_imm(1)][op];
            bench.recv(B, 7, 0..1 << 16);
            // A good element comes first.
            let faulty = wr(3, op).at(0..8).sge(sge.addr, sge.length, sge.lkey);
            expect_failure(&mut bench, faulty, what, LocalProtectionError);
        }
    }
}

#[test]
fn elements_that_may_not_be_written() {
    let count = elements(&mut super::setup().pair()).len();
    for at in 0..=count {
        let mut bench = super::setup().pair();
        let read_only = bench.register(A, 0..64, Access::REMOTE_READ);
        let mut elements = elements(&mut bench);
        elements.push(("no local write", Sge { addr: BASE, length: 8, lkey: read_only }));
        let (what, sge) = elements[at];
        let b = bench.remote(B);
        let faulty = wr(3, b.read(0)).at(0..8).sge(sge.addr, sge.length, sge.lkey);
        expect_failure(&mut bench, faulty, what, LocalProtectionError);
        if sge.length == 8 {
            for op in [b.add(64, 1), b.swap(64, 0, 0)] {
                let mut bench = super::setup().pair();
                let read_only = bench.register(A, 0..64, Access::REMOTE_READ);
                let mut elements = super::local_faults::elements(&mut bench);
                elements.push(("no local write", Sge { addr: BASE, length: 8, lkey: read_only }));
                let sge = elements[at].1;
                let before = bench.word(B, 64);
                let faulty = wr(3, op).sge(sge.addr, sge.length, sge.lkey);
                expect_failure(&mut bench, faulty, what, LocalProtectionError);
                assert_eq!(bench.word(B, 64), before, "{what}: the atomic did not happen");
            }
        }
    }
}

#[test]
fn elements_of_length_0_need_no_key() {
    let mut bench = super::setup().pair();
    let b = bench.remote(B);
    let nothing = |id, op| wr(id, op).sge(u64::MAX, 0, Key(0xdead_beef));
    bench.recv(B, 7, 0..8);
    bench.post(A, nothing(1, send()));
    bench.post(A, nothing(2, b.write(0)).at(0..8));
    bench.post(A, nothing(3, b.read(0)).at(0..8));
    bench.run();
    assert_eq!(bench.sends(A), [(1, Success), (2, Success), (3, Success)]);
}

#[test]
fn inline_data_needs_no_key_and_is_taken_at_once() {
    let mut bench = super::setup().pair();
    let b = bench.remote(B);
    let bytes: Vec<u8> = (0..=255).collect();
    bench.post(A, wr(1, b.write(100)).sge(BASE, 8, Key(0xdead_beef)).inline(&bytes));
    bench.run();
    assert_eq!(bench.sends(A), [(1, Success)]);
    assert_eq!(bench.bytes(B, 100..356), bytes);
}

#[test]
fn binds_and_invalidates_that_fail() {
    type Faulty = fn(&mut Bench) -> Wr;
    let cases: [(&str, Faulty); 6] = [
        ("a window that is none", |bench| {
            wr(3, bench.bind(A, Key(0xdead_0000), Key(0), WindowType::Type2A, 0..8))
        }),
        ("the wrong type", |bench| {
            let window = bench.window(A, WindowType::Type2B);
            wr(3, bench.bind(A, window, window, WindowType::Type2A, 0..8))
        }),
        ("out of range", |bench| {
            let window = bench.window(A, WindowType::Type2A);
            wr(3, bench.bind(A, window, window, WindowType::Type2A, 0..(1 << 16) + 1))
        }),
        ("another protection domain", |bench| {
            let pd = bench.device(A).alloc_pd().unwrap();
            let window = bench.device(A).alloc_mw(pd, WindowType::Type2A).unwrap();
            wr(3, bench.bind(A, window, window, WindowType::Type2A, 0..8))
        }),
        ("invalidating a window that is not bound", |bench| {
            let key = bench.window(A, WindowType::Type2A);
            wr(3, SendOp::LocalInvalidate { key })
        }),
        ("invalidating a region", |bench| {
            let key = bench.end(A).key;
            wr(3, SendOp::LocalInvalidate { key })
        }),
    ];
    for (what, faulty) in cases {
        let mut bench = super::setup().pair();
        let faulty = faulty(&mut bench);
        expect_failure(&mut bench, faulty, what, MwBindError);
    }
}

/// Whoever posts binds of type 2 cannot know which of the earlier ones will be carried out: the index
/// names the window, in whatever order, and through binds that were dropped.
#[test]
fn a_type_2_window_is_named_by_its_index() {
    let mut bench = super::setup().pair();
    let window = bench.window(A, WindowType::Type2B);
    let variant = |n| Key::from_parts(window.index(), n);
    // As if a bind to variant 7 had been refused or never posted.
    let bind =
        |bench: &Bench, new| bench.bind(A, variant(7), variant(new), WindowType::Type2B, 0..8);
    bench.post(A, wr(1, bind(&bench, 9)));
    bench.run();
    bench.post(A, wr(2, SendOp::LocalInvalidate { key: variant(9) }));
    bench.post(A, wr(3, bind(&bench, 11)));
    bench.run();
    assert_eq!(bench.sends(A), [(1, Success), (2, Success), (3, Success)]);
    let present = bench.device(A).protection().query_window(window).map(|(key, ..)| key);
    assert_eq!(present, Some(variant(11)));
}
