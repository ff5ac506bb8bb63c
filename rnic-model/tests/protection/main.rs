//! The protection rules, tried against a second, slow statement of them.
//!
//! `reference` says what must happen, from histories and byte maps; `world` does everything twice
//! and compares; the rest are the cases.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "all of it is a test")]

mod access_matrix;
mod bind_matrix;
mod extent;
mod keys;
mod reference;
mod rights;
mod sequences;
mod speed;
mod world;
