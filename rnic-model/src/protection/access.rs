//! Requests for access, and what is granted.

use crate::memory::MemoryId;
use crate::planted::{self, Fault};
use crate::verbs::{Access, Key, PdId, QpNum};

use super::key_table::Object;
use super::region::RegionSpec;
use super::window::Binding;
use super::{AccessFault, Protection};

/// Who accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The program, by a scatter/gather element: only regions serve, and reading needs no right.
    Local,
    /// A peer, by a remote key: regions and bound windows serve, and a right must be named.
    Remote {
        /// The queue pair on which the request arrived.
        qp: QpNum,
    },
}

/// An access to be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessRequest {
    /// Local or remote key.
    pub key: Key,
    /// Who accesses.
    pub side: Side,
    /// Protection domain of the queue pair.
    pub pd: PdId,
    /// First byte, as the region or window numbers them.
    pub addr: u64,
    /// Bytes.
    pub length: u64,
    /// Rights that the access exercises, all of which must be there: `LOCAL_WRITE` or none of the
    /// local side, one or more of `REMOTE_*` and `FLUSH_*` of the remote side.
    pub needs: Access,
}

/// Where the bytes are for [`Memory`](crate::memory::Memory).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The program memory.
    pub memory: MemoryId,
    /// The first byte there.
    pub offset: u64,
}

/// What a key leads to for somebody who may use it.
enum Reach<'a> {
    Region(&'a RegionSpec),
    Window(Binding),
}

/// Rights that a peer exercises.
pub(super) const REMOTE_RIGHTS: Access =
    Access::REMOTE.union(Access::FLUSH_GLOBAL).union(Access::FLUSH_PERSISTENT);

/// Judges the rights. A remote request that names none, and a right of the other side, are refused
/// rather than passed for want of anything to look at.
// [protection/remote-write-right] [protection/remote-read-right] [protection/remote-atomic-right]
// [protection/local-write-right] [protection/local-read-always] [windows-invalidation/access-right]
pub(super) fn judge_rights(side: Side, needs: Access, rights: Access) -> Result<(), AccessFault> {
    let usable = match side {
        Side::Local => Access::LOCAL_WRITE,
        Side::Remote { .. } if needs.is_empty() => return Err(AccessFault::AccessDenied),
        Side::Remote { .. } => REMOTE_RIGHTS,
    };
    if rights.intersection(usable).contains(needs) {
        Ok(())
    } else {
        Err(AccessFault::AccessDenied)
    }
}

impl Protection {
    /// Judges an access: see the [module](super) for what and in which order.
    ///
    /// Of length 0, the address must lie between the first byte and the one after the last.
    ///
    /// # Errors
    /// [`AccessFault`]: the first condition that does not hold.
    #[inline]
    // [protection/check-order]
    pub fn check(&self, request: &AccessRequest) -> Result<Grant, AccessFault> {
        let AccessRequest { key, side, pd, addr, length, needs } = *request;
        match self.judge_user(key, side, pd, needs)? {
            Reach::Region(spec) => {
                let length = if planted::has(Fault::Range) && addr.wrapping_add(length) < addr {
                    0
                } else {
                    length
                };
                let offset = spec.span().offset_of(addr, length).ok_or(AccessFault::OutOfRange)?;
                spec.place(offset)
            }
            Reach::Window(binding) => {
                let offset = binding.span.offset_of(addr, length).ok_or(AccessFault::OutOfRange)?;
                self.through(&binding, offset, length)
            }
        }
    }

    /// Judges an access to all of a region or window, whatever its range.
    ///
    /// # Errors
    /// As [`Protection::check`], without a range.
    pub fn check_whole(
        &self,
        key: Key,
        side: Side,
        pd: PdId,
        needs: Access,
    ) -> Result<(), AccessFault> {
        match self.judge_user(key, side, pd, needs)? {
            Reach::Region(_) => Ok(()),
            Reach::Window(binding) => self.through(&binding, 0, binding.span.length).map(|_| ()),
        }
    }

    /// Everything that does not depend on the range.
    #[inline]
    // [protection/check-order]
    fn judge_user(
        &self,
        key: Key,
        side: Side,
        pd: PdId,
        needs: Access,
    ) -> Result<Reach<'_>, AccessFault> {
        match (self.table.find(key)?, side) {
            (Object::Region(region), _) => {
                // [protection/cross-pd-remote] [protection/cross-pd-local]
                let overlooked = planted::has(Fault::Domain) && side == Side::Local;
                if region.spec.pd != pd && !overlooked {
                    return Err(AccessFault::WrongPd);
                }
                judge_rights(side, needs, region.spec.access)?;
                Ok(Reach::Region(&region.spec))
            }
            (Object::Window(window), Side::Remote { qp }) => {
                // [windows-invalidation/bind-rights-alone] [windows-invalidation/access-range]
                let binding = window.judge_user(pd, qp)?;
                judge_rights(side, needs, binding.rights)?;
                Ok(Reach::Window(binding))
            }
            // [windows-invalidation/not-local]
            (Object::Window(_), Side::Local) | (Object::Free { .. }, _) => {
                Err(AccessFault::WrongKind)
            }
        }
    }

    /// Where `length` bytes from `offset` of a window on are. A window leads to memory only through
    /// its region, which must still be the one that it was bound to and contain the bytes.
    pub(super) fn through(
        &self,
        binding: &Binding,
        offset: u64,
        length: u64,
    ) -> Result<Grant, AccessFault> {
        let region = self.region(binding.region).map_err(|_| AccessFault::NotBound)?;
        let offset = binding.region_offset.checked_add(offset).ok_or(AccessFault::OutOfRange)?;
        region.spec.part(offset, length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protection::{BindRequest, KeyLimits, KeyPolicy, RegionSpec};
    use crate::verbs::{BindInfo, VerbError, WindowType};

    const PD: PdId = PdId(1);
    const QP: QpNum = QpNum::GSI;
    const SPEC: RegionSpec = RegionSpec {
        pd: PD,
        memory: MemoryId(0),
        memory_offset: 0,
        addr: 0x1000,
        length: 64,
        access: Access::LOCAL_WRITE.union(Access::MW_BIND),
    };

    /// A window over all of a region, with both keys.
    fn bound() -> Result<(Protection, Key, Key), VerbError> {
        let limits = KeyLimits { max_mr: 1, max_mw: 1 };
        let mut protection = Protection::new(limits, KeyPolicy::Sequential);
        let region = protection.register(SPEC)?;
        let window = protection.alloc_window(PD, WindowType::Type2A)?;
        let access = Access::REMOTE_READ;
        let bind = BindInfo { mr_lkey: region, addr: SPEC.addr, length: SPEC.length, access };
        let window_type = WindowType::Type2A;
        let request =
            BindRequest { window, new_rkey: Key(7), window_type, bind, qp: QP, qp_pd: PD };
        let window = protection.bind(request).map_err(|_| VerbError::Invalid("bind"))?;
        Ok((protection, region, window))
    }

    fn read(protection: &Protection, key: Key, addr: u64) -> Result<Grant, AccessFault> {
        let (side, needs) = (Side::Remote { qp: QP }, Access::REMOTE_READ);
        protection.check(&AccessRequest { key, side, pd: PD, addr, length: 8, needs })
    }

    #[test]
    fn a_window_leads_nowhere_without_its_region() -> Result<(), VerbError> {
        // No verb takes a region from under a window: this is the second line of defence.
        let (mut protection, region, window) = bound()?;
        assert_eq!(read(&protection, window, 0x1000), Ok(Grant { memory: MemoryId(0), offset: 0 }));
        assert!(protection.table.remove(region).is_ok());
        assert_eq!(read(&protection, window, 0x1000), Err(AccessFault::NotBound));
        // Another region comes to the same index.
        protection.regions = 0;
        let other = protection.register(SPEC)?;
        assert_eq!(other.index(), region.index());
        assert_eq!(read(&protection, window, 0x1000), Err(AccessFault::NotBound));
        assert_eq!(protection.exposures().count(), 0);
        Ok(())
    }

    #[test]
    fn a_window_leads_to_no_byte_outside_its_region() -> Result<(), VerbError> {
        let (mut protection, region, window) = bound()?;
        if let Ok(Object::Region(region)) = protection.table.find_mut(region) {
            region.spec.length = 16;
        }
        assert!(read(&protection, window, 0x1008).is_ok());
        assert_eq!(read(&protection, window, 0x1009), Err(AccessFault::OutOfRange));
        assert_eq!(read(&protection, window, 0x1020), Err(AccessFault::OutOfRange));
        Ok(())
    }
}
