//! Every bind and every invalidation.

use softrnic_model::protection::{
    AccessFault, BindError, BindRequest, Exposure, KeyPolicy, RegionChanges, RegionSpec,
};
use softrnic_model::verbs::{Access, BindInfo, Key, PdId, WindowType};

use crate::world::{OTHER_PD, OTHER_QP, PD, QP, TYPES, World, bind_request, plain_region, subsets};

const BINDABLE: Access = Access::LOCAL_WRITE.union(Access::MW_BIND);
const WHOLE: (u64, u64) = (plain_region(BINDABLE).addr, plain_region(BINDABLE).length);

fn small_world() -> World {
    World::new(4, 3, KeyPolicy::Sequential)
}

fn exposures(world: &World) -> Vec<Exposure> {
    world.device.exposures().collect()
}

/// Binds in a copy of the world. A refusal leaves all as it was; otherwise all agrees.
// [attacks/exposure-audit]
fn try_bind(world: &World, request: BindRequest) -> Result<Key, BindError> {
    let mut after = world.clone();
    let answer = after.bind(request);
    match answer {
        Ok(_) => after.agree(),
        Err(_) => assert_eq!(exposures(&after), exposures(world)),
    }
    answer
}

fn window(world: &mut World, pd: PdId, window_type: WindowType) -> Key {
    world.alloc(pd, window_type).unwrap()
}

fn bound(world: &mut World, pd: PdId, window_type: WindowType) -> Key {
    let key = window(world, pd, window_type);
    let region = world.register(RegionSpec { pd, ..plain_region(BINDABLE) }).unwrap();
    let request = bind_request((key, window_type), region, WHOLE, Access::REMOTE_READ);
    world.bind(BindRequest { qp_pd: pd, ..request }).unwrap()
}

/// What may stand where the key of a window is wanted.
const WINDOW_KEYS: [fn(&mut World, PdId, WindowType) -> Key; 7] = [
    window,
    bound,
    |world, pd, window_type| Key(window(world, pd, window_type).0 ^ 1),
    |world, pd, window_type| {
        let key = bound(world, pd, window_type);
        if window_type == WindowType::Type1 {
            return key;
        }
        world.invalidate(key, QP, pd, false).unwrap();
        key
    },
    |world, pd, window_type| {
        let key = window(world, pd, window_type);
        world.dealloc(key).unwrap();
        key
    },
    |world, pd, _| world.register(RegionSpec { pd, ..plain_region(BINDABLE) }).unwrap(),
    |_, _, _| Key(0),
];

/// What may stand where the key of a region is wanted.
const REGION_KEYS: [fn(&mut World, PdId) -> Key; 6] = [
    |world, pd| world.register(RegionSpec { pd, ..plain_region(BINDABLE) }).unwrap(),
    |world, pd| Key(world.register(RegionSpec { pd, ..plain_region(BINDABLE) }).unwrap().0 ^ 1),
    |world, pd| {
        let key = world.register(RegionSpec { pd, ..plain_region(BINDABLE) }).unwrap();
        world.deregister(key).unwrap();
        key
    },
    |world, pd| {
        let key = world.register(RegionSpec { pd, ..plain_region(BINDABLE) }).unwrap();
        let changes = RegionChanges { pd: Some(OTHER_PD), ..RegionChanges::default() };
        world.reregister(key, changes).unwrap()
    },
    |world, pd| world.alloc(pd, WindowType::Type2A).unwrap(),
    |_, _| Key(0xffff_ff00),
];

#[test]
fn binds_by_key_type_domain_and_length() {
    let (mut cases, mut done) = (0, 0);
    for window_key in WINDOW_KEYS {
        for window_type in TYPES {
            for region_key in REGION_KEYS {
                for (window_pd, region_pd, qp_pd) in domains() {
                    let mut world = small_world();
                    let window = window_key(&mut world, window_pd, window_type);
                    let region = region_key(&mut world, region_pd);
                    for asked in TYPES {
                        for range in [WHOLE, (WHOLE.0, 0), (0, 0), (WHOLE.0, WHOLE.1 + 1)] {
                            cases += 1;
                            let request = bind_request((window, asked), region, range, BINDABLE);
                            let request = BindRequest { qp_pd, ..request };
                            done += usize::from(try_bind(&world, request).is_ok());
                        }
                    }
                }
            }
        }
    }
    assert_eq!(cases, 7 * 3 * 6 * 8 * 3 * 4);
    // Of 8 ways to distribute domains, 4 have window and queue pair in one. Type 1: three states
    // serve; two ranges are empty and need no region. A region serves where it is registered in the
    // domain of both (2 ways) or was moved to OTHER_PD and both are there (2 ways).
    let type_1 = 3 * (4 * 6 * 2 + 2 + 2);
    let type_2 = 2 * (2 + 2);
    assert_eq!(done, type_1 + 2 * type_2);
}

fn domains() -> impl Iterator<Item = (PdId, PdId, PdId)> {
    let of = |bit: bool| if bit { OTHER_PD } else { PD };
    (0..8).map(move |n| (of(n & 1 != 0), of(n & 2 != 0), of(n & 4 != 0)))
}

#[test]
fn binds_by_rights_and_range() {
    let region_rights = BINDABLE | Access::REMOTE | Access::ZERO_BASED;
    let bind_rights = Access::REMOTE | Access::ZERO_BASED;
    let mut cases = 0;
    for access in subsets(region_rights) {
        let mut world = small_world();
        let Ok(region) = world.register(plain_region(access)) else { continue };
        let start = if access.contains(Access::ZERO_BASED) { 0 } else { WHOLE.0 };
        for window_type in TYPES {
            let mut world = world.clone();
            let key = world.alloc(PD, window_type).unwrap();
            for wanted in subsets(bind_rights) {
                for range in ranges(start, WHOLE.1) {
                    cases += 1;
                    let request = bind_request((key, window_type), region, range, wanted);
                    let answer = try_bind(&world, request);
                    let inside = answer != Err(BindError::Region(AccessFault::OutOfRange));
                    assert!(inside || access.contains(Access::MW_BIND));
                }
            }
        }
    }
    assert_eq!(cases, 40 * 3 * 16 * 10);
}

fn ranges(start: u64, length: u64) -> [(u64, u64); 10] {
    let end = start + length;
    [
        (start, length),
        (start, length + 1),
        (start.wrapping_sub(1), length),
        (start.wrapping_sub(1), 1),
        (end - 1, 1),
        (end - 1, 2),
        (end, 1),
        (start, u64::MAX),
        (start + 1, start.wrapping_neg()),
        (u64::MAX, 1),
    ]
}

#[test]
fn a_zero_based_window_counts_from_its_own_start() {
    for base in [Access::empty(), Access::ZERO_BASED] {
        let mut world = small_world();
        let region = world.register(plain_region(BINDABLE | base)).unwrap();
        let start = if base.is_empty() { WHOLE.0 } else { 0 };
        let key = world.alloc(PD, WindowType::Type2B).unwrap();
        let access = Access::REMOTE_READ | Access::ZERO_BASED;
        let request = bind_request((key, WindowType::Type2B), region, (start + 10, 20), access);
        let key = world.bind(request).unwrap();
        let [shown] = exposures(&world).try_into().unwrap();
        assert_eq!((shown.key, shown.addr, shown.length), (key, 0, 20));
        assert_eq!(shown.grant.offset, plain_region(BINDABLE).memory_offset + 10);
        assert_eq!(shown.only_qp, Some(QP));
    }
}

#[test]
fn a_region_stays_while_windows_are_bound() {
    for window_type in TYPES {
        let mut world = small_world();
        let region = world.register(plain_region(BINDABLE)).unwrap();
        let pd = RegionChanges { pd: Some(PD), ..RegionChanges::default() };
        let keys = [0, 1].map(|_| {
            let key = world.alloc(PD, window_type).unwrap();
            world.bind(bind_request((key, window_type), region, WHOLE, Access::REMOTE)).unwrap()
        });
        for key in keys {
            assert_eq!(world.deregister(region), Err(16), "EBUSY");
            assert_eq!(world.reregister(region, pd), Err(16), "EBUSY");
            world.dealloc(key).unwrap();
        }
        let moved = world.reregister(region, pd).unwrap();
        world.deregister(moved).unwrap();
        world.agree();
    }
}

#[test]
fn a_window_of_type_1_moves_from_region_to_region() {
    let mut world = small_world();
    let [first, second] = [0, 1].map(|_| world.register(plain_region(BINDABLE)).unwrap());
    let mut key = world.alloc(PD, WindowType::Type1).unwrap();
    let mut earlier = Vec::new();
    for region in [first, first, second, first, second] {
        earlier.push(key);
        let request = bind_request((key, WindowType::Type1), region, WHOLE, Access::REMOTE);
        // The key policy chooses.
        key = world.bind(BindRequest { new_rkey: key, ..request }).unwrap();
        assert!(!earlier.contains(&key));
        world.agree();
    }
    world.deregister(first).unwrap();
    assert_eq!(world.deregister(second), Err(16), "EBUSY");
}

#[test]
fn invalidations() {
    let (mut cases, mut done) = (0, 0);
    for window_key in WINDOW_KEYS {
        for window_type in TYPES {
            for owner in [PD, OTHER_PD] {
                let mut world = small_world();
                let key = window_key(&mut world, owner, window_type);
                for pd in [PD, OTHER_PD] {
                    for qp in [QP, OTHER_QP] {
                        for by_peer in [false, true] {
                            cases += 1;
                            let mut after = world.clone();
                            let answer = after.invalidate(key, qp, pd, by_peer);
                            let kept = exposures(&after) == exposures(&world);
                            assert_eq!(answer.is_err(), kept);
                            after.agree();
                            // Once is enough.
                            assert!(after.invalidate(key, qp, pd, !by_peer).is_err());
                            done += usize::from(answer.is_ok());
                        }
                    }
                }
            }
        }
    }
    assert_eq!(cases, 7 * 3 * 2 * 8);
    // Bound, in the right domain, by program and peer, by the queue pair that bound it: 2A and 2B.
    assert_eq!(done, 2 * 2 * (1 + 1));
}

#[test]
fn the_index_of_the_new_key_does_not_count() {
    let mut world = small_world();
    let region = world.register(plain_region(BINDABLE)).unwrap();
    for window_type in TYPES {
        let key = world.alloc(PD, window_type).unwrap();
        let request = bind_request((key, window_type), region, WHOLE, Access::REMOTE);
        let new_rkey = Key::from_parts(region.index(), 0xa5);
        let bound = world.bind(BindRequest { new_rkey, ..request }).unwrap();
        assert_eq!(bound, Key::from_parts(key.index(), 0xa5));
        world.agree();
    }
}

#[test]
fn only_rights_of_peers_come_with_a_window() {
    let mut world = small_world();
    let region = world.register(plain_region(BINDABLE)).unwrap();
    let key = world.alloc(PD, WindowType::Type1).unwrap();
    let bind = BindInfo {
        mr_lkey: region,
        addr: WHOLE.0,
        length: WHOLE.1,
        access: Access::from_bits_retain(u32::MAX) - Access::ZERO_BASED,
    };
    let request = bind_request((key, WindowType::Type1), region, WHOLE, Access::empty());
    world.bind(BindRequest { bind, ..request }).unwrap();
    let rights = Access::REMOTE | Access::FLUSH_GLOBAL | Access::FLUSH_PERSISTENT;
    let [shown] = exposures(&world).try_into().unwrap();
    assert_eq!(shown.rights, rights);
}
