//! The state machine of all connections of one process at one device (IBA 12.9).
//!
//! It knows communication IDs, not queue pairs: the program is told what the peer has said
//! ([`Event`]) and says what to do (the commands); bringing queue pairs from state to state is its
//! own affair.

mod admission;
mod commands;
mod connection;
mod event;
mod listener;
mod parting;
mod receive;
mod request;
mod send;
mod time;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use super::ServiceId;
use super::mad::Mad;
use super::message::cell::{CommId, Guid};
use crate::Instant;
use crate::verbs::{Gid, QpNum};
use crate::wire::Route;

use admission::Answered;
pub use commands::{Accept, CommandError, Connect, Resolve};
use connection::Connection;
pub use connection::{Parameters, State, Transport};
pub use event::{Event, EventKind};
use listener::Listener;
pub use listener::{Listen, ListenerId};
pub use parting::{LastWords, Parting};

/// How long the machine waits, and how often it tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// How soon a peer is expected to answer: 4.096 µs · 2^t.
    pub response_timeout: u8,
    /// How often a message that is not answered is sent again.
    pub retries: u8,
    /// After how long the first time: each further time takes twice as long, up to the response
    /// timeout twice. A link that loses packets need not cost seconds.
    pub first_retry_ns: u64,
    /// For how long a peer is asked to wait while the program makes up its mind.
    pub service_timeout: u8,
    /// How long a connection that has ended keeps its IDs, so that late packets meet no new one.
    pub timewait_ns: u64,
}

impl Default for Lifetimes {
    /// The codes that Linux sends.
    fn default() -> Self {
        Self {
            response_timeout: 20,
            retries: 15,
            first_retry_ns: 250_000_000,
            service_timeout: 24,
            timewait_ns: 1_000_000_000,
        }
    }
}

/// How a machine is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineConfig {
    /// The adapter's number.
    pub guid: Guid,
    /// The high byte of its communication IDs.
    pub slot: u8,
    /// The low 24 bits of the first one; best by chance, so that messages for an earlier run meet
    /// nothing.
    pub first_id: u32,
    /// The high half of its transaction IDs; by chance, it is one more thing to guess for who forges
    /// an answer.
    pub transaction_high: u32,
    /// Connections that there may be, those that are ending included.
    pub connections_max: u32,
    /// Waiting and trying.
    pub lifetimes: Lifetimes,
}

/// A message that wants to leave, to queue pair 1 of the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Where to.
    pub route: Route,
    /// What.
    pub mad: Box<Mad>,
}

/// Connections by what the peer calls them.
type PeerKey<T> = (Gid, Guid, T);

/// The connections of one process at one device. Four kinds of calls, as with
/// [`Device`](crate::Device):
///
/// * **ask** (`&self`): [`state`](Self::state), [`parameters`](Self::parameters),
///   [`next_deadline`](Self::next_deadline), …
/// * **told by the program**: the commands.
/// * **told by the world**: [`on_mad`](Self::on_mad), [`on_time`](Self::on_time).
/// * **drain**, after each of the latter two: [`next_mad`](Self::next_mad),
///   [`next_event`](Self::next_event), [`next_change`](Self::next_change).
///
/// What others make it remember is bounded: requests that the program has not answered by the backlog
/// of each listener, all else by [`MachineConfig::connections_max`], and of both no peer can have all.
#[derive(Debug)]
pub struct Machine {
    config: MachineConfig,
    next_id: u32,
    connections: BTreeMap<CommId, Box<Connection>>,
    /// By the peer's ID, as far as it is known.
    remote_ids: BTreeMap<PeerKey<CommId>, CommId>,
    /// By the peer's queue pair.
    remote_qps: BTreeMap<PeerKey<QpNum>, CommId>,
    /// Connections that a peer has asked for, by peer.
    asked_by: BTreeMap<Gid, u32>,
    deadlines: BTreeSet<(Instant, CommId)>,
    listeners: BTreeMap<ListenerId, Listener>,
    next_listener: u32,
    answered: Answered,
    outbox: VecDeque<Outgoing>,
    events: VecDeque<Event>,
    /// Connections that have changed.
    changed: BTreeSet<CommId>,
    dropped: u64,
}

impl Machine {
    /// A machine without connections.
    #[must_use]
    pub fn new(config: MachineConfig) -> Self {
        Self {
            next_id: config.first_id,
            config,
            connections: BTreeMap::new(),
            remote_ids: BTreeMap::new(),
            remote_qps: BTreeMap::new(),
            asked_by: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            listeners: BTreeMap::new(),
            next_listener: 0,
            answered: Answered::default(),
            outbox: VecDeque::new(),
            events: VecDeque::new(),
            changed: BTreeSet::new(),
            dropped: 0,
        }
    }

    /// How it was made.
    #[must_use]
    pub const fn config(&self) -> &MachineConfig {
        &self.config
    }

    /// The state of a connection; `None` when there is none any more.
    #[must_use]
    pub fn state(&self, id: CommId) -> Option<State> {
        self.connections.get(&id).map(|connection| connection.state)
    }

    /// What both ends have agreed to so far.
    #[must_use]
    pub fn parameters(&self, id: CommId) -> Option<&Parameters> {
        self.connections.get(&id).map(|connection| &connection.parameters)
    }

    /// The program's number of a connection.
    #[must_use]
    pub fn tag(&self, id: CommId) -> Option<u64> {
        self.connections.get(&id).map(|connection| connection.tag)
    }

    /// Gives a connection that a peer has asked for the program's number, with which later events
    /// come.
    pub fn set_tag(&mut self, id: CommId, tag: u64) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.tag = tag;
        }
    }

    /// All connections: ID, state, and the way to the peer.
    pub fn connections(&self) -> impl Iterator<Item = (CommId, State, &Route)> {
        self.connections.iter().map(|(id, connection)| (*id, connection.state, &connection.route))
    }

    /// The service that a connection is about, and whether this end has asked for it.
    #[must_use]
    pub fn service(&self, id: CommId) -> Option<(ServiceId, bool)> {
        let connection = self.connections.get(&id)?;
        Some((connection.service_id, connection.active))
    }

    /// How many connections there are, those that are ending included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Messages that led to nothing: not of the protocol, for nobody, of the wrong peer or in the
    /// wrong state, or one request too many.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// When [`Machine::on_time`] is due, if ever.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// The next message to send.
    pub fn next_mad(&mut self) -> Option<Outgoing> {
        self.outbox.pop_front()
    }

    /// The next event for the program.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}
