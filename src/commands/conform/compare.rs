//! Comparing result files.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use comfy_table::{LineStyle, TableStyle};
use softrnic_conformance::report::{Matrix, Report, compare};

use super::CompareArgs;
use crate::cli::Shared;
use crate::error::Failure;

pub(super) fn run(args: &CompareArgs, shared: &Shared) -> Result<(), Failure> {
    let reports = args.files.iter().map(|file| read(file)).collect::<Result<Vec<_>, _>>()?;
    let matrix = compare(&reports);
    let text = if shared.json { format!("{}\n", json(&matrix)) } else { text(&matrix) };
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

fn read(file: &Path) -> Result<Report, Failure> {
    let name = file.display();
    let text = fs::read_to_string(file)
        .map_err(|error| Failure::usage(format!("{name}: {error}"), "name a file of --results"))?;
    Report::from_json(&text)
        .map_err(|error| Failure::usage(format!("{name}: {error}"), "name a file of --results"))
}

/// A row for each case that differs, with what was found below it.
fn text(matrix: &Matrix) -> String {
    let Matrix { devices, rows, same } = matrix;
    let mut table = comfy_table::Table::new();
    let rule = LineStyle::none().fill('-').junction('-');
    table.load_style(TableStyle::new().header_separator(rule));
    table.set_header(std::iter::once("case").chain(devices.iter().map(String::as_str)));
    for row in rows {
        let cells = row
            .statuses
            .iter()
            .map(|status| status.map_or_else(|| "not run".to_owned(), |status| status.to_string()));
        table.add_row(std::iter::once(row.case.clone()).chain(cells));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    let mut out = String::new();
    if !rows.is_empty() {
        out.push_str(&table.trim_fmt());
        out.push_str("\n\n");
    }
    for row in rows {
        let told = devices.iter().zip(&row.messages).filter(|(_, message)| !message.is_empty());
        for (device, message) in told {
            out.push_str(&format!("{}\n    {device}: {message}\n", row.case));
        }
    }
    let differ = rows.len();
    out.push_str(&format!("{differ} cases differ, {same} do not\n"));
    out
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
    serde_json::json!({ "devices": matrix.devices, "differ": rows, "same": matrix.same })
}
