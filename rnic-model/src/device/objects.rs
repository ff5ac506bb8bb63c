//! Objects other than queue pairs: protection domains, regions, windows, queues, address handles.

use super::Device;
use super::shared::{AddressHandle, ProtectionDomain, Shared, SharedReceiveQueue};
use super::xrc::NO_XRCD;
use crate::protection::{RegionChanges, RegionSpec};
use crate::qp::check_address;
use crate::queue::{CompletionQueue, RecvQueue};
use crate::verbs::{
    Access, AddressVector, AhId, CqId, CqModeration, DeviceCapabilities, Event, Key, PdId,
    Placement, PortAttributes, SrqAttributes, SrqId, SrqInit, VerbError, WindowType, XrcSrq,
};

const NO_PD: VerbError = VerbError::NoSuchObject("pd: no such protection domain");
const NO_CQ: VerbError = VerbError::NoSuchObject("cq: no such completion queue");
const NO_SRQ: VerbError = VerbError::NoSuchObject("srq: no such shared receive queue");

impl Shared {
    pub(crate) fn port_attributes(&self) -> PortAttributes {
        PortAttributes {
            state: self.port.state,
            max_mtu: crate::verbs::Mtu::B4096,
            active_mtu: self.port.mtu,
            gid_tbl_len: u32::try_from(self.port.gids.len()).unwrap_or(u32::MAX),
            max_msg_sz: crate::qp::MAX_MESSAGE_BYTES,
            pkey_tbl_len: u16::try_from(self.port.pkeys.len()).unwrap_or(u16::MAX),
            bad_pkey_cntr: counter_32(self, crate::counters::Counter::DropBadPkey),
            qkey_viol_cntr: counter_32(self, crate::counters::Counter::DropBadQkey),
        }
    }

    /// Something new belongs to a protection domain.
    pub(super) fn join_pd(&mut self, pd: PdId) -> Result<(), VerbError> {
        self.pds.get_mut(pd).ok_or(NO_PD)?.users += 1;
        Ok(())
    }

    pub(super) fn leave_pd(&mut self, pd: PdId) {
        if let Some(pd) = self.pds.get_mut(pd) {
            pd.users -= 1;
        }
    }
}

fn counter_32(shared: &Shared, counter: crate::counters::Counter) -> u32 {
    u32::try_from(shared.counters.get(counter)).unwrap_or(u32::MAX)
}

impl Device {
    /// Makes a protection domain (`ibv_alloc_pd(3)`).
    ///
    /// # Errors
    /// ENOMEM: there are `max_pd` already.
    pub fn alloc_pd(&mut self) -> Result<PdId, VerbError> {
        self.shared
            .pds
            .insert(ProtectionDomain::default())
            .ok_or(VerbError::Full("max_pd protection domains are allocated"))
    }

    /// Whether there is such a protection domain.
    #[must_use]
    pub fn has_pd(&self, pd: PdId) -> bool {
        self.shared.pds.get(pd).is_some()
    }

    /// Removes a protection domain.
    ///
    /// # Errors
    /// EINVAL: no such domain. EBUSY: something still belongs to it.
    // [protection/pd-busy]
    pub fn dealloc_pd(&mut self, pd: PdId) -> Result<(), VerbError> {
        if self.shared.pds.get(pd).ok_or(NO_PD)?.users != 0 {
            return Err(VerbError::Busy("pd: objects still belong to it"));
        }
        self.shared.pds.remove(pd);
        Ok(())
    }

    /// Registers memory (`ibv_reg_mr(3)`). The key is local and remote key at once.
    ///
    /// # Errors
    /// EINVAL: no such domain, rights that do not go together, a range that wraps. ENOMEM:
    /// `max_mr` are registered. EOPNOTSUPP: a right to what the device cannot do.
    pub fn register(&mut self, spec: RegionSpec) -> Result<Key, VerbError> {
        self.judge_promises(spec.access)?;
        self.shared.pds.get(spec.pd).ok_or(NO_PD)?;
        let key = self.shared.protection.register(spec)?;
        self.shared.join_pd(spec.pd)?;
        Ok(key)
    }

    /// Nobody may be given a right to placement that the device does not promise.
    // [flush-placement/flush-unsupported]
    fn judge_promises(&self, access: Access) -> Result<(), VerbError> {
        let kinds = [Placement::GLOBAL, Placement::PERSISTENT];
        let given = kinds.into_iter().filter(|kind| access.contains(kind.rights()));
        let needs: DeviceCapabilities = given.map(Placement::capabilities).collect();
        if self.shared.attributes.capabilities.contains(needs) {
            Ok(())
        } else {
            Err(VerbError::NotSupported("access: no such FLUSH on this device"))
        }
    }

    /// Changes a region (`ibv_rereg_mr(3)`) and returns its key, which is a new one if it moved.
    ///
    /// # Errors
    /// As [`Device::register`]; EBUSY: windows are bound to it.
    pub fn reregister(&mut self, key: Key, changes: RegionChanges) -> Result<Key, VerbError> {
        if let Some(pd) = changes.pd {
            self.shared.pds.get(pd).ok_or(NO_PD)?;
        }
        self.judge_promises(changes.access.unwrap_or_default())?;
        let before = self.shared.protection.query_region(key);
        let new = self.shared.protection.reregister(key, changes)?;
        if let (Some(before), Some(pd)) = (before, changes.pd) {
            self.shared.leave_pd(before.pd);
            self.shared.join_pd(pd)?;
        }
        Ok(new)
    }

    /// Removes a region (`ibv_dereg_mr(3)`). When this returns, nothing of it is touched any more.
    ///
    /// # Errors
    /// EINVAL: no such region. EBUSY: windows are bound to it.
    // [protection/dereg-no-access] [attacks/dereg-in-flight]
    pub fn deregister(&mut self, key: Key) -> Result<RegionSpec, VerbError> {
        let spec = self.shared.protection.deregister(key)?;
        self.shared.leave_pd(spec.pd);
        Ok(spec)
    }

    /// Makes a memory window (`ibv_alloc_mw(3)`).
    ///
    /// # Errors
    /// EINVAL: no such domain. ENOMEM: `max_mw` are allocated.
    pub fn alloc_mw(&mut self, pd: PdId, window_type: WindowType) -> Result<Key, VerbError> {
        self.shared.pds.get(pd).ok_or(NO_PD)?;
        let key = self.shared.protection.alloc_window(pd, window_type)?;
        self.shared.join_pd(pd)?;
        Ok(key)
    }

    /// Removes a window (`ibv_dealloc_mw(3)`), bound or not. The index part of `window` names it.
    ///
    /// # Errors
    /// EINVAL: no such window.
    pub fn dealloc_mw(&mut self, window: Key) -> Result<(), VerbError> {
        let (present, pd, _) = self
            .shared
            .protection
            .query_window(window)
            .ok_or(VerbError::NoSuchObject("mw: no such memory window"))?;
        self.shared.protection.dealloc_window(present)?;
        self.shared.leave_pd(pd);
        Ok(())
    }

    /// Makes a completion queue (`ibv_create_cq(3)`).
    ///
    /// # Errors
    /// EINVAL: no entries, or more than `max_cqe`. ENOMEM: there are `max_cq` already.
    pub fn create_cq(&mut self, entries: u32) -> Result<CqId, VerbError> {
        self.create_cq_ex(entries, false)
    }

    /// Makes a completion queue that may stamp its completions with the time
    /// (`ibv_create_cq_ex(3)`).
    ///
    /// # Errors
    /// As [`Device::create_cq`].
    pub fn create_cq_ex(&mut self, entries: u32, timestamps: bool) -> Result<CqId, VerbError> {
        self.judge_cqe(entries)?;
        let queue = CompletionQueue::new(entries, timestamps);
        let id = self.shared.cqs.insert(queue);
        let id = id.ok_or(VerbError::Full("max_cq completion queues exist"))?;
        self.shared.cq_timers.admit(id.0 & 0xffff);
        Ok(id)
    }

    /// Changes how many events a completion queue raises (`ibv_modify_cq(3)`). What it has held
    /// back by earlier rules is told at once.
    ///
    /// # Errors
    /// EINVAL: no such queue, or more than the device holds back.
    pub fn moderate_cq(&mut self, cq: CqId, moderation: CqModeration) -> Result<(), VerbError> {
        let limits = &self.shared.attributes;
        if moderation.count > limits.max_cq_moderation_count
            || moderation.period_us > limits.max_cq_moderation_period_us
        {
            return Err(VerbError::Invalid("moderate: more than the device can hold back"));
        }
        let queue = self.shared.cqs.get_mut(cq).ok_or(NO_CQ)?;
        if queue.moderate(moderation) {
            self.shared.events.push_back(Event::Completion(cq));
        }
        Ok(())
    }

    // [completions/size-limits]
    fn judge_cqe(&self, entries: u32) -> Result<(), VerbError> {
        if entries == 0 || entries > self.shared.attributes.max_cqe {
            return Err(VerbError::Invalid("cqe: must be between 1 and max_cqe"));
        }
        Ok(())
    }

    /// Changes the size of a completion queue (`ibv_resize_cq(3)`).
    ///
    /// # Errors
    /// EINVAL: no such queue, no entries, more than `max_cqe`, or fewer than are waiting.
    pub fn resize_cq(&mut self, cq: CqId, entries: u32) -> Result<(), VerbError> {
        self.judge_cqe(entries)?;
        let queue = self.shared.cqs.get_mut(cq).ok_or(NO_CQ)?;
        if queue.resize(entries) {
            Ok(())
        } else {
            Err(VerbError::Invalid("cqe: fewer than the completions that wait"))
        }
    }

    /// Entries of a completion queue.
    ///
    /// # Errors
    /// EINVAL: no such queue.
    pub fn cq_capacity(&self, cq: CqId) -> Result<u32, VerbError> {
        let queue = self.shared.cqs.get(cq).ok_or(NO_CQ)?;
        Ok(u32::try_from(queue.capacity()).unwrap_or(u32::MAX))
    }

    /// Whether a completion queue has overrun and takes nothing more.
    #[must_use]
    pub fn cq_overran(&self, cq: CqId) -> bool {
        self.shared.cqs.get(cq).is_some_and(CompletionQueue::is_dead)
    }

    /// Removes a completion queue.
    ///
    /// # Errors
    /// EINVAL: no such queue. EBUSY: queue pairs or shared receive queues complete there.
    // [completions/destroy-busy]
    pub fn destroy_cq(&mut self, cq: CqId) -> Result<(), VerbError> {
        if self.shared.cqs.get(cq).ok_or(NO_CQ)?.users != 0 {
            return Err(VerbError::Busy("cq: queue pairs or shared receive queues complete there"));
        }
        self.shared.cqs.remove(cq);
        Ok(())
    }

    /// Asks for one event at the next completion, or the next solicited or failed one
    /// (`ibv_req_notify_cq(3)`).
    ///
    /// # Errors
    /// EINVAL: no such queue.
    // [completions/notify-once] [events/completion-event]
    pub fn req_notify_cq(&mut self, cq: CqId, solicited_only: bool) -> Result<(), VerbError> {
        self.shared.cqs.get_mut(cq).ok_or(NO_CQ)?.arm(solicited_only);
        Ok(())
    }

    /// Makes a basic shared receive queue (`ibv_create_srq(3)`).
    ///
    /// # Errors
    /// As [`Device::create_srq_ex`].
    pub fn create_srq(&mut self, pd: PdId, attr: SrqAttributes) -> Result<SrqId, VerbError> {
        self.create_srq_ex(&SrqInit { pd, attributes: attr, xrc: None })
    }

    /// Makes a shared receive queue, basic or for XRC (`ibv_create_srq_ex(3)`).
    ///
    /// # Errors
    /// EINVAL: no such domain or completion queue, or sizes out of bounds. ENOMEM: there are
    /// `max_srq` already.
    pub fn create_srq_ex(&mut self, init: &SrqInit) -> Result<SrqId, VerbError> {
        let SrqInit { pd, attributes: attr, xrc } = *init;
        let limits = &self.shared.attributes;
        if attr.max_wr == 0 || attr.max_wr > limits.max_srq_wr {
            return Err(VerbError::Invalid("max_wr: must be between 1 and max_srq_wr"));
        }
        if attr.max_sge > limits.max_srq_sge {
            return Err(VerbError::Invalid("max_sge: more than max_srq_sge"));
        }
        if let Some(XrcSrq { xrcd, cq }) = xrc {
            self.shared.xrcds.get(xrcd).ok_or(NO_XRCD)?;
            self.shared.cqs.get(cq).ok_or(NO_CQ)?;
        }
        self.shared.join_pd(pd)?;
        let srq = SharedReceiveQueue {
            pd,
            queue: RecvQueue::new(attr.max_wr, attr.max_sge),
            sge_max: attr.max_sge,
            limit: 0,
            users: 0,
            xrc,
            failed: xrc.is_some_and(|xrc| self.cq_overran(xrc.cq)),
        };
        let Some(id) = self.shared.srqs.insert(srq) else {
            self.shared.leave_pd(pd);
            return Err(VerbError::Full("max_srq shared receive queues exist"));
        };
        if let Some(xrc) = xrc {
            self.shared.count_srq_of_xrc(&xrc, 1);
        }
        Ok(id)
    }

    /// Arms the limit event (`ibv_modify_srq(3)` with `IBV_SRQ_LIMIT`).
    ///
    /// # Errors
    /// As [`Device::modify_srq`].
    pub fn set_srq_limit(&mut self, srq: SrqId, limit: u32) -> Result<(), VerbError> {
        self.modify_srq(srq, Some(limit), None)
    }

    /// Changes the size of a shared receive queue, arms its limit event, or both
    /// (`ibv_modify_srq(3)`): all of what is asked, or nothing.
    ///
    /// # Errors
    /// EINVAL: no such queue, nothing to change, a size out of bounds or below the receives that
    /// wait or are being filled, or a limit above the size.
    // [srq/modify-all-or-nothing] [srq/resize-keeps] [srq/limit-too-high]
    pub fn modify_srq(
        &mut self,
        srq: SrqId,
        limit: Option<u32>,
        max_wr: Option<u32>,
    ) -> Result<(), VerbError> {
        let size_max = self.shared.attributes.max_srq_wr;
        let entry = self.shared.srqs.get_mut(srq).ok_or(NO_SRQ)?;
        if limit.is_none() && max_wr.is_none() {
            return Err(VerbError::Invalid("srq_attr_mask: nothing to change"));
        }
        let size = max_wr.unwrap_or(entry.queue.capacity());
        if size == 0 || size > size_max {
            return Err(VerbError::Invalid("max_wr: must be between 1 and max_srq_wr"));
        }
        if limit.unwrap_or(entry.limit) > size {
            return Err(VerbError::Invalid("srq_limit: more than max_wr"));
        }
        if max_wr.is_some() && !entry.queue.resize(size) {
            return Err(VerbError::Invalid("max_wr: fewer than the receives in the queue"));
        }
        let Some(limit) = limit else { return Ok(()) };
        entry.limit = limit;
        // [srq/limit-zero] [srq/limit-armed-below]
        if limit != 0 && entry.queue.len() < limit {
            entry.limit = 0;
            self.shared.raise(crate::verbs::AsyncEvent::SrqLimitReached(srq));
        }
        Ok(())
    }

    /// Attributes of a shared receive queue (`ibv_query_srq(3)`).
    ///
    /// # Errors
    /// EINVAL: no such queue.
    pub fn query_srq(&self, srq: SrqId) -> Result<SrqAttributes, VerbError> {
        Ok(self.shared.srqs.get(srq).ok_or(NO_SRQ)?.attributes())
    }

    /// Removes a shared receive queue. One for XRC may go at any time: requests that name it are
    /// refused from then on.
    ///
    /// # Errors
    /// EINVAL: no such queue. EBUSY: queue pairs use it.
    // [srq/destroy-busy] [xrc/srq-destroyed]
    pub fn destroy_srq(&mut self, srq: SrqId) -> Result<(), VerbError> {
        if self.shared.srqs.get(srq).ok_or(NO_SRQ)?.users != 0 {
            return Err(VerbError::Busy("srq: queue pairs use it"));
        }
        if let Some(srq) = self.shared.srqs.remove(srq) {
            self.shared.leave_pd(srq.pd);
            if let Some(xrc) = srq.xrc {
                self.shared.count_srq_of_xrc(&xrc, -1);
            }
        }
        Ok(())
    }

    /// Makes an address handle (`ibv_create_ah(3)`).
    ///
    /// # Errors
    /// EINVAL: no such domain, or a path that the port does not have. ENOMEM: there are `max_ah`
    /// already.
    pub fn create_ah(&mut self, pd: PdId, path: AddressVector) -> Result<AhId, VerbError> {
        check_address(&path, &self.shared.port.gids)?;
        self.shared.join_pd(pd)?;
        self.shared.ahs.insert(AddressHandle { pd, path }).ok_or_else(|| {
            self.shared.leave_pd(pd);
            VerbError::Full("max_ah address handles exist")
        })
    }

    /// Removes an address handle.
    ///
    /// # Errors
    /// EINVAL: no such handle.
    pub fn destroy_ah(&mut self, ah: AhId) -> Result<(), VerbError> {
        let ah = self
            .shared
            .ahs
            .remove(ah)
            .ok_or(VerbError::NoSuchObject("ah: no such address handle"))?;
        self.shared.leave_pd(ah.pd);
        Ok(())
    }
}
