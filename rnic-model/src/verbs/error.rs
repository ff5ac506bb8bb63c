//! What a program did wrong, or asked too much.

use core::fmt;

/// Why a verb was refused. Each has the errno that rdma-core's man pages give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VerbError {
    /// An argument is wrong; the text says which and why.
    Invalid(&'static str),
    /// A number names no object, or one that was destroyed.
    NoSuchObject(&'static str),
    /// The object is in use by others.
    Busy(&'static str),
    /// A queue or table is full.
    Full(&'static str),
    /// More was asked for than the device has.
    LimitExceeded(&'static str),
    /// The device does not do this.
    NotSupported(&'static str),
    /// The address range is not accessible memory.
    BadAddress(&'static str),
    /// A key is not the present one of anything.
    NoEntry(&'static str),
    /// The caller may not do this to the object.
    NotPermitted(&'static str),
    /// There is no route, or no such address on the interface.
    Unreachable(&'static str),
    /// What the system said of a real device and no other variant says: an errno of Linux.
    System(i32, &'static str),
}

impl VerbError {
    /// The errno, with the numbers of Linux.
    #[must_use]
    pub const fn errno(self) -> i32 {
        match self {
            Self::Invalid(_) | Self::NoSuchObject(_) => 22,
            Self::Busy(_) => 16,
            Self::NoEntry(_) => 2,
            Self::NotPermitted(_) => 1,
            Self::Full(_) | Self::LimitExceeded(_) => 12,
            Self::NotSupported(_) => 95,
            Self::BadAddress(_) => 14,
            Self::Unreachable(_) => 101,
            Self::System(errno, _) => errno,
        }
    }

    /// Its name, as `errno(3)` spells it.
    #[must_use]
    pub const fn errno_name(self) -> &'static str {
        match self {
            Self::Invalid(_) | Self::NoSuchObject(_) => "EINVAL",
            Self::Busy(_) => "EBUSY",
            Self::NoEntry(_) => "ENOENT",
            Self::NotPermitted(_) => "EPERM",
            Self::Full(_) | Self::LimitExceeded(_) => "ENOMEM",
            Self::NotSupported(_) => "EOPNOTSUPP",
            Self::BadAddress(_) => "EFAULT",
            Self::Unreachable(_) => "ENETUNREACH",
            Self::System(errno, _) => name_of(errno),
        }
    }
}

/// The name of an errno of Linux that drivers of RDMA devices give; empty for others.
const fn name_of(errno: i32) -> &'static str {
    match errno {
        1 => "EPERM",
        2 => "ENOENT",
        4 => "EINTR",
        5 => "EIO",
        6 => "ENXIO",
        9 => "EBADF",
        11 => "EAGAIN",
        12 => "ENOMEM",
        13 => "EACCES",
        14 => "EFAULT",
        16 => "EBUSY",
        17 => "EEXIST",
        19 => "ENODEV",
        22 => "EINVAL",
        24 => "EMFILE",
        28 => "ENOSPC",
        34 => "ERANGE",
        38 => "ENOSYS",
        61 => "ENODATA",
        71 => "EPROTO",
        75 => "EOVERFLOW",
        93 => "EPROTONOSUPPORT",
        95 => "EOPNOTSUPP",
        99 => "EADDRNOTAVAIL",
        101 => "ENETUNREACH",
        110 => "ETIMEDOUT",
        111 => "ECONNREFUSED",
        113 => "EHOSTUNREACH",
        _ => "",
    }
}

impl fmt::Display for VerbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Invalid(what)
        | Self::NoSuchObject(what)
        | Self::Busy(what)
        | Self::Full(what)
        | Self::LimitExceeded(what)
        | Self::NotSupported(what)
        | Self::BadAddress(what)
        | Self::NoEntry(what)
        | Self::NotPermitted(what)
        | Self::Unreachable(what)
        | Self::System(_, what)) = self;
        match self.errno_name() {
            "" => write!(f, "{what} (errno {})", self.errno()),
            name => write!(f, "{what} ({name})"),
        }
    }
}

impl core::error::Error for VerbError {}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn names_and_numbers_of_errors_agree() {
        let all = [
            VerbError::Invalid("it"),
            VerbError::NoSuchObject("it"),
            VerbError::Busy("it"),
            VerbError::Full("it"),
            VerbError::LimitExceeded("it"),
            VerbError::NotSupported("it"),
            VerbError::BadAddress("it"),
            VerbError::NoEntry("it"),
            VerbError::NotPermitted("it"),
            VerbError::Unreachable("it"),
        ];
        for error in all {
            let same = VerbError::System(error.errno(), "it");
            assert_eq!(same.errno(), error.errno());
            assert_eq!(same.errno_name(), error.errno_name());
            assert_eq!(error.to_string(), alloc::format!("it ({})", error.errno_name()));
        }
    }

    #[test]
    fn what_the_system_says_has_its_name_or_its_number() {
        // errno(3), and asm-generic/errno-base.h for the numbers.
        let some =
            [(5, "EIO"), (11, "EAGAIN"), (13, "EACCES"), (61, "ENODATA"), (110, "ETIMEDOUT")];
        for (errno, name) in some {
            assert_eq!(VerbError::System(errno, "it").to_string(), alloc::format!("it ({name})"));
        }
        assert_eq!(VerbError::System(77, "it").to_string(), "it (errno 77)");
        let named = (0..200).map(name_of).filter(|name| !name.is_empty());
        let mut seen = BTreeSet::new();
        assert!(named.into_iter().all(|name| name.starts_with('E') && seen.insert(name)));
    }
}
