//! Real devices, through rdma-core.
//!
//! libibverbs is loaded when it is needed (`library`), so that a program runs where there is none; which
//! one is said by [`HardwareConfig`]. The structs that it shares with its callers (`layout`) are those of
//! the drop-in from the other side. Objects are kept in tables by number (`table`); `context` has the
//! verbs. A watcher takes the asynchronous events (`life`): a device that fails ends every wait.
//!
//! What a program does inline in C is done the same way here: posting, polling and arming go through the
//! functions of `ibv_context`, extended verbs through `verbs_context`, and a function that is not there is
//! `EOPNOTSUPP`.
//!
//! Connections (`cm`) are the kernel's, by librdmacm, which is loaded when it is needed, too.

mod channels;
mod cm;
mod context;
mod convert;
mod elf;
mod errno;
mod layout;
mod library;
mod life;
mod memory;
mod open;
mod pairs;
mod polling;
mod posting;
mod provider;
mod queues;
mod table;

use std::path::PathBuf;

pub use cm::{HardwareManager, ManagerLoadError};
pub use library::LoadError;
pub use open::HardwareContext;
pub use provider::HardwareProvider;

/// Which libraries drive the devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HardwareConfig {
    path: Option<PathBuf>,
    manager: Option<PathBuf>,
}

impl HardwareConfig {
    /// The `libibverbs.so.1` and the `librdmacm.so.1` that the dynamic linker finds, unless they are
    /// softrnic's own.
    #[must_use]
    pub const fn new() -> Self {
        Self { path: None, manager: None }
    }

    /// The libibverbs at `path`, whatever it is: softrnic's own, for a test. A library that is librdmacm
    /// as well, as that one is, is taken as both.
    #[must_use]
    pub fn library(path: impl Into<PathBuf>) -> Self {
        Self { path: Some(path.into()), manager: None }
    }

    /// The librdmacm at `path`, whatever it is. It must work with the libibverbs.
    #[must_use]
    pub fn with_manager(self, path: impl Into<PathBuf>) -> Self {
        Self { manager: Some(path.into()), ..self }
    }

    /// The libraries that `SOFTRNIC_LIBIBVERBS` and `SOFTRNIC_LIBRDMACM` name by their paths, as far as
    /// they name some.
    #[must_use]
    pub fn from_environment() -> Self {
        let named = |variable| {
            let path = std::env::var_os(variable).filter(|path| !path.is_empty());
            path.map(PathBuf::from)
        };
        Self { path: named("SOFTRNIC_LIBIBVERBS"), manager: named("SOFTRNIC_LIBRDMACM") }
    }
}
