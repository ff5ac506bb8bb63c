//! What a check costs. Run with `cargo test --release --test protection -- --ignored --nocapture`.

use softrnic_model::MemoryId;
use softrnic_model::protection::{AccessRequest, KeyPolicy, RegionSpec, Side};
use softrnic_model::verbs::{Access, Key, WindowType};

use crate::world::{PD, QP, World, bind_request, plain_region};

/// Nanoseconds per check of the requests in turn, the best of many runs that are short enough for one
/// of them not to be interrupted.
#[expect(clippy::disallowed_types, reason = "this measures; the model under test is not told")]
fn nanoseconds(world: &World, requests: &[AccessRequest]) -> f64 {
    use std::time::Instant;
    let rounds = 1 + 20_000 / requests.len();
    let once = || {
        let start = Instant::now();
        let mut sum = 0;
        for _ in 0..rounds {
            for request in requests {
                // Not a `black_box` of the whole result: a copy of it costs more than the check.
                sum += world.device.check(core::hint::black_box(request)).unwrap().offset;
            }
        }
        assert_ne!(core::hint::black_box(sum), 0);
        start.elapsed().as_secs_f64() * 1e9 / (rounds * requests.len()) as f64
    };
    (0..1000).map(|_| once()).fold(f64::INFINITY, f64::min)
}

fn request(key: Key, addr: u64) -> AccessRequest {
    let side = Side::Remote { qp: QP };
    AccessRequest { key, side, pd: PD, addr, length: 64, needs: Access::REMOTE_WRITE }
}

#[test]
#[ignore = "a measurement: run it optimised"]
fn a_check_costs_a_few_nanoseconds() {
    let access = Access::LOCAL_WRITE | Access::MW_BIND | Access::REMOTE;
    for count in [1_u32, 64, 16_384] {
        let mut world = World::new(count, count, KeyPolicy::Random { seed: 1 });
        let spec = |n: u32| RegionSpec { memory: MemoryId(n), ..plain_region(access) };
        // Straight to the device: the reference would remember each for ever.
        let regions: Vec<Key> =
            (0..count).map(|n| world.device.register(spec(n)).unwrap()).collect();
        let windows: Vec<Key> = regions
            .iter()
            .map(|&region| {
                let key = world.device.alloc_window(PD, WindowType::Type2B).unwrap();
                let range = (plain_region(access).addr, 96);
                let window = (key, WindowType::Type2B);
                world.device.bind(bind_request(window, region, range, access)).unwrap()
            })
            .collect();
        let each = |keys: &[Key]| {
            let addr = plain_region(access).addr + 16;
            let requests: Vec<_> = keys.iter().map(|&key| request(key, addr)).collect();
            nanoseconds(&world, &requests)
        };
        let (region, window) = (each(&regions), each(&windows));
        println!("{count} objects: region {region:.2} ns, window {window:.2} ns");
        if !cfg!(debug_assertions) {
            assert!(region < 50.0 && window < 100.0);
        }
        world.device.deregister(regions[0]).unwrap_err();
    }
}
