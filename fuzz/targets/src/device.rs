//! A whole device under a sequence of verbs and frames. Nothing panics, every frame that the device
//! makes parses, bytes without a right never change and never leave, and after a deregistration the
//! region's bytes stay as they are.

use arbitrary::{Arbitrary, Unstructured};
use softrnic_model::planted::Fault;

use crate::Target;
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
