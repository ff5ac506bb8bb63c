//! Each scenario as it was recorded: same completions, same packets, memory as it must be.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use softrnic_conformance::difference::{BY_THE_RULES, Difference, Oddity};
use softrnic_conformance::judge::judge;
use softrnic_conformance::lab::Family;
use softrnic_conformance::scenario::sessions;

use crate::capture::scenes;
use crate::world::{
    Judged, RXE, Ran, Run, SPEC, check_answers, check_packets, recording, straight,
};

/// Judges one scenario. What was declared to differ must differ.
fn check(name: &str, judged: &Judged, family: Family) {
    let ran = &straight(judged, family)[name];
    check_answers(ran, judged, family);
    check_packets(ran, judged, family);
}

macro_rules! scenarios {
    ([$($name:ident)*]) => {
        /// The names in the order of the recording.
        const NAMES: &[&str] = &[$(stringify!($name)),*];

        scenarios! { @as spec_v4 SPEC V4 [$($name)*] }
        scenarios! { @as spec_v6 SPEC V6 [$($name)*] }
        scenarios! { @as rxe_v4 RXE V4 [$($name)*] }
        scenarios! { @as rxe_v6 RXE V6 [$($name)*] }
    };
    (@as $module:ident $judged:ident $family:ident [$($name:ident)*]) => {
        #[expect(non_snake_case, reason = "the names of the recording")]
        mod $module {
            $(
                #[test]
                fn $name() {
                    super::check(stringify!($name), &super::$judged, super::Family::$family);
                }
            )*
        }
    };
}

for_every_scenario!(scenarios);

#[test]
fn every_recorded_scenario_is_a_test() {
    assert_eq!(NAMES.len(), 57);
    let written: Vec<_> =
        sessions().iter().flat_map(|s| s.scenarios.iter().map(|s| s.name)).collect();
    assert_eq!(written, NAMES);
    let sorted: BTreeSet<_> = NAMES.iter().copied().collect();
    for family in Family::ALL {
        assert!(recording(family).names().eq(sorted.iter().copied()));
        let captured = scenes(family);
        assert!(NAMES.iter().all(|&name| captured.contains_key(name)));
    }
}

/// A declared difference that is not there is a problem, and so is one that is not declared.
#[test]
fn differences_are_there_exactly_where_they_are_declared() {
    let declared = |name: &str| BY_THE_RULES.iter().any(|d| d.scenarios.contains(&name));
    let has_problems = |run: &Run, name: &str, table: &[Difference]| {
        let Ran { observation, connection, .. } = &run[name];
        let verdict = judge(observation, connection.qp_type, recording(Family::V4), table);
        !verdict.problems.is_empty()
    };
    for &name in NAMES {
        let rxe = straight(&RXE, Family::V4);
        assert_eq!(has_problems(rxe, name, BY_THE_RULES), declared(name), "{name}");
        let spec = straight(&SPEC, Family::V4);
        assert_eq!(has_problems(spec, name, &[]), declared(name), "{name}");
    }
}

/// Counts the declared differences that are there: in answers, and in exchanges of packets.
fn differences(family: Family) -> BTreeMap<Oddity, [usize; 2]> {
    let mut counts: BTreeMap<Oddity, [usize; 2]> = BTreeMap::new();
    for ran in straight(&SPEC, family).values() {
        for oddity in check_answers(ran, &SPEC, family) {
            counts.entry(oddity).or_default()[0] += 1;
        }
        if let Some(oddity) = check_packets(ran, &SPEC, family) {
            counts.entry(oddity).or_default()[1] += 1;
        }
    }
    counts
}

#[test]
fn the_declared_differences_are_these() {
    let expected = [
        (Oddity::GrhOnConnected, [20, 0]),
        (Oddity::ImmOnSend, [7, 0]),
        (Oddity::UndefinedFields, [11, 0]),
        (Oddity::BadLkey, [1, 0]),
        (Oddity::ReceiveTooSmall, [4, 2]),
        (Oddity::DatagramTooLong, [1, 0]),
        (Oddity::UnalignedAtomic, [1, 1]),
        (Oddity::ReadWithoutDepth, [1, 0]),
    ];
    assert_eq!(expected.map(|(oddity, _)| oddity), Oddity::ALL);
    for family in Family::ALL {
        assert_eq!(differences(family), BTreeMap::from(expected), "{family:?}");
    }
    let mut report =
        String::from("\nprofile spec differs from the recorded device where the rules say so:\n");
    for (oddity, [answers, exchanges]) in expected {
        let rule = oddity.rule();
        report += &format!("  {answers:2} answers, {exchanges} exchanges  {oddity:?}: {rule}\n");
    }
    // Past the capture of test output: whoever runs the tests is to see this.
    std::io::stderr().write_all(report.as_bytes()).unwrap();
}
