//! What devices do differently: two or more result files, side by side.

use std::collections::BTreeMap;

use super::{CaseResult, Report, Status};

/// Cases that did not go the same way everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// The devices, in the order of the files.
    pub devices: Vec<String>,
    /// Case by case: the status on each device, `None` where it was not run, with the message.
    pub rows: Vec<Row>,
    /// Cases that went the same way on all.
    pub same: usize,
}

/// A case in a [`Matrix`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub case: String,
    /// How it went on each device.
    pub statuses: Vec<Option<Status>>,
    /// What was found, on each device.
    pub messages: Vec<String>,
    /// The same without what differs from case to case: of a deviation, what is declared.
    pub gist: Vec<String>,
}

/// Cases in which the devices differ in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group<'a> {
    /// The cases, in order.
    pub rows: Vec<&'a Row>,
    /// What was found in all of them, on each device.
    pub gist: &'a [String],
}

impl Matrix {
    /// Its rows, those together in which the same was found.
    #[must_use]
    pub fn groups(&self) -> Vec<Group<'_>> {
        let mut groups: Vec<Group<'_>> = Vec::new();
        for row in &self.rows {
            let alike = |group: &&mut Group<'_>| {
                group.gist == row.gist && group.rows[0].statuses == row.statuses
            };
            match groups.iter_mut().find(alike) {
                Some(group) => group.rows.push(row),
                None => groups.push(Group { rows: vec![row], gist: &row.gist }),
            }
        }
        groups
    }
}

fn gist_of(result: &CaseResult) -> String {
    match &result.declared {
        Some(declared) => declared.to_string(),
        None => result.message.clone(),
    }
}

/// Puts result files side by side.
#[must_use]
pub fn compare(reports: &[Report]) -> Matrix {
    let mut cases: BTreeMap<&str, Row> = BTreeMap::new();
    for (at, report) in reports.iter().enumerate() {
        for result in &report.results {
            let row = cases.entry(&result.name).or_insert_with(|| Row {
                case: result.name.clone(),
                statuses: vec![None; reports.len()],
                messages: vec![String::new(); reports.len()],
                gist: vec![String::new(); reports.len()],
            });
            row.statuses[at] = Some(result.status);
            row.messages[at] = result.told();
            row.gist[at] = gist_of(result);
        }
    }
    let total = cases.len();
    let differs = |row: &Row| {
        // A failure that is declared is the same behaviour as one that is not.
        let behaviour = |status: &Option<Status>| match status {
            Some(Status::Pass | Status::StaleDeviation) => 1,
            Some(Status::Fail | Status::Deviation) => 2,
            Some(Status::NotApplicable) => 3,
            None => 4,
        };
        row.statuses.windows(2).any(|pair| behaviour(&pair[0]) != behaviour(&pair[1]))
    };
    let rows: Vec<Row> = cases.into_values().filter(differs).collect();
    let devices = reports.iter().map(|report| report.device.clone()).collect();
    Matrix { devices, same: total - rows.len(), rows }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{report, result};

    #[test]
    fn only_what_differs_is_shown() {
        let one = report();
        let mut two = report();
        two.device = "other".into();
        two.results[1].status = Status::Deviation;
        two.results[2].status = Status::Pass;
        two.results.push(result("ud/c/new", Status::Pass));
        let matrix = compare(&[one, two]);
        assert_eq!(matrix.devices, ["test", "other"]);
        assert_eq!(matrix.same, 3);
        let names: Vec<&str> = matrix.rows.iter().map(|row| row.case.as_str()).collect();
        assert_eq!(names, ["ud/b/one", "ud/c/new"]);
        assert_eq!(matrix.rows[1].statuses, [None, Some(Status::Pass)]);
        assert_eq!(matrix.groups().len(), 2);
    }

    #[test]
    fn a_difference_of_many_cases_is_one() {
        let mut one = report();
        let mut two = report();
        one.results.clear();
        two.results.clear();
        for name in ["uc/a/one", "uc/b/one", "uc/c/one"] {
            one.results.push(result(name, Status::Pass));
            let mut other = result(name, Status::Deviation);
            let (difference, reason) = ("d".into(), "r".into());
            other.message = format!("of {name}");
            other.declared = Some(crate::report::Declared { difference, reason });
            two.results.push(other);
        }
        two.results[2].declared = None;
        let matrix = compare(&[one, two]);
        let groups = matrix.groups();
        let sizes: Vec<usize> = groups.iter().map(|group| group.rows.len()).collect();
        assert_eq!(sizes, [2, 1]);
        assert_eq!(groups[0].gist, ["", "d (r)"]);
        assert_eq!(groups[1].gist, ["", "of uc/c/one"]);
        assert_eq!(matrix.rows[0].messages, ["", "d (r): of uc/a/one"]);
    }
}
