//! Memory regions (`ibv_reg_mr(3)`, `ibv_rereg_mr(3)`, `ibv_import_mr(3)`, `ibv_advise_mr(3)`).

use core::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use softrnic_model::verbs::{Access, Key, Sge};
use softrnic_verbs::provider::{Advice, MemoryRange, MrKeys, Reregistration};

use crate::completion::counts;
use crate::convert::{access, array};
use crate::errno::{Errno, Result, guarded, pointer, status};
use crate::layout::ibv_mr;
use crate::object::{Object, Ptr, live};
use crate::objects::{Mr, Pd};

impl Mr {
    /// The key by which the device knows it now.
    pub(crate) fn key(&self) -> Key {
        *self.lkey.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn make(
    pd: &Object<Pd>,
    addr: *mut c_void,
    length: usize,
    keys: MrKeys,
    imported: bool,
) -> Ptr<Mr> {
    let public = ibv_mr {
        context: pd.see(|pd| pd.context),
        pd: Some(pd.ptr()),
        addr,
        length,
        handle: keys.lkey.index(),
        lkey: keys.lkey.0,
        rkey: keys.rkey.0,
    };
    let (shared, lkey) = (Arc::clone(&pd.shared), Mutex::new(keys.lkey));
    Ptr::new(public, Mr { shared, lkey, imported })
}

fn register(
    pd: &Option<Ptr<Pd>>,
    addr: *mut c_void,
    len: usize,
    iova: u64,
    rights: Access,
) -> Result<Ptr<Mr>> {
    let pd = live(pd)?;
    let memory = MemoryRange { base: addr.cast(), len };
    // SAFETY: the program vouches for the memory until it deregisters the region (`ibv_reg_mr(3)`).
    let keys = unsafe { pd.shared.device()?.reg_mr(pd.id, memory, iova, rights) }?;
    Ok(made(pd, addr, len, keys))
}

/// The object of a region that the device has made.
pub(crate) fn made(pd: &Object<Pd>, addr: *mut c_void, len: usize, keys: MrKeys) -> Ptr<Mr> {
    pd.shared.named().mrs.insert(keys.lkey.index(), keys);
    if counts(pd) {
        pd.enter();
    }
    make(pd, addr, len, keys, false)
}

pub(crate) extern "C" fn reg_mr(
    pd: Option<Ptr<Pd>>,
    addr: *mut c_void,
    length: usize,
    rights: c_int,
) -> Option<Ptr<Mr>> {
    reg_mr_iova2(pd, addr, length, addr.addr() as u64, rights.cast_unsigned())
}

pub(crate) extern "C" fn reg_mr_iova(
    pd: Option<Ptr<Pd>>,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    rights: c_int,
) -> Option<Ptr<Mr>> {
    reg_mr_iova2(pd, addr, length, iova, rights.cast_unsigned())
}

pub(crate) extern "C" fn reg_mr_iova2(
    pd: Option<Ptr<Pd>>,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    rights: u32,
) -> Option<Ptr<Mr>> {
    pointer(|| {
        addr.expose_provenance();
        let rights = access(rights)?;
        // A region that counts from 0 has no other address.
        let iova = if rights.contains(Access::ZERO_BASED) { 0 } else { iova };
        register(&pd, addr, length, iova, rights)
    })
}

/// `ibv_rereg_mr_flags`
mod change {
    pub(super) const TRANSLATION: u32 = 1;
    pub(super) const PD: u32 = 1 << 1;
    pub(super) const ACCESS: u32 = 1 << 2;
}

/// Negative numbers say what the region is after a failure (`IBV_REREG_MR_ERR_INPUT`: as before).
pub(crate) extern "C" fn rereg_mr(
    mr: Option<Ptr<Mr>>,
    flags: c_int,
    pd: Option<Ptr<Pd>>,
    addr: *mut c_void,
    length: usize,
    rights: c_int,
) -> c_int {
    const AS_BEFORE: c_int = -1;
    let changed = guarded(|| {
        let region = live(&mr)?;
        let flags = flags.cast_unsigned();
        if flags == 0 || flags & !(change::TRANSLATION | change::PD | change::ACCESS) != 0 {
            return Err(Errno::INVALID);
        }
        let has = |flag| flags & flag != 0;
        let memory = has(change::TRANSLATION)
            .then_some((MemoryRange { base: addr.cast(), len: length }, addr.addr() as u64));
        if has(change::TRANSLATION) && (addr.is_null() || length == 0) {
            return Err(Errno::INVALID);
        }
        let domain = has(change::PD).then(|| live(&pd)).transpose()?;
        let change = Reregistration {
            pd: domain.map(|pd| pd.id),
            memory,
            access: has(change::ACCESS).then(|| access(rights.cast_unsigned())).transpose()?,
        };
        let before = region.key();
        // SAFETY: as in `register`, for the memory that the program names now.
        let keys = unsafe { region.shared.device()?.rereg_mr(before, &change) }?;
        *region.lkey.lock().unwrap_or_else(PoisonError::into_inner) = keys.lkey;
        let mut named = region.shared.named();
        named.mrs.remove(&before.index());
        named.mrs.insert(keys.lkey.index(), keys);
        drop(named);
        region.change(|mr| {
            (mr.lkey, mr.rkey, mr.handle) = (keys.lkey.0, keys.rkey.0, keys.lkey.index());
            if memory.is_some() {
                (mr.addr, mr.length) = (addr, length);
            }
            if domain.is_some() {
                mr.pd = pd;
            }
        });
        Ok(0)
    });
    changed.unwrap_or_else(|errno| {
        errno.set();
        AS_BEFORE
    })
}

pub(crate) extern "C" fn dereg_mr(mr: Option<Ptr<Mr>>) -> c_int {
    status(|| {
        let region = live(&mr)?;
        if region.imported {
            // Only `ibv_unimport_mr` ends it.
            return Err(Errno::INVALID);
        }
        let key = region.key();
        region.shared.device()?.dereg_mr(key)?;
        region.shared.named().mrs.remove(&key.index());
        if let Some(pd) = region.public().pd
            && let Ok(pd) = pd.get()
            && counts(pd)
        {
            pd.leave();
        }
        region.ptr().retire();
        Ok(())
    })
}

/// An imported region has no address of the program's own.
pub(crate) extern "C" fn import_mr(pd: Option<Ptr<Pd>>, handle: u32) -> Option<Ptr<Mr>> {
    pointer(|| {
        let pd = live(&pd)?;
        let keys = pd.shared.named().mrs.get(&handle).copied().ok_or(Errno(libc::ENOENT))?;
        Ok(make(pd, core::ptr::null_mut(), 0, keys, true))
    })
}

pub(crate) extern "C" fn unimport_mr(mr: Option<Ptr<Mr>>) {
    let _ = guarded(|| {
        let region = live(&mr)?;
        if region.imported {
            region.ptr().retire();
        }
        Ok(())
    });
}

/// There are no regions over dma-bufs. Programs ask with a descriptor of −1, and this errno tells them.
pub(crate) extern "C" fn reg_dmabuf_mr(
    _: Option<Ptr<Pd>>,
    _: u64,
    _: usize,
    _: u64,
    _: c_int,
    _: c_int,
) -> Option<Ptr<Mr>> {
    pointer(|| Err(Errno::NOT_SUPPORTED))
}

/// Advice about memory that is paged on demand. All of it is taken at once, whether or not C would wait.
pub(crate) extern "C" fn advise_mr(
    pd: Option<Ptr<Pd>>,
    advice: u32,
    flags: u32,
    list: *const Sge,
    len: u32,
) -> c_int {
    status(|| {
        /// `IB_UVERBS_ADVISE_MR_FLAG_FLUSH`
        const FLUSH: u32 = 1;
        let pd = live(&pd)?;
        let advice = [Advice::Prefetch, Advice::PrefetchWrite, Advice::PrefetchNoFault]
            .into_iter()
            .find(|known| *known as u32 == advice)
            .ok_or(Errno::NOT_SUPPORTED)?;
        if flags & !FLUSH != 0 {
            return Err(Errno::INVALID);
        }
        let list = array(list, len as usize)?;
        Ok(pd.shared.device()?.advise_mr(pd.id, advice, list)?)
    })
}
