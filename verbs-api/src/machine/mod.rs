//! A device made of the model, without what drives it: its core (model, link, memory, events) and the
//! verbs that programs call.
//!
//! Two drivers share it. The emulated device has an engine thread, sockets and real time; the
//! simulated one has a fabric with other devices and virtual time. Each is a [`Home`].

pub(crate) mod addresses;
pub(crate) mod communication;
pub(crate) mod core;
pub(crate) mod events;
mod memory;
mod verbs;

use std::fmt;
use std::io;
use std::sync::Arc;

use softrnic_model::Instant;
use softrnic_model::verbs::{AsyncEvent, CqId, Psn, QpNum, Wc};

use self::core::Core;
use self::events::{Closed, EventQueue};
use crate::cm::CmDevice;
use crate::provider::{DeviceInfo, Timeout, Verb};

/// Where a core lives: who may have it, what time it is there, and how one waits. Whatever is one has
/// all verbs.
pub(crate) trait Home: fmt::Debug + Send + Sync + 'static {
    /// What the device was listed as.
    fn info(&self) -> &DeviceInfo;

    /// Its clock.
    fn now(&self) -> Instant;

    /// Whether the caller may use the device at all.
    fn judge_caller(&self) -> Verb<()>;

    /// Does something with the core, which nobody else has meanwhile, and passes on the events that
    /// come of it.
    fn with_core<T>(&self, act: impl FnOnce(&mut Core) -> T) -> T;

    /// The same, and sends what that made ready, first that of a queue pair.
    fn with_send<T>(&self, first: Option<QpNum>, act: impl FnOnce(&mut Core) -> T) -> T;

    /// Takes completions, and makes progress if there are none.
    fn poll_cq(&self, cq: CqId, into: &mut [Wc]) -> Verb<usize>;

    /// Takes completions as soon as there are some, or the time is over.
    fn wait_cq(&self, cq: CqId, into: &mut [Wc], timeout: Timeout) -> Verb<usize>;

    /// A place for events.
    fn event_queue<T>(&self) -> Verb<EventQueue<T>>;

    /// Where asynchronous events wait.
    fn asynchronous(&self) -> &EventQueue<AsyncEvent>;

    /// Takes the oldest event as soon as there is one, or the time is over.
    fn take_event<T>(
        &self,
        events: &EventQueue<T>,
        timeout: Timeout,
    ) -> Verb<Result<Option<T>, Closed>>;

    /// Somebody has armed a completion queue and is about to sleep, while nobody looks for packets.
    fn sleeper_comes(&self);

    /// Its part in connection management, if it has one.
    fn communication(&self) -> Option<Arc<dyn CmDevice>> {
        None
    }

    /// A PSN to start with.
    fn draw_psn(&self) -> Psn;

    /// The groups that the link listens to have changed.
    fn groups_changed(&self) -> io::Result<()>;
}
