//! The hardware backend through the drop-in, judged as any real device: the recorded scenarios, and the
//! cases over the verbs. It is one process of its own, for the devices are told of by its environment.
#![cfg(target_os = "linux")]
#![expect(clippy::expect_used, clippy::panic, reason = "all of it is a test")]

#[path = "../../verbs-api/tests/udp/drop_in.rs"]
mod drop_in;

use softrnic_conformance::cases;
use softrnic_conformance::deviation::Deviations;
use softrnic_conformance::difference::BY_THE_RULES;
use softrnic_conformance::judge::{Right, judge};
use softrnic_conformance::lab::{VerbsLab, Waits};
use softrnic_conformance::recorded::{RXE_V4, Recording};
use softrnic_conformance::report::{Status, table};
use softrnic_conformance::runner::{self, Options};
use softrnic_conformance::scenario::{Roles, Side, Stage, sessions};
use softrnic_conformance::world::Hardware;

#[test]
fn scenarios_and_cases_through_the_drop_in() {
    let ended = drop_in::again("127.79.0.1;127.79.0.2", &["--ignored", "--nocapture"]);
    drop_in::check(&ended, 2);
}

#[test]
#[ignore = "run by scenarios_and_cases_through_the_drop_in"]
fn every_recorded_scenario() {
    assert!(drop_in::is_inside());
    let recording = Recording::read(RXE_V4).unwrap();
    let mut lab = VerbsLab::new(drop_in::open_both(), Waits::REAL);
    let mut judged = 0;
    for session in sessions() {
        let mut stage = Stage::open(&mut lab, &session.connection, Roles::Straight).unwrap();
        for scenario in &session.scenarios {
            let due = Side::ALL.map(|side| {
                let right = Right::of(scenario.name, side, &recording, BY_THE_RULES);
                right.is_some_and(|right| right.is_completion())
            });
            let observation = stage.run(scenario, Roles::Straight, due).unwrap();
            let verdict = judge(&observation, session.connection.qp_type, &recording, BY_THE_RULES);
            let problems: Vec<_> = verdict.problems.iter().map(ToString::to_string).collect();
            assert!(problems.is_empty(), "{}:\n{}", scenario.name, problems.join("\n"));
            judged += 1;
        }
        stage.close().unwrap();
    }
    assert_eq!(judged, 57);
}

#[test]
#[ignore = "run by scenarios_and_cases_through_the_drop_in"]
fn every_case_over_the_verbs() {
    assert!(drop_in::is_inside());
    let open = Box::new(|end: usize| Ok(std::sync::Arc::clone(&drop_in::open_both()[end])));
    let world = Hardware { device: "drop-in".into(), open };
    let deviations = Deviations::of("drop-in").unwrap();
    // Devices of one name are one device there.
    let options = Options { jobs: 1, ..Options::default() };
    let report = runner::run(cases::all(), Box::new(world), &deviations, &options, &mut |_| {});
    for result in report.results.iter().filter(|result| result.status.is_failure()) {
        println!("{} {}: {}", result.status, result.name, result.message);
    }
    assert!(!report.has_failed(), "{}", table(&report));
    let passed = report.results.iter().filter(|result| result.status == Status::Pass).count();
    assert!(passed > 200, "only {passed} cases ran:\n{}", table(&report));
}
