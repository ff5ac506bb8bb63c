//! What devices do differently: two or more result files, side by side.

use std::collections::BTreeMap;

use super::{Report, Status};

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
            });
            row.statuses[at] = Some(result.status);
            row.messages[at].clone_from(&result.message);
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
    }
}
