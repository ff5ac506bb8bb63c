//! The door to program memory.

/// A range of program memory that the driver has made known to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryId(pub u32);

/// The memory could not be reached: it was unmapped, or is outside what the driver knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// [protection/memory-gone]
pub struct MemoryFault;

/// Performs accesses that the model has already allowed.
///
/// The model decides *whether* an access may happen; an implementation only carries it out, by
/// copy, and answers [`MemoryFault`] where there is no memory (any more). The program and a peer
/// may touch the same bytes at the same time, so an implementation never makes a reference to them.
pub trait Memory {
    /// Copies `into.len()` bytes that begin at `offset` out of program memory.
    ///
    /// # Errors
    /// [`MemoryFault`]: some of the bytes are not there; `into` may have been filled in part.
    fn read(&self, memory: MemoryId, offset: u64, into: &mut [u8]) -> Result<(), MemoryFault>;

    /// Copies `bytes` into program memory from `offset` on.
    ///
    /// # Errors
    /// [`MemoryFault`]: some of the bytes are not there; a part may have been written.
    fn write(&self, memory: MemoryId, offset: u64, bytes: &[u8]) -> Result<(), MemoryFault>;

    /// Compares the 8 aligned bytes at `offset` (host order) with `compare`, stores `swap` if they
    /// are equal, and returns what was there, as one atomic step.
    ///
    /// # Errors
    /// [`MemoryFault`]: the bytes are not there, or not aligned on 8 in the host's memory.
    // [read-atomic/atomic-atomic]
    fn compare_swap(
        &self,
        memory: MemoryId,
        offset: u64,
        compare: u64,
        swap: u64,
    ) -> Result<u64, MemoryFault>;

    /// Stores `value` (host order) in the 8 aligned bytes at `offset`, as one atomic step.
    ///
    /// # Errors
    /// [`MemoryFault`]: the bytes are not there, or not aligned on 8 in the host's memory.
    // [flush-placement/atomic-write-whole]
    fn store(&self, memory: MemoryId, offset: u64, value: u64) -> Result<(), MemoryFault> {
        // A failed exchange means that somebody else's has succeeded.
        let mut seen = 0;
        loop {
            let found = self.compare_swap(memory, offset, seen, value)?;
            if found == seen {
                return Ok(());
            }
            seen = found;
        }
    }

    /// Adds `add` (wrapping) to the 8 aligned bytes at `offset` (host order) and returns what was
    /// there, as one atomic step.
    ///
    /// # Errors
    /// [`MemoryFault`]: the bytes are not there, or not aligned on 8 in the host's memory.
    fn fetch_add(&self, memory: MemoryId, offset: u64, add: u64) -> Result<u64, MemoryFault>;
}
