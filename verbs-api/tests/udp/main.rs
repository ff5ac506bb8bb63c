//! The whole device: verbs, engine, UDP. Two devices of one process on loopback unless a test says
//! otherwise.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod capture;
mod drop_in;
mod events;
mod hardware;
mod memory;
mod memory_kinds;
mod misuse;
mod multicast;
mod namespace;
mod opening;
mod operations;
mod passive;
mod shared_receive;
mod sharing;
mod stress;
mod weather;
mod windows;
mod world;
mod xrc;
