//! Addresses and routes (`rdma_bind_addr(3)`, `rdma_resolve_addr(3)`, `rdma_resolve_route(3)`), and groups.

use core::ffi::{c_int, c_void};
use std::net::SocketAddr;
use std::ptr::null;

use super::super::layout::Storage;
use super::{HardwareManager, done};
use crate::cm::{Cm, CmError, CmId, CmPhase};
use crate::provider::Timeout;

/// How long the kernel looks for a neighbour's address where the caller does not say: more than the three
/// seconds after which it gives up itself.
const PATIENCE_MS: c_int = 10_000;

fn milliseconds(timeout: Timeout) -> c_int {
    timeout
        .map_or(PATIENCE_MS, |timeout| c_int::try_from(timeout.as_millis()).unwrap_or(c_int::MAX))
}

impl HardwareManager {
    pub(super) fn bind_to(&self, id: CmId, address: SocketAddr) -> Cm<()> {
        let address = Storage::from(address);
        let mut state = self.lock();
        let known = state.id_mut(id)?;
        // SAFETY: the identifier is there, and the address is ours.
        let returned = unsafe { (self.library.rdma_bind_addr)(known.ptr(), &raw const address) };
        done(returned, "rdma_bind_addr")?;
        known.phase = CmPhase::Bound;
        Ok(())
    }

    pub(super) fn find(
        &self,
        id: CmId,
        source: Option<SocketAddr>,
        destination: SocketAddr,
        timeout: Timeout,
    ) -> Cm<()> {
        if source.is_some_and(|source| source.is_ipv4() != destination.is_ipv4()) {
            return Err(CmError::family("the addresses are of two families"));
        }
        let (source, destination) = (source.map(Storage::from), Storage::from(destination));
        let from = source.as_ref().map_or(null(), |source| &raw const *source);
        self.call(id, "rdma_resolve_addr", |library, id| {
            // SAFETY: the identifier is there, and the addresses are ours.
            unsafe {
                (library.rdma_resolve_addr)(id, from, &raw const destination, milliseconds(timeout))
            }
        })
    }

    pub(super) fn find_route(&self, id: CmId, timeout: Timeout) -> Cm<()> {
        self.call(id, "rdma_resolve_route", |library, id| {
            // SAFETY: the identifier is there.
            unsafe { (library.rdma_resolve_route)(id, milliseconds(timeout)) }
        })
    }

    pub(super) fn start_listening(&self, id: CmId, backlog: u32) -> Cm<()> {
        /// What 0 is to the kernel, and the most that it takes.
        const BACKLOG_MAX: u32 = 1024;
        let backlog = if backlog > BACKLOG_MAX { 0 } else { backlog };
        let mut state = self.lock();
        let known = state.id_mut(id)?;
        // SAFETY: the identifier is there.
        let returned = unsafe { (self.library.rdma_listen)(known.ptr(), backlog.cast_signed()) };
        done(returned, "rdma_listen")?;
        known.phase = CmPhase::Listen;
        Ok(())
    }

    pub(super) fn join(&self, id: CmId, group: SocketAddr, context: u64) -> Cm<()> {
        let group = Storage::from(group);
        let context: usize = context.try_into().map_err(|_| CmError::invalid("context"))?;
        let context: *mut c_void = core::ptr::without_provenance_mut(context);
        self.call(id, "rdma_join_multicast", |library, id| {
            // SAFETY: the identifier is there, the address is ours, and nobody follows the context.
            unsafe { (library.rdma_join_multicast)(id, &raw const group, context) }
        })
    }

    pub(super) fn leave(&self, id: CmId, group: SocketAddr) -> Cm<()> {
        let group = Storage::from(group);
        self.call(id, "rdma_leave_multicast", |library, id| {
            // SAFETY: the identifier is there, and the address is ours.
            unsafe { (library.rdma_leave_multicast)(id, &raw const group) }
        })
    }
}
