//! The seeds of every target, run by an ordinary test: nothing panics, each target gets behind its
//! checks, and planted faults are found from the seeds and small changes of them.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::panic::catch_unwind;

use softrnic_fuzz_targets::{Reached, TARGETS, Target, seeds};
use softrnic_model::planted::{Planted, plant};

const CAPTURE: &[u8] = include_bytes!("../../../conformance/captures/rxe-scenarios.pcapng");

fn all(target: &Target) -> Vec<Vec<u8>> {
    let seeds = seeds::seeds(target.name, CAPTURE);
    assert!(!seeds.is_empty(), "{}", target.name);
    seeds
}

fn sum(target: &Target) -> Reached {
    all(target).iter().fold(Reached::default(), |sum, seed| {
        let one = (target.run)(seed);
        Reached {
            executed: sum.executed + one.executed,
            datagrams: sum.datagrams + one.datagrams,
            not_ready: sum.not_ready + one.not_ready,
        }
    })
}

/// Each seed with one byte changed at a time, at places that chance chooses but always the same.
fn mutants(seeds: &[Vec<u8>], count: usize) -> impl Iterator<Item = Vec<u8>> {
    let mut state = 7_u64;
    let mut draw = move |below: usize| {
        state = state.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(0x9e37_79b9_7f4a_7c15);
        usize::try_from(state >> 33).unwrap() % below.max(1)
    };
    (0..count).map(move |_| {
        let mut seed = seeds[draw(seeds.len())].clone();
        for _ in 0..=draw(4) {
            let at = draw(seed.len());
            if let Some(byte) = seed.get_mut(at) {
                *byte = u8::try_from(draw(256)).unwrap();
            }
        }
        seed
    })
}

/// Which target finds which fault. One test: a fault is there for the whole process.
const FOUND: [(&str, Planted); 4] = [
    ("protection", Planted::OneByteMore),
    ("protection", Planted::StaleKey),
    ("protection", Planted::WriteUnjudged),
    ("device", Planted::DeregisteredServes),
];

#[test]
fn seeds_get_behind_the_checks_and_planted_faults_are_found() {
    for target in &TARGETS {
        let reached = sum(target);
        println!("{}: {reached:?}", target.name);
        assert!(reached.executed > 0, "{} executes nothing", target.name);
        if ["device", "responder"].contains(&target.name) {
            assert!(reached.datagrams > 0 && reached.not_ready > 0, "{}: {reached:?}", target.name);
        }
        for mutant in mutants(&all(target), 500) {
            (target.run)(&mutant);
        }
    }
    std::panic::set_hook(Box::new(|_| ()));
    let mut missed = Vec::new();
    for (name, fault) in FOUND {
        let target = TARGETS.iter().find(|target| target.name == name).unwrap();
        let seeds = all(target);
        let mutants = mutants(&seeds, 5000);
        plant(Some(fault));
        let run = |input: &Vec<u8>| catch_unwind(|| (target.run)(input)).is_err();
        let found = seeds.iter().any(run) || mutants.into_iter().any(|mutant| run(&mutant));
        plant(None);
        if !found {
            missed.push(format!("{name} does not find {fault:?}"));
        }
    }
    let _ = std::panic::take_hook();
    assert!(missed.is_empty(), "{missed:#?}");
}
