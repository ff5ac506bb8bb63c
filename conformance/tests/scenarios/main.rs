//! The 57 recorded scenarios, each a test, on the simulated fabric and over UDP; and
//! variations of them.
//!
//! `captures/README.md` says what was recorded, and how.

#![expect(clippy::wildcard_enum_match_arm, reason = "tests look for one thing among others")]

#[cfg(test)]
#[macro_use]
mod names;

#[cfg(test)]
mod capture;
#[cfg(test)]
mod page;
#[cfg(test)]
mod pcapng;
#[cfg(test)]
mod recorded;
#[cfg(test)]
mod script;
#[cfg(test)]
mod udp;
#[cfg(test)]
mod variations;
#[cfg(test)]
mod wire;
#[cfg(test)]
mod world;
