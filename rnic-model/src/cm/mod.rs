//! Connection management: what two hosts say to each other before and after queue pairs talk
//! (IBA volume 1, chapter 12, with the IP addressing of annex A11 that `rdma_cm(7)` uses).
//!
//! All of it is deterministic like the [`Device`](crate::Device) beside it.

pub mod ip;
pub mod reason;
pub mod service;

pub use reason::RejectReason;
pub use service::{PortSpace, ServiceId};
