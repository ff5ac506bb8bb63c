//! A capture, explained: what each frame asks or answers, in words, and what a device would say to it.
//!
//! [`pcapng`] reads the file, `words` says what a packet means, and `cm` what a message of the connection
//! manager does, `stand_in` feeds requests to a
//! device whose objects are guessed from the capture, and tells what it answers.

mod cm;
pub mod pcapng;
mod stand_in;
mod words;

use std::fmt;

use softrnic_model::wire::{NotRoce, RoceFrame};

pub use self::pcapng::{BadFile, Frame, Reader};
pub use self::stand_in::{Assumption, StandIns};
pub use self::words::explain;

/// What is to be said about one frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// Its number in the file, from 1 on.
    pub number: u64,
    /// Nanoseconds since the first frame.
    pub at_ns: u64,
    /// Who to whom and what, in the words of traces; or why it is no RoCEv2 frame.
    pub line: String,
    /// What it means, if it is one.
    pub meaning: Vec<String>,
    /// What a device that gets it does and answers.
    pub answers: Vec<String>,
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} {}", self.number, self.line)?;
        self.meaning.iter().try_for_each(|text| write!(f, "\n    {text}"))?;
        self.answers.iter().try_for_each(|text| write!(f, "\n    -> {text}"))
    }
}

/// A capture, explained.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// What was guessed to feed the device.
    pub assumptions: Vec<Assumption>,
    /// Frame by frame.
    pub frames: Vec<Explained>,
}

/// Explains a capture. What comes before a place that cannot be read is explained all the same.
pub fn replay(bytes: &[u8]) -> (Replay, Result<(), BadFile>) {
    let (mut frames, mut end) = (Vec::new(), Ok(()));
    for frame in Reader::new(bytes) {
        match frame {
            Ok(frame) => frames.push(frame),
            Err(bad) => end = Err(bad),
        }
    }
    let parsed: Vec<(&Frame<'_>, Result<RoceFrame<'_>, NotRoce>)> =
        frames.iter().map(|frame| (frame, RoceFrame::parse(frame.bytes))).collect();
    let mut devices = StandIns::guess(parsed.iter().filter_map(|(_, frame)| frame.as_ref().ok()));
    let first = frames.first().map_or(0, |frame| frame.at_ns);
    let explained = parsed.iter().map(|(frame, roce)| {
        let at_ns = frame.at_ns.saturating_sub(first);
        let number = frame.number;
        match roce {
            Err(why) => {
                let line = format!("{} bytes, not RoCEv2: {why}", frame.bytes.len());
                Explained { number, at_ns, line, meaning: Vec::new(), answers: Vec::new() }
            }
            Ok(roce) => {
                let (line, mut meaning) = explain(at_ns, roce);
                let intact = roce.expected_icrc() == roce.icrc;
                if !intact {
                    meaning.push("its ICRC is wrong: a device drops it".into());
                }
                let answers = if intact { devices.feed(at_ns, roce) } else { Vec::new() };
                Explained { number, at_ns, line, meaning, answers }
            }
        }
    });
    let frames = explained.collect();
    (Replay { assumptions: devices.assumptions().to_vec(), frames }, end)
}
