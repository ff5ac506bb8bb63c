//! What the objects of an open device share, and the count of events that the program still has.
//!
//! An event carries a pointer to its object, so an object must not go before the program has
//! acknowledged every event that it was given (`ibv_ack_cq_events(3)`): destroying waits for that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use softrnic_model::verbs::{CqId, PdId, QpNum, SrqId, XrcdId};
use softrnic_verbs::provider::{self, DmId, MrKeys};

use crate::errno::{Errno, Result};
use crate::extended::File;
use crate::fork;
use crate::object::Ptr;
use crate::objects::{Cq, Qp, Srq};

/// What the objects of an open device share.
pub(crate) struct Shared {
    device: Arc<dyn provider::Context>,
    /// The process that opened it.
    process: fork::Process,
    named: Mutex<Named>,
    acknowledged: Condvar,
}

impl Shared {
    /// Whether objects may be used together.
    ///
    /// # Errors
    /// `EINVAL`: they are of two devices, on each of which their numbers mean something else.
    pub(crate) fn is_same_device(&self, other: &Self) -> Result<()> {
        if Arc::ptr_eq(&self.device, &other.device) { Ok(()) } else { Err(Errno::INVALID) }
    }
}

/// The objects that events and imports may name.
#[derive(Default)]
pub(crate) struct Named {
    pub(crate) pds: BTreeSet<PdId>,
    pub(crate) dms: BTreeSet<DmId>,
    /// XRC domains by the file that stands for each, and how often each is open.
    pub(crate) xrcds: BTreeMap<File, (XrcdId, u32)>,
    /// By the index of the key.
    pub(crate) mrs: BTreeMap<u32, MrKeys>,
    pub(crate) cqs: BTreeMap<CqId, Ptr<Cq>>,
    pub(crate) qps: BTreeMap<QpNum, Ptr<Qp>>,
    pub(crate) srqs: BTreeMap<SrqId, Ptr<Srq>>,
}

/// Events of one kind of one object.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    delivered: AtomicU32,
    acknowledged: AtomicU32,
}

impl Shared {
    pub(crate) fn new(device: Arc<dyn provider::Context>) -> Self {
        Self {
            device,
            process: fork::Process::current(),
            named: Mutex::default(),
            acknowledged: Condvar::new(),
        }
    }

    /// The device.
    ///
    /// # Errors
    /// `EIO`: this is a forked child of the process that opened it.
    #[inline]
    pub(crate) fn device(&self) -> Result<&dyn provider::Context> {
        if self.process.is_current() { Ok(&*self.device) } else { Err(Errno::IO) }
    }

    /// The device, for who keeps it.
    ///
    /// # Errors
    /// As [`Shared::device`].
    pub(crate) fn device_handle(&self) -> Result<Arc<dyn provider::Context>> {
        self.device()?;
        Ok(Arc::clone(&self.device))
    }

    /// The objects that events may name, locked. An event is counted as delivered under this lock.
    pub(crate) fn named(&self) -> MutexGuard<'_, Named> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an event that the program gets. Only under the lock of [`Shared::named`], which `_named`
    /// proves.
    pub(crate) fn deliver(&self, _named: &MutexGuard<'_, Named>, tally: &Tally) {
        tally.delivered.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts events that the program gives back; `tell` hears how many they are in all, before
    /// anybody who waits for them goes on.
    pub(crate) fn acknowledge(&self, tally: &Tally, events: u32, tell: impl FnOnce(u32)) {
        let named = self.named();
        tell(tally.acknowledged.fetch_add(events, Ordering::Relaxed).wrapping_add(events));
        drop(named);
        self.acknowledged.notify_all();
    }

    /// Waits until all delivered events are acknowledged, having first made sure that no more come:
    /// `forget` takes the object out of the names.
    pub(crate) fn settle(&self, forget: impl FnOnce(&mut Named), tallies: &[&Tally]) {
        let mut named = self.named();
        forget(&mut named);
        let owed = |tally: &&Tally| {
            tally.delivered.load(Ordering::Relaxed) != tally.acknowledged.load(Ordering::Relaxed)
        };
        while tallies.iter().any(owed) {
            named = self.acknowledged.wait(named).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
