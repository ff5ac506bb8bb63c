//! Memory of the device itself, and the region that is nowhere (`ibv_alloc_dm(3)`, `ibv_reg_dm_mr(3)`,
//! `ibv_alloc_null_mr(3)`).

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use std::sync::Arc;

use softrnic_verbs::provider::{DmId, MrKeys};

use crate::convert::{access, array, array_mut};
use crate::errno::{Errno, Result, guarded, pointer, status};
use crate::layout::{ibv_alloc_dm_attr, ibv_dm};
use crate::memory;
use crate::object::{Ptr, live};
use crate::objects::{Context, Dm, Mr, Pd};

fn make(context: Option<Ptr<Context>>, id: DmId, imported: bool) -> Result<Ptr<Dm>> {
    let shared = Arc::clone(&live(&context)?.shared);
    let public = ibv_dm {
        context,
        memcpy_to_dm: Some(memcpy_to_dm),
        memcpy_from_dm: Some(memcpy_from_dm),
        comp_mask: 0,
        handle: id.0,
    };
    Ok(Ptr::new(public, Dm { shared, id, imported }))
}

pub(crate) extern "C" fn alloc_dm(
    context: Option<Ptr<Context>>,
    attr: Option<&ibv_alloc_dm_attr>,
) -> Option<Ptr<Dm>> {
    pointer(|| {
        let shared = &live(&context)?.shared;
        let attr = attr.ok_or(Errno::INVALID)?;
        if attr.comp_mask != 0 {
            return Err(Errno::INVALID);
        }
        let id = shared.device()?.alloc_dm(attr.length, attr.log_align_req)?;
        shared.named().dms.insert(id);
        make(context, id, false)
    })
}

pub(crate) extern "C" fn free_dm(dm: Option<Ptr<Dm>>) -> c_int {
    status(|| {
        let memory = live(&dm)?;
        if memory.imported {
            // Only `ibv_unimport_dm` ends it.
            return Err(Errno::INVALID);
        }
        memory.shared.device()?.free_dm(memory.id)?;
        memory.shared.named().dms.remove(&memory.id);
        memory.ptr().retire();
        Ok(())
    })
}

pub(crate) extern "C" fn import_dm(context: Option<Ptr<Context>>, handle: u32) -> Option<Ptr<Dm>> {
    pointer(|| {
        let id = DmId(handle);
        if !live(&context)?.shared.named().dms.contains(&id) {
            return Err(Errno(libc::ENOENT));
        }
        make(context, id, true)
    })
}

pub(crate) extern "C" fn unimport_dm(dm: Option<Ptr<Dm>>) {
    let _ = guarded(|| {
        let memory = live(&dm)?;
        if memory.imported {
            memory.ptr().retire();
        }
        Ok(())
    });
}

/// Devices take such memory by words of 4 bytes, and so does this one, lest programs rely on more.
fn judge_words(offset: u64, len: usize) -> Result<()> {
    const WORD: u64 = 4;
    let is_whole = offset.is_multiple_of(WORD) && (len as u64).is_multiple_of(WORD);
    if is_whole { Ok(()) } else { Err(Errno(libc::EFAULT)) }
}

extern "C" fn memcpy_to_dm(
    dm: Option<Ptr<Dm>>,
    offset: u64,
    from: *const c_void,
    len: usize,
) -> c_int {
    status(|| {
        let memory = live(&dm)?;
        judge_words(offset, len)?;
        let bytes = array(from.cast::<u8>(), len)?;
        Ok(memory.shared.device()?.memcpy_to_dm(memory.id, offset, bytes)?)
    })
}

extern "C" fn memcpy_from_dm(
    to: *mut c_void,
    dm: Option<Ptr<Dm>>,
    offset: u64,
    len: usize,
) -> c_int {
    status(|| {
        let memory = live(&dm)?;
        judge_words(offset, len)?;
        let into = array_mut(to.cast::<u8>(), len)?;
        Ok(memory.shared.device()?.memcpy_from_dm(memory.id, offset, into)?)
    })
}

pub(crate) extern "C" fn reg_dm_mr(
    pd: Option<Ptr<Pd>>,
    dm: Option<Ptr<Dm>>,
    offset: u64,
    length: usize,
    rights: u32,
) -> Option<Ptr<Mr>> {
    pointer(|| {
        let (domain, memory) = (live(&pd)?, live(&dm)?);
        let device = domain.shared.device()?;
        let keys = device.reg_dm_mr(domain.id, memory.id, offset, length, access(rights)?)?;
        Ok(memory::made(domain, null_mut(), length, keys))
    })
}

pub(crate) extern "C" fn alloc_null_mr(pd: Option<Ptr<Pd>>) -> Option<Ptr<Mr>> {
    pointer(|| {
        let domain = live(&pd)?;
        let key = domain.shared.device()?.alloc_null_mr(domain.id)?;
        let keys = MrKeys { lkey: key, rkey: key };
        Ok(memory::made(domain, null_mut(), usize::MAX, keys))
    })
}
