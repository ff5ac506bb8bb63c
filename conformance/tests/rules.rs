//! Every rule of `docs/spec/` is cited by the code that carries it out and by a case or test that holds
//! a device to it, and every citation names a rule. Prints the table; `exceptions.md` excuses.

#![expect(clippy::unwrap_used, clippy::panic, reason = "all of it is a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use softrnic_conformance::cases;
use softrnic_conformance::rules::{self, Rule};

/// Where code is that carries rules out.
const CODE: &[&str] = &["rnic-model/src", "transport/src", "verbs-api/src", "verbs-api/cabi/src"];
/// Where tests are, besides the cases, that hold devices to rules.
const TESTS: &[&str] = &[
    "conformance/src/cases",
    "conformance/tests",
    "rnic-model/src",
    "rnic-model/tests",
    "transport/src",
    "transport/tests",
    "verbs-api/src",
    "verbs-api/tests",
];

/// What a rule may lack, with a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lack {
    Code,
    Case,
}

type Cited = BTreeMap<String, BTreeSet<PathBuf>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The Rust files below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Whether a file is about tests only.
fn is_test(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests")
        || path.file_name().is_some_and(|name| name == "tests.rs")
}

/// The code of a file, or its tests: what comes before the module of tests, and that module.
fn part<'a>(path: &Path, text: &'a str, tests: bool) -> &'a str {
    if is_test(path) {
        return if tests { text } else { "" };
    }
    let at = text.find("\n#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    if tests { &text[at..] } else { &text[..at] }
}

/// All `[family/slug]` of a text where `family` is a page of rules.
fn citations<'a>(text: &'a str, families: &BTreeSet<&str>) -> Vec<&'a str> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '/';
    let bracketed = text.match_indices('[').filter_map(|(at, _)| {
        let inside = &text[at + 1..];
        let end = inside.find(']')?;
        let id = &inside[..end];
        id.chars().all(fits).then_some(id)
    });
    bracketed
        .filter(|id| id.split_once('/').is_some_and(|(family, _)| families.contains(family)))
        .collect()
}

/// Who cites what below these folders.
fn cited(folders: &[&str], tests: bool, families: &BTreeSet<&str>) -> Cited {
    let mut all = Cited::new();
    for folder in folders {
        for path in sources(&root().join(folder)) {
            let text = fs::read_to_string(&path).unwrap();
            let whole = folder.starts_with("conformance/");
            let text = if whole { &text } else { part(&path, &text, tests) };
            for id in citations(text, families) {
                all.entry(id.to_owned()).or_default().insert(path.clone());
            }
        }
    }
    all
}

/// The table of `exceptions.md`: `| rule | lacks | reason |`.
fn exceptions() -> BTreeMap<(String, Lack), String> {
    let page = fs::read_to_string(root().join("docs/spec/exceptions.md")).unwrap();
    let mut all = BTreeMap::new();
    for (line, text) in (1..).zip(page.lines()) {
        let cells: Vec<_> = text.split('|').map(str::trim).collect();
        let ["", rule, lacks, reason, ""] = cells[..] else { continue };
        let Some(rule) = rule.strip_prefix('`').and_then(|rule| rule.strip_suffix('`')) else {
            continue;
        };
        assert!(reason.len() > 10, "exceptions.md, line {line}: {rule} has no reason");
        let lacks = match lacks {
            "code" => Lack::Code,
            "case" => Lack::Case,
            _ => panic!("exceptions.md, line {line}: {lacks:?} is neither code nor case"),
        };
        let twice = all.insert((rule.to_owned(), lacks), reason.to_owned());
        assert_eq!(twice, None, "exceptions.md, line {line}: {rule} is there twice");
    }
    all
}

#[test]
fn no_rule_is_open_and_no_citation_is_wrong() {
    let rules = rules::all().unwrap();
    let families: BTreeSet<&str> = rules.values().map(Rule::family).collect();
    let code = cited(CODE, false, &families);
    let mut held = cited(TESTS, true, &families);
    for case in cases::all() {
        held.entry(case.rule.into_owned()).or_default().insert("cases".into());
    }
    let mut problems = Vec::new();
    for (id, by) in code.iter().chain(&held).filter(|(id, _)| !rules.contains_key(*id)) {
        problems.push(format!("{id} is no rule, and cited in {by:?}"));
    }
    let excepted = exceptions();
    for (id, lack) in excepted.keys() {
        let by = if *lack == Lack::Code { &code } else { &held };
        if !rules.contains_key(id) {
            problems.push(format!("exceptions.md excuses {id}, which is no rule"));
        } else if by.contains_key(id) {
            problems.push(format!("exceptions.md excuses {id}, which needs no excuse"));
        }
    }
    println!(
        "{:<24}{:>7}{:>7}{:>7}{:>10}{:>7}",
        "family", "rules", "code", "case", "excepted", "open"
    );
    let mut sums = [0; 5];
    for family in &families {
        let of: Vec<_> = rules.values().filter(|rule| rule.family() == *family).collect();
        let lacks = |rule: &Rule, lack: Lack| {
            let by = if lack == Lack::Code { &code } else { &held };
            !by.contains_key(&rule.id)
        };
        let is_excused = |rule: &Rule, lack: Lack| excepted.contains_key(&(rule.id.clone(), lack));
        let is_open = |rule: &Rule| {
            [Lack::Code, Lack::Case]
                .into_iter()
                .any(|lack| lacks(rule, lack) && !is_excused(rule, lack))
        };
        let count = |what: &dyn Fn(&Rule) -> bool| of.iter().filter(|rule| what(rule)).count();
        let row = [
            of.len(),
            count(&|rule| !lacks(rule, Lack::Code)),
            count(&|rule| !lacks(rule, Lack::Case)),
            count(&|rule| is_excused(rule, Lack::Code) || is_excused(rule, Lack::Case)),
            count(&is_open),
        ];
        println!("{family:<24}{:>7}{:>7}{:>7}{:>10}{:>7}", row[0], row[1], row[2], row[3], row[4]);
        sums.iter_mut().zip(row).for_each(|(sum, n)| *sum += n);
        for rule in of.iter().filter(|rule| is_open(rule)) {
            for (lack, what) in [(Lack::Code, "code"), (Lack::Case, "a case")] {
                if lacks(rule, lack) && !is_excused(rule, lack) {
                    problems.push(format!("{} is not cited by {what}", rule.id));
                }
            }
        }
    }
    println!(
        "{:<24}{:>7}{:>7}{:>7}{:>10}{:>7}",
        "all", sums[0], sums[1], sums[2], sums[3], sums[4]
    );
    assert!(sums[0] >= 300, "{} rules", sums[0]);
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn rules_say_where_they_are_from() {
    for rule in rules::all().unwrap().values() {
        let Rule { id, text, clause, .. } = rule;
        let words = text.split_whitespace().count();
        assert!((5..400).contains(&words), "{id} has {words} words");
        assert!(text.ends_with('.') || text.ends_with(']'), "{id} does not end with a full stop");
        // A label stands only with its source.
        let is_known = !clause.starts_with("label unknown");
        assert!(!is_known || clause.contains('('), "{id}: {clause} has no source");
        assert!(clause.matches('(').count() == clause.matches(')').count(), "{id}: {clause}");
    }
}

#[test]
fn citations_are_found() {
    let families = BTreeSet::from(["aa", "bb"]);
    let text = "// [aa/one] and [`bb/two`] [bb/two], [other/x], a[aa], [aa/Three] [bb/4-5]";
    assert_eq!(citations(text, &families), ["aa/one", "bb/two", "bb/4-5"]);
}
