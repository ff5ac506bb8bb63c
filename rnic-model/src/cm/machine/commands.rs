//! What the program says.

use alloc::boxed::Box;
use core::fmt;

use super::Machine;
use super::connection::{Connection, Parameters, State, Transport};
use crate::Instant;
use crate::cm::mad::Mad;
use crate::cm::message::cell::{Bytes, CommId, Guid};
use crate::cm::message::{Message, Rej, Rep, Req, Rtu, SidrRep, SidrReq};
use crate::cm::{RejectReason, ServiceId};
use crate::verbs::{Psn, QpNum};
use crate::wire::Route;

/// Why a command is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// There is no such connection (any more).
    NoSuchConnection,
    /// It is in a state where that is not done.
    WrongState(State),
    /// There are as many connections as there can be.
    Full,
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchConnection => f.write_str("there is no such connection"),
            Self::WrongState(state) => write!(f, "not in state {:?}", state.name()),
            Self::Full => f.write_str("as many connections as there can be"),
        }
    }
}

impl core::error::Error for CommandError {}

/// A connection that is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connect {
    /// The program's number of it.
    pub tag: u64,
    /// The way to the peer.
    pub route: Route,
    /// What is asked for.
    pub service_id: ServiceId,
    /// What the peer's program gets to see, with the IP addressing header where there is one.
    pub private_data: Bytes<92>,
    /// The service.
    pub transport: Transport,
    /// The own queue pair.
    pub local_qpn: QpNum,
    /// The first PSN that the peer is to send.
    pub starting_psn: Psn,
    /// READs and atomics that the peer may have outstanding here.
    pub responder_resources: u8,
    /// READs and atomics that this end would have outstanding there.
    pub initiator_depth: u8,
    /// End-to-end flow control.
    pub flow_control: bool,
    /// Receives come from a shared queue.
    pub srq: bool,
    /// Retries after a timeout.
    pub retry_count: u8,
    /// Retries after RNR.
    pub rnr_retry_count: u8,
    /// Path MTU code.
    pub mtu: u8,
    /// Local ACK timeout code of the peer's queue pair, and of the own one.
    pub ack_timeout: u8,
    /// Whose options these are.
    pub vendor_id: u32,
    /// Options of enhanced connection establishment.
    pub options: u32,
}

/// A request is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accept {
    /// What the peer's program gets to see.
    pub private_data: Bytes<196>,
    /// The own queue pair.
    pub local_qpn: QpNum,
    /// The first PSN that the peer is to send.
    pub starting_psn: Psn,
    /// READs and atomics that the peer may have outstanding here; no more than it asked for.
    pub responder_resources: u8,
    /// READs and atomics that this end will have outstanding there; no more than it offered.
    pub initiator_depth: u8,
    /// End-to-end flow control.
    pub flow_control: bool,
    /// Receives come from a shared queue.
    pub srq: bool,
    /// RNR retries that the peer is asked for.
    pub rnr_retry_count: u8,
    /// How long the own adapter takes to acknowledge: 4.096 µs · 2^t.
    pub ack_delay: u8,
    /// Whose options these are.
    pub vendor_id: u32,
    /// Options of enhanced connection establishment.
    pub options: u32,
}

/// A datagram service that is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolve {
    /// The program's number of it.
    pub tag: u64,
    /// The way to the peer.
    pub route: Route,
    /// What is asked for.
    pub service_id: ServiceId,
    /// What the peer's program gets to see, with the IP addressing header where there is one.
    pub private_data: Bytes<216>,
}

/// The LID of a port that has none.
const NO_LID: u16 = 0xffff;
/// The default partition.
const PKEY: u16 = 0xffff;

impl Machine {
    fn require(&self, id: CommId, states: &[State]) -> Result<&Connection, CommandError> {
        let connection = self.connections.get(&id).filter(|connection| connection.owned);
        let connection = connection.ok_or(CommandError::NoSuchConnection)?;
        if states.contains(&connection.state) {
            Ok(connection)
        } else {
            Err(CommandError::WrongState(connection.state))
        }
    }

    /// Asks a peer for a connection (REQ).
    ///
    /// # Errors
    /// [`CommandError::Full`].
    pub fn connect(&mut self, now: Instant, ask: &Connect) -> Result<CommId, CommandError> {
        let id = self.fresh_id().ok_or(CommandError::Full)?;
        let lifetimes = self.config.lifetimes;
        let (transport, extended_transport) = match ask.transport {
            Transport::Rc => (Req::RELIABLE_CONNECTION, 0),
            Transport::Uc => (Req::UNRELIABLE_CONNECTION, 0),
            Transport::Xrc => (Req::EXTENDED, Req::XRC),
        };
        let route = ask.route;
        let req = Req {
            local_comm_id: id,
            vendor_id: ask.vendor_id,
            service_id: ask.service_id,
            local_ca_guid: self.config.guid,
            local_qpn: ask.local_qpn,
            responder_resources: ask.responder_resources,
            initiator_depth: ask.initiator_depth,
            remote_response_timeout: lifetimes.response_timeout,
            transport,
            flow_control: ask.flow_control,
            starting_psn: ask.starting_psn,
            local_response_timeout: lifetimes.response_timeout,
            retry_count: ask.retry_count,
            pkey: PKEY,
            mtu: ask.mtu,
            rnr_retry_count: ask.rnr_retry_count,
            max_cm_retries: lifetimes.retries,
            srq: ask.srq,
            extended_transport,
            primary_local_lid: NO_LID,
            primary_remote_lid: NO_LID,
            primary_local_gid: route.src,
            primary_remote_gid: route.dst,
            primary_flow_label: route.flow_label,
            primary_traffic_class: route.traffic_class,
            primary_hop_limit: route.hop_limit,
            primary_local_ack_timeout: ask.ack_timeout,
            private_data: ask.private_data,
            ..Req::default()
        };
        let mut connection = Connection::new(State::ReqSent, ask.tag, route, self.transaction(id));
        connection.local_qpn = ask.local_qpn;
        connection.service_id = ask.service_id;
        connection.parameters = Parameters {
            transport: ask.transport,
            rq_psn: Some(ask.starting_psn),
            mtu: ask.mtu,
            responder_resources: ask.responder_resources,
            initiator_depth: ask.initiator_depth,
            retry_count: ask.retry_count,
            ack_timeout: ask.ack_timeout,
            flow_label: route.flow_label,
            traffic_class: route.traffic_class,
            hop_limit: route.hop_limit,
            ..Parameters::default()
        };
        let mad = Message::from(req).to_mad(connection.transaction, ask.options);
        self.connections.insert(id, Box::new(connection));
        self.changed.insert(id);
        self.ask(id, mad, now);
        Ok(id)
    }

    /// Asks a peer for a datagram service (SIDR_REQ).
    ///
    /// # Errors
    /// [`CommandError::Full`].
    pub fn resolve(&mut self, now: Instant, ask: &Resolve) -> Result<CommId, CommandError> {
        let id = self.fresh_id().ok_or(CommandError::Full)?;
        let req = SidrReq {
            request_id: id,
            pkey: PKEY,
            service_id: ask.service_id,
            private_data: ask.private_data,
        };
        let transaction = self.transaction(id);
        let mut connection = Connection::new(State::SidrReqSent, ask.tag, ask.route, transaction);
        connection.service_id = ask.service_id;
        self.connections.insert(id, Box::new(connection));
        self.changed.insert(id);
        self.ask(id, Message::from(req).to_mad(transaction, 0), now);
        Ok(id)
    }

    /// Takes a request (REP).
    ///
    /// # Errors
    /// [`CommandError::NoSuchConnection`], [`CommandError::WrongState`].
    pub fn accept(
        &mut self,
        now: Instant,
        id: CommId,
        accept: &Accept,
    ) -> Result<(), CommandError> {
        let asked = self.require(id, &[State::ReqRcvd, State::MraReqSent])?;
        let (remote_comm_id, transaction) = (asked.remote_id, asked.transaction);
        let mut rep = Rep {
            local_comm_id: id,
            remote_comm_id,
            local_qpn: accept.local_qpn,
            starting_psn: accept.starting_psn,
            responder_resources: accept
                .responder_resources
                .min(asked.parameters.responder_resources),
            initiator_depth: accept.initiator_depth.min(asked.parameters.initiator_depth),
            target_ack_delay: accept.ack_delay,
            flow_control: accept.flow_control,
            rnr_retry_count: accept.rnr_retry_count,
            srq: accept.srq,
            local_ca_guid: self.config.guid,
            private_data: accept.private_data,
            ..Rep::default()
        };
        rep.set_vendor_id(accept.vendor_id);
        self.leave_backlog(id);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.local_qpn = rep.local_qpn;
            connection.parameters.rq_psn = Some(rep.starting_psn);
            connection.parameters.responder_resources = rep.responder_resources;
            connection.parameters.initiator_depth = rep.initiator_depth;
        }
        self.set_state(id, State::RepSent);
        self.ask(id, Message::from(rep).to_mad(transaction, accept.options), now);
        Ok(())
    }

    /// Says that the own queue pair is ready (RTU).
    ///
    /// # Errors
    /// As [`Machine::accept`].
    pub fn ready(&mut self, id: CommId) -> Result<(), CommandError> {
        let connection = self.require(id, &[State::RepRcvd, State::MraRepSent])?;
        let rtu = Rtu { local_comm_id: id, remote_comm_id: connection.remote_id, ..Rtu::default() };
        let mad = Box::new(Message::from(rtu).to_mad(connection.transaction, 0));
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.sent = Some(mad);
        }
        self.set_state(id, State::Established);
        self.repeat(id);
        Ok(())
    }

    /// The queue pair has received something before the peer's last message of connecting came.
    ///
    /// # Errors
    /// As [`Machine::accept`].
    pub fn heard_from_peer(&mut self, id: CommId) -> Result<(), CommandError> {
        self.require(id, &[State::RepSent, State::MraRepRcvd])?;
        self.become_established(id);
        Ok(())
    }

    /// Refuses (REJ). For the program the connection is gone.
    ///
    /// # Errors
    /// As [`Machine::accept`].
    pub fn reject(
        &mut self,
        now: Instant,
        id: CommId,
        reason: RejectReason,
        info: &[u8],
        private_data: Bytes<148>,
    ) -> Result<(), CommandError> {
        use State::{MraRepRcvd, MraRepSent, MraReqRcvd, MraReqSent};
        use State::{RepRcvd, RepSent, ReqRcvd, ReqSent};
        self.require(
            id,
            &[ReqSent, MraReqRcvd, ReqRcvd, MraReqSent, RepSent, MraRepRcvd, RepRcvd, MraRepSent],
        )?;
        let mut rej = self.rej_of(id, reason);
        if let Some(info) = Bytes::of(info).filter(|_| !info.is_empty()) {
            rej.info = info;
        }
        rej.info_length = u8::try_from(info.len()).unwrap_or(0);
        rej.private_data = private_data;
        self.say_no(now, id, rej);
        Ok(())
    }

    /// Refuses. A peer that has taken our REP already may have a connection, and a REJ may be lost: it
    /// is asked to end that until it agrees.
    fn say_no(&mut self, now: Instant, id: CommId, rej: Rej) {
        let may_be_connected = matches!(self.state(id), Some(State::RepSent | State::MraRepRcvd));
        let Some(connection) = self.connections.get(&id) else { return };
        let mad = Box::new(Message::from(rej).to_mad(connection.transaction, 0));
        let key = (connection.route.dst, connection.remote_guid, connection.remote_id);
        let (active, route) = (connection.active, connection.route);
        if !active {
            self.keep_answer(now, key, &mad);
        }
        self.send(route, mad);
        match self.dreq_of(id).filter(|_| may_be_connected) {
            Some(dreq) => {
                self.set_state(id, State::DreqSent);
                self.ask_later(id, dreq, now);
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.owned = false;
                }
            }
            None => self.remove(id),
        }
    }

    fn keep_answer(&mut self, now: Instant, key: super::PeerKey<CommId>, mad: &Mad) {
        let until = now.plus_ns(self.config.lifetimes.timewait_ns);
        self.answered.keep(key, until, Box::new(*mad));
    }

    /// Answers a request for a datagram service (SIDR_REP), with options of enhanced connection
    /// establishment. The exchange is over.
    ///
    /// # Errors
    /// As [`Machine::accept`].
    pub fn answer(
        &mut self,
        now: Instant,
        id: CommId,
        rep: &SidrRep,
        options: u32,
    ) -> Result<(), CommandError> {
        let asked = self.require(id, &[State::SidrReqRcvd])?;
        let (peer, route, transaction) = (asked.route.dst, asked.route, asked.transaction);
        let rep = SidrRep { request_id: asked.remote_id, ..rep.clone() };
        let key = (peer, Guid::default(), rep.request_id);
        let mad = Message::from(rep).to_mad(transaction, options);
        self.keep_answer(now, key, &mad);
        self.send(route, Box::new(mad));
        self.remove(id);
        Ok(())
    }

    /// Ends a connection (DREQ), or agrees that it ends (DREP).
    ///
    /// # Errors
    /// As [`Machine::accept`].
    pub fn disconnect(&mut self, now: Instant, id: CommId) -> Result<(), CommandError> {
        let state = self.require(id, &[State::Established, State::DreqRcvd])?.state;
        self.end(now, id, state);
        Ok(())
    }

    fn end(&mut self, now: Instant, id: CommId, state: State) {
        if state == State::DreqRcvd {
            self.say_ended(id);
            self.enter_timewait(id, now);
        } else if let Some(dreq) = self.dreq_of(id) {
            self.set_state(id, State::DreqSent);
            self.ask(id, dreq, now);
        }
    }

    /// The program does not want to hear of a connection any more. What is open is refused, what is
    /// established ends.
    pub fn release(&mut self, now: Instant, id: CommId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.owned = false;
        let state = connection.state;
        self.events.retain(|event| event.id != id);
        match state {
            State::ReqSent | State::MraReqRcvd => {
                let rej = self.rej_of(id, RejectReason::TIMEOUT).named_by(self.config.guid);
                self.say_no(now, id, rej);
            }
            State::ReqRcvd
            | State::MraReqSent
            | State::RepSent
            | State::MraRepRcvd
            | State::RepRcvd
            | State::MraRepSent => {
                let rej = self.rej_of(id, RejectReason::CONSUMER_DEFINED);
                self.say_no(now, id, rej);
            }
            State::Established | State::DreqRcvd => self.end(now, id, state),
            // They end by themselves.
            State::DreqSent | State::Timewait => {}
            State::SidrReqSent => self.remove(id),
            State::SidrReqRcvd => {
                let status = crate::cm::message::SidrStatus::Rejected as u8;
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.owned = true;
                }
                let _ = self.answer(now, id, &SidrRep { status, ..SidrRep::default() }, 0);
            }
        }
    }
}
