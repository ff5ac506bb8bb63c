//! Taps: links around a link. They show what passes to somebody ([`Watch`]), print it ([`Trace`]), record it
//! for Wireshark ([`Capture`]) or spoil it ([`Faults`]), and can be stacked in any order: a tap sees what the
//! link inside it hands up, and what the link outside it hands down.

pub mod capture;
pub mod faults;
mod pcapng;
#[cfg(test)]
mod tests;
pub mod trace;
pub mod watch;

pub use capture::{Capture, CaptureError, CaptureFile};
pub use faults::{FaultRules, Faults};
pub use trace::{Line, Trace};
pub use watch::{Watch, Watcher};

/// Which way a frame passes a tap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// It leaves this host.
    Sent,
    /// It has arrived.
    Received,
}
