//! One page that needs nothing else: every rule with its text, clause, cases and verdicts, and of what
//! failed the packet ladder.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::junit::escape;
use super::{CaseResult, Report, Status, reasons};
use crate::rules::{Rule, family_of};

/// The results as a page. `rules` are all that there are, also those without cases; `judge` says which
/// program has judged, and when.
#[must_use]
pub fn html(report: &Report, rules: &BTreeMap<String, Rule>, judge: &str) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_page(&mut out, report, rules, judge);
    out
}

const STYLE: &str = include_str!("page.css");

fn write_page(
    out: &mut String,
    report: &Report,
    rules: &BTreeMap<String, Rule>,
    judge: &str,
) -> std::fmt::Result {
    let device = escape(&report.device);
    writeln!(out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">")?;
    writeln!(out, "<title>Conformance of {device}</title>\n<style>\n{STYLE}</style></head><body>")?;
    writeln!(out, "<h1>Conformance of {device}</h1>")?;
    writeln!(
        out,
        "<p>Judged by {} in {}.{:03} s.</p>",
        escape(judge),
        report.took_ms / 1000,
        report.took_ms % 1000
    )?;
    write_failures(out, report)?;
    write_table(out, report)?;
    write_reasons(out, report)?;
    let results = report.by_rule();
    let mut family = "";
    // Rules in the order of families; what has cases but no page is shown all the same.
    let ids = rules.keys().map(String::as_str).chain(results.keys().copied());
    let ids: std::collections::BTreeSet<&str> = ids.collect();
    for id in ids {
        if family_of(id) != family {
            family = family_of(id);
            writeln!(out, "<h2 id=\"{0}\">{0}</h2>", escape(family))?;
        }
        let cases = results.get(id).map_or(&[][..], Vec::as_slice);
        write_rule(out, id, rules.get(id), cases)?;
    }
    writeln!(out, "</body></html>")
}

/// What has failed, with a link to each.
fn write_failures(out: &mut String, report: &Report) -> std::fmt::Result {
    let failed = report.results.iter().filter(|result| result.status.is_failure());
    let failed: Vec<&CaseResult> = failed.collect();
    if failed.is_empty() {
        return writeln!(out, "<p id=\"failures\">No case failed.</p>");
    }
    writeln!(out, "<h2 id=\"failures\">{} failures</h2>\n<ul>", failed.len())?;
    for case in failed {
        let (status, class, name) = (case.status, class(case.status), escape(&case.name));
        let message = escape(&case.message);
        writeln!(
            out,
            "<li><b class=\"{class}\">{status}</b> <a href=\"#{name}\">{name}</a>: {message}</li>"
        )?;
    }
    writeln!(out, "</ul>")
}

/// Why cases were not judged, or may differ.
fn write_reasons(out: &mut String, report: &Report) -> std::fmt::Result {
    let reasons = reasons(report);
    if reasons.is_empty() {
        return Ok(());
    }
    writeln!(out, "<h2 id=\"reasons\">Not judged, or judged otherwise</h2>\n<ul>")?;
    for reason in reasons {
        let (class, example) = (class(reason.status), escape(&reason.example));
        let (kind, text, cases) = (reason.kind(), escape(&reason.text), reason.cases);
        writeln!(
            out,
            "<li><b class=\"{class}\">{kind}</b> {cases} &times; {text}, such as \
             <a href=\"#{example}\">{example}</a></li>"
        )?;
    }
    writeln!(out, "</ul>")
}

fn write_table(out: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(out, "<table><thead><tr><th>family<th>rules<th>cases")?;
    for status in Status::ALL {
        write!(out, "<th>{status}")?;
    }
    writeln!(out, "</thead><tbody>")?;
    for (family, tally) in report.tally() {
        let name = escape(&family);
        // The last row is no family.
        match name.as_str() {
            "all" => write!(out, "<tr><td>{name}")?,
            _ => write!(out, "<tr><td><a href=\"#{name}\">{name}</a>")?,
        }
        write!(out, "<td>{}<td>{}", tally.rules.len(), tally.cases())?;
        for status in Status::ALL {
            match tally.count(status) {
                0 => write!(out, "<td>")?,
                count => write!(out, "<td class=\"{}\">{count}", class(status))?,
            }
        }
        writeln!(out)?;
    }
    writeln!(out, "</tbody></table>")
}

const fn class(status: Status) -> &'static str {
    match status {
        Status::Pass => "pass",
        Status::Fail => "fail",
        Status::NotApplicable => "na",
        Status::Deviation => "deviation",
        Status::StaleDeviation => "stale",
    }
}

fn write_rule(
    out: &mut String,
    id: &str,
    rule: Option<&Rule>,
    cases: &[&CaseResult],
) -> std::fmt::Result {
    let name = escape(id);
    writeln!(out, "<section id=\"{name}\"><h3>{name}</h3>")?;
    if let Some(rule) = rule {
        writeln!(out, "<p>{}</p>", escape(&rule.text))?;
        writeln!(out, "<p class=\"clause\">Clause: {}</p>", escape(&rule.clause))?;
    }
    if cases.is_empty() {
        return writeln!(out, "<p class=\"clause\">no case in this run</p></section>");
    }
    writeln!(out, "<ul>")?;
    for case in cases {
        let (status, class) = (case.status, class(case.status));
        let variant = case.name.strip_prefix(id).unwrap_or(&case.name).trim_start_matches('/');
        let name = escape(&case.name);
        write!(out, "<li id=\"{name}\"><b class=\"{class}\">{status}</b> {}", escape(variant))?;
        let told = case.told();
        if !told.is_empty() {
            write!(out, ": {}", escape(&told))?;
        }
        if !case.left_out.is_empty() {
            write!(out, " <span class=\"clause\">(not {})</span>", escape(&case.left_out))?;
        }
        for (what, text) in [("expected", &case.expected), ("got", &case.got)] {
            if let Some(text) = text {
                write!(out, "<br><b>{what}</b> {}", escape(text))?;
            }
        }
        if !case.ladder.is_empty() {
            write_ladder(out, case)?;
        }
        writeln!(out, "</li>")?;
    }
    writeln!(out, "</ul></section>")
}

fn write_ladder(out: &mut String, case: &CaseResult) -> std::fmt::Result {
    writeln!(out, "<table class=\"ladder\"><thead><tr><th>time<th>who<th>what</thead><tbody>")?;
    for rung in &case.ladder {
        let arrow = match rung.who.as_str() {
            "peer" => "peer &rarr;",
            "a" => "a &rarr;",
            "b" => "&larr; b",
            "device" => "&larr; device",
            other => other,
        };
        let (us, ns) = (rung.at_ns / 1000, rung.at_ns % 1000);
        write!(out, "<tr><td>{us}.{ns:03} us<td>{arrow}<td>{}", escape(&rung.what))?;
        if let Some(expected) = &rung.expected {
            write!(out, "<div class=\"expected\">expected: {}</div>", escape(expected))?;
        }
        writeln!(out)?;
    }
    writeln!(out, "</tbody></table>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;

    #[test]
    fn a_page_shows_rules_cases_and_ladders() {
        let rule = |id: &str| Rule {
            id: id.into(),
            text: "What <must> happen.".into(),
            clause: "C9-1 (a source)".into(),
            line: 1,
        };
        let rules = ["uc/a", "uc/without-case"].map(|id| (id.to_owned(), rule(id)));
        let page = html(&report(), &BTreeMap::from(rules), "softrnic 1");
        assert!(page.contains("What &lt;must&gt; happen."));
        assert!(page.contains("Clause: C9-1 (a source)"));
        assert!(page.contains("<h3>uc/without-case</h3>") && page.contains("no case in this run"));
        assert!(page.contains("<h3>ud/b</h3>"), "a case whose rule has no page is shown");
        assert!(page.contains("expected: NAK_PSN psn=0"));
        assert!(page.contains("Judged by softrnic 1 in 0.005 s."));
        let [top, _] = [0, 1].map(|at| page.split("<table>").nth(at).unwrap());
        assert!(top.contains("<h2 id=\"failures\">2 failures</h2>"), "{top}");
        for failed in ["uc/a/two", "ud/b/two"] {
            assert!(top.contains(&format!("<a href=\"#{failed}\">")), "{top}");
            assert!(page.contains(&format!("<li id=\"{failed}\">")), "{page}");
        }
        assert!(page.contains("<b class=\"na\">n/a</b> 1 &times; &lt;because&gt;"));
        assert!(!page.contains("<because>"));
        assert!(!page.contains("http"), "nothing is fetched");
    }
}
