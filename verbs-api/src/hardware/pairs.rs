//! Queue pairs and XRC domains.

use softrnic_model::verbs::{
    Gid, QpAttributeMask, QpAttributes, QpCapabilities, QpCreateFlags, QpInit, QpNum, QpType,
    RecvWr, SendOp, SendWr, SrqId, Subject, VerbError, XrcdId,
};

use super::convert::{qp_attr, qp_attributes};
use super::errno::errno_of;
use super::layout::{
    Ptr, Zeroed, ibv_gid, ibv_qp_attr, ibv_qp_cap, ibv_qp_ex, ibv_qp_init_attr,
    ibv_qp_init_attr_ex, ibv_qp_open_attr, ibv_xrcd_init_attr,
};
use super::open::{Domain, HardwareContext, Named, QueuePair, extended};
use super::posting;
use super::table::Handle;
use crate::provider::{PostError, Verb};

const NO_SUCH_PAIR: &str = "the device makes no such queue pair";

/// A refusal of a whole list.
const fn all(error: VerbError) -> PostError {
    PostError { index: 0, error }
}

impl HardwareContext {
    pub(super) fn make_qp(&self, init: &QpInit) -> Verb<(QpNum, QpCapabilities)> {
        let (handle, cap) = self.create(init)?;
        // SAFETY: it was made a moment ago; its number does not change.
        let number = QpNum::new(unsafe { (*handle.as_ptr()).qp_base.qp_num });
        let cap = (&cap).into();
        let init = QpInit { cap, ..*init };
        self.qps.put(number.get(), QueuePair { handle, opened: Vec::new(), init });
        Ok((number, cap))
    }

    fn create(&self, init: &QpInit) -> Verb<(Handle<ibv_qp_ex>, ibv_qp_cap)> {
        let (pds, cqs, srqs, xrcds) =
            (self.pds.look(), self.cqs.look(), self.srqs.look(), self.xrcds.look());
        let mut attr = ibv_qp_init_attr_ex::zeroed();
        attr.qp_type = init.qp_type as u32;
        attr.cap = (&init.cap).into();
        attr.sq_sig_all = init.signal_all.into();
        if init.qp_type.sends() {
            attr.pd = Some(pds.get(init.pd.0)?.ptr());
            attr.send_cq = Some(cqs.get(init.send_cq.0)?.handle.ptr());
        }
        if init.qp_type.receives() {
            attr.recv_cq = Some(cqs.get(init.recv_cq.0)?.handle.ptr());
            if let Some(srq) = init.srq {
                attr.srq = Some(srqs.get(srq.0)?.ptr());
            }
        }
        if let Some(xrcd) = init.xrcd {
            attr.xrcd = Some(xrcds.get(xrcd.0)?.handle.ptr());
        }
        let flushes = matches!(init.qp_type, QpType::Rc | QpType::XrcSend) && self.can_flush();
        let is_plain = matches!(init.qp_type, QpType::Rc | QpType::Uc | QpType::Ud)
            && init.create_flags.is_empty()
            && !flushes;
        match attr.pd {
            Some(pd) if is_plain => self.create_plain(pd, &attr),
            _ => self.create_extended(attr, init.create_flags, flushes),
        }
    }

    fn create_plain(
        &self,
        pd: Ptr<super::layout::ibv_pd>,
        attr: &ibv_qp_init_attr_ex,
    ) -> Verb<(Handle<ibv_qp_ex>, ibv_qp_cap)> {
        let mut plain = ibv_qp_init_attr {
            qp_context: attr.qp_context,
            send_cq: attr.send_cq,
            recv_cq: attr.recv_cq,
            srq: attr.srq,
            cap: attr.cap,
            qp_type: attr.qp_type,
            sq_sig_all: attr.sq_sig_all,
        };
        // SAFETY: all that it names is looked at by the caller.
        let made = unsafe { (self.library.ibv_create_qp)(pd, &raw mut plain) };
        Ok((self.life().made(made, NO_SUCH_PAIR)?, plain.cap))
    }

    fn create_extended(
        &self,
        mut attr: ibv_qp_init_attr_ex,
        flags: QpCreateFlags,
        flushes: bool,
    ) -> Verb<(Handle<ibv_qp_ex>, ibv_qp_cap)> {
        /// `ibv_qp_init_attr_mask`
        const PD: u32 = 1;
        const XRCD: u32 = 1 << 1;
        const CREATE_FLAGS: u32 = 1 << 2;
        const SEND_OPS_FLAGS: u32 = 1 << 6;
        /// `IBV_QP_EX_WITH_FLUSH`
        const WITH_FLUSH: u64 = 1 << 11;
        let create = extended!(self, create_qp_ex)?;
        attr.create_flags = flags.bits();
        attr.comp_mask = attr.pd.map_or(0, |_| PD)
            | attr.xrcd.map_or(0, |_| XRCD)
            | if flags.is_empty() { 0 } else { CREATE_FLAGS };
        if flushes {
            attr.comp_mask |= SEND_OPS_FLAGS;
            attr.send_ops_flags = WITH_FLUSH;
        }
        // SAFETY: as above.
        let made = unsafe { create(Some(self.context()), Some(&mut attr)) };
        Ok((self.life().made(made, NO_SUCH_PAIR)?, attr.cap))
    }

    pub(super) fn join_qp(&self, xrcd: XrcdId, qp: QpNum) -> Verb<()> {
        /// `IBV_QP_OPEN_ATTR_NUM`, `_XRCD`, `_TYPE`
        const FIELDS: u32 = 1 | 1 << 1 | 1 << 3;
        let open = extended!(self, open_qp)?;
        let handle = self.xrcds.with(xrcd.0, |domain| {
            let attr = ibv_qp_open_attr {
                comp_mask: FIELDS,
                qp_num: qp.get(),
                xrcd: Some(domain.handle.ptr()),
                qp_context: core::ptr::null_mut(),
                qp_type: QpType::XrcRecv as u32,
            };
            // SAFETY: the domain is looked at.
            let made = unsafe { open(Some(self.context()), Some(&attr)) };
            self.life().made(made, "no target of that number is in the domain")
        })?;
        let known = self.qps.change(qp.get(), |pair| pair.opened.push(handle));
        if known.is_err() {
            // Made by another process, or by another context of this device.
            let init = QpInit {
                pd: softrnic_model::verbs::PdId(0),
                qp_type: QpType::XrcRecv,
                send_cq: softrnic_model::verbs::CqId(0),
                recv_cq: softrnic_model::verbs::CqId(0),
                srq: None,
                xrcd: Some(xrcd),
                cap: QpCapabilities::default(),
                signal_all: false,
                create_flags: QpCreateFlags::empty(),
            };
            self.qps.put(qp.get(), QueuePair { handle, opened: Vec::new(), init });
        }
        Ok(())
    }

    pub(super) fn change_qp(
        &self,
        qp: QpNum,
        attributes: &QpAttributes,
        mask: QpAttributeMask,
    ) -> Verb<()> {
        let mut attr = qp_attr(attributes);
        let bits = i32::try_from(mask.bits()).map_err(|_| VerbError::Invalid("mask"))?;
        let done = self.qps.with(qp.get(), |qp| {
            // SAFETY: the pair is looked at.
            Ok(unsafe { (self.library.ibv_modify_qp)(qp.handle.ptr(), &raw mut attr, bits) })
        })?;
        if done == 0 {
            return Ok(());
        }
        let errno = errno_of(done);
        Err(if mask.contains(QpAttributeMask::AV) {
            self.why_unreachable(attributes.port, attributes.path.sgid_index, errno)
        } else {
            self.life().refused(errno, "the device refused the attributes")
        })
    }

    pub(super) fn ask_qp(&self, qp: QpNum) -> Verb<(QpAttributes, QpInit)> {
        self.qps.with(qp.get(), |qp| {
            let (mut attr, mut init) = (ibv_qp_attr::zeroed(), ibv_qp_init_attr::zeroed());
            // All that this crate knows.
            let mask = QpAttributeMask::all()
                .difference(QpAttributeMask::RATE_LIMIT | QpAttributeMask::ALT_PATH);
            let mask = i32::try_from(mask.bits()).unwrap_or(i32::MAX);
            // SAFETY: the pair is looked at, and the places are ours.
            let done = unsafe {
                (self.library.ibv_query_qp)(qp.handle.ptr(), &raw mut attr, mask, &raw mut init)
            };
            self.done(done, "the queue pair cannot be asked")?;
            let now = qp_attributes(&attr)
                .ok_or(VerbError::Invalid("the device tells an unknown state"))?;
            Ok((now, qp.init))
        })
    }

    pub(super) fn end_qp(&self, qp: QpNum) -> Verb<()> {
        let end = |handle: Handle<ibv_qp_ex>| {
            // SAFETY: it is there, and nobody else looks at it.
            let done = unsafe { (self.library.ibv_destroy_qp)(handle.ptr()) };
            self.done(done, "the queue pair is used: it is attached to a multicast group")
        };
        match self.qps.change(qp.get(), |pair| pair.opened.pop())? {
            Some(handle) => end(handle).inspect_err(|_| {
                _ = self.qps.change(qp.get(), |pair| pair.opened.push(handle));
            }),
            None => {
                self.qps.destroy(qp.get(), |pair| end(pair.handle))?;
                self.forget(Subject::Qp(qp));
                Ok(())
            }
        }
    }

    pub(super) fn send(&self, qp: QpNum, wrs: &[SendWr<'_>]) -> Result<(), PostError> {
        // SAFETY: the context is open.
        let post = unsafe { (*self.handle.as_ptr()).ops.post_send };
        let missing = all(VerbError::NotSupported("the device has no post_send"));
        let post = post.ok_or(missing)?;
        let pairs = self.qps.look();
        let known = pairs.get(qp.get()).map_err(all)?;
        let (pair, qp_type) = (known.handle.ptr(), known.init.qp_type);
        let names = Named::new(self);
        let mut from = 0;
        while from < wrs.len() {
            let flush = wrs[from..].iter().position(|wr| matches!(wr.op, SendOp::Flush { .. }));
            let to = flush.map_or(wrs.len(), |distance| from + distance);
            let at = |error: PostError| PostError { index: from + error.index, ..error };
            posting::sends(qp_type, &wrs[from..to], &names, self.life(), |first, bad| {
                // SAFETY: the pair and all that the chain names are looked at.
                unsafe { post(Some(pair), first, bad) }
            })
            .map_err(at)?;
            if let Some(wr) = wrs.get(to) {
                let flushed = self.flush(pair, wr);
                flushed.map_err(|error| PostError { index: to, error })?;
            }
            from = to + 1;
        }
        Ok(())
    }

    fn flush(&self, pair: Ptr<ibv_qp_ex>, wr: &SendWr<'_>) -> Verb<()> {
        let missing = VerbError::NotSupported("the library has no ibv_qp_to_qp_ex");
        let extend = self.library.ibv_qp_to_qp_ex.ok_or(missing)?;
        // SAFETY: the caller looks at the pair.
        let extended = unsafe { extend(pair) };
        let extended = extended.ok_or(VerbError::NotSupported("the queue pair has no FLUSH"))?;
        // SAFETY: as above, and the library says that it was made for this.
        unsafe { posting::flush(extended, wr, self.life()) }
    }

    pub(super) fn receive(&self, qp: QpNum, wrs: &[RecvWr<'_>]) -> Result<(), PostError> {
        // SAFETY: the context is open.
        let post = unsafe { (*self.handle.as_ptr()).ops.post_recv };
        let missing = all(VerbError::NotSupported("the device has no post_recv"));
        let post = post.ok_or(missing)?;
        let pairs = self.qps.look();
        let pair = pairs.get(qp.get()).map_err(all)?.handle.ptr();
        posting::receives(wrs, self.life(), |first, bad| {
            // SAFETY: the pair is looked at.
            unsafe { post(Some(pair), first, bad) }
        })
    }

    pub(super) fn receive_shared(&self, srq: SrqId, wrs: &[RecvWr<'_>]) -> Result<(), PostError> {
        // SAFETY: the context is open.
        let post = unsafe { (*self.handle.as_ptr()).ops.post_srq_recv };
        let missing = all(VerbError::NotSupported("the device has no post_srq_recv"));
        let post = post.ok_or(missing)?;
        let queues = self.srqs.look();
        let queue = queues.get(srq.0).map_err(all)?.ptr();
        posting::receives(wrs, self.life(), |first, bad| {
            // SAFETY: the queue is looked at.
            unsafe { post(Some(queue), first, bad) }
        })
    }

    pub(super) fn join_group(&self, qp: QpNum, group: Gid) -> Verb<()> {
        let gid = ibv_gid::from(group);
        self.qps.with(qp.get(), |qp| {
            // SAFETY: the pair is looked at.
            let done =
                unsafe { (self.library.ibv_attach_mcast)(qp.handle.ptr(), &raw const gid, 0) };
            self.done(done, "the queue pair cannot join the group")
        })
    }

    pub(super) fn leave_group(&self, qp: QpNum, group: Gid) -> Verb<()> {
        let gid = ibv_gid::from(group);
        self.qps.with(qp.get(), |qp| {
            // SAFETY: the pair is looked at.
            let done =
                unsafe { (self.library.ibv_detach_mcast)(qp.handle.ptr(), &raw const gid, 0) };
            self.done(done, "the queue pair is not in the group")
        })
    }

    pub(super) fn make_domain(&self) -> Verb<XrcdId> {
        /// `IBV_XRCD_INIT_ATTR_FD`, `IBV_XRCD_INIT_ATTR_OFLAGS`
        const FIELDS: u32 = 3;
        let open = extended!(self, open_xrcd)?;
        // Of no file.
        let attr = ibv_xrcd_init_attr { comp_mask: FIELDS, fd: -1, oflags: libc::O_CREAT };
        // SAFETY: the context is open.
        let made = unsafe { open(Some(self.context()), Some(&attr)) };
        let handle = self.life().made(made, "the device makes no XRC domain")?;
        Ok(XrcdId(self.xrcds.add(Domain { handle, opened: 1 })))
    }

    pub(super) fn end_domain(&self, xrcd: XrcdId) -> Verb<()> {
        let close = extended!(self, close_xrcd)?;
        let last = self.xrcds.change(xrcd.0, |domain| {
            let last = domain.opened == 1;
            domain.opened -= u32::from(!last);
            last
        })?;
        if !last {
            return Ok(());
        }
        self.xrcds.destroy(xrcd.0, |domain| {
            // SAFETY: it is there, and nobody else looks at it.
            let done = unsafe { close(Some(domain.handle.ptr())) };
            self.done(done, "the XRC domain is used")
        })
    }
}
