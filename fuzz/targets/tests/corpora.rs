//! The seeds of all targets, replayed: nothing fails, and all is reached that a fuzzer must reach.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use softrnic_fuzz_targets::{TARGETS, Target, reach, seeds};

/// Counts are of the process, so only one test counts at a time.
static COUNTING: Mutex<()> = Mutex::new(());

#[test]
fn seeds_reach_what_must_be_reached() {
    let _alone = COUNTING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut missed = Vec::new();
    for target in &TARGETS {
        let seeds = seeds::of(target);
        assert!(!seeds.is_empty(), "{}", target.name);
        let before: Vec<u64> = target.reaches.iter().map(|reach| reach::count(*reach)).collect();
        seeds.iter().for_each(|seed| (target.run)(seed));
        for (reach, before) in target.reaches.iter().zip(before) {
            let count = reach::count(*reach) - before;
            println!("{:10} {:18} {count}", target.name, reach.name());
            if count == 0 {
                missed.push((target.name, reach.name()));
            }
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}

/// Cut off or with a bit changed, seeds do no harm.
#[test]
fn damaged_seeds_do_no_harm() {
    let _alone = COUNTING.lock().unwrap_or_else(PoisonError::into_inner);
    for target in &TARGETS {
        for (n, seed) in seeds::of(target).iter().take(300).enumerate() {
            damage(target, n, seed);
        }
    }
}

fn damage(target: &Target, n: usize, seed: &[u8]) {
    (target.run)(&seed[..seed.len() / 2]);
    let mut changed = seed.to_vec();
    let len = changed.len();
    for step in 1..4 {
        let byte = changed.get_mut((n * 7919 + step * 104_729) % len).unwrap();
        *byte ^= 1 << (n % 8);
        (target.run)(&changed);
    }
}

/// Inputs that once failed, a folder for each target.
#[test]
fn what_was_found_stays_mended() {
    let _alone = COUNTING.lock().unwrap_or_else(PoisonError::into_inner);
    let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("found");
    for folder in fs::read_dir(found).unwrap() {
        let folder = folder.unwrap();
        let target = TARGETS.iter().find(|target| target.name == folder.file_name());
        let target = target.unwrap_or_else(|| panic!("no target of the folder {folder:?}"));
        for input in fs::read_dir(folder.path()).unwrap() {
            let input = input.unwrap().path();
            println!("{}", input.display());
            (target.run)(&fs::read(input).unwrap());
        }
    }
}
