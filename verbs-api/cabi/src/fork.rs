//! Forked children. A device belongs to the process that opened it: the child has no engine thread and
//! must not use the parent's sockets and numbers. Its verbs answer `EIO`; it may open devices of its own.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many forks lie between the process that loaded the library and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// A process, as far as the library can tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    /// This one. From now on forks are noticed.
    pub(crate) fn current() -> Self {
        static WATCH: Once = Once::new();
        WATCH.call_once(watch);
        Self(GENERATION.load(Ordering::Relaxed))
    }

    /// Whether it is this one.
    #[inline]
    pub(crate) fn is_current(self) -> bool {
        self.0 == GENERATION.load(Ordering::Relaxed)
    }
}

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

#[expect(unsafe_code, reason = "registers a handler with the C library")]
fn watch() {
    // SAFETY: the handler only counts, which is safe in a forked child, and the library is never
    // unloaded (`-z nodelete`). Without memory for it forks go unnoticed here; the device itself still
    // refuses all but posting and polling.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}
