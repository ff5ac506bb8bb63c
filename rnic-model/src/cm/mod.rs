//! Connection management: what two hosts say to each other before and after queue pairs talk
//! (IBA volume 1, chapter 12, with the IP addressing of annex A11 that `rdma_cm(7)` uses).
//!
//! [`Machine`] is deterministic like the [`Device`](crate::Device) beside it: it is told the time,
//! given messages, and drained.

pub mod ip;
mod machine;
pub mod mad;
pub mod message;
pub mod reason;
pub mod service;

pub use machine::{
    Accept, CommandError, Connect, Event, EventKind, LastWords, Lifetimes, Listen, ListenerId,
    Machine, MachineConfig, Outgoing, Parameters, Parting, Resolve, State, Transport,
};
pub use message::Message;
pub use message::cell::{CommId, Guid};
pub use reason::RejectReason;
pub use service::{ListenAt, PortSpace, ServiceId};
