//! What is done, step by step.

use serde::{Deserialize, Serialize};

use super::chance::Chance;
use super::plan::Plan;

/// One step. What it is in detail (lengths, flags, pieces) is drawn from its own seed, so that it is
/// the same whatever came before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// What.
    pub op: Op,
    /// Where: an end, or for some a host; counted modulo how many there are.
    pub at: u32,
    /// Where its details come from.
    pub seed: u32,
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Op {
    /// Time passes.
    Run,
    /// All completions of a host are taken.
    Poll,
    /// A receive is posted.
    Receive,
    /// SEND, with or without immediate, inline, gathered.
    Send,
    /// WRITE, with or without immediate.
    Write,
    /// READ.
    Read,
    /// READ, and a fenced SEND of what it brought.
    PassOn,
    /// FETCH ADD of 1 to the word that all share.
    Add,
    /// COMPARE SWAP of a word of its own.
    Swap,
    /// ATOMIC WRITE.
    WriteWord,
    /// FLUSH.
    Flush,
    /// A window is bound to a part of the end's memory.
    Bind,
    /// The peer writes or reads through a window.
    UseWindow,
    /// A window is invalidated, here or by a SEND of the peer.
    Unbind,
    /// A request with a key that is not right, or a range that is not inside.
    Offend,
    /// A request with a local key that is not right.
    Blunder,
    /// A window is used by somebody, or in a way, that it does not serve.
    Misuse,
    /// A receive is of memory that the device may not write.
    ReceiveBadly,
    /// A region is deregistered while the peer writes to it.
    Vanish,
    /// A host is parted from the others, or joined again.
    Part,
    /// The port of a host is paused, or goes on.
    Pause,
}

/// How often, of so many in all.
const WEIGHTS: [(Op, u32); 21] = [
    (Op::Run, 60),
    (Op::Poll, 50),
    (Op::Receive, 40),
    (Op::Send, 25),
    (Op::Write, 20),
    (Op::Read, 15),
    (Op::PassOn, 5),
    (Op::Add, 6),
    (Op::Swap, 4),
    (Op::WriteWord, 4),
    (Op::Flush, 3),
    (Op::Bind, 6),
    (Op::UseWindow, 8),
    (Op::Unbind, 5),
    (Op::Offend, 2),
    (Op::Blunder, 1),
    (Op::Misuse, 3),
    (Op::ReceiveBadly, 2),
    (Op::Vanish, 1),
    (Op::Part, 1),
    (Op::Pause, 1),
];

impl Step {
    /// The steps of a plan, without end.
    pub fn drawn(plan: &Plan) -> impl Iterator<Item = Self> + use<> {
        let mut chance = Chance::new(plan.seed ^ 0x7374_6570);
        let (cuts, errors) = (plan.cuts, plan.errors);
        let all: u32 = WEIGHTS.iter().map(|(_, weight)| weight).sum();
        std::iter::from_fn(move || {
            let mut dice = chance.below(all);
            let mut op = Op::Run;
            for (kind, weight) in WEIGHTS {
                if dice < weight {
                    op = kind;
                    break;
                }
                dice -= weight;
            }
            let allowed = (errors
                || !matches!(
                    op,
                    Op::Offend | Op::Blunder | Op::Misuse | Op::ReceiveBadly | Op::Vanish
                ))
                && (cuts || !matches!(op, Op::Part | Op::Pause));
            let op = if allowed { op } else { Op::Run };
            let [at, seed] = [chance.draw(), chance.draw()].map(|number| (number >> 32) as u32);
            Some(Self { op, at, seed })
        })
    }
}
