//! Results: what is written to files, compared, and shown.

mod compare;
mod html;
mod junit;
mod table;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::rules::family_of;
use crate::wire::Rung;

pub use compare::{Matrix, compare};
pub use html::html;
pub use junit::junit;
pub use table::table;

/// The number of the form that result files have.
const FORM: u32 = 1;

/// All results of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The form of the file.
    pub form: u32,
    /// What was judged.
    pub device: String,
    /// The version of the judge.
    pub judge: String,
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
    /// How long it took, in microseconds.
    pub took_us: u64,
    /// What happened, of one that failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ladder: Vec<Rung>,
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

/// Why a result file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportError(String);

impl fmt::Display for ReportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ReportError {}

impl Report {
    /// The results of a run.
    #[must_use]
    pub fn new(device: String, took: Duration, results: Vec<CaseResult>) -> Self {
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let judge = env!("CARGO_PKG_VERSION").to_owned();
        Self { form: FORM, device, judge, took_ms, results }
    }

    /// Reads a result file.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn from_json(text: &str) -> Result<Self, ReportError> {
        let told = |error: serde_json::Error| ReportError(error.to_string());
        let value: serde_json::Value = serde_json::from_str(text).map_err(told)?;
        match value.get("form").and_then(serde_json::Value::as_u64) {
            Some(form) if form == u64::from(FORM) => {}
            Some(form) => {
                let why =
                    format!("line 1: form {form} is not one that this program reads ({FORM})");
                return Err(ReportError(why));
            }
            None => return Err(ReportError("line 1: no result file: it has no \"form\"".into())),
        }
        // Read again from the text, for the line of what is wrong.
        serde_json::from_str(text).map_err(told)
    }

    /// The text of a result file.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Nothing in it can fail to be written.
        serde_json::to_string_pretty(self).unwrap_or_default()
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
        CaseResult { rule, name: name.into(), status, message, took_us: 10, ladder }
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
    fn a_result_file_is_read_back() {
        let report = report();
        assert_eq!(Report::from_json(&report.to_json()), Ok(report.clone()));
        assert!(report.has_failed());
        let tally = report.tally();
        assert_eq!(tally.len(), 3);
        assert_eq!((tally[0].0.as_str(), tally[0].1.cases(), tally[0].1.rules.len()), ("uc", 2, 1));
        assert_eq!(tally[2].1.counts, [1, 1, 1, 0, 1]);
    }

    #[test]
    fn what_is_wrong_with_a_result_file_is_told() {
        for (text, why) in [
            ("", "EOF while parsing a value at line 1 column 0"),
            ("{}", "line 1: no result file: it has no \"form\""),
            ("{\"form\": 7}", "line 1: form 7 is not one that this program reads (1)"),
            (
                "{\"form\": 1,\n\"device\": 3}",
                "invalid type: integer `3`, expected a string at line 2 column 11",
            ),
        ] {
            assert_eq!(Report::from_json(text).unwrap_err().to_string(), why);
        }
    }
}
