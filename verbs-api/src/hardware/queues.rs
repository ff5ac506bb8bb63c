//! Completion queues and shared receive queues.

use core::ffi::{c_int, c_void};

use softrnic_model::verbs::{
    CqId, CqModeration, SrqAttributes, SrqId, SrqInit, SrqNum, Subject, VerbError,
};

use super::layout::{
    Ptr, Zeroed, ibv_comp_channel, ibv_cq_ex, ibv_cq_init_attr_ex, ibv_moderate_cq,
    ibv_modify_cq_attr, ibv_srq, ibv_srq_attr, ibv_srq_init_attr, ibv_srq_init_attr_ex,
    ibv_values_ex,
};
use super::open::{CompletionQueue, HardwareContext, extended};
use super::table::Handle;
use crate::provider::{ChannelId, CqInit, Verb};

/// A number that C takes as an int.
fn int(number: u32, what: &'static str) -> Verb<c_int> {
    c_int::try_from(number).map_err(|_| VerbError::Invalid(what))
}

/// A number as the pointer that C keeps for us.
fn as_context(number: u32) -> *mut c_void {
    core::ptr::without_provenance_mut(number as usize)
}

impl HardwareContext {
    pub(super) fn make_cq(&self, init: &CqInit) -> Verb<(CqId, u32)> {
        let number = self.cqs.reserve();
        let clock_khz = if init.timestamps { Some(self.clock_khz()?) } else { None };
        let make = |channel| {
            if init.timestamps {
                self.make_stamped(init.entries, channel, number)
            } else {
                let entries = int(init.entries, "entries: more than a queue may have")?;
                // SAFETY: the context is open and the channel, if any, is looked at.
                let made = unsafe {
                    (self.library.ibv_create_cq)(
                        self.context(),
                        entries,
                        as_context(number),
                        channel,
                        0,
                    )
                };
                self.life().made(made, "the device makes no such completion queue")
            }
        };
        let handle = match init.channel {
            None => make(None),
            Some(channel) => self.channels.with(channel.0, |known| make(Some(known.handle.ptr()))),
        }?;
        // SAFETY: it was made a moment ago.
        let entries = unsafe { (*handle.as_ptr()).cqe };
        self.cqs.put(number, CompletionQueue { handle, clock_khz });
        Ok((CqId(number), entries.unsigned_abs()))
    }

    fn make_stamped(
        &self,
        entries: u32,
        channel: Option<Ptr<ibv_comp_channel>>,
        number: u32,
    ) -> Verb<Handle<ibv_cq_ex>> {
        /// `IBV_WC_STANDARD_FLAGS`, `IBV_WC_EX_WITH_COMPLETION_TIMESTAMP`
        const FIELDS: u64 = 0x7f | 1 << 7;
        let create = extended!(self, create_cq_ex)?;
        let mut init = ibv_cq_init_attr_ex::zeroed();
        (init.cqe, init.cq_context) = (entries, as_context(number));
        (init.channel, init.wc_flags) = (channel, FIELDS);
        // SAFETY: the context is open and the channel is looked at.
        let made = unsafe { create(Some(self.context()), Some(&init)) };
        self.life().made(made, "the device makes no completion queue with timestamps")
    }

    pub(super) fn moderate(&self, cq: CqId, moderation: CqModeration) -> Verb<()> {
        /// `IBV_CQ_ATTR_MODERATE`
        const MODERATE: u32 = 1;
        let modify = extended!(self, modify_cq)?;
        let moderate =
            ibv_moderate_cq { cq_count: moderation.count, cq_period: moderation.period_us };
        let attr = ibv_modify_cq_attr { attr_mask: MODERATE, moderate };
        self.cqs.with(cq.0, |cq| {
            // SAFETY: the queue is looked at.
            let done = unsafe { modify(Some(cq.handle.ptr()), Some(&attr)) };
            self.done(done, "the device does not hold events back like that")
        })
    }

    pub(super) fn resize(&self, cq: CqId, entries: u32) -> Verb<u32> {
        let entries = int(entries, "entries: more than a queue may have")?;
        self.cqs.with(cq.0, |cq| {
            // SAFETY: the queue is looked at.
            let done = unsafe { (self.library.ibv_resize_cq)(cq.handle.ptr(), entries) };
            self.done(done, "the device does not give the queue that size")?;
            // SAFETY: as above.
            Ok(unsafe { (*cq.handle.as_ptr()).cqe }.unsigned_abs())
        })
    }

    pub(super) fn end_cq(&self, cq: CqId) -> Verb<()> {
        self.cqs.destroy(cq.0, |cq| {
            // SAFETY: it is there, and nobody else looks at it.
            let done = unsafe { (self.library.ibv_destroy_cq)(cq.handle.ptr()) };
            self.done(done, "the completion queue is used")
        })?;
        self.forget(Subject::Cq(cq));
        Ok(())
    }

    /// Forgets events about an object that is gone.
    pub(super) fn forget(&self, gone: Subject) {
        self.life().events.retain(|event| event.subject() != gone);
    }

    pub(super) fn arm(&self, cq: CqId, solicited_only: bool) -> Verb<()> {
        // SAFETY: the context is open.
        let arm = unsafe { (*self.handle.as_ptr()).ops.req_notify_cq };
        let arm = arm.ok_or(VerbError::NotSupported("the device has no req_notify_cq"))?;
        self.cqs.with(cq.0, |cq| {
            // SAFETY: the queue is looked at.
            let done = unsafe { arm(Some(cq.handle.ptr()), solicited_only.into()) };
            self.done(done, "the completion queue cannot be armed")
        })
    }

    pub(super) fn clock(&self) -> Verb<u64> {
        /// `IBV_VALUES_MASK_RAW_CLOCK`
        const RAW_CLOCK: u32 = 1;
        let query = extended!(self, query_rt_values)?;
        let mut values = ibv_values_ex::zeroed();
        values.comp_mask = RAW_CLOCK;
        // SAFETY: the context is open.
        let done = unsafe { query(Some(self.context()), Some(&mut values)) };
        self.done(done, "the device has no clock")?;
        let [seconds, rest] = values.raw_clock.map(i64::cast_unsigned);
        Ok(seconds.wrapping_mul(1_000_000_000).wrapping_add(rest))
    }

    pub(super) fn make_srq(&self, init: &SrqInit) -> Verb<(SrqId, SrqAttributes)> {
        let number = self.srqs.reserve();
        let attr = ibv_srq_attr {
            max_wr: init.attributes.max_wr,
            max_sge: init.attributes.max_sge,
            srq_limit: init.attributes.srq_limit,
        };
        let (handle, granted) = self.pds.with(init.pd.0, |pd| match &init.xrc {
            None => {
                let mut init = ibv_srq_init_attr::zeroed();
                (init.srq_context, init.attr) = (as_context(number), attr);
                // SAFETY: the domain is looked at.
                let made = unsafe { (self.library.ibv_create_srq)(pd.ptr(), &raw mut init) };
                let made =
                    self.life().made(made, "the device makes no such shared receive queue")?;
                Ok((made, init.attr))
            }
            Some(xrc) => self.cqs.with(xrc.cq.0, |cq| {
                self.xrcds.with(xrc.xrcd.0, |domain| {
                    /// `IBV_SRQ_INIT_ATTR_TYPE`, `_PD`, `_XRCD`, `_CQ`; `IBV_SRQT_XRC`
                    const FIELDS: u32 = 0xf;
                    const XRC: u32 = 1;
                    let create = extended!(self, create_srq_ex)?;
                    let mut init = ibv_srq_init_attr_ex::zeroed();
                    (init.srq_context, init.attr) = (as_context(number), attr);
                    (init.comp_mask, init.srq_type) = (FIELDS, XRC);
                    (init.pd, init.xrcd) = (Some(pd.ptr()), Some(domain.handle.ptr()));
                    init.cq = Some(cq.handle.ptr());
                    // SAFETY: all that it names is looked at.
                    let made = unsafe { create(Some(self.context()), Some(&mut init)) };
                    let made =
                        self.life().made(made, "the device makes no queue for XRC like that")?;
                    Ok((made, init.attr))
                })
            }),
        })?;
        self.srqs.put(number, handle);
        Ok((SrqId(number), granted.into()))
    }

    pub(super) fn number_of(&self, srq: SrqId) -> Verb<SrqNum> {
        let query = extended!(self, get_srq_num)?;
        self.srqs.with(srq.0, |srq| {
            let mut number = 0;
            // SAFETY: the queue is looked at.
            let done = unsafe { query(Some(srq.ptr()), Some(&mut number)) };
            self.done(done, "the shared receive queue has no number")?;
            Ok(SrqNum::new(number))
        })
    }

    pub(super) fn change_srq(
        &self,
        srq: SrqId,
        limit: Option<u32>,
        max_wr: Option<u32>,
    ) -> Verb<()> {
        /// `IBV_SRQ_MAX_WR`, `IBV_SRQ_LIMIT`
        const MAX_WR: c_int = 1;
        const LIMIT: c_int = 2;
        let mut attr =
            ibv_srq_attr { max_wr: max_wr.unwrap_or(0), max_sge: 0, srq_limit: limit.unwrap_or(0) };
        let mask = max_wr.map_or(0, |_| MAX_WR) | limit.map_or(0, |_| LIMIT);
        if mask == 0 {
            return Err(VerbError::Invalid("nothing to change"));
        }
        self.with_srq(srq, |srq| {
            // SAFETY: the queue is looked at, and the attributes are ours.
            let done = unsafe { (self.library.ibv_modify_srq)(srq, &raw mut attr, mask) };
            self.done(done, "the device does not change the shared receive queue like that")
        })
    }

    pub(super) fn ask_srq(&self, srq: SrqId) -> Verb<SrqAttributes> {
        self.with_srq(srq, |srq| {
            let mut attr = ibv_srq_attr { max_wr: 0, max_sge: 0, srq_limit: 0 };
            // SAFETY: as above.
            let done = unsafe { (self.library.ibv_query_srq)(srq, &raw mut attr) };
            self.done(done, "the shared receive queue cannot be asked")?;
            Ok(attr.into())
        })
    }

    pub(super) fn end_srq(&self, srq: SrqId) -> Verb<()> {
        self.srqs.destroy(srq.0, |srq| {
            // SAFETY: it is there, and nobody else looks at it.
            let done = unsafe { (self.library.ibv_destroy_srq)(srq.ptr()) };
            self.done(done, "the shared receive queue is used")
        })?;
        self.forget(Subject::Srq(srq));
        Ok(())
    }

    fn with_srq<T>(&self, srq: SrqId, look: impl FnOnce(Ptr<ibv_srq>) -> Verb<T>) -> Verb<T> {
        self.srqs.with(srq.0, |srq| look(srq.ptr()))
    }
}

impl From<ibv_srq_attr> for SrqAttributes {
    fn from(attr: ibv_srq_attr) -> Self {
        Self { max_wr: attr.max_wr, max_sge: attr.max_sge, srq_limit: attr.srq_limit }
    }
}

/// Where a queue of a channel reports.
pub(super) const fn plain(entries: u32, channel: Option<ChannelId>) -> CqInit {
    CqInit { entries, channel, timestamps: false }
}
