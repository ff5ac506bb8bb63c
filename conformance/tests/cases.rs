//! All cases are well formed, and the devices of this workspace pass them.

use std::collections::BTreeSet;

use softrnic_conformance::cases;
use softrnic_conformance::deviation::Deviations;
use softrnic_conformance::report::Report;
use softrnic_conformance::rules;
use softrnic_conformance::runner::{self, Options};
#[cfg(target_os = "linux")]
use softrnic_conformance::world::Emulated;
use softrnic_conformance::world::{Simulated, World};
use softrnic_model::profile::Profile;

/// Runs all cases and shows what went wrong.
fn judge(world: Box<dyn World>, profile: Profile) -> Report {
    let deviations = Deviations::of(profile.name).unwrap();
    let options = Options { jobs: 2, ..Options::default() };
    let report = runner::run(cases::all(), world, &deviations, &options, &mut |_| {});
    for result in report.results.iter().filter(|result| result.status.is_failure()) {
        println!("{} {}: {}", result.status, result.name, result.message);
        result.ladder.iter().for_each(|rung| println!("{rung}"));
    }
    assert!(!report.has_failed(), "{}", softrnic_conformance::report::table(&report));
    report
}

fn simulated(profile: Profile) {
    let report = judge(Box::new(Simulated { profile }), profile);
    // A device of our own can be asked everything.
    let passed = report.results.iter().filter(|result| !result.message.contains("n/a")).count();
    assert_eq!(passed, cases::all().len());
}

#[test]
fn names_are_unique_scripts_are_understood_and_rules_exist() {
    let rules = rules::all().unwrap();
    let mut names = BTreeSet::new();
    let mut problems = Vec::new();
    for case in cases::all() {
        let name = case.name();
        if !rules.contains_key(&*case.rule) {
            problems.push(format!("{name}: there is no such rule"));
        }
        if let Err(error) = case.script() {
            problems.push(format!("{name}: {error}"));
        }
        if !names.insert(name.clone()) {
            problems.push(format!("{name} is there twice"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn simulated_spec() {
    simulated(Profile::SPEC);
}

#[test]
fn simulated_strict() {
    simulated(Profile::STRICT);
}

#[test]
fn simulated_rxe() {
    simulated(Profile::RXE);
}

#[test]
fn simulated_cx5() {
    simulated(Profile::CX5);
}

#[cfg(target_os = "linux")]
#[test]
fn emulated_spec() {
    let profile = Profile::SPEC;
    judge(Box::new(Emulated { profile }), profile);
}
