//! Runs cases on a world, each with a time limit: a device that hangs ends in a verdict.

mod crew;

use std::time::Duration;

use crate::case::{Body, Case, Problem, Verdict};
use crate::deviation::{Deviation, Deviations};
use crate::report::{CaseResult, Report, Status};
use crate::script::{self, play};
use crate::wire::Rung;
use crate::world::World;

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
    let device = world.name();
    let started = std::time::Instant::now();
    let ran = crew::run(cases, world, options, progress);
    let results = ran.into_iter().map(|ran| judge(ran, deviations)).collect();
    Report::new(device, started.elapsed(), results)
}

/// One case on one world.
fn run_case(case: &Case, world: &dyn World) -> (Verdict, Vec<Rung>) {
    let outcome = match &case.body {
        Body::Verbs(act) => {
            let stage = world.stage(case.profile);
            return (stage.and_then(|mut stage| act(&mut stage)).into(), Vec::new());
        }
        Body::Script(text) => script::parse(text)
            .map_err(|error| Problem::Failed(format!("the script is wrong: {error}"))),
    };
    let played = outcome.and_then(|script| {
        let mut bench = world.bench(case.profile)?;
        Ok(play(&script, &mut *bench))
    });
    match played {
        Ok(played) => (played.verdict, played.ladder),
        Err(problem) => (Err(problem).into(), Vec::new()),
    }
}

/// What a verdict means, given what is declared.
fn judge(ran: Ran, deviations: &Deviations) -> CaseResult {
    let Ran { rule, name, verdict, ladder, took } = ran;
    let declared = deviations.find(&name);
    let (status, message) = match (verdict, declared) {
        (Verdict::Pass, None | Some(Deviation { by_chance: true, .. })) => {
            (Status::Pass, String::new())
        }
        (Verdict::Pass, Some(declared)) => {
            let why = format!("it passes now; delete the deviation: {}", declared.difference);
            (Status::StaleDeviation, why)
        }
        (Verdict::NotApplicable(why), _) => (Status::NotApplicable, why),
        (Verdict::Fail(why), Some(declared)) if why.contains(&declared.says) => {
            (Status::Deviation, format!("{} ({}): {why}", declared.difference, declared.reason))
        }
        (Verdict::Fail(why), Some(declared)) => {
            let why = format!("not as declared ({}): {why}", declared.difference);
            (Status::Fail, why)
        }
        (Verdict::Fail(why), None) => (Status::Fail, why),
    };
    let ladder =
        if matches!(status, Status::Fail | Status::Deviation) { ladder } else { Vec::new() };
    let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    CaseResult { rule, name, status, message, took_us, ladder }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(verdict: Verdict) -> Ran {
        let (rule, name) = ("uc/a".into(), "uc/a/b".into());
        Ran { rule, name, verdict, ladder: Vec::new(), took: Duration::ZERO }
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
