//! Random sequences of everything, compared after each step.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use softrnic_model::MemoryId;
use softrnic_model::protection::{
    AccessRequest, BindRequest, KeyPolicy, RegionChanges, RegionSpec, Side, Translation,
};
use softrnic_model::verbs::{Access, BindInfo, Key, PdId, QpNum, WindowType};

use crate::world::{OTHER_PD, OTHER_QP, PD, QP, TYPES, World};

/// Which key an operation names: the `back`-th last one that suits it, or that there was at all,
/// dead or alive, with its variant changed or not.
#[derive(Clone, Copy, Debug)]
struct Which {
    back: u8,
    suitable: bool,
    changed: bool,
}

impl Which {
    fn of(self, world: &World, suits: impl Fn(Key) -> bool) -> Key {
        let keys: Vec<Key> =
            world.keys.iter().copied().filter(|&key| !self.suitable || suits(key)).collect();
        let Some(at) = usize::from(self.back).checked_rem(keys.len()) else { return Key(0x100) };
        let key = keys[keys.len() - 1 - at];
        if self.changed { Key(key.0 ^ 3) } else { key }
    }

    fn region(self, world: &World) -> Key {
        self.of(world, |key| world.reference.query(key).is_some())
    }

    fn window(self, world: &World) -> Key {
        self.of(world, |key| world.reference.query_window(key).is_some())
    }

    fn reachable(self, world: &World) -> Key {
        self.of(world, |key| world.reference.exposures().iter().any(|seen| seen.key == key))
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Register(RegionSpec),
    Reregister(Which, RegionChanges),
    Deregister(Which),
    Alloc(PdId, WindowType),
    Dealloc(Which),
    Bind { window: Which, region: Which, request: BindRequest, fitting: Option<(u8, u8)> },
    Invalidate { key: Which, qp: QpNum, pd: PdId, by_peer: bool },
    QpGone(QpNum),
    Access { key: Which, request: AccessRequest, fitting: Option<(u8, u8)> },
}

fn pd() -> impl Strategy<Value = PdId> {
    prop_oneof![9 => Just(PD), 1 => Just(OTHER_PD)]
}

fn qp() -> impl Strategy<Value = QpNum> {
    prop_oneof![2 => Just(QP), 1 => Just(OTHER_QP)]
}

fn window_type() -> impl Strategy<Value = WindowType> {
    prop::sample::select(TYPES.as_slice())
}

fn which() -> impl Strategy<Value = Which> {
    (any::<u8>(), prop::bool::weighted(0.8), prop::bool::weighted(0.05))
        .prop_map(|(back, suitable, changed)| Which { back, suitable, changed })
}

/// Mostly, the rest of an operation is made to fit the object that it names: from one byte of it on,
/// some bytes.
fn fitting() -> impl Strategy<Value = Option<(u8, u8)>> {
    prop::option::weighted(0.8, (0_u8..70, 0_u8..70))
}

/// Mostly much is allowed, so that something happens.
fn access() -> impl Strategy<Value = Access> {
    let likely = Access::LOCAL_WRITE | Access::MW_BIND | Access::REMOTE;
    prop_oneof![
        3 => Just(likely),
        1 => Just(likely | Access::ZERO_BASED),
        2 => any::<u32>().prop_map(Access::from_bits_truncate),
    ]
}

fn addr() -> impl Strategy<Value = u64> {
    let corners = [0, 1, 0x1000, 0x1008, 1 << 32, 1 << 63, u64::MAX - 63, u64::MAX];
    prop_oneof![3 => Just(0x1000), 2 => prop::sample::select(corners.to_vec()), 1 => any::<u64>()]
}

fn length() -> impl Strategy<Value = u64> {
    let corners = [0, 1, 8, 64, 65, 1 << 32, u64::MAX];
    prop_oneof![3 => Just(64), 2 => prop::sample::select(corners.to_vec()), 1 => any::<u64>()]
}

fn translation() -> impl Strategy<Value = Translation> {
    (0_u32..3, addr(), addr(), length()).prop_map(|(memory, memory_offset, addr, length)| {
        Translation { memory: MemoryId(memory), memory_offset, addr, length }
    })
}

fn spec() -> impl Strategy<Value = RegionSpec> {
    (pd(), translation(), access()).prop_map(|(pd, place, access)| {
        let Translation { memory, memory_offset, addr, length } = place;
        RegionSpec { pd, memory, memory_offset, addr, length, access }
    })
}

fn changes() -> impl Strategy<Value = RegionChanges> {
    let (pd, access) = (prop::option::of(pd()), prop::option::of(access()));
    (pd, prop::option::of(translation()), access)
        .prop_map(|(pd, translation, access)| RegionChanges { pd, translation, access })
}

fn bind() -> impl Strategy<Value = Step> {
    let keys = (which(), which(), any::<u8>());
    let who = (qp(), pd(), window_type());
    (keys, who, (addr(), length(), access()), fitting()).prop_map(
        |((window, region, variant), (qp, qp_pd, window_type), (addr, length, access), fitting)| {
            let bind = BindInfo { mr_lkey: Key(0), addr, length, access };
            let new_rkey = Key(u32::from(variant));
            let request = BindRequest { window: Key(0), new_rkey, window_type, bind, qp, qp_pd };
            Step::Bind { window, region, request, fitting }
        },
    )
}

fn any_access() -> impl Strategy<Value = Step> {
    let needs = prop_oneof![
        1 => Just((Side::Local, Access::empty())),
        1 => Just((Side::Local, Access::LOCAL_WRITE)),
        4 => (qp(), access()).prop_map(|(qp, needs)| (Side::Remote { qp }, needs & Access::REMOTE)),
        1 => (qp(), access()).prop_map(|(qp, needs)| (Side::Remote { qp }, needs)),
    ];
    (which(), needs, pd(), addr(), length(), fitting()).prop_map(
        |(key, (side, needs), pd, addr, length, fitting)| {
            let request = AccessRequest { key: Key(0), side, pd, addr, length, needs };
            Step::Access { key, request, fitting }
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => spec().prop_map(Step::Register),
        1 => (which(), changes()).prop_map(|(key, changes)| Step::Reregister(key, changes)),
        1 => which().prop_map(Step::Deregister),
        4 => (pd(), window_type()).prop_map(|(pd, kind)| Step::Alloc(pd, kind)),
        2 => which().prop_map(Step::Dealloc),
        12 => bind(),
        3 => (which(), qp(), pd(), any::<bool>())
            .prop_map(|(key, qp, pd, by_peer)| Step::Invalidate { key, qp, pd, by_peer }),
        3 => qp().prop_map(Step::QpGone),
        5 => any_access(),
    ]
}

/// How often each kind of step was carried out rather than refused.
#[derive(Debug, Default)]
struct Done([usize; 9]);

impl Step {
    fn run(self, world: &mut World, done: &mut Done) {
        let (kind, ok) = match self {
            Self::Register(spec) => (0, world.register(spec).is_ok()),
            Self::Reregister(key, changes) => {
                (1, world.reregister(key.region(world), changes).is_ok())
            }
            Self::Deregister(key) => (2, world.deregister(key.region(world)).is_ok()),
            Self::Alloc(pd, window_type) => (3, world.alloc(pd, window_type).is_ok()),
            Self::Dealloc(key) => (4, world.dealloc(key.window(world)).is_ok()),
            Self::Bind { window, region, mut request, fitting } => {
                request.window = window.window(world);
                request.bind.mr_lkey = region.region(world);
                if let Some(part) = fitting {
                    fit_bind(world, &mut request, part);
                }
                (5, world.bind(request).is_ok())
            }
            Self::Invalidate { key, qp, pd, by_peer } => {
                (6, world.invalidate(key.window(world), qp, pd, by_peer).is_ok())
            }
            Self::QpGone(qp) => (7, world.unbind_of_qp(qp) > 0),
            Self::Access { key, mut request, fitting } => {
                request.key = key.reachable(world);
                if let Some(part) = fitting {
                    fit_access(world, &mut request, part);
                }
                (8, world.check(&request))
            }
        };
        done.0[kind] += usize::from(ok);
    }
}

/// Gives the bind the type and domain of its window, and a range of its region.
fn fit_bind(world: &World, request: &mut BindRequest, (from, count): (u8, u8)) {
    if let Some((pd, window_type)) = world.reference.query_window(request.window) {
        (request.qp_pd, request.window_type) = (pd, window_type);
    }
    if let Some(spec) = world.reference.query(request.bind.mr_lkey) {
        let start = if spec.access.contains(Access::ZERO_BASED) { 0 } else { spec.addr };
        request.bind.addr = start.wrapping_add(from.into());
        request.bind.length = count.into();
    }
}

/// Gives the access the domain of what its key leads to, and a range of it.
fn fit_access(world: &World, request: &mut AccessRequest, (from, count): (u8, u8)) {
    if let Some(seen) = world.reference.exposures().iter().find(|seen| seen.key == request.key) {
        request.pd = seen.pd;
        request.addr = seen.addr.wrapping_add(from.into());
        request.length = count.into();
    }
}

#[test]
fn all_agrees_after_every_step() {
    let policies = [KeyPolicy::Sequential, KeyPolicy::RxeLike, KeyPolicy::Random { seed: 3 }];
    for policy in policies {
        let config = Config { cases: 120, failure_persistence: None, ..Config::default() };
        let rng = TestRng::deterministic_rng(RngAlgorithm::XorShift);
        let done = core::cell::RefCell::new(Done::default());
        TestRunner::new_with_rng(config, rng)
            .run(&prop::collection::vec(step(), 1..100), |steps| {
                let mut world = World::new(3, 4, policy);
                for step in steps {
                    step.run(&mut world, &mut done.borrow_mut());
                    world.agree();
                }
                Ok(())
            })
            .unwrap();
        let done = done.into_inner();
        assert!(done.0.iter().all(|&count| count >= 10), "{policy:?}: {done:?}");
    }
}
