//! The table for people at a terminal.

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};

use super::{Report, Status};

/// The results by family, and what is wrong, as text.
#[must_use]
pub fn table(report: &Report) -> String {
    let mut table = Table::new();
    let rule = LineStyle::none().fill('-').junction('-');
    table.load_style(TableStyle::new().header_separator(rule));
    let columns = ["family", "rules", "cases", "pass", "fail", "n/a", "deviation", "stale"];
    table.set_header(columns);
    for (family, tally) in report.tally() {
        let counts = Status::ALL.map(|status| tally.count(status));
        let numbers = [tally.rules.len(), tally.cases()].into_iter().chain(counts);
        let cells = numbers.map(|number| if number == 0 { "-".into() } else { number.to_string() });
        table.add_row(std::iter::once(family).chain(cells));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 1));
        let right = if index == 0 { CellAlignment::Left } else { CellAlignment::Right };
        column.set_cell_alignment(right);
    }
    table.trim_fmt()
}

#[cfg(test)]
mod tests {
    use crate::report::tests::report;

    #[test]
    fn a_row_for_each_family_and_one_for_all() {
        let text = super::table(&report());
        let rows: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            rows[0],
            ["family", "rules", "cases", "pass", "fail", "n/a", "deviation", "stale"]
        );
        assert_eq!(rows[2], ["uc", "1", "2", "1", "1", "-", "-", "-"]);
        assert_eq!(rows[4], ["all", "2", "4", "1", "1", "1", "-", "1"]);
    }
}
