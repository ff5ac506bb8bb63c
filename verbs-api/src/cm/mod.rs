//! The connection manager.

pub mod resolve;
