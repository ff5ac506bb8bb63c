//! Random work of all kinds on several queue pairs in both directions, under bad weather; then calm.
//! Everything must finish, and a model knows every byte of both memories, every completion and its
//! order, and that nothing was executed twice.
//!
//! `softrnic swarm` (`conformance/src/swarm`) judges more: many hosts, errors, keys, counters. It does so
//! through verbs and over IPv4. This one is for what it leaves out: the device without verbs around it, over
//! IPv6 too, send queues that are filled to the last place and those that signal everything; and of
//! unreliable services it judges order, and that most messages come.
//!
//! `SWARM_SEEDS` runs more seeds than the normal test, `SWARM_FROM` starts elsewhere, and
//! `SWARM_TRACE` prints all frames of the run.

mod ground;
mod oracle;
mod plan;
mod traffic;
mod unreliable;

use crate::bench::{Bench, Rng, Weather};

use oracle::Oracle;
use plan::Plan;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn seeds(by_default: u64) -> impl Iterator<Item = u64> {
    let from = number("SWARM_FROM").unwrap_or(0);
    from..from + number("SWARM_SEEDS").unwrap_or(by_default)
}

/// One run. Returns a number that stands for all that happened.
fn run(seed: u64) -> u64 {
    let mut rng = Rng::new(seed);
    let plan = Plan::drawn(&mut rng.fork());
    let (mut bench, sides) = plan.bench();
    if number("SWARM_TRACE").is_none() {
        bench.tap.silence();
    }
    bench.tap.rule(Weather::drawn(&mut rng.fork()).rule());
    let mut oracle = Oracle::new(&mut bench, &plan, sides);
    let mut work = rng.fork();
    for _ in 0..plan.steps {
        traffic::step(&mut bench, &mut oracle, &plan, &mut work);
    }
    finish(&mut bench, &mut oracle, &plan, &mut work);
    oracle.check_all(&mut bench);
    bench.tap.hash() ^ oracle.digest()
}

/// The weather calms down, receives are posted for all that is on its way, and all must come.
fn finish(bench: &mut Bench, oracle: &mut Oracle, plan: &Plan, rng: &mut Rng) {
    bench.tap.calm();
    for _ in 0..1000 {
        traffic::post_missing_receives(bench, oracle, plan, rng);
        bench.run_for(100_000_000);
        oracle.poll(bench);
        if oracle.is_idle() {
            return bench.run();
        }
    }
    panic!("it never ends: {:?} {oracle:?}", bench.tap.last());
}

/// Runs `body` for each seed, and says which seed it was that failed.
fn each_seed(by_default: u64, body: impl Fn(u64)) {
    for seed in seeds(by_default) {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(seed)));
        if let Err(reason) = outcome {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(reason);
        }
    }
}

#[test]
fn everything_finishes_and_every_byte_is_right() {
    each_seed(200, |seed| {
        run(seed);
    });
}

#[test]
fn the_same_seed_does_the_same_twice() {
    each_seed(10, |seed| assert_eq!(run(seed), run(seed)));
}

#[test]
fn another_seed_does_something_else() {
    assert_ne!(run(1), run(2));
}
