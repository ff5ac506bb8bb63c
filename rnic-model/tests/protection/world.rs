//! Does everything twice and compares.

use softrnic_model::MemoryId;
use softrnic_model::protection::{
    AccessFault, AccessRequest, BindError, BindRequest, Exposure, KeyLimits, KeyPolicy, Protection,
    RegionChanges, RegionSpec, Side, Translation,
};
use softrnic_model::verbs::{Access, BindInfo, Key, PdId, QpNum, VerbError, WindowType};

use crate::reference::Reference;

pub(crate) const PD: PdId = PdId(0x0001_0000);
pub(crate) const OTHER_PD: PdId = PdId(0x0002_0000);
pub(crate) const QP: QpNum = QpNum::GSI;
pub(crate) const OTHER_QP: QpNum = QpNum::MULTICAST;
pub(crate) const TYPES: [WindowType; 3] =
    [WindowType::Type1, WindowType::Type2A, WindowType::Type2B];

/// Every subset of `rights`.
pub(crate) fn subsets(rights: Access) -> impl Iterator<Item = Access> {
    let all = rights.bits();
    let mut next = Some(0_u32);
    core::iter::from_fn(move || {
        let now = next?;
        next = (now != all).then(|| now.wrapping_sub(all) & all);
        Some(Access::from_bits_truncate(now))
    })
}

/// A region of 96 bytes at an address that is not a multiple of anything.
pub(crate) const fn plain_region(access: Access) -> RegionSpec {
    RegionSpec {
        pd: PD,
        memory: MemoryId(5),
        memory_offset: 0x333,
        addr: 0x7f00_1234_5677,
        length: 96,
        access,
    }
}

#[derive(Clone)]
pub(crate) struct World {
    pub(crate) device: Protection,
    pub(crate) reference: Reference,
    /// Every key that there ever was.
    pub(crate) keys: Vec<Key>,
}

impl World {
    pub(crate) fn new(max_mr: u32, max_mw: u32, policy: KeyPolicy) -> Self {
        Self {
            device: Protection::new(KeyLimits { max_mr, max_mw }, policy),
            reference: Reference::new(max_mr, max_mw),
            keys: Vec::new(),
        }
    }

    pub(crate) fn register(&mut self, spec: RegionSpec) -> Result<Key, i32> {
        let expected = self.reference.judge_register(&spec);
        let answer = self.device.register(spec).map_err(VerbError::errno);
        assert_eq!(answer.map(|_| ()), expected, "{spec:x?}");
        let key = answer?;
        self.reference.register(key, spec);
        self.keys.push(key);
        Ok(key)
    }

    pub(crate) fn reregister(&mut self, key: Key, changes: RegionChanges) -> Result<Key, i32> {
        let now = self.reference.query(key).unwrap_or(plain_region(Access::empty()));
        let mut spec = now;
        spec.pd = changes.pd.unwrap_or(now.pd);
        spec.access = changes.access.unwrap_or(now.access);
        if let Some(Translation { memory, memory_offset, addr, length }) = changes.translation {
            spec = RegionSpec { memory, memory_offset, addr, length, ..spec };
        }
        let any = changes.pd.is_some() || changes.access.is_some() || changes.translation.is_some();
        let expected = self.reference.judge_reregister(key, &spec, any);
        let answer = self.device.reregister(key, changes).map_err(VerbError::errno);
        assert_eq!(answer.map(|_| ()), expected, "{key:?} {changes:x?}");
        let new = answer?;
        let moved = changes.translation.is_some();
        assert_eq!(new != key, moved, "a region that stays where it is keeps its key");
        if moved {
            self.reference.deregister(key);
            self.reference.register(new, spec);
            self.keys.push(new);
        } else {
            self.reference.change(key, spec);
        }
        Ok(new)
    }

    pub(crate) fn deregister(&mut self, key: Key) -> Result<(), i32> {
        let expected = self.reference.judge_deregister(key);
        assert_eq!(self.device.deregister(key).map_err(VerbError::errno), expected, "{key:?}");
        expected?;
        self.reference.deregister(key);
        Ok(())
    }

    pub(crate) fn alloc(&mut self, pd: PdId, window_type: WindowType) -> Result<Key, i32> {
        let expected = self.reference.judge_alloc();
        let answer = self.device.alloc_window(pd, window_type).map_err(VerbError::errno);
        assert_eq!(answer.map(|_| ()), expected);
        let key = answer?;
        self.reference.alloc(key, pd, window_type);
        self.keys.push(key);
        Ok(key)
    }

    pub(crate) fn dealloc(&mut self, key: Key) -> Result<(), i32> {
        let expected = self.reference.judge_dealloc(key);
        assert_eq!(self.device.dealloc_window(key).map_err(VerbError::errno), expected, "{key:?}");
        expected?;
        self.reference.dealloc(key);
        Ok(())
    }

    pub(crate) fn bind(&mut self, request: BindRequest) -> Result<Key, BindError> {
        let answer = self.device.bind(request);
        self.reference.bind(&request, answer);
        self.keys.extend(answer);
        answer
    }

    pub(crate) fn invalidate(
        &mut self,
        key: Key,
        qp: QpNum,
        pd: PdId,
        by_peer: bool,
    ) -> Result<(), AccessFault> {
        let expected = self.reference.judge_invalidate(key, qp, pd);
        let answer = match by_peer {
            true => self.device.invalidate_remote(key, qp, pd),
            false => self.device.invalidate_local(key, qp, pd),
        };
        assert_eq!(answer, expected, "{key:?} {qp:?} {pd:?}");
        expected?;
        self.reference.invalidate(key);
        Ok(())
    }

    pub(crate) fn unbind_of_qp(&mut self, qp: QpNum) -> usize {
        let expected = self.reference.unbind_of_qp(qp);
        assert_eq!(self.device.windows_of_qp(qp).count(), expected);
        assert_eq!(self.device.unbind_windows_of_qp(qp), expected);
        expected
    }

    /// Judges one access twice; whether it was granted.
    pub(crate) fn check(&self, request: &AccessRequest) -> bool {
        let answer = self.device.check(request);
        assert_eq!(answer, self.reference.check(request), "{request:x?}");
        // The range is judged last: without one, everything else is judged the same.
        let AccessRequest { key, side, pd, needs, .. } = *request;
        let expected = match answer {
            Ok(_) | Err(AccessFault::OutOfRange) => Ok(()),
            Err(fault) => Err(fault),
        };
        assert_eq!(self.device.check_whole(key, side, pd, needs), expected, "{request:x?}");
        answer.is_ok()
    }

    /// Compares all that can be seen: each key that there ever was, and the audit.
    pub(crate) fn agree(&self) {
        let exposures: Vec<Exposure> = self.device.exposures().collect();
        assert_eq!(exposures, self.reference.exposures());
        for pd in [PD, OTHER_PD, PdId(0)] {
            assert_eq!(self.device.objects_of_pd(pd), self.reference.objects_of_pd(pd));
        }
        for &key in &self.keys {
            assert_eq!(self.device.query_region(key), self.reference.query(key));
            // A dead key fails before anything else is looked at: one use of each side will do.
            let uses = if self.reference.lives(key) { &USES[..] } else { &USES[1..3] };
            for &(side, needs) in uses {
                for (addr, length) in probes(&exposures, key) {
                    for pd in [PD, OTHER_PD] {
                        self.check(&AccessRequest { key, side, pd, addr, length, needs });
                    }
                }
            }
        }
    }
}

/// Ranges to try a key with: what it now leads to, if anything, and beyond.
fn probes(exposures: &[Exposure], key: Key) -> [(u64, u64); 3] {
    let reach = exposures.iter().find(|exposure| exposure.key == key);
    let (start, length) = reach.map_or((0x1000, 16), |reach| (reach.addr, reach.length));
    [(start, length), (start, length.wrapping_add(1)), (start.wrapping_sub(1), 1)]
}

const USES: [(Side, Access); 5] = [
    (Side::Local, Access::empty()),
    (Side::Local, Access::LOCAL_WRITE),
    (Side::Remote { qp: QP }, Access::REMOTE_READ),
    (Side::Remote { qp: OTHER_QP }, Access::REMOTE_WRITE),
    (Side::Remote { qp: QP }, Access::REMOTE_ATOMIC),
];

/// A bind by `QP` in `PD` that succeeds if the objects are right.
pub(crate) fn bind_request(
    window: (Key, WindowType),
    region: Key,
    (addr, length): (u64, u64),
    access: Access,
) -> BindRequest {
    let (window, window_type) = window;
    BindRequest {
        window,
        new_rkey: Key(window.0 ^ 0x55),
        window_type,
        bind: BindInfo { mr_lkey: region, addr, length, access },
        qp: QP,
        qp_pd: PD,
    }
}
