//! Queue pairs.
//!
//! What a program may ask of them: `modify_qp` goes by the table of steps in [`transitions`] and the
//! checks of values in [`attributes`] ([`check_modify`] is both), posting by [`posting`]. Behind them are the
//! machines that move messages: the requester sends, the completer takes what comes back, the
//! responder serves the peer; `datagram` receives for UD.

pub mod attributes;
pub(crate) mod completer;
mod credits;
pub(crate) mod datagram;
pub(crate) mod failure;
pub(crate) mod flush;
mod headers;
pub(crate) mod local;
pub(crate) mod pace;
pub(crate) mod pair;
pub mod posting;
pub(crate) mod requester;
pub(crate) mod responder;
pub mod transitions;
pub(crate) mod window;

pub use attributes::{Bounds, apply, check_address, check_modify, check_values};
pub use posting::{
    MAX_MESSAGE_BYTES, check_atomic_alignment, check_recv, check_send, check_srq_recv,
};
pub use transitions::{Requirements, StepError, check_step, requirements};
