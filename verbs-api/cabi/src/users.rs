//! Counts who uses an object that the device itself does not know.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::errno::{Errno, Result};

/// How many use it.
#[derive(Debug, Default)]
pub(crate) struct Users(AtomicU32);

impl Users {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// # Errors
    /// `EBUSY`: somebody does.
    pub(crate) fn judge_idle(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) == 0 { Ok(()) } else { Err(Errno::BUSY) }
    }
}
