//! RC, the receiving side.

mod lengths;
mod order;
mod receives;
mod sequence;

use super::book::named;
use crate::case::Case;

/// The cases of the family.
pub(super) fn cases() -> Vec<Case> {
    [sequence::cases, order::cases, lengths::cases, receives::cases]
        .into_iter()
        .flat_map(|cases| cases())
        .collect()
}

/// A request that is refused for good: by which answer, and by which event the program hears of it.
/// Memory is untouched, the receive that waits is flushed, and nothing more is answered.
fn refused(name: &str, before: &str, request: &str, answer: &str, event: &str) -> Case {
    let text = format!(
        "{before}
        region mem len=256 rights=lwra
        recv id=9 at=mem len=16
        < {request} ack
        > {answer}
        in ERR
        done id=9 status=WR_FLUSH_ERR
        event {event}
        quiet
        holds buf 4096
        holds mem 256"
    );
    named(name, text)
}

/// The same as an invalid request with the first sequence number.
fn invalid(name: &str, before: &str, request: &str) -> Case {
    refused(name, before, request, "NAK_INVALID psn=0 msn=0", "QP_REQ_ERR")
}
