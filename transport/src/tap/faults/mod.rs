//! Faults on purpose: rules in a list decide the fate of each frame.
//!
//! [`FaultRules`] only judges. [`Faults`] carries the verdicts out around a real link; a simulated
//! fabric takes the same rules as its [`Weather`](crate::sim::Weather). [`FaultRules::parse`] reads
//! the text form of the environment variable `SOFTRNIC_FAULTS`.

mod link;
mod parse;
pub(crate) mod random;
mod rules;
mod store;
#[cfg(test)]
mod tests;

use std::fmt;

use softrnic_model::Instant;
use softrnic_model::verbs::QpNum;
use softrnic_model::wire::{Bth, ICRC_LEN, Opcode, Route};
use zerocopy::FromBytes;

pub use self::link::Faults;
pub use self::parse::ParseFaultsError;
pub use self::rules::{Effect, FaultRule, Match, Opcodes, Pick};
use super::Direction;
use crate::sim;

/// The environment variable that [`FaultRules::from_env`] reads.
pub const FAULTS_VARIABLE: &str = "SOFTRNIC_FAULTS";

/// How long a frame that is to be overtaken waits at most, in nanoseconds: if nothing follows, it
/// goes on alone.
pub const REORDER_WAIT_NS: u64 = 100_000;

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes on as it is.
    Pass,
    /// It is lost.
    Drop,
    /// It goes on this many nanoseconds later.
    Delay(u64),
    /// It goes on twice.
    Duplicate,
    /// This bit of it is flipped, counted from the BTH, ICRC included.
    Corrupt(u32),
    /// A switch marks congestion on it.
    MarkCe,
    /// The next frame in its direction overtakes it, or it goes on after [`REORDER_WAIT_NS`].
    Reorder,
}

/// A frame under judgement.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// When it passes.
    pub now: Instant,
    /// Which way.
    pub direction: Direction,
    /// Its addressing.
    pub route: &'a Route,
    /// From the BTH to the end of the pad.
    pub packet: &'a [u8],
}

impl Seen<'_> {
    /// What it is, unless it is too short to say.
    #[must_use]
    pub fn opcode(&self) -> Option<Opcode> {
        self.bth().map(Bth::opcode)
    }

    /// Where it goes, unless it is too short to say.
    #[must_use]
    pub fn dest_qp(&self) -> Option<QpNum> {
        self.bth().map(Bth::dest_qp)
    }

    /// How many bits it has on the wire, from the BTH to the end of the ICRC.
    #[must_use]
    pub fn bits(&self) -> u32 {
        u32::try_from((self.packet.len() + ICRC_LEN) * 8).unwrap_or(u32::MAX)
    }

    fn bth(&self) -> Option<&Bth> {
        Bth::ref_from_prefix(self.packet).ok().map(|(bth, _)| bth)
    }
}

/// One reason to spoil frames.
pub trait Rule: Send {
    /// Decides about a frame. Every rule is asked about every frame, also those that another rule
    /// has spoilt already.
    fn judge(&mut self, seen: &Seen<'_>) -> Fate;
}

impl<F: FnMut(&Seen<'_>) -> Fate + Send> Rule for F {
    fn judge(&mut self, seen: &Seen<'_>) -> Fate {
        self(seen)
    }
}

/// Rules in a list. The first that does not let a frame pass decides its fate.
#[derive(Default)]
pub struct FaultRules {
    rules: Vec<Box<dyn Rule>>,
}

impl FaultRules {
    /// No rules: everything passes.
    #[must_use]
    pub const fn new() -> Self {
        Self { rules: Vec::new() }
    }

    /// The same with one more rule at the end.
    #[must_use]
    pub fn with(mut self, rule: impl Rule + 'static) -> Self {
        self.rules.push(Box::new(rule));
        self
    }

    /// The rules of the environment variable [`FAULTS_VARIABLE`], if it is set and not empty.
    ///
    /// # Errors
    /// See [`FaultRules::parse`].
    pub fn from_env() -> Result<Option<Self>, ParseFaultsError> {
        match std::env::var_os(FAULTS_VARIABLE) {
            Some(text) if !text.is_empty() => Self::parse(&text.to_string_lossy()).map(Some),
            Some(_) | None => Ok(None),
        }
    }

    /// Whether there are no rules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Decides the fate of a frame. The same frames in the same order get the same fates.
    pub fn judge(
        &mut self,
        now: Instant,
        direction: Direction,
        route: &Route,
        packet: &[u8],
    ) -> Fate {
        let seen = Seen { now, direction, route, packet };
        let mut fate = Fate::Pass;
        for rule in &mut self.rules {
            let verdict = rule.judge(&seen);
            if fate == Fate::Pass {
                fate = verdict;
            }
        }
        fate
    }
}

impl fmt::Debug for FaultRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultRules").field("rules", &self.rules.len()).finish()
    }
}

/// In a fabric every frame is judged once, as one that leaves. Reordering is a short delay there.
impl sim::Weather for FaultRules {
    fn judge(
        &mut self,
        now: Instant,
        _from: sim::HostId,
        route: &Route,
        packet: &[u8],
    ) -> sim::Fate {
        match Self::judge(self, now, Direction::Sent, route, packet) {
            Fate::Pass => sim::Fate::Pass,
            Fate::Drop => sim::Fate::Drop,
            Fate::Delay(ns) => sim::Fate::Delay(ns),
            Fate::Duplicate => sim::Fate::Duplicate(0),
            Fate::Corrupt(bit) => sim::Fate::Corrupt(bit),
            Fate::MarkCe => sim::Fate::Mark,
            Fate::Reorder => sim::Fate::Delay(REORDER_WAIT_NS),
        }
    }
}
