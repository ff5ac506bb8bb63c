//! Several rights at once.

use softrnic_model::protection::{AccessRequest, KeyPolicy, Side};
use softrnic_model::verbs::{Access, Key, WindowType};

use crate::world::{PD, QP, World, bind_request, plain_region, subsets};

const ALL: Access = Access::LOCAL_WRITE
    .union(Access::REMOTE)
    .union(Access::MW_BIND)
    .union(Access::FLUSH_GLOBAL)
    .union(Access::FLUSH_PERSISTENT);

/// Tries all subsets of rights as needs; how many were granted.
fn granted(world: &World, key: Key, addr: u64, side: Side) -> usize {
    subsets(ALL)
        .filter(|&needs| world.check(&AccessRequest { key, side, pd: PD, addr, length: 8, needs }))
        .count()
}

#[test]
fn all_that_is_needed_must_be_there() {
    let (mut local, mut remote, mut through_windows) = (0, 0, 0);
    for access in subsets(ALL) {
        let mut world = World::new(1, 1, KeyPolicy::Sequential);
        let spec = plain_region(access);
        let Ok(region) = world.register(spec) else { continue };
        local += granted(&world, region, spec.addr, Side::Local);
        remote += granted(&world, region, spec.addr, Side::Remote { qp: QP });
        if access.contains(Access::MW_BIND) {
            let window = (world.alloc(PD, WindowType::Type2A).unwrap(), WindowType::Type2A);
            // The window has what the region has; bits that are not a peer's must not come with it.
            let request = bind_request(window, region, (spec.addr, 96), access);
            let key = world.bind(request).unwrap();
            through_windows += granted(&world, key, spec.addr, Side::Remote { qp: QP });
        }
    }
    // Each of the 5 rights of peers is absent, or there and not needed, or there and needed; REMOTE_WRITE
    // and REMOTE_ATOMIC are only there with LOCAL_WRITE. Needing nothing is no remote access.
    let with_local_write = 3_usize.pow(5) - 2_usize.pow(5);
    let without = 3_usize.pow(3) - 2_usize.pow(3);
    assert_eq!(remote, 2 * (with_local_write + without));
    assert_eq!(through_windows, with_local_write + without);
    // Local: reading always, writing with LOCAL_WRITE.
    assert_eq!(local, 2 * (2 * 2_usize.pow(5) + 2_usize.pow(3)));
}

#[test]
fn unknown_rights_are_never_granted() {
    let mut world = World::new(1, 0, KeyPolicy::Sequential);
    let spec = plain_region(ALL);
    let key = world.register(spec).unwrap();
    for side in [Side::Local, Side::Remote { qp: QP }] {
        for bit in 0..32 {
            let needs = Access::from_bits_retain(1 << bit);
            let addr = spec.addr;
            let ok = world.check(&AccessRequest { key, side, pd: PD, addr, length: 1, needs });
            let of_local = needs == Access::LOCAL_WRITE;
            let of_peers = (ALL - Access::LOCAL_WRITE - Access::MW_BIND).contains(needs);
            assert_eq!(ok, if side == Side::Local { of_local } else { of_peers }, "{bit}");
        }
    }
}

#[test]
fn unknown_rights_are_not_registered_but_hints_are() {
    for bit in 0..32_u32 {
        let access = Access::from_bits_retain(1 << bit | 1);
        let mut world = World::new(1, 0, KeyPolicy::Sequential);
        let answer = world.device.register(plain_region(access));
        let hint = (20..30).contains(&bit);
        assert_eq!(answer.is_ok(), bit < 10 || hint, "{bit}");
    }
}
