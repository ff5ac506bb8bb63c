//! A connection manager over devices of this crate: what the kernel's `rdma_cm` is to its devices.
//!
//! Two kinds of locks: each device has its own, under which its machine works and tells what has
//! happened ([`CmSink`]); the manager's is taken last, and never held while a device is called.

mod attempt;
mod attributes;
mod events;
mod ids;
mod listening;
mod multicast;
mod ports;
mod requests;
mod turns;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
#[cfg(unix)]
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use softrnic_model::cm::{PortSpace, RejectReason};
use softrnic_model::verbs::{QpAttributeMask, QpAttributes, QpState};
use softrnic_transport::ports::PortTable;

use super::{
    Cm, CmDevice, CmError, CmEvent, CmId, CmOption, CmSink, ConnParam, ConnectionManager,
    EventChannelId, IdInfo, Path, Resolver,
};
use crate::machine::events::EventQueue;
use crate::provider::{Context, Timeout};
use ids::Id;

/// A connection manager over emulated devices, see the module. It keeps them open.
pub struct EmulatedManager {
    me: Weak<Self>,
    resolver: Arc<dyn Resolver>,
    state: Mutex<State>,
}

/// What the manager's lock holds.
struct State {
    devices: Vec<Device>,
    /// They hear as long as they are kept.
    sinks: Vec<Arc<dyn CmSink>>,
    channels: BTreeMap<EventChannelId, Channel>,
    next_channel: u32,
    ids: BTreeMap<CmId, Id>,
    next_id: u32,
    /// The ports of this process.
    ports: PortTable<CmId>,
}

/// A device that takes part.
#[derive(Clone)]
struct Device {
    context: Arc<dyn Context>,
    cm: Arc<dyn CmDevice>,
    /// The high half of the numbers by which its machine names connections of this manager.
    number: u32,
}

impl Device {
    /// The number of an identifier for its machine.
    fn tag(&self, id: CmId) -> u64 {
        u64::from(self.number) << 32 | u64::from(id.0)
    }
}

/// A channel.
struct Channel {
    events: Arc<EventQueue<CmEvent>>,
    /// Identifiers that report to it.
    users: u32,
}

/// Hears of what happens at one device.
struct Sink {
    manager: Weak<EmulatedManager>,
    /// Its place in the list of devices.
    device: usize,
}

impl fmt::Debug for EmulatedManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("EmulatedManager")
            .field("devices", &state.devices.len())
            .field("ids", &state.ids.len())
            .finish_non_exhaustive()
    }
}

/// Something by chance.
fn chance() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}

impl EmulatedManager {
    /// A connection manager without devices, which finds ways by `resolver`.
    #[must_use]
    pub fn new(resolver: Arc<dyn Resolver>) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            resolver,
            state: Mutex::new(State {
                devices: Vec::new(),
                sinks: Vec::new(),
                channels: BTreeMap::new(),
                next_channel: 1,
                ids: BTreeMap::new(),
                next_id: 1,
                ports: PortTable::new((chance() & 0xffff) as u16),
            }),
        })
    }

    /// A thread that panicked has left some identifier in nobody knows what state, and no other.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all_devices(&self) -> Vec<Device> {
        self.lock().devices.clone()
    }
}

impl State {
    fn id(&self, id: CmId) -> Cm<&Id> {
        self.ids.get(&id).ok_or_else(no_such_id)
    }

    fn id_mut(&mut self, id: CmId) -> Cm<&mut Id> {
        self.ids.get_mut(&id).ok_or_else(no_such_id)
    }

    fn channel(&self, channel: EventChannelId) -> Cm<&Channel> {
        self.channels.get(&channel).ok_or_else(|| CmError::invalid("no such event channel"))
    }

    /// Puts an event into the channel of its identifier.
    fn push(&self, event: CmEvent) {
        if let Some(channel) = self.channel_of(event.id) {
            channel.events.push(event);
        }
    }

    /// The channel of an identifier.
    fn channel_of(&self, id: CmId) -> Option<&Channel> {
        self.channels.get(&self.ids.get(&id)?.channel)
    }
}

fn no_such_id() -> CmError {
    CmError::invalid("no such identifier")
}

impl CmSink for Sink {
    fn on_event(
        &self,
        site: &super::CmSite<'_>,
        machine: &mut softrnic_model::cm::Machine,
        event: softrnic_model::cm::Event,
    ) {
        if let Some(manager) = self.manager.upgrade() {
            manager.lock().on_event(self.device, site, machine, event);
        }
    }

    fn on_failure(&self) {
        if let Some(manager) = self.manager.upgrade() {
            manager.lock().on_failure(self.device);
        }
    }
}

impl ConnectionManager for EmulatedManager {
    fn devices(&self) -> Vec<Arc<dyn Context>> {
        self.lock().devices.iter().map(|device| Arc::clone(&device.context)).collect()
    }

    fn add_device(&self, device: &Arc<dyn Context>) -> Cm<()> {
        if self.devices().iter().any(|known| Arc::ptr_eq(known, device)) {
            return Ok(());
        }
        let cm = device.communication();
        let cm = cm.ok_or_else(|| CmError::not_supported("a device without connections"))?;
        let place = self.lock().devices.len();
        let sink: Arc<dyn CmSink> = Arc::new(Sink { manager: self.me.clone(), device: place });
        let number = cm.attach(Arc::downgrade(&sink))?;
        let device = Device { context: Arc::clone(device), cm, number };
        self.enlist(place, device, sink)
    }

    fn create_event_channel(&self) -> Cm<EventChannelId> {
        let events = EventQueue::new();
        let events = events.map_err(|error| CmError::full(format!("event descriptor: {error}")))?;
        let mut state = self.lock();
        let channel = EventChannelId(state.next_channel);
        state.next_channel += 1;
        state.channels.insert(channel, Channel { events: Arc::new(events), users: 0 });
        Ok(channel)
    }

    fn destroy_event_channel(&self, channel: EventChannelId) -> Cm<()> {
        let mut state = self.lock();
        if state.channel(channel)?.users != 0 {
            return Err(CmError::busy("identifiers report to the event channel"));
        }
        if let Some(channel) = state.channels.remove(&channel) {
            channel.events.close();
        }
        Ok(())
    }

    #[cfg(unix)]
    fn event_channel_fd(&self, channel: EventChannelId) -> Cm<OwnedFd> {
        let events = Arc::clone(&self.lock().channel(channel)?.events);
        events.descriptor().map_err(|error| CmError::full(format!("descriptor: {error}")))
    }

    fn get_event(&self, channel: EventChannelId, timeout: Timeout) -> Cm<Option<CmEvent>> {
        let events = Arc::clone(&self.lock().channel(channel)?.events);
        let event = events.take(timeout);
        let event = event.map_err(|_| CmError::invalid("the event channel was destroyed"))?;
        if let Some(event) = &event {
            self.lock().taken(event);
        }
        Ok(event)
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn read_event(&self, channel: EventChannelId) -> std::io::Result<CmEvent> {
        let events = self.lock().channel(channel).map(|channel| Arc::clone(&channel.events));
        let events = events.map_err(|error| std::io::Error::from_raw_os_error(error.errno()))?;
        let event = events.read()?;
        self.lock().taken(&event);
        Ok(event)
    }

    fn post_event(&self, event: CmEvent) -> Cm<()> {
        let state = self.lock();
        state.id(event.id)?;
        state.push(event);
        Ok(())
    }

    fn create_id(&self, channel: EventChannelId, space: PortSpace) -> Cm<CmId> {
        self.lock().create_id(channel, space)
    }

    fn destroy_id(&self, id: CmId) -> Cm<u32> {
        self.destroy(id)
    }

    fn migrate_id(&self, id: CmId, channel: EventChannelId) -> Cm<u32> {
        self.lock().migrate(id, channel)
    }

    fn query_id(&self, id: CmId) -> Cm<IdInfo> {
        self.lock().id(id).map(Id::info)
    }

    fn set_option(&self, id: CmId, option: CmOption) -> Cm<()> {
        self.lock().id_mut(id).map(|id| id.set(option))
    }

    fn bind(&self, id: CmId, address: SocketAddr) -> Cm<()> {
        self.bind_to(id, address)
    }

    fn resolve_addr(
        &self,
        id: CmId,
        source: Option<SocketAddr>,
        destination: SocketAddr,
        _timeout: Timeout,
    ) -> Cm<()> {
        self.find(id, source, destination)
    }

    fn resolve_route(&self, id: CmId, _timeout: Timeout) -> Cm<()> {
        self.lock().route_is_known(id)
    }

    fn set_path(&self, id: CmId, path: &Path) -> Cm<()> {
        self.take_path(id, path)
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
        self.lock().join(id, group, context)
    }

    fn leave_multicast(&self, id: CmId, group: SocketAddr) -> Cm<()> {
        self.lock().leave(id, group)
    }
}

impl Drop for EmulatedManager {
    /// What is open ends as if every identifier was destroyed.
    fn drop(&mut self) {
        let ids: Vec<CmId> = self.lock().ids.keys().copied().collect();
        for id in ids {
            let _ = self.destroy(id);
        }
    }
}
