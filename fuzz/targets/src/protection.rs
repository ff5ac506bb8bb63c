//! The protection, told everything twice: every answer is the one of the reference of
//! `rnic-model/tests/protection`, which looks for all that is wrong and adds in 128 bits.

use arbitrary::{Arbitrary, Unstructured};
use softrnic_model::MemoryId;
use softrnic_model::planted::Fault;
use softrnic_model::protection::{
    AccessRequest, KeyPolicy, RegionChanges, RegionSpec, Side, Translation,
};
use softrnic_model::verbs::{Access, Key, PdId, QpNum};

use crate::Target;
use crate::encode::Encoder;
use crate::input::steps;
use crate::protection_world::{OTHER_PD, OTHER_QP, PD, QP, TYPES, World, bind_request};
use crate::reach::{Reach, hit};

pub(crate) const TARGET: Target = Target {
    name: "protection",
    run,
    reaches: &[Reach::Registered, Reach::Bound, Reach::Granted, Reach::OutOfRange],
    fault: Fault::Range,
};

/// A number that may be at an edge.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Number {
    Small(u8),
    BeforeTheEnd(u8),
    Around { bit: u8, by: i8 },
    Any(u64),
}

impl Number {
    fn get(self) -> u64 {
        match self {
            Self::Small(value) => value.into(),
            Self::BeforeTheEnd(by) => u64::MAX - u64::from(by),
            Self::Around { bit, by } => (1_u64 << (bit % 64)).wrapping_add_signed(by.into()),
            Self::Any(value) => value,
        }
    }
}

/// A key: of what there is, of what there was, or any.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Named {
    Region(u8),
    Window(u8),
    Known(u8),
    Changed(u8, u8),
    Any(u32),
}

/// Rights: many, a few, or any bits.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Rights {
    Likely(u8),
    But(u8),
    Any(u32),
}

impl Rights {
    fn get(self) -> Access {
        let likely = Access::LOCAL_WRITE | Access::REMOTE | Access::MW_BIND;
        match self {
            Self::Likely(0..64) => likely | Access::ZERO_BASED,
            Self::Likely(_) => likely,
            Self::But(right) => likely - Access::from_bits_truncate(1 << (right % 10)),
            Self::Any(bits) => Access::from_bits_retain(bits),
        }
    }
}

/// What an access exercises: mostly one right of its side.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Needs {
    One(u8),
    Any(u32),
}

impl Needs {
    fn get(self, side: Side) -> Access {
        match (self, side) {
            (Self::Any(bits), _) => Access::from_bits_retain(bits),
            (Self::One(n), Side::Local) if n % 2 == 0 => Access::empty(),
            (Self::One(_), Side::Local) => Access::LOCAL_WRITE,
            (Self::One(n), Side::Remote { .. }) => {
                [Access::REMOTE_WRITE, Access::REMOTE_READ, Access::REMOTE_ATOMIC]
                    [usize::from(n % 3)]
            }
        }
    }
}

/// A range, mostly near what there is.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Range {
    Whole { before: i8, more: i8 },
    Any(Number, Number),
}

#[derive(Arbitrary, Debug)]
enum Step {
    Register {
        other_pd: bool,
        at: Number,
        offset: Number,
        length: Number,
        access: Rights,
    },
    Reregister {
        key: Named,
        other_pd: bool,
        at: Option<(Number, Number)>,
        access: Option<Rights>,
    },
    Deregister(Named),
    Alloc {
        other_pd: bool,
        kind: u8,
    },
    Dealloc(Named),
    Bind {
        window: Named,
        kind: Option<u8>,
        region: Named,
        range: Range,
        access: Rights,
        other_qp: bool,
    },
    Invalidate {
        key: Named,
        other_qp: bool,
        other_pd: bool,
        by_peer: bool,
    },
    UnbindOfQp(bool),
    Check {
        key: Named,
        remote: Option<bool>,
        other_pd: bool,
        range: Range,
        needs: Needs,
    },
    Agree,
}

/// Steps of one run.
const STEPS_MAX: usize = 64;

fn run(bytes: &[u8]) {
    let mut input = Unstructured::new(bytes);
    let policy = match input.arbitrary::<u8>().unwrap_or(0) % 3 {
        0 => KeyPolicy::Sequential,
        1 => KeyPolicy::RxeLike,
        _ => KeyPolicy::Random { seed: input.arbitrary().unwrap_or(0) },
    };
    let mut world = World::new(6, 4, policy);
    for step in steps(&mut input).take(STEPS_MAX) {
        world.take(&step);
    }
    world.agree();
}

const fn pd(other: bool) -> PdId {
    if other { OTHER_PD } else { PD }
}

const fn qp(other: bool) -> QpNum {
    if other { OTHER_QP } else { QP }
}

impl World {
    fn key(&self, named: Named) -> Key {
        let known = |at: u8| match self.keys.len() {
            0 => Key(0),
            len => self.keys[usize::from(at) % len],
        };
        let living = |at: u8, windows: bool| {
            let is_wanted = |key: &&Key| match windows {
                true => self.device.query_window(**key).is_some(),
                false => self.device.query_region(**key).is_some(),
            };
            let count = self.keys.iter().filter(is_wanted).count();
            self.keys.iter().filter(is_wanted).nth(usize::from(at) % count.max(1)).copied()
        };
        match named {
            Named::Region(at) => living(at, false).unwrap_or_default(),
            Named::Window(at) => living(at, true).unwrap_or_default(),
            Named::Known(at) => known(at),
            Named::Changed(at, variant) => Key(known(at).0 ^ u32::from(variant)),
            Named::Any(key) => Key(key),
        }
    }

    /// What `key` leads to, made a little longer or shorter; or anything.
    fn range(&self, key: Key, range: Range) -> (u64, u64) {
        match range {
            Range::Any(start, length) => (start.get(), length.get()),
            Range::Whole { before, more } => {
                let exposed = self.device.exposures().find(|exposure| exposure.key == key);
                let region = self.device.query_region(key).map(|spec| (spec.addr, spec.length));
                let exposed = exposed.map(|exposure| (exposure.addr, exposure.length));
                let (start, length) = exposed.or(region).unwrap_or((0x1000, 16));
                (start.wrapping_add_signed(before.into()), length.wrapping_add_signed(more.into()))
            }
        }
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Register { other_pd, at, offset, length, access } => {
                let spec = RegionSpec {
                    pd: pd(other_pd),
                    memory: MemoryId(1),
                    memory_offset: offset.get(),
                    addr: at.get(),
                    length: length.get(),
                    access: access.get(),
                };
                if self.register(spec).is_ok() {
                    hit(Reach::Registered);
                }
            }
            Step::Reregister { key, other_pd, at, access } => {
                let translation = at.map(|(addr, length)| Translation {
                    memory: MemoryId(2),
                    memory_offset: 0,
                    addr: addr.get(),
                    length: length.get(),
                });
                let changes = RegionChanges {
                    pd: other_pd.then_some(OTHER_PD),
                    translation,
                    access: access.map(Rights::get),
                };
                let _ = self.reregister(self.key(key), changes);
            }
            Step::Deregister(key) => {
                let _ = self.deregister(self.key(key));
            }
            Step::Alloc { other_pd, kind } => {
                let _ = self.alloc(pd(other_pd), TYPES[usize::from(kind) % TYPES.len()]);
            }
            Step::Dealloc(key) => {
                let _ = self.dealloc(self.key(key));
            }
            Step::Bind { window, kind, region, range, access, other_qp } => {
                let region = self.key(region);
                let window = self.key(window);
                let of_window =
                    self.device.query_window(window).map(|(_, _, window_type)| window_type);
                let window_type = match (kind, of_window) {
                    (None, Some(window_type)) => window_type,
                    (kind, _) => TYPES[usize::from(kind.unwrap_or(0)) % TYPES.len()],
                };
                let window = (window, window_type);
                let range = self.range(region, range);
                let mut request = bind_request(window, region, range, access.get());
                request.qp = qp(other_qp);
                if self.bind(request).is_ok() {
                    hit(Reach::Bound);
                }
            }
            Step::Invalidate { key, other_qp, other_pd, by_peer } => {
                let _ = self.invalidate(self.key(key), qp(other_qp), pd(other_pd), by_peer);
            }
            Step::UnbindOfQp(other) => {
                self.unbind_of_qp(qp(other));
            }
            Step::Check { key, remote, other_pd, range, needs } => {
                let key = self.key(key);
                let (addr, length) = self.range(key, range);
                let side = match remote {
                    None => Side::Local,
                    Some(other) => Side::Remote { qp: qp(other) },
                };
                let needs = needs.get(side);
                let request = AccessRequest { key, side, pd: pd(other_pd), addr, length, needs };
                let granted = self.check(&request);
                if granted {
                    hit(Reach::Granted);
                } else if self.device.check_whole(key, side, pd(other_pd), needs).is_ok() {
                    hit(Reach::OutOfRange);
                }
            }
            Step::Agree => self.agree(),
        }
    }
}

/// Variants of the enums of a step.
const STEPS: u32 = 10;
const NUMBERS: u32 = 4;
const NAMES: u32 = 5;
const RIGHTS: u32 = 3;
const RANGES: u32 = 2;
const NEEDS: u32 = 2;

/// A region and a window, used as they may be and a little beyond; at both ends of the addresses.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let places = [(0, 0x40), (1, 0x3f)];
    let kinds = places.iter().flat_map(|place| (0..3).map(move |kind| (*place, kind)));
    kinds.flat_map(|(place, kind)| [0, 1].map(|more| seed(place, kind, more))).collect()
}

fn seed((number, value): (u32, u8), kind: u8, more: u8) -> Vec<u8> {
    let mut seed = Encoder::default();
    // The policy of keys. Register: domain, address, offset, length, rights.
    seed.bytes(&[kind]).bytes(if kind == 2 { &[7; 8] } else { &[] });
    seed.with(0, STEPS, &[0]).with(number, NUMBERS, &[value]);
    seed.with(0, NUMBERS, &[0]).with(0, NUMBERS, &[64]).with(0, RIGHTS, &[100]);
    // Alloc: domain, kind.
    seed.with(3, STEPS, &[0, kind]);
    // Bind: the window, of its kind, the region, all of it, rights, queue pair.
    seed.variant(5, STEPS).with(1, NAMES, &[0, 0]).with(0, NAMES, &[0]);
    seed.with(0, RANGES, &[0, 0]).with(0, RIGHTS, &[100, 0]);
    for named in [0, 1] {
        // Check: the key, by a peer, domain, range, what for.
        seed.variant(8, STEPS).with(named, NAMES, &[0, 1, 0, 0]);
        seed.with(0, RANGES, &[0, more]).with(0, NEEDS, &[1]);
    }
    seed.0
}
