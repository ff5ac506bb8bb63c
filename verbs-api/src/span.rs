//! Bytes that others may touch at the same time.

use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::host_memory::{Mover as _, Native};
use crate::provider::MemoryRange;

/// An access to shared bytes that cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessError {
    /// Some of the bytes are not in the buffer, or (of memory that the program mapped itself) not
    /// there any more.
    OutOfRange,
    /// A word is not at a multiple of its size.
    Misaligned,
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfRange => "the access goes beyond the buffer",
            Self::Misaligned => "the address of a word must be a multiple of its size",
        })
    }
}

impl core::error::Error for AccessError {}

/// A range of memory that is touched by copies and atomics only.
pub(crate) struct Span {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: every access is one that any thread may make at any time (the contract of `new`).
unsafe impl Send for Span {}
// SAFETY: as above.
unsafe impl Sync for Span {}

impl Span {
    /// # Safety
    /// As long as the span exists the range is allocated, initialised and may be read and written
    /// at any time from any thread by relaxed atomic accesses.
    pub(crate) const unsafe fn new(base: NonNull<u8>, len: usize) -> Self {
        Self { base, len }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) const fn range(&self) -> MemoryRange {
        MemoryRange { base: self.base.as_ptr(), len: self.len }
    }

    pub(crate) fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), AccessError> {
        let from = self.locate(offset, into.len())?;
        // SAFETY: within the range that `new`'s caller vouches for.
        unsafe { Native::read(from, into) }.map_err(|_| AccessError::OutOfRange)
    }

    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), AccessError> {
        let to = self.locate(offset, bytes.len())?;
        // SAFETY: within the range that `new`'s caller vouches for.
        unsafe { Native::write(to, bytes) }.map_err(|_| AccessError::OutOfRange)
    }

    pub(crate) fn fill(&self, byte: u8) -> Result<(), AccessError> {
        let block = [byte; 256];
        (0..self.len)
            .step_by(block.len())
            .try_for_each(|offset| self.write(offset, &block[..block.len().min(self.len - offset)]))
    }

    pub(crate) fn load_u64(&self, offset: usize) -> Result<u64, AccessError> {
        Ok(self.word(offset)?.load(Ordering::Acquire))
    }

    pub(crate) fn store_u64(&self, offset: usize, value: u64) -> Result<(), AccessError> {
        self.word(offset)?.store(value, Ordering::Release);
        Ok(())
    }

    fn locate(&self, offset: usize, len: usize) -> Result<*mut u8, AccessError> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(self.base.as_ptr().wrapping_add(offset)),
            _ => Err(AccessError::OutOfRange),
        }
    }

    fn word(&self, offset: usize) -> Result<&AtomicU64, AccessError> {
        let at = self.locate(offset, size_of::<u64>())?.cast::<u64>();
        if !at.is_aligned() {
            return Err(AccessError::Misaligned);
        }
        // SAFETY: aligned, within the range that `new`'s caller vouches for, and lent for no
        // longer than the span exists.
        Ok(unsafe { AtomicU64::from_ptr(at) })
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:p}+{}", self.base, self.len)
    }
}
