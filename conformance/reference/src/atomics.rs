//! Atomics happen once.

use std::collections::BTreeSet;

use crate::words::{Violation, demand};

/// A word to which everybody adds 1, from 0 on: each addition finds another number.
#[derive(Clone, Debug, Default)]
pub struct Additions {
    found: BTreeSet<u64>,
    /// Additions of which nobody knows whether they happened.
    unknown: u64,
}

impl Additions {
    /// An addition is done and has found this.
    ///
    /// # Errors
    /// Another one has found the same, or more than there can have been.
    pub fn found(&mut self, value: u64) -> Result<(), Violation> {
        demand(self.found.insert(value), || format!("two additions have found {value}"))
    }

    /// An addition failed and may have happened all the same.
    pub const fn lost(&mut self) {
        self.unknown += 1;
    }

    /// What the word must be when nothing is under way.
    ///
    /// # Errors
    /// An addition happened twice, or not at all.
    pub fn check(&self, value: u64) -> Result<(), Violation> {
        let done = self.found.len() as u64;
        demand((done..=done + self.unknown).contains(&value), || {
            format!(
                "{done} additions are done and {} unknown, but the word is {value}",
                self.unknown
            )
        })?;
        let most = self.found.last().map_or(0, |last| last + 1);
        demand(most <= value, || format!("an addition has found {}, beyond {value}", most - 1))?;
        let gaps = most - done;
        demand(gaps <= self.unknown, || {
            format!(
                "{gaps} numbers below {most} were found by nobody; unknown are {}",
                self.unknown
            )
        })
    }
}
