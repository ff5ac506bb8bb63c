//! What the machine tells the program.

use alloc::boxed::Box;

use super::listener::ListenerId;
use crate::cm::message::cell::CommId;
use crate::cm::message::{Rej, Rep, Req, SidrRep, SidrReq};
use crate::wire::Route;

/// Something happened to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Which one.
    pub id: CommId,
    /// The program's number of it; 0 of a new one.
    pub tag: u64,
    /// What.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A peer asks for a connection: accept, reject or release it.
    Request {
        /// Who listens.
        listener: ListenerId,
        /// The listener's number.
        listener_tag: u64,
        /// How the request came.
        route: Route,
        /// The request.
        req: Box<Req>,
        /// Its options (enhanced connection establishment).
        options: u32,
    },
    /// The peer says yes: make it ready, reject or release it.
    Reply(Box<Rep>),
    /// There is a connection: the peer is ready.
    Established,
    /// The peer says no, or that it has waited in vain. The connection is gone from the table.
    Rejected(Box<Rej>),
    /// The peer does not answer. The connection is gone from the table.
    Unreachable,
    /// The peer wants to end: disconnect or release it.
    DisconnectRequest,
    /// The connection has ended.
    Disconnected {
        /// The peer has not answered.
        timed_out: bool,
    },
    /// Late packets are no more to be feared. The connection is gone from the table.
    TimewaitExit,
    /// A peer asks for a datagram service: answer or release it.
    ResolveRequest {
        /// Who listens.
        listener: ListenerId,
        /// The listener's number.
        listener_tag: u64,
        /// How the request came.
        route: Route,
        /// The request.
        req: Box<SidrReq>,
    },
    /// The answer about a datagram service. The exchange is gone from the table.
    Resolved(Box<SidrRep>),
}
