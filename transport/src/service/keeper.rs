//! The keeper: a process that holds a copy of everything that a service owns, and starts the
//! service anew when it dies.
//!
//! It reads from no socket but the one to its service, so that nothing that others send can do
//! anything to it. Each of the two starts the other one again: only when both end at one time are
//! the slots of live connections lost.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::setsid;

use super::estate::{Key, Record, Word, hear, say};
use super::{channel, launch, sys};

/// How long one waits for the other to read.
const PATIENCE: Duration = Duration::from_secs(2);
/// A service that dies sooner than this is started again after a pause.
const SHORT_LIFE: Duration = Duration::from_secs(1);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// The argument by which the executable becomes a keeper.
const KEEP: &str = "--keep";
/// The argument by which it becomes a service that goes on where another one has stopped.
const RESUME: &str = "--resume";

/// The keeper as its service sees it.
#[derive(Debug)]
pub(super) struct Keeper {
    channel: OwnedFd,
    /// Unless the service is the keeper's child.
    child: Option<Child>,
}

impl Keeper {
    /// Starts a keeper, which holds nothing yet.
    pub(super) fn start() -> io::Result<Self> {
        let (channel, other) = channel::pair(PATIENCE)?;
        let child = start_as(KEEP, other)?;
        Ok(Self { channel, child: Some(child) })
    }

    /// The keeper at the other end of a channel.
    pub(super) const fn at(channel: OwnedFd) -> Self {
        Self { channel, child: None }
    }

    /// Has it hold something.
    pub(super) fn keep(
        &self,
        key: Key,
        record: Record,
        descriptor: BorrowedFd<'_>,
    ) -> io::Result<()> {
        say(&self.channel, &Word::Keep(key, record), Some(descriptor))
    }

    /// Has it hold something no more.
    pub(super) fn forget(&self, key: Key) {
        // If it is gone it holds nothing, and the service will notice.
        let _ = say(&self.channel, &Word::Forget(key), None);
    }

    /// Its process.
    pub(super) fn process(&self) -> u32 {
        match &self.child {
            Some(child) => child.id(),
            None => std::os::unix::process::parent_id(),
        }
    }

    /// Readable when it is gone.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }

    /// Takes what it says.
    pub(super) fn hear(&self) -> io::Result<Option<(Word, Option<OwnedFd>)>> {
        hear(&self.channel)
    }

    /// Ends it and waits until it has let go of everything.
    pub(super) fn farewell(mut self) {
        if say(&self.channel, &Word::Farewell, None).is_ok() {
            let _ = channel::wait(&[self.channel.as_fd()], Some(PATIENCE));
        }
        self.reap();
    }

    /// It has died: nothing shall be left of it.
    pub(super) fn reap(&mut self) {
        if let Some(child) = &mut self.child {
            // It closes its descriptors as it ends, so this does not take long.
            let _ = child.wait();
        }
    }
}

/// The keeper's own life, its channel being the standard input: until its service takes leave.
///
/// # Errors
/// No service can be started, or the channel is none.
pub fn keep() -> io::Result<()> {
    sys::unblock_signals()?;
    // What the terminal of a service in the foreground says is for the service. It fails where
    // this process leads a session already, and that is as good.
    let _ = setsid();
    let mut held: BTreeMap<Key, (Record, OwnedFd)> = BTreeMap::new();
    let mut channel = io::stdin().as_fd().try_clone_to_owned()?;
    let mut service: Option<(Child, Instant)> = None;
    let mut pause = Duration::ZERO;
    loop {
        match hear(&channel)? {
            Some((Word::Keep(key, record), Some(descriptor))) => {
                held.insert(key, (record, descriptor));
            }
            Some((Word::Forget(key), _)) => drop(held.remove(&key)),
            Some((Word::Farewell, _)) => return Ok(()),
            Some((Word::Keep(..) | Word::Complete, _)) => {}
            None => {
                if let Some((mut child, started)) = service.take() {
                    child.wait()?;
                    let short = started.elapsed() < SHORT_LIFE;
                    pause = if short { (pause * 2).max(SHORT_LIFE / 20) } else { Duration::ZERO };
                    std::thread::sleep(pause.min(PAUSE_MAX));
                }
                let (ours, theirs) = channel::pair(PATIENCE)?;
                service = Some((start_as(RESUME, theirs)?, Instant::now()));
                // It may die while it is told; then the next round finds out.
                let _ = tell_all(&ours, &held);
                channel = ours;
            }
        }
    }
}

fn tell_all(channel: &OwnedFd, held: &BTreeMap<Key, (Record, OwnedFd)>) -> io::Result<()> {
    for (key, (record, descriptor)) in held {
        say(channel, &Word::Keep(*key, record.clone()), Some(descriptor.as_fd()))?;
    }
    say(channel, &Word::Complete, None)
}

/// Starts this executable in one of its two roles.
fn start_as(role: &str, channel: OwnedFd) -> io::Result<Child> {
    Command::new(launch::own_executable()?)
        .args(["service", role])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(channel))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}
