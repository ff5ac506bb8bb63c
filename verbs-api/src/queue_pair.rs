//! Queue pairs: made, connected, posted to.

use std::sync::Arc;

use softrnic_model::verbs::{
    Access, AddressVector, Gid, Psn, QpAttributeMask, QpAttributes, QpCapabilities, QpCreateFlags,
    QpInit, QpNum, QpState, QpType, RecvWr, SendWr,
};

use crate::completion::Cq;
use crate::device::PORT;
use crate::domain::Pd;
use crate::endpoint::Endpoint;
use crate::error::{Error, PostError, Result};
use crate::owned::Owned;
use crate::shared_receive::Srq;

pub(crate) mod connection;
mod requests;

use connection::{ConnectOptions, End};

/// What a queue pair will be. Sizes not set are those of a small program: 128 work requests of one
/// element in each queue.
#[derive(Clone, Debug)]
#[must_use = "build it"]
pub struct QpBuilder {
    pd: Pd,
    send_cq: Cq,
    recv_cq: Cq,
    srq: Option<Srq>,
    qp_type: QpType,
    cap: QpCapabilities,
    signal_all: bool,
    create_flags: QpCreateFlags,
    settings: Settings,
}

/// What a queue pair keeps of its builder for its later states.
#[derive(Clone, Copy, Debug)]
struct Settings {
    access: Access,
    qkey: u32,
    pkey_index: u16,
    sgid_index: Option<u8>,
    psn: Option<Psn>,
}

impl QpBuilder {
    pub(crate) fn new(pd: &Pd, qp_type: QpType, cq: &Cq) -> Self {
        Self {
            pd: pd.clone(),
            send_cq: cq.clone(),
            recv_cq: cq.clone(),
            srq: None,
            qp_type,
            cap: QpCapabilities {
                max_send_wr: 128,
                max_recv_wr: 128,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: 0,
            },
            signal_all: false,
            create_flags: QpCreateFlags::empty(),
            settings: Settings {
                access: Access::REMOTE,
                qkey: 0x1111_1111,
                pkey_index: 0,
                sgid_index: None,
                psn: None,
            },
        }
    }

    /// Receive completions go here instead.
    pub fn recv_cq(mut self, cq: &Cq) -> Self {
        self.recv_cq = cq.clone();
        self
    }

    /// Receives come from a shared queue; it has none of its own.
    pub fn srq(mut self, srq: &Srq) -> Self {
        self.srq = Some(srq.clone());
        self
    }

    /// Sizes of the queues.
    pub const fn capabilities(mut self, cap: QpCapabilities) -> Self {
        self.cap = cap;
        self
    }

    /// Every send completes, signalled or not.
    pub const fn signal_all(mut self) -> Self {
        self.signal_all = true;
        self
    }

    /// It gets no multicast datagram that its own device has sent.
    pub fn block_self_multicast(mut self) -> Self {
        self.create_flags |= QpCreateFlags::BLOCK_SELF_MCAST_LB;
        self
    }

    /// What peers may do through it; all if not set. The rights of regions count besides.
    pub const fn access(mut self, access: Access) -> Self {
        self.settings.access = access;
        self
    }

    /// Q_Key of a datagram queue pair; 0x11111111 if not set, as most programs have it.
    pub const fn qkey(mut self, qkey: u32) -> Self {
        self.settings.qkey = qkey;
        self
    }

    /// Index of its P_Key; 0 if not set.
    pub const fn pkey_index(mut self, index: u16) -> Self {
        self.settings.pkey_index = index;
        self
    }

    /// Index of its source GID; that of [`crate::Context::first_gid`] if not set.
    pub const fn sgid_index(mut self, index: u8) -> Self {
        self.settings.sgid_index = Some(index);
        self
    }

    /// First PSN that it sends; a random one if not set.
    pub const fn first_psn(mut self, psn: Psn) -> Self {
        self.settings.psn = Some(psn);
        self
    }

    /// Makes the queue pair and brings it to `Init`, where receives may be posted.
    ///
    /// # Errors
    /// As [`crate::provider::Context::create_qp`] and [`crate::provider::Context::modify_qp`];
    /// `ENETUNREACH`: the device has no address.
    pub fn build(self) -> Result<Qp> {
        let pd = self.pd.object();
        pd.same_device(self.send_cq.object(), "create_qp")?;
        pd.same_device(self.recv_cq.object(), "create_qp")?;
        self.srq.iter().try_for_each(|srq| pd.same_device(srq.object(), "create_qp"))?;
        let context = self.pd.context();
        let end = End::new(context, self.settings.sgid_index, self.settings.psn)?;
        let init = QpInit {
            pd: self.pd.id(),
            qp_type: self.qp_type,
            send_cq: self.send_cq.id(),
            recv_cq: self.recv_cq.id(),
            srq: self.srq.as_ref().map(Srq::id),
            xrcd: None,
            cap: self.cap,
            signal_all: self.signal_all,
            create_flags: self.create_flags,
        };
        let verbs = context.verbs();
        let (num, granted) = verbs.create_qp(&init).map_err(Error::of("create_qp"))?;
        let qp = Qp(Arc::new(QpInner {
            object: Owned::new(verbs, num, |verbs, num| verbs.destroy_qp(num)),
            granted,
            qp_type: self.qp_type,
            settings: self.settings,
            end,
            send_cq: self.send_cq,
            recv_cq: self.recv_cq,
            srq: self.srq,
            pd: self.pd,
        }));
        qp.init()?;
        Ok(qp)
    }
}

/// A queue pair. A clone is the same queue pair; it is destroyed with the last one, and what is
/// posted then never completes.
#[derive(Clone, Debug)]
pub struct Qp(Arc<QpInner>);

#[derive(Debug)]
struct QpInner {
    object: Owned<QpNum>,
    granted: QpCapabilities,
    qp_type: QpType,
    settings: Settings,
    end: End,
    send_cq: Cq,
    recv_cq: Cq,
    srq: Option<Srq>,
    pd: Pd,
}

impl Qp {
    /// Its number.
    #[must_use]
    pub fn num(&self) -> QpNum {
        self.0.object.id()
    }

    /// Queue sizes, as granted.
    #[must_use]
    pub fn granted(&self) -> &QpCapabilities {
        &self.0.granted
    }

    /// Its protection domain.
    #[must_use]
    pub fn pd(&self) -> &Pd {
        &self.0.pd
    }

    /// Where its sends complete.
    #[must_use]
    pub fn send_cq(&self) -> &Cq {
        &self.0.send_cq
    }

    /// Where its receives complete.
    #[must_use]
    pub fn recv_cq(&self) -> &Cq {
        &self.0.recv_cq
    }

    /// Its shared receive queue, if it has one.
    #[must_use]
    pub fn srq(&self) -> Option<&Srq> {
        self.0.srq.as_ref()
    }

    /// What the peer needs to know to connect to it.
    ///
    /// # Errors
    /// As [`crate::Context::port`] and [`crate::Context::attributes`].
    pub fn endpoint(&self) -> Result<Endpoint> {
        self.0.end.endpoint(self.0.pd.context(), self.num())
    }

    /// Brings it from `Reset` to `Init` with what its builder was told. A new queue pair is there.
    ///
    /// # Errors
    /// As [`crate::provider::Context::modify_qp`].
    pub fn init(&self) -> Result<()> {
        let own = match self.0.qp_type {
            QpType::Rc | QpType::Uc | QpType::XrcSend | QpType::XrcRecv => {
                QpAttributeMask::ACCESS_FLAGS
            }
            QpType::Ud => QpAttributeMask::QKEY,
        };
        let attributes = QpAttributes {
            state: QpState::Init,
            pkey_index: self.0.settings.pkey_index,
            port: PORT,
            access: self.0.settings.access,
            qkey: self.0.settings.qkey,
            ..QpAttributes::default()
        };
        let all = QpAttributeMask::STATE | QpAttributeMask::PKEY_INDEX | QpAttributeMask::PORT;
        self.modify(&attributes, all | own)
    }

    /// Connects a queue pair in `Init` to its peer, with default options: `Init`, `Rtr`, `Rts`. The
    /// peer must do the same, in any order; receives should be posted before.
    ///
    /// # Errors
    /// As [`crate::provider::Context::modify_qp`].
    pub fn connect(&self, peer: &Endpoint) -> Result<()> {
        self.connect_with(peer, &ConnectOptions::default())
    }

    /// Connects with options.
    ///
    /// # Errors
    /// As [`Qp::connect`].
    pub fn connect_with(&self, peer: &Endpoint, options: &ConnectOptions) -> Result<()> {
        let QpInner { end, pd, qp_type, .. } = &*self.0;
        let attributes = end.attributes(pd.context(), self.num(), peer, options)?;
        for (state, mask) in connection::steps(*qp_type) {
            self.modify(&QpAttributes { state, ..attributes }, mask)?;
        }
        Ok(())
    }

    /// Makes a datagram queue pair in `Init` ready to receive and to send.
    ///
    /// # Errors
    /// As [`crate::provider::Context::modify_qp`].
    pub fn activate(&self) -> Result<()> {
        let sq_psn = self.0.end.first_psn;
        let attributes = QpAttributes { sq_psn, ..QpAttributes::default() };
        let (state, psn) = (QpAttributeMask::STATE, QpAttributeMask::SQ_PSN);
        self.modify(&QpAttributes { state: QpState::Rtr, ..attributes }, state)?;
        self.modify(&QpAttributes { state: QpState::Rts, ..attributes }, state | psn)
    }

    /// The path to a peer of a datagram queue pair, for [`Pd::create_ah`].
    #[must_use]
    pub fn path_to(&self, dgid: Gid) -> AddressVector {
        let sgid_index = self.0.end.sgid_index;
        AddressVector { dgid, sgid_index, hop_limit: 64, ..AddressVector::default() }
    }

    /// Changes attributes.
    ///
    /// # Errors
    /// As [`crate::provider::Context::modify_qp`].
    pub fn modify(&self, attributes: &QpAttributes, mask: QpAttributeMask) -> Result<()> {
        let verbs = self.0.object.verbs();
        verbs.modify_qp(self.num(), attributes, mask).map_err(Error::of("modify_qp"))
    }

    /// Moves to a state that needs nothing else: `Reset`, `Err`, or `Sqd`.
    ///
    /// # Errors
    /// As [`crate::provider::Context::modify_qp`].
    pub fn move_to(&self, state: QpState) -> Result<()> {
        self.modify(&QpAttributes { state, ..QpAttributes::default() }, QpAttributeMask::STATE)
    }

    /// Its attributes now, and what it was made with.
    ///
    /// # Errors
    /// As [`crate::provider::Context::query_qp`].
    pub fn query(&self) -> Result<(QpAttributes, QpInit)> {
        self.0.object.verbs().query_qp(self.num()).map_err(Error::of("query_qp"))
    }

    /// Posts sends.
    ///
    /// # Errors
    /// As [`crate::provider::Context::post_send`].
    pub fn post_send(&self, wrs: &[SendWr<'_>]) -> core::result::Result<(), PostError> {
        self.0.object.verbs().post_send(self.num(), wrs)
    }

    /// Posts receives.
    ///
    /// # Errors
    /// As [`crate::provider::Context::post_recv`].
    pub fn post_recv(&self, wrs: &[RecvWr<'_>]) -> core::result::Result<(), PostError> {
        self.0.object.verbs().post_recv(self.num(), wrs)
    }

    /// Receives datagrams to a group until the membership is dropped.
    ///
    /// # Errors
    /// As [`crate::provider::Context::attach_mcast`].
    pub fn join(&self, group: Gid) -> Result<Membership> {
        let verbs = self.0.object.verbs();
        verbs.attach_mcast(self.num(), group).map_err(Error::of("attach_mcast"))?;
        Ok(Membership { qp: self.clone(), group })
    }

    pub(crate) fn object(&self) -> &Owned<QpNum> {
        &self.0.object
    }
}

/// A queue pair in a multicast group.
#[derive(Debug)]
#[must_use = "dropping it leaves the group"]
pub struct Membership {
    qp: Qp,
    group: Gid,
}

impl Membership {
    /// The group.
    #[must_use]
    pub const fn group(&self) -> Gid {
        self.group
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let _ = self.qp.0.object.verbs().detach_mcast(self.qp.num(), self.group);
    }
}
