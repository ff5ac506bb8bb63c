//! Faults that are planted in the device are found by the swarm, and their shortest schedules are short.
//! A fault is there for the whole process, so this is one test.

use std::time::Duration;

use softrnic_conformance::swarm::{Plan, Schedule, Step, run, shrink};
use softrnic_model::planted::{Planted, plant};

/// Faults that drawn traffic meets, and how many seeds that may take.
const FOUND: [(Planted, u64); 10] = [
    (Planted::OneByteMore, 60),
    (Planted::StaleKey, 60),
    (Planted::DeregisteredServes, 60),
    (Planted::LastByteMissing, 10),
    (Planted::AddsTwice, 10),
    (Planted::ReceivesTwice, 20),
    (Planted::FenceOpen, 40),
    (Planted::NoRetry, 20),
    (Planted::FlushUnreported, 40),
    (Planted::SendsUncounted, 10),
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
        plant(Some(fault));
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
        plant(None);
        if let Err(failure) = run(&again.plan, &again.steps) {
            missed.push(format!("{fault:?}: it fails without the fault too: {failure}"));
        }
    }
    let _ = std::panic::take_hook();
    assert!(missed.is_empty(), "{missed:#?}");
}
