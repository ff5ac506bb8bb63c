//! One connection.

use alloc::boxed::Box;

use super::listener::ListenerId;
use crate::Instant;
use crate::cm::ServiceId;
use crate::cm::mad::Mad;
use crate::cm::message::cell::{CommId, Guid};
use crate::planted;
use crate::verbs::{Psn, QpNum};
use crate::wire::Route;

/// How far a connection is (IBA 12.9.7), with the names of the specification. One that is idle, or
/// listens, is not in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// REQ sent.
    ReqSent,
    /// REQ sent, and the peer has asked for patience.
    MraReqRcvd,
    /// REQ received: the program is to answer.
    ReqRcvd,
    /// The same, and the peer was asked for patience.
    MraReqSent,
    /// REP sent.
    RepSent,
    /// REP sent, and the peer has asked for patience.
    MraRepRcvd,
    /// REP received: the program is to answer.
    RepRcvd,
    /// The same, and the peer was asked for patience.
    MraRepSent,
    /// There is a connection.
    Established,
    /// DREQ sent.
    DreqSent,
    /// DREQ received: the program is to answer.
    DreqRcvd,
    /// It has ended; late packets of it may be about.
    Timewait,
    /// SIDR_REQ sent.
    SidrReqSent,
    /// SIDR_REQ received: the program is to answer.
    SidrReqRcvd,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::ReqSent,
        Self::MraReqRcvd,
        Self::ReqRcvd,
        Self::MraReqSent,
        Self::RepSent,
        Self::MraRepRcvd,
        Self::RepRcvd,
        Self::MraRepSent,
        Self::Established,
        Self::DreqSent,
        Self::DreqRcvd,
        Self::Timewait,
        Self::SidrReqSent,
        Self::SidrReqRcvd,
    ];

    /// Its name, for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReqSent => "REQ sent",
            Self::MraReqRcvd => "MRA (REQ) rcvd",
            Self::ReqRcvd => "REQ rcvd",
            Self::MraReqSent => "MRA (REQ) sent",
            Self::RepSent => "REP sent",
            Self::MraRepRcvd => "MRA (REP) rcvd",
            Self::RepRcvd => "REP rcvd",
            Self::MraRepSent => "MRA (REP) sent",
            Self::Established => "established",
            Self::DreqSent => "DREQ sent",
            Self::DreqRcvd => "DREQ rcvd",
            Self::Timewait => "time wait",
            Self::SidrReqSent => "SIDR_REQ sent",
            Self::SidrReqRcvd => "SIDR_REQ rcvd",
        }
    }
}

/// The service of the queue pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// Reliable connection.
    #[default]
    Rc,
    /// Unreliable connection.
    Uc,
    /// Extended reliable connection.
    Xrc,
}

/// Whether a queue pair can be one end of a connection: neither one of management nor of no port.
pub(super) fn can_connect(qpn: QpNum) -> bool {
    qpn > QpNum::GSI && qpn != QpNum::MULTICAST
}

/// What both ends have agreed to, from the point of view of this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// The service.
    pub transport: Transport,
    /// The peer's queue pair, once it is known.
    pub remote_qpn: Option<QpNum>,
    /// The first PSN that the peer sends: this end says it.
    pub rq_psn: Option<Psn>,
    /// The first PSN that this end sends: the peer says it.
    pub sq_psn: Option<Psn>,
    /// Path MTU code.
    pub mtu: u8,
    /// READs and atomics that the peer may have outstanding here: the lower of both wishes.
    pub responder_resources: u8,
    /// READs and atomics that this end may have outstanding there: the lower of both wishes.
    pub initiator_depth: u8,
    /// Retries after a timeout.
    pub retry_count: u8,
    /// Retries after RNR, as the peer asks.
    pub rnr_retry_count: u8,
    /// Local ACK timeout code.
    pub ack_timeout: u8,
    /// Flow label of the packets.
    pub flow_label: u32,
    /// Their traffic class.
    pub traffic_class: u8,
    /// Their hop limit.
    pub hop_limit: u8,
    /// The peer has end-to-end flow control.
    pub flow_control: bool,
    /// The peer's receives come from a shared queue.
    pub srq: bool,
    /// Whose options the peer has sent.
    pub vendor_id: u32,
    /// The options.
    pub options: u32,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Connection {
    /// The program's number of it.
    pub(super) tag: u64,
    /// The program still wants to hear of it.
    pub(super) owned: bool,
    pub(super) state: State,
    /// This end has asked.
    pub(super) active: bool,
    /// What was asked for.
    pub(super) service_id: ServiceId,
    /// The way to the peer.
    pub(super) route: Route,
    pub(super) transaction: u64,
    pub(super) remote_id: CommId,
    pub(super) remote_guid: Guid,
    pub(super) local_qpn: QpNum,
    pub(super) parameters: Parameters,
    /// What was sent last and may have to be sent again.
    pub(super) sent: Option<Box<Mad>>,
    pub(super) tries_left: u8,
    pub(super) wait_ns: u64,
    pub(super) deadline: Option<Instant>,
    /// The listener in whose backlog it is.
    pub(super) listener: Option<ListenerId>,
}

impl Connection {
    pub(super) fn new(state: State, tag: u64, route: Route, transaction: u64) -> Self {
        Self {
            tag,
            owned: true,
            state,
            active: matches!(state, State::ReqSent | State::SidrReqSent),
            service_id: ServiceId::default(),
            route,
            transaction,
            remote_id: CommId::default(),
            remote_guid: Guid::default(),
            local_qpn: QpNum::new(0),
            parameters: Parameters::default(),
            sent: None,
            tries_left: 0,
            wait_ns: 0,
            deadline: None,
            listener: None,
        }
    }

    /// Whether a message comes from the peer, as far as its address tells.
    pub(super) fn is_from_peer(&self, route: &Route) -> bool {
        route.src == self.route.dst || planted::has(planted::Fault::OtherAddress)
    }
}
