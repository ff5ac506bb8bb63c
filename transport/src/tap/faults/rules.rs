//! The rules that this crate brings: which frames, how many of them, and what befalls them.

use softrnic_model::verbs::QpNum;
use softrnic_model::wire::Opcode;

use super::random::Random;
use super::{Direction, Fate, Rule, Seen};

/// A rule made of three parts: it looks at the frames that [`Match`], takes those that [`Pick`]
/// says of them, and lets [`Effect`] befall these.
#[derive(Clone, Debug)]
pub struct FaultRule {
    matches: Match,
    pick: Pick,
    effect: Effect,
    random: Random,
    /// Frames that matched so far.
    matched: u64,
}

/// Which frames a rule looks at; by default all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// Only those of this direction.
    pub direction: Option<Direction>,
    /// Only those with these opcodes.
    pub opcodes: Option<Opcodes>,
    /// Only those to this queue pair.
    pub dest_qp: Option<QpNum>,
}

/// Which of the frames that match a rule takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// All.
    Every,
    /// One only; the first is number 1.
    Nth(u64),
    /// So many of a million, by chance.
    Chance(u32),
}

/// What befalls a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// See [`Fate::Drop`].
    Drop,
    /// See [`Fate::Delay`]; nanoseconds.
    Delay(u64),
    /// See [`Fate::Duplicate`].
    Duplicate,
    /// See [`Fate::Corrupt`]; a bit by chance, one that the ICRC protects.
    Corrupt,
    /// See [`Fate::MarkCe`].
    MarkCe,
    /// See [`Fate::Reorder`].
    Reorder,
}

/// A set of opcodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opcodes([u128; 2]);

impl Opcodes {
    /// No opcode.
    pub const NONE: Self = Self([0; 2]);

    /// The opcodes of all services with this name (`ACKNOWLEDGE`, `RDMA_WRITE_ONLY`), or the one
    /// with this name and service (`RC ACKNOWLEDGE`). `None` if there is no such opcode.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let found = (0..=u8::MAX).map(Opcode).filter(|opcode| {
            opcode.facts().is_some_and(|facts| facts.name == name) || format!("{opcode:?}") == name
        });
        let set = found.fold(Self::NONE, Self::with);
        (set != Self::NONE).then_some(set)
    }

    /// The same with one more opcode.
    #[must_use]
    pub const fn with(mut self, opcode: Opcode) -> Self {
        self.0[(opcode.0 >> 7) as usize] |= 1 << (opcode.0 & 0x7f);
        self
    }

    /// Whether it has this opcode.
    #[must_use]
    pub const fn contains(&self, opcode: Opcode) -> bool {
        self.0[(opcode.0 >> 7) as usize] >> (opcode.0 & 0x7f) & 1 == 1
    }
}

impl Match {
    fn holds(&self, seen: &Seen<'_>) -> bool {
        self.direction.is_none_or(|direction| direction == seen.direction)
            && self.opcodes.is_none_or(|set| seen.opcode().is_some_and(|one| set.contains(one)))
            && self.dest_qp.is_none_or(|qp| seen.dest_qp() == Some(qp))
    }
}

impl FaultRule {
    /// A rule whose chances are those of `seed`. Rules of one list need seeds of their own, or
    /// they choose the same frames.
    #[must_use]
    pub fn new(matches: Match, pick: Pick, effect: Effect, seed: u64) -> Self {
        Self { matches, pick, effect, random: Random::new(seed, 0), matched: 0 }
    }

    /// Rule number `index` of a list with one seed.
    pub(super) fn in_list(
        matches: Match,
        pick: Pick,
        effect: Effect,
        seed: u64,
        index: u64,
    ) -> Self {
        Self { matches, pick, effect, random: Random::new(seed, 1 + index), matched: 0 }
    }
}

impl Rule for FaultRule {
    fn judge(&mut self, seen: &Seen<'_>) -> Fate {
        if !self.matches.holds(seen) {
            return Fate::Pass;
        }
        self.matched += 1;
        let taken = match self.pick {
            Pick::Every => true,
            Pick::Nth(number) => self.matched == number,
            Pick::Chance(ppm) => self.random.chance(ppm),
        };
        if !taken {
            return Fate::Pass;
        }
        match self.effect {
            Effect::Drop => Fate::Drop,
            Effect::Delay(ns) => Fate::Delay(ns),
            Effect::Duplicate => Fate::Duplicate,
            Effect::Corrupt => Fate::Corrupt(protected_bit(&mut self.random, seen.bits())),
            Effect::MarkCe => Fate::MarkCe,
            Effect::Reorder => Fate::Reorder,
        }
    }
}

/// One of `bits` bits, but none of the byte that the ICRC does not cover: it is the fifth, and
/// switches may write it.
fn protected_bit(random: &mut Random, bits: u32) -> u32 {
    let bit = random.below(bits.saturating_sub(8));
    if bit < 32 { bit } else { bit + 8 }
}
