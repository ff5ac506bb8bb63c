//! What a device offers to a connection manager: the machine of its connections, and ports.

use std::fmt;
use std::sync::Weak;

use softrnic_model::Instant;
use softrnic_model::cm::{Event, ListenAt, Machine, ServiceId};
use softrnic_model::verbs::{Gid, Mtu};
use softrnic_transport::ports::Reservation;

use super::Cm;

/// A device's part in connection management. Calls take the device's lock.
pub trait CmDevice: fmt::Debug + Send + Sync {
    /// Lets `sink` hear of what happens. Returns a number: events of connections and listeners whose
    /// tag has it in its high half go there.
    ///
    /// # Errors
    /// The port service does not answer.
    fn attach(&self, sink: Weak<dyn CmSink>) -> Cm<u32>;

    /// Does something with the machine, and sends what comes of it.
    ///
    /// # Errors
    /// `EINVAL`: the device belongs to another process (`fork(2)`).
    fn with_machine(&self, act: &mut dyn FnMut(&mut Machine, Instant)) -> Cm<()>;

    /// Has the host know that this process has a port, or another service, at addresses of this
    /// device; port 0 is any. `None`: the device has its addresses for itself, and the ports there too.
    ///
    /// # Errors
    /// `EADDRINUSE`, `EACCES`: another process, of another user, has it; `ENOMEM`.
    fn reserve(&self, wanted: Reservation) -> Cm<Option<ServiceId>>;

    /// Gives it back.
    fn release(&self, service: ServiceId, at: ListenAt);
}

/// What the sink may want to know of a device whose lock it is called under.
#[derive(Clone, Copy, Debug)]
pub struct CmSite<'a> {
    /// Its GIDs.
    pub gids: &'a [Gid],
    /// Its path MTU.
    pub mtu: Mtu,
    /// What time it is.
    pub now: Instant,
}

/// Who hears of what happens to connections. It is called under the device's lock and must not call the
/// device.
pub trait CmSink: Send + Sync {
    /// Something happened; the machine may be told what to do about it.
    fn on_event(&self, site: &CmSite<'_>, machine: &mut Machine, event: Event);

    /// The device has failed: nothing will happen any more.
    fn on_failure(&self);
}
