//! A host with queue pairs of every type in every state, and memory that may and may not be
//! touched.

use std::collections::BTreeMap;

use softrnic_model::counters::Counter;
use softrnic_model::protection::RegionSpec;
use softrnic_model::verbs::{
    Access, Key, Mtu, Psn, QpNum, QpState, QpType, SendFlags, SrqAttributes, SrqNum, WindowType,
};
use softrnic_model::wire::Route;
use softrnic_model::{Device, FrameOut, MemoryId};
use softrnic_transport::sim::{Fabric, FabricConfig, Fate, Host};

use crate::bench::{A, B, BASE, Bench, End, EndId, Rng, Setup, send, wr};

/// A queue pair that packets are aimed at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) num: QpNum,
    pub(super) qp_type: QpType,
    pub(super) expected: Psn,
    /// The first of its own packets that is not acknowledged.
    pub(super) first_psn: Psn,
    /// What requests of XRC have to name.
    pub(super) srq: SrqNum,
}

/// What can be seen of a device from outside.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) drops: u64,
    pub(super) everything_else: (Vec<u64>, Vec<(QpState, Psn)>, bool),
}

pub(super) struct World {
    bench: Bench,
    /// The ends of the host that gets the frames, one for each of [`KINDS`].
    ends: Vec<EndId>,
    setups: Vec<Setup>,
    with_traffic: bool,
    keys: Vec<Key>,
    /// Memory that no packet may change, as it was.
    untouchable: Vec<(MemoryId, Vec<u8>)>,
    at_first: BTreeMap<MemoryId, Vec<u8>>,
    frames: u64,
}

/// Types, and the states that queue pairs of each are in.
const KINDS: [(QpType, QpState); 16] = [
    (QpType::Rc, QpState::Rts),
    (QpType::Rc, QpState::Rts),
    (QpType::Rc, QpState::Rtr),
    (QpType::Rc, QpState::Init),
    (QpType::Rc, QpState::Reset),
    (QpType::Rc, QpState::Sqd),
    (QpType::Rc, QpState::Err),
    (QpType::Uc, QpState::Rts),
    (QpType::Uc, QpState::Rtr),
    (QpType::Uc, QpState::Sqd),
    (QpType::Ud, QpState::Rts),
    (QpType::Ud, QpState::Rtr),
    (QpType::Ud, QpState::Err),
    (QpType::XrcSend, QpState::Rts),
    (QpType::XrcSend, QpState::Rtr),
    (QpType::XrcSend, QpState::Err),
];

const MEMORY: usize = 1 << 13;
/// Bytes of the regions that peers may write.
const REGION: u64 = 1 << 12;

impl World {
    pub(super) fn new(rng: &mut Rng) -> Self {
        let mut world = Self::without_traffic(rng);
        world.with_traffic = true;
        for end in world.ends.clone() {
            world.send_something(end);
        }
        // What is under way now gets no answer but those that are made up.
        world.drain();
        world
    }

    /// Queue pairs that have failed start again, and new work takes the place of old.
    pub(super) fn revive(&mut self, rng: &mut Rng) {
        for (at, (_, wanted)) in KINDS.into_iter().enumerate() {
            let end = self.ends[at];
            if wanted != QpState::Err && self.bench.state(end) == QpState::Err {
                self.bench.enter(end, QpState::Reset);
                self.bench.advance(&self.setups[at], end, wanted);
            }
            self.bench.sent(end);
            self.bench.received(end);
            if rng.chance(20) {
                self.post_receives(end);
            }
            if self.with_traffic {
                self.send_something(end);
            }
        }
        self.drain();
    }

    pub(super) fn without_traffic(rng: &mut Rng) -> Self {
        let mut bench = Bench::new(FabricConfig::default());
        bench.tap.silence();
        // Nothing arrives but what is made up.
        bench.tap.rule(|_| Fate::Drop);
        for _ in [A, B] {
            let host = bench.add_host(&Setup::rc());
            assert_eq!(host, bench.fabric.hosts() - 1);
        }
        let (mut ends, mut setups) = (Vec::new(), Vec::new());
        for (qp_type, state) in KINDS {
            let setup = setup(rng, qp_type);
            let pair = [0, 1].map(|host| bench.add_end(&setup, host));
            bench.connect(&setup, pair[0], pair[1]);
            ends.push(pair[1]);
            setups.push(setup.clone());
            match state {
                QpState::Rts => {}
                QpState::Sqd | QpState::Err => bench.enter(pair[1], state),
                QpState::Reset | QpState::Init | QpState::Rtr | QpState::Sqe => {
                    bench.enter(pair[1], QpState::Reset);
                    bench.advance(&setup, pair[1], state);
                }
            }
        }
        let mut world = Self {
            bench,
            ends,
            setups,
            with_traffic: false,
            keys: Vec::new(),
            untouchable: Vec::new(),
            at_first: BTreeMap::new(),
            frames: 0,
        };
        world.furnish();
        world
    }

    /// Receives, regions with all sorts of rights, and windows.
    fn furnish(&mut self) {
        for end in self.ends.clone() {
            self.post_receives(end);
            let of = self.bench.end(end);
            let rights = [Access::REMOTE_READ, Access::LOCAL_WRITE, Access::empty()];
            for access in rights {
                let bytes = vec![0xa5; 512];
                let memory = self.bench.fabric.host(of.host).memory.add(bytes.clone());
                self.untouchable.push((memory, bytes));
                self.register(end, memory, 512, access);
            }
            self.register(end, of.memory, REGION, Access::LOCAL_WRITE | Access::REMOTE);
            let window = self.bench.window(end, WindowType::Type2B);
            let bind = self.bench.bind(end, window, window, WindowType::Type2B, 0..100);
            let _ = self.bench.try_post(end, &wr(50, bind));
            self.keys.push(window);
        }
        self.drain();
        let host = self.host();
        let known = self.ends.iter().map(|end| self.bench.end(*end).memory);
        self.at_first = known.map(|memory| (memory, host.memory.bytes(memory))).collect();
    }

    /// The key of all memory of the end is known to nobody: it serves local requests only.
    fn post_receives(&mut self, end: EndId) {
        for id in 0..4 {
            let receive = wr(id, send()).at(REGION..REGION + 300).at(REGION + 400..REGION + 800);
            // A queue pair in RESET takes none, and a shared queue may be full.
            let _ = self.bench.try_recv(end, &receive);
        }
    }

    fn register(&mut self, end: EndId, memory: MemoryId, length: u64, access: Access) {
        let pd = self.bench.end(end).pd;
        let spec = RegionSpec { pd, memory, memory_offset: 0, addr: BASE, length, access };
        let key = self.bench.device(end).register(spec).unwrap();
        self.keys.push(key);
    }

    fn send_something(&mut self, end: EndId) {
        let peer = self.bench.remote(self.bench.end(end).peer.unwrap());
        let at = REGION + 1000;
        let requests = [
            wr(100, peer.write(0)).at(0..700),
            wr(101, peer.read(0)).at(at..at + 600),
            wr(102, peer.add(0, 1)).at(at + 600..at + 608),
            wr(103, send()).at(0..20).with_flags(SendFlags::SOLICITED),
            wr(104, peer.read(0)).at(at + 700..at + 708),
        ];
        for request in requests {
            // UC has no READ, and not all states take requests.
            let _ = self.bench.try_post(end, &request);
        }
    }

    fn host(&self) -> &Host {
        self.bench.fabric.host(self.bench.end(self.ends[0]).host)
    }

    pub(super) fn device(&mut self) -> &mut Device {
        let end = self.ends[0];
        self.bench.device(end)
    }

    pub(super) fn keys(&self) -> &[Key] {
        &self.keys
    }

    pub(super) fn targets(&self) -> Vec<Target> {
        let target = |of: End, num: QpNum| {
            let (attr, init) = self.host().device.query_qp(num).unwrap();
            let srq = of.srq.filter(|_| of.xrcd.is_some());
            let srq = srq.map(|srq| self.host().device.srq_number(srq).unwrap());
            let (qp_type, expected, first_psn) = (init.qp_type, attr.rq_psn, of.first_psn);
            Target { num, qp_type, expected, first_psn, srq: srq.unwrap_or_default() }
        };
        let ends = self.ends.iter().map(|end| self.bench.end(*end));
        ends.flat_map(|of| {
            let serves = (of.target != of.qp).then(|| target(of, of.target));
            core::iter::once(target(of, of.qp)).chain(serves)
        })
        .collect()
    }

    pub(super) fn states(&self) -> Vec<QpState> {
        let device = &self.host().device;
        self.ends
            .iter()
            .map(|end| device.query_qp(self.bench.end(*end).qp).unwrap().0.state)
            .collect()
    }

    pub(super) fn route_to_b(&self) -> Route {
        self.bench.route(A)
    }

    /// Mostly as it should be.
    pub(super) fn route(&self, rng: &mut Rng) -> Route {
        let mut route = self.route_to_b();
        if rng.chance(3) {
            route.src.0[15] ^= 1 << rng.below(8);
        }
        if rng.chance(5) {
            route.traffic_class = rng.next() as u8;
        }
        route.hop_limit = rng.next() as u8;
        route
    }

    pub(super) fn deliver(&mut self, route: &Route, bytes: &[u8]) {
        self.frames += 1;
        self.bench.deliver(B, route, bytes);
    }

    /// Takes what wants to leave, and throws it away.
    pub(super) fn drain(&mut self) {
        let now = self.bench.fabric.now();
        let end = self.bench.end(self.ends[0]);
        let Host { device, memory, .. } = self.bench.fabric.host_mut(end.host);
        let mut bytes = [0; 8192];
        let mut frame = FrameOut::default();
        while device.next_frame(&mut frame) {
            device.fill(now, memory, &frame, &mut bytes[..frame.len()]);
        }
        while device.next_event().is_some() {}
    }

    pub(super) fn pass_time(&mut self, ns: u64) {
        let fabric: &mut Fabric = &mut self.bench.fabric;
        fabric.run_for(ns);
    }

    pub(super) fn count(&self, counter: Counter) -> u64 {
        self.host().device.counters().get(counter)
    }

    pub(super) fn drops(&self) -> u64 {
        let counters = self.host().device.counters();
        counters.iter().filter(|(name, ..)| name.starts_with("drop_")).map(|(.., n)| n).sum()
    }

    pub(super) fn seen(&mut self) -> Seen {
        self.drain();
        let counters = self.host().device.counters();
        let told =
            |name: &str| !name.starts_with("drop_") && name != "rcvd_pkts" && name != "ecn_marked";
        let counted = counters.iter().filter(|(name, ..)| told(name)).map(|(.., n)| n).collect();
        let device = &self.host().device;
        let pairs = self.targets().into_iter().map(|target| {
            let attr = device.query_qp(target.num).unwrap().0;
            (attr.state, attr.rq_psn)
        });
        Seen { drops: self.drops(), everything_else: (counted, pairs.collect(), device.has_work()) }
    }

    /// What must hold whatever has arrived.
    pub(super) fn check(&mut self) {
        self.drain();
        let host = self.host();
        for (memory, bytes) in &self.untouchable {
            assert!(host.memory.bytes(*memory) == *bytes, "memory without the right was written");
        }
        for end in &self.ends {
            let end = self.bench.end(*end);
            let (is, was) = (host.memory.bytes(end.memory), &self.at_first[&end.memory]);
            for gap in [300..400, 800..1000, 1708..MEMORY - REGION as usize] {
                let gap = REGION as usize + gap.start..REGION as usize + gap.end;
                assert!(is[gap.clone()] == was[gap], "between the buffers something was written");
            }
        }
        assert_eq!(self.count(Counter::ReceivedPackets), self.frames);
    }

    pub(super) fn check_memory_is_as_at_first(&self) {
        for (memory, bytes) in &self.at_first {
            assert!(self.host().memory.bytes(*memory) == *bytes);
        }
    }
}

fn setup(rng: &mut Rng, qp_type: QpType) -> Setup {
    let mut setup = if qp_type == QpType::XrcSend { Setup::xrc() } else { Setup::of(qp_type) };
    setup.mtu = Mtu::B256;
    setup.memory = MEMORY;
    setup.first_psn = std::array::from_fn(|_| rng.below(1 << 24) as u32);
    let shared = rng.chance(30) || setup.srq.is_some();
    setup.srq = shared.then_some(SrqAttributes { max_wr: 8, max_sge: 2, srq_limit: 0 });
    (setup.cap.max_send_wr, setup.cap.max_recv_wr) = (8, 8);
    setup.cap.max_inline_data = 0;
    setup.cqe = 32;
    setup.attributes.rnr_retry = 3;
    setup
}
