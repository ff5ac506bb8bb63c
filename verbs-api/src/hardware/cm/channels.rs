//! Event channels, and waiting at them.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::super::errno::last_errno;
use super::super::layout::{Ptr, rdma_event_channel};
use super::super::table::Handle;
use super::{HardwareManager, State, system};
use crate::cm::{Cm, CmError, CmEvent, EventChannelId};
use crate::provider::Timeout;

/// A channel.
pub(super) struct Channel {
    pub(super) handle: Handle<rdma_event_channel>,
    /// What layers above have put there.
    posted: VecDeque<CmEvent>,
    wait: Arc<Wait>,
    /// Identifiers that report to it.
    pub(super) users: u32,
}

/// What is waited for. It stays as long as somebody waits.
struct Wait {
    /// Readable while there is an event of either kind, and for good once the channel is gone. The flags
    /// that say whether reading waits are the program's.
    both: OwnedFd,
    /// Raised while there are posted events, and for good once the channel is gone.
    raised: OwnedFd,
}

impl Wait {
    fn new(events: BorrowedFd<'_>) -> io::Result<Self> {
        fcntl_setfl(events, fcntl_getfl(events)? | OFlags::NONBLOCK)?;
        let raised = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let both = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let readable = epoll::EventFlags::IN;
        epoll::add(&both, events, epoll::EventData::new_u64(0), readable)?;
        epoll::add(&both, &raised, epoll::EventData::new_u64(1), readable)?;
        Ok(Self { both, raised })
    }

    fn raise(&self) {
        // It can only fail at 2^64 events.
        _ = rustix::io::write(&self.raised, &1_u64.to_ne_bytes());
    }

    fn lower(&self) {
        _ = rustix::io::read(&self.raised, &mut [0; 8]);
    }

    /// Waits until there may be an event, or the time is over.
    fn until(&self, deadline: Option<Instant>) -> rustix::io::Result<()> {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let left = left.map(|left| {
            Timespec::try_from(left).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 })
        });
        poll(&mut [PollFd::new(&self.both, PollFlags::IN)], left.as_ref()).map(drop)
    }
}

impl Channel {
    pub(super) fn post(&mut self, event: CmEvent) {
        self.posted.push_back(event);
        self.wait.raise();
    }

    /// The oldest event that was posted.
    pub(super) fn posted(&mut self) -> Option<CmEvent> {
        let event = self.posted.pop_front();
        if self.posted.is_empty() {
            self.wait.lower();
        }
        event
    }

    /// Takes out those that were posted and satisfy `wanted`.
    pub(super) fn extract(&mut self, wanted: impl Fn(&CmEvent) -> bool) -> Vec<CmEvent> {
        let (taken, kept): (Vec<_>, _) = self.posted.drain(..).partition(wanted);
        self.posted = kept.into();
        if self.posted.is_empty() {
            self.wait.lower();
        }
        taken
    }
}

/// Why there is no channel: it is the first thing that the kernel is asked for.
fn no_channel(errno: i32) -> CmError {
    /// `EPERM`, `EACCES`
    const REFUSED: [i32; 2] = [1, 13];
    /// `ENOENT`, `ENXIO`, `ENODEV`, `ENOSYS`
    const ABSENT: [i32; 4] = [2, 6, 19, 38];
    const NODE: &str = "/dev/infiniband/rdma_cm";
    let text = if REFUSED.contains(&errno) {
        format!(
            "no permission on {NODE}: be root, or of the group that the file belongs to (ls -l {NODE}); \
             a container must be given the device (docker run --device={NODE})"
        )
    } else if ABSENT.contains(&errno) {
        format!(
            "there is no connection manager in the kernel, or no {NODE}: load the module rdma_ucm \
             (modprobe rdma_ucm); a container must be given the device (docker run --device={NODE})"
        )
    } else {
        format!("rdma_create_event_channel: {}", io::Error::from_raw_os_error(errno))
    };
    CmError::with_errno(errno, text)
}

impl HardwareManager {
    pub(super) fn make_channel(&self) -> Cm<EventChannelId> {
        let mut state = self.lock();
        // SAFETY: it takes nothing.
        let made = unsafe { (self.library.rdma_create_event_channel)() };
        let handle = made.ok_or_else(|| no_channel(last_errno()))?;
        // SAFETY: the channel is there, and its descriptor with it.
        let events = unsafe { BorrowedFd::borrow_raw((*handle.as_ptr()).fd) };
        let wait = match Wait::new(events) {
            Ok(wait) => Arc::new(wait),
            Err(error) => {
                // SAFETY: it was made a moment ago.
                unsafe { (self.library.rdma_destroy_event_channel)(handle) };
                return Err(CmError::full(format!("event descriptor: {error}")));
            }
        };
        let number = EventChannelId(state.next_channel);
        state.next_channel += 1;
        let handle = Handle::new(handle);
        let channel = Channel { handle, posted: VecDeque::new(), wait, users: 0 };
        state.channels.insert(number, channel);
        Ok(number)
    }

    pub(super) fn end_channel(&self, channel: EventChannelId) -> Cm<()> {
        let mut state = self.lock();
        if state.channel(channel)?.users != 0 {
            return Err(CmError::busy("identifiers report to the event channel"));
        }
        if let Some(channel) = state.channels.remove(&channel) {
            channel.wait.raise();
            // SAFETY: nobody reports to it, and nobody else has it.
            unsafe { (self.library.rdma_destroy_event_channel)(channel.handle.ptr()) };
        }
        Ok(())
    }

    fn wait_of(&self, channel: EventChannelId) -> Cm<Arc<Wait>> {
        Ok(Arc::clone(&self.lock().channel(channel)?.wait))
    }

    pub(super) fn channel_descriptor(&self, channel: EventChannelId) -> Cm<OwnedFd> {
        let wait = self.wait_of(channel)?;
        wait.both.try_clone().map_err(|error| CmError::full(format!("descriptor: {error}")))
    }

    pub(super) fn next(&self, channel: EventChannelId, timeout: Timeout) -> Cm<Option<CmEvent>> {
        // An end of time that the clock cannot tell never comes.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let wait = self.wait_of(channel)?;
        loop {
            let taken = self.take(channel)?;
            if taken.is_some() || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(taken);
            }
            match wait.until(deadline) {
                Ok(()) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(system(error.into(), "poll")),
            }
        }
    }

    pub(super) fn read(&self, channel: EventChannelId) -> io::Result<CmEvent> {
        let of = |error: CmError| io::Error::from_raw_os_error(error.errno());
        let wait = self.wait_of(channel).map_err(of)?;
        loop {
            if let Some(event) = self.take(channel).map_err(of)? {
                return Ok(event);
            }
            if fcntl_getfl(wait.both.as_fd())?.contains(OFlags::NONBLOCK) {
                return Err(rustix::io::Errno::AGAIN.into());
            }
            wait.until(None)?;
        }
    }
}

impl State {
    pub(super) fn channel(&self, channel: EventChannelId) -> Cm<&Channel> {
        self.channels.get(&channel).ok_or_else(no_such_channel)
    }

    pub(super) fn channel_mut(&mut self, channel: EventChannelId) -> Cm<&mut Channel> {
        self.channels.get_mut(&channel).ok_or_else(no_such_channel)
    }

    pub(super) fn channel_handle(&self, channel: EventChannelId) -> Cm<Ptr<rdma_event_channel>> {
        Ok(self.channel(channel)?.handle.ptr())
    }
}

fn no_such_channel() -> CmError {
    CmError::invalid("no such event channel")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_connections_says_what_to_do() {
        assert!(no_channel(13).text().contains("no permission on /dev/infiniband/rdma_cm"));
        assert!(no_channel(2).text().contains("modprobe rdma_ucm"));
        assert_eq!(no_channel(24).errno(), 24);
    }
}
