//! Queues of events that a program waits for: by blocking, or through a descriptor.

use std::collections::VecDeque;
use std::io;
#[cfg(unix)]
use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::provider::Timeout;

/// Events, oldest first.
pub(crate) struct EventQueue<T> {
    state: Mutex<State<T>>,
    arrived: Condvar,
    /// Raised for each event, where programs may wait for a descriptor.
    #[cfg(unix)]
    signal: Option<signal::Signal>,
}

struct State<T> {
    events: VecDeque<T>,
    closed: bool,
}

/// The queue has been destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed;

impl<T> std::fmt::Debug for EventQueue<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let waiting = self.lock().events.len();
        f.debug_struct("EventQueue").field("waiting", &waiting).finish_non_exhaustive()
    }
}

impl<T> EventQueue<T> {
    /// # Errors
    /// No more descriptors.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            state: Mutex::new(State { events: VecDeque::new(), closed: false }),
            arrived: Condvar::new(),
            #[cfg(unix)]
            signal: Some(signal::Signal::new()?),
        })
    }

    /// A queue without a descriptor.
    pub(crate) fn without_descriptor() -> Self {
        Self {
            state: Mutex::new(State { events: VecDeque::new(), closed: false }),
            arrived: Condvar::new(),
            #[cfg(unix)]
            signal: None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, event: T) {
        self.put(|events| events.push_back(event));
    }

    /// Puts an event before the first one that is to come later, or at the end.
    pub(crate) fn insert_before(&self, event: T, later: impl Fn(&T) -> bool) {
        self.put(|events| {
            let place = events.iter().position(later).unwrap_or(events.len());
            events.insert(place, event);
        });
    }

    fn put(&self, enter: impl FnOnce(&mut VecDeque<T>)) {
        let mut state = self.lock();
        enter(&mut state.events);
        #[cfg(unix)]
        if let Some(signal) = &self.signal {
            signal.raise();
        }
        drop(state);
        self.arrived.notify_one();
    }

    /// Takes the oldest event; waits for one until the time is over.
    pub(crate) fn take(&self, timeout: Timeout) -> Result<Option<T>, Closed> {
        // An end of time that the clock cannot tell never comes.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut state = self.lock();
        loop {
            if let Some(event) = state.events.pop_front() {
                #[cfg(unix)]
                if let Some(signal) = &self.signal {
                    signal.lower();
                }
                return Ok(Some(event));
            }
            if state.closed {
                return Err(Closed);
            }
            state = match deadline {
                None => self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Ok(None);
                    }
                    let waited = self.arrived.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Takes the oldest event as `read(2)` of the descriptor would: what the program has set on it
    /// decides whether to wait, and signals interrupt as they do there.
    ///
    /// Who reads takes a count from the descriptor before the event that it stands for. Should the
    /// event be gone by then, whoever took it has found no count to take.
    ///
    /// # Errors
    /// `EAGAIN`, `EINTR`; `EBADF`: the queue has been destroyed.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) fn read(&self) -> io::Result<T> {
        loop {
            self.signal.as_ref().ok_or(io::ErrorKind::Unsupported)?.wait()?;
            let mut state = self.lock();
            match state.events.pop_front() {
                Some(event) => return Ok(event),
                None if state.closed => return Err(rustix::io::Errno::BADF.into()),
                None => {}
            }
        }
    }

    /// Forgets events, those about an object that is gone.
    pub(crate) fn retain(&self, keep: impl Fn(&T) -> bool) {
        let mut state = self.lock();
        let before = state.events.len();
        state.events.retain(keep);
        #[cfg(unix)]
        if let Some(signal) = &self.signal {
            for _ in state.events.len()..before {
                signal.lower();
            }
        }
        #[cfg(not(unix))]
        let _ = before;
    }

    /// Takes some events out, in their order.
    pub(crate) fn extract(&self, which: impl Fn(&T) -> bool) -> Vec<T> {
        let mut state = self.lock();
        let (taken, kept): (Vec<T>, Vec<T>) = state.events.drain(..).partition(which);
        state.events = kept.into();
        #[cfg(unix)]
        if let Some(signal) = &self.signal {
            taken.iter().for_each(|_| signal.lower());
        }
        taken
    }

    /// Sends everybody away who waits, now and later.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_all();
    }

    /// A descriptor that is readable while an event waits.
    #[cfg(unix)]
    pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.signal.as_ref().ok_or(io::ErrorKind::Unsupported)?.descriptor()
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod signal {
    use std::io;
    use std::io::IoSliceMut;
    use std::os::fd::OwnedFd;

    use rustix::event::{EventfdFlags, eventfd};
    use rustix::io::{ReadWriteFlags, preadv2, read, write};

    /// An event descriptor that counts: each read takes one. Whether its readers wait is a flag that
    /// all duplicates share, so it is the program's to set.
    pub(crate) struct Signal(OwnedFd);

    /// `preadv2(2)`: there is no position.
    const NO_OFFSET: u64 = u64::MAX;

    impl Signal {
        pub(crate) fn new() -> io::Result<Self> {
            Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE)?))
        }

        pub(crate) fn raise(&self) {
            // It can only fail at 2^64 events.
            let _ = write(&self.0, &1_u64.to_ne_bytes());
        }

        /// Takes one if there is one. A reader may have been quicker.
        pub(crate) fn lower(&self) {
            let mut count = [0; 8];
            let _ = preadv2(
                &self.0,
                &mut [IoSliceMut::new(&mut count)],
                NO_OFFSET,
                ReadWriteFlags::NOWAIT,
            );
        }

        /// Takes one, and waits for it unless the program does not want to.
        pub(crate) fn wait(&self) -> io::Result<()> {
            read(&self.0, &mut [0; 8])?;
            Ok(())
        }

        pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
            self.0.try_clone()
        }
    }
}

#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
mod signal {
    use std::io;
    use std::os::fd::OwnedFd;

    use rustix::io::{FdFlags, fcntl_setfd, ioctl_fionbio, read, write};
    use rustix::pipe::pipe;

    /// A pipe that holds a byte for each event, as far as it has room.
    pub(crate) struct Signal {
        reader: OwnedFd,
        writer: OwnedFd,
    }

    impl Signal {
        pub(crate) fn new() -> io::Result<Self> {
            let (reader, writer) = pipe()?;
            for end in [&reader, &writer] {
                ioctl_fionbio(end, true)?;
                fcntl_setfd(end, FdFlags::CLOEXEC)?;
            }
            Ok(Self { reader, writer })
        }

        pub(crate) fn raise(&self) {
            let _ = write(&self.writer, &[0]);
        }

        pub(crate) fn lower(&self) {
            let _ = read(&self.reader, &mut [0]);
        }

        pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
            self.reader.try_clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    const AT_ONCE: Timeout = Some(Duration::ZERO);

    #[test]
    fn events_come_in_order_and_the_descriptor_counts_them() {
        let queue = EventQueue::new().unwrap();
        assert_eq!(queue.take(AT_ONCE), Ok(None));
        (1..=3).for_each(|n| queue.push(n));
        queue.retain(|&n| n != 2);
        #[cfg(unix)]
        let readable = |queue: &EventQueue<i32>| {
            use rustix::event::{PollFd, PollFlags, Timespec, poll};
            let descriptor = queue.descriptor().unwrap();
            let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
            poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
        };
        #[cfg(not(unix))]
        let readable = |queue: &EventQueue<i32>| !queue.lock().events.is_empty();
        assert!(readable(&queue));
        assert_eq!(queue.take(None), Ok(Some(1)));
        assert!(readable(&queue));
        assert_eq!(queue.take(None), Ok(Some(3)));
        assert!(!readable(&queue));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn reading_obeys_the_flags_that_the_program_has_set_on_the_descriptor() {
        use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
        let queue = Arc::new(EventQueue::new().unwrap());
        let descriptor = queue.descriptor().unwrap();
        assert!(!fcntl_getfl(&descriptor).unwrap().contains(OFlags::NONBLOCK));
        let reader = {
            let queue = Arc::clone(&queue);
            std::thread::spawn(move || queue.read())
        };
        std::thread::sleep(Duration::from_millis(20));
        assert!(!reader.is_finished());
        queue.push(1);
        assert_eq!(reader.join().unwrap().unwrap(), 1);
        fcntl_setfl(&descriptor, OFlags::NONBLOCK).unwrap();
        assert_eq!(queue.read().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        (2..=4).for_each(|n| queue.push(n));
        queue.retain(|&n| n != 3);
        assert_eq!((queue.read().unwrap(), queue.take(AT_ONCE)), (2, Ok(Some(4))));
        assert_eq!(queue.read().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_wait_ends_with_an_event_with_the_time_or_with_the_queue() {
        let queue = Arc::new(EventQueue::new().unwrap());
        let waiter = |timeout| {
            let queue = Arc::clone(&queue);
            std::thread::spawn(move || queue.take(timeout))
        };
        let started = Instant::now();
        assert_eq!(waiter(Some(Duration::from_millis(20))).join().unwrap(), Ok(None));
        assert!(started.elapsed() >= Duration::from_millis(20));
        let waiting = waiter(Some(Duration::MAX));
        queue.push(5);
        assert_eq!(waiting.join().unwrap(), Ok(Some(5)));
        let waiting = [waiter(None), waiter(Some(Duration::MAX))];
        queue.close();
        assert!(waiting.map(|thread| thread.join().unwrap()) == [Err(Closed); 2]);
    }
}
