//! Asking a peer: finding the way, and the request.

use std::net::SocketAddr;

use softrnic_model::cm::ip::{IP_HEADER_LEN, IpHeader};
use softrnic_model::cm::message::cell::Bytes;
use softrnic_model::cm::{Connect, Resolve, ServiceId, Transport};
use softrnic_model::verbs::{Gid, QpType};
use softrnic_model::wire::Route;

use super::ids::Id;
use super::{EmulatedManager, State};
use crate::cm::resolve::canonical;
use crate::cm::{Cm, CmError, CmEvent, CmEventKind, CmId, CmPhase, ConnParam, EventParam, Path};

/// Local ACK timeout code of connections, unless the program says another one: 67 ms.
const ACK_TIMEOUT: u8 = 14;

impl EmulatedManager {
    pub(super) fn find(
        &self,
        id: CmId,
        source: Option<SocketAddr>,
        destination: SocketAddr,
    ) -> Cm<()> {
        let bound = {
            let state = self.lock();
            let known = state.id(id)?;
            known.require(&[CmPhase::Idle, CmPhase::Bound])?;
            known.local
        };
        let found = self.resolver.path(&self.devices_of(), bound.or(source), destination);
        let event =
            |kind, status| CmEvent { id, listen_id: None, kind, status, param: EventParam::None };
        match found.and_then(|path| self.note_path(id, &path, CmPhase::AddrResolved)) {
            Ok(()) => self.lock().push(event(CmEventKind::AddrResolved, 0)),
            // What the caller has said wrong it is told at once.
            Err(error) if source.is_some() && bound.is_none() && is_of_source(&error) => {
                return Err(error);
            }
            Err(error) => self.lock().push(event(CmEventKind::AddrError, -error.errno())),
        }
        Ok(())
    }

    fn devices_of(&self) -> Vec<std::sync::Arc<dyn crate::provider::Context>> {
        use crate::cm::ConnectionManager as _;
        self.devices()
    }

    pub(super) fn take_path(&self, id: CmId, path: &Path) -> Cm<()> {
        self.lock().id(id)?.require(&[CmPhase::Idle, CmPhase::Bound])?;
        self.note_path(id, path, CmPhase::RouteResolved)
    }

    fn note_path(&self, id: CmId, path: &Path, phase: CmPhase) -> Cm<()> {
        let mut state = self.lock();
        let place = state.place_of(&path.device);
        let place = place.ok_or_else(|| CmError::no_device("not a device of this manager"))?;
        let local = match state.id(id)?.local {
            Some(local) if local.ip().is_unspecified() => {
                super::ports::with_port(path.source, local.port())
            }
            Some(local) => local,
            None => state.bind_source(id, path.source)?,
        };
        let known = state.id_mut(id)?;
        known.local = Some(local);
        known.peer = Some(path.destination);
        known.path = Some(Path { source: local, ..path.clone() });
        known.device = Some(place);
        known.phase = phase;
        Ok(())
    }

    pub(super) fn ask_peer(&self, id: CmId, param: &ConnParam) -> Cm<()> {
        let (device, mtu) = {
            let state = self.lock();
            let known = state.id(id)?;
            known.require(&[CmPhase::RouteResolved, CmPhase::AddrResolved])?;
            let place = known.device.and_then(|place| state.devices.get(place));
            let device = place.ok_or_else(super::no_such_id)?.clone();
            (device, known.path.as_ref().and_then(|path| path.mtu))
        };
        let mtu = match mtu {
            Some(mtu) => mtu,
            None => device.context.query_port(1)?.active_mtu,
        };
        let mut outcome = Err(super::no_such_id());
        device.cm.with_machine(&mut |machine, now| {
            let mut state = self.lock();
            let tag = device.tag(id);
            outcome = state.request(id, param).and_then(|request| {
                let comm = match request {
                    Request::Connection(mut ask) => {
                        ask.mtu = mtu as u8;
                        machine.connect(now, &Connect { tag, ..*ask })
                    }
                    Request::Resolution(ask) => machine.resolve(now, &Resolve { tag, ..*ask }),
                };
                let comm = comm.map_err(|error| CmError::full(error.to_string()))?;
                let known = state.id_mut(id)?;
                known.comm = Some(comm);
                known.phase = CmPhase::Connecting;
                Ok(())
            });
        })?;
        outcome
    }
}

/// Whether it is about the source address.
fn is_of_source(error: &CmError) -> bool {
    const EADDRNOTAVAIL: i32 = 99;
    const EADDRINUSE: i32 = 98;
    const EINVAL: i32 = 22;
    matches!(error.errno(), EADDRNOTAVAIL | EADDRINUSE | EINVAL)
}

/// What is asked of a peer.
enum Request {
    Connection(Box<Connect>),
    Resolution(Box<Resolve>),
}

impl State {
    pub(super) fn route_is_known(&mut self, id: CmId) -> Cm<()> {
        let known = self.id_mut(id)?;
        known.require(&[CmPhase::AddrResolved])?;
        known.phase = CmPhase::RouteResolved;
        // The route is the system's affair; there is no more to find out on RoCE.
        let (kind, status) = (CmEventKind::RouteResolved, 0);
        self.push(CmEvent { id, listen_id: None, kind, status, param: EventParam::None });
        Ok(())
    }

    /// The request of an identifier.
    fn request(&mut self, id: CmId, param: &ConnParam) -> Cm<Request> {
        let known = self.id_mut(id)?;
        known.require(&[CmPhase::RouteResolved, CmPhase::AddrResolved])?;
        let datagram = known.space.is_datagram() || param.qp_type == QpType::Ud;
        let (Some(local), Some(peer)) = (known.local, known.peer) else {
            return Err(CmError::invalid("it has no addresses"));
        };
        let route = route_of(known, local, peer);
        let service_id = ServiceId::of_port(known.space, peer.port());
        let header = IpHeader {
            source_port: local.port(),
            source: canonical(local).ip(),
            destination: canonical(peer).ip(),
        };
        let said = [&header.to_bytes()[..], &param.private_data].concat();
        if datagram {
            known.qp_type = QpType::Ud;
            let private_data = Bytes::of(&said).ok_or_else(|| too_long(216 - IP_HEADER_LEN))?;
            return Ok(Request::Resolution(Box::new(Resolve {
                tag: 0,
                route,
                service_id,
                private_data,
            })));
        }
        known.qp_type = param.qp_type;
        let private_data = Bytes::of(&said).ok_or_else(|| too_long(92 - IP_HEADER_LEN))?;
        Ok(Request::Connection(Box::new(Connect {
            route,
            service_id,
            private_data,
            transport: transport_of(param.qp_type)?,
            local_qpn: param.qp_num,
            starting_psn: known.psn,
            responder_resources: param.responder_resources,
            initiator_depth: param.initiator_depth,
            flow_control: param.flow_control,
            srq: param.srq,
            retry_count: param.retry_count.min(7),
            rnr_retry_count: param.rnr_retry_count.min(7),
            ack_timeout: known.ack_timeout.unwrap_or(ACK_TIMEOUT),
            vendor_id: param.ece.vendor_id,
            options: param.ece.options,
            ..Connect::default()
        })))
    }
}

pub(super) fn too_long(most: usize) -> CmError {
    CmError::invalid(format!("more than {most} bytes of private data"))
}

fn transport_of(qp_type: QpType) -> Cm<Transport> {
    match qp_type {
        QpType::Rc => Ok(Transport::Rc),
        QpType::Uc => Ok(Transport::Uc),
        QpType::XrcSend | QpType::XrcRecv => Ok(Transport::Xrc),
        QpType::Ud => Err(CmError::invalid("a datagram queue pair has no connection")),
    }
}

/// The way of messages, and of the connection's packets.
fn route_of(id: &Id, local: SocketAddr, peer: SocketAddr) -> Route {
    Route {
        src: Gid::from(local.ip()),
        dst: Gid::from(peer.ip()),
        src_port: 0,
        traffic_class: id.tos & !0b11,
        hop_limit: id.path.as_ref().map_or(64, |path| path.hop_limit),
        flow_label: 0,
    }
}
