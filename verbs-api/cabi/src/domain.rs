//! Protection domains, and the domains around them: thread and parent domains (`ibv_alloc_pd(3)`,
//! `ibv_alloc_parent_domain(3)`, `ibv_import_pd(3)`).

use core::ffi::c_int;
use std::sync::Arc;

use softrnic_model::verbs::PdId;

use crate::errno::{Errno, Result, guarded, pointer, status};
use crate::layout::{ibv_parent_domain_init_attr, ibv_pd, ibv_td, ibv_td_init_attr};
use crate::object::{Ptr, live};
use crate::objects::{Context, DomainRole, Pd, Td};
use crate::users::Users;

impl Pd {
    /// Objects in a parent domain are its users, for the device does not know it.
    pub(crate) fn enter(&self) {
        self.users.add();
    }

    pub(crate) fn leave(&self) {
        self.users.remove();
    }
}

fn make(context: Option<Ptr<Context>>, id: PdId, role: DomainRole) -> Result<Ptr<Pd>> {
    let shared = Arc::clone(&live(&context)?.shared);
    let public = ibv_pd { context, handle: id.0 };
    Ok(Ptr::new(public, Pd { shared, id, role, users: Users::default() }))
}

pub(crate) extern "C" fn alloc_pd(context: Option<Ptr<Context>>) -> Option<Ptr<Pd>> {
    pointer(|| {
        let shared = &live(&context)?.shared;
        let id = shared.device()?.alloc_pd()?;
        shared.named().pds.insert(id);
        make(context, id, DomainRole::Own)
    })
}

pub(crate) extern "C" fn dealloc_pd(pd: Option<Ptr<Pd>>) -> c_int {
    status(|| {
        let domain = live(&pd)?;
        domain.users.judge_idle()?;
        match &domain.role {
            DomainRole::Own => {
                domain.shared.device()?.dealloc_pd(domain.id)?;
                domain.shared.named().pds.remove(&domain.id);
            }
            // Only `ibv_unimport_pd` ends it.
            DomainRole::Imported => return Err(Errno::INVALID),
            DomainRole::Parent { of, td } => {
                of.get()?.leave();
                if let Some(td) = td {
                    td.get()?.users.remove();
                }
            }
        }
        domain.ptr().retire();
        Ok(())
    })
}

pub(crate) extern "C" fn import_pd(context: Option<Ptr<Context>>, handle: u32) -> Option<Ptr<Pd>> {
    pointer(|| {
        let id = PdId(handle);
        if !live(&context)?.shared.named().pds.contains(&id) {
            return Err(Errno(libc::ENOENT));
        }
        make(context, id, DomainRole::Imported)
    })
}

pub(crate) extern "C" fn unimport_pd(pd: Option<Ptr<Pd>>) {
    let _ = guarded(|| {
        let domain = live(&pd)?;
        if matches!(domain.role, DomainRole::Imported) {
            // Nothing keeps it while regions, queue pairs and others made in it live.
            domain.ptr().retire_in_place();
        }
        Ok(())
    });
}

pub(crate) extern "C" fn alloc_td(
    context: Option<Ptr<Context>>,
    attr: Option<&ibv_td_init_attr>,
) -> Option<Ptr<Td>> {
    pointer(|| {
        live(&context)?;
        if attr.ok_or(Errno::INVALID)?.comp_mask != 0 {
            return Err(Errno::NOT_SUPPORTED);
        }
        Ok(Ptr::new(ibv_td { context }, Td { users: Users::default() }))
    })
}

pub(crate) extern "C" fn dealloc_td(td: Option<Ptr<Td>>) -> c_int {
    status(|| {
        let domain = live(&td)?;
        domain.users.judge_idle()?;
        domain.ptr().retire();
        Ok(())
    })
}

/// The program's allocators are for memory that a provider shares with its device; there is none here,
/// so they are never called.
pub(crate) extern "C" fn alloc_parent_domain(
    context: Option<Ptr<Context>>,
    attr: Option<&ibv_parent_domain_init_attr>,
) -> Option<Ptr<Pd>> {
    pointer(|| {
        /// `IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS`, `_PD_CONTEXT`
        const KNOWN: u32 = 0b11;
        let attr = attr.ok_or(Errno::INVALID)?;
        if attr.comp_mask & !KNOWN != 0 {
            return Err(Errno::NOT_SUPPORTED);
        }
        let around = live(&attr.pd)?;
        let of = around.ptr();
        let td = attr.td.as_ref().map(Ptr::get).transpose()?;
        let parent = make(context, around.id, DomainRole::Parent { of, td: attr.td })?;
        around.enter();
        if let Some(td) = td {
            td.users.add();
        }
        Ok(parent)
    })
}
