//! The bytes of a memory, as they must be.

use std::ops::Range;

use crate::words::Violation;

/// Bytes that are compared at once.
const PART: usize = 256;

/// Bytes, each of which is known or not. What is not known may be anything: a request that failed may
/// have written all, some or none of its bytes.
#[derive(Clone, Debug)]
pub struct Memory {
    bytes: Vec<u8>,
    unknown: Vec<bool>,
    /// Some byte has been unknown.
    ever_unknown: bool,
}

impl Memory {
    /// `len` bytes of zero.
    #[must_use]
    pub fn new(len: usize) -> Self {
        Self { bytes: vec![0; len], unknown: vec![false; len], ever_unknown: false }
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
        if self.ever_unknown {
            self.unknown[at..at + bytes.len()].fill(false);
        }
    }

    /// Nobody knows any more what is there.
    ///
    /// # Panics
    /// Beyond the end.
    pub fn forget(&mut self, range: Range<usize>) {
        self.ever_unknown = true;
        self.unknown[range].fill(true);
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
        !self.unknown[range].contains(&true)
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
        let unknown = &self.unknown[at..at + found.len()];
        // Most of it is alike: what is not is looked for in the parts that differ.
        let parts = found.chunks(PART).zip(should.chunks(PART)).zip(unknown.chunks(PART));
        for (part, ((found, should), unknown)) in parts.enumerate() {
            if found == should {
                continue;
            }
            let wrong = |index: &usize| found[*index] != should[*index] && !unknown[*index];
            if let Some(index) = (0..found.len()).find(wrong) {
                let (is, ought, byte) = (found[index], should[index], at + part * PART + index);
                let text = format!("memory: byte {byte} is {is:#04x} and must be {ought:#04x}");
                return Err(Violation(text));
            }
        }
        Ok(())
    }
}
