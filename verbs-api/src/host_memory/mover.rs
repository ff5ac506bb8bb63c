//! The ways to touch program memory.

use softrnic_model::MemoryFault;

/// Touches program memory by raw address. Implementations differ in what happens when there is no
/// memory at the address; see each.
///
/// Sealed by being private to the crate's users: [`super::HostMemory`] chooses among the ones here.
pub trait Mover: sealed::Sealed + Send + Sync + 'static {
    /// Copies `into.len()` bytes from `from`.
    ///
    /// # Errors
    /// [`MemoryFault`]: some of the bytes are not there; `into` may have been filled in part.
    ///
    /// # Safety
    /// No Rust code may rely on the bytes at `from` not being read now. Whether they must be there
    /// depends on the implementation.
    unsafe fn read(from: *const u8, into: &mut [u8]) -> Result<(), MemoryFault>;

    /// Copies `bytes` to `to`.
    ///
    /// # Errors
    /// [`MemoryFault`]: some of the bytes are not there or are read-only; a part may have been
    /// written.
    ///
    /// # Safety
    /// No Rust code may rely on the bytes at `to` not being written now. Whether they must be there
    /// depends on the implementation.
    unsafe fn write(to: *mut u8, bytes: &[u8]) -> Result<(), MemoryFault>;

    /// Stores `swap` if the 8 bytes at `at` are `compare`, and returns what was there.
    ///
    /// # Errors
    /// [`MemoryFault`]: they are not there or read-only.
    ///
    /// # Safety
    /// As [`Mover::write`]; `at` is a multiple of 8.
    unsafe fn compare_swap(at: *mut u64, compare: u64, swap: u64) -> Result<u64, MemoryFault>;

    /// Adds `add` to the 8 bytes at `at` and returns what was there.
    ///
    /// # Errors
    /// [`MemoryFault`]: they are not there or read-only.
    ///
    /// # Safety
    /// As [`Mover::write`]; `at` is a multiple of 8.
    unsafe fn fetch_add(at: *mut u64, add: u64) -> Result<u64, MemoryFault>;

    /// Makes ready what the process needs for this; may be called any number of times.
    fn install() {}
}

pub(super) mod sealed {
    /// Only the movers of this crate.
    pub trait Sealed {}
}
