//! An RDMA NIC as a deterministic machine.
//!
//! The model is told the time, given packets, and reaches program memory through [`Memory`]. It
//! cannot name a clock, a socket or a pointer: the crate is `no_std` and forbids `unsafe`.
//! Start with [`verbs`] (the words), then [`device`] (the calling contract).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod cm;
pub mod counters;
pub mod device;
pub mod memory;
#[doc(hidden)]
pub mod planted;
pub mod profile;
pub mod protection;
pub mod qp;
mod queue;
mod table;
pub mod time;
mod timer;
pub mod verbs;
pub mod wire;

pub use device::{Device, DeviceConfig, Filled, FrameOut};
pub use memory::{Memory, MemoryFault, MemoryId};
pub use time::Instant;
