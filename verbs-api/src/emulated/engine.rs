//! The engine thread: makes progress for a program that does not.
//!
//! It has two moods. *Armed*: it sleeps until a socket is readable or something is due. *Relaxed*:
//! while the program polls, it makes progress itself, and being woken for every packet would only
//! take the processor away from it; so the engine leaves the sockets alone and looks again after a
//! moment, and then after longer ones, whether the program still does. A completion queue that is armed says that somebody
//! sleeps, whoever else polls: then the engine does not relax.
//!
//! No wake-up is missed: under the lock the engine writes down when it will wake, so whoever makes
//! something due earlier knows; arming a socket reports what came before; and a ring before the
//! sleep ends the sleep.

use std::io;
use std::net::UdpSocket;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use polling::{Event, Events, PollMode, Poller};
use softrnic_model::Instant;

use super::membership::Membership;
use super::notices::Notices;
use super::surroundings::Surroundings;
use super::threads;
use crate::machine::core::{Core, OWED_NS};

/// How long a program may stop polling before the engine takes over. A program that polls for its
/// own completions and then waits for its memory to change is found out after the shorter time; one
/// that goes on polling is asked ever less often.
const RELAXED_NS: core::ops::RangeInclusive<u64> = 16_000..=OWED_NS;
/// Who has polled this recently polls.
const POLLS_NS: u64 = 20_000;
/// How long the engine looks for more after the last packet before it sleeps. Traffic comes in
/// bursts, and to sleep and be woken between two of them costs more than they do.
const LINGER_NS: u64 = 40_000;
/// How long the engine looks for packets before it asks whether the port service or the system has
/// something to say.
const TURN_NS: u64 = 2_000_000;
/// How often the engine yields to a program thread that wants the device.
const YIELDS_MAX: u32 = 64;
/// What the poller says when a socket is readable, and when interfaces have changed.
const PACKETS: usize = 0;
const NOTICE: usize = 1;
/// What it says when the port service has something to say.
const SERVICE: usize = 2;

/// What the engine and the verbs share.
pub(super) struct Shared {
    core: Mutex<Core>,
    origin: std::time::Instant,
    /// Before the sockets that it knows, for it has to go before them.
    poller: Poller,
    sockets: Mutex<Watched>,
    notices: Option<Notices>,
    membership: Mutex<Membership>,
    /// Program threads that wait for the lock.
    waiting: AtomicU32,
    closing: AtomicBool,
    /// The port service is gone, and this device has not come back to the next one yet.
    #[cfg(target_os = "linux")]
    lost: AtomicBool,
}

/// The sockets that the engine waits for. The poller knows them only while the engine sleeps: a socket
/// that somebody may wait for costs whoever sends to it a look at who waits.
#[derive(Default)]
struct Watched {
    sockets: Vec<UdpSocket>,
    armed: bool,
}

impl Watched {
    fn arm(&mut self, poller: &Poller) -> io::Result<()> {
        if std::mem::replace(&mut self.armed, true) {
            return Ok(());
        }
        for socket in &self.sockets {
            #[expect(unsafe_code, reason = "the poller wants to be told before a socket goes")]
            // SAFETY: the socket stays in `self.sockets` until `disarm` has deleted it from the
            // poller, or the poller has ended, which comes first (order of the fields of `Shared`).
            unsafe {
                poller.add_with_mode(socket, Event::readable(PACKETS), PollMode::Oneshot)?;
            }
        }
        Ok(())
    }

    fn disarm(&mut self, poller: &Poller) {
        if std::mem::take(&mut self.armed) {
            for socket in &self.sockets {
                // It can only fail because the poller does not know it, and that is what is wanted.
                let _ = poller.delete(socket);
            }
        }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn new(
        core: Core,
        notices: Option<Notices>,
        membership: Membership,
    ) -> io::Result<Self> {
        let shared = Self {
            core: Mutex::new(core),
            origin: std::time::Instant::now(),
            poller: Poller::new()?,
            sockets: Mutex::default(),
            notices,
            membership: Mutex::new(membership),
            waiting: AtomicU32::new(0),
            closing: AtomicBool::new(false),
            #[cfg(target_os = "linux")]
            lost: AtomicBool::new(false),
        };
        if let Some(notices) = &shared.notices {
            notices.watch(&shared.poller, NOTICE)?;
        }
        shared.membership().watch(&shared.poller, SERVICE)?;
        shared.watch_sockets()?;
        Ok(shared)
    }

    /// How the device has its addresses. Only the engine has something to do there, so nobody
    /// waits for this lock.
    pub(super) fn membership(&self) -> MutexGuard<'_, Membership> {
        self.membership.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what the port service has said.
    #[cfg(target_os = "linux")]
    pub(super) fn serve(&self) {
        let status = || {
            let core = self.lock();
            (core.status(), core.conversations())
        };
        let mut membership = self.membership();
        let packets = membership.serve(&self.poller, status);
        let lost = membership.is_lost();
        drop(membership);
        if lost && !self.lost.swap(true, Ordering::AcqRel) {
            self.ring();
        }
        if !packets.is_empty() {
            let mut core = self.lock();
            let now = self.now();
            core.take_forwarded(now, packets);
            self.done(core);
        }
    }

    /// Whether the port service is gone.
    #[cfg(target_os = "linux")]
    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// It is there again: from now on it is listened to.
    ///
    /// # Errors
    /// The poller does not take it.
    #[cfg(target_os = "linux")]
    pub(super) fn is_back(&self) -> io::Result<()> {
        self.lost.store(false, Ordering::Release);
        self.membership().watch(&self.poller, SERVICE)
    }

    /// Real time enters here.
    pub(super) fn now(&self) -> Instant {
        let ns = std::time::Instant::now().duration_since(self.origin).as_nanos();
        Instant::from_ns(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// The device. A thread that panicked while it had it has left nobody knows what: the device
    /// fails, and what can be flushed is. Memory is safe all the same, for protection is judged at
    /// every access.
    pub(super) fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(|poisoned| {
            self.core.clear_poison();
            let mut core = poisoned.into_inner();
            // If failing panics as well, the second time leaves the device as it is.
            if core.failure().is_none() {
                core.fail(io::Error::other("a thread panicked while it had the device"));
            }
            core
        })
    }

    /// The same for a verb: the engine lets it go first.
    #[inline]
    pub(super) fn lock_for_program(&self) -> MutexGuard<'_, Core> {
        match self.core.try_lock() {
            Ok(core) => core,
            Err(TryLockError::Poisoned(_)) => self.lock(),
            Err(TryLockError::WouldBlock) => {
                self.waiting.fetch_add(1, Ordering::Relaxed);
                let core = self.lock();
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                core
            }
        }
    }

    /// Lets program threads that wait for the device have it.
    fn give_way(&self) {
        for _ in 0..YIELDS_MAX {
            if self.waiting.load(Ordering::Relaxed) == 0 {
                break;
            }
            std::thread::yield_now();
        }
    }

    /// A verb gives the lock back: wakes the engine if something is due before it would wake.
    #[inline]
    pub(super) fn done(&self, mut core: MutexGuard<'_, Core>) {
        let wake = core.must_wake_engine();
        drop(core);
        if wake {
            self.ring();
        }
    }

    /// Wakes the engine.
    pub(super) fn ring(&self) {
        // Failing to wake it delays work until its next look; there is nothing better to do.
        let _ = self.poller.notify();
    }

    /// Looks for the link's sockets anew; they change as groups are joined and addresses come.
    pub(super) fn watch_sockets(&self) -> io::Result<()> {
        // This lock first, so that of two threads the one that comes second sees all sockets.
        let mut watched = self.watched();
        let mut fresh = Vec::new();
        self.lock().link.sockets(&mut |socket| fresh.push(socket.try_clone()));
        let fresh = fresh.into_iter().collect::<io::Result<Vec<_>>>()?;
        watched.disarm(&self.poller);
        watched.sockets = fresh;
        let armed = watched.arm(&self.poller);
        drop(watched);
        self.ring();
        armed
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the engine to end.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.ring();
    }

    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// One look at the device.
    fn look(&self) -> Next {
        self.watched().disarm(&self.poller);
        let mut core = self.lock();
        let mut now = self.now();
        let mut relaxed = core.duty.relaxes(now);
        if !relaxed {
            let (began, mut last) = (now, now);
            while !self.is_closing() {
                if core.progress(now) != 0 {
                    last = now;
                    core.duty.waited();
                } else if now.ns_since(last) >= LINGER_NS {
                    break;
                }
                if now.ns_since(began) >= TURN_NS {
                    // Awake already, as far as others are concerned.
                    core.duty.wakes_at = now;
                    return Next::Sleep(Some(Duration::ZERO));
                }
                drop(core);
                self.give_way();
                std::thread::yield_now();
                core = self.lock();
                now = self.now();
                if core.duty.relaxes(now) {
                    // The program goes on by itself. Should it stop, what its last poll has left
                    // owed is found after a moment.
                    relaxed = true;
                    break;
                }
            }
        } else if core.device.has_work() || core.next_deadline().is_some_and(|due| due <= now) {
            core.progress(now);
        }
        if core.failure().is_some() {
            return Next::End;
        }
        // From now on the device knows of no earlier time than that of this sleep.
        core.device.set_now(now);
        let until_due = core.next_deadline().map(|due| Duration::from_nanos(due.ns_since(now)));
        let patience = core.duty.turns(relaxed);
        let sleep = patience.into_iter().chain(until_due).min();
        core.duty.wakes_at = sleep.map_or(Instant::from_ns(u64::MAX), |sleep| {
            now.plus_ns(u64::try_from(sleep.as_nanos()).unwrap_or(u64::MAX))
        });
        drop(core);
        let armed = relaxed || self.watched().arm(&self.poller).is_ok();
        // Where the poller takes no more sockets it looks again after a moment.
        let again = (!armed).then_some(Duration::from_nanos(OWED_NS));
        Next::Sleep(again.into_iter().chain(sleep).min())
    }

    /// Looks and sleeps, until the device is closed or fails.
    fn run(&self, surroundings: &mut Surroundings) -> io::Result<()> {
        let mut events = Events::new();
        while !self.is_closing() {
            let Next::Sleep(sleep) = self.look() else { break };
            let look = surroundings.until_look(self.now());
            let sleep = sleep.into_iter().chain(look).min();
            events.clear();
            // The timer of the poller counts in milliseconds on some systems; it rounds up there,
            // a deadline may be late but not missed.
            match self.poller.wait(&mut events, sleep) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                Ok(_) | Err(_) => {}
            }
            if let Some(notices) = &self.notices
                && events.iter().any(|event| event.key == NOTICE)
            {
                notices.take();
                surroundings.noticed(self.now());
            }
            #[cfg(target_os = "linux")]
            if events.iter().any(|event| event.key == SERVICE) {
                self.serve();
            }
            surroundings.look_if_due(self)?;
        }
        Ok(())
    }
}

/// What the engine does after a look.
enum Next {
    /// Sleep for this long, or until something comes.
    Sleep(Option<Duration>),
    /// Nothing will come any more.
    End,
}

impl crate::machine::core::Duty {
    /// Whether the engine may leave the sockets alone: the program polls.
    fn relaxes(&self, now: Instant) -> bool {
        let polls = self.polled_at != Instant::ZERO && now.ns_since(self.polled_at) <= POLLS_NS;
        polls && self.armed == 0
    }

    /// Packets were there when the engine looked. If it had left them alone, the program has stopped
    /// polling: it is trusted less from now on.
    fn waited(&mut self) {
        if std::mem::take(&mut self.relaxed) {
            self.patience_ns = 0;
        }
    }

    /// The engine is about to sleep, in this mood; returns for how long at most.
    fn turns(&mut self, relaxed: bool) -> Option<Duration> {
        let (least, most) = (*RELAXED_NS.start(), *RELAXED_NS.end());
        if relaxed {
            self.patience_ns = self.patience_ns.saturating_mul(2).clamp(least, most);
        }
        self.relaxed = relaxed;
        relaxed.then_some(Duration::from_nanos(self.patience_ns))
    }
}

/// Starts the engine. It ends when the device is closed.
pub(super) fn start(
    shared: &Arc<Shared>,
    mut surroundings: Surroundings,
) -> io::Result<std::thread::JoinHandle<()>> {
    let shared = Arc::clone(shared);
    let run = move || {
        threads::be_prompt();
        let ended = std::panic::catch_unwind(AssertUnwindSafe(|| shared.run(&mut surroundings)));
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(error)) => shared.lock().fail(error),
            Err(_) => shared.lock().fail(io::Error::other("the engine panicked")),
        }
    };
    threads::spawn("softrnic-engine", run)
}
