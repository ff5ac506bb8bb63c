//! Queue pairs.
//!
//! [`transitions`] is the table of steps of state, [`attributes`] the checks of the values;
//! [`check_modify`] is both, in the order in which `modify_qp` applies them. Behind them are the
//! machines that move messages: the requester sends, the completer takes what comes back, the
//! responder serves the peer; `datagram` receives for UD.

pub mod attributes;
pub(crate) mod completer;
pub(crate) mod datagram;
pub(crate) mod failure;
pub(crate) mod flush;
mod headers;
pub(crate) mod local;
pub(crate) mod pair;
pub(crate) mod requester;
pub(crate) mod responder;
pub mod transitions;
pub(crate) mod window;

pub use attributes::{Bounds, apply, check_address, check_modify, check_values};
pub use transitions::{Requirements, StepError, check_step, requirements};
