//! What a soft-RoCE device (Linux 6.1) answered in the scenarios.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use softrnic_model::verbs::Wc;

use crate::scenario::{Outcome, Side};

/// A completion as numbers: those of `ibv_wc_status`, `ibv_wc_opcode` and `ibv_wc_flags`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Line {
    /// How it ended.
    pub status: u32,
    /// What it was.
    pub opcode: u32,
    /// Bytes.
    pub byte_len: u32,
    /// Immediate data, in host order.
    pub imm_data: u32,
    /// Which fields mean something.
    pub wc_flags: u32,
    /// The program's own number.
    pub wr_id: u64,
}

impl From<&Wc> for Line {
    fn from(wc: &Wc) -> Self {
        Self {
            status: wc.status as u32,
            opcode: wc.opcode as u32,
            byte_len: wc.byte_len,
            imm_data: wc.imm_data,
            wc_flags: wc.flags.bits().into(),
            wr_id: wc.wr_id,
        }
    }
}

/// What one side was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The work request was refused with this errno.
    Refused(i32),
    /// These completions.
    Completed(Vec<Line>),
}

impl From<&Outcome> for Answer {
    fn from(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Refused(errno) => Self::Refused(*errno),
            Outcome::Completed(wcs) => Self::Completed(wcs.iter().map(Line::from).collect()),
        }
    }
}

#[derive(Deserialize)]
struct RawScenario {
    requester: RawAnswer,
    responder: RawAnswer,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawAnswer {
    /// The text of a Python exception.
    Refused(String),
    Completed(Vec<Line>),
    /// Nobody asked; nothing can have completed.
    NotPolled,
}

impl RawAnswer {
    fn read(self) -> Result<Answer, Unreadable> {
        Ok(match self {
            Self::Refused(text) => {
                let behind = text.split_once("Errno: ").map(|(_, behind)| behind);
                let digits = behind.and_then(|behind| behind.split(',').next());
                match digits.and_then(|digits| digits.parse().ok()) {
                    Some(errno) => Answer::Refused(errno),
                    None => return Err(Unreadable::NoErrno(text)),
                }
            }
            Self::Completed(mut lines) => {
                for line in &mut lines {
                    // The program read a number that is in network order as one of its host.
                    line.imm_data = line.imm_data.swap_bytes();
                }
                Answer::Completed(lines)
            }
            Self::NotPolled => Answer::Completed(Vec::new()),
        })
    }
}

/// The recorded answers of a scenario; by [`Side`].
pub type Answers = [Answer; 2];

/// All recorded answers by name of the scenario.
#[derive(Clone, Debug)]
pub struct Recording(BTreeMap<String, Answers>);

/// Recorded over IPv4.
pub const RXE_V4: &str = include_str!("../captures/rxe-scenarios.json");
/// Recorded over IPv6.
pub const RXE_V6: &str = include_str!("../captures/rxe-v6-scenarios.json");

impl Recording {
    /// Reads one; the text is an object by name of the scenario.
    ///
    /// # Errors
    /// The text is not of that form.
    pub fn read(text: &str) -> Result<Self, Unreadable> {
        let raw: BTreeMap<String, RawScenario> =
            serde_json::from_str(text).map_err(Unreadable::Json)?;
        let read = |(name, RawScenario { requester, responder })| {
            Ok((name, [requester.read()?, responder.read()?]))
        };
        raw.into_iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// What one side was told.
    #[must_use]
    pub fn answer(&self, scenario: &str, side: Side) -> Option<&Answer> {
        self.0.get(scenario).map(|answers| &answers[side as usize])
    }

    /// The names of all scenarios, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// Why a recording cannot be read.
#[derive(Debug)]
pub enum Unreadable {
    /// It is not JSON of the right form.
    Json(serde_json::Error),
    /// A refusal does not say with which errno.
    NoErrno(String),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(why) => write!(f, "not a recording: {why}"),
            Self::NoErrno(text) => write!(f, "a refusal without errno: {text}"),
        }
    }
}

impl std::error::Error for Unreadable {}
