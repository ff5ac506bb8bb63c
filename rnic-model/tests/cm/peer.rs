//! A machine and a peer that a test plays by hand.

use softrnic_model::Instant;
use softrnic_model::cm::ip::IpHeader;
use softrnic_model::cm::mad::Mad;
use softrnic_model::cm::message::cell::Bytes;
use softrnic_model::cm::message::*;
use softrnic_model::cm::{
    Accept, CommId, Connect, Event, Guid, Lifetimes, Listen, ListenAt, Machine, MachineConfig,
    PortSpace, RejectReason, Resolve, ServiceId, State,
};
use softrnic_model::verbs::{Gid, Psn, QpNum};
use softrnic_model::wire::Route;

pub(crate) const US: [u8; 4] = [10, 0, 0, 1];
pub(crate) const THEM: [u8; 4] = [10, 0, 0, 2];
pub(crate) const OUR_QP: QpNum = QpNum::new(0x01_0011);
pub(crate) const THEIR_QP: QpNum = QpNum::new(0x02_0022);
pub(crate) const THEIR_ID: CommId = CommId(0x0200_0777);
pub(crate) const THEIR_GUID: Guid = Guid(0x0202);
pub(crate) const SERVICE: ServiceId = ServiceId::of_port(PortSpace::Tcp, 7174);
/// The exchange of a peer that asks.
pub(crate) const THEIR_EXCHANGE: u64 = 0x5_0000_0777;

/// A machine with one listener, and a hand-made peer.
pub(crate) struct Play {
    pub(crate) machine: Machine,
    pub(crate) now: Instant,
    /// The connection that the play is about.
    pub(crate) id: CommId,
    /// The exchange in which it began.
    pub(crate) exchange: u64,
}

pub(crate) fn config() -> MachineConfig {
    MachineConfig {
        guid: Guid(0x0101),
        slot: 1,
        first_id: 0x00ff_fffe,
        transaction_high: 9,
        connections_max: 1 << 10,
        lifetimes: Lifetimes::default(),
    }
}

pub(crate) fn route_from(peer: [u8; 4]) -> Route {
    Route { src: Gid::from_v4(peer), dst: Gid::from_v4(US), hop_limit: 64, ..Route::default() }
}

fn header() -> [u8; 36] {
    let header = IpHeader { source_port: 40_000, source: THEM.into(), destination: US.into() };
    header.to_bytes()
}

impl Play {
    pub(crate) fn new() -> Self {
        let mut machine = Machine::new(config());
        let listen = Listen { tag: 5, service_id: SERVICE, at: ListenAt::All, backlog: 8 };
        machine.listen(listen);
        let (now, id) = (Instant::from_ns(1), CommId(0));
        Self { machine, now, id, exchange: THEIR_EXCHANGE }
    }

    /// The peer says something.
    pub(crate) fn hears(&mut self, message: impl Into<Message>) {
        self.hears_in(self.exchange, THEM, message);
    }

    pub(crate) fn hears_in(&mut self, exchange: u64, from: [u8; 4], message: impl Into<Message>) {
        let mad = message.into().to_mad(exchange, 0);
        self.machine.on_mad(self.now, &route_from(from), &mad);
    }

    /// What the machine has said since the last time.
    pub(crate) fn said(&mut self) -> Vec<Message> {
        let mads = std::iter::from_fn(|| self.machine.next_mad());
        mads.map(|out| Message::parse(&*out.mad).unwrap().1).collect()
    }

    pub(crate) fn said_mads(&mut self) -> Vec<Mad> {
        std::iter::from_fn(|| self.machine.next_mad()).map(|out| *out.mad).collect()
    }

    pub(crate) fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.machine.next_event()).collect()
    }

    pub(crate) fn forget(&mut self) {
        self.said();
        self.events();
    }

    pub(crate) fn connect(&mut self) {
        let connect = Connect {
            tag: 1,
            route: Route { src: Gid::from_v4(US), dst: Gid::from_v4(THEM), ..route_from(THEM) },
            service_id: SERVICE,
            private_data: Bytes::of(&header()).unwrap(),
            local_qpn: OUR_QP,
            starting_psn: Psn::new(0x1111),
            responder_resources: 4,
            initiator_depth: 2,
            mtu: 3,
            ack_timeout: 14,
            ..Connect::default()
        };
        self.id = self.machine.connect(self.now, &connect).unwrap();
        self.exchange = 9 << 32 | u64::from(self.id.0);
    }

    pub(crate) fn resolve(&mut self) {
        let resolve = Resolve {
            tag: 1,
            route: Route { src: Gid::from_v4(US), dst: Gid::from_v4(THEM), ..route_from(THEM) },
            service_id: SERVICE,
            private_data: Bytes::of(&header()).unwrap(),
        };
        self.id = self.machine.resolve(self.now, &resolve).unwrap();
        self.exchange = 9 << 32 | u64::from(self.id.0);
    }

    /// The peer asks; the connection is that.
    pub(crate) fn asked(&mut self) {
        self.hears(self.req());
        self.id = self.events().pop().expect("a request").id;
        self.machine.set_tag(self.id, 1);
    }

    pub(crate) fn accept(&mut self) {
        let accept = Accept {
            local_qpn: OUR_QP,
            starting_psn: Psn::new(0x2222),
            responder_resources: 9,
            initiator_depth: 9,
            ..Accept::default()
        };
        self.machine.accept(self.now, self.id, &accept).unwrap();
    }

    /// A machine whose connection is in this state, reached as it is in life.
    pub(crate) fn in_state(state: State) -> Self {
        let mut play = Self::new();
        match state {
            State::ReqSent => play.connect(),
            State::MraReqRcvd => {
                play.connect();
                play.hears(play.mra(Answered::Req));
            }
            State::RepRcvd => {
                play.connect();
                play.hears(play.rep());
            }
            State::MraRepSent => {
                play.connect();
                play.hears(play.rep());
                play.hears(play.rep());
            }
            State::Established => {
                play.connect();
                play.hears(play.rep());
                play.machine.ready(play.id).unwrap();
            }
            State::DreqSent => {
                play = Self::in_state(State::Established);
                play.machine.disconnect(play.now, play.id).unwrap();
            }
            State::DreqRcvd => {
                play = Self::in_state(State::Established);
                play.hears(play.dreq());
            }
            State::Timewait => {
                play = Self::in_state(State::DreqSent);
                play.hears(play.drep());
            }
            State::ReqRcvd => play.asked(),
            State::MraReqSent => {
                play.asked();
                play.hears(play.req());
            }
            State::RepSent => {
                play.asked();
                play.accept();
            }
            State::MraRepRcvd => {
                play.asked();
                play.accept();
                play.hears(play.mra(Answered::Rep));
            }
            State::SidrReqSent => play.resolve(),
            State::SidrReqRcvd => {
                play.hears(play.sidr_req());
                play.id = play.events().pop().expect("a request").id;
                play.machine.set_tag(play.id, 1);
            }
        }
        play.forget();
        assert_eq!(play.machine.state(play.id), Some(state));
        play
    }

    pub(crate) fn req(&self) -> Req {
        Req {
            local_comm_id: THEIR_ID,
            service_id: SERVICE,
            local_ca_guid: THEIR_GUID,
            local_qpn: THEIR_QP,
            responder_resources: 3,
            initiator_depth: 5,
            starting_psn: Psn::new(0x3333),
            mtu: 3,
            primary_local_ack_timeout: 14,
            private_data: Bytes::of(&header()).unwrap(),
            ..Req::default()
        }
    }

    pub(crate) fn sidr_req(&self) -> SidrReq {
        SidrReq {
            request_id: THEIR_ID,
            service_id: SERVICE,
            private_data: Bytes::of(&header()).unwrap(),
            ..SidrReq::default()
        }
    }

    pub(crate) fn rep(&self) -> Rep {
        Rep {
            local_comm_id: THEIR_ID,
            remote_comm_id: self.id,
            local_qpn: THEIR_QP,
            starting_psn: Psn::new(0x4444),
            responder_resources: 1,
            initiator_depth: 9,
            local_ca_guid: THEIR_GUID,
            ..Rep::default()
        }
    }

    pub(crate) fn mra(&self, message: Answered) -> Mra {
        Mra {
            local_comm_id: THEIR_ID,
            remote_comm_id: self.id,
            message: message as u8,
            service_timeout: 22,
            ..Mra::default()
        }
    }

    pub(crate) fn rej(&self, message: Answered) -> Rej {
        Rej {
            local_comm_id: THEIR_ID,
            remote_comm_id: self.id,
            message: message as u8,
            reason: RejectReason::CONSUMER_DEFINED,
            ..Rej::default()
        }
    }

    pub(crate) fn rtu(&self) -> Rtu {
        Rtu { local_comm_id: THEIR_ID, remote_comm_id: self.id, ..Rtu::default() }
    }

    pub(crate) fn dreq(&self) -> Dreq {
        let (local_comm_id, remote_comm_id) = (THEIR_ID, self.id);
        Dreq { local_comm_id, remote_comm_id, remote_qpn: OUR_QP, ..Dreq::default() }
    }

    pub(crate) fn drep(&self) -> Drep {
        Drep { local_comm_id: THEIR_ID, remote_comm_id: self.id, ..Drep::default() }
    }

    pub(crate) fn sidr_rep(&self) -> SidrRep {
        SidrRep { request_id: self.id, service_id: SERVICE, qpn: THEIR_QP, ..SidrRep::default() }
    }

    pub(crate) fn lap(&self) -> Lap {
        let (local_comm_id, remote_comm_id) = (THEIR_ID, self.id);
        Lap { local_comm_id, remote_comm_id, remote_qpn: OUR_QP, ..Lap::default() }
    }

    pub(crate) fn apr(&self) -> Apr {
        Apr { local_comm_id: THEIR_ID, remote_comm_id: self.id, ..Apr::default() }
    }
}
