//! Result files: the runs of one command, with what there is to know about the judge.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Report;

/// The number of the form that result files have. It rises when a key changes or goes.
const FORMAT: u32 = 2;

/// A result file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// The form of the file.
    pub format: u32,
    /// What has written it.
    pub command: String,
    /// The version of the judge.
    pub version: String,
    /// The commit that it was built from, if that is known.
    pub commit: Option<String>,
    /// When the runs had ended: UTC, as RFC 3339 writes it.
    pub date: String,
    /// One for each world.
    pub runs: Vec<Report>,
}

/// Why a result file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentError(String);

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DocumentError {}

impl Document {
    /// The file for these runs.
    #[must_use]
    pub fn new(commit: Option<String>, date: String, runs: Vec<Report>) -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self { format: FORMAT, command: "conform".into(), version, commit, date, runs }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn parse(text: &str) -> Result<Self, DocumentError> {
        let told = |error: serde_json::Error| DocumentError(error.to_string());
        let value: serde_json::Value = serde_json::from_str(text).map_err(told)?;
        let number = |key: &str| value.get(key).and_then(serde_json::Value::as_u64);
        // The first form called itself otherwise.
        match number("format").or_else(|| number("form")) {
            Some(format) if format == u64::from(FORMAT) => {}
            Some(format) => {
                let why =
                    format!("line 1: form {format} is not one that this program reads ({FORMAT})");
                return Err(DocumentError(why));
            }
            None => {
                return Err(DocumentError("line 1: no result file: it has no \"format\"".into()));
            }
        }
        // Read again from the text, for the line of what is wrong.
        serde_json::from_str(text).map_err(told)
    }

    /// Its text.
    #[must_use]
    pub fn to_text(&self) -> String {
        // Nothing in it can fail to be written.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;

    #[test]
    fn a_result_file_is_read_back() {
        let run = report().of(Some("spec".into()), Some(0));
        let file = Document::new(Some("abc".into()), "2030-01-02T03:04:05Z".into(), vec![run]);
        assert_eq!(Document::parse(&file.to_text()), Ok(file));
    }

    #[test]
    fn what_is_wrong_with_a_result_file_is_told() {
        for (text, why) in [
            ("", "EOF while parsing a value at line 1 column 0"),
            ("{}", "line 1: no result file: it has no \"format\""),
            ("{\"form\": 1}", "line 1: form 1 is not one that this program reads (2)"),
            ("{\"format\": 7}", "line 1: form 7 is not one that this program reads (2)"),
            (
                "{\"format\": 2,\n\"command\": 3}",
                "invalid type: integer `3`, expected a string at line 2 column 12",
            ),
        ] {
            assert_eq!(Document::parse(text).unwrap_err().to_string(), why);
        }
    }
}
