//! Every operation × kind of object × rights × state of the key × protection domain × queue pair ×
//! range.

use softrnic_model::MemoryId;
use softrnic_model::protection::{
    AccessRequest, KeyPolicy, RegionChanges, RegionSpec, Side, Translation,
};
use softrnic_model::verbs::{Access, Key, QpNum, WindowType};

use crate::world::{OTHER_PD, OTHER_QP, PD, QP, TYPES, World, bind_request, plain_region, subsets};

/// Needs of the operations; the first two are local.
const OPERATIONS: [Access; 6] = [
    Access::empty(),
    Access::LOCAL_WRITE,
    Access::REMOTE_READ,
    Access::REMOTE_WRITE,
    Access::REMOTE_ATOMIC,
    Access::FLUSH_GLOBAL,
];
const RANGES: usize = 10 * 7;
const ACCESSES: usize = OPERATIONS.len() * 2 * 2 * RANGES;

/// Ranges at, around and far from the ends of `start .. start + length`.
fn ranges(start: u64, length: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = start.wrapping_add(length);
    let lengths = [0, 1, 7, 8, length, length.wrapping_add(1), u64::MAX];
    lengths.into_iter().flat_map(move |count| {
        let last = end.wrapping_sub(count);
        let addrs = [
            start.wrapping_sub(1),
            start,
            start.wrapping_add(1),
            last,
            last.wrapping_add(1),
            end.wrapping_sub(1),
            end,
            end.wrapping_add(1),
            0,
            u64::MAX,
        ];
        addrs.into_iter().map(move |addr| (addr, count))
    })
}

#[derive(Default)]
struct Tally {
    cases: usize,
    granted: usize,
}

impl Tally {
    /// Tries `key` in every way on ranges around `start .. start + length`.
    fn try_key(&mut self, world: &World, key: Key, (start, length): (u64, u64)) {
        for (at, needs) in OPERATIONS.into_iter().enumerate() {
            for (pd, qp) in [(PD, QP), (PD, OTHER_QP), (OTHER_PD, QP), (OTHER_PD, OTHER_QP)] {
                let side = if at < 2 { Side::Local } else { Side::Remote { qp } };
                for (addr, length) in ranges(start, length) {
                    self.cases += 1;
                    let request = AccessRequest { key, side, pd, addr, length, needs };
                    self.granted += usize::from(world.check(&request));
                }
            }
        }
    }
}

/// Registers and deregisters until `index` is in use again, by what `make` makes.
fn reuse(world: &mut World, index: u32, make: impl Fn(&mut World) -> Key) {
    for _ in 0..64 {
        let key = make(world);
        if key.index() == index {
            return;
        }
        world.deregister(key).or_else(|_| world.dealloc(key)).unwrap();
    }
    panic!("index {index} does not come back");
}

fn small_world() -> World {
    World::new(3, 2, KeyPolicy::Sequential)
}

fn next_variant(key: Key) -> Key {
    Key::from_parts(key.index(), key.variant().wrapping_add(1))
}

/// What has become of a region before its key is tried.
const REGION_STATES: [fn(&mut World, RegionSpec) -> Key; 9] = [
    // valid
    |world, spec| world.register(spec).unwrap(),
    // another variant
    |world, spec| next_variant(world.register(spec).unwrap()),
    // never used, and beyond the table
    |world, spec| Key::from_parts(world.register(spec).unwrap().index() + 1, 0),
    |_, _| Key::from_parts(0xff_ffff, 0),
    // deregistered
    |world, spec| {
        let key = world.register(spec).unwrap();
        world.deregister(key).unwrap();
        key
    },
    // the index serves another region, a window
    |world, spec| {
        let key = world.register(spec).unwrap();
        world.deregister(key).unwrap();
        reuse(world, key.index(), |world| world.register(spec).unwrap());
        key
    },
    |world, spec| {
        let key = world.register(spec).unwrap();
        world.deregister(key).unwrap();
        reuse(world, key.index(), |world| world.alloc(PD, WindowType::Type1).unwrap());
        key
    },
    // reregistered: the old key, the same one in another protection domain
    |world, spec| {
        let key = world.register(spec).unwrap();
        let RegionSpec { memory, memory_offset, addr, length, .. } = spec;
        let translation = Some(Translation { memory, memory_offset, addr, length });
        world.reregister(key, RegionChanges { translation, ..RegionChanges::default() }).unwrap();
        key
    },
    |world, spec| {
        let key = world.register(spec).unwrap();
        let pd = Some(OTHER_PD);
        world.reregister(key, RegionChanges { pd, ..RegionChanges::default() }).unwrap()
    },
];

#[test]
fn regions() {
    let rights = Access::LOCAL_WRITE
        | Access::REMOTE
        | Access::MW_BIND
        | Access::ZERO_BASED
        | Access::FLUSH_GLOBAL;
    let mut tally = Tally::default();
    let mut refused = 0;
    for access in subsets(rights) {
        let spec = plain_region(access);
        if small_world().register(spec).is_err() {
            refused += 1;
            continue;
        }
        let start = if access.contains(Access::ZERO_BASED) { 0 } else { spec.addr };
        for prepare in REGION_STATES {
            let mut world = small_world();
            let key = prepare(&mut world, spec);
            tally.try_key(&world, key, (start, spec.length));
        }
    }
    // Without LOCAL_WRITE, three quarters of the sets hold REMOTE_WRITE or REMOTE_ATOMIC.
    assert_eq!(refused, 64 * 3 / 4);
    assert_eq!(tally.cases, (128 - refused) * REGION_STATES.len() * ACCESSES);
    // Two states are valid; one of two protection domains is right in each. Of the ranges, those
    // of length 0 at 4 places and a few of each other length are inside.
    assert_eq!(tally.granted, granted_by_hand(rights, plain_region(Access::empty())));
}

/// The grants of the matrix, counted from the rights alone.
fn granted_by_hand(rights: Access, spec: RegionSpec) -> usize {
    let mut grants = 0;
    for access in subsets(rights) {
        let changes = access.intersects(Access::REMOTE_WRITE | Access::REMOTE_ATOMIC);
        if changes && !access.contains(Access::LOCAL_WRITE) {
            continue;
        }
        let zero_based = access.contains(Access::ZERO_BASED);
        let start = if zero_based { 0 } else { i128::from(spec.addr) };
        let end = start + i128::from(spec.length);
        let from = if zero_based { 0 } else { spec.addr };
        let inside = ranges(from, spec.length)
            .filter(|&(addr, length)| {
                let (addr, length) = (i128::from(addr), i128::from(length));
                start <= addr && addr + length <= end
            })
            .count();
        let operations = OPERATIONS.into_iter().filter(|&needs| access.contains(needs)).count();
        // two states × one protection domain × two queue pairs
        grants += 2 * 2 * operations * inside;
    }
    grants
}

/// The part of the plain region that windows show.
const SHOWN: (u64, u64) = (plain_region(Access::empty()).addr + 17, 48);

/// A window, how it is bound, and to what.
#[derive(Clone, Copy)]
struct Setup {
    window_type: WindowType,
    region: Access,
    access: Access,
}

impl Setup {
    fn window(self, world: &mut World) -> (Key, WindowType) {
        (world.alloc(PD, self.window_type).unwrap(), self.window_type)
    }

    fn bind(self, world: &mut World, window: (Key, WindowType)) -> Key {
        let region = world.register(plain_region(self.region)).unwrap();
        world.bind(bind_request(window, region, SHOWN, self.access)).unwrap()
    }

    fn bound(self, world: &mut World) -> Key {
        let window = self.window(world);
        self.bind(world, window)
    }

    /// Ends the binding in the way of the type, and gives the key that the window has then.
    fn end(self, world: &mut World, key: Key) -> Key {
        if self.window_type == WindowType::Type1 {
            let nothing = bind_request((key, self.window_type), Key(0), (0, 0), Access::empty());
            return world.bind(nothing).unwrap();
        }
        world.invalidate(key, QP, PD, true).unwrap();
        key
    }
}

/// What has become of a window before its key is tried.
const WINDOW_STATES: [fn(&mut World, Setup) -> Key; 11] = [
    // bound
    |world, setup| setup.bound(world),
    // never bound
    |world, setup| setup.window(world).0,
    // the key before it was bound
    |world, setup| {
        let window = setup.window(world);
        setup.bind(world, window);
        window.0
    },
    // another variant
    |world, setup| next_variant(setup.bound(world)),
    // the binding has ended
    |world, setup| {
        let key = setup.bound(world);
        setup.end(world, key)
    },
    // bound again under another variant: the old key, the new one
    |world, setup| {
        let key = setup.bound(world);
        let ended = setup.end(world, key);
        setup.bind(world, (ended, setup.window_type));
        key
    },
    |world, setup| {
        let key = setup.bound(world);
        let ended = setup.end(world, key);
        setup.bind(world, (ended, setup.window_type))
    },
    // deallocated
    |world, setup| {
        let key = setup.bound(world);
        world.dealloc(key).unwrap();
        key
    },
    // the index serves another window, a region
    |world, setup| {
        let key = setup.bound(world);
        world.dealloc(key).unwrap();
        reuse(world, key.index(), |world| world.alloc(PD, WindowType::Type2B).unwrap());
        key
    },
    |world, setup| {
        let key = setup.bound(world);
        world.dealloc(key).unwrap();
        reuse(world, key.index(), |world| world.register(plain_region(setup.region)).unwrap());
        key
    },
    // the queue pair is gone
    |world, setup| {
        let key = setup.bound(world);
        let only = usize::from(setup.window_type != WindowType::Type1);
        assert_eq!(world.unbind_of_qp(QP), only);
        key
    },
];

#[test]
fn windows() {
    let mut tally = Tally::default();
    let mut setups = 0;
    for window_type in TYPES {
        for access in subsets(Access::REMOTE | Access::ZERO_BASED) {
            // What the region itself allows to peers does not matter.
            for peers in [Access::empty(), Access::REMOTE] {
                setups += 1;
                let region = peers | Access::LOCAL_WRITE | Access::MW_BIND;
                let setup = Setup { window_type, region, access };
                let start = if access.contains(Access::ZERO_BASED) { 0 } else { SHOWN.0 };
                for prepare in WINDOW_STATES {
                    let mut world = small_world();
                    let key = prepare(&mut world, setup);
                    tally.try_key(&world, key, (start, SHOWN.1));
                }
            }
        }
    }
    assert_eq!(setups, 3 * 16 * 2);
    assert_eq!(tally.cases, setups * WINDOW_STATES.len() * ACCESSES);
    assert!(tally.granted > 10_000, "{}", tally.granted);
}

/// Places and sizes: above 4 GiB, up to the last address, all of memory, and nothing.
const SHAPES: [(u64, u64, u64); 9] = [
    (0, 96, 0),
    (0x1000, 0, 0x77),
    (0x7fff_ffff_f000, 5 << 30, (1 << 32) + 3),
    (0xffff_fff0, 0x20, 0xffff_ffff_0000),
    (1 << 63, 1 << 62, 1 << 61),
    (0_u64.wrapping_sub(4096), 4096, 0),
    (0_u64.wrapping_sub(4096), 4096, 0_u64.wrapping_sub(4096)),
    (0, u64::MAX, 0),
    (1, u64::MAX, 1),
];

#[test]
fn shapes() {
    let mut tally = Tally::default();
    let rights = Access::LOCAL_WRITE | Access::REMOTE | Access::MW_BIND;
    for (addr, length, memory_offset) in SHAPES {
        for zero_based in [Access::empty(), Access::ZERO_BASED] {
            let access = rights | zero_based;
            let spec = RegionSpec {
                pd: PD,
                memory: MemoryId(u32::MAX),
                memory_offset,
                addr,
                length,
                access,
            };
            let mut world = small_world();
            let key = world.register(spec).unwrap();
            let start = if zero_based.is_empty() { addr } else { 0 };
            tally.try_key(&world, key, (start, length));
            // Windows over all of it, the latter half, and the last byte.
            let parts =
                [(0, length), (length / 2, length - length / 2), (length.wrapping_sub(1), 1)];
            for (from, size) in parts.into_iter().filter(|_| length > 0) {
                for renamed in [Access::empty(), Access::ZERO_BASED] {
                    let mut world = world.clone();
                    let window = (world.alloc(PD, WindowType::Type2A).unwrap(), WindowType::Type2A);
                    let part = (start.wrapping_add(from), size);
                    let request = bind_request(window, key, part, Access::REMOTE | renamed);
                    let shown = if renamed.is_empty() { part.0 } else { 0 };
                    let bound = world.bind(request).unwrap();
                    tally.try_key(&world, bound, (shown, size));
                }
            }
        }
    }
    assert_eq!(tally.cases, 2 * (SHAPES.len() + (SHAPES.len() - 1) * 6) * ACCESSES);
    assert!(tally.granted > 1000, "{}", tally.granted);
}

#[test]
// [protection/register-wrap]
fn no_region_reaches_beyond_the_last_address() {
    let mut refused = 0;
    for (addr, length) in
        [(1, u64::MAX), (2, u64::MAX), (u64::MAX, 1), (u64::MAX, 2), (u64::MAX, 0)]
    {
        for access in [Access::empty(), Access::ZERO_BASED] {
            let spec = RegionSpec { addr, length, memory_offset: 0, ..plain_region(access) };
            refused += usize::from(small_world().register(spec).is_err());
            let spec = RegionSpec { addr: 0, length, memory_offset: addr, ..plain_region(access) };
            refused += usize::from(small_world().register(spec).is_err());
        }
    }
    // (2, MAX) and (MAX, 2): as addresses unless zero-based, and as offsets.
    assert_eq!(refused, 2 + 4);
}

#[test]
fn queue_pair_numbers_differ() {
    assert_ne!(QP, OTHER_QP);
    assert_ne!(QP, QpNum::new(0));
}
