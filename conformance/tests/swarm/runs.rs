//! Drawn runs.

use softrnic_conformance::swarm::{Plan, Step, run, run_told};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// `SWARM_SEEDS` runs more seeds, `SWARM_FROM` starts elsewhere.
fn seeds(by_default: u64) -> std::ops::Range<u64> {
    let from = number("SWARM_FROM").unwrap_or(0);
    from..from + number("SWARM_SEEDS").unwrap_or(by_default)
}

fn drawn(seed: u64) -> (Plan, Vec<Step>) {
    let hosts = [2, 3, 5][usize::try_from(seed % 3).unwrap_or(0)];
    let plan = Plan::drawn(seed, hosts);
    let steps = Step::drawn(&plan).take(600).collect();
    (plan, steps)
}

#[test]
fn everything_finishes_and_everything_is_right() {
    for seed in seeds(60) {
        let (plan, steps) = drawn(seed);
        if let Err(failure) = run(&plan, &steps) {
            let (_, words) = run_told(&plan, &steps, false);
            let from = words.len().saturating_sub(40);
            panic!("seed {seed}: {failure}\n{plan:?}\n{}", words[from..].join("\n"));
        }
    }
}

#[test]
fn the_same_seed_does_the_same_twice_and_another_does_not() {
    let hash = |seed| {
        let (plan, steps) = drawn(seed);
        run(&plan, &steps).unwrap().event_hash
    };
    for seed in 0..6 {
        assert_eq!(hash(seed), hash(seed), "seed {seed}");
    }
    assert_ne!(hash(0), hash(1));
}

#[test]
fn a_part_of_a_schedule_is_a_schedule() {
    let (plan, steps) = drawn(7);
    for part in [&steps[300..], &steps[..50], &[]] {
        run(&plan, part).unwrap();
    }
    let every_third: Vec<Step> = steps.iter().copied().step_by(3).collect();
    run(&plan, &every_third).unwrap();
}

/// No counter of the device is left out.
#[test]
fn every_counter_is_compared() {
    use softrnic_model::counters::Counter;
    let compared: Vec<&str> = softrnic_reference::Counts::names().collect();
    let missing = Counter::ALL.iter().filter(|counter| !compared.contains(&counter.name()));
    assert_eq!(missing.count(), 0);
    assert_eq!(compared.len(), Counter::ALL.len());
}
