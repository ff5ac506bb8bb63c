//! What can be told of keys before they are given out: measured for each key policy, and held against
//! the table in `docs/spec/attacks.md`.

#![expect(clippy::unwrap_used, reason = "all of it is a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use softrnic_model::MemoryId;
use softrnic_model::protection::{KeyLimits, KeyPolicy, Protection, RegionSpec};
use softrnic_model::verbs::{Access, Key, PdId};

/// Keys that an attacker has seen.
const SEEN: usize = 4096;

const POLICIES: [(&str, KeyPolicy); 3] = [
    ("sequential", KeyPolicy::Sequential),
    ("rxe-like", KeyPolicy::RxeLike),
    ("random", KeyPolicy::Random { seed: 0x5eed }),
];

fn spec(pd: u32) -> RegionSpec {
    let access = Access::LOCAL_WRITE | Access::REMOTE;
    let (memory, addr) = (MemoryId(0), 0x1000);
    RegionSpec { pd: PdId(pd), memory, memory_offset: 0, addr, length: 64, access }
}

fn device(policy: KeyPolicy, max_mr: u32) -> Protection {
    Protection::new(KeyLimits { max_mr, max_mw: 0 }, policy)
}

/// The keys of regions that are registered one after the other and stay.
fn growing(policy: KeyPolicy) -> Vec<Key> {
    let mut protection = device(policy, 1 << 20);
    (0..SEEN).map(|_| protection.register(spec(1)).unwrap()).collect()
}

/// Shannon entropy in bits of what is drawn from these.
fn entropy<T: Ord>(drawn: impl IntoIterator<Item = T>) -> f64 {
    let mut counts = BTreeMap::new();
    for one in drawn {
        *counts.entry(one).or_insert(0_u32) += 1;
    }
    let all: u32 = counts.values().sum();
    let share = |count: &u32| f64::from(*count) / f64::from(all);
    counts.values().map(share).map(|share| -share * share.log2()).sum::<f64>().abs()
}

fn steps(keys: &[Key]) -> Vec<u32> {
    keys.windows(2).map(|pair| pair[1].0.wrapping_sub(pair[0].0)).collect()
}

/// How often somebody is right who says that the next step is the one that was most frequent so far.
fn guessed(keys: &[Key]) -> f64 {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    let (mut right, mut likely, mut most) = (0, None, 0);
    let steps = steps(keys);
    for step in &steps {
        right += usize::from(likely == Some(*step));
        let count = counts.entry(*step).or_default();
        *count += 1;
        if *count > most {
            (likely, most) = (Some(*step), *count);
        }
    }
    f64::from(u32::try_from(right).unwrap()) / f64::from(u32::try_from(steps.len()).unwrap())
}

/// Registrations until a key comes back, on a device of 16 regions of which one at a time is in use.
fn comes_back_after(policy: KeyPolicy) -> usize {
    let mut protection = device(policy, 16);
    let mut seen = BTreeSet::new();
    loop {
        let key = protection.register(spec(1)).unwrap();
        if !seen.insert(key.0) {
            return seen.len();
        }
        protection.deregister(key).unwrap();
    }
}

/// The lines of the table.
fn table() -> String {
    let mut text = String::from(
        "| policy | entropy of the step from key to key | entropy of the variant | next step guessed | \
         same after a restart | a key comes back after |\n|---|---|---|---|---|---|\n",
    );
    for (name, policy) in POLICIES {
        let keys = growing(policy);
        let again = if growing(policy) == keys { "yes" } else { "no" };
        let again = if name == "random" { "for the same seed only" } else { again };
        writeln!(
            text,
            "| `{name}` | {:.1} bits | {:.1} bits | {:.0} % | {again} | {} registrations of 16 regions |",
            entropy(steps(&keys)),
            entropy(keys.iter().map(|key| key.variant())),
            100.0 * guessed(&keys),
            comes_back_after(policy),
        )
        .unwrap();
    }
    text
}

/// [attacks/key-prediction] The page says what is measured.
#[test]
fn the_page_says_what_is_measured() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/spec/attacks.md");
    let page = fs::read_to_string(&path).unwrap();
    let (table, begin) = (table(), "| policy |");
    if std::env::var_os("SOFTRNIC_WRITE_PAGES").is_some() {
        let (front, behind) = page.split_once(begin).unwrap();
        let rest: String =
            behind.split_inclusive('\n').skip_while(|line| line.contains('|')).collect();
        fs::write(&path, format!("{front}{table}{rest}")).unwrap();
        return;
    }
    assert!(page.contains(&table), "docs/spec/attacks.md should hold\n{table}");
}

/// [attacks/key-prediction] Sequential keys are no secret at all, and scattered ones follow no step.
#[test]
fn only_the_random_policy_hides_the_next_key() {
    let step_bits = POLICIES.map(|(_, policy)| entropy(steps(&growing(policy))));
    assert!(step_bits[0] < 0.01, "sequential: {:.2} bits", step_bits[0]);
    assert!(step_bits[1] > 6.0, "rxe-like: {:.2} bits", step_bits[1]);
    // As many different steps as there are steps: 12 bits are the most that 4096 of them can show.
    assert!(step_bits[2] > 11.9, "random: {:.2} bits", step_bits[2]);
    assert!(guessed(&growing(POLICIES[0].1)) > 0.99);
    assert!(guessed(&growing(POLICIES[2].1)) < 0.01);
}

/// [attacks/key-after-restart] Who saw the keys of an earlier run knows those of the next one, unless
/// the seed is another.
#[test]
fn after_a_restart() {
    for (name, policy) in POLICIES {
        assert_eq!(growing(policy), growing(policy), "{name}: equal beginnings, equal keys");
    }
    let [one, two] = [1, 2].map(|seed| growing(KeyPolicy::Random { seed }));
    let known: BTreeSet<_> = one.iter().map(|key| key.0).collect();
    let hits = two.iter().filter(|key| known.contains(&key.0)).count();
    assert!(hits <= 4, "{hits} of {SEEN} keys of another seed were known");
}

/// [attacks/key-reuse-after-dereg] [protection/key-not-reused-early] All 256 variants of all indices
/// come first.
#[test]
fn keys_come_back_late() {
    for (name, policy) in POLICIES {
        assert!(comes_back_after(policy) >= 16 * 255, "{name}: {}", comes_back_after(policy));
    }
}

/// [attacks/key-space-shared] One's own keys tell something about those of another domain, with the
/// predictable policies.
#[test]
fn own_keys_tell_of_others() {
    for (name, policy) in POLICIES {
        let mut protection = device(policy, 1 << 20);
        let mut hits = 0;
        for _ in 0..1000 {
            let own = protection.register(spec(1)).unwrap();
            let foreign = protection.register(spec(2)).unwrap();
            hits += u32::from(foreign.0.abs_diff(own.0) == 0x100);
        }
        assert_eq!(hits > 900, name == "sequential", "{name}: {hits} of 1000");
    }
}
