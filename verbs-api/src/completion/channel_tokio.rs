//! Completion channels under tokio.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use softrnic_model::verbs::{CqId, Wc};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::{CompletionChannel, Cq};
use crate::error::Result;

/// A completion channel whose events a task awaits.
///
/// ```no_run
/// # async fn example(context: softrnic_verbs::Context) -> Result<(), Box<dyn std::error::Error>> {
/// use softrnic_verbs::AsyncChannel;
///
/// let channel = context.create_comp_channel()?;
/// let cq = channel.create_cq(64)?;
/// let channel = AsyncChannel::new(channel)?;
/// let completion = channel.completion(&cq).await?;
/// println!("{:?}", completion.status);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AsyncChannel {
    channel: CompletionChannel,
    descriptor: AsyncFd<OwnedFd>,
}

const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

impl AsyncChannel {
    /// Registers the channel with the runtime that this is called in.
    ///
    /// # Errors
    /// The device has no descriptor to wait for, or the runtime cannot take it.
    ///
    /// # Panics
    /// As all of tokio: outside of a runtime, or in one without I/O.
    #[expect(unsafe_code, reason = "tokio wants to be assured of the descriptor")]
    pub fn new(channel: CompletionChannel) -> io::Result<Self> {
        let descriptor = channel.descriptor().map_err(io::Error::other)?;
        // SAFETY: an `OwnedFd` is one open descriptor until it is dropped, and the `AsyncFd` owns it.
        let descriptor =
            unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }?;
        Ok(Self { channel, descriptor })
    }

    /// The channel itself.
    #[must_use]
    pub const fn channel(&self) -> &CompletionChannel {
        &self.channel
    }

    /// The next event: which queue sent it. Cancelling the future loses none.
    ///
    /// # Errors
    /// As [`CompletionChannel::wait`], or the runtime is going away.
    pub async fn next_event(&self) -> io::Result<CqId> {
        loop {
            let mut ready = self.descriptor.readable().await?;
            if let Some(cq) = self.channel.wait(AT_ONCE).map_err(io::Error::other)? {
                return Ok(cq);
            }
            ready.clear_ready();
        }
    }

    /// The next completion of `cq`, which must report here, and must be the only one that does:
    /// events of others are taken and forgotten. Cancelling the future loses no completion.
    ///
    /// # Errors
    /// As [`AsyncChannel::next_event`] and [`Cq::poll`].
    pub async fn completion(&self, cq: &Cq) -> io::Result<Wc> {
        loop {
            if let Some(completion) = polled_or_armed(cq).map_err(io::Error::other)? {
                return Ok(completion);
            }
            self.next_event().await?;
        }
    }
}

/// A completion, or the assurance that the next one sends an event.
fn polled_or_armed(cq: &Cq) -> Result<Option<Wc>> {
    if let Some(completion) = cq.poll_one()? {
        return Ok(Some(completion));
    }
    cq.arm(false)?;
    cq.poll_one()
}
