//! Listing cases.

use softrnic_conformance::rules;

use super::ListArgs;
use crate::cli::Shared;
use crate::error::Failure;
use crate::output::{Column, Report, Table, Value};

const CASES: [Column; 3] = [
    Column { key: "case", title: "case" },
    Column { key: "kind", title: "kind" },
    Column { key: "profile", title: "profile" },
];

pub(super) fn run(args: &ListArgs, shared: &Shared) -> Result<(), Failure> {
    let cases = args.selection.cases()?;
    let rules = rules::all().map_err(|error| Failure::plain(error.to_string()))?;
    let mut table = Table::new(&CASES);
    let mut cited = std::collections::BTreeSet::new();
    for case in &cases {
        let kind = match case.body {
            softrnic_conformance::case::Body::Script(_) => "packets",
            softrnic_conformance::case::Body::Verbs(_) => "verbs",
        };
        let profile = case.profile.map_or(Value::Missing, |profile| profile.name.into());
        table.push([case.name().into(), kind.into(), profile]);
        cited.insert(case.rule.to_string());
    }
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let mut report = Report::new("conform list")
        .table("cases", table)
        .fact("cases", "cases", count(cases.len()))
        .fact("rules", "rules they are about", count(cited.len()))
        .fact("all_rules", "rules in all", count(rules.len()));
    if let [only] = args.selection.filter.as_slice()
        && let Some(rule) = rules.get(only)
    {
        report.note(format!("{} (clause: {})", rule.text, rule.clause));
    }
    report.print(shared.json)?;
    Ok(())
}
