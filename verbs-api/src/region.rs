//! Memory regions: what a device may touch, and as whom.
//!
//! A region holds its memory. An [`Mr`] owns a share of a [`SharedBuffer`]; should the device
//! refuse to let go of it, the memory is leaked rather than freed. Borrowed memory is registered
//! for the length of a call, because a value that ends the loan when it is dropped could be
//! forgotten:
//!
//! ```no_run
//! # fn example(pd: &softrnic_verbs::Pd) -> Result<(), Box<dyn std::error::Error>> {
//! use softrnic_verbs::Access;
//!
//! let mut bytes = [0_u8; 64];
//! pd.register_scoped(&mut bytes[..], Access::LOCAL_WRITE, |region| {
//!     let place = region.sge(0, 64);
//!     // post, wait for the completion ..
//! })?;
//! println!("{bytes:?}"); // and here it is an array again
//! # Ok(())
//! # }
//! ```
//!
//! The borrower cannot touch the bytes meanwhile:
//!
//! ```compile_fail,E0502
//! # fn example(pd: &softrnic_verbs::Pd) -> Result<(), Box<dyn std::error::Error>> {
//! # use softrnic_verbs::Access;
//! let mut bytes = [0_u8; 64];
//! pd.register_scoped(&mut bytes[..], Access::LOCAL_WRITE, |region| {
//!     println!("{bytes:?}"); // the device may be writing
//! })?;
//! # Ok(())
//! # }
//! ```
//!
//! nor can the region leave the call:
//!
//! ```compile_fail
//! # fn example(pd: &softrnic_verbs::Pd) -> Result<(), Box<dyn std::error::Error>> {
//! # use softrnic_verbs::Access;
//! let mut bytes = [0_u8; 64];
//! let region = pd.register_scoped(&mut bytes[..], Access::LOCAL_WRITE, |region| region)?;
//! # Ok(())
//! # }
//! ```
//!
//! A region that shares a buffer keeps it from being a slice:
//!
//! ```compile_fail,E0382
//! # fn example(pd: &softrnic_verbs::Pd) -> Result<(), Box<dyn std::error::Error>> {
//! # use softrnic_verbs::{Access, buffer::Buffer};
//! let mut buffer = Buffer::new(4096)?;
//! let region = pd.register(buffer, Access::REMOTE_WRITE | Access::LOCAL_WRITE)?;
//! buffer[0] = 1; // a peer may be writing
//! # Ok(())
//! # }
//! ```

use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU8;
use std::fmt;
use std::sync::Arc;

use softrnic_model::verbs::{Access, Key, Sge, VerbError};

use crate::buffer::{AccessError, SharedBuffer};
use crate::domain::Pd;
use crate::error::{Error, Result};
use crate::provider::{MemoryRange, MrKeys};
use crate::span::Span;

/// A place in a region of a peer: what a WRITE, READ or atomic names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteAddress {
    /// Address in the peer's region or window.
    pub addr: u64,
    /// Its key.
    pub rkey: Key,
}

impl RemoteAddress {
    /// The place `bytes` further on. Whether it is inside is for the peer to judge.
    #[must_use]
    pub const fn plus(self, bytes: u64) -> Self {
        Self { addr: self.addr.wrapping_add(bytes), rkey: self.rkey }
    }
}

/// Keys and first address: what both kinds of region are to a device.
#[derive(Clone, Copy, Debug)]
struct Registration {
    keys: MrKeys,
    start: u64,
}

impl Registration {
    /// # Safety
    /// As [`crate::provider::Context::reg_mr`].
    unsafe fn new(pd: &Pd, memory: MemoryRange, access: Access) -> Result<Self> {
        let zero_based = access.contains(Access::ZERO_BASED);
        let start = if zero_based { 0 } else { memory.base.expose_provenance() as u64 };
        // SAFETY: as this function demands.
        let keys = unsafe { pd.context().verbs().reg_mr(pd.id(), memory, start, access) };
        Ok(Self { keys: keys.map_err(Error::of("reg_mr"))?, start })
    }

    const fn sge(&self, offset: u64, length: u32) -> Sge {
        Sge { addr: self.start.wrapping_add(offset), length, lkey: self.keys.lkey }
    }

    const fn remote(&self, offset: u64) -> RemoteAddress {
        RemoteAddress { addr: self.start, rkey: self.keys.rkey }.plus(offset)
    }
}

/// A region over a buffer. A clone is the same region; it is deregistered with the last one.
#[derive(Clone, Debug)]
pub struct Mr(Arc<MrInner>);

#[derive(Debug)]
struct MrInner {
    registration: Registration,
    buffer: SharedBuffer,
    pd: Pd,
}

impl Mr {
    pub(crate) fn new(pd: &Pd, buffer: SharedBuffer, access: Access) -> Result<Self> {
        // SAFETY: a shared buffer is touched by copies and atomics only, and `MrInner` keeps it
        // until the device has let go of it.
        let registration = unsafe { Registration::new(pd, buffer.range(), access) }?;
        Ok(Self(Arc::new(MrInner { registration, buffer, pd: pd.clone() })))
    }

    /// The memory.
    #[must_use]
    pub fn buffer(&self) -> &SharedBuffer {
        &self.0.buffer
    }

    /// Its protection domain.
    #[must_use]
    pub fn pd(&self) -> &Pd {
        &self.0.pd
    }

    /// The key by which own work requests name it.
    #[must_use]
    pub fn lkey(&self) -> Key {
        self.0.registration.keys.lkey
    }

    /// The key by which peers name it.
    #[must_use]
    pub fn rkey(&self) -> Key {
        self.0.registration.keys.rkey
    }

    /// A piece of it for a work request. Whether it is inside is for the device to judge.
    #[must_use]
    pub fn sge(&self, offset: u64, length: u32) -> Sge {
        self.0.registration.sge(offset, length)
    }

    /// A place in it for a peer.
    #[must_use]
    pub fn remote(&self, offset: u64) -> RemoteAddress {
        self.0.registration.remote(offset)
    }

    /// Lets go of this handle and keeps the memory. If it was the last handle the region is gone
    /// and [`SharedBuffer::try_into_buffer`] may succeed.
    #[must_use]
    pub fn into_buffer(self) -> SharedBuffer {
        self.0.buffer.clone()
    }
}

impl Drop for MrInner {
    fn drop(&mut self) {
        if self.pd.context().verbs().dereg_mr(self.registration.keys.lkey).is_err() {
            // The device may go on using the memory: never free it.
            let _ = ManuallyDrop::new(self.buffer.clone());
        }
    }
}

/// Memory that is borrowed for a region ([`Pd::register_scoped`]).
///
/// * from `&mut [u8]`: the device may read and write;
/// * from `&[AtomicU8]`: the same, and the program may load and store meanwhile;
/// * from `&[u8]`: the device may only read.
pub struct Lent<'a> {
    span: Span,
    writable: bool,
    lifetime: PhantomData<&'a mut [u8]>,
}

impl fmt::Debug for Lent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lent({:?})", self.span)
    }
}

impl<'a> From<&'a mut [u8]> for Lent<'a> {
    fn from(bytes: &'a mut [u8]) -> Self {
        let len = bytes.len();
        // SAFETY: borrowed exclusively for as long as this exists, so nobody else minds.
        let span = unsafe { Span::new(NonNull::from(bytes).cast(), len) };
        Self { span, writable: true, lifetime: PhantomData }
    }
}

impl<'a> From<&'a [AtomicU8]> for Lent<'a> {
    fn from(bytes: &'a [AtomicU8]) -> Self {
        // SAFETY: atomics are there to be read and written by anybody.
        let span = unsafe { Span::new(NonNull::from(bytes).cast(), bytes.len()) };
        Self { span, writable: true, lifetime: PhantomData }
    }
}

impl<'a> From<&'a [u8]> for Lent<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        // SAFETY: nobody writes as long as it is borrowed; `writable` sees to it that this does
        // not either.
        let span = unsafe { Span::new(NonNull::from(bytes).cast(), bytes.len()) };
        Self { span, writable: false, lifetime: PhantomData }
    }
}

/// The rights by which a device writes.
const WRITES: Access = Access::LOCAL_WRITE.union(Access::REMOTE_WRITE).union(Access::REMOTE_ATOMIC);

/// A region over borrowed memory, alive for the length of a call.
///
/// Should the device refuse to let go of the memory at the end, the process is aborted: the
/// memory goes back to its owner, and nothing could keep the device from it.
#[derive(Debug)]
pub struct ScopedMr<'a> {
    registration: Registration,
    pd: Pd,
    memory: &'a Lent<'a>,
}

impl<'a> ScopedMr<'a> {
    pub(crate) fn new(pd: &Pd, memory: &'a Lent<'a>, access: Access) -> Result<Self> {
        let refuse = |why| Err(Error { verb: "reg_mr", source: VerbError::Invalid(why) });
        if access.contains(Access::MW_BIND) {
            return refuse("windows cannot be bound to borrowed memory, for they would outlive it");
        }
        if !memory.writable && access.intersects(WRITES) {
            return refuse("memory that is lent for reading cannot be written");
        }
        // SAFETY: the loan outlives this value, which is never given away and deregisters when it
        // is dropped; without a right to write the device only reads.
        let registration = unsafe { Registration::new(pd, memory.span.range(), access) }?;
        Ok(Self { registration, pd: pd.clone(), memory })
    }

    /// The key by which own work requests name it.
    #[must_use]
    pub const fn lkey(&self) -> Key {
        self.registration.keys.lkey
    }

    /// The key by which peers name it.
    #[must_use]
    pub const fn rkey(&self) -> Key {
        self.registration.keys.rkey
    }

    /// As [`Mr::sge`].
    #[must_use]
    pub const fn sge(&self, offset: u64, length: u32) -> Sge {
        self.registration.sge(offset, length)
    }

    /// As [`Mr::remote`].
    #[must_use]
    pub const fn remote(&self, offset: u64) -> RemoteAddress {
        self.registration.remote(offset)
    }

    /// As [`SharedBuffer::read`].
    ///
    /// # Errors
    /// [`AccessError::OutOfRange`].
    pub fn read(&self, offset: usize, into: &mut [u8]) -> core::result::Result<(), AccessError> {
        self.memory.span.read(offset, into)
    }

    /// As [`SharedBuffer::write`].
    ///
    /// # Errors
    /// [`AccessError::OutOfRange`], also for all of memory that is lent for reading.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> core::result::Result<(), AccessError> {
        if !self.memory.writable {
            return Err(AccessError::OutOfRange);
        }
        self.memory.span.write(offset, bytes)
    }
}

impl Drop for ScopedMr<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.pd.context().verbs().dereg_mr(self.registration.keys.lkey) {
            eprintln!("softrnic: the device keeps memory that was only lent to it: {error}");
            std::process::abort();
        }
    }
}
