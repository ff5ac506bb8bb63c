//! The kernel's connection manager, through librdmacm.
//!
//! librdmacm (`library`) must work with the libibverbs that drives the devices: then a queue pair that a
//! program makes by this crate's verbs is one of the devices that identifiers are of. Identifiers have no
//! queue pairs for librdmacm; programs bring theirs from state to state by `rdma_init_qp_attr(3)`.
//!
//! All calls into librdmacm are made under one lock. None of them waits: event channels are non-blocking
//! and waited for here (`channels`), and events are acknowledged as soon as they are copied (`events`),
//! so that destroying and migrating an identifier find none that is not.

mod address;
mod channels;
mod connecting;
mod events;
mod ids;
mod library;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use softrnic_model::cm::{PortSpace, RejectReason};
use softrnic_model::verbs::{QpAttributeMask, QpAttributes, QpState};

pub(super) use library::Library;
pub use library::ManagerLoadError;

use super::errno::last_errno;
use super::library::Library as Verbs;
use super::open::HardwareContext;
use crate::cm::{
    Cm, CmError, CmEvent, CmId, CmOption, ConnParam, ConnectionManager, EventChannelId, IdInfo,
    Path,
};
use crate::provider::{Context, Timeout};
use channels::Channel;
use ids::Id;

/// The connection manager of real devices, see [`HardwareProvider::connection_manager`]. Its identifiers
/// and channels go with it.
///
/// The kernel connects reliable connections and datagrams only, refuses with the reasons
/// [`CONSUMER_DEFINED`](RejectReason::CONSUMER_DEFINED) and
/// [`VENDOR_OPTION_NOT_SUPPORTED`](RejectReason::VENDOR_OPTION_NOT_SUPPORTED), and finds ways itself; what
/// is asked of it beyond that is `EOPNOTSUPP`. The [phase](crate::cm::CmPhase) of an identifier is that of
/// the events that were taken.
///
/// [`HardwareProvider::connection_manager`]: super::HardwareProvider::connection_manager
pub struct HardwareManager {
    library: Arc<Library>,
    verbs: Arc<Verbs>,
    state: Mutex<State>,
}

/// What the lock holds.
struct State {
    devices: Vec<Arc<dyn Context>>,
    channels: BTreeMap<EventChannelId, Channel>,
    next_channel: u32,
    ids: BTreeMap<CmId, Id>,
    next_id: u32,
}

impl fmt::Debug for HardwareManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("HardwareManager")
            .field("devices", &state.devices.len())
            .field("ids", &state.ids.len())
            .finish_non_exhaustive()
    }
}

impl HardwareManager {
    /// One without devices, over the librdmacm that belongs to a libibverbs.
    pub(super) fn of(verbs: &Arc<Verbs>) -> Result<Arc<Self>, ManagerLoadError> {
        let state = State {
            devices: Vec::new(),
            channels: BTreeMap::new(),
            next_channel: 1,
            ids: BTreeMap::new(),
            next_id: 1,
        };
        Ok(Arc::new(Self {
            library: verbs.manager()?,
            verbs: Arc::clone(verbs),
            state: Mutex::new(state),
        }))
    }

    /// A thread that panicked has left nothing half done: what it did was done by the library.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a function of the library has returned.
fn done(returned: core::ffi::c_int, function: &'static str) -> Cm<()> {
    match returned {
        0 => Ok(()),
        -1 => Err(system(io::Error::last_os_error(), function)),
        // Some versions give the errno itself.
        errno => Err(system(io::Error::from_raw_os_error(errno.saturating_abs()), function)),
    }
}

/// A refusal of the system, in the words of connection management where it has some.
fn system(error: io::Error, function: &'static str) -> CmError {
    let errno = error.raw_os_error().unwrap_or_else(last_errno);
    let why = match errno {
        19 => "no RDMA device has the address, or is on the way to it",
        22 => "an argument is wrong, or the identifier is in a state where this is not done",
        98 => "the port is taken",
        99 => "the host does not have the address",
        106 => "there is a connection already",
        107 => "there is no connection",
        _ => return CmError::with_errno(errno, format!("{function}: {error}")),
    };
    CmError::with_errno(errno, format!("{function}: {why}"))
}

impl ConnectionManager for HardwareManager {
    fn devices(&self) -> Vec<Arc<dyn Context>> {
        self.lock().devices.clone()
    }

    fn add_device(&self, device: &Arc<dyn Context>) -> Cm<()> {
        let any: &dyn std::any::Any = &**device;
        let real = any.downcast_ref::<HardwareContext>();
        if !real.is_some_and(|real| Arc::ptr_eq(&real.library, &self.verbs)) {
            return Err(CmError::not_supported("a device that is not one of this libibverbs"));
        }
        let mut state = self.lock();
        if !state.devices.iter().any(|known| Arc::ptr_eq(known, device)) {
            state.devices.push(Arc::clone(device));
        }
        Ok(())
    }

    fn create_event_channel(&self) -> Cm<EventChannelId> {
        self.make_channel()
    }

    fn destroy_event_channel(&self, channel: EventChannelId) -> Cm<()> {
        self.end_channel(channel)
    }

    fn event_channel_fd(&self, channel: EventChannelId) -> Cm<OwnedFd> {
        self.channel_descriptor(channel)
    }

    fn get_event(&self, channel: EventChannelId, timeout: Timeout) -> Cm<Option<CmEvent>> {
        self.next(channel, timeout)
    }

    fn read_event(&self, channel: EventChannelId) -> io::Result<CmEvent> {
        self.read(channel)
    }

    fn post_event(&self, event: CmEvent) -> Cm<()> {
        let mut state = self.lock();
        let channel = state.id(event.id)?.channel;
        state.channel_mut(channel)?.post(event);
        Ok(())
    }

    fn create_id(&self, channel: EventChannelId, space: PortSpace) -> Cm<CmId> {
        self.make_id(channel, space)
    }

    fn destroy_id(&self, id: CmId) -> Cm<u32> {
        self.end_id(id)
    }

    fn migrate_id(&self, id: CmId, channel: EventChannelId) -> Cm<u32> {
        self.move_id(id, channel)
    }

    fn query_id(&self, id: CmId) -> Cm<IdInfo> {
        self.tell(id)
    }

    fn set_option(&self, id: CmId, option: CmOption) -> Cm<()> {
        self.change_option(id, option)
    }

    fn bind(&self, id: CmId, address: SocketAddr) -> Cm<()> {
        self.bind_to(id, address)
    }

    fn resolve_addr(
        &self,
        id: CmId,
        source: Option<SocketAddr>,
        destination: SocketAddr,
        timeout: Timeout,
    ) -> Cm<()> {
        self.find(id, source, destination, timeout)
    }

    fn resolve_route(&self, id: CmId, timeout: Timeout) -> Cm<()> {
        self.find_route(id, timeout)
    }

    fn set_path(&self, _: CmId, _: &Path) -> Cm<()> {
        Err(CmError::not_supported("the kernel finds ways itself"))
    }

    fn listen(&self, id: CmId, backlog: u32) -> Cm<()> {
        self.start_listening(id, backlog)
    }

    fn connect(&self, id: CmId, param: &ConnParam) -> Cm<()> {
        self.ask_peer(id, param)
    }

    fn accept(&self, id: CmId, param: &ConnParam) -> Cm<()> {
        self.say_yes(id, param)
    }

    fn establish(&self, id: CmId) -> Cm<()> {
        self.say_ready(id)
    }

    fn reject(&self, id: CmId, reason: RejectReason, private_data: &[u8]) -> Cm<()> {
        self.say_no(id, reason, private_data)
    }

    fn disconnect(&self, id: CmId) -> Cm<()> {
        self.say_bye(id)
    }

    fn notify_established(&self, id: CmId) -> Cm<()> {
        self.heard_from_peer(id)
    }

    fn init_qp_attr(&self, id: CmId, state: QpState) -> Cm<(QpAttributes, QpAttributeMask)> {
        self.attributes_for(id, state)
    }

    fn join_multicast(&self, id: CmId, group: SocketAddr, context: u64) -> Cm<()> {
        self.join(id, group, context)
    }

    fn leave_multicast(&self, id: CmId, group: SocketAddr) -> Cm<()> {
        self.leave(id, group)
    }
}

impl Drop for HardwareManager {
    /// What is open ends as if every identifier was destroyed, and every channel then.
    fn drop(&mut self) {
        let (ids, channels) = {
            let state = self.lock();
            let ids: Vec<CmId> = state.ids.keys().copied().collect();
            (ids, state.channels.keys().copied().collect::<Vec<_>>())
        };
        for id in ids {
            let _ = self.end_id(id);
        }
        for channel in channels {
            let _ = self.end_channel(channel);
        }
    }
}
