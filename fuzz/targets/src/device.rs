//! A whole device under a sequence of verbs and frames. Nothing panics, every frame that the device
//! makes parses, bytes without a right never change and never leave, and after a deregistration the
//! region's bytes stay as they are.

use arbitrary::{Arbitrary, Unstructured};
use softrnic_model::planted::Fault;

use crate::Target;
use crate::encode::Encoder;
use crate::input::steps;
use crate::reach::Reach;
use crate::world::{Setup, Step, World};

pub(crate) const TARGET: Target = Target {
    name: "device",
    run,
    reaches: &[
        Reach::Datagram,
        Reach::Received,
        Reach::ReadAnswered,
        Reach::AtomicAnswered,
        Reach::NotReady,
        Reach::Refused,
        Reach::Sent,
        Reach::ReadCompleted,
        Reach::AtomicCompleted,
        Reach::FailedByPeer,
        Reach::SentAgain,
    ],
    fault: Fault::Domain,
};

/// Steps of one run.
const STEPS_MAX: usize = 96;

fn run(bytes: &[u8]) {
    let mut input = Unstructured::new(bytes);
    let Ok(setup) = Setup::arbitrary(&mut input) else { return };
    let mut world = World::new(&setup);
    for step in steps::<Step>(&mut input).take(STEPS_MAX) {
        world.step(&step);
        world.drain();
    }
    // What was written stays written.
    world.check();
}

/// Variants of [`Step`], and those of the key of a place.
const STEPS: u32 = 21;
const KEYS: u32 = 6;

/// A queue pair that is its own peer, and requests that reach it, are lost, or are refused.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let types = [0, 1, 2].iter().flat_map(|qp_type| (0..9).map(move |op| (*qp_type, op)));
    let right_and_stale = types.flat_map(|(qp_type, op)| [0, 4].map(|key| (qp_type, op, key)));
    right_and_stale
        .flat_map(|(qp_type, op, key)| [false, true].map(|lost| seed(qp_type, op, key, lost)))
        .collect()
}

fn seed(qp_type: u8, op: u8, key: u32, lost: bool) -> Vec<u8> {
    let mut seed = Encoder::default();
    // Type, PSN, MTU, no SRQ, signal all, own peer, large queues, receives, no window.
    seed.bytes(&[qp_type, 0xfe, 0xff, 0xff, 0, 0, 0, 1, 1, 0, if op == 8 { 0 } else { 4 }, 0, 0]);
    for len in [8_u16, 600] {
        // Send: operation, offset, length, key and address of the place, flags, own region.
        seed.with(4, STEPS, &[op, 0, 8]).bytes(&len.to_le_bytes());
        seed.with(key, KEYS, &[0, 4, 2, 0]);
        // Deliver.
        seed.with(3, STEPS, &[lost.into(), 0, 7]).with(3, STEPS, &[0, 0, 7]);
        if lost {
            // Time, more than any timeout here, until it has given up.
            for _ in 0..4 {
                seed.with(9, STEPS, &20_000_u32.to_le_bytes()).with(3, STEPS, &[0, 0, 7]);
            }
        }
        // Poll.
        seed.with(3, STEPS, &[0, 0, 7]).variant(20, STEPS);
    }
    seed.0
}
