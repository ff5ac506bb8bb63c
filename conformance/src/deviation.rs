//! Differences of devices that are declared, with a reason. They are run all the same, and one that
//! does not happen any more fails the run.
//!
//! ```toml
//! device = "rxe"
//!
//! [[deviation]]
//! cases = "rc-responder/receive-too-small/*"
//! difference = "the responder answers with a remote operational error"
//! reason = "measured on Linux 6.1 soft-RoCE (conformance/captures)"
//! ```
//!
//! `cases` is the name of a case, or of a rule, or a beginning that ends in `*`; several may be given as
//! a list. `says` is a part of what the judge must have found wrong, so that another fault is not taken
//! for the declared one. `by_chance = true` says that it is a matter of timing whether it happens.

use std::fmt;

use serde::Deserialize;

/// The files of `conformance/deviations/`, by name, as they were when this crate was built.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/deviations.rs"));

/// What is declared of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deviations {
    /// Which device.
    pub device: String,
    /// What.
    #[serde(default, rename = "deviation")]
    pub list: Vec<Deviation>,
}

/// One declared difference.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deviation {
    /// In which cases.
    pub cases: Patterns,
    /// A part of what is found wrong.
    #[serde(default)]
    pub says: String,
    /// What the device does instead.
    pub difference: String,
    /// Why that is known, or excused.
    pub reason: String,
    /// It happens now and then, by timing: that it does not is no fault.
    #[serde(default)]
    pub by_chance: bool,
}

impl Deviation {
    /// Whether it is declared of this case.
    #[must_use]
    pub fn concerns(&self, case: &str) -> bool {
        self.cases.all().iter().any(|pattern| matches(pattern, case))
    }
}

/// Names of cases.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Patterns {
    /// One.
    One(String),
    /// Several.
    Several(Vec<String>),
}

impl Patterns {
    fn all(&self) -> &[String] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Several(several) => several,
        }
    }
}

/// Why a file of deviations cannot be used; it names the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviationError(String);

impl fmt::Display for DeviationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.trim_end())
    }
}

impl std::error::Error for DeviationError {}

impl Deviations {
    /// Reads a file.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn parse(text: &str) -> Result<Self, DeviationError> {
        let read: Self = toml::from_str(text).map_err(|error| DeviationError(error.to_string()))?;
        let empty = |deviation: &&Deviation| {
            deviation.reason.trim().is_empty() || deviation.difference.trim().is_empty()
        };
        match read.list.iter().position(|deviation| empty(&deviation)) {
            None => Ok(read),
            Some(at) => {
                let cases = read.list[at].cases.all().join(", ");
                let line = heading(text, at);
                let why = format!("line {line}: {cases}: a difference and a reason must be given");
                Err(DeviationError(why))
            }
        }
    }

    /// The names of the files that came with this crate.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FILES.iter().map(|(name, _)| *name)
    }

    /// What is declared of a device or profile of this name by the files that came with this crate;
    /// nothing if there is no such file.
    ///
    /// # Errors
    /// As [`Deviations::parse`].
    pub fn of(device: &str) -> Result<Self, DeviationError> {
        let file = FILES.iter().find(|(name, _)| *name == device);
        file.map_or_else(|| Ok(Self::default()), |(_, text)| Self::parse(text))
    }

    /// The first that is declared of this case.
    #[must_use]
    pub fn find(&self, case: &str) -> Option<&Deviation> {
        self.list.iter().find(|deviation| deviation.concerns(case))
    }
}

/// The line, from 1, where entry number `at` of a file begins.
fn heading(text: &str, at: usize) -> usize {
    let lines = (1..).zip(text.lines());
    let mut headings = lines.filter(|(_, line)| line.trim_start().starts_with("[[deviation]]"));
    headings.nth(at).map_or(1, |(number, _)| number)
}

/// Whether a pattern names a case: whole, by its rule, or by a beginning.
#[must_use]
pub fn matches(pattern: &str, case: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => case.starts_with(beginning),
        None => {
            case == pattern || case.strip_prefix(pattern).is_some_and(|rest| rest.starts_with('/'))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;

    #[test]
    fn patterns() {
        for (pattern, case, expected) in [
            ("uc/a/b", "uc/a/b", true),
            ("uc/a", "uc/a/b", true),
            ("uc", "uc/a/b", true),
            ("uc/a", "uc/ab/c", false),
            ("uc/a*", "uc/ab/c", true),
            ("*", "uc/ab/c", true),
            ("uc/a/b", "uc/a/bc", false),
        ] {
            assert_eq!(matches(pattern, case), expected, "{pattern} {case}");
        }
    }

    #[test]
    fn a_file_is_read_or_told_what_is_wrong() {
        let good =
            "device = 'x'\n[[deviation]]\ncases = ['uc/a', 'uc/b']\ndifference = 'd'\nreason = 'r'";
        let read = Deviations::parse(good).unwrap();
        assert_eq!(read.find("uc/b/c").map(|found| found.reason.as_str()), Some("r"));
        assert_eq!(read.find("uc/c/c"), None);
        let error = Deviations::parse("device = 'x'\n[[deviation]]\ncase = 'uc'").unwrap_err();
        assert!(error.to_string().contains("line 3"), "{error}");
        let empty = good.replace("'r'", "' '");
        let error = Deviations::parse(&empty).unwrap_err();
        let why = "line 2: uc/a, uc/b: a difference and a reason must be given";
        assert_eq!(error.to_string(), why);
    }

    #[test]
    fn the_files_can_be_read_and_name_cases() {
        for (name, text) in FILES {
            let read = Deviations::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(read.device, *name);
            let cases: Vec<String> = crate::cases::all().iter().map(Case::name).collect();
            for pattern in read.list.iter().flat_map(|one| one.cases.all()) {
                let known = cases.iter().any(|case| matches(pattern, case));
                assert!(known, "{name}: no case is called {pattern}");
            }
        }
    }
}
