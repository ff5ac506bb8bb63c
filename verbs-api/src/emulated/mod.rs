//! The emulated device: the model over UDP and program memory.
//!
//! One lock holds the device, its link and the memory table ([`core`]). Who has it makes progress:
//! every verb that posts or polls does so inline, and an engine thread ([`engine`]) serves a
//! program that does neither, for one-sided operations must be answered all the same.

mod config;
mod context;
mod core;
mod description;
mod engine;
mod events;
mod provider;
#[cfg(unix)]
mod published;

pub use config::{EmulatedConfig, OpenError};
pub use context::EmulatedContext;
pub use description::Description;
pub use provider::EmulatedProvider;
#[cfg(unix)]
pub use published::Published;
