//! What the fuzz targets do. Each is a function of bytes that panics when something is wrong, and says
//! how deep it got: bytes that never reach what is behind the checks find nothing there.
//!
//! [`seeds`] makes the inputs to begin with, from recorded captures and from what each target knows;
//! an ordinary test runs them all.
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a target says that something is wrong by a panic, and makes numbers out of any bytes"
)]
#![expect(
    clippy::wildcard_enum_match_arm,
    clippy::too_many_lines,
    reason = "what a target does not foresee is what it is for; its steps are one long list"
)]

pub mod capture;
pub mod device;
pub mod frame;
pub mod protection;
pub mod requester;
pub mod responder;
pub mod seeds;
pub mod service;

/// How deep an input got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// Requests that were carried out, answers that completed something, accesses that were granted:
    /// what lies behind all checks of the target.
    pub executed: u64,
    /// Datagrams that were received.
    pub datagrams: u64,
    /// Requests that found no receive.
    pub not_ready: u64,
}

/// A target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, as cargo-fuzz has it.
    pub name: &'static str,
    /// What it does with an input.
    pub run: fn(&[u8]) -> Reached,
}

/// All targets.
pub const TARGETS: [Target; 7] = [
    Target { name: "frame", run: frame::run },
    Target { name: "device", run: device::run },
    Target { name: "responder", run: responder::run },
    Target { name: "requester", run: requester::run },
    Target { name: "protection", run: protection::run },
    Target { name: "capture", run: capture::run },
    Target { name: "service", run: service::run },
];

/// Takes numbers off the front of an input; zeros when it is used up.
#[derive(Debug)]
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn u8(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.u8(), self.u8()])
    }

    fn u64(&mut self) -> u64 {
        let bytes: [u8; 8] = std::array::from_fn(|_| self.u8());
        u64::from_be_bytes(bytes)
    }

    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }
}
