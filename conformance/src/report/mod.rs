//! Results: what is written to files, compared, and shown.

mod compare;
mod document;
mod html;
mod junit;
mod reasons;
mod table;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::deviation::Deviation;
use crate::rules::family_of;
use crate::wire::Rung;

pub use compare::{Group, Matrix, Row, compare};
pub use document::{Document, DocumentError};
pub use html::html;
pub use junit::junit;
pub use reasons::{Reason, reasons};
pub use table::table;

/// All results of a run: one device, or a world of devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// What was judged.
    pub device: String,
    /// The profile of its devices, if that could be chosen.
    pub profile: Option<String>,
    /// Where all chance came from, if it was under control.
    pub seed: Option<u64>,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// Case by case.
    pub results: Vec<CaseResult>,
}

/// The result of one case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseResult {
    /// The rule: `family/slug`.
    pub rule: String,
    /// The case: the rule with the variant.
    pub name: String,
    /// How it went.
    pub status: Status,
    /// Why, unless it passed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What is declared of it, of a deviation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<Declared>,
    /// What the device did, where that can be said apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub got: Option<String>,
    /// What it should have done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// What of it could not be asked, and why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub left_out: String,
    /// How long it took, in microseconds.
    pub took_us: u64,
    /// What happened, of one that failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ladder: Vec<Rung>,
}

/// What is declared of a deviation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declared {
    /// What the device does instead.
    pub difference: String,
    /// Why that is known, or excused.
    pub reason: String,
}

impl From<&Deviation> for Declared {
    fn from(deviation: &Deviation) -> Self {
        let Deviation { difference, reason, .. } = deviation.clone();
        Self { difference, reason }
    }
}

impl fmt::Display for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.difference, self.reason)
    }
}

impl CaseResult {
    /// Why it did not pass, as a sentence: what is declared first.
    #[must_use]
    pub fn told(&self) -> String {
        match &self.declared {
            Some(declared) => format!("{declared}: {}", self.message),
            None => self.message.clone(),
        }
    }
}

/// How a case went, given what is declared of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// As it should.
    Pass,
    /// Otherwise.
    Fail,
    /// The device cannot be asked this.
    NotApplicable,
    /// Otherwise, as it is declared.
    Deviation,
    /// As it should, though a deviation is declared.
    StaleDeviation,
}

impl Status {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Pass, Self::Fail, Self::NotApplicable, Self::Deviation, Self::StaleDeviation];

    /// Whether it fails the run.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Fail | Self::StaleDeviation)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::NotApplicable => "n/a",
            Self::Deviation => "deviation",
            Self::StaleDeviation => "stale",
        })
    }
}

impl Report {
    /// The results of a run.
    #[must_use]
    pub fn new(device: String, took: Duration, results: Vec<CaseResult>) -> Self {
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        Self { device, profile: None, seed: None, took_ms, results }
    }

    /// The same, of devices of this profile, whose chance came from this seed.
    #[must_use]
    pub fn of(self, profile: Option<String>, seed: Option<u64>) -> Self {
        Self { profile, seed, ..self }
    }

    /// How many went how, by family in the order of the cases; the last entry is all of them.
    #[must_use]
    pub fn tally(&self) -> Vec<(String, Tally)> {
        let mut families: Vec<(String, Tally)> = Vec::new();
        let mut all = Tally::default();
        for result in &self.results {
            let family = family_of(&result.rule);
            let found = families.iter().position(|(known, _)| known == family);
            let at = found.unwrap_or_else(|| {
                families.push((family.to_owned(), Tally::default()));
                families.len() - 1
            });
            families[at].1.add(result);
            all.add(result);
        }
        families.push(("all".into(), all));
        families
    }

    /// Whether the run has failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.results.iter().any(|result| result.status.is_failure())
    }

    /// Results by rule.
    #[must_use]
    pub fn by_rule(&self) -> BTreeMap<&str, Vec<&CaseResult>> {
        let mut rules: BTreeMap<&str, Vec<&CaseResult>> = BTreeMap::new();
        for result in &self.results {
            rules.entry(&result.rule).or_default().push(result);
        }
        rules
    }
}

/// How many went how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Rules that have cases here.
    pub rules: std::collections::BTreeSet<String>,
    /// Cases by status, in the order of [`Status::ALL`].
    pub counts: [usize; 5],
    /// How long they took together, in microseconds.
    pub took_us: u64,
}

impl Tally {
    fn add(&mut self, result: &CaseResult) {
        self.rules.insert(result.rule.clone());
        let at = Status::ALL.iter().position(|status| *status == result.status).unwrap_or(0);
        self.counts[at] += 1;
        self.took_us = self.took_us.saturating_add(result.took_us);
    }

    /// Cases.
    #[must_use]
    pub fn cases(&self) -> usize {
        self.counts.iter().sum()
    }

    /// Cases of this status.
    #[must_use]
    pub fn count(&self, status: Status) -> usize {
        let at = Status::ALL.iter().position(|known| *known == status);
        at.map_or(0, |at| self.counts[at])
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn result(name: &str, status: Status) -> CaseResult {
        let rule = name.rsplit_once('/').map_or(name, |(rule, _)| rule).to_owned();
        let message =
            if status == Status::Pass { String::new() } else { "<because> & \"so\"".into() };
        let rung = Rung {
            at_ns: 1500,
            who: "device".into(),
            what: "RC ACKNOWLEDGE <1>".into(),
            expected: Some("NAK_PSN psn=0".into()),
        };
        let ladder = if status == Status::Fail { vec![rung] } else { Vec::new() };
        let (got, expected) = (None, None);
        let name = name.to_owned();
        let left_out = String::new();
        let declared = None;
        let took_us = 10;
        CaseResult {
            rule,
            name,
            status,
            message,
            declared,
            got,
            expected,
            left_out,
            took_us,
            ladder,
        }
    }

    pub(crate) fn report() -> Report {
        let results = vec![
            result("uc/a/one", Status::Pass),
            result("uc/a/two", Status::Fail),
            result("ud/b/one", Status::NotApplicable),
            result("ud/b/two", Status::StaleDeviation),
        ];
        Report::new("test".into(), Duration::from_millis(5), results)
    }

    #[test]
    fn results_are_counted_by_family() {
        let report = report();
        assert!(report.has_failed());
        let tally = report.tally();
        assert_eq!(tally.len(), 3);
        assert_eq!((tally[0].0.as_str(), tally[0].1.cases(), tally[0].1.rules.len()), ("uc", 2, 1));
        assert_eq!(tally[2].1.counts, [1, 1, 1, 0, 1]);
    }
}
