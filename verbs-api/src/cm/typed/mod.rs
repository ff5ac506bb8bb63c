//! Connections as values: listen, connect, and get a queue pair that works.

mod connection;
mod connector;
mod failure;
mod host;
mod listener;
mod waiting;

pub use connection::Connection;
pub use connector::{Connector, Options, Route, connect};
pub use failure::ConnectError;
pub use listener::{Listener, Request};
