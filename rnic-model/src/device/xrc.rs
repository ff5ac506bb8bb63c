//! XRC domains, and what belongs to them (annex A14).

use super::Device;
use super::shared::{Shared, XrcDomain};
use crate::verbs::{
    AsyncEvent, CqId, Event, QpNum, QpType, SrqId, SrqNum, VerbError, XrcSrq, XrcdId,
};

pub(super) const NO_XRCD: VerbError = VerbError::NoSuchObject("xrcd: no such XRC domain");

impl Shared {
    /// A shared receive queue for XRC came or went.
    pub(super) fn count_srq_of_xrc(&mut self, xrc: &XrcSrq, by: i32) {
        if let Some(cq) = self.cqs.get_mut(xrc.cq) {
            cq.users = cq.users.wrapping_add_signed(by);
        }
        self.count_user_of_xrcd(xrc.xrcd, by);
    }

    /// Something that belongs to a domain came or went.
    pub(super) fn count_user_of_xrcd(&mut self, xrcd: XrcdId, by: i32) {
        if let Some(xrcd) = self.xrcds.get_mut(xrcd) {
            xrcd.users = xrcd.users.wrapping_add_signed(by);
        }
    }

    /// A completion queue has overrun: the shared receive queues that complete there fail.
    // [xrc/cq-of-srq-fails]
    pub(super) fn fail_srqs_of(&mut self, cq: CqId) {
        for (id, srq) in self.srqs.iter_mut() {
            if srq.xrc.is_some_and(|xrc| xrc.cq == cq) && !core::mem::replace(&mut srq.failed, true)
            {
                self.events.push_back(Event::Async(AsyncEvent::SrqError(id)));
            }
        }
    }
}

impl Device {
    /// Makes an XRC domain, open once (`ibv_open_xrcd(3)`).
    ///
    /// # Errors
    /// ENOMEM: no more domains.
    pub fn open_xrcd(&mut self) -> Result<XrcdId, VerbError> {
        let domain = XrcDomain { handles: 1, users: 0 };
        self.shared.xrcds.insert(domain).ok_or(VerbError::Full("no more XRC domains"))
    }

    /// Opens a domain once more, as programs do that share it by a file.
    ///
    /// # Errors
    /// EINVAL: no such domain.
    pub fn share_xrcd(&mut self, xrcd: XrcdId) -> Result<(), VerbError> {
        self.shared.xrcds.get_mut(xrcd).ok_or(NO_XRCD)?.handles += 1;
        Ok(())
    }

    /// Closes a domain (`ibv_close_xrcd(3)`) and removes it when it was open once.
    ///
    /// # Errors
    /// EINVAL: no such domain. EBUSY: this would be the last time, and something belongs to it.
    // [xrc/domain-busy]
    pub fn close_xrcd(&mut self, xrcd: XrcdId) -> Result<(), VerbError> {
        let domain = self.shared.xrcds.get_mut(xrcd).ok_or(NO_XRCD)?;
        if domain.handles > 1 {
            domain.handles -= 1;
            return Ok(());
        }
        if domain.users != 0 {
            return Err(VerbError::Busy("xrcd: queue pairs or shared receive queues belong to it"));
        }
        self.shared.xrcds.remove(xrcd);
        Ok(())
    }

    /// The number by which requests of XRC name a shared receive queue (`ibv_get_srq_num(3)`).
    ///
    /// # Errors
    /// EINVAL: no such queue. EOPNOTSUPP: it is not for XRC.
    // [xrc/srq-number]
    pub fn srq_number(&self, srq: SrqId) -> Result<SrqNum, VerbError> {
        let queue = self.shared.srqs.get(srq);
        let queue = queue.ok_or(VerbError::NoSuchObject("srq: no such shared receive queue"))?;
        if queue.xrc.is_none() {
            return Err(VerbError::NotSupported("srq: only those for XRC have a number"));
        }
        Ok(Shared::srq_number(srq))
    }

    /// Opens an XRC target once more (`ibv_open_qp(3)`): [`Device::destroy_qp`] has to be called once
    /// more.
    ///
    /// # Errors
    /// EINVAL: no such queue pair, no XRC target, or one of another domain.
    // [xrc/target-shared] [xrc/open-other-domain]
    pub fn open_qp(&mut self, xrcd: XrcdId, qp: QpNum) -> Result<(), VerbError> {
        self.shared.xrcds.get(xrcd).ok_or(NO_XRCD)?;
        let target = self.qps.get_mut(qp).filter(|qp| qp.is(QpType::XrcRecv));
        let target = target.filter(|qp| qp.init.xrcd == Some(xrcd));
        let target =
            target.ok_or(VerbError::NoSuchObject("qp: no such target in the XRC domain"))?;
        target.handles += 1;
        Ok(())
    }
}
