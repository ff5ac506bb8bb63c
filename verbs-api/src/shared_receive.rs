//! Shared receive queues.

use std::sync::Arc;

use softrnic_model::verbs::{RecvWr, SrqAttributes, SrqId};

use crate::domain::Pd;
use crate::error::{Error, PostError, Result};
use crate::owned::Owned;

/// A shared receive queue. A clone is the same queue.
#[derive(Clone, Debug)]
pub struct Srq(Arc<SrqInner>);

#[derive(Debug)]
struct SrqInner {
    object: Owned<SrqId>,
    granted: SrqAttributes,
    _pd: Pd,
}

impl Srq {
    pub(crate) fn new(pd: &Pd, attributes: &SrqAttributes) -> Result<Self> {
        let verbs = pd.context().verbs();
        let made = verbs.create_srq(pd.id(), attributes);
        let (id, granted) = made.map_err(Error::of("create_srq"))?;
        let object = Owned::new(verbs, id, |verbs, id| verbs.destroy_srq(id));
        Ok(Self(Arc::new(SrqInner { object, granted, _pd: pd.clone() })))
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> SrqId {
        self.0.object.id()
    }

    /// What was granted when it was made.
    #[must_use]
    pub fn granted(&self) -> &SrqAttributes {
        &self.0.granted
    }

    /// Posts receives.
    ///
    /// # Errors
    /// As [`crate::provider::Context::post_srq_recv`].
    pub fn post_recv(&self, wrs: &[RecvWr<'_>]) -> core::result::Result<(), PostError> {
        self.0.object.verbs().post_srq_recv(self.id(), wrs)
    }

    /// Asks for one event when fewer than `limit` receives are left.
    ///
    /// # Errors
    /// As [`crate::provider::Context::modify_srq`].
    pub fn arm_limit(&self, limit: u32) -> Result<()> {
        let done = self.0.object.verbs().modify_srq(self.id(), Some(limit), None);
        done.map_err(Error::of("modify_srq"))
    }

    /// Its attributes now.
    ///
    /// # Errors
    /// As [`crate::provider::Context::query_srq`].
    pub fn query(&self) -> Result<SrqAttributes> {
        self.0.object.verbs().query_srq(self.id()).map_err(Error::of("query_srq"))
    }

    pub(crate) fn object(&self) -> &Owned<SrqId> {
        &self.0.object
    }
}
