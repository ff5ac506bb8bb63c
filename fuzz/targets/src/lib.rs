//! What is fuzzed, apart from the fuzzer: each target is a function of bytes that panics when
//! something is wrong. `fuzz/` runs them under libFuzzer; the tests of this crate replay the seed
//! corpora, which [`seeds`] makes from the captures, with the ordinary compiler.
//!
//! A target tells [`reach`] what it has reached. A run that has not reached all that its target
//! [must](Target::reaches) has fuzzed nothing, and fails.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a target that cannot go on has failed"
)]
#![expect(clippy::wildcard_enum_match_arm, reason = "targets look for one thing among others")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "what a fuzzer brings may be any number"
)]

mod captures;
mod cm;
mod device;
mod encode;
#[path = "../../../rnic-model/tests/protection/extent.rs"]
mod extent;
mod frame;
mod input;
mod message;
mod packet;
mod pcapng;
mod protection;
#[path = "../../../rnic-model/tests/protection/world.rs"]
#[expect(dead_code, reason = "the tests that it is of use more of it")]
mod protection_world;
pub mod reach;
#[path = "../../../conformance/src/replay/pcapng.rs"]
#[expect(unreachable_pub, reason = "`softrnic replay` offers it")]
mod reader;
#[path = "../../../rnic-model/tests/protection/reference.rs"]
#[expect(dead_code, reason = "the tests that it is of use more of it")]
mod reference;
mod requester;
mod responder;
pub mod seeds;
mod world;

use reach::Reach;
use softrnic_model::planted::Fault;

/// Something that is fuzzed.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// As the fuzzer calls it.
    pub name: &'static str,
    /// One run.
    pub run: fn(&[u8]),
    /// What a run of some seconds must have reached.
    pub reaches: &'static [Reach],
    /// What it must find where it is planted.
    pub fault: Fault,
}

/// All targets.
pub const TARGETS: [Target; 8] = [
    frame::TARGET,
    pcapng::TARGET,
    message::TARGET,
    protection::TARGET,
    responder::TARGET,
    requester::TARGET,
    device::TARGET,
    cm::TARGET,
];

/// The target of this name.
///
/// # Panics
/// There is none.
#[must_use]
pub fn target(name: &str) -> &'static Target {
    TARGETS.iter().find(|target| target.name == name).unwrap()
}
