//! Queue pairs: which steps of state there are, and which attributes each may carry.
//!
//! [`transitions`] is the table, [`attributes`] the checks of the values; [`check_modify`] is both,
//! in the order in which `modify_qp` applies them.

pub mod attributes;
pub mod transitions;

pub use attributes::{Bounds, apply, check_address, check_modify, check_values};
pub use transitions::{Requirements, StepError, check_step, requirements};
