//! Ping-pong between two processes on one address, by published crates that wrap verbs. To be started
//! by `softrnic run`: see `.cargo/config.toml`.
#![cfg(target_os = "linux")]

mod by_ibverbs;
mod by_sideway;
mod peer;
