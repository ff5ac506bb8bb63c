//! Protection domains: what belongs together.

use std::sync::Arc;

use softrnic_model::verbs::{Access, AddressVector, AhId, PdId, QpType, SrqAttributes, WindowType};

use crate::buffer::SharedBuffer;
use crate::completion::Cq;
use crate::device::Context;
use crate::device_memory::NullMr;
use crate::error::{Error, Result};
use crate::owned::Owned;
use crate::queue_pair::QpBuilder;
use crate::region::{Lent, Mr, ScopedMr};
use crate::shared_receive::Srq;
use crate::window::Mw;

/// A protection domain. A clone is the same domain.
#[derive(Clone, Debug)]
pub struct Pd(Arc<PdInner>);

#[derive(Debug)]
struct PdInner {
    object: Owned<PdId>,
    context: Context,
}

impl Pd {
    pub(crate) fn new(context: &Context) -> Result<Self> {
        let id = context.verbs().alloc_pd().map_err(Error::of("alloc_pd"))?;
        let object = Owned::new(context.verbs(), id, |verbs, id| verbs.dealloc_pd(id));
        Ok(Self(Arc::new(PdInner { object, context: context.clone() })))
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> PdId {
        self.0.object.id()
    }

    /// The device that it is of.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.0.context
    }

    /// Registers a buffer. The region keeps it; a peer may use it as far as `access` says.
    ///
    /// # Errors
    /// As [`crate::provider::Context::reg_mr`].
    pub fn register(&self, buffer: impl Into<SharedBuffer>, access: Access) -> Result<Mr> {
        Mr::new(self, buffer.into(), access)
    }

    /// Registers borrowed memory while `work` runs: see [`Lent`].
    ///
    /// # Errors
    /// As [`crate::provider::Context::reg_mr`]; also `EINVAL`: windows may not be bound to it, and
    /// what is lent for reading may not be written.
    pub fn register_scoped<'a, R>(
        &self,
        memory: impl Into<Lent<'a>>,
        access: Access,
        work: impl FnOnce(&ScopedMr<'_>) -> R,
    ) -> Result<R> {
        let memory = memory.into();
        let region = ScopedMr::new(self, &memory, access)?;
        Ok(work(&region))
    }

    /// Makes a region that reads as zeros and forgets what is written.
    ///
    /// # Errors
    /// As [`crate::provider::Context::alloc_null_mr`].
    pub fn alloc_null_mr(&self) -> Result<NullMr> {
        NullMr::new(self)
    }

    /// Begins a queue pair whose completions of both kinds go to `cq`.
    pub fn create_qp(&self, qp_type: QpType, cq: &Cq) -> QpBuilder {
        QpBuilder::new(self, qp_type, cq)
    }

    /// Makes a shared receive queue; what was granted may be more.
    ///
    /// # Errors
    /// As [`crate::provider::Context::create_srq`].
    pub fn create_srq(&self, attributes: &SrqAttributes) -> Result<Srq> {
        Srq::new(self, attributes)
    }

    /// Makes a memory window, bound to nothing yet.
    ///
    /// # Errors
    /// As [`crate::provider::Context::alloc_mw`].
    pub fn alloc_mw(&self, window_type: WindowType) -> Result<Mw> {
        Mw::new(self, window_type)
    }

    /// Makes an address handle for datagrams.
    ///
    /// # Errors
    /// As [`crate::provider::Context::create_ah`].
    pub fn create_ah(&self, path: &AddressVector) -> Result<Ah> {
        let verbs = self.context().verbs();
        let id = verbs.create_ah(self.id(), path).map_err(Error::of("create_ah"))?;
        let object = Owned::new(verbs, id, |verbs, id| verbs.destroy_ah(id));
        Ok(Ah(Arc::new(AhInner { object, _pd: self.clone() })))
    }

    pub(crate) fn object(&self) -> &Owned<PdId> {
        &self.0.object
    }
}

/// An address handle. A clone is the same handle. Sends that were posted with it need it no more.
#[derive(Clone, Debug)]
pub struct Ah(Arc<AhInner>);

#[derive(Debug)]
struct AhInner {
    object: Owned<AhId>,
    _pd: Pd,
}

impl Ah {
    /// Its number, for [`softrnic_model::verbs::SendOp::SendTo`].
    #[must_use]
    pub fn id(&self) -> AhId {
        self.0.object.id()
    }
}
