//! What must happen: slow, from the rules, and without a line of the code under test. It never
//! forgets an object.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use softrnic_model::protection::{
    AccessFault, AccessRequest, BindError, BindRequest, Exposure, Grant, RegionSpec, Side,
};
use softrnic_model::verbs::{Access, Key, PdId, QpNum, WindowType};

use crate::extent::Extent;

const EINVAL: i32 = 22;
const EBUSY: i32 = 16;
const ENOMEM: i32 = 12;

/// The order in which faults are reported.
const ORDER: [AccessFault; 8] = [
    AccessFault::UnknownKey,
    AccessFault::StaleKey,
    AccessFault::WrongKind,
    AccessFault::NotBound,
    AccessFault::WrongPd,
    AccessFault::WrongQp,
    AccessFault::AccessDenied,
    AccessFault::OutOfRange,
];

fn first(faults: &BTreeSet<AccessFault>) -> Option<AccessFault> {
    ORDER.into_iter().find(|fault| faults.contains(fault))
}

/// Every single right, so that sets are looked at bit by bit.
fn has(rights: Access, right: Access) -> bool {
    rights.bits() & right.bits() == right.bits()
}

#[derive(Clone, Debug)]
pub(crate) struct Bound {
    region: usize,
    extent: Extent,
    rights: Access,
    qp: QpNum,
}

#[derive(Clone, Debug)]
pub(crate) enum Thing {
    Region(RegionSpec, Extent),
    Window(WindowType, Option<Bound>),
}

#[derive(Clone, Debug)]
struct Object {
    key: Key,
    pd: PdId,
    alive: bool,
    thing: Thing,
}

#[derive(Clone, Debug)]
pub(crate) struct Reference {
    max_mr: usize,
    max_mw: usize,
    objects: Vec<Object>,
    /// The variants of each index, in the order of use.
    history: BTreeMap<u32, Vec<u8>>,
    /// Indices in the order in which they became free.
    freed: VecDeque<u32>,
}

impl Reference {
    pub(crate) fn new(max_mr: u32, max_mw: u32) -> Self {
        Self {
            max_mr: max_mr as usize,
            max_mw: max_mw as usize,
            objects: Vec::new(),
            history: BTreeMap::new(),
            freed: VecDeque::new(),
        }
    }

    fn capacity(&self) -> usize {
        self.max_mr + self.max_mw
    }

    fn living(&self) -> impl Iterator<Item = (usize, &Object)> {
        self.objects.iter().enumerate().filter(|(_, object)| object.alive)
    }

    fn find(&self, key: Key) -> Result<usize, AccessFault> {
        let (id, object) = self
            .living()
            .find(|(_, object)| object.key.index() == key.index())
            .ok_or(AccessFault::UnknownKey)?;
        if object.key == key { Ok(id) } else { Err(AccessFault::StaleKey) }
    }

    pub(crate) fn lives(&self, key: Key) -> bool {
        self.find(key).is_ok()
    }

    fn find_region(&self, key: Key) -> Result<(usize, &RegionSpec, &Extent), AccessFault> {
        let id = self.find(key)?;
        match &self.objects[id].thing {
            Thing::Region(spec, extent) => Ok((id, spec, extent)),
            Thing::Window(..) => Err(AccessFault::WrongKind),
        }
    }

    fn find_window(&self, key: Key) -> Result<(usize, WindowType), AccessFault> {
        let id = self.find(key)?;
        match self.objects[id].thing {
            Thing::Window(window_type, _) => Ok((id, window_type)),
            Thing::Region(..) => Err(AccessFault::WrongKind),
        }
    }

    fn is_bound_to(&self, region: usize) -> bool {
        self.living().any(|(_, object)| {
            matches!(&object.thing, Thing::Window(_, Some(bound)) if bound.region == region)
        })
    }

    // --- keys -------------------------------------------------------------------------------

    /// Whether the device may choose this key for a new object.
    fn approve_new(&mut self, key: Key) {
        let index = key.index();
        assert!(index >= 1 && index as usize <= self.capacity(), "{key:?}");
        assert!(self.living().all(|(_, object)| object.key.index() != index), "{key:?} in use");
        if self.history.len() < self.capacity() {
            assert!(!self.history.contains_key(&index), "{key:?}: an unused index was left");
        } else {
            assert_eq!(self.freed.pop_front(), Some(index), "{key:?}: not the longest free");
        }
        self.approve_variant(key);
    }

    /// Whether the device may choose this variant of an index.
    fn approve_variant(&mut self, key: Key) {
        let mut turn = BTreeSet::new();
        for &variant in self.history.get(&key.index()).into_iter().flatten() {
            turn.insert(variant);
            if turn.len() == 256 {
                turn = BTreeSet::from([variant]);
            }
        }
        assert!(!turn.contains(&key.variant()), "{key:?}: a stale key came alive");
        self.note_variant(key);
    }

    fn note_variant(&mut self, key: Key) {
        self.history.entry(key.index()).or_default().push(key.variant());
    }

    fn add(&mut self, key: Key, pd: PdId, thing: Thing) {
        self.approve_new(key);
        self.objects.push(Object { key, pd, alive: true, thing });
    }

    fn kill(&mut self, id: usize) {
        self.objects[id].alive = false;
        self.freed.push_back(self.objects[id].key.index());
    }

    // --- regions ----------------------------------------------------------------------------

    fn judge_spec(spec: &RegionSpec) -> Result<(), i32> {
        let changes =
            has(spec.access, Access::REMOTE_WRITE) || has(spec.access, Access::REMOTE_ATOMIC);
        let start = if has(spec.access, Access::ZERO_BASED) { 0 } else { i128::from(spec.addr) };
        let fits = |start: i128| spec.length == 0 || start + i128::from(spec.length) <= 1 << 64;
        // Rights are bits 0 to 9; bits 20 to 29 are optional ones (`IBV_ACCESS_OPTIONAL_RANGE`).
        let known = (0..32)
            .all(|bit| matches!(bit, 0..=9 | 20..=29) || spec.access.bits() & 1_u32 << bit == 0);
        let right = known
            && (!changes || has(spec.access, Access::LOCAL_WRITE))
            && fits(start)
            && fits(i128::from(spec.memory_offset));
        if right { Ok(()) } else { Err(EINVAL) }
    }

    pub(crate) fn judge_register(&self, spec: &RegionSpec) -> Result<(), i32> {
        Self::judge_spec(spec)?;
        let regions =
            self.living().filter(|(_, object)| matches!(object.thing, Thing::Region(..))).count();
        if regions < self.max_mr { Ok(()) } else { Err(ENOMEM) }
    }

    pub(crate) fn register(&mut self, key: Key, spec: RegionSpec) {
        let start = if has(spec.access, Access::ZERO_BASED) { 0 } else { spec.addr };
        let extent = Extent::new(start, spec.length, spec.memory, spec.memory_offset);
        self.add(key, spec.pd, Thing::Region(spec, extent));
    }

    /// The region of `key` becomes `spec`, by the same key.
    pub(crate) fn change(&mut self, key: Key, spec: RegionSpec) {
        let id = self.find(key).unwrap();
        let start = if has(spec.access, Access::ZERO_BASED) { 0 } else { spec.addr };
        let extent = Extent::new(start, spec.length, spec.memory, spec.memory_offset);
        self.objects[id].pd = spec.pd;
        self.objects[id].thing = Thing::Region(spec, extent);
    }

    pub(crate) fn judge_deregister(&self, key: Key) -> Result<RegionSpec, i32> {
        let (id, spec, _) = self.find_region(key).map_err(|_| EINVAL)?;
        if self.is_bound_to(id) { Err(EBUSY) } else { Ok(*spec) }
    }

    /// `spec` is what the region shall become.
    pub(crate) fn judge_reregister(
        &self,
        key: Key,
        spec: &RegionSpec,
        any: bool,
    ) -> Result<(), i32> {
        self.judge_deregister(key)?;
        if any { Self::judge_spec(spec) } else { Err(EINVAL) }
    }

    pub(crate) fn deregister(&mut self, key: Key) {
        let id = self.find(key).unwrap();
        self.kill(id);
    }

    pub(crate) fn query(&self, key: Key) -> Option<RegionSpec> {
        self.find_region(key).ok().map(|(_, spec, _)| *spec)
    }

    // --- windows ----------------------------------------------------------------------------

    pub(crate) fn judge_alloc(&self) -> Result<(), i32> {
        let windows =
            self.living().filter(|(_, object)| matches!(object.thing, Thing::Window(..))).count();
        if windows < self.max_mw { Ok(()) } else { Err(ENOMEM) }
    }

    pub(crate) fn alloc(&mut self, key: Key, pd: PdId, window_type: WindowType) {
        self.add(key, pd, Thing::Window(window_type, None));
    }

    /// Whose the window of `key` is, and of which type.
    pub(crate) fn query_window(&self, key: Key) -> Option<(PdId, WindowType)> {
        let (id, window_type) = self.find_window(key).ok()?;
        Some((self.objects[id].pd, window_type))
    }

    pub(crate) fn judge_dealloc(&self, key: Key) -> Result<(), i32> {
        self.find_window(key).map(|_| ()).map_err(|_| EINVAL)
    }

    pub(crate) fn dealloc(&mut self, key: Key) {
        let id = self.find(key).unwrap();
        self.kill(id);
    }

    fn judge_bind(&self, request: &BindRequest) -> Result<Option<Bound>, BindError> {
        let (id, window_type) = self.find_window(request.window).map_err(BindError::Window)?;
        let type_2 = window_type != WindowType::Type1;
        if window_type != request.window_type {
            return Err(BindError::Window(AccessFault::WrongKind));
        }
        if self.objects[id].pd != request.qp_pd {
            return Err(BindError::Window(AccessFault::WrongPd));
        }
        if type_2 && matches!(self.objects[id].thing, Thing::Window(_, Some(_))) {
            return Err(BindError::AlreadyBound);
        }
        if request.bind.length == 0 {
            return if type_2 { Err(BindError::ZeroLength) } else { Ok(None) };
        }
        let (region, spec, extent) =
            self.find_region(request.bind.mr_lkey).map_err(BindError::Region)?;
        if spec.pd != request.qp_pd {
            return Err(BindError::Region(AccessFault::WrongPd));
        }
        if !has(spec.access, Access::MW_BIND) {
            return Err(BindError::NotBindable);
        }
        let wanted = request.bind.access;
        let changes = has(wanted, Access::REMOTE_WRITE) || has(wanted, Access::REMOTE_ATOMIC);
        if changes && !has(spec.access, Access::LOCAL_WRITE) {
            return Err(BindError::RightsExceedRegion);
        }
        let renamed = has(wanted, Access::ZERO_BASED).then_some(0);
        let extent = extent
            .part(request.bind.addr, request.bind.length, renamed)
            .ok_or(BindError::Region(AccessFault::OutOfRange))?;
        Ok(Some(Bound { region, extent, rights: wanted, qp: request.qp }))
    }

    /// What a bind must come to, given what the device answered.
    pub(crate) fn bind(&mut self, request: &BindRequest, answer: Result<Key, BindError>) {
        let (bound, key) = match (self.judge_bind(request), answer) {
            (Ok(bound), Ok(key)) => (bound, key),
            (Err(expected), Err(got)) if expected == got => return,
            (expected, got) => panic!("{request:?}: {expected:?} expected, {got:?} answered"),
        };
        let (id, window_type) = self.find_window(request.window).unwrap();
        assert_eq!(key.index(), request.window.index());
        if window_type == WindowType::Type1 {
            assert_ne!(key, request.window, "a bind of type 1 ends the earlier key");
        }
        if window_type == WindowType::Type1
            && request.new_rkey.variant() == request.window.variant()
        {
            self.approve_variant(key);
        } else {
            assert_eq!(key.variant(), request.new_rkey.variant());
            self.note_variant(key);
        }
        self.objects[id].key = key;
        self.objects[id].thing = Thing::Window(window_type, bound);
    }

    pub(crate) fn judge_invalidate(
        &self,
        key: Key,
        qp: QpNum,
        pd: PdId,
    ) -> Result<(), AccessFault> {
        let object = &self.objects[self.find(key)?];
        let mut faults = BTreeSet::new();
        match &object.thing {
            Thing::Region(..) | Thing::Window(WindowType::Type1, _) => {
                faults.insert(AccessFault::WrongKind);
            }
            Thing::Window(window_type, bound) => {
                Self::user_faults(object, *window_type, bound.as_ref(), (pd, qp), &mut faults);
            }
        }
        first(&faults).map_or(Ok(()), Err)
    }

    pub(crate) fn invalidate(&mut self, key: Key) {
        let (id, window_type) = self.find_window(key).unwrap();
        self.objects[id].thing = Thing::Window(window_type, None);
    }

    /// Unbinds what serves only `qp`; how many there were.
    pub(crate) fn unbind_of_qp(&mut self, qp: QpNum) -> usize {
        let mut count = 0;
        for object in self.objects.iter_mut().filter(|object| object.alive) {
            if let Thing::Window(WindowType::Type2A | WindowType::Type2B, bound) = &mut object.thing
                && bound.as_ref().is_some_and(|bound| bound.qp == qp)
            {
                *bound = None;
                count += 1;
            }
        }
        count
    }

    // --- access -----------------------------------------------------------------------------

    fn user_faults(
        object: &Object,
        window_type: WindowType,
        bound: Option<&Bound>,
        (pd, qp): (PdId, QpNum),
        faults: &mut BTreeSet<AccessFault>,
    ) {
        if bound.is_none() {
            faults.insert(AccessFault::NotBound);
        }
        if object.pd != pd {
            faults.insert(AccessFault::WrongPd);
        }
        if window_type != WindowType::Type1 && bound.is_some_and(|bound| bound.qp != qp) {
            faults.insert(AccessFault::WrongQp);
        }
    }

    /// Everything that is wrong with the access is found; the order picks one.
    pub(crate) fn check(&self, request: &AccessRequest) -> Result<Grant, AccessFault> {
        let object = &self.objects[self.find(request.key)?];
        let mut faults = BTreeSet::new();
        let reached = match (&object.thing, request.side) {
            (Thing::Region(spec, extent), _) => {
                if object.pd != request.pd {
                    faults.insert(AccessFault::WrongPd);
                }
                Some((extent, spec.access))
            }
            (Thing::Window(..), Side::Local) => {
                faults.insert(AccessFault::WrongKind);
                None
            }
            (Thing::Window(window_type, bound), Side::Remote { qp }) => {
                let bound = bound.as_ref();
                Self::user_faults(object, *window_type, bound, (request.pd, qp), &mut faults);
                bound.map(|bound| (&bound.extent, bound.rights))
            }
        };
        let mut grant = None;
        if let Some((extent, rights)) = reached {
            if !Self::permits(rights, request.side, request.needs) {
                faults.insert(AccessFault::AccessDenied);
            }
            // A place after the last offset has no number, so not even 0 bytes are there.
            let place = extent.locate(request.addr, request.length);
            match place.and_then(|place| u64::try_from(place).ok()) {
                Some(offset) => grant = Some(Grant { memory: extent.memory, offset }),
                None => {
                    faults.insert(AccessFault::OutOfRange);
                }
            }
        }
        match first(&faults) {
            Some(fault) => Err(fault),
            None => Ok(grant.expect("found, since nothing is wrong")),
        }
    }

    /// Right by right: what is needed must be there and be of this side; a peer must need something.
    fn permits(rights: Access, side: Side, needs: Access) -> bool {
        let of_side: &[Access] = match side {
            Side::Local => &[Access::LOCAL_WRITE],
            Side::Remote { .. } => &PEER_RIGHTS,
        };
        let each = (0..32).map(|bit| 1_u32 << bit).filter(|bit| needs.bits() & bit != 0);
        let mut needed = 0;
        for bit in each {
            needed += 1;
            if rights.bits() & bit == 0 || !of_side.iter().any(|right| right.bits() == bit) {
                return false;
            }
        }
        needed > 0 || side == Side::Local
    }

    pub(crate) fn objects_of_pd(&self, pd: PdId) -> usize {
        self.living().filter(|(_, object)| object.pd == pd).count()
    }

    pub(crate) fn exposures(&self) -> Vec<Exposure> {
        let mut all: Vec<Exposure> = self
            .living()
            .filter_map(|(_, object)| {
                let (window, only_qp, extent, rights) = match &object.thing {
                    Thing::Region(spec, extent) => (None, None, extent, spec.access),
                    Thing::Window(window_type, bound) => {
                        let bound = bound.as_ref()?;
                        let only_qp = (*window_type != WindowType::Type1).then_some(bound.qp);
                        (Some(*window_type), only_qp, &bound.extent, bound.rights)
                    }
                };
                let rights =
                    PEER_RIGHTS.into_iter().filter(|&right| has(rights, right)).collect::<Access>();
                (extent.length > 0 && !rights.is_empty()).then(|| Exposure {
                    key: object.key,
                    window,
                    pd: object.pd,
                    only_qp,
                    addr: u64::try_from(extent.start).unwrap(),
                    length: u64::try_from(extent.length).unwrap(),
                    rights,
                    grant: Grant {
                        memory: extent.memory,
                        offset: u64::try_from(extent.offset).unwrap(),
                    },
                })
            })
            .collect();
        all.sort_by_key(|exposure| exposure.key.index());
        all
    }
}

const PEER_RIGHTS: [Access; 5] = [
    Access::REMOTE_WRITE,
    Access::REMOTE_READ,
    Access::REMOTE_ATOMIC,
    Access::FLUSH_GLOBAL,
    Access::FLUSH_PERSISTENT,
];
