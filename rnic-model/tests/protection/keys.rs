//! How keys are chosen and recycled.

use std::collections::{BTreeMap, BTreeSet};

use softrnic_model::protection::{
    AccessFault, AccessRequest, KeyLimits, KeyPolicy, Protection, RegionChanges, RegionSpec, Side,
    Translation,
};
use softrnic_model::verbs::{Access, Key, WindowType};

use crate::world::{PD, QP, World, bind_request, plain_region};

const POLICIES: [KeyPolicy; 4] = [
    KeyPolicy::Sequential,
    KeyPolicy::RxeLike,
    KeyPolicy::Random { seed: 1 },
    KeyPolicy::Random { seed: u64::MAX },
];
const ACCESS: Access = Access::LOCAL_WRITE.union(Access::MW_BIND);

fn region(world: &mut World) -> Key {
    world.register(plain_region(ACCESS)).unwrap()
}

#[test]
fn a_full_table_is_enomem_and_recovers() {
    for policy in POLICIES {
        let mut world = World::new(5, 3, policy);
        let regions = [0; 5].map(|_| region(&mut world));
        let windows = [0; 3].map(|_| world.alloc(PD, WindowType::Type2B).unwrap());
        let all: BTreeSet<u32> = regions.iter().chain(&windows).map(|key| key.index()).collect();
        assert_eq!(all, (1..=8).collect());
        for _ in 0..2 {
            assert_eq!(world.register(plain_region(ACCESS)), Err(12), "ENOMEM");
            assert_eq!(world.alloc(PD, WindowType::Type1), Err(12), "ENOMEM");
        }
        // Room for windows is no room for regions.
        world.dealloc(windows[1]).unwrap();
        assert_eq!(world.register(plain_region(ACCESS)), Err(12), "ENOMEM");
        assert_eq!(world.alloc(PD, WindowType::Type1).unwrap().index(), windows[1].index());
        world.deregister(regions[2]).unwrap();
        assert_eq!(region(&mut world).index(), regions[2].index());
        world.agree();
    }
}

#[test]
fn reregistering_needs_no_room() {
    for policy in POLICIES {
        let mut world = World::new(1, 0, policy);
        let mut key = region(&mut world);
        let RegionSpec { memory, memory_offset, addr, length, .. } = plain_region(ACCESS);
        let translation = Some(Translation { memory, memory_offset, addr, length });
        for _ in 0..600 {
            let changes = RegionChanges { translation, ..RegionChanges::default() };
            let new = world.reregister(key, changes).unwrap();
            assert_ne!(new, key);
            key = new;
        }
        assert_eq!(world.reregister(key, RegionChanges::default()), Err(22), "EINVAL");
    }
}

#[test]
fn the_index_that_is_free_for_longest_is_reused() {
    for policy in POLICIES {
        let mut world = World::new(4, 4, policy);
        let mut keys = [0; 4].map(|_| region(&mut world)).to_vec();
        // The four that were never used come before any that was.
        let first: BTreeSet<u32> = keys.iter().map(|key| key.index()).collect();
        world.deregister(keys.remove(2)).unwrap();
        for _ in 0..4 {
            let key = region(&mut world);
            assert!(!first.contains(&key.index()));
            world.deregister(key).unwrap();
        }
        // From now on the reference checks the order; a window takes from the same queue.
        for turn in 0..50 {
            let key = world.alloc(PD, WindowType::Type1).unwrap();
            keys.push(region(&mut world));
            world.deregister(keys.remove(turn % keys.len())).unwrap();
            world.dealloc(key).unwrap();
        }
    }
}

#[test]
fn a_variant_comes_back_after_255_others() {
    for policy in POLICIES {
        let mut world = World::new(1, 1, policy);
        let mut last: BTreeMap<Key, usize> = BTreeMap::new();
        for time in 0..5 * 256 {
            let key = region(&mut world);
            let earlier = last.insert(key, time);
            // Two indices take turns.
            assert!(earlier.is_none_or(|earlier| time - earlier == 2 * 256), "{policy:?} {key:?}");
            world.deregister(key).unwrap();
        }
        assert_eq!(last.len(), 2 * 256);
    }
}

#[test]
fn a_variant_that_the_program_chose_is_not_handed_out_soon() {
    // Sequential keys of an index are those that a counting program would choose.
    let mut world = World::new(1, 1, KeyPolicy::Sequential);
    let target = region(&mut world);
    let window = world.alloc(PD, WindowType::Type2A).unwrap();
    let index = window.index();
    let mut key = window;
    let mut held = vec![window];
    for variant in [1, 2, 3, 5, 200] {
        let request = bind_request(
            (key, WindowType::Type2A),
            target,
            (plain_region(ACCESS).addr, 8),
            Access::REMOTE,
        );
        let request = softrnic_model::protection::BindRequest { new_rkey: Key(variant), ..request };
        key = world.bind(request).unwrap();
        held.push(key);
        world.invalidate(key, QP, PD, false).unwrap();
    }
    world.dealloc(key).unwrap();
    let mut new = Vec::new();
    for _ in 0..256 - held.len() {
        let key = world.alloc(PD, WindowType::Type1).unwrap();
        assert_eq!(key.index(), index);
        assert!(!held.contains(&key), "{key:?}");
        new.push(key);
        world.dealloc(key).unwrap();
    }
    assert_eq!(new.iter().collect::<BTreeSet<_>>().len(), 250);
    // Turned over: the latest still waits for longest.
    let key = world.alloc(PD, WindowType::Type1).unwrap();
    assert_ne!(Some(&key), new.last());
}

#[test]
fn stale_keys_lead_nowhere_whatever_took_the_index() {
    for policy in POLICIES {
        let mut world = World::new(2, 2, policy);
        let mut dead = BTreeSet::new();
        for time in 0..200 {
            let key = if time % 3 == 0 {
                world.alloc(PD, WindowType::Type2B).unwrap()
            } else {
                region(&mut world)
            };
            assert!(!dead.contains(&key));
            for &key in &dead {
                for side in [Side::Local, Side::Remote { qp: QP }] {
                    let needs = Access::empty();
                    let request = AccessRequest { key, side, pd: PD, addr: 0, length: 0, needs };
                    let fault = world.device.check(&request).unwrap_err();
                    assert!(matches!(fault, AccessFault::StaleKey | AccessFault::UnknownKey));
                }
            }
            world.deregister(key).or_else(|_| world.dealloc(key)).unwrap();
            dead.insert(key);
        }
    }
}

#[test]
fn index_0_is_never_used() {
    for policy in POLICIES {
        let mut world = World::new(1, 0, policy);
        let key = region(&mut world);
        assert_eq!(key.index(), 1);
        for key in [Key(0), Key(1), Key(0xff)] {
            let addr = plain_region(ACCESS).addr;
            let (side, needs) = (Side::Local, Access::empty());
            let request = AccessRequest { key, side, pd: PD, addr, length: 1, needs };
            assert_eq!(world.device.check(&request), Err(AccessFault::UnknownKey));
            assert_eq!(world.deregister(key), Err(22), "EINVAL");
            assert_eq!(world.dealloc(key), Err(22), "EINVAL");
        }
    }
    let mut nothing = World::new(0, 0, KeyPolicy::Random { seed: 9 });
    assert_eq!(nothing.register(plain_region(ACCESS)), Err(12), "ENOMEM");
    assert_eq!(nothing.alloc(PD, WindowType::Type1), Err(12), "ENOMEM");
}

#[test]
fn limits_stay_within_24_bits() {
    let limits = |max_mr, max_mw| {
        let given = KeyLimits { max_mr, max_mw };
        let KeyLimits { max_mr, max_mw } = Protection::new(given, KeyPolicy::Sequential).limits();
        (max_mr, max_mw)
    };
    let most = (1 << 24) - 1;
    assert_eq!(limits(3, 4), (3, 4));
    assert_eq!(limits(most - 1, 1), (most - 1, 1));
    assert_eq!(limits(most - 1, 2), (most - 1, 1));
    assert_eq!(limits(u32::MAX, u32::MAX), (most, 0));
    assert_eq!(limits(0, u32::MAX), (0, most));
}

#[test]
fn keys_of_many_regions_differ() {
    // More than the 65,536 after which keys of regions ran into those of windows elsewhere.
    for policy in POLICIES {
        let mut device = Protection::new(KeyLimits { max_mr: 70_000, max_mw: 5 }, policy);
        let windows = [0; 5].map(|_| device.alloc_window(PD, WindowType::Type2B).unwrap());
        let mut indices = vec![false; 70_006];
        let regions = (0..70_000).map(|_| device.register(plain_region(ACCESS)).unwrap());
        for key in windows.into_iter().chain(regions) {
            assert!(!core::mem::replace(&mut indices[key.index() as usize], true));
        }
        assert!(device.register(plain_region(ACCESS)).is_err());
    }
}

#[test]
fn policies_are_as_predictable_as_they_say() {
    let keys = |policy| {
        let mut world = World::new(64, 0, policy);
        (0..64).map(|_| region(&mut world)).collect::<Vec<_>>()
    };
    let sequential = keys(KeyPolicy::Sequential);
    assert!(sequential.iter().zip(1..).all(|(key, index)| *key == Key::from_parts(index, 0)));
    let rxe = keys(KeyPolicy::RxeLike);
    assert!(rxe.iter().zip(1..).all(|(key, index)| key.index() == index));
    assert!(rxe.iter().map(|key| key.variant()).collect::<BTreeSet<_>>().len() > 32);
    let random = keys(KeyPolicy::Random { seed: 5 });
    let ascents = random.windows(2).filter(|pair| pair[1].0 > pair[0].0).count();
    assert!((16..48).contains(&ascents), "{ascents}");
    assert_eq!(random, keys(KeyPolicy::Random { seed: 5 }));
    let other = keys(KeyPolicy::Random { seed: 6 });
    assert!(random.iter().zip(&other).filter(|(a, b)| a == b).count() < 4);
}
