//! The rules that cases are about: the pages of `docs/spec/`, read.
//!
//! A page is a family. A rule is a heading and what follows it:
//!
//! ```text
//! ## rc-responder/psn-duplicate-write-acknowledged
//!
//! A WRITE that was received before is acknowledged again and its data is not placed again.
//!
//! Clause: C9-105 (Linux, drivers/infiniband/sw/rdmavt/rc.c)
//! ```
//!
//! `Clause: label unknown` stands where no public source names a label. Pages without such headings
//! (`README`, `differences`, ..) hold no rules.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

/// The pages, by name, as they were when this crate was built.
const PAGES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/pages.rs"));

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// `family/slug`
    pub id: String,
    /// What must or must not happen, in our words.
    pub text: String,
    /// Where it is from: a clause label with its source, or `label unknown`.
    pub clause: String,
    /// Line of its heading, from 1.
    pub line: usize,
}

impl Rule {
    /// What comes before the slash.
    #[must_use]
    pub fn family(&self) -> &str {
        family_of(&self.id)
    }
}

/// The family of a rule or case: what comes before the first slash.
#[must_use]
pub fn family_of(id: &str) -> &str {
    id.split('/').next().unwrap_or(id)
}

/// Where a page is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// Name of the page without its extension.
    pub page: String,
    /// Line, from 1.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "docs/spec/{}.md, line {}: {}", self.page, self.line, self.reason)
    }
}

impl std::error::Error for RuleError {}

/// All rules of the pages that were there when this crate was built, by id.
///
/// # Errors
/// The first page that is not as it must be.
pub fn all() -> Result<&'static BTreeMap<String, Rule>, &'static RuleError> {
    static ALL: LazyLock<Result<BTreeMap<String, Rule>, RuleError>> =
        LazyLock::new(|| collect(PAGES));
    ALL.as_ref()
}

fn collect(pages: &[(&str, &str)]) -> Result<BTreeMap<String, Rule>, RuleError> {
    let mut all = BTreeMap::new();
    for (page, text) in pages {
        for rule in parse(page, text)? {
            let (line, id) = (rule.line, rule.id.clone());
            if all.insert(id.clone(), rule).is_some() {
                let reason = format!("the rule {id} is there twice");
                return Err(RuleError { page: (*page).into(), line, reason });
            }
        }
    }
    Ok(all)
}

/// Reads a page. Headings of the second order with a slash in them are rules; on a page with rules
/// every one of them is of the family that the page is named after.
///
/// # Errors
/// The first heading that is not as it must be, or rule without text or clause.
pub fn parse(page: &str, text: &str) -> Result<Vec<Rule>, RuleError> {
    let mut rules: Vec<Rule> = Vec::new();
    let mut open = false;
    for (line, content) in (1..).zip(text.lines()) {
        if let Some(heading) = content.strip_prefix("## ") {
            finish(page, rules.last(), open)?;
            open = heading.contains('/');
            if open {
                let id = heading.trim().to_owned();
                judge_id(page, line, &id)?;
                rules.push(Rule { id, text: String::new(), clause: String::new(), line });
            }
        } else if content.starts_with("# ") {
            finish(page, rules.last(), open)?;
            open = false;
        } else if let (true, Some(rule)) = (open, rules.last_mut()) {
            match content.strip_prefix("Clause:") {
                Some(clause) => rule.clause = clause.trim().to_owned(),
                None if content.trim().is_empty() => {}
                None => {
                    let gap = if rule.text.is_empty() { "" } else { " " };
                    rule.text.push_str(gap);
                    rule.text.push_str(content.trim());
                }
            }
        }
    }
    finish(page, rules.last(), open)?;
    Ok(rules)
}

fn judge_id(page: &str, line: usize, id: &str) -> Result<(), RuleError> {
    let fail = |reason: String| Err(RuleError { page: page.into(), line, reason });
    let Some((family, slug)) = id.split_once('/') else { return fail(format!("no slash in {id}")) };
    if family != page {
        return fail(format!("{id} is on the page of another family"));
    }
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if slug.is_empty() || !slug.chars().all(fits) {
        return fail(format!("{slug:?} is not lower-case words with hyphens between"));
    }
    Ok(())
}

fn finish(page: &str, rule: Option<&Rule>, open: bool) -> Result<(), RuleError> {
    let Some(rule) = rule.filter(|_| open) else { return Ok(()) };
    let missing = match (rule.text.is_empty(), rule.clause.is_empty()) {
        (true, _) => "text",
        (_, true) => "line `Clause: ..`",
        (false, false) => return Ok(()),
    };
    let reason = format!("{} has no {missing}", rule.id);
    Err(RuleError { page: page.into(), line: rule.line, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# Title

Words in front.

## uc/one-rule

First line
second line.

Clause: C9-1 (a source)

## Not a rule

Something.

## uc/other
Text.
Clause: label unknown
";

    #[test]
    fn a_page_gives_its_rules() {
        let rules = parse("uc", PAGE).unwrap();
        assert_eq!(rules.len(), 2);
        assert_eq!(rules[0].id, "uc/one-rule");
        assert_eq!(rules[0].text, "First line second line.");
        assert_eq!(rules[0].clause, "C9-1 (a source)");
        assert_eq!((rules[1].clause.as_str(), rules[1].line), ("label unknown", 16));
        assert_eq!(rules[1].family(), "uc");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, line, reason) in [
            ("\n## ud/one\ntext\nClause: x", 2, "ud/one is on the page of another family"),
            ("## uc/One\n", 1, "\"One\" is not lower-case words with hyphens between"),
            ("## uc/one\n\nClause: x\n", 1, "uc/one has no text"),
            ("## uc/one\n\ntext\n## Other", 1, "uc/one has no line `Clause: ..`"),
            ("## uc/one\n\ntext\n", 1, "uc/one has no line `Clause: ..`"),
        ] {
            let error = parse("uc", text).unwrap_err();
            assert_eq!((error.line, error.reason.as_str()), (line, reason));
        }
        let twice = [("uc", "## uc/a\nt\nClause: x\n## uc/a\nt\nClause: x\n")];
        let error = collect(&twice).unwrap_err();
        assert_eq!(error.to_string(), "docs/spec/uc.md, line 4: the rule uc/a is there twice");
    }

    #[test]
    fn the_pages_can_be_read() {
        assert_eq!(all().err(), None);
    }
}
