//! Queue pairs: what a program may ask of them.
//!
//! `modify_qp`: [`transitions`] is the table of steps and of the attributes that each may carry,
//! [`attributes`] the checks of the values; [`check_modify`] is both. `post_send` and `post_recv`:
//! [`posting`].

pub mod attributes;
pub mod posting;
pub mod transitions;

pub use attributes::{Bounds, apply, check_address, check_modify, check_values};
pub use posting::{
    MAX_MESSAGE_BYTES, check_atomic_alignment, check_recv, check_send, check_srq_recv,
};
pub use transitions::{Requirements, StepError, check_step, requirements};
