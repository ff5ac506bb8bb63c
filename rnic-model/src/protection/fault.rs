//! What can be wrong with an access or a bind.

use core::fmt;

/// Why an access or an invalidation was refused, in the order in which the conditions are judged.
///
/// Of a peer's request, every one of them is answered with the NAK "remote access error" and shows
/// at the requester as [`WcStatus::RemoteAccessError`]: the peer is not told which, since that would
/// help it to guess. Of the program's own scatter/gather elements and receive buffers, every one is
/// a [`WcStatus::LocalProtectionError`]; of its posted invalidation, a [`WcStatus::MwBindError`].
///
/// [`WcStatus::RemoteAccessError`]: crate::verbs::WcStatus::RemoteAccessError
/// [`WcStatus::LocalProtectionError`]: crate::verbs::WcStatus::LocalProtectionError
/// [`WcStatus::MwBindError`]: crate::verbs::WcStatus::MwBindError
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessFault {
    /// No region or window has this index now.
    UnknownKey,
    /// The index is in use, but under another variant: the key is of an earlier object or binding.
    StaleKey,
    /// The key is of an object that does not serve for this: a window used locally, a region or a
    /// type 1 window to be invalidated.
    WrongKind,
    /// The window is not bound.
    NotBound,
    /// The queue pair and the object are of different protection domains.
    WrongPd,
    /// The window serves only the queue pair that bound it.
    WrongQp,
    /// The rights of the region or window do not cover what is asked.
    AccessDenied,
    /// Some of the bytes lie outside the region or window.
    OutOfRange,
}

impl fmt::Display for AccessFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownKey => "no region or window has this key",
            Self::StaleKey => "the key is of an earlier object or binding",
            Self::WrongKind => "the key is of an object of another kind",
            Self::NotBound => "the window is not bound",
            Self::WrongPd => "the protection domains differ",
            Self::WrongQp => "the window was bound by another queue pair",
            Self::AccessDenied => "the right is missing",
            Self::OutOfRange => "the range is not inside the region or window",
        })
    }
}

impl core::error::Error for AccessFault {}

/// Why a window was not bound. Every one completes the work request with
/// [`WcStatus::MwBindError`](crate::verbs::WcStatus::MwBindError); nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BindError {
    /// The window's key is unknown, stale, or not of a window of the type asked for; or the window
    /// and the queue pair are of different protection domains.
    Window(AccessFault),
    /// A type 2 window must be invalidated before it is bound again.
    AlreadyBound,
    /// A type 2 window is not unbound by a bind of length 0.
    ZeroLength,
    /// The region's key is unknown, stale, or not of a region; or its protection domain is another;
    /// or the range is not inside the region.
    Region(AccessFault),
    /// The region lacks `MW_BIND`.
    NotBindable,
    /// `REMOTE_WRITE` and `REMOTE_ATOMIC` need a region with `LOCAL_WRITE`.
    RightsExceedRegion,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Window(fault) => write!(f, "window: {fault}"),
            Self::AlreadyBound => f.write_str("window: it is bound"),
            Self::ZeroLength => f.write_str("a type 2 window cannot be bound to length 0"),
            Self::Region(fault) => write!(f, "region: {fault}"),
            Self::NotBindable => f.write_str("region: windows may not be bound to it"),
            Self::RightsExceedRegion => {
                f.write_str("region: the program itself may not write there")
            }
        }
    }
}

impl core::error::Error for BindError {}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::string::{String, ToString};

    use super::*;

    #[test]
    fn every_fault_has_words_of_its_own() {
        let faults = [
            AccessFault::UnknownKey,
            AccessFault::StaleKey,
            AccessFault::WrongKind,
            AccessFault::NotBound,
            AccessFault::WrongPd,
            AccessFault::WrongQp,
            AccessFault::AccessDenied,
            AccessFault::OutOfRange,
        ];
        let of_access = faults.map(|fault| fault.to_string());
        let of_binds = faults.into_iter().flat_map(|fault| {
            [BindError::Window(fault), BindError::Region(fault)].map(|error| error.to_string())
        });
        let others = [
            BindError::AlreadyBound,
            BindError::ZeroLength,
            BindError::NotBindable,
            BindError::RightsExceedRegion,
        ];
        let all = of_access.clone().into_iter().chain(of_binds);
        let all: BTreeSet<String> = all.chain(others.map(|error| error.to_string())).collect();
        assert_eq!(all.len(), 8 + 16 + 4);
        assert!(all.contains("window: the protection domains differ"));
        assert!(of_access.iter().all(|text| !text.is_empty()));
    }
}
