//! Many scripts in one text.

use crate::case::{Case, script};

/// Takes a text apart: each script begins with a line `== family/slug/variant`.
pub(super) fn book(text: &'static str) -> Vec<Case> {
    let chapters = text.split("\n== ").skip(1);
    let case = |chapter: &'static str| {
        let (name, text) = chapter.split_once('\n').unwrap_or((chapter, ""));
        named(name.trim(), text)
    };
    chapters.map(case).collect()
}

/// A case by its whole name, `family/slug/variant`.
pub(super) fn named(name: &str, text: impl Into<std::borrow::Cow<'static, str>>) -> Case {
    let (rule, variant) = name.rsplit_once('/').unwrap_or((name, ""));
    script(rule.to_owned(), variant.to_owned(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_taken_apart() {
        let cases = book("\n== uc/one/first\nqp uc\n\n== uc/two/second\nqp rc\n");
        let names: Vec<_> = cases.iter().map(Case::name).collect();
        assert_eq!(names, ["uc/one/first", "uc/two/second"]);
        assert!(cases.iter().all(|case| case.script().is_ok()));
    }
}
