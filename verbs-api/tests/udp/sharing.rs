//! Many users of one device: threads, queue pairs.

use std::collections::BTreeSet;
use std::sync::Mutex;

use softrnic_verbs::{QpType, RecvWr, SendOp, WcOpcode, emulated};

use crate::world::{End, World, builder, connect, patient};

#[test]
fn two_threads_share_a_device_but_not_a_queue() {
    let (near, far) = emulated::open_pair().unwrap();
    let pairs =
        [3, 4].map(|seed| World::of(QpType::Rc, (near.clone(), far.clone())).reseeded(seed));
    std::thread::scope(|scope| {
        for World { near, far } in &pairs {
            scope.spawn(|| {
                for round in 0..200_u32 {
                    let (from, len) = (round.into(), 1 + round * 37 % 9000);
                    near.qp.write(from, near.sge(from, len), far.mr.remote(7)).unwrap();
                    near.success();
                    let (from, len) = (round as usize, len as usize);
                    assert_eq!(far.bytes(7, len), near.bytes(from, len));
                }
            });
        }
    });
}

impl World {
    fn reseeded(self, seed: usize) -> Self {
        let Self { near, far } = self;
        let bytes = vec![seed.to_le_bytes()[0]; 4096];
        near.mr.buffer().write(0, &bytes).unwrap();
        Self { near, far }
    }
}

#[test]
fn four_threads_share_a_queue_pair_and_a_completion_queue() {
    const EACH: u64 = 200;
    const THREADS: u64 = 4;
    let World { near, far } = World::new(QpType::Rc);
    let seen = Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (near, far, seen) = (&near, &far, &seen);
            scope.spawn(move || {
                for n in 0..EACH {
                    let place = near.sge(8 * (thread * EACH + n), 8);
                    let at = far.mr.remote(4096);
                    near.qp.fetch_add(thread * EACH + n, place, at, 1).unwrap();
                    // Whose completion it is matters not.
                    let completion = near.success();
                    assert_eq!(completion.opcode, WcOpcode::FetchAdd);
                    assert!(seen.lock().unwrap().insert(completion.wr_id), "completed twice");
                }
            });
        }
    });
    assert_eq!(seen.lock().unwrap().len() as u64, THREADS * EACH);
    let first = far.word(4096) - THREADS * EACH;
    let found: BTreeSet<_> =
        (0..THREADS * EACH).map(|n| near.word(8 * usize::try_from(n).unwrap()) - first).collect();
    assert!(found.into_iter().eq(0..THREADS * EACH), "no two found the same");
}

#[test]
fn many_queue_pairs_are_served_alike() {
    const PAIRS: u32 = 300;
    let (near, far) = emulated::open_pair().unwrap();
    let (near, far) = (End::new(near, QpType::Rc, 3), End::new(far, QpType::Rc, 5));
    let pairs: Vec<_> = (0..PAIRS)
        .map(|_| {
            let qp = |end: &End| builder(&end.pd, QpType::Rc, &end.cq).build().unwrap();
            let pair = (qp(&near), qp(&far));
            connect(&pair.0, &pair.1, &patient());
            pair
        })
        .collect();
    for (n, (sends, receives)) in (0_u32..).zip(&pairs) {
        receives.post_recv(&[RecvWr { wr_id: n.into(), sges: &[] }]).unwrap();
        let (remote_addr, rkey) = (far.mr.remote(0).plus((3000 * n).into()).addr, far.mr.rkey());
        let op = SendOp::Write { remote_addr, rkey, imm: Some(n) };
        let flags = softrnic_verbs::SendFlags::SIGNALED;
        let sges = &[near.sge((2000 * n).into(), 3000)];
        let wr = softrnic_verbs::SendWr {
            wr_id: n.into(),
            op,
            flags,
            sges,
            ..softrnic_verbs::SendWr::default()
        };
        sends.post_send(&[wr]).unwrap();
    }
    let mut told = BTreeSet::new();
    for _ in 0..PAIRS {
        near.success();
        let arrived = far.success();
        assert_eq!(arrived.qp_num, pairs[arrived.imm_data as usize].1.num());
        assert!(told.insert(arrived.imm_data));
    }
    for n in 0..PAIRS as usize {
        assert_eq!(far.bytes(3000 * n, 3000), near.bytes(2000 * n, 3000), "pair {n}");
    }
}

#[test]
fn objects_come_and_go_while_others_are_at_work() {
    let (near, far) = emulated::open_pair().unwrap();
    let World { near: busy, far: target } = World::of(QpType::Rc, (near.clone(), far.clone()));
    std::thread::scope(|scope| {
        let churn = scope.spawn(|| {
            for round in 0..40 {
                let World { near, far } = World::of(QpType::Rc, (near.clone(), far.clone()));
                near.qp.write(round, near.sge(0, 5000), far.mr.remote(0)).unwrap();
                if round % 2 == 0 {
                    near.success();
                }
                // Half of them go with a request under way.
            }
        });
        let mut rounds = 0;
        while !churn.is_finished() || rounds < 10 {
            busy.qp.read(rounds, busy.sge(0, 20_000), target.mr.remote(100)).unwrap();
            assert_eq!(busy.success().wr_id, rounds);
            rounds += 1;
        }
        churn.join().unwrap();
    });
    assert!(busy.bytes(0, 20_000) == target.bytes(100, 20_000));
}

#[test]
fn a_device_closes_with_everything_under_way() {
    for _ in 0..5 {
        let World { near, far } = World::new(QpType::Rc);
        for wr_id in 0..20 {
            near.qp.write(wr_id, near.sge(0, 50_000), far.mr.remote(0)).unwrap();
        }
        let watch = far.context.clone();
        drop(near);
        drop(far);
        // The far device is still there, for one handle is.
        watch.port().unwrap();
        assert!(watch.create_cq(1).unwrap().poll_one().unwrap().is_none());
    }
}
