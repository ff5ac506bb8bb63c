//! RoCEv2 on the wire.

mod route;

pub use route::{ROCE_PORT, Route};
