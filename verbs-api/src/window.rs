//! Memory windows: a part of a region, lent to peers under a key of its own.

use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use softrnic_model::verbs::{
    Access, BindInfo, Key, SendFlags, SendOp, SendWr, VerbError, WindowType,
};

use crate::domain::Pd;
use crate::error::{Error, Result};
use crate::owned::Owned;
use crate::provider::MwBind;
use crate::queue_pair::Qp;
use crate::region::{Mr, RemoteAddress};

/// What a window is to show.
#[derive(Clone, Copy, Debug)]
pub struct WindowRange<'a> {
    /// The region, with the right `MW_BIND`.
    pub region: &'a Mr,
    /// First byte, counted from the start of the region.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// What peers may do.
    pub access: Access,
}

/// A memory window. A clone is the same window. It keeps every region that it was bound to, for a
/// region cannot go while a window shows it.
#[derive(Clone, Debug)]
pub struct Mw(Arc<MwInner>);

#[derive(Debug)]
struct MwInner {
    object: Owned<Key>,
    window_type: WindowType,
    /// The key now: the index of the object's, and the variant of the last bind.
    key: AtomicU32,
    regions: Mutex<Vec<Mr>>,
    pd: Pd,
}

impl Mw {
    pub(crate) fn new(pd: &Pd, window_type: WindowType) -> Result<Self> {
        let verbs = pd.context().verbs();
        let key = verbs.alloc_mw(pd.id(), window_type).map_err(Error::of("alloc_mw"))?;
        let object = Owned::new(verbs, key, |verbs, key| verbs.dealloc_mw(key));
        Ok(Self(Arc::new(MwInner {
            object,
            window_type,
            key: AtomicU32::new(key.0),
            regions: Mutex::default(),
            pd: pd.clone(),
        })))
    }

    /// The key by which peers name it, once the last bind has completed.
    #[must_use]
    pub fn rkey(&self) -> Key {
        Key(self.0.key.load(Ordering::Acquire))
    }

    /// Its type.
    #[must_use]
    pub fn window_type(&self) -> WindowType {
        self.0.window_type
    }

    /// Posts a bind to the send queue of `qp`, with the verb that the type asks for, and returns
    /// what peers will be told: the window's first byte under its new key. It holds once the
    /// work request has completed; a failed one leaves the window as it was on the device, to be
    /// bound again or dropped.
    ///
    /// # Errors
    /// As [`crate::provider::Context::bind_mw`] or [`crate::provider::Context::post_send`].
    pub fn bind(
        &self,
        qp: &Qp,
        wr_id: u64,
        flags: SendFlags,
        range: WindowRange<'_>,
    ) -> Result<RemoteAddress> {
        self.0.object.same_device(range.region.pd().object(), "bind_mw")?;
        self.0.object.same_device(qp.object(), "bind_mw")?;
        let info = BindInfo {
            mr_lkey: range.region.lkey(),
            addr: range.region.remote(range.offset).addr,
            length: range.length,
            access: range.access,
        };
        // Two binds at once would disagree about the key: one after the other.
        let mut regions = self.0.regions.lock().unwrap_or_else(PoisonError::into_inner);
        let rkey = match self.0.window_type {
            WindowType::Type1 => {
                let bind = MwBind { wr_id, flags, info };
                let verbs = self.0.object.verbs();
                verbs.bind_mw(qp.num(), self.rkey(), &bind).map_err(Error::of("bind_mw"))?
            }
            WindowType::Type2A | WindowType::Type2B => self.post_bind(qp, wr_id, flags, info)?,
        };
        self.0.key.store(rkey.0, Ordering::Release);
        if regions.iter().all(|region| region.lkey() != info.mr_lkey) {
            regions.push(range.region.clone());
        }
        let zero_based = range.access.contains(Access::ZERO_BASED);
        Ok(RemoteAddress { addr: if zero_based { 0 } else { info.addr }, rkey })
    }

    fn post_bind(&self, qp: &Qp, wr_id: u64, flags: SendFlags, bind: BindInfo) -> Result<Key> {
        let window = self.rkey();
        let new_rkey = Key::from_parts(window.index(), window.variant().wrapping_add(1));
        let window_type = self.0.window_type;
        let op = SendOp::BindMw { window, new_rkey, window_type, bind };
        let posted = qp.post_send(&[SendWr { wr_id, op, flags, sges: &[], ..SendWr::default() }]);
        let refused = |source: VerbError| Error { verb: "post_send", source };
        posted.map_err(|error| refused(error.error))?;
        Ok(new_rkey)
    }

    /// Its protection domain.
    #[must_use]
    pub fn pd(&self) -> &Pd {
        &self.0.pd
    }
}
