//! What the machines tell becomes events of identifiers.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use softrnic_model::cm::ip::{IP_HEADER_LEN, IpHeader};
use softrnic_model::cm::message::cell::Bytes;
use softrnic_model::cm::message::{Rep, Req, SidrRep, SidrReq};
use softrnic_model::cm::{CommId, Event, EventKind, Machine, RejectReason, ServiceId};
use softrnic_model::verbs::{AddressVector, Gid, QpType};
use softrnic_model::wire::Route;

use super::State;
use super::ids::Id;
use crate::cm::{
    CmEvent, CmEventKind, CmId, CmPhase, CmSite, ConnParam, Ece, EventParam, Path, UdParam,
};

const ETIMEDOUT: i32 = 110;
const EINVAL: i32 = 22;
const ENODEV: i32 = 19;

/// The identifier of a tag.
fn id_of(tag: u64) -> CmId {
    CmId((tag & 0xffff_ffff) as u32)
}

/// What the program has put behind the header.
fn behind_header(private_data: &[u8]) -> Vec<u8> {
    match IpHeader::parse(private_data) {
        Ok(_) => private_data.get(IP_HEADER_LEN..).unwrap_or_default().to_vec(),
        Err(_) => private_data.to_vec(),
    }
}

impl State {
    pub(super) fn on_event(
        &mut self,
        device: usize,
        site: &CmSite<'_>,
        machine: &mut Machine,
        event: Event,
    ) {
        let id = id_of(event.tag);
        let comm = event.id;
        match event.kind {
            EventKind::Request { listener_tag, route, req, options, .. } => {
                let listener = id_of(listener_tag);
                if req.mtu > site.mtu as u8 {
                    // The largest one goes with it (IBA table 109).
                    let largest = [site.mtu as u8];
                    let (reason, none) = (RejectReason::INVALID_MTU, Bytes::default());
                    let _ = machine.reject(site.now, comm, reason, &largest, none);
                    return;
                }
                let ece = Ece { vendor_id: req.vendor_id, options };
                let said = (req.service_id, &req.private_data.0[..]);
                let Some(new) = self.asked(device, site, &route, listener, comm, said) else {
                    return machine.release(site.now, comm);
                };
                machine.set_tag(comm, event_tag(listener_tag, new));
                if let Some(known) = self.ids.get_mut(&new) {
                    known.remote_ece = ece;
                    known.qp_type = match req.transport {
                        Req::UNRELIABLE_CONNECTION => QpType::Uc,
                        Req::EXTENDED => QpType::XrcRecv,
                        _ => QpType::Rc,
                    };
                }
                let param = EventParam::Conn(Box::new(param_of_req(&req, ece)));
                self.announce(new, listener, param);
            }
            EventKind::ResolveRequest { listener_tag, route, req, .. } => {
                let listener = id_of(listener_tag);
                let said = (req.service_id, &req.private_data.0[..]);
                let Some(new) = self.asked(device, site, &route, listener, comm, said) else {
                    return machine.release(site.now, comm);
                };
                machine.set_tag(comm, event_tag(listener_tag, new));
                if let Some(known) = self.ids.get_mut(&new) {
                    known.qp_type = QpType::Ud;
                }
                let param = EventParam::Ud(Box::new(param_of_sidr_req(&req)));
                self.announce(new, listener, param);
            }
            EventKind::Reply(rep) => {
                let ece = Ece { vendor_id: rep.vendor_id(), ..self.options_of(machine, comm) };
                if let Some(known) = self.ids.get_mut(&id) {
                    known.remote_ece = ece;
                }
                let param = EventParam::Conn(Box::new(param_of_rep(&rep, ece)));
                self.note(id, CmPhase::Responded, CmEventKind::ConnectResponse, 0, param);
            }
            EventKind::Established => {
                self.note(id, CmPhase::Established, CmEventKind::Established, 0, EventParam::None);
            }
            EventKind::Rejected(rej) => {
                let private_data = rej.private_data.0.to_vec();
                let param = ConnParam { private_data, ..empty() };
                let param = EventParam::Conn(Box::new(param));
                self.forget_connection(id);
                let reason = i32::from(rej.reason.0);
                self.note(id, CmPhase::Disconnected, CmEventKind::Rejected, reason, param);
            }
            EventKind::Unreachable => {
                self.forget_connection(id);
                let (kind, none) = (CmEventKind::Unreachable, EventParam::None);
                self.note(id, CmPhase::Disconnected, kind, -ETIMEDOUT, none);
            }
            EventKind::DisconnectRequest => {
                let (kind, none) = (CmEventKind::Disconnected, EventParam::None);
                self.note(id, CmPhase::Disconnected, kind, 0, none);
            }
            EventKind::Disconnected { timed_out } => {
                let status = if timed_out { -ETIMEDOUT } else { 0 };
                let (kind, none) = (CmEventKind::Disconnected, EventParam::None);
                self.note(id, CmPhase::Disconnected, kind, status, none);
            }
            EventKind::TimewaitExit => {
                self.forget_connection(id);
                let (kind, none) = (CmEventKind::TimewaitExit, EventParam::None);
                self.note(id, CmPhase::Disconnected, kind, 0, none);
            }
            EventKind::Resolved(rep) => self.resolved(id, &rep),
        }
    }

    fn options_of(&self, machine: &Machine, comm: CommId) -> Ece {
        let options = machine.parameters(comm).map_or(0, |parameters| parameters.options);
        Ece { vendor_id: 0, options }
    }

    fn forget_connection(&mut self, id: CmId) {
        if let Some(known) = self.ids.get_mut(&id) {
            known.comm = None;
        }
    }

    fn note(
        &mut self,
        id: CmId,
        phase: CmPhase,
        kind: CmEventKind,
        status: i32,
        param: EventParam,
    ) {
        if let Some(known) = self.ids.get_mut(&id) {
            known.phase = phase;
            self.push(CmEvent { id, listen_id: None, kind, status, param });
        }
    }

    /// Tells who listens of a request, when it is its peer's turn.
    fn announce(&mut self, id: CmId, listener: CmId, param: EventParam) {
        let Some(peer) = self.ids.get(&id).and_then(|known| known.peer) else { return };
        let Some(listening) = self.ids.get_mut(&listener) else { return };
        let (turn, is_last) = listening.turns.queue(peer.ip());
        if let Some(known) = self.ids.get_mut(&id) {
            known.turn = turn;
        }
        let (listen_id, kind, status) = (Some(listener), CmEventKind::ConnectRequest, 0);
        let event = CmEvent { id, listen_id, kind, status, param };
        if is_last {
            return self.push(event);
        }
        let later = |other: &CmEvent| {
            other.listen_id == listen_id
                && self.ids.get(&other.id).is_some_and(|known| known.turn > turn)
        };
        if let Some(channel) = self.channel_of(id) {
            channel.events.insert_before(event, later);
        }
    }

    /// An identifier for a request; none if there is nobody any more who listens, or no room.
    fn asked(
        &mut self,
        device: usize,
        site: &CmSite<'_>,
        route: &Route,
        listener: CmId,
        comm: CommId,
        said: (ServiceId, &[u8]),
    ) -> Option<CmId> {
        let context = self.devices.get(device)?.context.clone();
        let listening = self.ids.get(&listener)?;
        let mut new = Id::new(listening.channel, listening.space);
        new.tos = listening.tos;
        new.ack_timeout = listening.ack_timeout;
        let header = IpHeader::parse(said.1).ok();
        let own_port = said.0.port().map_or(0, |(_, port)| port);
        // A link-local address is one of the interface on which it was asked for.
        let scope = match listening.local {
            Some(SocketAddr::V6(own)) => own.scope_id(),
            Some(SocketAddr::V4(_)) | None => 0,
        };
        let address = |ip: IpAddr, port| match ip {
            IpAddr::V6(ip) if ip.is_unicast_link_local() => {
                SocketAddr::V6(SocketAddrV6::new(ip, port, 0, scope))
            }
            ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => SocketAddr::new(ip, port),
        };
        let local = header.map_or_else(|| route.dst.into(), |header| header.destination);
        let peer = header.map_or_else(|| route.src.into(), |header| header.source);
        let source = address(local, own_port);
        let destination = address(peer, header.map_or(0, |header| header.source_port));
        let gid_index = site.gids.iter().position(|gid| *gid == route.dst)?;
        new.path = Some(Path {
            device: context,
            port: 1,
            gid_index: u8::try_from(gid_index).ok()?,
            source,
            destination,
            hop_limit: 64,
            mtu: None,
        });
        new.local = Some(source);
        new.peer = Some(destination);
        new.device = Some(device);
        new.comm = Some(comm);
        new.phase = CmPhase::Requested;
        new.asked_of = Some(listener);
        self.insert_id(new).ok()
    }

    /// The answer about a datagram service.
    fn resolved(&mut self, id: CmId, rep: &SidrRep) {
        self.forget_connection(id);
        if rep.status != 0 {
            let (kind, status) = (CmEventKind::Unreachable, i32::from(rep.status));
            let param = UdParam {
                private_data: rep.private_data.0.to_vec(),
                address: AddressVector::default(),
                qp_num: rep.qpn,
                qkey: 0,
            };
            let param = EventParam::Ud(Box::new(param));
            return self.note(id, CmPhase::Disconnected, kind, status, param);
        }
        let Some(known) = self.ids.get(&id) else { return };
        let Some(path) = &known.path else {
            let (kind, none) = (CmEventKind::Unreachable, EventParam::None);
            return self.note(id, CmPhase::Disconnected, kind, -EINVAL, none);
        };
        let param = UdParam {
            private_data: rep.private_data.0.to_vec(),
            address: AddressVector {
                dgid: Gid::from(path.destination.ip()),
                sgid_index: path.gid_index,
                hop_limit: path.hop_limit,
                traffic_class: known.tos,
                ..AddressVector::default()
            },
            qp_num: rep.qpn,
            qkey: rep.qkey,
        };
        let param = EventParam::Ud(Box::new(param));
        self.note(id, CmPhase::Established, CmEventKind::Established, 0, param);
    }

    /// A device has failed: who is there is told.
    pub(super) fn on_failure(&mut self, device: usize) {
        let there = self.ids.iter().filter(|(_, id)| id.device == Some(device));
        let there: Vec<CmId> = there.map(|(id, _)| *id).collect();
        for id in there {
            let (kind, none) = (CmEventKind::DeviceRemoval, EventParam::None);
            self.note(id, CmPhase::Disconnected, kind, -ENODEV, none);
        }
    }
}

/// The tag of a new identifier: of the same manager as its listener's.
fn event_tag(listener_tag: u64, id: CmId) -> u64 {
    listener_tag & !0xffff_ffff | u64::from(id.0)
}

fn empty() -> ConnParam {
    ConnParam { retry_count: 0, rnr_retry_count: 0, ..ConnParam::default() }
}

fn param_of_req(req: &Req, ece: Ece) -> ConnParam {
    ConnParam {
        private_data: behind_header(&req.private_data.0),
        responder_resources: req.initiator_depth,
        initiator_depth: req.responder_resources,
        flow_control: req.flow_control,
        retry_count: req.retry_count,
        rnr_retry_count: req.rnr_retry_count,
        srq: req.srq,
        qp_num: req.local_qpn,
        ece,
        ..ConnParam::default()
    }
}

fn param_of_rep(rep: &Rep, ece: Ece) -> ConnParam {
    ConnParam {
        private_data: rep.private_data.0.to_vec(),
        responder_resources: rep.initiator_depth,
        initiator_depth: rep.responder_resources,
        flow_control: rep.flow_control,
        rnr_retry_count: rep.rnr_retry_count,
        srq: rep.srq,
        qp_num: rep.local_qpn,
        ece,
        ..empty()
    }
}

fn param_of_sidr_req(req: &SidrReq) -> UdParam {
    UdParam {
        private_data: behind_header(&req.private_data.0),
        address: AddressVector::default(),
        qp_num: softrnic_model::verbs::QpNum::new(0),
        qkey: 0,
    }
}
