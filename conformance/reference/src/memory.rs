//! The bytes of a memory, as they must be.

use std::ops::Range;

use crate::words::{Violation, demand};

/// Bytes, each of which is known or not. What is not known may be anything: a request that failed may
/// have written all, some or none of its bytes.
#[derive(Clone, Debug)]
pub struct Memory {
    bytes: Vec<u8>,
    unknown: Vec<bool>,
    unknown_count: usize,
}

impl Memory {
    /// `len` bytes of zero.
    #[must_use]
    pub fn new(len: usize) -> Self {
        Self { bytes: vec![0; len], unknown: Vec::new(), unknown_count: 0 }
    }

    /// How many bytes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes are written.
    ///
    /// # Panics
    /// Beyond the end.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        if self.unknown_count > 0 {
            self.mark(at..at + bytes.len(), false);
        }
    }

    /// Nobody knows any more what is there.
    ///
    /// # Panics
    /// Beyond the end.
    pub fn forget(&mut self, range: Range<usize>) {
        self.unknown.resize(self.bytes.len(), false);
        self.mark(range, true);
    }

    fn mark(&mut self, range: Range<usize>, unknown: bool) {
        for was in &mut self.unknown[range] {
            self.unknown_count += usize::from(unknown && !*was);
            self.unknown_count -= usize::from(!unknown && *was);
            *was = unknown;
        }
    }

    /// What is there, as far as it is known.
    ///
    /// # Panics
    /// Beyond the end.
    #[must_use]
    pub fn read(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// Whether all of a range is known.
    ///
    /// # Panics
    /// Beyond the end.
    #[must_use]
    pub fn knows(&self, range: Range<usize>) -> bool {
        self.unknown_count == 0 || !self.unknown[range].contains(&true)
    }

    /// Compares what was found at `at` with what must be there.
    ///
    /// # Errors
    /// The first byte that differs.
    ///
    /// # Panics
    /// Beyond the end.
    pub fn compare(&self, at: usize, found: &[u8]) -> Result<(), Violation> {
        let should = &self.bytes[at..at + found.len()];
        if found == should {
            return Ok(());
        }
        let known = |index: usize| self.unknown_count == 0 || !self.unknown[at + index];
        let wrong = (0..found.len()).find(|index| found[*index] != should[*index] && known(*index));
        demand(wrong.is_none(), || {
            let index = wrong.unwrap_or(0);
            let (is, ought) = (found[index], should[index]);
            format!("memory: byte {} is {is:#04x} and must be {ought:#04x}", at + index)
        })
    }
}
