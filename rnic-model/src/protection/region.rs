//! Memory regions.

use crate::memory::MemoryId;
use crate::verbs::{Access, Key, PdId, VerbError};

use super::key_table::Object;
use super::span::Span;
use super::{AccessFault, Grant, Protection};

/// A memory region, as it is registered and as it is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionSpec {
    /// Its protection domain.
    pub pd: PdId,
    /// The program memory that it is in.
    pub memory: MemoryId,
    /// Where it begins there, in bytes.
    pub memory_offset: u64,
    /// The address by which the program and peers name its first byte; with `ZERO_BASED` that is 0,
    /// and this is only kept.
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
    // [protection/zero-based]
    pub(super) const fn span(&self) -> Span {
        let start = if self.access.contains(Access::ZERO_BASED) { 0 } else { self.addr };
        Span { start, length: self.length }
    }

    /// Where the byte at `offset` of the region is.
    pub(super) const fn place(&self, offset: u64) -> Result<Grant, AccessFault> {
        match self.memory_offset.checked_add(offset) {
            Some(offset) => Ok(Grant { memory: self.memory, offset }),
            None => Err(AccessFault::OutOfRange),
        }
    }

    /// Where `length` bytes from `offset` of the region on are.
    pub(super) fn part(&self, offset: u64, length: u64) -> Result<Grant, AccessFault> {
        let whole = Span { start: 0, length: self.length };
        self.place(whole.offset_of(offset, length).ok_or(AccessFault::OutOfRange)?)
    }

    /// Judges a registration: `ibv_reg_mr(3)`.
    pub(super) fn judge(&self) -> Result<(), VerbError> {
        // [protection/register-unknown-bits]
        if self.access.bits() & !(Access::all().bits() | OPTIONAL_RIGHTS) != 0 {
            return Err(VerbError::Invalid("access: unknown bits"));
        }
        // [protection/register-write-needs-local]
        if !self.access.contains(Access::LOCAL_WRITE) && self.access.intersects(NEED_LOCAL_WRITE) {
            return Err(VerbError::Invalid(
                "access: REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE",
            ));
        }
        // [protection/register-wrap]
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

impl Protection {
    /// Registers a region (`ibv_reg_mr(3)`) and returns its local and remote key.
    ///
    /// # Errors
    /// EINVAL: `REMOTE_WRITE` or `REMOTE_ATOMIC` without `LOCAL_WRITE`, unknown rights, or bytes
    /// beyond the last address. ENOMEM: there are `max_mr` regions.
    pub fn register(&mut self, spec: RegionSpec) -> Result<Key, VerbError> {
        const FULL: VerbError = VerbError::Full("max_mr regions are registered");
        spec.judge()?;
        // [protection/register-limit]
        if self.regions == self.limits.max_mr {
            return Err(FULL);
        }
        let region = Region { spec, windows_bound: 0 };
        let key = self.table.insert(Object::Region(region)).ok_or(FULL)?;
        self.regions += 1;
        Ok(key)
    }

    /// Changes a region (`ibv_rereg_mr(3)`). Elsewhere or of another length it is another region to
    /// its peers: it has a new key and the earlier one is stale. What only changes its rights or its
    /// protection domain leaves it its key, on which programs that change rights rely. Never fails
    /// for want of room.
    ///
    /// # Errors
    /// EINVAL: not the key of a region, no change asked for, or what [`Protection::register`]
    /// refuses. EBUSY: windows are bound to it. The region stays as it is then.
    // [protection/rereg-translation] [protection/rereg-access] [protection/rereg-pd]
    pub fn reregister(&mut self, key: Key, changes: RegionChanges) -> Result<Key, VerbError> {
        let region = self.idle_region(key)?;
        if changes == RegionChanges::default() {
            return Err(VerbError::Invalid("flags: nothing to change"));
        }
        let spec = changes.applied_to(region.spec);
        spec.judge()?;
        if changes.translation.is_some() {
            self.deregister(key)?;
            return self.register(spec);
        }
        match self.table.find_mut(key) {
            Ok(Object::Region(region)) => region.spec = spec,
            Ok(Object::Free { .. } | Object::Window(_)) | Err(_) => return Err(NO_REGION),
        }
        Ok(key)
    }

    /// Removes a region (`ibv_dereg_mr(3)`) and returns what it was.
    ///
    /// # Errors
    /// EINVAL: not the key of a region. EBUSY: windows are bound to it.
    pub fn deregister(&mut self, key: Key) -> Result<RegionSpec, VerbError> {
        let spec = self.idle_region(key)?.spec;
        self.table.remove(key).map_err(|_| NO_REGION)?;
        self.regions -= 1;
        Ok(spec)
    }

    /// The region of `key`.
    #[must_use]
    pub fn query_region(&self, key: Key) -> Option<RegionSpec> {
        self.region(key).map(|region| region.spec).ok()
    }

    pub(super) fn region(&self, key: Key) -> Result<&Region, AccessFault> {
        match self.table.find(key)? {
            Object::Region(region) => Ok(region),
            Object::Free { .. } | Object::Window(_) => Err(AccessFault::WrongKind),
        }
    }

    /// A region that no window is bound to.
    // [protection/dereg-busy] [windows-invalidation/region-busy]
    fn idle_region(&self, key: Key) -> Result<&Region, VerbError> {
        let region = self.region(key).map_err(|_| NO_REGION)?;
        if region.windows_bound > 0 {
            return Err(VerbError::Busy("windows are bound to the region"));
        }
        Ok(region)
    }
}

const NO_REGION: VerbError = VerbError::NoSuchObject("not the key of a region");
