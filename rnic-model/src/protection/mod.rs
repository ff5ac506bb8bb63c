//! Who may touch which bytes.
//!
//! [`Protection`] holds the memory regions and windows of a device under their keys.
//! [`Protection::check`] is the only way to memory: scatter/gather elements, receive buffers and
//! peers' requests all pass it, and it judges in this order, which decides what fault is reported:
//!
//! 1. the key: an object has this index, under this variant, and is of a kind that serves
//!    ([`UnknownKey`], [`StaleKey`], [`WrongKind`]);
//! 2. the state: a window is bound ([`NotBound`]);
//! 3. the protection domain ([`WrongPd`]);
//! 4. the queue pair, of a window that serves only the one that bound it ([`WrongQp`]);
//! 5. the rights ([`AccessDenied`]);
//! 6. the range, without a sum that could wrap ([`OutOfRange`]).
//!
//! What a queue pair itself allows to peers, the alignment of atomics, and that a READ or WRITE of
//! length 0 needs no key are the caller's to judge.
//!
//! A key is the index of an entry and a variant. Regions and windows share the entries. An index is
//! reused as late as possible, and always under a variant that it has not had since all 256 turned
//! over, so that the key of an object that is gone leads nowhere. The local and the remote key of a
//! region are the same number.
//!
//! [`UnknownKey`]: AccessFault::UnknownKey
//! [`StaleKey`]: AccessFault::StaleKey
//! [`WrongKind`]: AccessFault::WrongKind
//! [`NotBound`]: AccessFault::NotBound
//! [`WrongPd`]: AccessFault::WrongPd
//! [`WrongQp`]: AccessFault::WrongQp
//! [`AccessDenied`]: AccessFault::AccessDenied
//! [`OutOfRange`]: AccessFault::OutOfRange

mod access;
mod audit;
mod fault;
mod key_policy;
mod key_table;
mod region;
mod span;
mod window;

pub use access::{AccessRequest, Grant, Side};
pub use audit::Exposure;
pub use fault::{AccessFault, BindError};
pub use key_policy::KeyPolicy;
pub use region::{RegionChanges, RegionSpec, Translation};
pub use window::BindRequest;

use alloc::vec::Vec;

use access::{REMOTE_RIGHTS, judge_rights};
use key_table::{KeyTable, Object};
use region::Region;
use window::{Binding, Window};

use crate::verbs::{Key, PdId, QpNum, VerbError, WindowType};

/// How many objects there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyLimits {
    /// Memory regions.
    pub max_mr: u32,
    /// Memory windows.
    pub max_mw: u32,
}

impl KeyLimits {
    /// Both together have at most 2^24 - 1 indices; windows give way.
    fn bounded(self) -> Self {
        let max_mr = self.max_mr.min(KeyTable::CAPACITY_MAX);
        Self { max_mr, max_mw: self.max_mw.min(KeyTable::CAPACITY_MAX - max_mr) }
    }
}

/// The regions and windows of a device. See the [module](self) for the rules.
#[derive(Clone, Debug)]
pub struct Protection {
    limits: KeyLimits,
    table: KeyTable,
    regions: u32,
    windows: u32,
}

/// Regions.
impl Protection {
    /// Without any object. The table grows as indices are used; nothing is allocated here.
    #[must_use]
    pub fn new(limits: KeyLimits, policy: KeyPolicy) -> Self {
        let limits = limits.bounded();
        let table = KeyTable::new(limits.max_mr + limits.max_mw, policy);
        Self { limits, table, regions: 0, windows: 0 }
    }

    /// How many objects there may be: as asked for, within the 2^24 - 1 indices of the table.
    #[must_use]
    pub const fn limits(&self) -> KeyLimits {
        self.limits
    }

    /// Registers a region (`ibv_reg_mr(3)`) and returns its local and remote key.
    ///
    /// # Errors
    /// EINVAL: `REMOTE_WRITE` or `REMOTE_ATOMIC` without `LOCAL_WRITE`, unknown rights, or bytes
    /// beyond the last address. ENOMEM: there are `max_mr` regions.
    pub fn register(&mut self, spec: RegionSpec) -> Result<Key, VerbError> {
        const FULL: VerbError = VerbError::Full("max_mr regions are registered");
        spec.judge()?;
        if self.regions == self.limits.max_mr {
            return Err(FULL);
        }
        let region = Region { spec, windows_bound: 0 };
        let key = self.table.insert(Object::Region(region)).ok_or(FULL)?;
        self.regions += 1;
        Ok(key)
    }

    /// Changes a region (`ibv_rereg_mr(3)`): deregisters and registers it in one step, so that it
    /// has a new key and the earlier one is stale. Never fails for want of room.
    ///
    /// # Errors
    /// EINVAL: not the key of a region, no change asked for, or what [`Protection::register`]
    /// refuses. EBUSY: windows are bound to it. The region stays as it is then.
    pub fn reregister(&mut self, key: Key, changes: RegionChanges) -> Result<Key, VerbError> {
        let region = self.idle_region(key)?;
        if changes == RegionChanges::default() {
            return Err(VerbError::Invalid("flags: nothing to change"));
        }
        let spec = changes.applied_to(region.spec);
        spec.judge()?;
        self.deregister(key)?;
        self.register(spec)
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

    fn region(&self, key: Key) -> Result<&Region, AccessFault> {
        match self.table.find(key)? {
            Object::Region(region) => Ok(region),
            Object::Free { .. } | Object::Window(_) => Err(AccessFault::WrongKind),
        }
    }

    /// A region that no window is bound to.
    fn idle_region(&self, key: Key) -> Result<&Region, VerbError> {
        let region = self.region(key).map_err(|_| NO_REGION)?;
        if region.windows_bound > 0 {
            return Err(VerbError::Busy("windows are bound to the region"));
        }
        Ok(region)
    }
}

/// Windows.
impl Protection {
    /// Allocates a window, not bound (`ibv_alloc_mw(3)`), and returns its key.
    ///
    /// # Errors
    /// ENOMEM: there are `max_mw` windows.
    pub fn alloc_window(&mut self, pd: PdId, window_type: WindowType) -> Result<Key, VerbError> {
        const FULL: VerbError = VerbError::Full("max_mw windows are allocated");
        if self.windows == self.limits.max_mw {
            return Err(FULL);
        }
        let window = Window { pd, window_type, binding: None };
        let key = self.table.insert(Object::Window(window)).ok_or(FULL)?;
        self.windows += 1;
        Ok(key)
    }

    /// Removes a window, bound or not (`ibv_dealloc_mw(3)`).
    ///
    /// # Errors
    /// EINVAL: not the present key of a window.
    pub fn dealloc_window(&mut self, key: Key) -> Result<(), VerbError> {
        self.window(key).map_err(|_| NO_WINDOW)?;
        self.set_binding(key, None);
        self.table.remove(key).map_err(|_| NO_WINDOW)?;
        self.windows -= 1;
        Ok(())
    }

    /// Binds a window and returns its key from now on; the earlier key is stale, unless the program
    /// chose the same for a window of type 2. Of type 1, a bind replaces the earlier binding, and
    /// one of length 0 only ends it.
    ///
    /// Judged in this order: the window's key, type and protection domain, its state, and, unless
    /// the length is 0, the region's key, protection domain and rights, and the range.
    ///
    /// # Errors
    /// [`BindError`]; nothing has changed then.
    pub fn bind(&mut self, request: BindRequest) -> Result<Key, BindError> {
        let binding = self.judge_bind(&request)?;
        self.set_binding(request.window, binding);
        let variant = request.new_rkey.variant();
        let chosen = match request.window_type {
            WindowType::Type1 if variant == request.window.variant() => None,
            WindowType::Type1 | WindowType::Type2A | WindowType::Type2B => Some(variant),
        };
        self.table.rekey(request.window, chosen).map_err(BindError::Window)
    }

    fn judge_bind(&self, request: &BindRequest) -> Result<Option<Binding>, BindError> {
        let window = self.window(request.window).map_err(BindError::Window)?;
        window.judge_bind(request)?;
        if request.bind.length == 0 {
            return Ok(None);
        }
        let region = self.region(request.bind.mr_lkey).map_err(BindError::Region)?;
        window::judge_region(&region.spec, request).map(Some)
    }

    /// Invalidates a window of type 2 as a peer's SEND with invalidate asks: it is not bound any
    /// more and keeps its key.
    ///
    /// # Errors
    /// [`AccessFault`], in the order of [`Protection::check`]; nothing has changed then.
    pub fn invalidate_remote(
        &mut self,
        key: Key,
        qp: QpNum,
        qp_pd: PdId,
    ) -> Result<(), AccessFault> {
        self.invalidate(key, qp, qp_pd)
    }

    /// Invalidates a window of type 2 as a work request of this device asks; the same rules as
    /// [`Protection::invalidate_remote`].
    ///
    /// # Errors
    /// [`AccessFault`], in the order of [`Protection::check`]; nothing has changed then.
    pub fn invalidate_local(
        &mut self,
        key: Key,
        qp: QpNum,
        qp_pd: PdId,
    ) -> Result<(), AccessFault> {
        self.invalidate(key, qp, qp_pd)
    }

    fn invalidate(&mut self, key: Key, qp: QpNum, qp_pd: PdId) -> Result<(), AccessFault> {
        self.window(key)?.judge_invalidate(qp_pd, qp)?;
        self.set_binding(key, None);
        Ok(())
    }

    /// Unbinds the windows that serve only queue pair `qp` and returns how many there were. To be
    /// called when the queue pair is destroyed, before its number can be given to another one.
    pub fn unbind_windows_of_qp(&mut self, qp: QpNum) -> usize {
        let keys: Vec<Key> = self.windows_of_qp(qp).collect();
        keys.iter().for_each(|&key| self.set_binding(key, None));
        keys.len()
    }

    /// The windows that serve only queue pair `qp`.
    pub fn windows_of_qp(&self, qp: QpNum) -> impl Iterator<Item = Key> {
        self.table.objects().filter_map(move |(key, object)| match object {
            Object::Window(window) if window.only_qp() == Some(qp) => Some(key),
            Object::Free { .. } | Object::Region(_) | Object::Window(_) => None,
        })
    }

    fn window(&self, key: Key) -> Result<&Window, AccessFault> {
        match self.table.find(key)? {
            Object::Window(window) => Ok(window),
            Object::Free { .. } | Object::Region(_) => Err(AccessFault::WrongKind),
        }
    }

    /// Replaces the binding of a window, and keeps count at the regions.
    fn set_binding(&mut self, key: Key, binding: Option<Binding>) {
        let Ok(Object::Window(window)) = self.table.find_mut(key) else { return };
        let earlier = core::mem::replace(&mut window.binding, binding);
        if let Some(region) = earlier.and_then(|earlier| self.bound_region(earlier)) {
            region.windows_bound -= 1;
        }
        if let Some(region) = binding.and_then(|binding| self.bound_region(binding)) {
            region.windows_bound += 1;
        }
    }

    fn bound_region(&mut self, binding: Binding) -> Option<&mut Region> {
        match self.table.find_mut(binding.region) {
            Ok(Object::Region(region)) => Some(region),
            Ok(Object::Free { .. } | Object::Window(_)) | Err(_) => None,
        }
    }
}

/// Access.
impl Protection {
    /// Judges an access: see the [module](self) for what and in which order.
    ///
    /// Of length 0, the address must lie between the first byte and the one after the last.
    ///
    /// # Errors
    /// [`AccessFault`]: the first condition that does not hold.
    #[inline]
    pub fn check(&self, request: &AccessRequest) -> Result<Grant, AccessFault> {
        match (self.table.find(request.key)?, request.side) {
            (Object::Region(region), side) => {
                let spec = &region.spec;
                if spec.pd != request.pd {
                    return Err(AccessFault::WrongPd);
                }
                judge_rights(side, request.needs, spec.access)?;
                let offset = spec
                    .span()
                    .offset_of(request.addr, request.length)
                    .ok_or(AccessFault::OutOfRange)?;
                spec.grant(offset, request.length)
            }
            (Object::Window(window), Side::Remote { qp }) => {
                let binding = window.judge_user(request.pd, qp)?;
                judge_rights(request.side, request.needs, binding.rights)?;
                let offset = binding
                    .span
                    .offset_of(request.addr, request.length)
                    .ok_or(AccessFault::OutOfRange)?;
                self.through(&binding, offset, request.length)
            }
            (Object::Window(_), Side::Local) | (Object::Free { .. }, _) => {
                Err(AccessFault::WrongKind)
            }
        }
    }

    /// Where `length` bytes from `offset` of a window on are. A window leads to memory only through
    /// its region, which must still be the one that it was bound to and contain the bytes.
    fn through(&self, binding: &Binding, offset: u64, length: u64) -> Result<Grant, AccessFault> {
        let region = self.region(binding.region).map_err(|_| AccessFault::NotBound)?;
        let offset = binding.region_offset.checked_add(offset).ok_or(AccessFault::OutOfRange)?;
        region.spec.grant(offset, length)
    }

    /// How many regions and windows `pd` has; it cannot be deallocated before there are none.
    #[must_use]
    pub fn objects_of_pd(&self, pd: PdId) -> usize {
        let of_pd = |object: &Object| match object {
            Object::Region(region) => region.spec.pd == pd,
            Object::Window(window) => window.pd == pd,
            Object::Free { .. } => false,
        };
        self.table.objects().filter(|(_, object)| of_pd(object)).count()
    }

    /// All that peers can reach, by ascending index.
    pub fn exposures(&self) -> impl Iterator<Item = Exposure> {
        self.table.objects().filter_map(|(key, object)| self.exposure(key, object))
    }

    fn exposure(&self, key: Key, object: &Object) -> Option<Exposure> {
        let (window, pd, only_qp, span, rights, grant) = match object {
            Object::Region(Region { spec, .. }) => {
                (None, spec.pd, None, spec.span(), spec.access, spec.grant(0, spec.length))
            }
            Object::Window(window) => {
                let binding = window.binding?;
                let grant = self.through(&binding, 0, binding.span.length);
                let window_type = Some(window.window_type);
                (window_type, window.pd, window.only_qp(), binding.span, binding.rights, grant)
            }
            Object::Free { .. } => return None,
        };
        let rights = rights.intersection(REMOTE_RIGHTS);
        let exposure = Exposure {
            key,
            window,
            pd,
            only_qp,
            addr: span.start,
            length: span.length,
            rights,
            grant: grant.ok()?,
        };
        (span.length > 0 && !rights.is_empty()).then_some(exposure)
    }
}

const NO_REGION: VerbError = VerbError::NoSuchObject("not the key of a region");
const NO_WINDOW: VerbError = VerbError::NoSuchObject("not the key of a window");
