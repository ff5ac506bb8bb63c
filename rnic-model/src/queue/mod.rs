//! Work queues and completion queues: fixed-size records in rings that are allocated once.

mod completion;
mod receive;
mod send;

pub(crate) use completion::{CompletionQueue, CqEntry, PushOutcome, Slot};
pub(crate) use receive::{RecvQueue, RecvSlot, RecvWqe};
pub(crate) use send::{SendQueue, SendWqe};
