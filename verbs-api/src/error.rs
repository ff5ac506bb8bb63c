//! Errors as programs see them: which verb, and why.

use core::fmt;

use softrnic_model::verbs::VerbError;

/// What the verbs of this crate return.
pub type Result<T> = core::result::Result<T, Error>;

/// A verb was refused.
///
/// Displayed on two lines: the verb, then the cause with the name of its errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// The verb, as rdma-core spells it without the prefix `ibv_`: `reg_mr`.
    pub verb: &'static str,
    /// Why.
    pub source: VerbError,
}

impl Error {
    /// An adapter for `map_err`: names the verb that failed.
    pub(crate) const fn of(verb: &'static str) -> impl FnOnce(VerbError) -> Self {
        move |source| Self { verb, source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} was refused\n  {}", self.verb, self.source)
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// A work request of a list was refused. Those before it are posted, it and those after it are
/// not (`bad_wr` of `ibv_post_send(3)`).
///
/// Displayed on two lines: which work request, then the cause with the name of its errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// [rc-requester/bad-wr]
pub struct PostError {
    /// Position in the list of the first work request that was not posted.
    pub index: usize,
    /// Why.
    pub error: VerbError,
}

impl fmt::Display for PostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "work request {} of the list was refused\n  {}", self.index, self.error)
    }
}

impl core::error::Error for PostError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_read_on_two_lines() {
        let error = Error::of("reg_mr")(VerbError::BadAddress("the range is not mapped"));
        assert_eq!(error.to_string(), "reg_mr was refused\n  the range is not mapped (EFAULT)");
        let error = PostError { index: 2, error: VerbError::Full("the send queue is full") };
        assert_eq!(
            error.to_string(),
            "work request 2 of the list was refused\n  the send queue is full (ENOMEM)"
        );
    }
}
