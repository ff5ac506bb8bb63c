//! Why cases were not judged, or may differ: each reason once, with the number of its cases.

use super::{CaseResult, Report, Status};

/// A reason that cases share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// What became of the cases; of those that passed, a part was left out.
    pub status: Status,
    /// Why.
    pub text: String,
    /// How many there are.
    pub cases: usize,
    /// One of them.
    pub example: String,
}

impl Reason {
    /// What became of the cases, in a word or two.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self.status {
            Status::NotApplicable => "n/a",
            Status::Deviation => "deviation",
            Status::Pass | Status::Fail | Status::StaleDeviation => "in part",
        }
    }
}

/// The reasons of all cases that were not applicable, deviate as declared, or were judged in part: by
/// status, those of the most cases first.
#[must_use]
pub fn reasons(report: &Report) -> Vec<Reason> {
    let mut all: Vec<Reason> = Vec::new();
    for result in &report.results {
        let Some(text) = reason_of(result) else { continue };
        let known =
            all.iter_mut().find(|known| known.status == result.status && known.text == text);
        match known {
            Some(reason) => reason.cases += 1,
            None => all.push(Reason {
                status: result.status,
                text,
                cases: 1,
                example: result.name.clone(),
            }),
        }
    }
    all.sort_by(|a, b| (a.status, b.cases).cmp(&(b.status, a.cases)));
    all
}

fn reason_of(result: &CaseResult) -> Option<String> {
    match (result.status, &result.declared) {
        (Status::NotApplicable, _) => Some(result.message.clone()),
        (Status::Deviation, Some(declared)) => Some(declared.to_string()),
        (Status::Pass, _) if !result.left_out.is_empty() => Some(result.left_out.clone()),
        (Status::Pass | Status::Fail | Status::Deviation | Status::StaleDeviation, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Declared;
    use crate::report::tests::{report, result};

    #[test]
    fn each_reason_is_told_once() {
        let mut report = report();
        for name in ["ud/b/three", "ud/b/four"] {
            let mut deviation = result(name, Status::Deviation);
            let (difference, reason) = ("it is late".into(), "it is slow".into());
            deviation.declared = Some(Declared { difference, reason });
            report.results.push(deviation);
        }
        report.results[0].left_out = "over IPv6: no address".into();
        let told: Vec<String> = reasons(&report)
            .iter()
            .map(|Reason { status, text, cases, example }| {
                format!("{status} {cases} {text} {example}")
            })
            .collect();
        assert_eq!(
            told,
            [
                "pass 1 over IPv6: no address uc/a/one",
                "n/a 1 <because> & \"so\" ud/b/one",
                "deviation 2 it is late (it is slow) ud/b/three",
            ]
        );
    }
}
