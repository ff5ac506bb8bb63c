//! JUnit XML, as build servers read it.

use std::fmt::Write as _;

use super::{Report, Status};
use crate::rules::family_of;

/// The results as JUnit XML: a suite for each family.
#[must_use]
pub fn junit(report: &Report) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing to a string cannot fail.
    let _ = write_suites(&mut out, report);
    out
}

fn write_suites(out: &mut String, report: &Report) -> std::fmt::Result {
    let tally = report.tally();
    let (all, families) =
        tally.split_last().map_or((None, &[][..]), |(all, rest)| (Some(all), rest));
    let failures =
        |tally: &super::Tally| tally.count(Status::Fail) + tally.count(Status::StaleDeviation);
    let seconds = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    let (cases, failed) = all.map_or((0, 0), |(_, all)| (all.cases(), failures(all)));
    let time = seconds(report.took_ms.saturating_mul(1000));
    let name = escape(&report.device);
    writeln!(
        out,
        "<testsuites name=\"{name}\" tests=\"{cases}\" failures=\"{failed}\" time=\"{time}\">"
    )?;
    for (family, tally) in families {
        let skipped = tally.count(Status::NotApplicable) + tally.count(Status::Deviation);
        writeln!(
            out,
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" skipped=\"{skipped}\" time=\"{}\">",
            escape(family),
            tally.cases(),
            failures(tally),
            seconds(tally.took_us)
        )?;
        for result in report.results.iter().filter(|result| family_of(&result.rule) == family) {
            let name = result.name.strip_prefix(&result.rule).unwrap_or(&result.name);
            write!(
                out,
                "    <testcase classname=\"{}\" name=\"{}\" time=\"{}\"",
                escape(&result.rule),
                escape(name.trim_start_matches('/')),
                seconds(result.took_us)
            )?;
            let message = escape(&result.told());
            match result.status {
                Status::Pass => writeln!(out, "/>")?,
                Status::NotApplicable | Status::Deviation => {
                    let status = result.status;
                    writeln!(out, "><skipped message=\"{status}: {message}\"/></testcase>")?;
                }
                Status::Fail | Status::StaleDeviation => {
                    write!(out, "><failure message=\"{message}\">")?;
                    for (what, text) in [("expected", &result.expected), ("got", &result.got)] {
                        if let Some(text) = text {
                            writeln!(out, "{what}: {}", escape(text))?;
                        }
                    }
                    for rung in &result.ladder {
                        writeln!(out, "{}", escape(&rung.to_string()))?;
                    }
                    writeln!(out, "</failure></testcase>")?;
                }
            }
        }
        writeln!(out, "  </testsuite>")?;
    }
    writeln!(out, "</testsuites>")
}

/// Text for XML and HTML. Characters that XML 1.0 does not have become a replacement.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;

    #[test]
    fn every_case_has_an_element_and_text_is_escaped() {
        let xml = junit(&report());
        assert!(
            xml.contains("<testsuites name=\"test\" tests=\"4\" failures=\"2\" time=\"0.005000\">")
        );
        assert_eq!(xml.matches("<testcase ").count(), 4);
        assert!(xml.contains("<failure message=\"&lt;because&gt; &amp; &quot;so&quot;\">"));
        assert!(xml.contains("RC ACKNOWLEDGE &lt;1&gt;"));
        assert!(xml.contains("<skipped message=\"n/a: "));
        assert_eq!(xml.matches("<testsuite ").count(), xml.matches("</testsuite>").count());
        assert_eq!(escape("\u{1}"), "\u{fffd}");
    }
}
