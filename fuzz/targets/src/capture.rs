//! Any bytes as a capture file: the reader gives a place and a reason, and whatever it reads is
//! explained and fed to a device.

use softrnic_conformance::replay::{Reader, replay};

use crate::Reached;

/// Reads and explains these bytes.
pub fn run(bytes: &[u8]) -> Reached {
    let frames = Reader::new(bytes).filter(Result::is_ok).count();
    let (replayed, end) = replay(bytes);
    assert_eq!(replayed.frames.len(), frames);
    if let Err(bad) = end {
        assert!(bad.offset <= bytes.len() && !bad.reason.is_empty());
    }
    let executed = replayed.frames.iter().filter(|frame| !frame.answers.is_empty()).count();
    Reached { executed: executed as u64, ..Reached::default() }
}
