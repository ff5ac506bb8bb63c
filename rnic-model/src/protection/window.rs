//! Memory windows.

use alloc::vec::Vec;

use crate::planted::{self, Fault};
use crate::verbs::{Access, BindInfo, Key, PdId, QpNum, VerbError, WindowType};

use super::key_table::Object;
use super::region::{NEED_LOCAL_WRITE, Region, RegionSpec};
use super::span::Span;
use super::{AccessFault, BindError, Protection};

/// A bind, as it is posted, with the queue pair that executes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindRequest {
    /// The window's present key.
    pub window: Key,
    /// The key afterwards, of which only the variant counts. With the present variant, a window of
    /// type 1 gets the next one of the key policy: its key changes with each bind.
    pub new_rkey: Key,
    /// Type that the window must be of.
    pub window_type: WindowType,
    /// What it is bound to. Rights that no peer can exercise (`LOCAL_WRITE`, `MW_BIND`, hints) grant
    /// nothing, but are not refused: programs pass them, and devices take them.
    pub bind: BindInfo,
    /// The queue pair.
    pub qp: QpNum,
    /// Its protection domain.
    pub qp_pd: PdId,
}

/// What a window is bound to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Binding {
    /// The region. It cannot go while the window is bound.
    pub(super) region: Key,
    /// Where the window begins in the region, in bytes.
    pub(super) region_offset: u64,
    /// The addresses by which it is accessed.
    pub(super) span: Span,
    /// As asked for; only those that a peer can exercise count when access is judged.
    pub(super) rights: Access,
    /// Who bound it.
    pub(super) qp: QpNum,
}

/// An allocated window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) pd: PdId,
    pub(super) window_type: WindowType,
    pub(super) binding: Option<Binding>,
}

impl Window {
    /// The one queue pair that it serves, if it is not for all of its protection domain. The only
    /// place that knows which types are bound to whom.
    // [windows-invalidation/type1-whole-pd] [windows-invalidation/type2-only-qp]
    pub(super) fn only_qp(&self) -> Option<QpNum> {
        match self.window_type {
            WindowType::Type1 => None,
            WindowType::Type2A | WindowType::Type2B => self.binding.map(|binding| binding.qp),
        }
    }

    /// Judges who uses it: state, protection domain, queue pair.
    pub(super) fn judge_user(&self, pd: PdId, qp: QpNum) -> Result<Binding, AccessFault> {
        // [windows-invalidation/alloc-unbound] [windows-invalidation/invalidated-key-dead]
        let binding = self.binding.ok_or(AccessFault::NotBound)?;
        if self.pd != pd && !planted::has(Fault::WindowDomain) {
            return Err(AccessFault::WrongPd);
        }
        let is_another = self.only_qp().is_some_and(|only| only != qp);
        if is_another && !planted::has(Fault::WindowQueuePair) {
            return Err(AccessFault::WrongQp);
        }
        Ok(binding)
    }

    /// Judges the window's side of a bind: its type, its protection domain (C10-72), and of type 2
    /// that it is not bound (o10-37.2.30) nor shall be unbound by this (o10-37.2.40).
    pub(super) fn judge_bind(&self, request: &BindRequest) -> Result<(), BindError> {
        // [windows-invalidation/bind-type]
        if self.window_type != request.window_type {
            return Err(BindError::Window(AccessFault::WrongKind));
        }
        // [windows-invalidation/bind-pd]
        if self.pd != request.qp_pd {
            return Err(BindError::Window(AccessFault::WrongPd));
        }
        match self.window_type {
            WindowType::Type1 => Ok(()),
            // [windows-invalidation/type2-bound-refused]
            WindowType::Type2A | WindowType::Type2B
                if self.binding.is_some()
                    && !planted::has(Fault::WindowBoundTwice)
                    && !planted::has(Fault::WindowUnbound) =>
            {
                Err(BindError::AlreadyBound)
            }
            // [windows-invalidation/type2-zero-length]
            WindowType::Type2A | WindowType::Type2B if request.bind.length == 0 => {
                Err(BindError::ZeroLength)
            }
            WindowType::Type2A | WindowType::Type2B => Ok(()),
        }
    }

    /// Judges an invalidation, posted or received with a SEND. Windows of type 1 are unbound by a
    /// bind of length 0 instead (o10-37.2.26).
    pub(super) fn judge_invalidate(&self, pd: PdId, qp: QpNum) -> Result<(), AccessFault> {
        match self.window_type {
            // [windows-invalidation/type1-not-invalidated]
            WindowType::Type1 => Err(AccessFault::WrongKind),
            WindowType::Type2A | WindowType::Type2B => match self.judge_user(pd, qp) {
                Err(AccessFault::WrongQp) if planted::has(Fault::InvalidatedByOthers) => Ok(()),
                judged => judged.map(|_| ()),
            },
        }
    }
}

/// Judges the region's side of a bind: protection domain (C10-72), `MW_BIND` (C10-73), `LOCAL_WRITE`
/// (C10-74), range (C10-75). What peers may do with the region itself does not matter.
pub(super) fn judge_region(
    region: &RegionSpec,
    request: &BindRequest,
) -> Result<Binding, BindError> {
    let BindInfo { mr_lkey, addr, length, access } = request.bind;
    if region.pd != request.qp_pd {
        return Err(BindError::Region(AccessFault::WrongPd));
    }
    // [windows-invalidation/bind-needs-right]
    if !region.access.contains(Access::MW_BIND) {
        return Err(BindError::NotBindable);
    }
    // [windows-invalidation/bind-write-needs-local]
    if access.intersects(NEED_LOCAL_WRITE) && !region.access.contains(Access::LOCAL_WRITE) {
        return Err(BindError::RightsExceedRegion);
    }
    // [windows-invalidation/bind-range]
    let region_offset =
        region.span().offset_of(addr, length).ok_or(BindError::Region(AccessFault::OutOfRange))?;
    // [windows-invalidation/access-zero-based]
    let start = if access.contains(Access::ZERO_BASED) { 0 } else { addr };
    Ok(Binding {
        region: mr_lkey,
        region_offset,
        span: Span { start, length },
        rights: access,
        qp: request.qp,
    })
}

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

    /// The present key, the protection domain and the type of the window with the index of `key`:
    /// the index names a window for good, the variant changes with every bind.
    #[must_use]
    pub fn query_window(&self, key: Key) -> Option<(Key, PdId, WindowType)> {
        let present = self.table.present(key)?;
        let window = self.window(present).ok()?;
        Some((present, window.pd, window.window_type))
    }

    /// Removes a window, bound or not (`ibv_dealloc_mw(3)`).
    ///
    /// # Errors
    /// EINVAL: not the present key of a window.
    // [windows-invalidation/dealloc-bound]
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
    // [windows-invalidation/type1-rebind]
    pub fn bind(&mut self, request: BindRequest) -> Result<Key, BindError> {
        let binding = self.judge_bind(&request)?;
        self.set_binding(request.window, binding);
        let variant = request.new_rkey.variant();
        // [windows-invalidation/type1-new-key] [windows-invalidation/type2-key-chosen]
        let chosen = match request.window_type {
            WindowType::Type1 if variant == request.window.variant() => None,
            WindowType::Type1 | WindowType::Type2A | WindowType::Type2B => Some(variant),
        };
        self.table.rekey(request.window, chosen).map_err(BindError::Window)
    }

    fn judge_bind(&self, request: &BindRequest) -> Result<Option<Binding>, BindError> {
        let window = self.window(request.window).map_err(BindError::Window)?;
        window.judge_bind(request)?;
        // [windows-invalidation/type1-unbind]
        if request.bind.length == 0 {
            return Ok(None);
        }
        let region = self.region(request.bind.mr_lkey).map_err(BindError::Region)?;
        judge_region(&region.spec, request).map(Some)
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
        if !planted::has(Fault::WindowUnbound) {
            self.set_binding(key, None);
        }
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
        let of_qp = self.of_qp.range((qp, 0)..=(qp, u32::MAX));
        of_qp.filter_map(|(_, index)| self.table.present(Key::from_parts(*index, 0)))
    }

    // [windows-invalidation/region-not-invalidated]
    fn window(&self, key: Key) -> Result<&Window, AccessFault> {
        match self.table.find(key)? {
            Object::Window(window) => Ok(window),
            Object::Free { .. } | Object::Region(_) => Err(AccessFault::WrongKind),
        }
    }

    /// Replaces the binding of a window, and keeps count at the regions.
    fn set_binding(&mut self, key: Key, binding: Option<Binding>) {
        let Ok(Object::Window(window)) = self.table.find_mut(key) else { return };
        let served_before = window.only_qp();
        let earlier = core::mem::replace(&mut window.binding, binding);
        let served = window.only_qp();
        if let Some(qp) = served_before {
            self.of_qp.remove(&(qp, key.index()));
        }
        if let Some(qp) = served {
            self.of_qp.insert((qp, key.index()));
        }
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

const NO_WINDOW: VerbError = VerbError::NoSuchObject("not the key of a window");
