//! A program that does anything at any time, and a network that does the same. Whatever is posted
//! completes once at most, and what is destroyed says nothing any more.

use std::collections::BTreeSet;

use softrnic_model::verbs::{
    Access, AhId, CqId, Key, PdId, QpAttributeMask, QpNum, QpState, QpType, SrqId, WcStatus,
};

use crate::bench::{A, B, Bench, EndId, Remote, Rng, Setup, Weather, send, send_invalidate, wr};

use super::frames::Frames;
use super::{ROUND, rounds};

struct Chaos {
    bench: Bench,
    setup: Setup,
    /// By end: what was posted to its queue pair and has not completed.
    sends: Vec<BTreeSet<u64>>,
    receives: Vec<BTreeSet<u64>>,
    ids: u64,
    keys: Vec<Key>,
}

impl Chaos {
    fn new(rng: &mut Rng) -> Self {
        let mut setup = match rng.below(3) {
            0 => Setup::uc(),
            _ => Setup::rc(),
        };
        setup.mtu = softrnic_model::verbs::Mtu::B256;
        setup.memory = 1 << 13;
        setup.attributes.timeout = 5;
        setup.attributes.rnr_retry = rng.below(8) as u8;
        setup.attributes.min_rnr_timer = 1;
        setup.attributes.retry_count = rng.below(8) as u8;
        (setup.cap.max_send_wr, setup.cap.max_recv_wr) = (8, 8);
        setup.cqe = 8 + rng.below(60) as u32;
        let bench = setup.pair();
        bench.tap.silence();
        if rng.chance(50) {
            bench.tap.rule(Weather::drawn(rng).rule());
        }
        let keys = vec![bench.remote(A).key, bench.remote(B).key, Key(0)];
        Self {
            bench,
            setup,
            sends: vec![BTreeSet::new(); 2],
            receives: vec![BTreeSet::new(); 2],
            ids: 0,
            keys,
        }
    }

    fn id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    fn step(&mut self, rng: &mut Rng) {
        let end = *rng.pick(&[A, B]);
        match rng.below(20) {
            0..6 => self.post(rng, end),
            6..9 => self.receive(rng, end),
            9..12 => self.bench.run_for(rng.below(3_000)),
            12 => self.bench.run_for(rng.below(3_000_000)),
            13..15 => self.poll(end),
            15 => self.modify(rng, end),
            16 => self.objects(rng, end),
            17 => self.nonsense(rng, end),
            18 => self.revive(rng),
            _ => {
                self.bench.fabric.send();
            }
        }
    }

    fn post(&mut self, rng: &mut Rng, end: EndId) {
        let key = *rng.pick(&self.keys);
        let remote = Remote { key };
        let at = rng.below(8192);
        let op = match rng.below(8) {
            0..3 => send(),
            3 => remote.write(at),
            4 => remote.write_imm(at, 1),
            5 => remote.read(at),
            6 => remote.add(at / 8 * 8, 1),
            _ => send_invalidate(key),
        };
        let (start, len) = (rng.below(8000), rng.below(900));
        let id = self.id();
        let len = if rng.chance(50) { 8 } else { len };
        let mut request = wr(id, op).at(start..start + len);
        if rng.chance(30) {
            request = request.unsignaled();
        }
        if self.bench.try_post(end, &request).is_ok() {
            self.sends[end.0].insert(id);
        }
    }

    fn receive(&mut self, rng: &mut Rng, end: EndId) {
        let id = self.id();
        let (start, len) = (rng.below(8000), rng.below(1200));
        if self.bench.try_recv(end, &wr(id, send()).at(start..start + len)).is_ok() {
            self.receives[end.0].insert(id);
        }
    }

    fn poll(&mut self, end: EndId) {
        let qp = self.bench.end(end).qp;
        for wc in self.bench.sent(end) {
            assert_eq!(wc.qp_num, qp);
            assert!(self.sends[end.0].remove(&wc.wr_id), "{wc:?} completes twice");
            // Those before it that were not signalled are done as well.
            let later = self.sends[end.0].split_off(&wc.wr_id);
            self.sends[end.0] = later;
        }
        for wc in self.bench.received(end) {
            assert_eq!(wc.qp_num, qp);
            let first = self.receives[end.0].pop_first();
            assert_eq!(first, Some(wc.wr_id), "receives complete in order, and once: {wc:?}");
        }
    }

    fn modify(&mut self, rng: &mut Rng, end: EndId) {
        let state = *rng.pick(&QpState::ALL);
        let before = self.bench.state(end);
        let mask = QpAttributeMask::from_bits_truncate(rng.next() as u32 & rng.next() as u32);
        let noise = rng.chance(30);
        let mask = if noise { mask } else { QpAttributeMask::STATE };
        let depth = rng.below(17) as u8;
        let changed = self.bench.modify(end, mask, |attr| {
            attr.state = state;
            attr.max_dest_rd_atomic = depth;
        });
        if changed.is_ok() && mask.contains(QpAttributeMask::STATE) && state == QpState::Reset {
            self.forget(end);
        }
        if changed.is_err() {
            assert_eq!(self.bench.state(end), before);
        }
    }

    /// A reset or destruction drops what was posted, and the completions.
    fn forget(&mut self, end: EndId) {
        self.sends[end.0].clear();
        self.receives[end.0].clear();
    }

    fn objects(&mut self, rng: &mut Rng, end: EndId) {
        match rng.below(4) {
            0 => {
                let key = self.bench.register(end, 0..4096, Access::LOCAL_WRITE | Access::REMOTE);
                self.keys.push(key);
            }
            1 if self.keys.len() > 3 => {
                let key = self.keys.pop().unwrap();
                let _ = self.bench.device(end).deregister(key);
            }
            2 => {
                let cq = self.bench.end(end).send_cq;
                let size = 1 + rng.below(100) as u32;
                let _ = self.bench.device(end).resize_cq(cq, size);
                let _ = self.bench.device(end).req_notify_cq(cq, rng.chance(50));
            }
            3 if rng.chance(20) => {
                let qp = self.bench.end(end).qp;
                self.bench.device(end).destroy_qp(qp).unwrap();
                self.forget(end);
                self.bench.create_qp(&self.setup, end);
            }
            _ => {}
        }
    }

    /// Names that name nothing.
    fn nonsense(&mut self, rng: &mut Rng, end: EndId) {
        let raw = rng.next() as u32;
        let device = self.bench.device(end);
        let (qp, cq) = (QpNum::new(raw | 1 << 23), CqId(raw | 1 << 31));
        assert!(device.query_qp(qp).is_err() && device.destroy_qp(qp).is_err());
        assert!(device.poll_cq(cq, &mut []).is_err() && device.destroy_cq(cq).is_err());
        assert!(device.resize_cq(cq, 1).is_err() && device.req_notify_cq(cq, false).is_err());
        assert!(device.dealloc_pd(PdId(raw | 1 << 31)).is_err());
        assert!(device.destroy_srq(SrqId(raw)).is_err() && device.query_srq(SrqId(raw)).is_err());
        assert!(device.destroy_ah(AhId(raw)).is_err());
        assert!(device.deregister(Key(raw | 1 << 31)).is_err());
        assert!(device.dealloc_mw(Key(raw | 1 << 31)).is_err());
    }

    /// Both ends anew, when they cannot go on.
    fn revive(&mut self, rng: &mut Rng) {
        if self.bench.states() == (QpState::Rts, QpState::Rts) && rng.chance(80) {
            return;
        }
        for end in [A, B] {
            self.poll(end);
            let cqs = [self.bench.end(end).send_cq, self.bench.end(end).recv_cq];
            if cqs.iter().any(|cq| self.bench.device(end).cq_overran(*cq)) {
                self.forget(end);
                self.replace_cqs(end);
            }
            self.bench.enter(end, QpState::Reset);
            self.forget(end);
        }
        let setup = self.setup.clone();
        self.bench.connect(&setup, A, B);
    }

    fn replace_cqs(&mut self, end: EndId) {
        let setup = self.setup.clone();
        self.bench.replace_cqs(&setup, end);
    }
}

#[test]
fn whatever_a_program_does_nothing_completes_twice() {
    let frames = Frames::recorded();
    let frames: Vec<_> = frames.all().cloned().collect();
    rounds(300_000, |rng| {
        let mut chaos = Chaos::new(rng);
        for _ in 0..ROUND {
            chaos.step(rng);
            if rng.chance(5) {
                let route = chaos.bench.route(A);
                let bytes = rng.pick(&frames).clone();
                chaos.bench.deliver(B, &route, &bytes);
            }
        }
        for end in [A, B] {
            chaos.poll(end);
            let overran = {
                let cqs = [chaos.bench.end(end).send_cq, chaos.bench.end(end).recv_cq];
                cqs.iter().any(|cq| chaos.bench.device(end).cq_overran(*cq))
            };
            if overran {
                continue;
            }
            // In error everything that is left comes out.
            chaos.bench.enter(end, QpState::Err);
            let flushed = chaos.bench.recvs(end);
            let left: Vec<_> = chaos.receives[end.0].iter().copied().collect();
            let recv_cq = chaos.bench.end(end).recv_cq;
            if !chaos.bench.device(end).cq_overran(recv_cq) {
                let ids: Vec<_> = flushed.iter().map(|(id, _)| *id).collect();
                assert_eq!(ids, left);
                let all = flushed.iter().all(|(_, why)| *why == WcStatus::WorkRequestFlushed);
                assert!(all, "{flushed:?}");
            }
        }
        assert_ne!(chaos.setup.qp_type, QpType::Ud);
    });
}
