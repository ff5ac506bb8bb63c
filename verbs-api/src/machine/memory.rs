//! Kinds of memory besides registered program memory: none at all, the device's own, and all of the
//! program's (implicit on-demand paging).

use softrnic_model::Memory as _;
use softrnic_model::protection::RegionSpec;
use softrnic_model::verbs::{Access, Key, PdId, Sge, VerbError};

use super::core::{Core, DeviceMemory, Registered};
use crate::buffer::Buffer;
use crate::host_memory::{self, FAULTS_ARE_ANSWERED};
use crate::provider::{Advice, DmId, MemoryCapabilities, MrKeys, OdpCapabilities, Verb};

/// Bytes of device memory that a program may have.
const MAX_DM_SIZE: u64 = 1 << 26;
/// Device memory begins on a page.
const DM_LOG_ALIGN: u32 = 12;

/// Every access finds its pages by itself, with or without on-demand paging.
pub(crate) const CAPABILITIES: MemoryCapabilities = MemoryCapabilities {
    max_dm_size: MAX_DM_SIZE,
    on_demand: true,
    implicit_on_demand: FAULTS_ARE_ANSWERED,
    rc: OdpCapabilities::all(),
    uc: OdpCapabilities::SEND
        .union(OdpCapabilities::RECV)
        .union(OdpCapabilities::WRITE)
        .union(OdpCapabilities::SRQ_RECV),
    ud: OdpCapabilities::SEND.union(OdpCapabilities::RECV).union(OdpCapabilities::SRQ_RECV),
    xrc: OdpCapabilities::all().difference(OdpCapabilities::RECV),
};

/// What a region's memory must allow.
const WRITES: Access = Access::LOCAL_WRITE.union(Access::REMOTE_WRITE).union(Access::REMOTE_ATOMIC);

/// Judges memory that a program wants to register with these rights. On demand, pages are looked for
/// when they are used.
pub(crate) fn judge_memory(base: *const u8, len: usize, access: Access) -> Verb<()> {
    if !access.contains(Access::ON_DEMAND) {
        return host_memory::probe(base, len, access.intersects(WRITES));
    }
    if base.is_null() && len == usize::MAX && !FAULTS_ARE_ANSWERED {
        return Err(VerbError::NotSupported("access: no implicit on-demand paging here"));
    }
    if base.addr().checked_add(len).is_none() {
        return Err(VerbError::BadAddress("the range wraps around the end of the address space"));
    }
    Ok(())
}

const NO_DM: VerbError = VerbError::NoSuchObject("dm: no such device memory");

impl Core {
    /// Registers what is in the table of memory already.
    pub(crate) fn register(&mut self, spec: RegionSpec, behind: Registered) -> Verb<MrKeys> {
        match self.device.register(spec) {
            Ok(key) => {
                self.regions.insert(key.index(), behind);
                Ok(MrKeys { lkey: key, rkey: key })
            }
            Err(error) => {
                if !matches!(behind, Registered::Device(_)) {
                    let _ = self.memory.remove(spec.memory);
                }
                Err(error)
            }
        }
    }

    pub(crate) fn alloc_null_mr(&mut self, pd: PdId) -> Verb<Key> {
        let memory = self.memory.add_null()?;
        // No right of a peer, none to bind: only the local key is of use.
        let access = Access::LOCAL_WRITE;
        let spec = RegionSpec { pd, memory, memory_offset: 0, addr: 0, length: u64::MAX, access };
        self.register(spec, Registered::Null { memory }).map(|keys| keys.lkey)
    }

    pub(crate) fn alloc_dm(&mut self, len: usize, log_align: u32) -> Verb<DmId> {
        if len == 0 || log_align > DM_LOG_ALIGN {
            return Err(VerbError::Invalid("dm: no bytes, or an alignment beyond a page"));
        }
        let used: u64 = self.device_memory.values().map(|dm| dm.len as u64).sum();
        if used.saturating_add(len as u64) > MAX_DM_SIZE {
            return Err(VerbError::LimitExceeded("dm: more than max_dm_size"));
        }
        let buffer = Buffer::new(len).map_err(|_| VerbError::Full("no memory"))?.into_shared();
        let memory = self.memory.add_buffer(&buffer)?;
        let id = DmId(self.next_dm);
        self.next_dm = self.next_dm.wrapping_add(1);
        self.device_memory.insert(id, DeviceMemory { memory, len, users: 0 });
        Ok(id)
    }

    pub(crate) fn free_dm(&mut self, dm: DmId) -> Verb<()> {
        let memory = self.device_memory.get(&dm).ok_or(NO_DM)?;
        if memory.users != 0 {
            return Err(VerbError::Busy("dm: regions are registered over it"));
        }
        let _ = self.memory.remove(memory.memory);
        self.device_memory.remove(&dm);
        Ok(())
    }

    pub(crate) fn reg_dm_mr(
        &mut self,
        pd: PdId,
        dm: DmId,
        offset: u64,
        len: usize,
        access: Access,
    ) -> Verb<MrKeys> {
        if !access.contains(Access::ZERO_BASED) {
            return Err(VerbError::Invalid("access: device memory is registered ZERO_BASED"));
        }
        let found = self.device_memory.get(&dm).ok_or(NO_DM)?;
        let (memory, length) = (found.memory, len as u64);
        if offset.checked_add(length).is_none_or(|end| end > found.len as u64) {
            return Err(VerbError::Invalid("offset and length: beyond the device memory"));
        }
        let spec = RegionSpec { pd, memory, memory_offset: offset, addr: 0, length, access };
        let keys = self.register(spec, Registered::Device(dm))?;
        if let Some(found) = self.device_memory.get_mut(&dm) {
            found.users += 1;
        }
        Ok(keys)
    }

    pub(crate) fn memcpy_to_dm(&mut self, dm: DmId, offset: u64, bytes: &[u8]) -> Verb<()> {
        let memory = self.device_memory.get(&dm).ok_or(NO_DM)?.memory;
        self.memory.write(memory, offset, bytes).map_err(|_| BEYOND_DM)
    }

    pub(crate) fn memcpy_from_dm(&mut self, dm: DmId, offset: u64, into: &mut [u8]) -> Verb<()> {
        let memory = self.device_memory.get(&dm).ok_or(NO_DM)?.memory;
        self.memory.read(memory, offset, into).map_err(|_| BEYOND_DM)
    }

    /// Judges an advice, and finds the memory that it is about: address and bytes.
    pub(crate) fn judge_advice(
        &mut self,
        pd: PdId,
        advice: Advice,
        sges: &[Sge],
    ) -> Verb<Vec<(usize, usize)>> {
        if !self.device.has_pd(pd) {
            return Err(VerbError::NoSuchObject("pd: no such protection domain"));
        }
        if sges.is_empty() {
            return Err(VerbError::Invalid("sg_list: nothing to advise about"));
        }
        sges.iter().map(|sge| self.judge_advice_on(pd, advice, sge)).collect()
    }

    fn judge_advice_on(&self, pd: PdId, advice: Advice, sge: &Sge) -> Verb<(usize, usize)> {
        let protection = self.device.protection();
        let Some(spec) = protection.query_region(sge.lkey) else {
            return Err(match protection.query_window(sge.lkey) {
                Some(_) => VerbError::Invalid("lkey: of a memory window"),
                None => VerbError::NoEntry("lkey: of no memory region"),
            });
        };
        if spec.pd != pd {
            return Err(VerbError::NotPermitted("lkey: of another protection domain"));
        }
        if advice == Advice::PrefetchWrite && !spec.access.contains(Access::LOCAL_WRITE) {
            return Err(VerbError::NotPermitted("lkey: the region may not be written"));
        }
        let registered = self.regions.get(&sge.lkey.index());
        let Some(Registered::Program { base, .. }) = registered else {
            return Err(VerbError::Invalid("lkey: the region is not of the program's memory"));
        };
        if !spec.access.contains(Access::ON_DEMAND) {
            return Err(VerbError::Invalid("lkey: the region is not ON_DEMAND"));
        }
        let start = if spec.access.contains(Access::ZERO_BASED) { 0 } else { spec.addr };
        let length = u64::from(sge.length);
        let place = sge
            .addr
            .checked_sub(start)
            .filter(|offset| offset.checked_add(length).is_some_and(|end| end <= spec.length));
        let place = place.and_then(|offset| usize::try_from(offset).ok());
        let place = place.ok_or(VerbError::BadAddress("sge: beyond the region"))?;
        Ok((base.wrapping_add(place), usize::try_from(length).unwrap_or(usize::MAX)))
    }
}

const BEYOND_DM: VerbError = VerbError::BadAddress("dm: beyond the device memory");

/// Does what an advice asks for.
pub(crate) fn follow(advice: Advice, ranges: &[(usize, usize)]) -> Verb<()> {
    let write = advice == Advice::PrefetchWrite;
    for &(base, len) in ranges {
        let base = std::ptr::without_provenance(base);
        host_memory::probe(base, len, write)?;
        if advice != Advice::PrefetchNoFault {
            host_memory::prefetch(base, len, write);
        }
    }
    Ok(())
}
