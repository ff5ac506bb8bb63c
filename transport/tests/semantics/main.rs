//! What a device does, checked on the simulated fabric.
//!
//! Read [`bench`] first: two or more queue pairs, their memory, and a tap on every frame. Then each
//! file has one subject.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::cast_possible_truncation, reason = "numbers of tests are small")]

mod bench;

mod counters;
mod cq;
mod ecn;
mod garbage;
mod memory_changes;
mod multicast;
mod profiles;
mod rc;
mod srq;
mod states;
mod swarm;
mod uc;
mod ud;
