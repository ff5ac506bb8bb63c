//! Why the connection manager refuses something.

use std::borrow::Cow;
use std::fmt;

/// A refusal, with the errno that the man page of the function gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CmError {
    errno: i32,
    text: Cow<'static, str>,
}

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident = $errno:literal $code:literal;)*) => {
        impl CmError {
            $($(#[$doc])*
            pub fn $name(text: impl Into<Cow<'static, str>>) -> Self {
                Self { errno: $errno, text: text.into() }
            })*

            /// The name of its errno, as `errno(3)` spells it; empty for one that is not ours.
            #[must_use]
            pub const fn errno_name(&self) -> &'static str {
                match self.errno {
                    $($errno => $code,)*
                    _ => "",
                }
            }
        }
    };
}

errors! {
    /// An argument is wrong, or the identifier is in a state where this is not done.
    invalid = 22 "EINVAL";
    /// No memory, descriptors or numbers are left.
    full = 12 "ENOMEM";
    /// Another user has the port.
    denied = 13 "EACCES";
    /// Something is still in use.
    busy = 16 "EBUSY";
    /// There is no device for the address.
    no_device = 19 "ENODEV";
    /// Nothing is there yet, and the caller does not want to wait.
    again = 11 "EAGAIN";
    /// There is no such thing.
    not_supported = 95 "EOPNOTSUPP";
    /// The address family does not fit.
    family = 97 "EAFNOSUPPORT";
    /// The port is taken.
    address_in_use = 98 "EADDRINUSE";
    /// The host does not have the address.
    address_not_available = 99 "EADDRNOTAVAIL";
    /// There is no way to the network.
    network_unreachable = 101 "ENETUNREACH";
    /// There is no way to the host.
    host_unreachable = 113 "EHOSTUNREACH";
    /// The connection is there already.
    connected = 106 "EISCONN";
    /// There is no connection.
    not_connected = 107 "ENOTCONN";
    /// Nobody has answered.
    timed_out = 110 "ETIMEDOUT";
}

impl CmError {
    /// A refusal with another errno.
    pub fn with_errno(errno: i32, text: impl Into<Cow<'static, str>>) -> Self {
        Self { errno, text: text.into() }
    }

    /// The errno, with the numbers of Linux.
    #[must_use]
    pub const fn errno(&self) -> i32 {
        self.errno
    }

    /// What is wrong, for people.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for CmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.errno_name() {
            "" => write!(f, "{} (errno {})", self.text, self.errno),
            name => write!(f, "{} ({name})", self.text),
        }
    }
}

impl std::error::Error for CmError {}

impl From<softrnic_model::verbs::VerbError> for CmError {
    fn from(error: softrnic_model::verbs::VerbError) -> Self {
        let text = error.to_string();
        let what = text.rsplit_once(" (").map_or(text.as_str(), |(what, _)| what).to_owned();
        Self { errno: error.errno(), text: what.into() }
    }
}
