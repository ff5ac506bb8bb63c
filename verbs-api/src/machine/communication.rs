//! The machine of a device's connections, which lives beside the device under the same lock.

use std::sync::Weak;

use softrnic_model::Instant;
#[cfg(target_os = "linux")]
use softrnic_model::cm::{CommId, ListenAt};
use softrnic_model::cm::{Event, EventKind, Guid, Lifetimes, Machine, MachineConfig};
#[cfg(target_os = "linux")]
use softrnic_model::verbs::Gid;
#[cfg(target_os = "linux")]
use softrnic_transport::service::{CONVERSATIONS_MAX, Conversation, Will};

use super::core::Core;
use crate::cm::{CmSink, CmSite};

/// Connections of one device, those that are ending included.
const CONNECTIONS_MAX: u32 = 1 << 16;

/// The machine and who hears of it.
pub(crate) struct Communication {
    pub(crate) machine: Machine,
    pub(crate) sinks: Vec<Weak<dyn CmSink>>,
    /// Where the port service finds what is to be said to peers when this process is gone.
    #[cfg(target_os = "linux")]
    will: Option<Will>,
}

impl Communication {
    /// `chance` makes numbers that others do not foresee; the same in each run of a simulation.
    pub(crate) fn new(guid: [u8; 8], slot: u8, chance: u64) -> Self {
        let [a, b, c, high @ .., _] = chance.to_le_bytes();
        let config = MachineConfig {
            guid: Guid(u64::from_be_bytes(guid)),
            slot,
            first_id: u32::from_le_bytes([a, b, c, 0]),
            transaction_high: u32::from_le_bytes(high),
            connections_max: CONNECTIONS_MAX,
            lifetimes: Lifetimes::default(),
        };
        Self {
            machine: Machine::new(config),
            sinks: Vec::new(),
            #[cfg(target_os = "linux")]
            will: None,
        }
    }

    /// Leaves it to the port service to take leave of peers.
    #[cfg(target_os = "linux")]
    pub(crate) fn entrust(&mut self, mut will: Will) {
        let machine = &self.machine;
        for (id, ..) in machine.connections() {
            will.note(id, machine.parting(id).as_ref());
        }
        self.will = Some(will);
    }

    /// Writes down what has changed.
    fn note_changes(&mut self) {
        while let Some(id) = self.machine.next_change() {
            #[cfg(target_os = "linux")]
            if let Some(will) = &mut self.will {
                will.note(id, self.machine.parting(id).as_ref());
            }
            #[cfg(not(target_os = "linux"))]
            let _ = id;
        }
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
    pub(crate) fn manage(&mut self, now: Instant) {
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
    pub(crate) fn settle(&mut self, now: Instant) {
        let Self { device, communication: Communication { machine, sinks, .. }, .. } = self;
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
        self.communication.note_changes();
    }

    /// Nothing will arrive any more.
    pub(crate) fn fail_connections(&self) {
        for sink in self.communication.sinks.iter().filter_map(Weak::upgrade) {
            sink.on_failure();
        }
    }

    /// Listeners and connections, for `softrnic ps`.
    #[cfg(target_os = "linux")]
    pub(crate) fn conversations(&self) -> Vec<Conversation> {
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

    /// Packets for queue pair 1 that the port service has received.
    #[cfg(target_os = "linux")]
    pub(crate) fn take_forwarded(
        &mut self,
        now: Instant,
        packets: Vec<(softrnic_model::wire::Route, Vec<u8>)>,
    ) {
        // Every device with a port service has its addresses in a set of links.
        if let Some(set) = self.link.as_set() {
            packets.into_iter().for_each(|(route, packet)| set.hand_in(route, packet));
        }
        self.progress(now);
    }
}
