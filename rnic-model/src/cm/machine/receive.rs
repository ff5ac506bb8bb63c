//! All other messages arrive. A message that does not name the connection by both IDs, or comes from
//! another address than the peer's, changes nothing.

use alloc::boxed::Box;

use super::Machine;
use super::connection::{Connection, State, can_connect};
use super::event::EventKind;
use super::send::reversed;
use crate::Instant;
use crate::cm::RejectReason;
use crate::cm::mad::MadHeader;
use crate::cm::message::cell::{CommId, Guid};
use crate::cm::message::{
    Answered, Apr, Drep, Dreq, Lap, Message, Mra, Rej, Rep, Rtu, SidrRep, answer_of_nobody,
};
use crate::wire::{Route, ack_timeout_ns};

impl Machine {
    /// A datagram came to queue pair 1 along `route`.
    pub fn on_mad(&mut self, now: Instant, route: &Route, bytes: &[u8]) {
        let Ok((header, message)) = Message::parse(bytes) else { return self.dropped += 1 };
        let done = match message {
            Message::Req(req) => {
                self.on_req(now, route, &header, req);
                Some(())
            }
            Message::SidrReq(req) => {
                self.on_sidr_req(now, route, &header, req);
                Some(())
            }
            Message::Mra(mra) => self.on_mra(now, route, &header, &mra),
            Message::Rej(rej) => self.on_rej(now, route, &header, rej),
            Message::Rep(rep) => self.on_rep(now, route, &header, rep),
            Message::Rtu(rtu) => self.on_rtu(route, &rtu),
            Message::Dreq(dreq) => self.on_dreq(now, route, &header, dreq),
            Message::Drep(drep) => self.on_drep(now, route, &drep),
            Message::SidrRep(rep) => self.on_sidr_rep(route, &header, rep),
            Message::Lap(lap) => self.on_lap(route, &header, &lap),
            // We ask for no alternate path.
            Message::Apr(_) => None,
        };
        self.dropped += u64::from(done.is_none());
    }

    /// The connection that a message names by its receiver's ID, if it comes from the peer.
    fn named(&self, route: &Route, own: CommId) -> Option<&Connection> {
        self.connections.get(&own).filter(|connection| connection.is_from_peer(route)).map(|c| &**c)
    }

    /// The same by both IDs.
    fn named_by_both(&self, route: &Route, own: CommId, peers: CommId) -> Option<&Connection> {
        self.named(route, own).filter(|connection| connection.remote_id == peers)
    }

    fn answer_as_nobody(&mut self, route: &Route, header: &MadHeader, message: &Message) {
        if let Some(mad) = answer_of_nobody(header, message) {
            self.send(reversed(route), Box::new(mad));
        }
    }

    fn on_rep(&mut self, now: Instant, route: &Route, header: &MadHeader, rep: Rep) -> Option<()> {
        let id = rep.remote_comm_id;
        if !self.connections.contains_key(&id) {
            // Its sender should not wait for an end that is not there.
            self.answer_as_nobody(route, header, &Message::Rep(rep));
            return None;
        }
        let connection = self.named(route, id)?;
        let known = connection.remote_id == rep.local_comm_id
            && connection.remote_guid == rep.local_ca_guid;
        match connection.state {
            State::ReqSent | State::MraReqRcvd => {
                (header.transaction == connection.transaction && !rep.local_comm_id.is_none())
                    .then_some(())?;
                self.on_first_rep(id, now, header, rep);
            }
            State::RepRcvd | State::MraRepSent if known => {
                self.set_state(id, State::MraRepSent);
                self.say_wait(id, Answered::Rep);
            }
            // The RTU was lost.
            State::Established if known && connection.active => self.repeat(id),
            State::ReqRcvd
            | State::MraReqSent
            | State::RepSent
            | State::MraRepRcvd
            | State::RepRcvd
            | State::MraRepSent
            | State::Established
            | State::DreqSent
            | State::DreqRcvd
            | State::Timewait
            | State::SidrReqSent
            | State::SidrReqRcvd => return None,
        }
        Some(())
    }

    fn on_first_rep(&mut self, id: CommId, now: Instant, header: &MadHeader, rep: Rep) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let peer = connection.route.dst;
        connection.remote_id = rep.local_comm_id;
        connection.remote_guid = rep.local_ca_guid;
        connection.sent = None;
        if !can_connect(rep.local_qpn) {
            return self.refuse_rep(id, RejectReason::UNSUPPORTED);
        }
        let stale = self.remote_qps.get(&(peer, rep.local_ca_guid, rep.local_qpn)).copied();
        if let Some(stale) = stale.filter(|stale| *stale != id) {
            self.refuse_rep(id, RejectReason::STALE_CONN);
            return self.end_stale(stale, now);
        }
        let agreed = &mut connection.parameters;
        agreed.remote_qpn = Some(rep.local_qpn);
        agreed.sq_psn = Some(rep.starting_psn);
        agreed.responder_resources = agreed.responder_resources.min(rep.initiator_depth);
        agreed.initiator_depth = agreed.initiator_depth.min(rep.responder_resources);
        agreed.rnr_retry_count = rep.rnr_retry_count;
        agreed.ack_timeout = with_ack_delay(agreed.ack_timeout, rep.target_ack_delay);
        agreed.flow_control = rep.flow_control;
        agreed.srq = rep.srq;
        agreed.vendor_id = rep.vendor_id();
        agreed.options = header.modifier;
        self.remote_ids.insert((peer, rep.local_ca_guid, rep.local_comm_id), id);
        self.know_peer_qp(id);
        self.set_state(id, State::RepRcvd);
        self.set_deadline(id, None);
        self.tell(id, EventKind::Reply(Box::new(rep)));
    }

    /// What the peer has answered is no good: both ends are told that it is refused.
    fn refuse_rep(&mut self, id: CommId, reason: RejectReason) {
        self.set_state(id, State::RepRcvd);
        let rej = self.rej_of(id, reason);
        self.say(id, rej.clone());
        self.tell(id, EventKind::Rejected(Box::new(rej)));
        self.remove(id);
    }

    fn on_rtu(&mut self, route: &Route, rtu: &Rtu) -> Option<()> {
        let id = rtu.remote_comm_id;
        let connection = self.named_by_both(route, id, rtu.local_comm_id)?;
        matches!(connection.state, State::RepSent | State::MraRepRcvd).then_some(())?;
        self.become_established(id);
        self.tell(id, EventKind::Established);
        Some(())
    }

    /// The last message of connecting has arrived, or a packet that tells of it.
    pub(super) fn become_established(&mut self, id: CommId) {
        self.set_state(id, State::Established);
        self.set_deadline(id, None);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.sent = None;
        }
    }

    fn on_mra(&mut self, now: Instant, route: &Route, header: &MadHeader, mra: &Mra) -> Option<()> {
        let id = mra.remote_comm_id;
        let connection = self.named(route, id)?;
        let next = match connection.state {
            State::ReqSent
                if mra.message == Answered::Req as u8
                    && header.transaction == connection.transaction =>
            {
                State::MraReqRcvd
            }
            State::RepSent
                if mra.message == Answered::Rep as u8
                    && mra.local_comm_id == connection.remote_id =>
            {
                State::MraRepRcvd
            }
            State::ReqSent
            | State::MraReqRcvd
            | State::ReqRcvd
            | State::MraReqSent
            | State::RepSent
            | State::MraRepRcvd
            | State::RepRcvd
            | State::MraRepSent
            | State::Established
            | State::DreqSent
            | State::DreqRcvd
            | State::Timewait
            | State::SidrReqSent
            | State::SidrReqRcvd => return None,
        };
        self.set_state(id, next);
        let patience = ack_timeout_ns(mra.service_timeout.max(1)).unwrap_or(0);
        self.set_deadline(
            id,
            Some(now.plus_ns(patience.max(self.config.lifetimes.first_retry_ns))),
        );
        Some(())
    }

    fn on_rej(&mut self, now: Instant, route: &Route, header: &MadHeader, rej: Rej) -> Option<()> {
        let mut id = rej.remote_comm_id;
        if id.is_none() && rej.reason == RejectReason::TIMEOUT {
            // Who gives up before it has heard our ID names itself by its adapter.
            let guid = rej.info.0.first_chunk().map(|bytes| Guid(u64::from_be_bytes(*bytes)))?;
            id = *self.remote_ids.get(&(route.src, guid, rej.local_comm_id))?;
        }
        let connection = self.named(route, id)?;
        let both = connection.remote_id == rej.local_comm_id;
        match connection.state {
            State::ReqSent | State::MraReqRcvd => {
                // Its sender may have no ID yet; the exchange is ours.
                let ours = header.transaction == connection.transaction;
                (ours && rej.message != Answered::Rep as u8).then_some(())?;
                self.tell(id, EventKind::Rejected(Box::new(rej)));
                self.remove(id);
            }
            State::ReqRcvd
            | State::MraReqSent
            | State::RepSent
            | State::MraRepRcvd
            | State::RepRcvd
            | State::MraRepSent
                if both =>
            {
                self.tell(id, EventKind::Rejected(Box::new(rej)));
                self.remove(id);
            }
            // The peer has never got our RTU, or knows the connection no more.
            State::Established | State::DreqSent if both => {
                self.tell(id, EventKind::Disconnected { timed_out: false });
                self.enter_timewait(id, now);
            }
            State::ReqRcvd
            | State::MraReqSent
            | State::RepSent
            | State::MraRepRcvd
            | State::RepRcvd
            | State::MraRepSent
            | State::Established
            | State::DreqSent
            | State::DreqRcvd
            | State::Timewait
            | State::SidrReqSent
            | State::SidrReqRcvd => return None,
        }
        Some(())
    }

    fn on_dreq(
        &mut self,
        now: Instant,
        route: &Route,
        header: &MadHeader,
        dreq: Dreq,
    ) -> Option<()> {
        let id = dreq.remote_comm_id;
        if !self.connections.contains_key(&id) {
            self.answer_as_nobody(route, header, &Message::Dreq(dreq));
            return None;
        }
        let connection = self.named_by_both(route, id, dreq.local_comm_id)?;
        let (state, owned) = (connection.state, connection.owned);
        (connection.local_qpn == dreq.remote_qpn).then_some(())?;
        match state {
            State::RepSent | State::MraRepRcvd | State::Established => {
                self.answer_in(id, header);
                self.set_state(id, State::DreqRcvd);
                self.set_deadline(id, None);
                self.tell(id, EventKind::DisconnectRequest);
                if !owned {
                    self.say_ended(id);
                    self.enter_timewait(id, now);
                }
            }
            // Both want to.
            State::DreqSent => {
                self.answer_in(id, header);
                self.say_ended(id);
                self.tell(id, EventKind::Disconnected { timed_out: false });
                self.enter_timewait(id, now);
            }
            // Our answer was lost.
            State::Timewait => {
                self.answer_in(id, header);
                self.say_ended(id);
            }
            // The program is still to answer.
            State::DreqRcvd => {}
            State::ReqSent
            | State::MraReqRcvd
            | State::ReqRcvd
            | State::MraReqSent
            | State::RepRcvd
            | State::MraRepSent
            | State::SidrReqSent
            | State::SidrReqRcvd => return None,
        }
        Some(())
    }

    /// What is said next answers this message.
    fn answer_in(&mut self, id: CommId, header: &MadHeader) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.transaction = header.transaction;
        }
    }

    fn on_drep(&mut self, now: Instant, route: &Route, drep: &Drep) -> Option<()> {
        let id = drep.remote_comm_id;
        let connection = self.named_by_both(route, id, drep.local_comm_id)?;
        (connection.state == State::DreqSent).then_some(())?;
        self.tell(id, EventKind::Disconnected { timed_out: false });
        self.enter_timewait(id, now);
        Some(())
    }

    fn on_sidr_rep(&mut self, route: &Route, header: &MadHeader, rep: SidrRep) -> Option<()> {
        let id = rep.request_id;
        let connection = self.named(route, id)?;
        (connection.state == State::SidrReqSent && connection.transaction == header.transaction)
            .then_some(())?;
        self.tell(id, EventKind::Resolved(Box::new(rep)));
        self.remove(id);
        Some(())
    }

    /// There is one path, and no other is taken (IBA 12.8).
    fn on_lap(&mut self, route: &Route, header: &MadHeader, lap: &Lap) -> Option<()> {
        let id = lap.remote_comm_id;
        let connection = self.named_by_both(route, id, lap.local_comm_id)?;
        (connection.state == State::Established && connection.local_qpn == lap.remote_qpn)
            .then_some(())?;
        let apr = Apr {
            local_comm_id: id,
            remote_comm_id: lap.local_comm_id,
            status: Apr::NOT_SUPPORTED,
            ..Apr::default()
        };
        let route = connection.route;
        self.send(route, Box::new(Message::from(apr).to_mad(header.transaction, 0)));
        Some(())
    }
}

/// The local ACK timeout code that also leaves the peer's adapter the time it takes to acknowledge
/// (IBA 12.7.34).
fn with_ack_delay(timeout: u8, delay: u8) -> u8 {
    let sum = if timeout >= delay {
        timeout + u8::from(timeout - delay <= 1)
    } else {
        delay + u8::from(timeout + 1 == delay)
    };
    sum.min(31)
}
