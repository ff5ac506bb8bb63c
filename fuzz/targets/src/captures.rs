//! The frames of capture files.

use crate::reader::Reader;

/// The frames of a capture, up to the first block that is none.
pub(crate) fn frames(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    Reader::new(bytes).map_while(Result::ok).map(|frame| frame.bytes)
}
