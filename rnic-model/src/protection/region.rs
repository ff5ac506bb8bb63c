//! Memory regions.

use crate::memory::MemoryId;
use crate::verbs::{Access, PdId, VerbError};

use super::span::Span;
use super::{AccessFault, Grant};

/// A memory region, as it is registered and as it is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionSpec {
    /// Its protection domain.
    pub pd: PdId,
    /// The program memory that it is in.
    pub memory: MemoryId,
    /// Where it begins there, in bytes.
    pub memory_offset: u64,
    /// The address by which the program and peers name its first byte; not looked at with
    /// `ZERO_BASED`, which makes it 0.
    pub addr: u64,
    /// Bytes; 0 is allowed and gives access to none.
    pub length: u64,
    /// Rights. Local read is always granted.
    pub access: Access,
}

/// What `ibv_rereg_mr(3)` changes; what is `None` stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionChanges {
    /// The protection domain.
    pub pd: Option<PdId>,
    /// Location and length.
    pub translation: Option<Translation>,
    /// The rights, replaced as a whole.
    pub access: Option<Access>,
}

/// Location and length of a region: these fields of [`RegionSpec`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// The program memory that it is in.
    pub memory: MemoryId,
    /// Where it begins there, in bytes.
    pub memory_offset: u64,
    /// The address by which the program and peers name its first byte.
    pub addr: u64,
    /// Bytes.
    pub length: u64,
}

impl RegionChanges {
    /// `spec` with the changes made.
    pub(super) fn applied_to(self, spec: RegionSpec) -> RegionSpec {
        let now = Translation {
            memory: spec.memory,
            memory_offset: spec.memory_offset,
            addr: spec.addr,
            length: spec.length,
        };
        let Translation { memory, memory_offset, addr, length } = self.translation.unwrap_or(now);
        RegionSpec {
            pd: self.pd.unwrap_or(spec.pd),
            memory,
            memory_offset,
            addr,
            length,
            access: self.access.unwrap_or(spec.access),
        }
    }
}

impl RegionSpec {
    /// The addresses by which it is accessed.
    pub(super) const fn span(&self) -> Span {
        let start = if self.access.contains(Access::ZERO_BASED) { 0 } else { self.addr };
        Span { start, length: self.length }
    }

    /// Where `length` bytes from `offset` of the region on are.
    pub(super) fn grant(&self, offset: u64, length: u64) -> Result<Grant, AccessFault> {
        Span { start: 0, length: self.length }
            .offset_of(offset, length)
            .and_then(|offset| self.memory_offset.checked_add(offset))
            .map(|offset| Grant { memory: self.memory, offset })
            .ok_or(AccessFault::OutOfRange)
    }

    /// Judges a registration: `ibv_reg_mr(3)`.
    pub(super) fn judge(&self) -> Result<(), VerbError> {
        if self.access.bits() & !(Access::all().bits() | OPTIONAL_RIGHTS) != 0 {
            return Err(VerbError::Invalid("access: unknown bits"));
        }
        if !self.access.contains(Access::LOCAL_WRITE) && self.access.intersects(NEED_LOCAL_WRITE) {
            return Err(VerbError::Invalid(
                "access: REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE",
            ));
        }
        if !self.span().is_addressable() {
            return Err(VerbError::Invalid("addr and length: beyond the last address"));
        }
        if !(Span { start: self.memory_offset, length: self.length }).is_addressable() {
            return Err(VerbError::Invalid("memory_offset and length: beyond the last offset"));
        }
        Ok(())
    }
}

/// Rights to change memory from afar.
pub(super) const NEED_LOCAL_WRITE: Access = Access::REMOTE_WRITE.union(Access::REMOTE_ATOMIC);

/// The bits (`IBV_ACCESS_OPTIONAL_RANGE`) that a device may leave unheeded if it does not know them.
const OPTIONAL_RIGHTS: u32 = 0x3ff0_0000;

/// A registered region, and how many windows are bound to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region {
    pub(super) spec: RegionSpec,
    pub(super) windows_bound: u32,
}
