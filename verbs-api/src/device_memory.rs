//! Memory that is not the program's: of the device, and none at all.

use std::sync::Arc;

use softrnic_model::verbs::{Access, Key, Sge};

use crate::device::Context;
use crate::domain::Pd;
use crate::error::{Error, Result};
use crate::owned::Owned;
use crate::provider::{DmId, MrKeys};
use crate::region::RemoteAddress;

/// Memory of the device. A clone is the same memory.
#[derive(Clone, Debug)]
pub struct DeviceMemory(Arc<Owned<DmId>>);

impl DeviceMemory {
    pub(crate) fn new(context: &Context, len: usize) -> Result<Self> {
        let id = context.verbs().alloc_dm(len, 3).map_err(Error::of("alloc_dm"))?;
        Ok(Self(Arc::new(Owned::new(context.verbs(), id, |verbs, id| verbs.free_dm(id)))))
    }

    /// Copies into it.
    ///
    /// # Errors
    /// As [`crate::provider::Context::memcpy_to_dm`].
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let done = self.0.verbs().memcpy_to_dm(self.0.id(), offset, bytes);
        done.map_err(Error::of("memcpy_to_dm"))
    }

    /// Copies out of it.
    ///
    /// # Errors
    /// As [`crate::provider::Context::memcpy_from_dm`].
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let done = self.0.verbs().memcpy_from_dm(self.0.id(), offset, into);
        done.map_err(Error::of("memcpy_from_dm"))
    }

    /// Registers `len` bytes of it from `offset` on; a peer may use them as far as `access` says.
    ///
    /// # Errors
    /// As [`crate::provider::Context::reg_dm_mr`].
    pub fn register(&self, pd: &Pd, offset: u64, len: usize, access: Access) -> Result<DmMr> {
        pd.object().same_device(&self.0, "reg_dm_mr")?;
        let access = access | Access::ZERO_BASED;
        let made = self.0.verbs().reg_dm_mr(pd.id(), self.0.id(), offset, len, access);
        let MrKeys { lkey, rkey } = made.map_err(Error::of("reg_dm_mr"))?;
        let object = Owned::new(self.0.verbs(), lkey, |verbs, key| verbs.dereg_mr(key));
        Ok(DmMr { object, rkey, _memory: self.clone(), _pd: pd.clone() })
    }
}

/// A region over device memory; places in it count from its first byte.
#[derive(Debug)]
pub struct DmMr {
    object: Owned<Key>,
    rkey: Key,
    _memory: DeviceMemory,
    _pd: Pd,
}

impl DmMr {
    /// `length` bytes of it from `offset` on, as an element of a work request.
    #[must_use]
    pub const fn sge(&self, offset: u64, length: u32) -> Sge {
        Sge { addr: offset, length, lkey: self.object.id() }
    }

    /// The place at `offset`, as peers name it.
    #[must_use]
    pub const fn remote(&self, offset: u64) -> RemoteAddress {
        RemoteAddress { addr: offset, rkey: self.rkey }
    }
}

/// A region without memory: it reads as zeros, and what is written to it is gone.
#[derive(Debug)]
pub struct NullMr {
    object: Owned<Key>,
    _pd: Pd,
}

impl NullMr {
    pub(crate) fn new(pd: &Pd) -> Result<Self> {
        let verbs = pd.context().verbs();
        let key = verbs.alloc_null_mr(pd.id()).map_err(Error::of("alloc_null_mr"))?;
        let object = Owned::new(verbs, key, |verbs, key| verbs.dereg_mr(key));
        Ok(Self { object, _pd: pd.clone() })
    }

    /// `length` bytes of nothing, as an element of a work request.
    #[must_use]
    pub const fn sge(&self, length: u32) -> Sge {
        Sge { addr: 0, length, lkey: self.object.id() }
    }
}
