//! The machine of the connection manager: every state and message, forgeries, floods, and two of them
//! over a wire that loses, repeats and reorders.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "tests"
)]

mod bounds;
mod every_state;
mod forged;
mod nonsense;
mod peer;
mod timing;
mod weather;
