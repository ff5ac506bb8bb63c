//! The shortest schedule that still fails.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::plan::{Plan, Weather};
use super::run::{Failure, run};
use super::steps::Step;

/// A plan and what is done: all that a run needs, to be kept in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// See [`Plan`].
    pub plan: Plan,
    /// See [`Step`].
    pub steps: Vec<Step>,
}

impl Schedule {
    /// Reads the text form, which is JSON.
    ///
    /// # Errors
    /// Line, column and reason.
    pub fn parse(text: &str) -> Result<Self, String> {
        let schedule: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        schedule.plan.judge().map_err(|reason| format!("plan: {reason}"))?;
        Ok(schedule)
    }

    /// The text form.
    ///
    /// # Errors
    /// None: it has only numbers and names.
    pub fn to_text(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self)
    }

    fn fails(&self) -> Option<Failure> {
        run(&self.plan, &self.steps).err()
    }
}

/// Makes a schedule that fails as short as it can within a time, and says how it fails then. Any
/// failure will do: a shorter way to another one is worth more.
#[must_use]
pub fn shrink(schedule: Schedule, failure: Failure, within: Duration) -> (Schedule, Failure) {
    let started = Instant::now();
    let mut best = (schedule, failure);
    // What comes behind the failure is of no account.
    let upto = best.1.step.saturating_add(1).min(best.0.steps.len());
    try_instead(&mut best, |schedule| schedule.steps.truncate(upto));
    // Parts of the list go, large ones first.
    let mut part = best.0.steps.len().div_ceil(2);
    while part > 0 && started.elapsed() < within {
        let mut from = 0;
        let mut shorter = false;
        while from < best.0.steps.len() && started.elapsed() < within {
            let gone = from..(from + part).min(best.0.steps.len());
            if try_instead(&mut best, |schedule| drop(schedule.steps.drain(gone))) {
                shorter = true;
            } else {
                from += part;
            }
        }
        if part == 1 && !shorter {
            break;
        }
        part = if part == 1 { 1 } else { part / 2 };
    }
    // Calmer weather, and a simpler network.
    let simpler: [fn(&mut Schedule); 8] = [
        |schedule| schedule.plan.weather = Weather::default(),
        |schedule| schedule.plan.weather.drop = 0,
        |schedule| schedule.plan.weather.duplicate = 0,
        |schedule| schedule.plan.weather.delay = 0,
        |schedule| schedule.plan.weather.corrupt = 0,
        |schedule| schedule.plan.weather.mark = 0,
        |schedule| schedule.plan.rate_gbps = 0,
        |schedule| schedule.plan.window_bytes = 1 << 20,
    ];
    for change in simpler {
        if started.elapsed() < within {
            try_instead(&mut best, change);
        }
    }
    best
}

fn try_instead(best: &mut (Schedule, Failure), change: impl FnOnce(&mut Schedule)) -> bool {
    let mut other = best.0.clone();
    change(&mut other);
    if other == best.0 {
        return false;
    }
    let Some(failure) = other.fails() else { return false };
    *best = (other, failure);
    true
}
