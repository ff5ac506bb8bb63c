//! What is left to say to the peer of a connection whose program is gone: facts that somebody else can
//! keep meanwhile, and the messages that follow from them.

use super::Machine;
use super::connection::State;
use crate::cm::RejectReason;
use crate::cm::mad::Mad;
use crate::cm::message::cell::{Bytes, CommId, Guid};
use crate::cm::message::{Answered, Dreq, Message, Rej, SidrRep, SidrStatus};
use crate::verbs::QpNum;
use crate::wire::Route;

/// The facts of a connection that taking leave of its peer takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parting {
    /// How far the connection is.
    pub state: State,
    /// The own ID.
    pub local: CommId,
    /// The peer's ID; 0 while it is not known.
    pub remote: CommId,
    /// The peer's queue pair, once it is known.
    pub remote_qpn: Option<QpNum>,
    /// The exchange in which the two are.
    pub exchange: u64,
    /// The number of exchanges that this end begins.
    pub own_exchange: u64,
    /// The own adapter.
    pub guid: Guid,
    /// The way to the peer.
    pub route: Route,
}

/// The messages of a [`Parting`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastWords {
    /// What is said once: a peer that misses it asks again, and is told that nobody is there.
    pub once: Option<Mad>,
    /// What is said again until the peer answers.
    pub until_answered: Option<Mad>,
}

impl LastWords {
    /// Whether there is nothing to say.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.once.is_none() && self.until_answered.is_none()
    }
}

impl Parting {
    /// The messages that end it: what is established is disconnected, what is asked for is taken back or
    /// refused (IBA 12.9.7). None where the peer waits for nothing.
    #[must_use]
    pub fn words(&self) -> LastWords {
        let once: Option<Message> = match self.state {
            State::ReqSent | State::MraReqRcvd => {
                Some(self.rej(RejectReason::TIMEOUT).named_by(self.guid).into())
            }
            State::ReqRcvd
            | State::MraReqSent
            | State::RepSent
            | State::MraRepRcvd
            | State::RepRcvd
            | State::MraRepSent => Some(self.rej(RejectReason::CONSUMER_DEFINED).into()),
            State::SidrReqRcvd => Some(Message::from(SidrRep {
                request_id: self.remote,
                status: SidrStatus::Rejected as u8,
                ..SidrRep::default()
            })),
            State::Established
            | State::DreqSent
            | State::DreqRcvd
            | State::Timewait
            | State::SidrReqSent => None,
        };
        let until_answered = match self.state {
            // Who has sent a REP may be connected in the eyes of the peer.
            State::RepSent | State::MraRepRcvd | State::Established | State::DreqSent => {
                self.dreq()
            }
            State::ReqSent
            | State::MraReqRcvd
            | State::ReqRcvd
            | State::MraReqSent
            | State::RepRcvd
            | State::MraRepSent
            | State::DreqRcvd
            | State::Timewait
            | State::SidrReqSent
            | State::SidrReqRcvd => None,
        };
        LastWords { once: once.map(|message| message.to_mad(self.exchange, 0)), until_answered }
    }

    /// A request for disconnection, in an exchange of its own; none while the peer's queue pair is not
    /// known.
    pub(super) fn dreq(&self) -> Option<Mad> {
        let dreq = Dreq {
            local_comm_id: self.local,
            remote_comm_id: self.remote,
            remote_qpn: self.remote_qpn?,
            ..Dreq::default()
        };
        Some(Message::from(dreq).to_mad(self.own_exchange, 0))
    }

    /// The REJ of a connection in its state (IBA 12.6.7).
    pub(super) fn rej(&self, reason: RejectReason) -> Rej {
        let (local_comm_id, answered) = match self.state {
            // The peer has not heard of our ID yet.
            State::ReqRcvd => (CommId::default(), Answered::Req),
            State::MraReqSent => (self.local, Answered::Req),
            State::RepRcvd | State::MraRepSent => (self.local, Answered::Rep),
            State::ReqSent
            | State::MraReqRcvd
            | State::RepSent
            | State::MraRepRcvd
            | State::Established
            | State::DreqSent
            | State::DreqRcvd
            | State::Timewait
            | State::SidrReqSent
            | State::SidrReqRcvd => (self.local, Answered::Other),
        };
        Rej {
            local_comm_id,
            remote_comm_id: self.remote,
            message: answered as u8,
            reason,
            ..Rej::default()
        }
    }
}

impl Rej {
    /// Names this end to a peer that knows none of its IDs by its adapter (IBA 12.6.7.2).
    pub(super) fn named_by(mut self, guid: Guid) -> Self {
        self.info_length = 8;
        self.info = Bytes::of(&guid.0.to_be_bytes()).unwrap_or_default();
        self
    }
}

impl Machine {
    /// What taking leave of a peer takes; `None` where there is no connection. It changes when
    /// [`next_change`](Self::next_change) says so.
    #[must_use]
    pub fn parting(&self, id: CommId) -> Option<Parting> {
        let connection = self.connections.get(&id)?;
        Some(Parting {
            state: connection.state,
            local: id,
            remote: connection.remote_id,
            remote_qpn: connection.parameters.remote_qpn,
            exchange: connection.transaction,
            own_exchange: self.transaction(id),
            guid: self.config.guid,
            route: connection.route,
        })
    }

    /// A connection that has come, gone or changed its state since it was named last.
    pub fn next_change(&mut self) -> Option<CommId> {
        self.changed.pop_first()
    }
}
