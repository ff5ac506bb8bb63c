//! Identifiers: what is kept of each, and how they come and go.

use std::net::SocketAddr;
use std::sync::Arc;

use softrnic_model::cm::{CommId, ListenerId, PortSpace};
use softrnic_model::verbs::{Psn, QpType};
use softrnic_transport::ports::Reservation;

use super::turns::{Turn, Turns};
use super::{EmulatedManager, State, chance};
use crate::cm::{
    Cm, CmError, CmEvent, CmEventKind, CmId, CmOption, CmPhase, Ece, EventChannelId, IdInfo, Path,
};

/// Identifiers that there may be.
const IDS_MAX: usize = 1 << 17;

/// What is kept of an identifier.
#[derive(Debug)]
pub(super) struct Id {
    pub(super) space: PortSpace,
    pub(super) channel: EventChannelId,
    pub(super) phase: CmPhase,
    pub(super) local: Option<SocketAddr>,
    pub(super) peer: Option<SocketAddr>,
    pub(super) path: Option<Path>,
    /// Its device, by its place in the list.
    pub(super) device: Option<usize>,
    /// Its connection there.
    pub(super) comm: Option<CommId>,
    /// Where it listens, by device.
    pub(super) listeners: Vec<(usize, ListenerId)>,
    pub(super) backlog: u32,
    pub(super) reserved: Option<Reservation>,
    /// The type of its queue pair, once that was said.
    pub(super) qp_type: QpType,
    /// The first PSN that it sends.
    pub(super) psn: Psn,
    pub(super) remote_ece: Ece,
    /// Events that were taken.
    pub(super) taken: u32,
    /// The listener whose request it is, until the program has taken that.
    pub(super) asked_of: Option<CmId>,
    /// When that is to be told, among others.
    pub(super) turn: Turn,
    /// Of a listener: whose requests wait for the program to take them.
    pub(super) turns: Turns,
    pub(super) groups: Vec<SocketAddr>,
    pub(super) tos: u8,
    pub(super) reuse: bool,
    pub(super) af_only: bool,
    pub(super) ack_timeout: Option<u8>,
}

impl Id {
    pub(super) fn new(channel: EventChannelId, space: PortSpace) -> Self {
        Self {
            space,
            channel,
            phase: CmPhase::Idle,
            local: None,
            peer: None,
            path: None,
            device: None,
            comm: None,
            listeners: Vec::new(),
            backlog: 0,
            reserved: None,
            qp_type: if space.is_datagram() { QpType::Ud } else { QpType::Rc },
            psn: Psn::new((chance() & 0xff_ffff) as u32),
            remote_ece: Ece::default(),
            taken: 0,
            asked_of: None,
            turn: 0,
            turns: Turns::default(),
            groups: Vec::new(),
            tos: 0,
            reuse: false,
            af_only: false,
            ack_timeout: None,
        }
    }

    pub(super) fn info(&self) -> IdInfo {
        IdInfo {
            port_space: self.space,
            phase: self.phase,
            channel: self.channel,
            local: self.local,
            peer: self.peer,
            path: self.path.clone(),
            remote_ece: self.remote_ece,
        }
    }

    pub(super) fn set(&mut self, option: CmOption) {
        match option {
            CmOption::Tos(tos) => self.tos = tos,
            CmOption::ReuseAddress(reuse) => self.reuse = reuse,
            CmOption::AfOnly(af_only) => self.af_only = af_only,
            CmOption::AckTimeout(code) => self.ack_timeout = Some(code & 0x1f),
        }
    }

    /// Requires that it is this far.
    pub(super) fn require(&self, phases: &[CmPhase]) -> Cm<()> {
        if phases.contains(&self.phase) {
            return Ok(());
        }
        Err(CmError::invalid(format!("the identifier is in state {:?}", self.phase)))
    }
}

impl State {
    pub(super) fn create_id(&mut self, channel: EventChannelId, space: PortSpace) -> Cm<CmId> {
        self.channel(channel)?;
        self.insert_id(Id::new(channel, space))
    }

    pub(super) fn insert_id(&mut self, new: Id) -> Cm<CmId> {
        if self.ids.len() >= IDS_MAX {
            return Err(CmError::full("as many identifiers as there can be"));
        }
        let id = loop {
            let id = CmId(self.next_id);
            self.next_id = self.next_id.wrapping_add(1).max(1);
            if !self.ids.contains_key(&id) {
                break id;
            }
        };
        if let Some(channel) = self.channels.get_mut(&new.channel) {
            channel.users += 1;
        }
        self.ids.insert(id, new);
        Ok(id)
    }

    /// A program has taken an event.
    pub(super) fn taken(&mut self, event: &CmEvent) {
        // A request counts for who listens, too: there is nobody else yet who could wait for it.
        if let Some(listener) = event.listen_id
            && let Some(listener) = self.ids.get_mut(&listener)
        {
            listener.taken += 1;
        }
        if event.kind == CmEventKind::ConnectRequest {
            self.waits_no_more(event.id);
        } else if let Some(id) = self.ids.get_mut(&event.id) {
            id.taken += 1;
        }
    }

    /// A program knows of a request, or will never.
    fn waits_no_more(&mut self, request: CmId) {
        let Some(known) = self.ids.get_mut(&request) else { return };
        if let (Some(listener), Some(peer)) = (known.asked_of.take(), known.peer)
            && let Some(listener) = self.ids.get_mut(&listener)
        {
            listener.turns.leave(peer.ip());
        }
    }

    pub(super) fn migrate(&mut self, id: CmId, channel: EventChannelId) -> Cm<u32> {
        let to = Arc::clone(&self.channel(channel)?.events);
        let known = self.id_mut(id)?;
        let (from, taken) = (std::mem::replace(&mut known.channel, channel), known.taken);
        if from == channel {
            return Ok(taken);
        }
        // A request goes with who listens.
        let moves = |event: &CmEvent| event.listen_id.unwrap_or(event.id) == id;
        let mut moved = Vec::new();
        if let Some(from) = self.channels.get_mut(&from) {
            from.users -= 1;
            moved = from.events.extract(moves);
        }
        if let Some(to) = self.channels.get_mut(&channel) {
            to.users += 1;
        }
        for event in &moved {
            if event.id != id {
                self.follow(event.id, channel);
            }
        }
        moved.into_iter().for_each(|event| to.push(event));
        Ok(taken)
    }

    /// A request that was not taken reports where its listener does.
    fn follow(&mut self, id: CmId, channel: EventChannelId) {
        let Some(known) = self.ids.get_mut(&id) else { return };
        let from = std::mem::replace(&mut known.channel, channel);
        for (of, change) in [(from, -1), (channel, 1)] {
            if let Some(channel) = self.channels.get_mut(&of) {
                channel.users = channel.users.saturating_add_signed(change);
            }
        }
    }
}

impl EmulatedManager {
    pub(super) fn destroy(&self, id: CmId) -> Cm<u32> {
        let (known, devices, requests) = {
            let mut state = self.lock();
            state.waits_no_more(id);
            let known = state.ids.remove(&id).ok_or_else(super::no_such_id)?;
            if let Some(channel) = state.channels.get_mut(&known.channel) {
                channel.users = channel.users.saturating_sub(1);
                channel.events.retain(|event| event.id != id && event.listen_id != Some(id));
            }
            if let Some(reserved) = known.reserved {
                state.ports.remove(id, reserved.service, reserved.at);
            }
            let mut requests = Vec::new();
            if known.phase == CmPhase::Listen {
                let of_it = state.ids.iter().filter(|(_, other)| other.asked_of == Some(id));
                requests.extend(of_it.map(|(request, _)| *request));
            }
            (known, state.devices.clone(), requests)
        };
        for (device, listener) in &known.listeners {
            if let Some(device) = devices.get(*device) {
                let _ = device.cm.with_machine(&mut |machine, _| machine.unlisten(*listener));
            }
        }
        if let Some(reserved) = known.reserved {
            for device in &devices {
                if super::ports::concerns(device, &known) {
                    device.cm.release(reserved.service, reserved.at);
                }
            }
        }
        if let Some(device) = known.device.and_then(|device| devices.get(device))
            && let Some(comm) = known.comm
        {
            let _ = device.cm.with_machine(&mut |machine, now| machine.release(now, comm));
        }
        // What nobody has taken nobody will answer.
        for request in requests {
            let _ = self.destroy(request);
        }
        Ok(known.taken)
    }
}
