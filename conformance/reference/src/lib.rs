//! What an RDMA device must do, for whoever watches one: the bytes of every memory ([`Memory`]), who may
//! touch them ([`Keys`]), what completes, in which order and how ([`Channel`], [`Unreliable`],
//! [`Receives`]), each atomic once ([`Additions`]), and what is counted ([`Counts`], of [`Frames`] too).
//!
//! It is slow and obviously right, and it shares no line and no type with the device: it has its own
//! words, and numbers are plain. Everything that an observer can see of a device is told to it; it
//! answers with a [`Violation`] when that cannot be.
#![forbid(unsafe_code)]

mod atomics;
mod channel;
mod counts;
mod keys;
mod memory;
mod receives;
mod unreliable;
mod wire;
mod words;

pub use atomics::Additions;
pub use channel::{Channel, Delivery, Outcome, Request, Retired};
pub use counts::Counts;
pub use keys::{Access, Keys, Refusal, Rights, Who};
pub use memory::Memory;
pub use receives::Receives;
pub use unreliable::Unreliable;
pub use wire::Frames;
pub use words::{Arrival, Completion, Fate, Kind, Received, Status, Violation};
