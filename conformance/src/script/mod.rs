//! Packet scripts: a case as a text that can be read aloud.
//!
//! ```text
//! # The acknowledgement was lost, so the WRITE comes again.
//! qp rc
//!       < WRITE_ONLY psn=0 data=4*0xaa ack
//!       > ACK psn=0 msn=1
//!       store buf 4*0x55
//! 50us  < WRITE_ONLY psn=0 data=4*0xaa ack
//!       > ACK psn=0 msn=1
//!       holds buf 4*0x55
//! ```
//!
//! `<` arrives at the device under test, `>` must leave it; every other line begins with a word: what
//! its program does ([`crate::program::Command`]) or what is to be seen there. Nothing else may leave
//! the device, and no completion may be left, when a script ends.
//!
//! * **Time** in front of a line: `50us` since the script began, `+50us` since the line before. What
//!   arrives, or is done, is so then; what must leave may not leave before.
//! * **Numbers.** `psn=` counts from the first sequence number of that direction (`psn=` and `sqpsn=`
//!   of the queue pair); `psn=abs:7` does not. A region's name is its address in `va=` and its key in
//!   `rkey=`, a queue pair's name its number in `dest=`; all can be added to: `va=buf+8`, `rkey=buf+1`.
//!   A region `buf` of 4096 bytes with all rights is there unless the script makes its own.
//! * **Bytes**: `64` counts up from 0, `64:5` from 5, `4*0xaa` is four times the same, `x0a0b` itself.
//!   Memory counts up from 0 at first.
//! * **What is to be seen**: `done OPCODE id=.. status=.. len=..` (the next completion), `idle` (no
//!   completion), `holds PLACE BYTES`, `in STATE`, `event NAME`, `no-event NAME`, `quiet [TIME]`
//!   (nothing leaves), `refused ERRNO COMMAND`. `wait TIME` lets time pass, `needs CAPABILITY` makes
//!   the case not applicable without it.
//!
//! `docs/guides/conform.md` lists the fields of packets.

mod packet;
mod parse;
mod play;
#[cfg(test)]
mod tests;

use crate::program::Command;

pub use packet::{PacketSpec, Psn};
pub use parse::{ParseError, parse};
pub use play::{Played, play};

/// A script, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Its lines that say something.
    pub steps: Vec<Step>,
}

/// A line of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its number, from 1.
    pub line: usize,
    /// The line as it was written.
    pub text: String,
    /// When, if it says so.
    pub at: Option<At>,
    /// What.
    pub act: Act,
}

/// When something happens, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Since the script began.
    Since(u64),
    /// Since the line before.
    After(u64),
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// `<`: this packet arrives.
    Arrives(PacketSpec),
    /// `>`: this packet must leave.
    Leaves(PacketSpec),
    /// `>?`: this packet may leave from here on, once.
    MayLeave(PacketSpec),
    /// The program does this.
    Does(Command),
    /// The program tries this, and the device refuses it.
    Refused(String, Command),
    /// The next completion is this.
    Done(DoneSpec),
    /// No completion waits.
    Idle,
    /// Memory holds this, now or soon.
    Holds(Command, Vec<u8>),
    /// The queue pair is in this state, now or soon.
    In(Command, String),
    /// This event is raised, now or soon.
    Event(String),
    /// This event has not been raised.
    NoEvent(String),
    /// Nothing leaves for this long; as long as a short wait is if nothing is said.
    Quiet(Option<u64>),
    /// Time passes.
    Wait(u64),
    /// The device must be able to do this.
    Needs(String),
}

/// A completion as it is to be. What is not said is not looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DoneSpec {
    /// The queue pair's name.
    pub qp: Option<String>,
    /// The program's own number.
    pub id: Option<u64>,
    /// How it ended.
    pub status: String,
    /// What it was.
    pub opcode: Option<String>,
    /// Exactly these flags.
    pub flags: Option<Vec<String>>,
    /// Bytes.
    pub len: Option<u32>,
    /// Immediate data.
    pub imm: Option<u32>,
    /// The key that was invalidated.
    pub inv: Option<crate::text::Value>,
    /// Queue pair that a datagram is from.
    pub src: Option<u32>,
    /// Finer cause of an error.
    pub vendor: Option<u32>,
}
