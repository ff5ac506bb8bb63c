//! Messages leave; records come and go.

use alloc::boxed::Box;

use super::connection::State;
use super::event::{Event, EventKind};
use super::{Machine, Outgoing};
use crate::Instant;
use crate::cm::mad::Mad;
use crate::cm::message::cell::CommId;
use crate::cm::message::{Answered, Drep, Message, Mra, Rej};
use crate::cm::{RejectReason, message};
use crate::wire::{Route, ack_timeout_ns};

/// The way back along which a message came.
pub(super) const fn reversed(route: &Route) -> Route {
    Route {
        src: route.dst,
        dst: route.src,
        src_port: 0,
        traffic_class: route.traffic_class & !0b11,
        hop_limit: 64,
        flow_label: route.flow_label,
    }
}

impl Machine {
    pub(super) fn send(&mut self, route: Route, mad: Box<Mad>) {
        self.outbox.push_back(Outgoing { route, mad });
    }

    /// Sends a message of a connection, in its exchange.
    pub(super) fn say(&mut self, id: CommId, message: impl Into<Message>) {
        if let Some(connection) = self.connections.get(&id) {
            let (route, transaction) = (connection.route, connection.transaction);
            self.send(route, Box::new(message.into().to_mad(transaction, 0)));
        }
    }

    /// Sends a message that is sent again until it is answered.
    pub(super) fn ask(&mut self, id: CommId, mad: Mad, now: Instant) {
        self.ask_later(id, mad, now);
        self.repeat(id);
    }

    /// The same, the first time after the first retry's time.
    pub(super) fn ask_later(&mut self, id: CommId, mad: Mad, now: Instant) {
        let lifetimes = self.config.lifetimes;
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.sent = Some(Box::new(mad));
            connection.tries_left = lifetimes.retries;
            connection.wait_ns = lifetimes.first_retry_ns;
        }
        self.set_deadline(id, Some(now.plus_ns(lifetimes.first_retry_ns)));
    }

    /// Sends the message again that was sent last.
    pub(super) fn repeat(&mut self, id: CommId) {
        if let Some(connection) = self.connections.get(&id)
            && let Some(mad) = connection.sent.clone()
        {
            self.send(connection.route, mad);
        }
    }

    /// Asks the peer for patience while the program makes up its mind.
    pub(super) fn say_wait(&mut self, id: CommId, answered: Answered) {
        let Some(connection) = self.connections.get(&id) else { return };
        let mra = Mra {
            local_comm_id: id,
            remote_comm_id: connection.remote_id,
            message: answered as u8,
            service_timeout: self.config.lifetimes.service_timeout,
            ..Mra::default()
        };
        self.say(id, mra);
    }

    pub(super) fn dreq_of(&self, id: CommId) -> Option<Mad> {
        self.parting(id)?.dreq()
    }

    /// Agrees that the connection has ended, in the peer's exchange.
    pub(super) fn say_ended(&mut self, id: CommId) {
        if let Some(connection) = self.connections.get(&id) {
            let remote_comm_id = connection.remote_id;
            self.say(id, Drep { local_comm_id: id, remote_comm_id, ..Drep::default() });
        }
    }

    /// The REJ of a connection in its state.
    pub(super) fn rej_of(&self, id: CommId, reason: RejectReason) -> Rej {
        self.parting(id).map_or_else(Rej::default, |parting| parting.rej(reason))
    }

    /// Refuses a request for which there is no record.
    pub(super) fn refuse(
        &mut self,
        route: &Route,
        header: &crate::cm::mad::MadHeader,
        req: &message::Req,
        reason: RejectReason,
    ) {
        let rej = Rej {
            remote_comm_id: req.local_comm_id,
            message: Answered::Req as u8,
            reason,
            ..Rej::default()
        };
        self.send(reversed(route), Box::new(Message::from(rej).to_mad(header.transaction, 0)));
    }

    /// The number of exchanges that a connection begins.
    pub(super) const fn transaction(&self, id: CommId) -> u64 {
        (self.config.transaction_high as u64) << 32 | id.0 as u64
    }

    pub(super) fn tell(&mut self, id: CommId, kind: EventKind) {
        if let Some(connection) = self.connections.get(&id)
            && connection.owned
        {
            self.events.push_back(Event { id, tag: connection.tag, kind });
        }
    }

    pub(super) fn set_state(&mut self, id: CommId, state: State) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.state = state;
            self.changed.insert(id);
        }
    }

    pub(super) fn set_deadline(&mut self, id: CommId, deadline: Option<Instant>) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if let Some(old) = core::mem::replace(&mut connection.deadline, deadline) {
            self.deadlines.remove(&(old, id));
        }
        if let Some(at) = deadline {
            self.deadlines.insert((at, id));
        }
    }

    /// How long to wait at most between two tries: a peer and the program there may take the response
    /// timeout each.
    pub(super) fn longest_wait_ns(&self) -> u64 {
        // A code of 0 would be no timeout at all.
        ack_timeout_ns(self.config.lifetimes.response_timeout.max(1)).unwrap_or(u64::MAX) * 2
    }

    /// The program has answered a request: it leaves the backlog.
    pub(super) fn leave_backlog(&mut self, id: CommId) {
        if let Some(connection) = self.connections.get_mut(&id)
            && let Some(listener) = connection.listener.take()
            && let Some(listener) = self.listeners.get_mut(&listener)
        {
            listener.remove(connection.route.dst);
        }
    }

    /// The connection has ended; its IDs stay taken for a while.
    pub(super) fn enter_timewait(&mut self, id: CommId, now: Instant) {
        self.set_state(id, State::Timewait);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.sent = None;
        }
        let until = now.plus_ns(self.config.lifetimes.timewait_ns);
        self.set_deadline(id, Some(until));
    }

    /// Forgets a connection.
    pub(super) fn remove(&mut self, id: CommId) {
        self.set_deadline(id, None);
        self.leave_backlog(id);
        let Some(connection) = self.connections.remove(&id) else { return };
        self.changed.insert(id);
        let peer = connection.route.dst;
        let guid = connection.remote_guid;
        let remote_id = (peer, guid, connection.remote_id);
        if self.remote_ids.get(&remote_id) == Some(&id) {
            self.remote_ids.remove(&remote_id);
        }
        if let Some(qpn) = connection.parameters.remote_qpn
            && self.remote_qps.get(&(peer, guid, qpn)) == Some(&id)
        {
            self.remote_qps.remove(&(peer, guid, qpn));
        }
        if !connection.active
            && let Some(count) = self.asked_by.get_mut(&peer)
        {
            *count -= 1;
            if *count == 0 {
                self.asked_by.remove(&peer);
            }
        }
    }

    /// An ID that is free, if there may be one more connection. When there are too many, one that has
    /// ended makes room.
    pub(super) fn fresh_id(&mut self) -> Option<CommId> {
        if self.connections.len() >= self.config.connections_max as usize {
            let ended = self.deadlines.iter().take(64).map(|(_, id)| *id).find(|id| {
                self.connections.get(id).is_some_and(|one| one.state == State::Timewait)
            });
            let ended = ended?;
            self.tell(ended, EventKind::TimewaitExit);
            self.remove(ended);
        }
        loop {
            let id = CommId::from_parts(self.config.slot, self.next_id);
            self.next_id = self.next_id.wrapping_add(1) & 0x00ff_ffff;
            if !id.is_none() && !self.connections.contains_key(&id) {
                return Some(id);
            }
        }
    }
}
