//! Runs of all sessions on the simulated fabric, and what was recorded of the same.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use softrnic_conformance::difference::{
    BY_THE_RULES, BY_THE_RULES_ON_THE_WIRE, Difference, Oddity, WireDifference,
};
use softrnic_conformance::judge::judge;
use softrnic_conformance::lab::{Connection, Endpoint, Family, Pace, SimulatedLab, Tapped};
use softrnic_conformance::recorded::{RXE_V4, RXE_V6, Recording};
use softrnic_conformance::scenario::{
    Observation, Roles, Scenario, Session, Side, Stage, sessions,
};
use softrnic_model::profile::Profile;
use softrnic_model::verbs::{Event, Psn, QpType};

use crate::capture::scenes;
use crate::wire;

/// Everything that one scenario is judged by.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    pub(crate) connection: Connection,
    /// By [`Side`].
    pub(crate) ends: [Endpoint; 2],
    /// By [`Side`].
    pub(crate) first_psn: [Psn; 2],
    pub(crate) observation: Observation,
    pub(crate) packets: Vec<Tapped>,
    /// By [`Side`].
    pub(crate) events: [Vec<Event>; 2],
}

/// All scenarios that ran, by name.
pub(crate) type Run = BTreeMap<&'static str, Ran>;

/// Runs `sessions` one after the other in one lab.
pub(crate) fn run(mut lab: SimulatedLab, roles: Roles, sessions: &[Session]) -> Run {
    run_in(&mut lab, roles, sessions)
}

/// The same in a lab that is looked at afterwards.
pub(crate) fn run_in(lab: &mut SimulatedLab, roles: Roles, sessions: &[Session]) -> Run {
    let mut all = Run::new();
    for session in sessions {
        let mut stage = Stage::open(lab, &session.connection, roles).expect("it connects");
        for scenario in &session.scenarios {
            let ran = step(&mut stage, scenario, roles, &session.connection);
            all.insert(scenario.name, ran);
        }
        stage.close().expect("what was made can be destroyed");
    }
    all
}

/// A lab whose packets arrive one by one.
pub(crate) fn lab(profile: Profile, family: Family) -> SimulatedLab {
    SimulatedLab::new(profile, family, Pace::OneByOne)
}

/// Runs one scenario on a stage.
pub(crate) fn step(
    stage: &mut Stage<'_, SimulatedLab>,
    scenario: &Scenario,
    roles: Roles,
    connection: &Connection,
) -> Ran {
    let observation = stage.run(scenario, roles, may_complete(scenario)).expect("the lab works");
    let ends = stage.ends(roles);
    Ran {
        connection: *connection,
        ends,
        first_psn: stage.psn(roles),
        observation,
        packets: stage.lab.take_packets(),
        events: Side::ALL.map(|side| stage.lab.take_events(ends[side as usize].device)),
    }
}

/// Whom a completion may be due to; by [`Side`]. Waiting for one costs nothing in virtual time.
pub(crate) fn may_complete(scenario: &Scenario) -> [bool; 2] {
    [true, scenario.receive.is_some()]
}

/// A profile, and where its answers may differ from the recorded ones.
#[derive(Clone, Copy)]
pub(crate) struct Judged {
    pub(crate) profile: Profile,
    pub(crate) declared: &'static [Difference],
    /// Where its packets differ from the recorded ones.
    pub(crate) wire: &'static [WireDifference],
}

/// As the rules say.
pub(crate) const SPEC: Judged =
    Judged { profile: Profile::SPEC, declared: BY_THE_RULES, wire: BY_THE_RULES_ON_THE_WIRE };

/// As the recorded device: nothing may differ.
pub(crate) const RXE: Judged = Judged { profile: Profile::RXE, declared: &[], wire: &[] };

/// What was recorded over that version of IP.
pub(crate) fn recording(family: Family) -> &'static Recording {
    static V4: LazyLock<Recording> =
        LazyLock::new(|| Recording::read(RXE_V4).expect("the recording is readable"));
    static V6: LazyLock<Recording> =
        LazyLock::new(|| Recording::read(RXE_V6).expect("the recording is readable"));
    match family {
        Family::V4 => &V4,
        Family::V6 => &V6,
    }
}

/// The run of all sessions as they were recorded.
pub(crate) fn straight(judged: &Judged, family: Family) -> &'static Run {
    static RUNS: [LazyLock<Run>; 4] = [
        LazyLock::new(|| run(lab(Profile::SPEC, Family::V4), Roles::Straight, &sessions())),
        LazyLock::new(|| run(lab(Profile::SPEC, Family::V6), Roles::Straight, &sessions())),
        LazyLock::new(|| run(lab(Profile::RXE, Family::V4), Roles::Straight, &sessions())),
        LazyLock::new(|| run(lab(Profile::RXE, Family::V6), Roles::Straight, &sessions())),
    ];
    let of_profile = if judged.profile == SPEC.profile { 0 } else { 2 };
    &RUNS[of_profile + usize::from(family == Family::V6)]
}

/// Judges answers, memory and states. Returns the differences that were declared and are there.
pub(crate) fn check_answers(ran: &Ran, judged: &Judged, family: Family) -> Vec<Oddity> {
    judge_answers(&ran.observation, ran.connection.qp_type, judged, family)
}

/// The same of an observation in any lab.
pub(crate) fn judge_answers(
    observation: &Observation,
    qp_type: QpType,
    judged: &Judged,
    family: Family,
) -> Vec<Oddity> {
    let verdict = judge(observation, qp_type, recording(family), judged.declared);
    let problems: Vec<_> = verdict.problems.iter().map(ToString::to_string).collect();
    let name = observation.scenario.name;
    assert!(problems.is_empty(), "{name} ({}):\n{}", judged.profile, problems.join("\n"));
    verdict.differences
}

/// Judges packets. Returns the difference that was declared and is there.
pub(crate) fn check_packets(ran: &Ran, judged: &Judged, family: Family) -> Option<Oddity> {
    let name = ran.observation.scenario.name;
    let difference = judged.wire.iter().find(|d| d.scenarios.contains(&name));
    let packets = wire::by_sender(&ran.packets, &ran.ends[0]);
    let own = wire::names(&ran.ends, ran.first_psn);
    let scene = &scenes(family)[name];
    let problems = wire::compare(&packets, &own, scene, difference.map(|d| d.right));
    assert!(problems.is_empty(), "{name} ({}):\n{}", judged.profile, problems.join("\n"));
    difference.map(|d| d.why)
}
