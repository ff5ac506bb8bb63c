//! What a device does, checked on the simulated fabric.
//!
//! Read [`bench`] first: two or more queue pairs, their memory, and a tap on every frame. Then each
//! file has one subject.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers of tests are small"
)]
#![expect(clippy::duplicate_mod, reason = "what RC must do, XRC must do, by the same tests")]

mod bench;

mod counters;
mod cq;
mod drain;
mod ecn;
mod garbage;
mod gsi;
mod memory_changes;
mod multicast;
mod objects;
mod profiles;
mod rate;
mod rc;
mod srq;
mod states;
mod swarm;
mod uc;
mod ud;
mod xrc;
