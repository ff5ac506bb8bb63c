//! Real devices are reached through rdma-core, which exists on Linux: here there are none.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use softrnic_model::verbs::VerbError;

use crate::provider::{Context, DeviceInfo, OpenFailure, Provider, Verb};

const ABSENT: VerbError =
    VerbError::NotSupported("real devices need rdma-core, which is for 64-bit Linux");

/// Which libibverbs drives the devices: none, here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HardwareConfig;

impl HardwareConfig {
    /// The usual one.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }

    /// One by its path.
    #[must_use]
    pub fn library(_: impl Into<PathBuf>) -> Self {
        Self
    }

    /// With a librdmacm by its path.
    #[must_use]
    pub fn with_manager(self, _: impl Into<PathBuf>) -> Self {
        self
    }

    /// The one that `SOFTRNIC_LIBIBVERBS` names.
    #[must_use]
    pub const fn from_environment() -> Self {
        Self
    }
}

/// Why there is no libibverbs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError;

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ABSENT.fmt(f)
    }
}

impl core::error::Error for LoadError {}

/// The devices that there are not.
#[derive(Clone, Copy, Debug)]
pub struct HardwareProvider;

impl HardwareProvider {
    /// Makes a provider whose every answer is that there can be none.
    ///
    /// # Errors
    /// None.
    pub const fn load(_: &HardwareConfig) -> Result<Self, LoadError> {
        Ok(Self)
    }
}

impl Provider for HardwareProvider {
    fn devices(&self) -> Verb<Vec<DeviceInfo>> {
        Err(ABSENT)
    }

    fn open(&self, _: &str) -> Result<Arc<dyn Context>, OpenFailure> {
        Err(ABSENT.into())
    }
}
