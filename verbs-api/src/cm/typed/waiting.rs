//! Identifiers with a channel of their own, and waiting at it.

use std::sync::Arc;
use std::time::Instant;

use super::ConnectError;
use crate::cm::{Cm, CmEvent, CmId, ConnectionManager, EventChannelId, PortSpace};
use crate::provider::Timeout;

/// An identifier and its channel. Both go with this.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) cm: Arc<dyn ConnectionManager>,
    pub(super) id: CmId,
    channel: EventChannelId,
}

impl Held {
    pub(super) fn new(cm: &Arc<dyn ConnectionManager>) -> Cm<Self> {
        let channel = cm.create_event_channel()?;
        match cm.create_id(channel, PortSpace::Tcp) {
            Ok(id) => Ok(Self { cm: Arc::clone(cm), id, channel }),
            Err(error) => {
                let _ = cm.destroy_event_channel(channel);
                Err(error)
            }
        }
    }

    /// An identifier of somebody else's channel gets its own.
    pub(super) fn adopt(cm: &Arc<dyn ConnectionManager>, id: CmId) -> Cm<Self> {
        let channel = cm.create_event_channel()?;
        let held = Self { cm: Arc::clone(cm), id, channel };
        cm.migrate_id(id, channel)?;
        Ok(held)
    }

    /// Waits for an event.
    pub(super) fn event(&self, deadline: Option<Instant>) -> Result<CmEvent, ConnectError> {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        self.cm.get_event(self.channel, left)?.ok_or(ConnectError::Timeout)
    }

    /// Awaits an event. Cancelling the future loses none.
    #[cfg(all(unix, feature = "tokio"))]
    #[expect(unsafe_code, reason = "tokio wants to be assured of the descriptor")]
    pub(super) async fn event_async(&self) -> Result<CmEvent, ConnectError> {
        use tokio::io::Interest;
        use tokio::io::unix::AsyncFd;
        const AT_ONCE: Timeout = Some(std::time::Duration::ZERO);
        let system = |error: std::io::Error| {
            ConnectError::Refusal(crate::cm::CmError::full(format!("event descriptor: {error}")))
        };
        let descriptor = self.cm.event_channel_fd(self.channel)?;
        // SAFETY: an `OwnedFd` is one open descriptor until it is dropped, and the `AsyncFd` owns it.
        let descriptor = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
        let descriptor = descriptor.map_err(|error| system(error.into()))?;
        loop {
            let mut ready = descriptor.readable().await.map_err(system)?;
            if let Some(event) = self.cm.get_event(self.channel, AT_ONCE)? {
                return Ok(event);
            }
            ready.clear_ready();
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.cm.destroy_id(self.id);
        let _ = self.cm.destroy_event_channel(self.channel);
    }
}

/// The time by which something has to be done.
pub(super) fn deadline_of(timeout: Timeout) -> Option<Instant> {
    timeout.and_then(|timeout| Instant::now().checked_add(timeout))
}
