//! Comparing result files.

use std::io::{self, Write};
use std::path::Path;

use softrnic_conformance::report::{Document, Matrix, Report, Status, compare};

use super::CompareArgs;
use crate::cli::Shared;
use crate::error::Failure;
use crate::files;

pub(super) fn run(args: &CompareArgs, shared: &Shared) -> Result<(), Failure> {
    let mut reports = Vec::new();
    for file in &args.files {
        reports.extend(read(file)?);
    }
    if reports.len() < 2 {
        return Err(Failure::usage(
            "one run cannot be compared with anything",
            "name another file of --results",
        ));
    }
    let matrix = compare(&reports);
    let text = if shared.json { format!("{}\n", json(&matrix)) } else { text(&matrix) };
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// The runs of a file. Those of several files may be of one device, so they are told apart.
fn read(file: &Path) -> Result<Vec<Report>, Failure> {
    let name = file.display();
    let advice = "name a file of --results, or the output of `softrnic --json conform`";
    let wrong = |why: String| Failure::usage(format!("{name}: {why}"), advice);
    let text = files::read_text(file).map_err(|error| wrong(error.to_string()))?;
    Document::parse(&text).map(|document| document.runs).map_err(|error| wrong(error.to_string()))
}

/// The devices as columns are called: two runs of one device have numbers.
fn titles(matrix: &Matrix) -> Vec<String> {
    let devices = &matrix.devices;
    let title = |(at, device): (usize, &String)| {
        let alike = |known: &&String| *known == device;
        if devices.iter().filter(alike).count() == 1 {
            return device.clone();
        }
        format!("{device} #{}", devices[..at].iter().filter(alike).count() + 1)
    };
    devices.iter().enumerate().map(title).collect()
}

/// A row for each case that differs; what was found stands once below all cases that share it.
fn text(matrix: &Matrix) -> String {
    let titles = titles(matrix);
    let names = matrix.rows.iter().map(|row| row.case.len());
    let first = names.chain(["case".len()]).max().unwrap_or(0);
    let widths: Vec<usize> =
        titles.iter().map(|title| title.len().max("deviation".len())).collect();
    let line = |head: &str, cells: &[String]| {
        let cells = cells.iter().zip(&widths).map(|(cell, width)| format!("  {cell:width$}"));
        format!("{head:first$}{}", cells.collect::<String>()).trim_end().to_owned() + "\n"
    };
    let mut out = String::new();
    if !matrix.rows.is_empty() {
        out.push_str(&line("case", &titles));
        let width = first + widths.iter().map(|width| width + 2).sum::<usize>();
        out.push_str(&("-".repeat(width) + "\n"));
    }
    for group in matrix.groups() {
        for row in &group.rows {
            let cells: Vec<String> = row.statuses.iter().map(|status| cell(*status)).collect();
            out.push_str(&line(&row.case, &cells));
        }
        for (title, gist) in titles.iter().zip(group.gist) {
            if !gist.is_empty() {
                out.push_str(&format!("    {title}: {gist}\n"));
            }
        }
    }
    let (differ, same) = (matrix.rows.len(), matrix.same);
    if differ > 0 {
        out.push('\n');
    }
    out.push_str(&format!("{differ} cases differ, {same} do not\n"));
    out
}

fn cell(status: Option<Status>) -> String {
    status.map_or_else(|| "not run".to_owned(), |status| status.to_string())
}

fn json(matrix: &Matrix) -> serde_json::Value {
    let rows = matrix.rows.iter().map(|row| {
        let statuses = row.statuses.iter().map(|status| status.map(|status| status.to_string()));
        serde_json::json!({
            "case": row.case,
            "statuses": statuses.collect::<Vec<_>>(),
            "messages": row.messages,
        })
    });
    let rows: Vec<serde_json::Value> = rows.collect();
    serde_json::json!({ "devices": titles(matrix), "differ": rows, "same": matrix.same })
}

#[cfg(test)]
mod tests {
    use super::*;
    use softrnic_conformance::report::Row;

    #[test]
    fn what_cases_share_is_told_once() {
        let row = |case: &str, gist: &str| Row {
            case: case.into(),
            statuses: vec![Some(Status::Pass), Some(Status::Deviation), None],
            messages: vec![String::new(), format!("{gist}: of {case}"), String::new()],
            gist: vec![String::new(), gist.into(), String::new()],
        };
        let rows = vec![row("uc/a/one", "late"), row("uc/a/two", "early"), row("uc/b/one", "late")];
        let devices = ["x", "y", "x"].map(str::to_owned).to_vec();
        let told = text(&Matrix { devices, rows, same: 7 });
        let expected = "\
case      x #1       y          x #2
-----------------------------------------
uc/a/one  pass       deviation  not run
uc/b/one  pass       deviation  not run
    y: late
uc/a/two  pass       deviation  not run
    y: early

3 cases differ, 7 do not
";
        assert_eq!(told, expected);
    }
}
