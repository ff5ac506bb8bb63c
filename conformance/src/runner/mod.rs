//! Runs cases on a world, each with a time limit: a device that hangs ends in a verdict.

mod crew;

use std::time::Duration;

use crate::case::{Body, Case, Problem, Verdict};
use crate::deviation::{Deviation, Deviations};
use crate::lab::Family;
use crate::report::{CaseResult, Declared, Report, Status};
use crate::script::{self, Played, play};
use crate::stage::Stage;
use crate::wire::Rung;
use crate::world::{Asked, World};

pub use crew::{Progress, Ran};

/// How cases are run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The most that one case may take.
    pub limit: Duration,
    /// Cases that run at a time.
    pub jobs: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { limit: Duration::from_secs(30), jobs: 1 }
    }
}

/// Runs all `cases` on `world` and judges them by what is declared. `progress` hears of every case that
/// has ended.
pub fn run(
    cases: Vec<Case>,
    world: Box<dyn World>,
    deviations: &Deviations,
    options: &Options,
    progress: &mut dyn FnMut(&Progress<'_>),
) -> Report {
    let (device, seed) = (world.name(), world.seed());
    let profile = world.profile().map(|profile| profile.name.to_owned());
    let started = std::time::Instant::now();
    let ran = crew::run(cases, world, options, progress);
    let results = ran.into_iter().map(|ran| judge(ran, deviations)).collect();
    Report::new(device, started.elapsed(), results).of(profile, seed)
}

/// How a case ended.
#[derive(Clone, Debug)]
struct Ended {
    verdict: Verdict,
    /// What happened, in order, if it failed.
    ladder: Vec<Rung>,
    /// What of it could not be asked, though it has passed; empty if all was.
    left_out: String,
}

impl Ended {
    const fn new(verdict: Verdict, ladder: Vec<Rung>) -> Self {
        Self { verdict, ladder, left_out: String::new() }
    }
}

/// One case on one world: over the usual version of IP, and if it passes there over others that it is
/// about.
fn run_case(case: &Case, world: &dyn World) -> Ended {
    let mut ended = run_over(case, world, None);
    for family in case.also_over() {
        if ended.verdict != Verdict::Pass {
            return ended;
        }
        let also = run_over(case, world, Some(*family));
        match also.verdict {
            Verdict::Pass => {}
            Verdict::NotApplicable(why) => ended.left_out = format!("over {family}: {why}"),
            Verdict::Fail(why) => {
                let verdict = Verdict::Fail(format!("over {family}: {why}"));
                ended = Ended { verdict, ..also };
            }
        }
    }
    ended
}

fn run_over(case: &Case, world: &dyn World, family: Option<Family>) -> Ended {
    let asked = Asked { profile: case.profile, family };
    let failed = |problem| Ended::new(Err(problem).into(), Vec::new());
    match &case.body {
        Body::Verbs(act) => {
            let acted = world.stage(&asked).map(|mut stage| {
                let outcome = act(&mut stage);
                let ladder = ladder_of(&stage, &outcome);
                Ended::new(outcome.into(), ladder)
            });
            acted.unwrap_or_else(failed)
        }
        Body::Script(text) => {
            let script = script::parse(text)
                .map_err(|error| Problem::Failed(format!("the script is wrong: {error}")));
            let played = script.and_then(|script| {
                let mut bench = world.bench(&asked)?;
                Ok(play(&script, &mut *bench))
            });
            let ended = |Played { verdict, ladder }| Ended::new(verdict, ladder);
            played.map_or_else(failed, ended)
        }
    }
}

/// What happened on a stage, with what the case has against it at the end.
fn ladder_of(stage: &Stage, outcome: &crate::case::Outcome) -> Vec<Rung> {
    let (what, expected) = match outcome {
        Ok(()) | Err(Problem::NotApplicable(_)) => return Vec::new(),
        Err(Problem::Failed(why)) => (why.clone(), None),
        Err(Problem::Unequal { got, expected, .. }) => (got.clone(), Some(expected.clone())),
    };
    let mut ladder = stage.tape().ladder();
    let at_ns = u64::try_from(stage.now().as_nanos()).unwrap_or(u64::MAX);
    ladder.push(Rung { at_ns, who: "judge".into(), what, expected });
    ladder
}

/// What a verdict means, given what is declared.
fn judge(ran: Ran, deviations: &Deviations) -> CaseResult {
    let Ran { rule, name, ended, took } = ran;
    let Ended { verdict, ladder, left_out } = ended;
    let found = deviations.find(&name);
    let (status, message) = match (verdict, found) {
        (Verdict::Pass, None | Some(Deviation { by_chance: true, .. })) => {
            (Status::Pass, String::new())
        }
        (Verdict::Pass, Some(declared)) => {
            let why = format!("it passes now; delete the deviation: {}", declared.difference);
            (Status::StaleDeviation, why)
        }
        (Verdict::NotApplicable(why), _) => (Status::NotApplicable, why),
        (Verdict::Fail(why), Some(declared)) if why.contains(&declared.says) => {
            (Status::Deviation, why)
        }
        (Verdict::Fail(why), Some(declared)) => {
            let why = format!("not as declared ({}): {why}", declared.difference);
            (Status::Fail, why)
        }
        (Verdict::Fail(why), None) => (Status::Fail, why),
    };
    let ladder =
        if matches!(status, Status::Fail | Status::Deviation) { ladder } else { Vec::new() };
    let declared = found.filter(|_| status == Status::Deviation).map(Declared::from);
    let wrong = ladder.iter().rev().find(|rung| rung.expected.is_some());
    let (got, expected) =
        wrong.map_or((None, None), |rung| (Some(rung.what.clone()), rung.expected.clone()));
    let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    CaseResult { rule, name, status, message, declared, got, expected, left_out, took_us, ladder }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(verdict: Verdict) -> Ran {
        let (rule, name) = ("uc/a".into(), "uc/a/b".into());
        Ran { rule, name, ended: Ended::new(verdict, Vec::new()), took: Duration::ZERO }
    }

    #[test]
    fn a_declared_difference_must_happen_as_declared() {
        let text = "device = 'x'\n[[deviation]]\ncases = 'uc/a'\nsays = 'left'\n\
                    difference = 'd'\nreason = 'r'";
        let declared = Deviations::parse(text).unwrap();
        let by_chance = Deviations::parse(&format!("{text}\nby_chance = true")).unwrap();
        let none = Deviations::default();
        let fail = |why: &str| Verdict::Fail(why.into());
        for (verdict, deviations, expected) in [
            (Verdict::Pass, &none, Status::Pass),
            (Verdict::Pass, &declared, Status::StaleDeviation),
            (Verdict::Pass, &by_chance, Status::Pass),
            (fail("nothing left"), &by_chance, Status::Deviation),
            (fail("something else"), &by_chance, Status::Fail),
            (fail("nothing left"), &none, Status::Fail),
            (fail("nothing left"), &declared, Status::Deviation),
            (fail("something else"), &declared, Status::Fail),
            (Verdict::NotApplicable("no".into()), &declared, Status::NotApplicable),
        ] {
            let told = format!("{verdict:?}");
            assert_eq!(judge(ran(verdict), deviations).status, expected, "{told}");
        }
    }
}
