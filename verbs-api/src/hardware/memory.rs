//! Regions, windows and device memory.

use core::ffi::{c_int, c_void};

use softrnic_model::verbs::{Access, Key, PdId, QpNum, Sge, VerbError, WindowType};

use super::errno::last_errno;
use super::layout::{ibv_alloc_dm_attr, ibv_mr, ibv_mw_bind, ibv_mw_bind_info, ibv_pd};
use super::open::{HardwareContext, Region, Window, extended};
use super::table::Handle;
use crate::provider::{Advice, DmId, MemoryRange, MrKeys, MwBind, Reregistration, Verb};

const REFUSED: &str = "the device does not register the memory";

/// The keys of a region.
fn keys(mr: Handle<ibv_mr>) -> MrKeys {
    // SAFETY: the region is there, and only its own verbs change its keys.
    let mr = unsafe { *mr.as_ptr() };
    MrKeys { lkey: Key(mr.lkey), rkey: Key(mr.rkey) }
}

/// Whether the limit on locked memory is below this.
fn is_above_limit(len: usize) -> bool {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
    limit.is_some_and(|limit| limit < len as u64)
}

impl HardwareContext {
    fn keep(&self, handle: Handle<ibv_mr>) -> MrKeys {
        let keys = keys(handle);
        let several = self.mrs.change(keys.lkey.0, |region| region.others.push(handle));
        if several.is_err() {
            self.mrs.put(keys.lkey.0, Region { handle, others: Vec::new() });
        }
        keys
    }

    /// What the device said of memory that it did not register.
    fn not_registered(&self, len: usize) -> VerbError {
        /// `ENOMEM`
        const NO_MEMORY: i32 = 12;
        match last_errno() {
            NO_MEMORY if is_above_limit(len) => VerbError::Full(
                "memory cannot be locked: the limit is too low (ulimit -l unlimited; LimitMEMLOCK= of \
                 a service; docker run --ulimit memlock=-1)",
            ),
            errno => self.life().refused(errno, REFUSED),
        }
    }

    /// # Safety
    /// As [`crate::provider::Context::reg_mr`].
    pub(super) unsafe fn register(
        &self,
        pd: PdId,
        memory: MemoryRange,
        iova: u64,
        access: Access,
    ) -> Verb<MrKeys> {
        let base = memory.base.cast::<c_void>();
        let own = base.addr() as u64;
        let iova = if access.contains(Access::ZERO_BASED) { own } else { iova };
        let bits = c_int::try_from(access.bits()).map_err(|_| VerbError::NotSupported(REFUSED))?;
        self.pds.with(pd.0, |pd| {
            // SAFETY: the domain is looked at, and the caller vouches for the memory.
            let made = unsafe {
                if let Some(register) = self.library.ibv_reg_mr_iova2 {
                    register(pd.ptr(), base, memory.len, iova, access.bits())
                } else if iova == own {
                    (self.library.ibv_reg_mr)(pd.ptr(), base, memory.len, bits)
                } else if let Some(register) = self.library.ibv_reg_mr_iova {
                    register(pd.ptr(), base, memory.len, iova, bits)
                } else {
                    return Err(VerbError::NotSupported("the library has no ibv_reg_mr_iova"));
                }
            };
            let made = made.ok_or_else(|| self.not_registered(memory.len))?;
            Ok(self.keep(Handle::new(made)))
        })
    }

    /// # Safety
    /// As [`crate::provider::Context::rereg_mr`].
    pub(super) unsafe fn reregister(&self, lkey: Key, change: &Reregistration) -> Verb<MrKeys> {
        /// `ibv_rereg_mr_flags`
        const TRANSLATION: c_int = 1;
        const PD: c_int = 1 << 1;
        const ACCESS: c_int = 1 << 2;
        let (range, flags) = match change.memory {
            None => (MemoryRange { base: core::ptr::null_mut(), len: 0 }, 0),
            Some((range, iova)) if iova == range.base.addr() as u64 => (range, TRANSLATION),
            Some(_) => {
                return Err(VerbError::NotSupported(
                    "ibv_rereg_mr knows memory by the program's address only",
                ));
            }
        };
        let flags = flags | change.pd.map_or(0, |_| PD) | change.access.map_or(0, |_| ACCESS);
        let access = c_int::try_from(change.access.unwrap_or_default().bits())
            .map_err(|_| VerbError::NotSupported(REFUSED))?;
        let domains = self.pds.look();
        let pd = match change.pd {
            None => core::ptr::null_mut::<ibv_pd>(),
            Some(pd) => domains.get(pd.0)?.as_ptr(),
        };
        let region = self.mrs.take(lkey.0)?;
        // SAFETY: the region is there and nobody else looks at it; the caller vouches for the memory.
        let done = unsafe {
            (self.library.ibv_rereg_mr)(
                region.handle.ptr(),
                flags,
                pd,
                range.base.cast(),
                range.len,
                access,
            )
        };
        let errno = last_errno();
        let keys = keys(region.handle);
        self.mrs.put(keys.lkey.0, region);
        // Negative numbers are those of `ibv_rereg_mr_err_code`.
        if done == 0 { Ok(keys) } else { Err(self.life().refused(errno, REFUSED)) }
    }

    pub(super) fn deregister(&self, lkey: Key) -> Verb<()> {
        let other = self.mrs.change(lkey.0, |region| region.others.pop())?;
        let end = |handle: Handle<ibv_mr>| {
            // SAFETY: it is there, and nobody else looks at it.
            let done = unsafe { (self.library.ibv_dereg_mr)(handle.ptr()) };
            self.done(done, "the region is used")
        };
        match other {
            Some(handle) => end(handle).inspect_err(|_| {
                _ = self.mrs.change(lkey.0, |region| region.others.push(handle));
            }),
            None => self.mrs.destroy(lkey.0, |region| end(region.handle)),
        }
    }

    pub(super) fn null_region(&self, pd: PdId) -> Verb<Key> {
        let alloc = extended!(self, alloc_null_mr)?;
        self.pds.with(pd.0, |pd| {
            // SAFETY: the domain is looked at.
            let made = unsafe { alloc(Some(pd.ptr())) };
            Ok(self.keep(self.life().made(made, REFUSED)?).lkey)
        })
    }

    pub(super) fn make_window(&self, pd: PdId, kind: WindowType) -> Verb<Key> {
        // SAFETY: the context is open.
        let alloc = unsafe { (*self.handle.as_ptr()).ops.alloc_mw };
        let alloc = alloc.ok_or(VerbError::NotSupported("the device has no memory windows"))?;
        self.pds.with(pd.0, |pd| {
            // SAFETY: the domain is looked at.
            let made = unsafe { alloc(Some(pd.ptr()), window_type(kind)) };
            let handle = self.life().made(made, "the device makes no such window")?;
            // SAFETY: it was made a moment ago.
            let key = Key(unsafe { (*handle.as_ptr()).rkey });
            self.mws.put(key.index(), Window { handle, kind });
            Ok(key)
        })
    }

    pub(super) fn end_window(&self, window: Key) -> Verb<()> {
        // SAFETY: the context is open.
        let dealloc = unsafe { (*self.handle.as_ptr()).ops.dealloc_mw };
        let dealloc = dealloc.ok_or(VerbError::NotSupported("the device has no memory windows"))?;
        self.mws.destroy(window.index(), |window| {
            // SAFETY: it is there, and nobody else looks at it.
            let done = unsafe { dealloc(Some(window.handle.ptr())) };
            self.done(done, "the window is used")
        })
    }

    pub(super) fn bind(&self, qp: QpNum, window: Key, bind: &MwBind) -> Verb<Key> {
        // SAFETY: the context is open.
        let act = unsafe { (*self.handle.as_ptr()).ops.bind_mw };
        let act = act.ok_or(VerbError::NotSupported("the device binds no windows like that"))?;
        let info = &bind.info;
        let regions = self.mrs.look();
        let mr = if info.length == 0 && info.mr_lkey == Key(0) {
            None
        } else {
            Some(regions.get(info.mr_lkey.0)?.handle.ptr())
        };
        let bind = ibv_mw_bind {
            wr_id: bind.wr_id,
            send_flags: bind.flags.bits().into(),
            bind_info: ibv_mw_bind_info {
                mr,
                addr: info.addr,
                length: info.length,
                mw_access_flags: info.access.bits(),
            },
        };
        self.mws.with(window.index(), |window| {
            if window.kind != WindowType::Type1 {
                return Err(VerbError::Invalid("a window of type 2 is bound by a work request"));
            }
            self.qps.with(qp.get(), |qp| {
                let window = window.handle;
                // SAFETY: all three are looked at.
                let done = unsafe { act(Some(qp.handle.ptr()), Some(window.ptr()), Some(&bind)) };
                self.done(done, "the device refused the bind")?;
                // SAFETY: as above.
                Ok(Key(unsafe { (*window.as_ptr()).rkey }))
            })
        })
    }

    pub(super) fn make_memory(&self, length: usize, log_align: u32) -> Verb<DmId> {
        let alloc = extended!(self, alloc_dm)?;
        let attr = ibv_alloc_dm_attr { length, log_align_req: log_align, comp_mask: 0 };
        // SAFETY: the context is open.
        let made = unsafe { alloc(Some(self.context()), Some(&attr)) };
        let made = self.life().made(made, "the device has no such memory")?;
        Ok(DmId(self.dms.add(made)))
    }

    pub(super) fn end_memory(&self, dm: DmId) -> Verb<()> {
        let free = extended!(self, free_dm)?;
        self.dms.destroy(dm.0, |dm| {
            // SAFETY: it is there, and nobody else looks at it.
            let done = unsafe { free(Some(dm.ptr())) };
            self.done(done, "the device memory is used")
        })
    }

    pub(super) fn register_memory(
        &self,
        pd: PdId,
        dm: DmId,
        offset: u64,
        len: usize,
        access: Access,
    ) -> Verb<MrKeys> {
        let register = extended!(self, reg_dm_mr)?;
        self.pds.with(pd.0, |pd| {
            self.dms.with(dm.0, |dm| {
                // SAFETY: both are looked at.
                let made =
                    unsafe { register(Some(pd.ptr()), Some(dm.ptr()), offset, len, access.bits()) };
                Ok(self.keep(self.life().made(made, REFUSED)?))
            })
        })
    }

    pub(super) fn copy_in(&self, dm: DmId, offset: u64, bytes: &[u8]) -> Verb<()> {
        self.dms.with(dm.0, |dm| {
            // SAFETY: the memory is looked at.
            let copy = unsafe { (*dm.as_ptr()).memcpy_to_dm };
            let copy =
                copy.ok_or(VerbError::NotSupported("the device memory cannot be written"))?;
            // SAFETY: as above; the bytes are as many as said.
            let done = unsafe { copy(Some(dm.ptr()), offset, bytes.as_ptr().cast(), bytes.len()) };
            self.done(done, "a range beyond the device memory")
        })
    }

    pub(super) fn copy_out(&self, dm: DmId, offset: u64, into: &mut [u8]) -> Verb<()> {
        self.dms.with(dm.0, |dm| {
            // SAFETY: the memory is looked at.
            let copy = unsafe { (*dm.as_ptr()).memcpy_from_dm };
            let copy = copy.ok_or(VerbError::NotSupported("the device memory cannot be read"))?;
            // SAFETY: as above; there is as much room as said.
            let done =
                unsafe { copy(into.as_mut_ptr().cast(), Some(dm.ptr()), offset, into.len()) };
            self.done(done, "a range beyond the device memory")
        })
    }

    pub(super) fn advise(&self, pd: PdId, advice: Advice, sges: &[Sge]) -> Verb<()> {
        /// `IBV_ADVISE_MR_FLAG_FLUSH`: it is done when the call returns.
        const FLUSH: u32 = 1;
        let act = extended!(self, advise_mr)?;
        let count = u32::try_from(sges.len()).map_err(|_| VerbError::Invalid("too many ranges"))?;
        self.pds.with(pd.0, |pd: &Handle<ibv_pd>| {
            // SAFETY: the domain is looked at, and the ranges are as many as said.
            let done = unsafe { act(Some(pd.ptr()), advice as u32, FLUSH, sges.as_ptr(), count) };
            self.done(done, "the device does not take the advice")
        })
    }
}

/// `ibv_mw_type`
const fn window_type(kind: WindowType) -> u32 {
    match kind {
        WindowType::Type1 => 1,
        WindowType::Type2A | WindowType::Type2B => 2,
    }
}
