//! A target whose program does nothing: its engine answers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use softrnic_verbs::{QpType, SendFlags, SendOp, SendWr};

use crate::world::{World, builder, connect, patient};

#[test]
fn an_idle_target_answers_one_sided_operations() {
    let World { near, far } = World::new(QpType::Rc);
    std::thread::sleep(Duration::from_millis(50));
    let started = Instant::now();
    for round in 0..100 {
        near.qp.write(1, near.sge(round * 64, 64), far.mr.remote(0)).unwrap();
        near.qp.read(2, near.sge(800_000, 64), far.mr.remote(0)).unwrap();
        near.qp.fetch_add(3, near.sge(900_000, 8), far.mr.remote(8192), 1).unwrap();
        for wr_id in 1..=3 {
            assert_eq!(near.success().wr_id, wr_id);
        }
        let at = usize::try_from(round * 64).unwrap();
        assert_eq!(near.bytes(800_000, 64), near.bytes(at, 64));
    }
    // Not one of them waited for a retransmission, which comes after 67 ms.
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
}

/// Raises a flag in the end, also when that is a panic.
struct Raised<'a>(&'a AtomicBool);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_target_that_posts_but_never_polls_answers_all_the_same() {
    let World { near, far } = World::new(QpType::Rc);
    // A second connection that the far end only sends on, without asking for completions.
    let back = [&near, &far].map(|end| builder(&end.pd, QpType::Uc, &end.cq).build().unwrap());
    connect(&back[0], &back[1], &patient());
    let enough = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ends = Raised(&enough);
        scope.spawn(|| {
            let (remote_addr, rkey) = (near.mr.remote(0).addr, near.mr.rkey());
            let op = SendOp::Write { remote_addr, rkey, imm: None };
            let sges = &[far.sge(0, 8)];
            while !enough.load(Ordering::Relaxed) {
                // When the queue is full it is refused, which is fine.
                let flags = SendFlags::empty();
                let _ =
                    back[1].post_send(&[SendWr { wr_id: 0, op, flags, sges, ..SendWr::default() }]);
                // A sleep would be longer than the engine waits for a poll.
                let posted = Instant::now();
                while posted.elapsed() < Duration::from_micros(50) {
                    std::hint::spin_loop();
                }
            }
        });
        let started = Instant::now();
        for _ in 0..100 {
            near.qp.read(2, near.sge(800_000, 64), far.mr.remote(0)).unwrap();
            near.success();
        }
        assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    });
}

#[test]
fn a_program_that_stops_polling_hands_over() {
    let World { near, far } = World::new(QpType::Rc);
    for _ in 0..20 {
        // The far end has just polled, so its engine is relaxed.
        assert!(far.is_idle());
        let started = Instant::now();
        near.qp.read(1, near.sge(0, 64), far.mr.remote(0)).unwrap();
        near.success();
        assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    }
}

#[test]
fn what_a_poll_leaves_owed_is_sent_by_the_engine() {
    let World { near, far } = World::new(QpType::Rc);
    let late = || {
        // The far end has a timer of its own running, so its engine means to sleep until then.
        far.qp.write(1, far.sge(0, 8), near.mr.remote(0)).unwrap();
        far.success();
        std::thread::sleep(Duration::from_millis(3));
        far.qp.recv(2, far.sge(0, 8)).unwrap();
        near.qp.send(3, near.sge(0, 8)).unwrap();
        // It takes the message, and does not poll again; the acknowledgement is still owed.
        assert_eq!(far.success().wr_id, 2);
        let started = Instant::now();
        assert_eq!(near.success().wr_id, 3);
        started.elapsed() > Duration::from_millis(30)
    };
    // On a busy machine some are late all the same.
    let attempt = || (0..60).filter(|_| late()).count();
    assert!((0..5).any(|_| attempt() < 10), "they came when that timer fired");
}
