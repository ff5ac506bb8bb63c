//! A lock that one call of C takes and a later one gives back.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whose turn it is.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    taken: AtomicBool,
}

impl Turn {
    /// Waits for it. It is held for a few calls only, so whoever waits yields.
    #[inline]
    pub(crate) fn take(&self) {
        while self
            .taken
            .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            std::thread::yield_now();
        }
    }

    /// Gives it back.
    #[inline]
    pub(crate) fn give(&self) {
        self.taken.store(false, Ordering::Release);
    }
}
