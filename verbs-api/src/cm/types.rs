//! The words of connection management.

use std::net::SocketAddr;
use std::sync::Arc;

use softrnic_model::cm::PortSpace;
use softrnic_model::verbs::{AddressVector, Mtu, QpNum, QpType};

use crate::provider::Context;

/// An identifier (`struct rdma_cm_id`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CmId(pub u32);

/// An event channel (`struct rdma_event_channel`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventChannelId(pub u32);

/// Where an identifier's peer is and how to get there: what resolving an address and a route gives.
#[derive(Clone, Debug)]
pub struct Path {
    /// The device that packets leave by.
    pub device: Arc<dyn Context>,
    /// Its port; 1 on emulated devices.
    pub port: u8,
    /// Which GID of the port is the source.
    pub gid_index: u8,
    /// Own address. Port 0 lets one be chosen.
    pub source: SocketAddr,
    /// The peer's address.
    pub destination: SocketAddr,
    /// Hop limit or time to live.
    pub hop_limit: u8,
    /// The path MTU; `None` is that of the port.
    pub mtu: Option<Mtu>,
}

/// What a program says about a connection that it wants or takes (`struct rdma_conn_param`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnParam {
    /// What the peer's program gets to see: at most 56 bytes with a request of a port space of
    /// connections, 180 with one of datagrams, 196 when it is taken (136 of datagrams).
    pub private_data: Vec<u8>,
    /// READs and atomics that the peer may have outstanding here.
    pub responder_resources: u8,
    /// READs and atomics that this end may have outstanding at the peer.
    pub initiator_depth: u8,
    /// End-to-end flow control.
    pub flow_control: bool,
    /// Retries after a timeout, up to 7; not looked at by who takes a connection.
    pub retry_count: u8,
    /// Retries after RNR, up to 7 (without end).
    pub rnr_retry_count: u8,
    /// Whether receives come from a shared queue.
    pub srq: bool,
    /// The queue pair.
    pub qp_num: QpNum,
    /// Its type.
    pub qp_type: QpType,
    /// The Q_Key of a datagram service that is taken; 0 is the usual one of the port space.
    pub qkey: u32,
    /// What the vendors' libraries tell each other.
    pub ece: Ece,
}

impl Default for ConnParam {
    /// A reliable connection with the usual retries, no READs, and queue pair 0.
    fn default() -> Self {
        Self {
            private_data: Vec::new(),
            responder_resources: 0,
            initiator_depth: 0,
            flow_control: false,
            retry_count: 7,
            rnr_retry_count: 7,
            srq: false,
            qp_num: QpNum::new(0),
            qp_type: QpType::Rc,
            qkey: 0,
            ece: Ece::default(),
        }
    }
}

/// Enhanced connection establishment (`struct ibv_ece`): 24 bits of vendor and 32 of options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ece {
    /// Whose options they are; 0 is nobody's.
    pub vendor_id: u32,
    /// The options.
    pub options: u32,
}

/// Where datagrams to a peer or a group go (`struct rdma_ud_param`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdParam {
    /// What the peer's program has said, padded with zeros to the length of the field.
    pub private_data: Vec<u8>,
    /// The way there.
    pub address: AddressVector,
    /// The queue pair there.
    pub qp_num: QpNum,
    /// Its Q_Key.
    pub qkey: u32,
}

/// What happened (`enum rdma_cm_event_type`, the same numbers).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum CmEventKind {
    /// The address is known, and the device.
    AddrResolved = 0,
    /// It is not to be found out.
    AddrError,
    /// The route is known.
    RouteResolved,
    /// There is none.
    RouteError,
    /// Somebody wants to connect: the event is of a new identifier.
    ConnectRequest,
    /// The peer takes the connection; [`ConnectionManager::establish`](super::ConnectionManager::establish)
    /// ends it.
    ConnectResponse,
    /// Connecting failed.
    ConnectError,
    /// The peer does not answer.
    Unreachable,
    /// The peer refuses; the status is the reason.
    Rejected,
    /// There is a connection.
    Established,
    /// There is none any more.
    Disconnected,
    /// The device is gone.
    DeviceRemoval,
    /// The group is joined.
    MulticastJoin,
    /// It is not, or no more.
    MulticastError,
    /// The own address belongs to another device now.
    AddrChange,
    /// The queue pair of a connection that has ended may be used again.
    TimewaitExit,
}

impl CmEventKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 16] = [
        Self::AddrResolved,
        Self::AddrError,
        Self::RouteResolved,
        Self::RouteError,
        Self::ConnectRequest,
        Self::ConnectResponse,
        Self::ConnectError,
        Self::Unreachable,
        Self::Rejected,
        Self::Established,
        Self::Disconnected,
        Self::DeviceRemoval,
        Self::MulticastJoin,
        Self::MulticastError,
        Self::AddrChange,
        Self::TimewaitExit,
    ];

    /// The one with this number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u32 == number)
    }
}

/// An event (`struct rdma_cm_event`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CmEvent {
    /// Whose event it is.
    pub id: CmId,
    /// Of a connect request, the identifier that listens.
    pub listen_id: Option<CmId>,
    /// What happened.
    pub kind: CmEventKind,
    /// 0; an errno with a minus sign; of [`CmEventKind::Rejected`] the reason, of
    /// [`CmEventKind::Unreachable`] of a datagram service its status.
    pub status: i32,
    /// What the peer has said.
    pub param: EventParam,
}

/// What comes with an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventParam {
    /// Nothing.
    None,
    /// Of a connection. `responder_resources` and `initiator_depth` are from the point of view of
    /// who gets the event, and private data is padded with zeros to the length of its field.
    Conn(Box<ConnParam>),
    /// Of a datagram service.
    Ud(Box<UdParam>),
    /// Of a group: its address, and the caller's number of the join.
    Multicast(Box<UdParam>, u64),
}

/// How far an identifier is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CmPhase {
    /// New.
    Idle,
    /// It has an address.
    Bound,
    /// It knows its peer and device.
    AddrResolved,
    /// It knows the route.
    RouteResolved,
    /// It listens.
    Listen,
    /// It has asked.
    Connecting,
    /// It was asked and has not answered.
    Requested,
    /// It has said yes and waits for the peer.
    Accepting,
    /// The peer has said yes.
    Responded,
    /// There is a connection.
    Established,
    /// The connection ends or has ended.
    Disconnected,
}

/// All that is known of an identifier.
#[derive(Clone, Debug)]
pub struct IdInfo {
    /// Its port space.
    pub port_space: PortSpace,
    /// How far it is.
    pub phase: CmPhase,
    /// Where its events go.
    pub channel: EventChannelId,
    /// The own address, once there is one.
    pub local: Option<SocketAddr>,
    /// The peer's.
    pub peer: Option<SocketAddr>,
    /// The way there; of one that listens at one address, its device.
    pub path: Option<Path>,
    /// What the peer's library has said.
    pub remote_ece: Ece,
}

/// An option of an identifier (`rdma_set_option(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CmOption {
    /// Type of service of the packets of its connections.
    Tos(u8),
    /// Several may bind to the port, as long as only one listens.
    ReuseAddress(bool),
    /// A wildcard of IPv6 means IPv6 only.
    AfOnly(bool),
    /// Local ACK timeout code of its connections, 5 bits.
    AckTimeout(u8),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_the_numbers_of_the_header() {
        for (number, kind) in (0..).zip(CmEventKind::ALL) {
            assert_eq!(CmEventKind::from_number(number), Some(kind));
        }
        assert_eq!(CmEventKind::from_number(16), None);
    }
}
