//! How C says no.

use core::ffi::c_int;
use std::io;

use softrnic_model::verbs::VerbError;

use super::layout::Ptr;
use super::life::Life;
use super::table::Handle;
use crate::provider::Verb;

/// The device cannot be reached.
pub(super) const EIO: i32 = 5;

/// The errno that the last call has left.
pub(super) fn last_errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(EIO)
}

/// A refusal with this errno, which is kept whatever it is.
pub(super) const fn refusal(errno: i32, what: &'static str) -> VerbError {
    match errno {
        1 => VerbError::NotPermitted(what),
        2 => VerbError::NoEntry(what),
        12 => VerbError::Full(what),
        14 => VerbError::BadAddress(what),
        16 => VerbError::Busy(what),
        22 => VerbError::Invalid(what),
        95 => VerbError::NotSupported(what),
        101 => VerbError::Unreachable(what),
        _ => VerbError::System(errno, what),
    }
}

/// The errno of what a verb has returned: it, its negative, or the one that was left.
pub(super) fn errno_of(returned: c_int) -> i32 {
    match returned {
        -1 => last_errno(),
        _ => returned.saturating_abs(),
    }
}

impl Life {
    /// Judges what a verb has returned.
    pub(super) fn done(&self, returned: c_int, what: &'static str) -> Verb<()> {
        if returned == 0 { Ok(()) } else { Err(self.refused(errno_of(returned), what)) }
    }

    /// Judges what a verb has made.
    pub(super) fn made<T>(&self, made: Option<Ptr<T>>, what: &'static str) -> Verb<Handle<T>> {
        made.map(Handle::new).ok_or_else(|| self.refused(last_errno(), what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_errno_is_lost() {
        for errno in 1..=133 {
            assert_eq!(refusal(errno, "").errno(), errno);
            assert_eq!(errno_of(errno), errno);
        }
        assert_eq!(errno_of(-22), 22);
    }
}
