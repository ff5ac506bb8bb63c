//! The library as foreign programs meet it: built, found by its names, loaded by programs that were made
//! for the real one.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod c_programs;
mod programs;
mod rdma_core;
mod setup;
mod symbols;
