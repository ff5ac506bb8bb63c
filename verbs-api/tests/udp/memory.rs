//! Program memory: that goes away, and that is taken back.
#![expect(unsafe_code, reason = "maps memory and takes it away")]

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use softrnic_verbs::buffer::{AccessError, SharedBuffer};
use softrnic_verbs::{Access, AsyncEvent, Mr, QpType, SendFlags, SendOp, SendWr, WcStatus};

use crate::world::{ALL, World, builder, connect, patient, pattern, until};

const PAGES: usize = 16 * 4096;

/// Pages of the program's own, which it can take away.
struct Mapping(NonNull<u8>);

// SAFETY: only its address is used, and what lies there is touched by the device alone.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new() -> Self {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new pages somewhere.
        let base = unsafe { libc::mmap(ptr::null_mut(), PAGES, rights, kind, -1, 0) };
        assert_ne!(base, libc::MAP_FAILED);
        Self(NonNull::new(base.cast()).unwrap())
    }

    fn buffer(&self) -> SharedBuffer {
        // SAFETY: mapped, and used by nothing else; that it goes away is what is tested. The
        // address range stays reserved, so nothing else comes in its place.
        unsafe { SharedBuffer::from_raw_parts(self.0, PAGES, Box::new(())) }
    }

    /// The pages from `offset` on are no memory any more.
    fn take_away(&self, offset: usize) {
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
        // SAFETY: within the mapping that is this one's own.
        let there = unsafe { self.0.as_ptr().add(offset) }.cast();
        let none = libc::PROT_NONE;
        // SAFETY: replaces own pages by none.
        let gone = unsafe { libc::mmap(there, PAGES - offset, none, kind, -1, 0) };
        assert_eq!(gone, there);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: own pages, and no region holds them any more.
        unsafe { libc::munmap(self.0.as_ptr().cast(), PAGES) };
    }
}

#[test]
fn local_memory_that_went_away_fails_the_request() {
    let send = SendOp::Send { imm: None, invalidate: None };
    for (offset, name) in [(0, "all of it"), (4096 * 3, "its end")] {
        let mapping = Mapping::new();
        let world = World::new(QpType::Rc);
        let World { near, far } = &world;
        let gone: Mr = near.pd.register(mapping.buffer(), ALL).unwrap();
        far.qp.recv(1, far.sge(0, 100_000)).unwrap();
        near.post(1, send, gone.sge(0, 40_000));
        near.success();
        far.success();
        mapping.take_away(offset);
        near.post(2, send, gone.sge(0, 40_000));
        near.post(3, send, near.sge(0, 8));
        assert_eq!(near.failure(WcStatus::LocalProtectionError).wr_id, 2, "{name}");
        assert_eq!(near.failure(WcStatus::WorkRequestFlushed).wr_id, 3);
    }
}

#[test]
fn memory_that_went_away_under_a_read_or_a_receive_fails_it() {
    let mapping = Mapping::new();
    let World { near, far } = World::new(QpType::Rc);
    let gone = near.pd.register(mapping.buffer(), ALL).unwrap();
    mapping.take_away(0);
    near.qp.read(1, gone.sge(0, 8), far.mr.remote(0)).unwrap();
    assert_eq!(near.failure(WcStatus::LocalProtectionError).wr_id, 1);

    let mapping = Mapping::new();
    let World { near, far } = World::new(QpType::Rc);
    let gone = far.pd.register(mapping.buffer(), ALL).unwrap();
    far.qp.recv(5, gone.sge(0, 64)).unwrap();
    mapping.take_away(0);
    near.qp.send(1, near.sge(0, 64)).unwrap();
    near.failure(WcStatus::RemoteOperationError);
    assert_eq!(far.failure(WcStatus::LocalProtectionError).wr_id, 5);
}

#[test]
fn remote_memory_that_went_away_is_an_error_at_both_ends() {
    for round in 0..3 {
        let mapping = Mapping::new();
        let World { near, far } = World::new(QpType::Rc);
        let gone = far.pd.register(mapping.buffer(), ALL).unwrap();
        near.qp.write(0, near.sge(0, 8), gone.remote(0)).unwrap();
        near.success();
        mapping.take_away(0);
        match round {
            0 => near.qp.write(1, near.sge(0, 8), gone.remote(0)).unwrap(),
            1 => near.qp.read(1, near.sge(0, 8), gone.remote(0)).unwrap(),
            _ => near.qp.fetch_add(1, near.sge(0, 8), gone.remote(0), 1).unwrap(),
        }
        near.failure(WcStatus::RemoteOperationError);
        while far.event() != AsyncEvent::QpFatal(far.qp.num()) {}
        assert_eq!(gone.buffer().read(0, &mut [0]), Err(AccessError::OutOfRange));
    }
}

#[test]
fn memory_that_is_not_there_is_not_registered() {
    let mapping = Mapping::new();
    let world = World::new(QpType::Rc);
    mapping.take_away(4096);
    let error = world.near.pd.register(mapping.buffer(), ALL).unwrap_err();
    assert_eq!((error.verb, error.source.errno()), ("reg_mr", 14));
}

#[test]
fn after_deregistration_a_peer_that_goes_on_writing_reaches_nothing() {
    const CANARY: u8 = 0xc5;
    let world = World::new(QpType::Rc);
    let World { near, far } = &world;
    for round in 0..10 {
        let qps = [near, far].map(|end| builder(&end.pd, QpType::Rc, &end.cq).build().unwrap());
        connect(&qps[0], &qps[1], &patient());
        let rights = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let target = far.pd.register(pattern(64 * 1024, round), rights).unwrap();
        let (remote_addr, rkey) = (target.remote(0).addr, target.rkey());
        let refused = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let op = SendOp::Write { remote_addr, rkey, imm: None };
                let wr = SendWr {
                    wr_id: 1,
                    op,
                    flags: SendFlags::SIGNALED,
                    sges: &[near.sge(0, 64 * 1024)],
                    ..SendWr::default()
                };
                // Two under way at any time, until the far end refuses.
                qps[0].post_send(&[wr, wr]).unwrap();
                while near.completion().status == WcStatus::Success {
                    qps[0].post_send(&[wr]).unwrap();
                }
                near.failure(WcStatus::WorkRequestFlushed);
                refused.store(true, Ordering::Release);
            });
            until("the writer writes", || {
                let (mut got, own) = ([0; 16], near.bytes(65_520, 16));
                target.buffer().read(65_520, &mut got).unwrap();
                got.as_slice() == own
            });
            // Meet the writer at different points.
            std::thread::sleep(Duration::from_micros(300 * round as u64));
            let buffer = target.into_buffer();
            buffer.fill(CANARY).unwrap();
            let started = Instant::now();
            while !refused.load(Ordering::Acquire) || started.elapsed() < Duration::from_millis(30)
            {
                let bytes = buffer.to_vec().unwrap();
                assert!(bytes.iter().all(|byte| *byte == CANARY), "written after deregistration");
                std::thread::yield_now();
            }
        });
    }
}
