//! The connection manager of this process, and the identifiers that it knows.
//!
//! An event leads to an identifier, so an identifier must not go before the program has acknowledged
//! every event that it was given (`rdma_destroy_id(3)`): destroying waits for that, as it does for the
//! objects of the verbs.

use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use softrnic_verbs::cm::resolve::SystemResolver;
use softrnic_verbs::cm::{CmId, ConnectionManager, EmulatedManager};

use super::Id;
use super::devices::Devices;
use crate::errno::{Errno, Result};
use crate::fork::Process;
use crate::object::Ptr;

/// Events that the program got and those that it gave back.
#[derive(Debug, Default)]
pub(super) struct Tally {
    delivered: AtomicU32,
    acknowledged: AtomicU32,
}

impl Tally {
    fn is_settled(&self) -> bool {
        self.delivered.load(Ordering::Relaxed) == self.acknowledged.load(Ordering::Relaxed)
    }
}

/// The connection manager of a process.
pub(super) struct Manager {
    cm: Arc<dyn ConnectionManager>,
    process: Process,
    ids: Mutex<BTreeMap<CmId, Ptr<Id>>>,
    acknowledged: Condvar,
    pub(super) devices: Devices,
}

static CURRENT: Mutex<Option<Arc<Manager>>> = Mutex::new(None);

impl Manager {
    /// That of this process, made when it is first asked for.
    ///
    /// # Errors
    /// The system has nothing left to make one with.
    pub(super) fn current() -> Result<Arc<Self>> {
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(manager) = &*current
            && manager.process.is_current()
        {
            return Ok(Arc::clone(manager));
        }
        let cm = EmulatedManager::new(Arc::new(SystemResolver));
        let manager = Arc::new(Self {
            cm,
            process: Process::current(),
            ids: Mutex::default(),
            acknowledged: Condvar::new(),
            devices: Devices::default(),
        });
        // A forked child leaves that of its parent alone: its threads are not here.
        let _of_parent = ManuallyDrop::new(current.replace(Arc::clone(&manager)));
        Ok(manager)
    }

    /// What does the work.
    ///
    /// # Errors
    /// `EIO`: this is a forked child of the process that made it.
    pub(super) fn cm(&self) -> Result<&dyn ConnectionManager> {
        if self.process.is_current() { Ok(&*self.cm) } else { Err(Errno::IO) }
    }

    fn ids(&self) -> MutexGuard<'_, BTreeMap<CmId, Ptr<Id>>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on events of `number` are those of `id`.
    pub(super) fn know(&self, number: CmId, id: Ptr<Id>) {
        self.ids().insert(number, id);
    }

    /// No more events of it are handed out.
    pub(super) fn forget(&self, number: CmId) {
        self.ids().remove(&number);
    }

    /// All that are known and satisfy `wanted`.
    pub(super) fn known(&self, wanted: impl Fn(&Ptr<Id>) -> bool) -> Vec<Ptr<Id>> {
        self.ids().values().filter(|id| wanted(id)).copied().collect()
    }

    /// Counts an event that the program is about to get; `None`: its identifier is gone.
    pub(super) fn deliver(&self, number: CmId) -> Option<(Ptr<Id>, Arc<Tally>)> {
        let ids = self.ids();
        let id = *ids.get(&number)?;
        let tally = Arc::clone(&id.get().ok()?.tally);
        tally.delivered.fetch_add(1, Ordering::Relaxed);
        Some((id, tally))
    }

    /// Counts one more event that is counted already, as one of `tally` as well.
    pub(super) fn deliver_also(&self, tally: &Tally) {
        let _ids = self.ids();
        tally.delivered.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an event that the program gives back, or never got.
    pub(super) fn acknowledge(&self, tally: &Tally) {
        let ids = self.ids();
        tally.acknowledged.fetch_add(1, Ordering::Relaxed);
        drop(ids);
        self.acknowledged.notify_all();
    }

    /// Waits until the program has given back all events of a tally.
    pub(super) fn settle(&self, tally: &Tally) {
        let mut ids = self.ids();
        while !tally.is_settled() {
            ids = self.acknowledged.wait(ids).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
