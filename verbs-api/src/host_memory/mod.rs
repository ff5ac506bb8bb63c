//! Program memory that a device may touch.
//!
//! The program, its peers and the device touch the same bytes at the same time. So nothing here
//! ever makes a Rust reference to them: bytes are copied by assembly or by atomics. And a
//! program may unmap memory that is registered: such an access answers [`MemoryFault`], it does not
//! end the process, as far as the platform allows:
//!
//! | platform | [`Native`] is | memory that went away |
//! |---|---|---|
//! | x86-64 Linux | [`Guarded`]: assembly and a fault handler | `MemoryFault` |
//! | other Linux | [`ProcessVm`]: the kernel copies | `MemoryFault`, but for a race of atomics |
//! | others | [`Atomics`] | the process ends |

use core::any::Any;
use core::fmt;
use core::marker::PhantomData;
use std::collections::VecDeque;
use std::sync::Arc;

use softrnic_model::verbs::VerbError;
use softrnic_model::{Memory, MemoryFault, MemoryId};

use crate::buffer::SharedBuffer;

mod atomics;
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
mod guarded;
#[cfg(all(target_os = "linux", not(miri)))]
mod maps;
mod mover;
#[cfg(all(target_os = "linux", not(miri)))]
mod process_vm;
#[cfg(test)]
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
mod tests;

pub use atomics::Atomics;
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
pub use guarded::Guarded;
pub use mover::Mover;
#[cfg(all(target_os = "linux", not(miri)))]
pub use process_vm::ProcessVm;

/// The best way to touch program memory on this platform.
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
pub type Native = Guarded;
/// The best way to touch program memory on this platform.
#[cfg(all(target_os = "linux", not(target_arch = "x86_64"), not(miri)))]
pub type Native = ProcessVm;
/// The best way to touch program memory on this platform.
#[cfg(any(not(target_os = "linux"), miri))]
pub type Native = Atomics;

/// What keeps a range allocated while the table knows it.
pub type KeepAlive = Arc<dyn Any + Send + Sync>;

/// A [`MemoryId`] is an index in the low bits and a generation in the others, so that the number of
/// a removed range does not soon name another one.
const INDEX_BITS: u32 = 20;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;

/// The most ranges that a table holds.
pub const RANGES_MAX: usize = 1 << INDEX_BITS;

/// What is behind a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Memory of the program.
    Memory,
    /// Nothing: zeros are read, and what is written is gone.
    Null,
}

struct Range {
    kind: Kind,
    base: *mut u8,
    /// 0 when the place is vacant.
    len: usize,
    id: MemoryId,
    #[expect(dead_code, reason = "held until the range is removed, never looked at")]
    keep_alive: Option<KeepAlive>,
}

/// The table of ranges that a device knows, and the access to them.
///
/// Readers share it and pay an index and two comparisons; [`HostMemory::add`] and
/// [`HostMemory::remove`] want it exclusively, so after `remove` no access to the range is under
/// way. It lives under the same lock as the device that uses it.
pub struct HostMemory<M = Native> {
    ranges: Vec<Range>,
    /// Reused oldest first.
    vacant: VecDeque<u32>,
    mover: PhantomData<M>,
}

// SAFETY: a range's pointer is only used for accesses that any thread may make (the contract of
// `add`), and what keeps it alive is `Send`.
unsafe impl<M> Send for HostMemory<M> {}
// SAFETY: as above; shared access only reads the table.
unsafe impl<M> Sync for HostMemory<M> {}

impl<M: Mover> HostMemory<M> {
    /// An empty table. Installs what catches faults, if the platform has such a thing.
    #[must_use]
    pub fn new() -> Self {
        M::install();
        Self { ranges: Vec::new(), vacant: VecDeque::new(), mover: PhantomData }
    }

    /// Makes a range known. Call [`probe`] before, where the program is to be told of bad ranges.
    ///
    /// # Errors
    /// `ENOMEM`: [`RANGES_MAX`] are known.
    ///
    /// # Safety
    /// Until [`HostMemory::remove`] has returned, the range may be read and written at any time from
    /// any thread by relaxed atomic accesses. The caller keeps out everything that contradicts
    /// that, plain Rust references above all, and does not let the range be unmapped where the
    /// table of this module says that the process would end. Where it says `MemoryFault`, the range
    /// may be unmapped, but nothing else may be mapped in its place.
    pub unsafe fn add(
        &mut self,
        base: *mut u8,
        len: usize,
        keep_alive: Option<KeepAlive>,
    ) -> Result<MemoryId, VerbError> {
        self.insert(Kind::Memory, base, len, keep_alive)
    }

    /// Makes a buffer known, and keeps it until it is removed.
    ///
    /// # Errors
    /// As [`HostMemory::add`].
    pub fn add_buffer(&mut self, buffer: &SharedBuffer) -> Result<MemoryId, VerbError> {
        let range = buffer.range();
        // A shared buffer is touched by copies and atomics only, and it is kept.
        self.insert(Kind::Memory, range.base, range.len, Some(Arc::new(buffer.clone())))
    }

    /// Makes a range known that reads as zeros and forgets what is written, as long as a range can
    /// be.
    ///
    /// # Errors
    /// As [`HostMemory::add`].
    pub fn add_null(&mut self) -> Result<MemoryId, VerbError> {
        self.insert(Kind::Null, core::ptr::null_mut(), usize::MAX, None)
    }

    fn insert(
        &mut self,
        kind: Kind,
        base: *mut u8,
        len: usize,
        keep_alive: Option<KeepAlive>,
    ) -> Result<MemoryId, VerbError> {
        // Another library may have taken the signals since.
        M::install();
        if let Some(index) = self.vacant.pop_front() {
            let range = &mut self.ranges[index as usize];
            let id = range.id;
            *range = Range { kind, base, len, id, keep_alive };
            return Ok(id);
        }
        let id = match u32::try_from(self.ranges.len()) {
            Ok(index) if index <= INDEX_MASK => MemoryId(index),
            _ => return Err(VerbError::LimitExceeded("the device knows too many ranges")),
        };
        self.ranges.push(Range { kind, base, len, id, keep_alive });
        Ok(id)
    }

    /// Forgets a range. No access to it is under way or follows.
    ///
    /// # Errors
    /// [`MemoryFault`]: there is no such range (any more).
    pub fn remove(&mut self, memory: MemoryId) -> Result<(), MemoryFault> {
        let index = memory.0 & INDEX_MASK;
        let range = self.ranges.get_mut(index as usize).filter(|r| r.id == memory);
        let Some(range) = range else { return Err(MemoryFault) };
        let next = MemoryId(memory.0.wrapping_add(1 << INDEX_BITS));
        let base = core::ptr::null_mut();
        *range = Range { kind: Kind::Memory, base, len: 0, id: next, keep_alive: None };
        self.vacant.push_back(index);
        Ok(())
    }

    /// The address of `len` bytes at `offset`, if all of them are in the range; `None` where there
    /// is nothing to be had.
    fn locate(
        &self,
        memory: MemoryId,
        offset: u64,
        len: usize,
    ) -> Result<Option<*mut u8>, MemoryFault> {
        let range = self.ranges.get((memory.0 & INDEX_MASK) as usize).ok_or(MemoryFault)?;
        let offset = usize::try_from(offset).map_err(|_| MemoryFault)?;
        let end = offset.checked_add(len).ok_or(MemoryFault)?;
        if range.id != memory || end > range.len {
            return Err(MemoryFault);
        }
        Ok((range.kind == Kind::Memory).then(|| range.base.wrapping_add(offset)))
    }

    fn locate_word(&self, memory: MemoryId, offset: u64) -> Result<Option<*mut u64>, MemoryFault> {
        let word = self.locate(memory, offset, size_of::<u64>())?.map(<*mut u8>::cast::<u64>);
        if word.is_none_or(<*mut u64>::is_aligned) { Ok(word) } else { Err(MemoryFault) }
    }
}

impl<M: Mover> Default for HostMemory<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M> fmt::Debug for HostMemory<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostMemory")
            .field("ranges", &(self.ranges.len() - self.vacant.len()))
            .finish_non_exhaustive()
    }
}

impl<M: Mover> Memory for HostMemory<M> {
    fn read(&self, memory: MemoryId, offset: u64, into: &mut [u8]) -> Result<(), MemoryFault> {
        let Some(from) = self.locate(memory, offset, into.len())? else {
            into.fill(0);
            return Ok(());
        };
        // SAFETY: `add`'s caller allows it for the whole range.
        unsafe { M::read(from, into) }
    }

    fn write(&self, memory: MemoryId, offset: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        let Some(to) = self.locate(memory, offset, bytes.len())? else { return Ok(()) };
        // SAFETY: `add`'s caller allows it for the whole range.
        unsafe { M::write(to, bytes) }
    }

    fn compare_swap(
        &self,
        memory: MemoryId,
        offset: u64,
        compare: u64,
        swap: u64,
    ) -> Result<u64, MemoryFault> {
        let Some(at) = self.locate_word(memory, offset)? else { return Ok(0) };
        // SAFETY: aligned, and `add`'s caller allows it for the whole range.
        unsafe { M::compare_swap(at, compare, swap) }
    }

    fn fetch_add(&self, memory: MemoryId, offset: u64, add: u64) -> Result<u64, MemoryFault> {
        let Some(at) = self.locate_word(memory, offset)? else { return Ok(0) };
        // SAFETY: aligned, and `add`'s caller allows it for the whole range.
        unsafe { M::fetch_add(at, add) }
    }
}

/// Judges a range that a program wants to register: all of it must be memory that may be read,
/// and written if `write`. Touches nothing, and costs the same for a page and for a gigabyte.
///
/// Where the platform tells nothing (other than Linux, or without `/proc`) every range passes that
/// does not wrap.
///
/// # Errors
/// `EFAULT`: some byte of it is not.
pub fn probe(base: *const u8, len: usize, write: bool) -> Result<(), VerbError> {
    if base.addr().checked_add(len).is_none() {
        return Err(VerbError::BadAddress("the range wraps around the end of the address space"));
    }
    #[cfg(all(target_os = "linux", not(miri)))]
    if matches!(maps::accessible(base.addr(), len, write), Ok(false)) {
        return Err(VerbError::BadAddress(if write {
            "the range is not memory that may be read and written"
        } else {
            "the range is not memory that may be read"
        }));
    }
    let _ = write;
    Ok(())
}

/// Whether an access to memory that is not there is answered rather than fatal, so that a region
/// may cover addresses that the program has not mapped.
pub const FAULTS_ARE_ANSWERED: bool = cfg!(all(target_os = "linux", not(miri)));

/// Brings the pages of a range into memory, as far as the platform can be asked for that; `write`
/// also makes private copies of pages that will be written. The range has been judged by
/// [`probe`]; should it go in the meantime, nothing happens.
pub fn prefetch(base: *const u8, len: usize, write: bool) {
    #[cfg(all(target_os = "linux", not(miri)))]
    maps::populate(base.addr(), len, write);
    let _ = (base, len, write);
}
