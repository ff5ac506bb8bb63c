//! Memory of the program's own that a device may be given.
//!
//! While peers may write memory, nobody may hold a `&[u8]` over it. So there are two types, and a
//! step between them:
//!
//! * [`Buffer`]: owned by one, seen as a slice. Fill it and read it like a `Vec<u8>`.
//! * [`SharedBuffer`]: shared with a device. Its bytes are copied in and out, words are loaded and
//!   stored; it never shows a slice. It becomes a [`Buffer`] again once no region holds it.
//!
//! ```
//! use softrnic_verbs::buffer::{Buffer, SharedBuffer};
//!
//! let mut buffer = Buffer::new(4096)?;
//! buffer[..5].copy_from_slice(b"hello");
//! let shared = buffer.into_shared(); // now it can be registered
//! shared.store_u64(8, 42)?;
//! let buffer = shared.try_into_buffer().expect("nobody else holds it");
//! assert_eq!((&buffer[..5], buffer[8]), (&b"hello"[..], 42));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A slice cannot be kept while the buffer is shared:
//!
//! ```compile_fail,E0505
//! let buffer = softrnic_verbs::buffer::Buffer::new(4096)?;
//! let slice: &[u8] = &buffer;
//! let shared = buffer.into_shared();
//! assert_eq!(slice[0], 0); // a peer may be writing this byte now
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! and a shared one shows none:
//!
//! ```compile_fail,E0608
//! let shared = softrnic_verbs::buffer::Buffer::new(4096)?.into_shared();
//! let byte = shared[0];
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use core::any::Any;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use std::alloc::{self, Layout};
use std::fmt;
use std::sync::Arc;

use softrnic_model::verbs::VerbError;

use crate::error::Error;
use crate::host_memory::{Mover as _, Native};
use crate::provider::MemoryRange;
use crate::span::Span;

pub use crate::span::AccessError;

/// What a buffer is aligned on. Regions often are whole pages, and an address that is a round
/// number is easy to recognise in a trace.
const ALIGNMENT: usize = 4096;

/// Memory on the heap, zeroed and aligned on a page, owned by one.
pub struct Buffer {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: it owns its memory, like a `Box<[u8]>`.
unsafe impl Send for Buffer {}
// SAFETY: shared access only reads, like that of a `Box<[u8]>`.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// `len` bytes of zero.
    ///
    /// # Errors
    /// `ENOMEM`: so much cannot be had.
    pub fn new(len: usize) -> Result<Self, Error> {
        let base = Self::layout(len).and_then(|layout| {
            // SAFETY: the layout's size is not zero.
            NonNull::new(unsafe { alloc::alloc_zeroed(layout) })
        });
        let no_room = VerbError::LimitExceeded("so much memory cannot be had");
        let base = base.ok_or(no_room).map_err(Error::of("alloc"))?;
        Ok(Self { base, len })
    }

    /// A copy of `bytes`.
    ///
    /// # Errors
    /// `ENOMEM`: so much cannot be had.
    pub fn copy_of(bytes: &[u8]) -> Result<Self, Error> {
        let mut buffer = Self::new(bytes.len())?;
        buffer.copy_from_slice(bytes);
        Ok(buffer)
    }

    /// Gives up the slice, so that it can be registered.
    #[must_use]
    pub fn into_shared(self) -> SharedBuffer {
        // SAFETY: the buffer moves in beside the span, is dropped after it, and shows no slice
        // until it comes out again.
        let span = unsafe { Span::new(self.base, self.len) };
        SharedBuffer(Arc::new(Shared { span, owner: Owner::Heap(self) }))
    }

    fn layout(len: usize) -> Option<Layout> {
        // An empty buffer has an address too.
        Layout::from_size_align(len.max(1), ALIGNMENT).ok()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(layout) = Self::layout(self.len) {
            // SAFETY: allocated by `new` with the same layout.
            unsafe { alloc::dealloc(self.base.as_ptr(), layout) };
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: allocated and initialised by `new`, and not shared while it is a `Buffer`.
        unsafe { core::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and borrowed exclusively.
        unsafe { core::slice::from_raw_parts_mut(self.base.as_ptr(), self.len) }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({:p}+{})", self.base, self.len)
    }
}

/// Memory that regions hold and peers may write. Clones name the same bytes.
///
/// Copies go upwards, an aligned 8-byte word is copied in one piece, and others may be writing
/// meanwhile: what is read is only known to be whole once a completion says so.
#[derive(Clone, Debug)]
pub struct SharedBuffer(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    span: Span,
    owner: Owner,
}

enum Owner {
    Heap(Buffer),
    Foreign(#[expect(dead_code, reason = "held, never looked at")] Box<dyn Any + Send + Sync>),
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Heap(_) => "heap",
            Self::Foreign(_) => "foreign",
        })
    }
}

impl SharedBuffer {
    /// Memory that was not allocated here: a mapping, or that of another language. `owner` is
    /// dropped when the last clone is and no region holds it any more.
    ///
    /// # Safety
    /// Until `owner` is dropped the range is allocated, initialised and writable, and may be
    /// read and written at any time from any thread by relaxed atomic accesses: no Rust reference
    /// to it exists.
    #[must_use]
    pub unsafe fn from_raw_parts(
        base: NonNull<u8>,
        len: usize,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Self {
        // Memory that is unmapped all the same gives an error.
        Native::install();
        // SAFETY: as this function demands.
        let span = unsafe { Span::new(base, len) };
        Self(Arc::new(Shared { span, owner: Owner::Foreign(owner) }))
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.span.len()
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where it lies.
    #[must_use]
    pub fn range(&self) -> MemoryRange {
        self.0.span.range()
    }

    /// Copies bytes out.
    ///
    /// # Errors
    /// [`AccessError::OutOfRange`].
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), AccessError> {
        self.0.span.read(offset, into)
    }

    /// Copies bytes in.
    ///
    /// # Errors
    /// [`AccessError::OutOfRange`].
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), AccessError> {
        self.0.span.write(offset, bytes)
    }

    /// Sets every byte.
    ///
    /// # Errors
    /// [`AccessError::OutOfRange`]: foreign memory is not there any more.
    pub fn fill(&self, byte: u8) -> Result<(), AccessError> {
        self.0.span.fill(byte)
    }

    /// Loads an aligned word in host order, in one piece. What the device wrote before it is seen
    /// after (`Acquire`).
    ///
    /// # Errors
    /// [`AccessError`].
    pub fn load_u64(&self, offset: usize) -> Result<u64, AccessError> {
        self.0.span.load_u64(offset)
    }

    /// Stores an aligned word in host order, in one piece, after all that was written before
    /// (`Release`).
    ///
    /// # Errors
    /// [`AccessError`].
    pub fn store_u64(&self, offset: usize, value: u64) -> Result<(), AccessError> {
        self.0.span.store_u64(offset, value)
    }

    /// A copy of all bytes.
    ///
    /// # Errors
    /// [`AccessError::OutOfRange`]: foreign memory is not there any more.
    pub fn to_vec(&self) -> Result<Vec<u8>, AccessError> {
        let mut bytes = vec![0; self.len()];
        self.read(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Takes the buffer back, with its slice.
    ///
    /// # Errors
    /// The shared buffer again: a region or another clone still holds it, or its memory is foreign.
    pub fn try_into_buffer(self) -> Result<Buffer, Self> {
        match Arc::try_unwrap(self.0) {
            Ok(Shared { owner: Owner::Heap(buffer), .. }) => Ok(buffer),
            Ok(foreign) => Err(Self(Arc::new(foreign))),
            Err(shared) => Err(Self(shared)),
        }
    }
}

impl From<Buffer> for SharedBuffer {
    fn from(buffer: Buffer) -> Self {
        buffer.into_shared()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_zeroed_aligned_and_as_long_as_asked() {
        for len in [0, 1, 8, 4097, 1 << 20] {
            let buffer = Buffer::new(len).unwrap();
            assert_eq!(buffer.len(), len);
            assert_eq!(buffer.as_ptr().addr() % ALIGNMENT, 0);
            assert!(buffer.iter().all(|&byte| byte == 0));
        }
        assert_eq!(Buffer::new(usize::MAX).unwrap_err().source.errno(), 12);
    }

    #[test]
    fn shared_bytes_are_copied_and_bounds_are_kept() {
        let shared = Buffer::copy_of(&[1, 2, 3, 4]).unwrap().into_shared();
        let mut two = [0; 2];
        shared.read(1, &mut two).unwrap();
        assert_eq!(two, [2, 3]);
        shared.write(2, &[8, 9]).unwrap();
        assert_eq!(shared.to_vec().unwrap(), [1, 2, 8, 9]);
        for (offset, len) in [(0, 5), (4, 1), (5, 0), (usize::MAX, 1), (usize::MAX, 0)] {
            let outside = Err(AccessError::OutOfRange);
            assert_eq!(shared.read(offset, &mut vec![0; len]), outside);
            assert_eq!(shared.write(offset, &vec![0; len]), outside);
        }
        assert_eq!(shared.read(4, &mut []), Ok(()));
    }

    #[test]
    fn words_and_fill() {
        let shared = Buffer::new(1000).unwrap().into_shared();
        shared.fill(0xab).unwrap();
        assert_eq!(shared.to_vec().unwrap(), [0xab; 1000]);
        shared.store_u64(992, 7).unwrap();
        assert_eq!(shared.load_u64(992), Ok(7));
        assert_eq!(shared.load_u64(984), Ok(0xabab_abab_abab_abab));
        assert_eq!(shared.load_u64(993), Err(AccessError::OutOfRange));
        assert_eq!(shared.load_u64(4), Err(AccessError::Misaligned));
        assert_eq!(shared.store_u64(1000, 0), Err(AccessError::OutOfRange));
    }

    #[test]
    fn it_comes_back_only_when_nobody_else_holds_it() {
        let shared = Buffer::copy_of(b"abc").unwrap().into_shared();
        let clone = shared.clone();
        let shared = shared.try_into_buffer().unwrap_err();
        drop(clone);
        assert_eq!(&*shared.try_into_buffer().unwrap(), b"abc");
    }

    #[test]
    fn foreign_memory_goes_with_its_owner() {
        let word = Box::leak(Box::new([core::sync::atomic::AtomicU8::new(5)]));
        let base = NonNull::from(&word[0]).cast();
        let owner = Arc::new(());
        // SAFETY: leaked, and made of atomics.
        let shared = unsafe { SharedBuffer::from_raw_parts(base, 1, Box::new(owner.clone())) };
        assert_eq!(shared.to_vec().unwrap(), [5]);
        let shared = shared.try_into_buffer().unwrap_err();
        assert_eq!(Arc::strong_count(&owner), 2);
        drop(shared);
        assert_eq!(Arc::strong_count(&owner), 1);
    }
}
