//! Memory that is registered by the plain verbs, so that what a device says of it is seen.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use softrnic_model::verbs::{Access, Key, PdId, VerbError};
use softrnic_verbs::buffer::{Buffer, SharedBuffer};
use softrnic_verbs::provider::{Context, MrKeys, Reregistration};

/// Memory of a program, registered as a whole.
#[derive(Debug)]
pub struct Region {
    verbs: Arc<dyn Context>,
    buffer: ManuallyDrop<SharedBuffer>,
    keys: MrKeys,
    addr: u64,
    is_registered: bool,
}

impl Region {
    /// Registers `len` new bytes; byte i holds i modulo 256. With `ZERO_BASED` addresses count from
    /// 0, else they are those of the memory.
    ///
    /// # Errors
    /// As `ibv_reg_mr(3)`.
    pub fn new(
        verbs: &Arc<dyn Context>,
        pd: PdId,
        len: usize,
        access: Access,
    ) -> Result<Self, VerbError> {
        let mut buffer = Buffer::new(len).map_err(|error| error.source)?;
        buffer.iter_mut().zip((0..=u8::MAX).cycle()).for_each(|(byte, value)| *byte = value);
        Self::over(verbs, pd, buffer.into_shared(), access)
    }

    /// Registers memory that other regions may share.
    ///
    /// # Errors
    /// As `ibv_reg_mr(3)`.
    pub fn over(
        verbs: &Arc<dyn Context>,
        pd: PdId,
        buffer: SharedBuffer,
        access: Access,
    ) -> Result<Self, VerbError> {
        let range = buffer.range();
        let zero_based = access.contains(Access::ZERO_BASED);
        let addr = if zero_based { 0 } else { range.base.expose_provenance() as u64 };
        // SAFETY: a shared buffer is touched by copies and atomics only, and it is kept until the
        // device has said that it lets go of it; if it never does, the memory is leaked.
        #[expect(unsafe_code, reason = "the device will touch memory that this value keeps")]
        let keys = unsafe { verbs.reg_mr(pd, range, addr, access) }?;
        let (verbs, buffer) = (Arc::clone(verbs), ManuallyDrop::new(buffer));
        Ok(Self { verbs, buffer, keys, addr, is_registered: true })
    }

    /// Address of its first byte, for work requests and peers.
    #[must_use]
    pub const fn addr(&self) -> u64 {
        self.addr
    }

    /// Key for work requests.
    #[must_use]
    pub const fn lkey(&self) -> Key {
        self.keys.lkey
    }

    /// Key for peers.
    #[must_use]
    pub const fn rkey(&self) -> Key {
        self.keys.rkey
    }

    /// The memory. It stays when the registration goes.
    #[must_use]
    pub fn buffer(&self) -> &SharedBuffer {
        &self.buffer
    }

    /// Whether the device may still use it.
    #[must_use]
    pub const fn is_registered(&self) -> bool {
        self.is_registered
    }

    /// Changes the domain, the rights, or both (`ibv_rereg_mr(3)`).
    ///
    /// # Errors
    /// As `ibv_rereg_mr(3)`.
    pub fn reregister(
        &mut self,
        pd: Option<PdId>,
        access: Option<Access>,
    ) -> Result<(), VerbError> {
        let change = Reregistration { pd, memory: None, access };
        // SAFETY: the memory stays the same, and is kept as `over` promised, whatever the rights are.
        #[expect(unsafe_code, reason = "the device will touch memory that this value keeps")]
        let keys = unsafe { self.verbs.rereg_mr(self.keys.lkey, &change) }?;
        self.keys = keys;
        Ok(())
    }

    /// Ends the registration; the memory can still be looked at.
    ///
    /// # Errors
    /// As `ibv_dereg_mr(3)`.
    pub fn deregister(&mut self) -> Result<(), VerbError> {
        if !self.is_registered {
            return Err(VerbError::NoSuchObject("the region is not registered any more"));
        }
        self.verbs.dereg_mr(self.keys.lkey)?;
        self.is_registered = false;
        Ok(())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if !self.is_registered || self.verbs.dereg_mr(self.keys.lkey).is_ok() {
            // SAFETY: it is dropped here and nowhere else, and the device has let go of it.
            #[expect(unsafe_code, reason = "a buffer that the device still uses must be leaked")]
            unsafe {
                ManuallyDrop::drop(&mut self.buffer);
            }
        }
    }
}
