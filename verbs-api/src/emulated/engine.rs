//! The engine thread: makes progress for a program that does not.
//!
//! It has two moods. *Armed*: it sleeps until a socket is readable or something is due. *Relaxed*:
//! while the program posts and polls, it makes progress itself, and being woken for every packet
//! would only take the processor away from it; so the engine leaves the sockets alone and looks
//! again after a moment whether the program still does.

use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use polling::{Event, Events, PollMode, Poller};
use softrnic_model::Instant;

use super::core::Core;

/// How long a program may neither post nor poll before the engine takes over.
const RELAXED: Duration = Duration::from_millis(1);

/// How long the engine looks for more after the last packet before it sleeps. Traffic comes in
/// bursts, and to sleep and be woken between two of them costs more than they do.
const LINGER_NS: u64 = 40_000;

/// What the engine and the verbs share.
pub(super) struct Shared {
    core: Mutex<Core>,
    origin: std::time::Instant,
    poller: Poller,
    /// The sockets that the poller knows.
    sockets: Mutex<Vec<UdpSocket>>,
    /// Verbs that made progress inline since the engine last looked.
    inline: AtomicU64,
    /// Somebody waits for an event and does not poll: the engine is wanted at once.
    wanted: AtomicBool,
    /// When the engine wakes by itself, in nanoseconds since the origin.
    wakes_at: AtomicU64,
    closing: AtomicBool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn new(core: Core) -> io::Result<Self> {
        let shared = Self {
            core: Mutex::new(core),
            origin: std::time::Instant::now(),
            poller: Poller::new()?,
            sockets: Mutex::new(Vec::new()),
            inline: AtomicU64::new(0),
            wanted: AtomicBool::new(false),
            wakes_at: AtomicU64::new(0),
            closing: AtomicBool::new(false),
        };
        shared.watch_sockets()?;
        Ok(shared)
    }

    #[expect(clippy::disallowed_methods, reason = "this is where real time enters")]
    pub(super) fn now(&self) -> Instant {
        let ns = std::time::Instant::now().duration_since(self.origin).as_nanos();
        Instant::from_ns(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// The device, for a verb. A panic while it was held cannot leave it half changed for the
    /// memory's safety: protection is judged at every access.
    pub(super) fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A verb has made progress inline and gives the lock back: the engine need not look for a
    /// while, unless something is due before it would.
    #[inline]
    pub(super) fn done_inline(&self, core: MutexGuard<'_, Core>) {
        self.inline.fetch_add(1, Ordering::Relaxed);
        let wakes_at = self.wakes_at.load(Ordering::Relaxed);
        let due = core.next_deadline().is_some_and(|due| due.as_ns() < wakes_at);
        let owes = wakes_at == u64::MAX && core.device.has_work();
        drop(core);
        if due || owes {
            self.ring();
        }
    }

    /// Wakes the engine.
    pub(super) fn ring(&self) {
        // Failing to wake it delays work until its next look; there is nothing better to do.
        let _ = self.poller.notify();
    }

    /// A program thread is about to wait for events instead of polling.
    pub(super) fn hand_over(&self) {
        if !self.wanted.swap(true, Ordering::Relaxed) {
            self.ring();
        }
    }

    /// A program thread polls again.
    pub(super) fn take_over(&self) {
        self.wanted.store(false, Ordering::Relaxed);
    }

    /// Registers the link's sockets anew; they change as groups are joined.
    pub(super) fn watch_sockets(&self) -> io::Result<()> {
        let mut fresh = Vec::new();
        let mut failure = None;
        self.lock().link.sockets(&mut |socket| match socket.try_clone() {
            Ok(socket) => fresh.push(socket),
            Err(error) => failure = Some(error),
        });
        if let Some(error) = failure {
            return Err(error);
        }
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        for socket in sockets.drain(..) {
            self.poller.delete(&socket)?;
        }
        for socket in &fresh {
            #[expect(unsafe_code, reason = "the poller wants to be told before a socket goes")]
            // SAFETY: the clone stays in `sockets` until it is deleted from the poller, here or
            // by the poller's own end, which comes first (field order in `drop`).
            unsafe {
                self.poller.add(socket, Event::none(0))?;
            }
        }
        *sockets = fresh;
        drop(sockets);
        self.ring();
        Ok(())
    }

    fn arm(&self) -> io::Result<()> {
        let sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        for socket in sockets.iter() {
            self.poller.modify_with_mode(socket, Event::readable(0), PollMode::Oneshot)?;
        }
        Ok(())
    }

    /// Whether verbs have made progress inline since the engine last looked.
    fn is_active(&self) -> bool {
        self.inline.load(Ordering::Relaxed) != 0
    }

    /// Tells the engine to end.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.ring();
    }

    /// One look: returns how long to sleep.
    fn look(&self) -> io::Result<Option<Duration>> {
        let active = self.inline.swap(0, Ordering::Relaxed) != 0;
        let relaxed = active && !self.wanted.load(Ordering::Relaxed);
        let mut core = self.lock();
        let mut now = self.now();
        if relaxed {
            if core.device.has_work() || core.next_deadline().is_some_and(|due| due <= now) {
                core.progress(now);
            }
        } else {
            let mut last = now;
            loop {
                if core.progress(now) != 0 {
                    last = now;
                } else if now.ns_since(last) >= LINGER_NS || self.is_active() {
                    break;
                }
                // A program thread may have the device, or the processor, in between.
                drop(core);
                std::thread::yield_now();
                core = self.lock();
                now = self.now();
            }
        }
        let due = core.next_deadline();
        drop(core);
        let until_due = due.map(|due| Duration::from_nanos(due.ns_since(now)));
        let sleep = if relaxed {
            Some(until_due.map_or(RELAXED, |until| until.min(RELAXED)))
        } else {
            self.arm()?;
            until_due
        };
        let wakes_at = sleep.map_or(u64::MAX, |sleep| {
            now.plus_ns(u64::try_from(sleep.as_nanos()).unwrap_or(u64::MAX)).as_ns()
        });
        self.wakes_at.store(wakes_at, Ordering::Relaxed);
        Ok(sleep)
    }
}

/// Starts the engine. It ends when the device is closed.
pub(super) fn start(shared: &Arc<Shared>) -> io::Result<std::thread::JoinHandle<()>> {
    let weak = Arc::downgrade(shared);
    std::thread::Builder::new().name("softrnic-engine".into()).spawn(move || run(&weak))
}

fn run(shared: &Weak<Shared>) {
    let mut events = Events::new();
    while let Some(shared) = shared.upgrade() {
        if shared.closing.load(Ordering::Acquire) {
            return;
        }
        let slept = shared.look().and_then(|sleep| {
            events.clear();
            // The timer of the poller counts in milliseconds on some systems; round up there, a
            // deadline may be late but not missed.
            shared.poller.wait(&mut events, sleep)
        });
        if let Err(error) = slept
            && error.kind() != io::ErrorKind::Interrupted
        {
            let mut core = shared.lock();
            core.asynchronous.push(softrnic_model::verbs::AsyncEvent::DeviceFatal);
            core.failure = Some(error);
            return;
        }
    }
}
