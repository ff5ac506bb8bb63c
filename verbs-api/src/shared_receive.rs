//! Shared receive queues.

use std::sync::Arc;

use softrnic_model::verbs::{RecvWr, SrqAttributes, SrqId, SrqInit, SrqNum, XrcSrq};

use crate::completion::Cq;
use crate::domain::Pd;
use crate::error::{Error, PostError, Result};
use crate::owned::Owned;
use crate::xrc::Xrcd;

/// A shared receive queue. A clone is the same queue.
#[derive(Clone, Debug)]
pub struct Srq(Arc<SrqInner>);

#[derive(Debug)]
struct SrqInner {
    object: Owned<SrqId>,
    granted: SrqAttributes,
    _pd: Pd,
    /// Of one for XRC: its domain, and where it completes.
    _xrc: Option<(Xrcd, Cq)>,
}

impl Srq {
    pub(crate) fn new(pd: &Pd, attributes: &SrqAttributes) -> Result<Self> {
        let made = pd.context().verbs().create_srq(pd.id(), attributes);
        Ok(Self::of(pd, made.map_err(Error::of("create_srq"))?, None))
    }

    pub(crate) fn new_xrc(
        pd: &Pd,
        xrcd: &Xrcd,
        cq: &Cq,
        attributes: &SrqAttributes,
    ) -> Result<Self> {
        const VERB: &str = "create_srq_ex";
        pd.object().same_device(xrcd.object(), VERB)?;
        pd.object().same_device(cq.object(), VERB)?;
        let xrc = Some(XrcSrq { xrcd: xrcd.id(), cq: cq.id() });
        let init = SrqInit { pd: pd.id(), attributes: *attributes, xrc };
        let made = pd.context().verbs().create_srq_ex(&init).map_err(Error::of(VERB))?;
        Ok(Self::of(pd, made, Some((xrcd.clone(), cq.clone()))))
    }

    fn of(pd: &Pd, (id, granted): (SrqId, SrqAttributes), xrc: Option<(Xrcd, Cq)>) -> Self {
        let object = Owned::new(pd.context().verbs(), id, |verbs, id| verbs.destroy_srq(id));
        Self(Arc::new(SrqInner { object, granted, _pd: pd.clone(), _xrc: xrc }))
    }

    /// The number by which requests of XRC name it.
    ///
    /// # Errors
    /// As [`crate::provider::Context::srq_number`].
    pub fn number(&self) -> Result<SrqNum> {
        self.0.object.verbs().srq_number(self.id()).map_err(Error::of("get_srq_num"))
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

    /// Changes how many receives it may hold.
    ///
    /// # Errors
    /// As [`crate::provider::Context::modify_srq`].
    pub fn resize(&self, max_wr: u32) -> Result<()> {
        let done = self.0.object.verbs().modify_srq(self.id(), None, Some(max_wr));
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
