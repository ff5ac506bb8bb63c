//! Any bytes at any time: no panic, nothing touched that was not granted, and a counter for each
//! packet that leads to nothing.
//!
//! `GARBAGE_FRAMES` sets how many frames are tried, `GARBAGE_SEED` where chance begins.

mod chaos;
mod frames;
mod world;

use softrnic_model::Instant;
use softrnic_model::counters::{Counter, Counters};
use softrnic_model::verbs::QpState;

use crate::bench::Rng;

use frames::Frames;
use world::World;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Frames that the world is given before it is looked at and set up anew.
const ROUND: u64 = 200;

fn rounds(frames: u64, mut round: impl FnMut(&mut Rng)) {
    let mut rng = Rng::new(number("GARBAGE_SEED", 1));
    for _ in 0..number("GARBAGE_FRAMES", frames).div_ceil(ROUND) {
        round(&mut rng);
    }
}

#[test]
fn damaged_frames_touch_nothing_that_was_not_granted() {
    let frames = Frames::recorded();
    let mut total = Counters::new();
    rounds(500_000, |rng| {
        let mut world = World::new(rng);
        for _ in 0..ROUND {
            let (route, bytes) = frames.damaged(rng, &world);
            let before = world.drops();
            world.deliver(&route, &bytes);
            let dropped = world.drops() - before;
            assert!(dropped <= 1, "counted {dropped} times: {bytes:02x?}");
            if rng.chance(20) {
                world.drain();
                world.revive(rng);
                world.pass_time(rng.below(1_000_000));
            }
        }
        world.check();
        total.merge(world.device().counters());
    });
    // The damage is of all kinds, or this shows nothing.
    for &counter in Counter::ALL {
        let reached = counter.name().starts_with("drop_") && counter != Counter::DropBadIcrc;
        let few = total.get(Counter::ReceivedPackets) / 100_000;
        assert!(!reached || total.get(counter) >= few, "{counter:?}: {total:?}");
    }
}

#[test]
fn noise_touches_nothing_at_all() {
    rounds(200_000, |rng| {
        let mut world = World::new(rng);
        for _ in 0..ROUND {
            let bytes: Vec<u8> = (0..rng.below(120)).map(|_| rng.next() as u8).collect();
            let route = world.route(rng);
            world.deliver(&route, &bytes);
        }
        assert_eq!(world.drops(), ROUND, "not one in 2^24 finds a queue pair");
        world.check();
        world.check_memory_is_as_at_first();
    });
}

#[test]
fn a_frame_leads_to_something_or_is_counted() {
    // Of queue pairs that have nothing outstanding everything can be seen from outside.
    let frames = Frames::recorded();
    rounds(200_000, |rng| {
        let mut world = World::without_traffic(rng);
        for _ in 0..ROUND {
            let (route, bytes) = frames.damaged(rng, &world);
            let before = world.seen();
            world.deliver(&route, &bytes);
            let after = world.seen();
            world.revive(rng);
            let dropped = after.drops - before.drops;
            let led_to_something = after.everything_else != before.everything_else;
            assert!(dropped == 1 || led_to_something, "{bytes:02x?}");
        }
    });
}

#[test]
fn truncated_frames_of_every_length() {
    let frames = Frames::recorded();
    let mut rng = Rng::new(3);
    for bytes in frames.all() {
        let mut world = World::new(&mut rng);
        for len in 0..bytes.len() {
            let route = world.route_to_b();
            world.deliver(&route, &bytes[..len]);
        }
        for more in 1..70 {
            let mut longer = bytes.clone();
            longer.resize(bytes.len() + more, 0xee);
            let route = world.route_to_b();
            world.deliver(&route, &longer);
        }
        world.check();
    }
}

#[test]
fn every_opcode_with_every_length_in_every_state() {
    let mut rng = Rng::new(4);
    for opcode in 0..=u8::MAX {
        let mut world = World::new(&mut rng);
        for qp in world.targets() {
            for words in 3..20 {
                let mut bytes = vec![0; words * 4];
                bytes[0] = opcode;
                bytes[1] = (rng.below(4) as u8) << 4;
                bytes[2..4].copy_from_slice(&[0xff; 2]);
                bytes[4..8].copy_from_slice(&qp.num.get().to_be_bytes());
                bytes[8..12].copy_from_slice(&qp.expected.get().to_be_bytes());
                let route = world.route_to_b();
                world.deliver(&route, &bytes);
            }
        }
        world.check();
    }
}

#[test]
fn time_alone_does_no_harm() {
    let mut rng = Rng::new(5);
    let mut world = World::new(&mut rng);
    for _ in 0..200 {
        world.pass_time(rng.below(1 << 40));
        world.drain();
    }
    world.check();
    world.device().on_time(Instant::from_ns(u64::MAX));
    world.drain();
    world.check();
    assert!(world.count(Counter::AckTimeout) > 0);
    // Those that wait for answers have given up, those of unreliable services want none.
    let left = world.states().iter().filter(|state| **state == QpState::Rts).count();
    assert_eq!(left, 2);
}
