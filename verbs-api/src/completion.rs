//! Completion queues and their channels.

use std::fmt;
#[cfg(unix)]
use std::os::fd::OwnedFd;
use std::sync::Arc;

use softrnic_model::verbs::{CqId, CqModeration, Wc, WcStatus};

use crate::device::Context;
use crate::error::{Error, Result};
use crate::owned::Owned;
use crate::provider::{ChannelId, CqInit, Timeout};

#[cfg(all(unix, feature = "tokio"))]
mod channel_tokio;
#[cfg(all(unix, feature = "tokio"))]
pub use channel_tokio::AsyncChannel;

/// Where completions wait. A clone is the same queue.
#[derive(Clone, Debug)]
pub struct Cq(Arc<CqInner>);

#[derive(Debug)]
struct CqInner {
    object: Owned<CqId>,
    entries: u32,
    channel: Option<CompletionChannel>,
}

impl Cq {
    pub(crate) fn new(
        context: &Context,
        entries: u32,
        channel: Option<&CompletionChannel>,
    ) -> Result<Self> {
        let channel_id = channel.map(CompletionChannel::id);
        let made = context.verbs().create_cq(entries, channel_id);
        Ok(Self::of(context, made.map_err(Error::of("create_cq"))?, channel))
    }

    pub(crate) fn with_timestamps(
        context: &Context,
        entries: u32,
        channel: Option<&CompletionChannel>,
    ) -> Result<Self> {
        let channel_id = channel.map(CompletionChannel::id);
        let init = CqInit { entries, channel: channel_id, timestamps: true };
        let made = context.verbs().create_cq_ex(&init);
        Ok(Self::of(context, made.map_err(Error::of("create_cq_ex"))?, channel))
    }

    fn of(
        context: &Context,
        (id, entries): (CqId, u32),
        channel: Option<&CompletionChannel>,
    ) -> Self {
        let object = Owned::new(context.verbs(), id, |verbs, id| verbs.destroy_cq(id));
        Self(Arc::new(CqInner { object, entries, channel: channel.cloned() }))
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> CqId {
        self.0.object.id()
    }

    /// How many completions fit, as granted when it was made.
    #[must_use]
    pub fn entries(&self) -> u32 {
        self.0.entries
    }

    /// Changes how many events it raises.
    ///
    /// # Errors
    /// As [`crate::provider::Context::moderate_cq`].
    pub fn moderate(&self, moderation: CqModeration) -> Result<()> {
        let done = self.0.object.verbs().moderate_cq(self.id(), moderation);
        done.map_err(Error::of("modify_cq"))
    }

    /// The channel that its events go to.
    #[must_use]
    pub fn channel(&self) -> Option<&CompletionChannel> {
        self.0.channel.as_ref()
    }

    /// Takes completions, oldest first, and returns how many.
    ///
    /// # Errors
    /// As [`crate::provider::Context::poll_cq`].
    pub fn poll(&self, into: &mut [Wc]) -> Result<usize> {
        self.0.object.verbs().poll_cq(self.id(), into).map_err(Error::of("poll_cq"))
    }

    /// Takes the oldest completion, if there is one.
    ///
    /// # Errors
    /// As [`Cq::poll`].
    pub fn poll_one(&self) -> Result<Option<Wc>> {
        let mut place = [Wc::default()];
        Ok(if self.poll(&mut place)? == 1 { Some(place[0]) } else { None })
    }

    /// Polls until there is a completion, or the time is over (`None`). To sleep rather than poll,
    /// use a [`CompletionChannel`].
    ///
    /// # Errors
    /// As [`Cq::poll`].
    pub fn wait_one(&self, timeout: Timeout) -> Result<Option<Wc>> {
        let mut place = [Wc::default()];
        let taken = self.0.object.verbs().wait_cq(self.id(), &mut place, timeout);
        Ok(if taken.map_err(Error::of("poll_cq"))? == 1 { Some(place[0]) } else { None })
    }

    /// The next completion, which must be a success: see [`Cq::wait_one`].
    ///
    /// # Errors
    /// [`CompletionError`].
    pub fn wait_success(&self, timeout: Timeout) -> core::result::Result<Wc, CompletionError> {
        let completion = self.wait_one(timeout).map_err(CompletionError::Refused)?;
        successful(completion.ok_or(CompletionError::TimedOut)?)
    }

    /// Arms the queue: its next completion, or the next that is solicited or failed, sends one event
    /// to the channel. Poll again after this, for what is already there sends none.
    ///
    /// # Errors
    /// As [`crate::provider::Context::req_notify_cq`].
    pub fn arm(&self, solicited_only: bool) -> Result<()> {
        let armed = self.0.object.verbs().req_notify_cq(self.id(), solicited_only);
        armed.map_err(Error::of("req_notify_cq"))
    }

    pub(crate) fn object(&self) -> &Owned<CqId> {
        &self.0.object
    }
}

/// A completion, if it is a success.
///
/// # Errors
/// [`CompletionError::Failed`].
pub fn successful(completion: Wc) -> core::result::Result<Wc, CompletionError> {
    if completion.status == WcStatus::Success {
        Ok(completion)
    } else {
        Err(CompletionError::Failed(completion))
    }
}

/// Why there is no successful completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionError {
    /// A work request failed.
    Failed(Wc),
    /// The time was over.
    TimedOut,
    /// The queue could not be polled.
    Refused(Error),
}

impl fmt::Display for CompletionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(Wc { wr_id, status, qp_num, .. }) => {
                write!(f, "work request {wr_id} of queue pair {:#08x} failed", qp_num.get())?;
                write!(f, "\n  {status:?} (completion status {})", *status as u8)
            }
            Self::TimedOut => f.write_str("no completion came in time"),
            Self::Refused(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for CompletionError {}

/// Where completion queues report that they have something. A clone is the same channel.
#[derive(Clone, Debug)]
pub struct CompletionChannel(Arc<ChannelInner>);

#[derive(Debug)]
struct ChannelInner {
    object: Owned<ChannelId>,
    context: Context,
}

impl CompletionChannel {
    pub(crate) fn new(context: &Context) -> Result<Self> {
        let id = context.verbs().create_comp_channel().map_err(Error::of("create_comp_channel"))?;
        let object = Owned::new(context.verbs(), id, |verbs, id| verbs.destroy_comp_channel(id));
        Ok(Self(Arc::new(ChannelInner { object, context: context.clone() })))
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> ChannelId {
        self.0.object.id()
    }

    /// Makes a completion queue that reports here once it is armed.
    ///
    /// # Errors
    /// As [`crate::provider::Context::create_cq`].
    pub fn create_cq(&self, entries: u32) -> Result<Cq> {
        Cq::new(&self.0.context, entries, Some(self))
    }

    /// Waits for an event and tells which queue ([`Cq::id`]) sent it; `None` when the time is over.
    ///
    /// # Errors
    /// As [`crate::provider::Context::get_cq_event`].
    pub fn wait(&self, timeout: Timeout) -> Result<Option<CqId>> {
        let event = self.0.object.verbs().get_cq_event(self.id(), timeout);
        event.map_err(Error::of("get_cq_event"))
    }

    /// A descriptor that polls as readable while an event waits.
    ///
    /// # Errors
    /// As [`crate::provider::Context::comp_channel_fd`].
    #[cfg(unix)]
    pub fn descriptor(&self) -> Result<OwnedFd> {
        self.0.object.verbs().comp_channel_fd(self.id()).map_err(Error::of("comp_channel_fd"))
    }
}
