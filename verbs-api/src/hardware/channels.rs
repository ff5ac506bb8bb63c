//! Completion channels.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use softrnic_model::verbs::{CqId, VerbError};

use super::errno::{last_errno, refusal};
use super::life::cq_number;
use super::open::{Channel, HardwareContext};
use crate::provider::{ChannelId, Timeout, Verb};

/// An error of the system as one of a verb.
fn failed(error: impl Into<io::Error>) -> VerbError {
    let errno = error.into().raw_os_error().unwrap_or(5);
    refusal(errno, "the channel cannot be waited for")
}

/// What interrupts a wait.
enum Interrupted {
    /// The time is over.
    Time,
    /// A signal.
    Signal,
}

impl HardwareContext {
    pub(super) fn create_channel(&self) -> Verb<ChannelId> {
        // SAFETY: the context is open.
        let made = unsafe { (self.library.ibv_create_comp_channel)(self.context()) };
        let handle = self.life().made(made, "no more completion channels")?;
        match self.waitable(handle) {
            Ok(wait) => Ok(ChannelId(self.channels.add(Channel { handle, wait: Arc::new(wait) }))),
            Err(error) => {
                // SAFETY: it was made a moment ago.
                unsafe { (self.library.ibv_destroy_comp_channel)(handle.ptr()) };
                Err(failed(error))
            }
        }
    }

    /// A descriptor for the events of a channel and for the end of the device. Reading events never
    /// blocks: whoever waits, waits for this one, and its flags are the program's.
    fn waitable(
        &self,
        channel: super::table::Handle<super::layout::ibv_comp_channel>,
    ) -> io::Result<OwnedFd> {
        // SAFETY: the channel is there, and so is its descriptor.
        let events = unsafe { BorrowedFd::borrow_raw((*channel.as_ptr()).fd) };
        fcntl_setfl(events, fcntl_getfl(events)? | OFlags::NONBLOCK)?;
        let both = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let readable = epoll::EventFlags::IN;
        epoll::add(&both, events, epoll::EventData::new_u64(0), readable)?;
        epoll::add(&both, self.life().alarm(), epoll::EventData::new_u64(1), readable)?;
        Ok(both)
    }

    pub(super) fn destroy_channel(&self, channel: ChannelId) -> Verb<()> {
        self.channels.destroy(channel.0, |channel| {
            // SAFETY: it is there, and nobody else looks at it.
            let done = unsafe { (self.library.ibv_destroy_comp_channel)(channel.handle.ptr()) };
            self.done(done, "a completion queue reports to the channel")
        })
    }

    /// The oldest event, if there is one. It is acknowledged at once.
    fn take_event(&self, channel: &Channel) -> Verb<Option<CqId>> {
        let (mut cq, mut context) = (core::ptr::null_mut(), core::ptr::null_mut());
        // SAFETY: the channel is there, and the places are ours.
        let taken = unsafe {
            (self.library.ibv_get_cq_event)(channel.handle.ptr(), &raw mut cq, &raw mut context)
        };
        if taken == 0 {
            // SAFETY: the queue stays until its events have been acknowledged.
            unsafe { (self.library.ibv_ack_cq_events)(cq, 1) };
            return Ok(Some(cq_number(context)));
        }
        match last_errno() {
            errno if errno == rustix::io::Errno::AGAIN.raw_os_error() => {
                self.life().judge()?;
                Ok(None)
            }
            errno => Err(self.life().refused(errno, "the channel has no events")),
        }
    }

    /// Waits until a channel may have an event.
    fn wait(wait: &OwnedFd, deadline: Option<Instant>) -> Verb<Result<(), Interrupted>> {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let left = left.map(|left| {
            Timespec::try_from(left).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 })
        });
        match poll(&mut [PollFd::new(wait, PollFlags::IN)], left.as_ref()) {
            Ok(0) => Ok(Err(Interrupted::Time)),
            Ok(_) => Ok(Ok(())),
            Err(rustix::io::Errno::INTR) => Ok(Err(Interrupted::Signal)),
            Err(error) => Err(failed(error)),
        }
    }

    fn waitable_of(&self, channel: ChannelId) -> Verb<Arc<OwnedFd>> {
        self.channels.with(channel.0, |channel| Ok(Arc::clone(&channel.wait)))
    }

    pub(super) fn next_event(&self, channel: ChannelId, timeout: Timeout) -> Verb<Option<CqId>> {
        // An end of time that the clock cannot tell never comes.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut wait = None;
        loop {
            let taken = self.channels.with(channel.0, |channel| self.take_event(channel))?;
            if taken.is_some() || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(taken);
            }
            let wait = match &wait {
                Some(wait) => wait,
                None => wait.insert(self.waitable_of(channel)?),
            };
            _ = Self::wait(wait, deadline)?;
        }
    }

    pub(super) fn read_event(&self, channel: ChannelId) -> io::Result<CqId> {
        let of = |error: VerbError| io::Error::from_raw_os_error(error.errno());
        let wait = self.waitable_of(channel).map_err(of)?;
        loop {
            let taken = self.channels.with(channel.0, |channel| self.take_event(channel));
            if let Some(cq) = taken.map_err(of)? {
                return Ok(cq);
            }
            if fcntl_getfl(wait.as_fd())?.contains(OFlags::NONBLOCK) {
                return Err(rustix::io::Errno::AGAIN.into());
            }
            if let Err(Interrupted::Signal) = Self::wait(&wait, None).map_err(of)? {
                return Err(rustix::io::Errno::INTR.into());
            }
        }
    }

    pub(super) fn channel_descriptor(&self, channel: ChannelId) -> Verb<OwnedFd> {
        self.waitable_of(channel)?.try_clone().map_err(failed)
    }
}
