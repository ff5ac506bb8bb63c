//! How a command fails: what was wrong and where, what to do about it, and which exit code follows.

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// Whose move it is after a failure; it decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The command line asks for something that cannot be: exit code 2.
    Usage,
    /// The command was understood and did not succeed: exit code 1.
    Failed,
    /// Nobody reads our output any more (`| head`): a quiet end with exit code 0.
    Unread,
}

/// Why a command ended early.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: Kind,
    what: String,
    advice: Option<String>,
}

impl Failure {
    /// The command line cannot be obeyed; `advice` says how to change it.
    pub(crate) fn usage(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { kind: Kind::Usage, what: what.into(), advice: Some(advice.into()) }
    }

    /// The command ran and failed; `advice` says what to try.
    pub(crate) fn failed(what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { kind: Kind::Failed, what: what.into(), advice: Some(advice.into()) }
    }

    /// The command ran and failed, and what to do about it follows from the text.
    pub(crate) fn plain(what: impl Into<String>) -> Self {
        Self { kind: Kind::Failed, what: what.into(), advice: None }
    }

    /// What was wrong, without the advice: for the peer, whose advice would be another.
    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    #[cfg(test)]
    pub(crate) const fn kind(&self) -> Kind {
        self.kind
    }

    /// Tells the user on standard error and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        let code = match self.kind {
            Kind::Unread => return ExitCode::SUCCESS,
            Kind::Failed => ExitCode::from(1),
            Kind::Usage => ExitCode::from(2),
        };
        // When standard error is gone as well, the exit code is all that is left to say.
        _ = writeln!(io::stderr(), "error: {self}");
        code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.advice {
            Some(advice) => write!(f, "\n  help: {advice}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

/// For errors of standard output; everything else is converted where the context is known.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == ErrorKind::BrokenPipe {
            return Self { kind: Kind::Unread, what: String::new(), advice: None };
        }
        Self::failed(
            format!("standard output cannot be written: {error}"),
            "check the file or disk it is redirected to",
        )
    }
}

impl From<softrnic_verbs::Error> for Failure {
    fn from(error: softrnic_verbs::Error) -> Self {
        Self::plain(format!("the verb {} was refused: {}", error.verb, error.source))
    }
}

impl From<softrnic_verbs::PostError> for Failure {
    fn from(error: softrnic_verbs::PostError) -> Self {
        Self::plain(format!("a work request was refused: {}", error.error))
    }
}

impl From<softrnic_verbs::buffer::AccessError> for Failure {
    fn from(error: softrnic_verbs::buffer::AccessError) -> Self {
        Self::plain(format!("a buffer cannot be used so: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_says_what_and_then_how_to_go_on() {
        let failure = Failure::usage("size 0 is too small", "give 1 or more");
        assert_eq!(failure.to_string(), "size 0 is too small\n  help: give 1 or more");
        assert_eq!(failure.kind(), Kind::Usage);
    }

    #[test]
    fn a_closed_pipe_is_no_failure_but_a_full_disk_is() {
        assert_eq!(Failure::from(io::Error::from(ErrorKind::BrokenPipe)).kind(), Kind::Unread);
        assert_eq!(Failure::from(io::Error::from(ErrorKind::StorageFull)).kind(), Kind::Failed);
    }
}
