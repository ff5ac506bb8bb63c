//! The connection manager's entry to an emulated device: the machine of its connections lives beside
//! the device, under the same lock.

use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Weak};

use softrnic_model::Instant;
#[cfg(target_os = "linux")]
use softrnic_model::cm::CommId;
use softrnic_model::cm::Lifetimes;
use softrnic_model::cm::{Event, EventKind, Guid, ListenAt, Machine, MachineConfig, ServiceId};
#[cfg(target_os = "linux")]
use softrnic_model::verbs::Gid;
use softrnic_transport::ports::Reservation;
#[cfg(target_os = "linux")]
use softrnic_transport::service::{CONVERSATIONS_MAX, Conversation};

use super::core::Core;
use super::engine::Shared;
use crate::cm::{Cm, CmDevice, CmError, CmSink, CmSite};

/// Connections of one device, those that are ending included.
const CONNECTIONS_MAX: u32 = 1 << 16;

/// The machine and who hears of it.
pub(super) struct Communication {
    pub(super) machine: Machine,
    sinks: Vec<Weak<dyn CmSink>>,
}

impl Communication {
    pub(super) fn new(guid: [u8; 8], slot: u8) -> Self {
        let chance = std::hash::RandomState::new().build_hasher().finish().to_le_bytes();
        let [a, b, c, high @ .., _] = chance;
        let config = MachineConfig {
            guid: Guid(u64::from_be_bytes(guid)),
            slot,
            first_id: u32::from_le_bytes([a, b, c, 0]),
            transaction_high: u32::from_le_bytes(high),
            connections_max: CONNECTIONS_MAX,
            lifetimes: Lifetimes::default(),
        };
        Self { machine: Machine::new(config), sinks: Vec::new() }
    }
}

/// Whom an event is for: the high half of the number of its connection, or listener.
fn sink_of(event: &Event) -> usize {
    let tag = match &event.kind {
        EventKind::Request { listener_tag, .. }
        | EventKind::ResolveRequest { listener_tag, .. } => *listener_tag,
        EventKind::Reply(_)
        | EventKind::Established
        | EventKind::Rejected(_)
        | EventKind::Unreachable
        | EventKind::DisconnectRequest
        | EventKind::Disconnected { .. }
        | EventKind::TimewaitExit
        | EventKind::Resolved(_) => event.tag,
    };
    usize::try_from(tag >> 32).unwrap_or(usize::MAX)
}

impl Core {
    /// Takes in what has come to queue pair 1, and does what is due. What is to be sent is left for
    /// the device to send.
    pub(super) fn manage(&mut self, now: Instant) {
        let mut busy = false;
        while let Some((route, mad)) = self.device.take_mad() {
            self.communication.machine.on_mad(now, &route, &*mad);
            busy = true;
        }
        if self.communication.machine.next_deadline().is_some_and(|due| due <= now) {
            self.communication.machine.on_time(now);
            busy = true;
        }
        if busy {
            self.settle(now);
        }
    }

    /// Hands the machine's events to whom they are for, and its messages to the device.
    fn settle(&mut self, now: Instant) {
        let Self { device, communication: Communication { machine, sinks }, .. } = self;
        let site = CmSite { gids: device.gids(), mtu: device.query_port().active_mtu, now };
        while let Some(event) = machine.next_event() {
            match sinks.get(sink_of(&event)).and_then(Weak::upgrade) {
                Some(sink) => sink.on_event(&site, machine, event),
                // Its connection manager is gone.
                None => machine.release(now, event.id),
            }
        }
        while let Some(outgoing) = machine.next_mad() {
            device.post_mad(outgoing.route, outgoing.mad);
        }
    }

    /// Nothing will arrive any more.
    pub(super) fn fail_connections(&self) {
        for sink in self.communication.sinks.iter().filter_map(Weak::upgrade) {
            sink.on_failure();
        }
    }

    /// Listeners and connections, for `softrnic ps`.
    #[cfg(target_os = "linux")]
    pub(super) fn conversations(&self) -> Vec<Conversation> {
        let machine = &self.communication.machine;
        let listening = machine.listeners().map(|(_, listen)| Conversation {
            state: None,
            service: listen.service_id,
            active: false,
            id: CommId::default(),
            local: match listen.at {
                ListenAt::One(ip) => ip.into(),
                ListenAt::All | ListenAt::V4 | ListenAt::V6 => Gid::default(),
            },
            peer: Gid::default(),
        });
        let connected = machine.connections().filter_map(|(id, state, route)| {
            let (service, active) = machine.service(id)?;
            let (local, peer) = (route.src, route.dst);
            Some(Conversation { state: Some(state), service, active, id, local, peer })
        });
        listening.chain(connected).take(CONVERSATIONS_MAX).collect()
    }

    /// A packet for queue pair 1 that the port service has received.
    #[cfg(target_os = "linux")]
    pub(super) fn take_forwarded(
        &mut self,
        now: Instant,
        packets: &[(softrnic_model::wire::Route, Vec<u8>)],
    ) {
        for (route, packet) in packets {
            self.device.on_frame(now, &self.memory, route, packet);
        }
        self.manage(now);
        self.send(now);
    }
}

/// See [`CmDevice`].
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) shared: Arc<Shared>,
    pub(super) process: u32,
}

impl CmDevice for Entry {
    fn attach(&self, sink: Weak<dyn CmSink>) -> Cm<u32> {
        #[cfg(target_os = "linux")]
        self.shared
            .membership()
            .listen_gsi()
            .map_err(|error| CmError::full(format!("the port service does not answer: {error}")))?;
        #[cfg(target_os = "linux")]
        self.shared.serve();
        let mut core = self.shared.lock_for_program();
        let sinks = &mut core.communication.sinks;
        let place = sinks.iter().position(|known| known.strong_count() == 0);
        let place = place.unwrap_or(sinks.len());
        match sinks.get_mut(place) {
            Some(free) => *free = sink,
            None => sinks.push(sink),
        }
        u32::try_from(place).map_err(|_| CmError::full("too many connection managers"))
    }

    fn with_machine(&self, act: &mut dyn FnMut(&mut Machine, Instant)) -> Cm<()> {
        if std::process::id() != self.process {
            return Err(CmError::invalid("the device was opened by another process"));
        }
        let mut core = self.shared.lock_for_program();
        let now = self.shared.now();
        act(&mut core.communication.machine, now);
        core.settle(now);
        core.send(now);
        self.shared.done(core);
        Ok(())
    }

    fn reserve(&self, wanted: Reservation) -> Cm<Option<ServiceId>> {
        #[cfg(target_os = "linux")]
        {
            let reserved = self.shared.membership().reserve(wanted);
            // What came while the answer was waited for.
            self.shared.serve();
            reserved
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = wanted;
            Ok(None)
        }
    }

    fn release(&self, service: ServiceId, at: ListenAt) {
        #[cfg(target_os = "linux")]
        self.shared.membership().release(service, at);
        #[cfg(not(target_os = "linux"))]
        let _ = (service, at);
    }
}
