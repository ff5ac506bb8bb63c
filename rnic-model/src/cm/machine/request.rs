//! Requests arrive: for a connection, and for a datagram service.

use alloc::boxed::Box;
use core::net::IpAddr;

use super::connection::{Connection, Parameters, State, Transport, can_connect};
use super::event::EventKind;
use super::listener::ListenerId;
use super::send::reversed;
use super::{Machine, PeerKey};
use crate::Instant;
use crate::cm::ip::{IpHeader, IpHeaderError};
use crate::cm::mad::MadHeader;
use crate::cm::message::cell::{CommId, Guid};
use crate::cm::message::{Answered, Message, Req, SidrRep, SidrReq, SidrStatus, answer_of_nobody};
use crate::cm::{RejectReason, ServiceId};
use crate::wire::Route;

impl Machine {
    pub(super) fn on_req(&mut self, now: Instant, route: &Route, header: &MadHeader, req: Req) {
        if req.local_comm_id.is_none() {
            // No answer could name it.
            return self.dropped += 1;
        }
        let key = (route.src, req.local_ca_guid, req.local_comm_id);
        if let Some(&id) = self.remote_ids.get(&key) {
            return self.on_repeated_req(id, route, header, &req);
        }
        if let Some(answer) = self.answered.find(&key, now) {
            return self.send(reversed(route), answer);
        }
        if let Some(&id) = self.remote_qps.get(&(route.src, req.local_ca_guid, req.local_qpn)) {
            // The peer has begun anew, and we have not noticed its end (IBA 12.9.8.3.1).
            self.refuse(route, header, &req, RejectReason::STALE_CONN);
            return self.end_stale(id, now);
        }
        let listener = match self.judge_req(&req) {
            Ok(listener) => listener,
            Err(reason) => return self.refuse(route, header, &req, reason),
        };
        let Some(id) = self.admit(listener, route) else { return self.dropped += 1 };
        let mut connection =
            Connection::new(State::ReqRcvd, 0, reversed(route), header.transaction);
        connection.service_id = req.service_id;
        connection.remote_id = req.local_comm_id;
        connection.remote_guid = req.local_ca_guid;
        connection.parameters = parameters_of(&req, header.modifier);
        self.take_in(id, listener, connection, key);
        self.know_peer_qp(id);
        let listener_tag = self.listeners.get(&listener).map_or(0, |one| one.listen.tag);
        let (route, req) = (*route, Box::new(req));
        let options = header.modifier;
        self.tell(id, EventKind::Request { listener, listener_tag, route, req, options });
    }

    /// The answer was lost, or takes long.
    fn on_repeated_req(&mut self, id: CommId, route: &Route, header: &MadHeader, req: &Req) {
        match self.state(id) {
            Some(State::ReqRcvd | State::MraReqSent) => {
                self.set_state(id, State::MraReqSent);
                self.say_wait(id, Answered::Req);
            }
            Some(State::RepSent | State::MraRepRcvd) => self.repeat(id),
            Some(State::Timewait) => self.refuse(route, header, req, RejectReason::STALE_CONN),
            Some(
                State::ReqSent
                | State::MraReqRcvd
                | State::RepRcvd
                | State::MraRepSent
                | State::Established
                | State::DreqSent
                | State::DreqRcvd
                | State::SidrReqSent
                | State::SidrReqRcvd,
            )
            | None => self.dropped += 1,
        }
    }

    fn judge_req(&self, req: &Req) -> Result<ListenerId, RejectReason> {
        if transport_of(req).is_none() {
            return Err(RejectReason::INVALID_TRANSPORT_TYPE);
        }
        if !can_connect(req.local_qpn) {
            return Err(RejectReason::UNSUPPORTED);
        }
        let destination = destination(req.service_id, &req.private_data.0)
            .map_err(|_| RejectReason::CONSUMER_DEFINED)?;
        let listener = self.listener_of(req.service_id, destination);
        listener.ok_or(RejectReason::INVALID_SERVICE_ID)
    }

    pub(super) fn on_sidr_req(
        &mut self,
        now: Instant,
        route: &Route,
        header: &MadHeader,
        req: SidrReq,
    ) {
        if req.request_id.is_none() {
            return self.dropped += 1;
        }
        // A request for resolution does not name its adapter.
        let key = (route.src, Guid::default(), req.request_id);
        if self.remote_ids.contains_key(&key) {
            return self.dropped += 1;
        }
        if let Some(answer) = self.answered.find(&key, now) {
            return self.send(reversed(route), answer);
        }
        let Ok(destination) = destination(req.service_id, &req.private_data.0) else {
            let rep = SidrRep {
                request_id: req.request_id,
                status: SidrStatus::Rejected as u8,
                service_id: req.service_id,
                ..SidrRep::default()
            };
            let mad = Message::from(rep).to_mad(header.transaction, 0);
            return self.send(reversed(route), Box::new(mad));
        };
        let Some(listener) = self.listener_of(req.service_id, destination) else {
            if let Some(mad) = answer_of_nobody(header, &Message::SidrReq(req)) {
                self.send(reversed(route), Box::new(mad));
            }
            return;
        };
        let Some(id) = self.admit(listener, route) else { return self.dropped += 1 };
        let mut connection =
            Connection::new(State::SidrReqRcvd, 0, reversed(route), header.transaction);
        connection.service_id = req.service_id;
        connection.remote_id = req.request_id;
        self.take_in(id, listener, connection, key);
        let listener_tag = self.listeners.get(&listener).map_or(0, |one| one.listen.tag);
        let (route, req) = (*route, Box::new(req));
        self.tell(id, EventKind::ResolveRequest { listener, listener_tag, route, req });
    }

    /// An ID for one more request of a peer, if it may wait.
    fn admit(&mut self, listener: ListenerId, route: &Route) -> Option<CommId> {
        let peer = route.src;
        let own = self.asked_by.get(&peer).copied().unwrap_or(0);
        // Room that ended connections take can be had again.
        let total = u32::try_from(self.connections.len()).unwrap_or(u32::MAX);
        let limit = self.config.connections_max;
        if !self.listeners.get(&listener)?.admits(peer)
            || !super::admission::admits(own, total.min(limit.saturating_sub(1)), limit)
        {
            return None;
        }
        self.fresh_id()
    }

    fn take_in(
        &mut self,
        id: CommId,
        listener: ListenerId,
        mut connection: Connection,
        key: PeerKey<CommId>,
    ) {
        let peer = connection.route.dst;
        connection.listener = Some(listener);
        if let Some(listener) = self.listeners.get_mut(&listener) {
            listener.add(peer);
        }
        *self.asked_by.entry(peer).or_default() += 1;
        self.remote_ids.insert(key, id);
        self.connections.insert(id, Box::new(connection));
        self.changed.insert(id);
    }

    /// Notes whose queue pair the peer's is, so that one that has begun anew is noticed.
    pub(super) fn know_peer_qp(&mut self, id: CommId) {
        if let Some(connection) = self.connections.get(&id)
            && let Some(qpn) = connection.parameters.remote_qpn
        {
            self.remote_qps.insert((connection.route.dst, connection.remote_guid, qpn), id);
        }
    }

    /// The peer has begun anew with a queue pair that is connected here.
    pub(super) fn end_stale(&mut self, id: CommId, now: Instant) {
        if self.state(id) == Some(State::Established)
            && let Some(dreq) = self.dreq_of(id)
        {
            self.set_state(id, State::DreqSent);
            self.ask(id, dreq, now);
        }
    }
}

/// Where a request wants to go, as its IP addressing header says; services that are no ports need
/// not have one.
fn destination(
    service_id: ServiceId,
    private_data: &[u8],
) -> Result<Option<IpAddr>, IpHeaderError> {
    match IpHeader::parse(private_data) {
        Ok(header) => Ok(Some(header.destination)),
        Err(_) if service_id.port().is_none() => Ok(None),
        Err(error) => Err(error),
    }
}

fn transport_of(req: &Req) -> Option<Transport> {
    match (req.transport, req.extended_transport) {
        (Req::RELIABLE_CONNECTION, _) => Some(Transport::Rc),
        (Req::UNRELIABLE_CONNECTION, _) => Some(Transport::Uc),
        (Req::EXTENDED, Req::XRC) => Some(Transport::Xrc),
        _ => None,
    }
}

/// What a request proposes, from the point of view of who gets it.
fn parameters_of(req: &Req, options: u32) -> Parameters {
    Parameters {
        transport: transport_of(req).unwrap_or_default(),
        remote_qpn: Some(req.local_qpn),
        rq_psn: None,
        sq_psn: Some(req.starting_psn),
        mtu: req.mtu,
        responder_resources: req.initiator_depth,
        initiator_depth: req.responder_resources,
        retry_count: req.retry_count,
        rnr_retry_count: req.rnr_retry_count,
        ack_timeout: req.primary_local_ack_timeout,
        flow_label: req.primary_flow_label,
        traffic_class: req.primary_traffic_class,
        hop_limit: req.primary_hop_limit,
        flow_control: req.flow_control,
        srq: req.srq,
        vendor_id: req.vendor_id,
        options,
    }
}
