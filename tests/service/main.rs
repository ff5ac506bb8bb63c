//! Many processes, one address: the port service as programs meet it. Processes are this test
//! program itself, started again (`child`).
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod child;
mod connections;
mod flood;
mod life;
mod namespace;
mod traffic;
mod users;
mod world;
