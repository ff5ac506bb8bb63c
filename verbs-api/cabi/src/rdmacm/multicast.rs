//! Groups (`rdma_join_multicast(3)`).

use core::ffi::{c_int, c_void};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use softrnic_model::verbs::Gid;
use softrnic_verbs::cm::resolve;

use super::Id;
use super::layout::rdma_cm_join_mc_attr_ex;
use super::manager::Tally;
use super::sockaddr::{Storage, read};
use crate::errno::{Errno, Result, number};
use crate::object::{Object, Ptr, live};

/// A group that an identifier has joined, or is about to.
pub(super) struct Group {
    /// By which events name it.
    number: u64,
    address: SocketAddr,
    mgid: Gid,
    /// The program's word for it, an address.
    context: usize,
    /// It is only sent to, so that no queue pair is to receive from it.
    send_only: bool,
    /// Whether the identifier's queue pair receives from it.
    attached: AtomicBool,
    pub(super) tally: Tally,
}

impl Group {
    /// What the program called it.
    pub(super) fn context(&self) -> *const c_void {
        core::ptr::with_exposed_provenance(self.context)
    }
}

/// The group of an event.
pub(super) fn find(id: &Object<Id>, number: u64) -> Option<Arc<Group>> {
    id.state().groups.iter().find(|group| group.number == number).cloned()
}

/// Lets the identifier's queue pair receive from a group. One that the program has brought is its own to
/// attach.
pub(super) fn attach(id: &Object<Id>, group: &Group) -> Result<()> {
    if group.send_only {
        return Ok(());
    }
    if let Some(qp) = id.see(|public| public.id.qp) {
        let pair = qp.get()?;
        pair.shared.device()?.attach_mcast(pair.number, group.mgid)?;
        group.attached.store(true, Ordering::Relaxed);
    }
    Ok(())
}

fn detach(id: &Object<Id>, group: &Group) -> Result<()> {
    if !group.attached.swap(false, Ordering::Relaxed) {
        return Ok(());
    }
    match id.see(|public| public.id.qp) {
        Some(qp) => {
            let pair = qp.get()?;
            Ok(pair.shared.device()?.detach_mcast(pair.number, group.mgid)?)
        }
        None => Ok(()),
    }
}

/// Before the queue pair goes.
pub(super) fn detach_all(id: &Object<Id>) {
    let groups = id.state().groups.clone();
    for group in groups {
        let _ = detach(id, &group);
    }
}

/// Before the identifier goes.
pub(super) fn leave_all(id: &Object<Id>) {
    detach_all(id);
    id.state().groups.clear();
}

fn join(id: &Object<Id>, address: SocketAddr, send_only: bool, context: *mut c_void) -> Result<()> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    id.device()?;
    let mgid = resolve::group(address.ip()).ok_or(Errno::INVALID)?;
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let group = Arc::new(Group {
        number,
        address,
        mgid,
        context: context.expose_provenance(),
        send_only,
        attached: AtomicBool::new(false),
        tally: Tally::default(),
    });
    id.state().groups.push(group);
    if let Err(error) = id.cm()?.join_multicast(id.number, address, number) {
        id.state().groups.retain(|group| group.number != number);
        return Err(error.into());
    }
    id.complete()
}

pub(crate) extern "C" fn join_multicast(
    id: Option<Ptr<Id>>,
    address: *const Storage,
    context: *mut c_void,
) -> c_int {
    number(|| join(live(&id)?, read(address)?, false, context).map(|()| 0))
}

pub(crate) extern "C" fn join_multicast_ex(
    id: Option<Ptr<Id>>,
    attr: Option<&rdma_cm_join_mc_attr_ex>,
    context: *mut c_void,
) -> c_int {
    number(|| {
        /// `RDMA_CM_JOIN_MC_ATTR_ADDRESS`, `_JOIN_FLAGS`: both are needed.
        const NEEDED: u32 = 0b11;
        /// `RDMA_MC_JOIN_FLAG_FULLMEMBER`, `_SENDONLY_FULLMEMBER`
        const FULL_MEMBER: u32 = 0;
        const SEND_ONLY: u32 = 1;
        let (id, attr) = (live(&id)?, attr.ok_or(Errno::INVALID)?);
        if attr.comp_mask & NEEDED != NEEDED {
            return Err(Errno::INVALID);
        }
        if attr.comp_mask & !NEEDED != 0 {
            return Err(Errno(libc::ENOTSUP));
        }
        let send_only = match attr.join_flags {
            FULL_MEMBER => false,
            SEND_ONLY => true,
            _ => return Err(Errno::INVALID),
        };
        join(id, read(attr.addr)?, send_only, context).map(|()| 0)
    })
}

pub(crate) extern "C" fn leave_multicast(id: Option<Ptr<Id>>, address: *const Storage) -> c_int {
    number(|| {
        let (id, address) = (live(&id)?, read(address)?);
        let group = {
            let mut state = id.state();
            let at = state.groups.iter().position(|group| group.address == address);
            state.groups.remove(at.ok_or(Errno(libc::EADDRNOTAVAIL))?)
        };
        detach(id, &group)?;
        id.cm()?.leave_multicast(id.number, address)?;
        // The program may still have events of it.
        id.manager.settle(&group.tally);
        Ok(0)
    })
}
