//! Faults that are planted in the device are found by the swarm, and their shortest schedules are short.
//! A fault is there for the whole process, so this is one test.

use std::time::Duration;

use softrnic_conformance::swarm::{Plan, Schedule, Step, run, shrink};
use softrnic_model::planted::{Fault, plant, uproot};

/// Faults that drawn traffic meets, and how many seeds that may take.
const FOUND: [(Fault, u64); 19] = [
    (Fault::OneByteMore, 60),
    (Fault::StaleKey, 60),
    (Fault::DeregisteredServes, 60),
    (Fault::LastByteMissing, 10),
    (Fault::AddsTwice, 10),
    (Fault::ReceivesTwice, 20),
    (Fault::FenceOpen, 40),
    (Fault::NoRetry, 20),
    (Fault::FlushUnreported, 40),
    (Fault::SendsUncounted, 10),
    (Fault::Domain, 60),
    (Fault::WindowDomain, 60),
    (Fault::WindowUnbound, 60),
    (Fault::WindowQueuePair, 60),
    (Fault::WindowBoundTwice, 60),
    (Fault::InvalidatedByOthers, 60),
    (Fault::ReceiveReadOnly, 60),
    (Fault::RnrUncounted, 10),
    (Fault::NotificationTwice, 60),
];

fn drawn(seed: u64) -> Schedule {
    let plan = Plan::drawn(seed, 3);
    let steps = Step::drawn(&plan).take(600).collect();
    Schedule { plan, steps }
}

#[test]
fn every_planted_fault_is_found_and_its_schedule_is_short() {
    std::panic::set_hook(Box::new(|_| ()));
    let mut missed = Vec::new();
    for (fault, seeds) in FOUND {
        plant(fault);
        let found = (0..seeds).find_map(|seed| {
            let schedule = drawn(seed);
            let failure = run(&schedule.plan, &schedule.steps).err()?;
            Some((seed, schedule, failure))
        });
        let Some((seed, schedule, failure)) = found else {
            missed.push(format!("{fault:?}: not found in {seeds} seeds"));
            continue;
        };
        let (shortest, failure) = shrink(schedule, failure, Duration::from_secs(20));
        println!("{fault:?}: seed {seed}, {} steps: {failure}", shortest.steps.len());
        if shortest.steps.len() > 100 {
            missed.push(format!("{fault:?}: {} steps are not short", shortest.steps.len()));
        }
        let again = Schedule::parse(&shortest.to_text().unwrap()).unwrap();
        assert_eq!(run(&again.plan, &again.steps).err(), Some(failure), "it fails again, alike");
        uproot();
        if let Err(failure) = run(&again.plan, &again.steps) {
            missed.push(format!("{fault:?}: it fails without the fault too: {failure}"));
        }
    }
    let _ = std::panic::take_hook();
    assert!(missed.is_empty(), "{missed:#?}");
}
