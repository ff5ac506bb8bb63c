//! Queues of events that a program waits for: by blocking, or through a descriptor.

use std::collections::VecDeque;
use std::io;
#[cfg(unix)]
use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::provider::Timeout;

/// Events, oldest first.
pub(super) struct EventQueue<T> {
    events: Mutex<VecDeque<T>>,
    arrived: Condvar,
    #[cfg(unix)]
    signal: signal::Signal,
}

impl<T> std::fmt::Debug for EventQueue<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventQueue").field("waiting", &self.lock().len()).finish_non_exhaustive()
    }
}

impl<T> EventQueue<T> {
    /// # Errors
    /// No more descriptors.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            events: Mutex::new(VecDeque::new()),
            arrived: Condvar::new(),
            #[cfg(unix)]
            signal: signal::Signal::new()?,
        })
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, event: T) {
        let mut events = self.lock();
        events.push_back(event);
        #[cfg(unix)]
        self.signal.raise();
        drop(events);
        self.arrived.notify_one();
    }

    /// Takes the oldest event; waits for one until the time is over.
    pub(super) fn take(&self, timeout: Timeout) -> Option<T> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut events = self.lock();
        loop {
            if let Some(event) = events.pop_front() {
                #[cfg(unix)]
                self.signal.lower();
                return Some(event);
            }
            events = match deadline {
                None => self.arrived.wait(events).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return None;
                    }
                    let waited = self.arrived.wait_timeout(events, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Forgets events, those about an object that is gone.
    pub(super) fn retain(&self, keep: impl Fn(&T) -> bool) {
        let mut events = self.lock();
        let before = events.len();
        events.retain(keep);
        #[cfg(unix)]
        for _ in events.len()..before {
            self.signal.lower();
        }
        #[cfg(not(unix))]
        let _ = before;
    }

    /// A descriptor that is readable while an event waits.
    #[cfg(unix)]
    pub(super) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.signal.descriptor()
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod signal {
    use std::io;
    use std::os::fd::OwnedFd;

    use rustix::event::{EventfdFlags, eventfd};
    use rustix::io::{read, write};

    /// An event descriptor that counts: each read takes one.
    pub(super) struct Signal(OwnedFd);

    impl Signal {
        pub(super) fn new() -> io::Result<Self> {
            let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK | EventfdFlags::SEMAPHORE;
            Ok(Self(eventfd(0, flags)?))
        }

        pub(super) fn raise(&self) {
            // It can only fail at 2^64 events.
            let _ = write(&self.0, &1_u64.to_ne_bytes());
        }

        pub(super) fn lower(&self) {
            let _ = read(&self.0, &mut [0; 8]);
        }

        pub(super) fn descriptor(&self) -> io::Result<OwnedFd> {
            self.0.try_clone()
        }
    }
}

#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
mod signal {
    use std::io;
    use std::os::fd::OwnedFd;

    use rustix::io::{ioctl_fionbio, read, write};
    use rustix::pipe::pipe;

    /// A pipe that holds a byte for each event, as far as it has room.
    pub(super) struct Signal {
        reader: OwnedFd,
        writer: OwnedFd,
    }

    impl Signal {
        pub(super) fn new() -> io::Result<Self> {
            let (reader, writer) = pipe()?;
            ioctl_fionbio(&reader, true)?;
            ioctl_fionbio(&writer, true)?;
            Ok(Self { reader, writer })
        }

        pub(super) fn raise(&self) {
            let _ = write(&self.writer, &[0]);
        }

        pub(super) fn lower(&self) {
            let _ = read(&self.reader, &mut [0]);
        }

        pub(super) fn descriptor(&self) -> io::Result<OwnedFd> {
            self.reader.try_clone()
        }
    }
}
