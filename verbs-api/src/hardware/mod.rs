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

mod channels;
mod context;
mod convert;
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

pub use library::LoadError;
pub use open::HardwareContext;
pub use provider::HardwareProvider;

/// Which libibverbs drives the devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HardwareConfig {
    path: Option<PathBuf>,
}

impl HardwareConfig {
    /// The `libibverbs.so.1` that the dynamic linker finds, unless that is softrnic's own.
    #[must_use]
    pub const fn new() -> Self {
        Self { path: None }
    }

    /// The library at `path`, whatever it is: softrnic's own, for a test.
    #[must_use]
    pub fn library(path: impl Into<PathBuf>) -> Self {
        Self { path: Some(path.into()) }
    }

    /// The library that `SOFTRNIC_LIBIBVERBS` names by its path, if it names one.
    #[must_use]
    pub fn from_environment() -> Self {
        let path = std::env::var_os("SOFTRNIC_LIBIBVERBS").filter(|path| !path.is_empty());
        Self { path: path.map(PathBuf::from) }
    }
}
