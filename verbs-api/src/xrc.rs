//! Extended reliable connections: one connection reaches many shared receive queues.
//!
//! An initiator is an ordinary [`Qp`](crate::Qp) of type [`QpType::XrcSend`]; each of its requests
//! names a queue ([`SendWr::remote_srq`](crate::SendWr)). Here is the other side: the domain, its
//! queues and its targets.

use std::sync::Arc;

use softrnic_model::verbs::{
    Access, CqId, PdId, QpAttributeMask, QpAttributes, QpCapabilities, QpInit, QpNum, QpState,
    QpType, SrqAttributes, XrcdId,
};

use crate::completion::Cq;
use crate::device::{Context, PORT};
use crate::domain::Pd;
use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::owned::Owned;
use crate::queue_pair::connection::{self, ConnectOptions, End};
use crate::shared_receive::Srq;

/// An XRC domain. A clone is the same domain.
#[derive(Clone, Debug)]
pub struct Xrcd(Arc<XrcdInner>);

#[derive(Debug)]
struct XrcdInner {
    object: Owned<XrcdId>,
    context: Context,
}

impl Xrcd {
    pub(crate) fn new(context: &Context) -> Result<Self> {
        let id = context.verbs().open_xrcd().map_err(Error::of("open_xrcd"))?;
        let object = Owned::new(context.verbs(), id, |verbs, id| verbs.close_xrcd(id));
        Ok(Self(Arc::new(XrcdInner { object, context: context.clone() })))
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> XrcdId {
        self.0.object.id()
    }

    /// Makes a shared receive queue that the targets of this domain take from. Its buffers, and the
    /// memory that requests for it may reach, are those of `pd`; its receives complete in `cq`.
    ///
    /// # Errors
    /// As [`crate::provider::Context::create_srq_ex`].
    pub fn create_srq(&self, pd: &Pd, cq: &Cq, attributes: &SrqAttributes) -> Result<Srq> {
        Srq::new_xrc(pd, self, cq, attributes)
    }

    /// Makes a target in `Init` that lets its peer do what `access` says.
    ///
    /// # Errors
    /// As [`crate::provider::Context::create_qp`] and [`crate::provider::Context::modify_qp`].
    pub fn create_target(&self, access: Access) -> Result<XrcTarget> {
        let init = QpInit {
            // A target has none of these, and nobody looks at them.
            pd: PdId(0),
            send_cq: CqId(0),
            recv_cq: CqId(0),
            srq: None,
            qp_type: QpType::XrcRecv,
            xrcd: Some(self.id()),
            cap: QpCapabilities::default(),
            signal_all: false,
            create_flags: softrnic_model::verbs::QpCreateFlags::empty(),
        };
        let verbs = self.0.context.verbs();
        let end = End::new(&self.0.context, None, None)?;
        let (num, _) = verbs.create_qp(&init).map_err(Error::of("create_qp"))?;
        let target = self.target(num, end);
        use QpAttributeMask as M;
        let attributes =
            QpAttributes { state: QpState::Init, port: PORT, access, ..QpAttributes::default() };
        target.modify(&attributes, M::STATE | M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS)?;
        Ok(target)
    }

    /// Opens a target of this domain that exists. It is destroyed when all who have it open have
    /// dropped it.
    ///
    /// # Errors
    /// As [`crate::provider::Context::open_qp`].
    pub fn open_target(&self, num: QpNum) -> Result<XrcTarget> {
        let end = End::new(&self.0.context, None, None)?;
        self.0.context.verbs().open_qp(self.id(), num).map_err(Error::of("open_qp"))?;
        Ok(self.target(num, end))
    }

    fn target(&self, num: QpNum, end: End) -> XrcTarget {
        let object = Owned::new(self.0.context.verbs(), num, |verbs, num| verbs.destroy_qp(num));
        XrcTarget(Arc::new(TargetInner { object, end, xrcd: self.clone() }))
    }

    pub(crate) fn object(&self) -> &Owned<XrcdId> {
        &self.0.object
    }
}

/// The target of an extended reliable connection. A clone is the same target.
#[derive(Clone, Debug)]
pub struct XrcTarget(Arc<TargetInner>);

#[derive(Debug)]
struct TargetInner {
    object: Owned<QpNum>,
    end: End,
    xrcd: Xrcd,
}

impl XrcTarget {
    /// Its number.
    #[must_use]
    pub fn num(&self) -> QpNum {
        self.0.object.id()
    }

    /// Its domain.
    #[must_use]
    pub fn xrcd(&self) -> &Xrcd {
        &self.0.xrcd
    }

    /// What the initiator needs to know to connect to it.
    ///
    /// # Errors
    /// As [`crate::Context::port`] and [`crate::Context::attributes`].
    pub fn endpoint(&self) -> Result<Endpoint> {
        self.0.end.endpoint(&self.0.xrcd.0.context, self.num())
    }

    /// Connects a target in `Init` to its initiator.
    ///
    /// # Errors
    /// As [`crate::provider::Context::modify_qp`].
    pub fn connect(&self, peer: &Endpoint, options: &ConnectOptions) -> Result<()> {
        let context = &self.0.xrcd.0.context;
        let attributes = self.0.end.attributes(context, self.num(), peer, options)?;
        for (state, mask) in connection::steps(QpType::XrcRecv) {
            self.modify(&QpAttributes { state, ..attributes }, mask)?;
        }
        Ok(())
    }

    /// Changes attributes.
    ///
    /// # Errors
    /// As [`crate::provider::Context::modify_qp`].
    pub fn modify(&self, attributes: &QpAttributes, mask: QpAttributeMask) -> Result<()> {
        let verbs = self.0.object.verbs();
        verbs.modify_qp(self.num(), attributes, mask).map_err(Error::of("modify_qp"))
    }

    /// Its attributes now.
    ///
    /// # Errors
    /// As [`crate::provider::Context::query_qp`].
    pub fn query(&self) -> Result<QpAttributes> {
        let asked = self.0.object.verbs().query_qp(self.num());
        Ok(asked.map_err(Error::of("query_qp"))?.0)
    }
}
