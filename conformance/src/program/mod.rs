//! The program on the device under test: what a script, or a peer on the network, can ask it to do.
//!
//! [`Command`] is one line of text, [`Answer`] what comes back. [`Local`] carries commands out on an
//! open device; [`serve`] does so for whoever asks over TCP, and [`Remote`] is that one. A script
//! does not notice which of them it talks to.

mod command;
mod local;
mod memory;
mod remote;
pub mod serve;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use command::{
    Action, Command, Element, Place, Post, QpSetup, RegionSetup, WindowSetup, describe,
};
pub use local::Local;
pub use memory::Region;
pub use remote::Remote;

/// Whoever carries out commands.
pub trait Program: fmt::Debug {
    /// Carries out one.
    ///
    /// # Errors
    /// The device refused it, or nobody answers.
    fn execute(&mut self, command: &Command) -> Result<Answer, Refusal>;
}

/// What came of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Done, and nothing to tell.
    Done,
    /// A queue pair was made.
    Qp {
        /// Its number.
        number: u32,
        /// The address that it sends from.
        gid: String,
        /// The number of its shared receive queue, if that has one (XRC).
        srq: Option<u32>,
    },
    /// A region was made, or a window was bound.
    Key {
        /// Address of its first byte.
        addr: u64,
        /// Key for peers.
        rkey: u32,
    },
    /// Completions, oldest first.
    Completions(Vec<Completion>),
    /// Bytes of memory, hexadecimal.
    Memory(String),
    /// The state of a queue pair.
    State(String),
    /// Asynchronous events, oldest first.
    Events(Vec<String>),
    /// What the device can do.
    Capabilities(Vec<String>),
}

/// A work completion in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completion {
    /// The program's own number.
    pub id: u64,
    /// How it ended: [`crate::names::STATUSES`].
    pub status: String,
    /// What it was: [`crate::names::OPCODES`].
    pub opcode: String,
    /// Which fields mean something: [`crate::names::FLAGS`].
    pub flags: Vec<String>,
    /// Bytes received or read.
    pub len: u32,
    /// Immediate data.
    pub imm: u32,
    /// The key that was invalidated.
    pub inv: u32,
    /// Finer cause of an error.
    pub vendor: u32,
    /// Queue pair that a datagram is from.
    pub src: u32,
    /// The own queue pair.
    pub qp: u32,
}

impl fmt::Display for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} id={} {}", self.opcode, self.id, self.status)?;
        if self.status == "SUCCESS" {
            write!(f, " len={}", self.len)?;
            for flag in &self.flags {
                write!(f, " {flag}")?;
            }
        }
        if self.flags.iter().any(|flag| flag == "WITH_IMM") {
            write!(f, " imm={:#x}", self.imm)?;
        }
        Ok(())
    }
}

/// Why a command was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// `EINVAL` and the like where the device refused; nothing where the command never got there.
    pub errno: Option<String>,
    /// In words.
    pub why: String,
}

impl Refusal {
    /// One that is not the device's.
    #[must_use]
    pub fn plain(why: impl Into<String>) -> Self {
        Self { errno: None, why: why.into() }
    }
}

impl From<softrnic_model::verbs::VerbError> for Refusal {
    fn from(error: softrnic_model::verbs::VerbError) -> Self {
        Self { errno: Some(error.errno_name().into()), why: error.to_string() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Refusal {}
