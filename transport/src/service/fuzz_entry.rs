//! Messages, read and written again.

use super::message::{Answer, Request};

/// The version of the protocol.
pub const VERSION: u8 = super::message::VERSION;

/// What a request means, written anew; `None` if it is refused.
#[must_use]
pub fn request(bytes: &[u8]) -> Option<Vec<u8>> {
    let (sequence, request) = Request::from_bytes(bytes).ok()?;
    Some(request.to_bytes(sequence))
}

/// What an answer means, written anew; `None` if it is refused.
#[must_use]
pub fn answer(bytes: &[u8]) -> Option<Vec<u8>> {
    let (sequence, answer) = Answer::from_bytes(bytes).ok()?;
    Some(answer.to_bytes(sequence))
}
