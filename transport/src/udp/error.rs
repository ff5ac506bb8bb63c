//! Why a link cannot be opened, said so that a person knows what to do.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Why [`super::UdpLink::open`] failed.
#[derive(Debug)]
pub enum OpenError {
    /// The address cannot be that of one end: unspecified, multicast or broadcast.
    NotOneAddress(IpAddr),
    /// No interface of this host has the address.
    AddressNotHere {
        /// The address asked for.
        address: IpAddr,
        /// The addresses that there are.
        here: Vec<IpAddr>,
    },
    /// No interface has the name.
    UnknownInterface {
        /// The name asked for.
        name: String,
        /// The names that there are.
        known: Vec<String>,
    },
    /// Somebody listens there already.
    PortInUse {
        /// Where.
        at: SocketAddr,
        /// Who, if it could be found out: process number and name.
        owner: Option<String>,
    },
    /// The system does not allow it.
    NotPermitted {
        /// What was tried.
        attempt: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// No UDP source port between 49152 and 65535 is free.
    NoSourcePort(IpAddr),
    /// Anything else.
    Failed {
        /// What was tried.
        attempt: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl OpenError {
    /// `source` happened while trying `attempt`.
    pub(super) fn new(attempt: &'static str, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::PermissionDenied {
            Self::NotPermitted { attempt, source }
        } else {
            Self::Failed { attempt, source }
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOneAddress(address) => {
                write!(f, "{address} is not the address of one host; name the one to send from")
            }
            Self::AddressNotHere { address, here } => {
                write!(f, "no interface of this host has the address {address}; there are")?;
                list(f, here)
            }
            Self::UnknownInterface { name, known } => {
                write!(f, "no interface is called {name:?}; there are")?;
                list(f, known)
            }
            Self::PortInUse { at, owner } => {
                write!(f, "UDP port {} of {} is in use", at.port(), at.ip())?;
                match owner {
                    Some(owner) => write!(f, " by {owner}; stop it or use another address"),
                    None => f.write_str(
                        ", by a process of another user or by the kernel's soft-RoCE driver; \
                         stop it or use another address",
                    ),
                }
            }
            Self::NotPermitted { attempt, source } => {
                write!(f, "not permitted to {attempt} ({source})")
            }
            Self::NoSourcePort(address) => {
                write!(f, "no UDP source port from 49152 to 65535 is free on {address}")
            }
            Self::Failed { attempt, source } => write!(f, "could not {attempt}: {source}"),
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, items: &[impl fmt::Display]) -> fmt::Result {
    for (i, item) in items.iter().enumerate() {
        write!(f, "{} {item}", if i == 0 { "" } else { "," })?;
    }
    if items.is_empty() { f.write_str(" none") } else { Ok(()) }
}

impl Error for OpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NotPermitted { source, .. } | Self::Failed { source, .. } => Some(source),
            Self::NotOneAddress(_)
            | Self::AddressNotHere { .. }
            | Self::UnknownInterface { .. }
            | Self::PortInUse { .. }
            | Self::NoSourcePort(_) => None,
        }
    }
}
