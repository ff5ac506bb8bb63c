//! Where packet scripts are played: a device under test, and the wire to it, of which the other end
//! is the script's.

mod simulated;
mod tape;
mod udp;

use std::fmt;

use softrnic_model::Instant;
use softrnic_model::verbs::Gid;
use softrnic_model::wire::Route;
use softrnic_transport::tap::{Direction, Line};

use crate::lab::Waits;
use crate::program::Program;

pub use simulated::{OverFabric, Wire};
pub use tape::Tape;
pub use udp::{OpenError, OverUdp};

/// A device under test, its program, and the wire.
pub trait Bench {
    /// The program on the device.
    fn program(&mut self) -> &mut dyn Program;

    /// The address of the device.
    fn device(&self) -> Gid;

    /// The address of the script's end.
    fn peer(&self) -> Gid;

    /// The address of somebody who is not the peer, if this bench has one.
    fn stranger(&mut self) -> Option<Gid>;

    /// How long a script waits here, in the time of the bench.
    fn waits(&self) -> Waits;

    /// The time, in nanoseconds since the bench was opened.
    fn now_ns(&self) -> u64;

    /// Lets time pass until then. What arrives meanwhile is kept.
    fn pass_until(&mut self, ns: u64);

    /// Puts a packet on the wire to the device.
    ///
    /// # Errors
    /// The wire does not take it; in words.
    fn send(&mut self, crafted: &Crafted) -> Result<(), String>;

    /// The next packet that the device has sent to the script's end, waited for until `until_ns`.
    fn next(&mut self, until_ns: u64) -> Option<Caught>;

    /// Frames from the device whose ICRC was wrong, so far.
    fn bad_icrc(&self) -> u64;
}

/// A packet made by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crafted {
    /// Addresses and marks.
    pub route: Route,
    /// Base transport header to the end of the pad; the wire adds the ICRC.
    pub packet: Vec<u8>,
    /// A bit of the finished frame that is flipped, counted from the base transport header.
    pub damage: Option<u32>,
}

/// A packet that the device has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caught {
    /// When it was seen.
    pub at_ns: u64,
    /// Addresses and marks.
    pub route: Route,
    /// Base transport header to the end of the pad.
    pub packet: Vec<u8>,
}

/// One rung of the packet ladder: something that happened, for whoever reads why a case failed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Rung {
    /// When, in nanoseconds since the case began.
    pub at_ns: u64,
    /// Who did it. In a script: `peer`, `device`, `program` or `judge`; between two devices, `a` and
    /// `b`: they themselves, `program a`, `program b`, `fabric` or `judge`.
    pub who: String,
    /// What: a packet in words, a call, or what should have come.
    pub what: String,
    /// What was expected instead, where something is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at_ns, who, what, expected } = self;
        write!(f, "{:>9}.{:03}us {who:>9}  {what}", at_ns / 1000, at_ns % 1000)?;
        match expected {
            Some(expected) => write!(f, "\n{:>24}  expected: {expected}", ""),
            None => Ok(()),
        }
    }
}

/// A packet in words, without time and direction.
#[must_use]
pub fn in_words(route: &Route, packet: &[u8]) -> String {
    let at = Instant::ZERO;
    let line = Line { at, direction: Direction::Sent, route, packet }.to_string();
    // "0.000us tx " is for traces.
    line.splitn(3, ' ').nth(2).unwrap_or_default().to_owned()
}
