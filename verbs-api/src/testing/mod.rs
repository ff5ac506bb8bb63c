//! A device that does nothing but write down what it is asked, to test the handles.

use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use softrnic_model::verbs::{
    Access, AddressVector, AhId, AsyncEvent, CqId, CqModeration, DeviceAttributes,
    DeviceCapabilities, Gid, Key, Mtu, PdId, PortAttributes, PortState, QpAttributeMask,
    QpAttributes, QpCapabilities, QpInit, QpNum, RecvWr, SendWr, Sge, SrqAttributes, SrqId,
    SrqInit, SrqNum, VerbError, Wc, WindowType, XrcdId,
};

use crate::device::Context;
use crate::provider::{self, *};

#[cfg(test)]
mod tests;

/// See the module.
#[derive(Debug)]
pub(crate) struct Recorder {
    info: DeviceInfo,
    next: AtomicU32,
    said: Mutex<Vec<String>>,
    /// A verb that is refused with EBUSY.
    pub(crate) refused: Mutex<&'static str>,
    /// What `modify_qp` was asked.
    pub(crate) modified: Mutex<Vec<(QpAttributes, QpAttributeMask)>>,
    /// What `poll_cq` will find.
    pub(crate) completions: Mutex<VecDeque<Wc>>,
    events: Mutex<VecDeque<CqId>>,
    #[cfg(unix)]
    bell: (std::os::unix::net::UnixStream, std::os::unix::net::UnixStream),
}

impl Recorder {
    pub(crate) fn new() -> (Arc<Self>, Context) {
        let recorder = Arc::new(Self {
            info: DeviceInfo { name: "recorder".into(), node_guid: [0; 8] },
            next: AtomicU32::new(1),
            said: Mutex::default(),
            refused: Mutex::default(),
            modified: Mutex::default(),
            completions: Mutex::default(),
            events: Mutex::default(),
            #[cfg(unix)]
            bell: std::os::unix::net::UnixStream::pair().unwrap(),
        });
        let verbs: Arc<dyn provider::Context> = recorder.clone();
        (recorder, Context::new(verbs))
    }

    /// What was asked since the last time, in order.
    pub(crate) fn said(&self) -> Vec<String> {
        std::mem::take(&mut self.said.lock().unwrap())
    }

    /// Sends an event to every channel.
    #[cfg(unix)]
    pub(crate) fn raise(&self, cq: CqId) {
        use std::io::Write as _;
        self.events.lock().unwrap().push_back(cq);
        (&self.bell.0).write_all(&[1]).unwrap();
    }

    fn say(&self, verb: &'static str) -> Verb<()> {
        self.said.lock().unwrap().push(verb.into());
        if *self.refused.lock().unwrap() == verb {
            return Err(VerbError::Busy("refused for a test"));
        }
        Ok(())
    }

    fn made(&self, verb: &'static str) -> Verb<u32> {
        self.say(verb)?;
        Ok(self.next.fetch_add(1, Ordering::Relaxed))
    }
}

impl provider::Context for Recorder {
    fn device(&self) -> &DeviceInfo {
        &self.info
    }

    fn query_device(&self) -> Verb<DeviceAttributes> {
        Ok(DeviceAttributes {
            max_mr_size: u64::MAX,
            max_qp: 8,
            max_qp_wr: 8,
            max_sge: 8,
            max_inline_data: 8,
            max_cq: 8,
            max_cqe: 8,
            max_mr: 8,
            max_mw: 8,
            max_pd: 8,
            max_ah: 8,
            max_srq: 8,
            max_srq_wr: 8,
            max_srq_sge: 8,
            max_qp_rd_atom: 16,
            max_qp_init_rd_atom: 32,
            max_mcast_grp: 8,
            max_mcast_qp_attach: 8,
            max_pkeys: 1,
            node_guid: [0; 8],
            capabilities: DeviceCapabilities::empty(),
            max_cq_moderation_count: 0,
            max_cq_moderation_period_us: 0,
            qp_rate_limit_min: 0,
            qp_rate_limit_max: 0,
            core_clock_khz: 1_000_000,
        })
    }

    fn query_port(&self, _: u8) -> Verb<PortAttributes> {
        Ok(PortAttributes {
            state: PortState::Active,
            max_mtu: Mtu::B4096,
            active_mtu: Mtu::B2048,
            gid_tbl_len: 4,
            max_msg_sz: 1 << 31,
            pkey_tbl_len: 1,
            bad_pkey_cntr: 0,
            qkey_viol_cntr: 0,
        })
    }

    fn query_gid(&self, _: u8, index: u32) -> Verb<GidEntry> {
        let link_local = Gid([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        let (gid, gid_type) = match index {
            0 => (link_local, GidType::RoceV2),
            1 => (Gid::from_v4([10, 0, 0, 1]), GidType::RoceV1),
            2 => (Gid::from_v4([10, 0, 0, 1]), GidType::RoceV2),
            3 => (Gid::default(), GidType::RoceV2),
            _ => return Err(VerbError::Invalid("index")),
        };
        Ok(GidEntry { gid, gid_type, interface_index: 1 })
    }

    fn query_pkey(&self, _: u8, _: u16) -> Verb<u16> {
        Ok(0xffff)
    }

    fn alloc_pd(&self) -> Verb<PdId> {
        self.made("alloc_pd").map(PdId)
    }

    fn dealloc_pd(&self, _: PdId) -> Verb<()> {
        self.say("dealloc_pd")
    }

    #[expect(unsafe_code, reason = "as the trait has it")]
    unsafe fn reg_mr(&self, _: PdId, _: MemoryRange, _: u64, _: Access) -> Verb<MrKeys> {
        let lkey = Key::from_parts(self.made("reg_mr")?, 0);
        Ok(MrKeys { lkey, rkey: Key(lkey.0 + 1) })
    }

    #[expect(unsafe_code, reason = "as the trait has it")]
    unsafe fn rereg_mr(&self, lkey: Key, _: &Reregistration) -> Verb<MrKeys> {
        self.say("rereg_mr").map(|()| MrKeys { lkey, rkey: lkey })
    }

    fn dereg_mr(&self, _: Key) -> Verb<()> {
        self.say("dereg_mr")
    }

    fn query_memory(&self) -> Verb<MemoryCapabilities> {
        Err(VerbError::NotSupported("a test has no memory"))
    }

    fn alloc_null_mr(&self, _: PdId) -> Verb<Key> {
        self.made("alloc_null_mr").map(Key)
    }

    fn alloc_dm(&self, _: usize, _: u32) -> Verb<DmId> {
        self.made("alloc_dm").map(DmId)
    }

    fn free_dm(&self, _: DmId) -> Verb<()> {
        self.say("free_dm")
    }

    fn reg_dm_mr(&self, _: PdId, _: DmId, _: u64, _: usize, _: Access) -> Verb<MrKeys> {
        let key = Key(self.made("reg_dm_mr")?);
        Ok(MrKeys { lkey: key, rkey: key })
    }

    fn memcpy_to_dm(&self, _: DmId, _: u64, _: &[u8]) -> Verb<()> {
        self.say("memcpy_to_dm")
    }

    fn memcpy_from_dm(&self, _: DmId, _: u64, _: &mut [u8]) -> Verb<()> {
        self.say("memcpy_from_dm")
    }

    fn advise_mr(&self, _: PdId, _: Advice, _: &[Sge]) -> Verb<()> {
        self.say("advise_mr")
    }

    fn alloc_mw(&self, _: PdId, _: WindowType) -> Verb<Key> {
        Ok(Key::from_parts(self.made("alloc_mw")?, 0xff))
    }

    fn dealloc_mw(&self, _: Key) -> Verb<()> {
        self.say("dealloc_mw")
    }

    fn bind_mw(&self, _: QpNum, window: Key, _: &MwBind) -> Verb<Key> {
        self.say("bind_mw")?;
        Ok(Key::from_parts(window.index(), window.variant().wrapping_add(3)))
    }

    fn create_comp_channel(&self) -> Verb<ChannelId> {
        self.made("create_comp_channel").map(ChannelId)
    }

    fn destroy_comp_channel(&self, _: ChannelId) -> Verb<()> {
        self.say("destroy_comp_channel")
    }

    fn get_cq_event(&self, _: ChannelId, _: Timeout) -> Verb<Option<CqId>> {
        let event = self.events.lock().unwrap().pop_front();
        #[cfg(unix)]
        if event.is_some() {
            use std::io::Read as _;
            (&self.bell.1).read_exact(&mut [0]).unwrap();
        }
        Ok(event)
    }

    #[cfg(unix)]
    fn comp_channel_fd(&self, _: ChannelId) -> Verb<std::os::fd::OwnedFd> {
        Ok(self.bell.1.try_clone().unwrap().into())
    }

    fn create_cq(&self, entries: u32, _: Option<ChannelId>) -> Verb<(CqId, u32)> {
        self.made("create_cq").map(|id| (CqId(id), entries.next_power_of_two()))
    }

    fn create_cq_ex(&self, init: &CqInit) -> Verb<(CqId, u32)> {
        self.create_cq(init.entries, init.channel)
    }

    fn moderate_cq(&self, _: CqId, _: CqModeration) -> Verb<()> {
        self.say("moderate_cq")
    }

    fn query_clock(&self) -> Verb<u64> {
        Ok(1)
    }

    fn resize_cq(&self, _: CqId, entries: u32) -> Verb<u32> {
        self.say("resize_cq").map(|()| entries)
    }

    fn destroy_cq(&self, _: CqId) -> Verb<()> {
        self.say("destroy_cq")
    }

    fn poll_cq(&self, _: CqId, into: &mut [Wc]) -> Verb<usize> {
        let mut waiting = self.completions.lock().unwrap();
        let some = into.len().min(waiting.len());
        into.iter_mut().zip(waiting.drain(..some)).for_each(|(place, wc)| *place = wc);
        Ok(some)
    }

    fn req_notify_cq(&self, _: CqId, _: bool) -> Verb<()> {
        self.say("req_notify_cq")
    }

    fn create_srq(&self, _: PdId, attributes: &SrqAttributes) -> Verb<(SrqId, SrqAttributes)> {
        self.made("create_srq").map(|id| (SrqId(id), *attributes))
    }

    fn create_srq_ex(&self, init: &SrqInit) -> Verb<(SrqId, SrqAttributes)> {
        Ok((SrqId(self.made("create_srq_ex")?), init.attributes))
    }

    fn srq_number(&self, srq: SrqId) -> Verb<SrqNum> {
        Ok(SrqNum::new(srq.0))
    }

    fn open_xrcd(&self) -> Verb<XrcdId> {
        self.made("open_xrcd").map(XrcdId)
    }

    fn share_xrcd(&self, _: XrcdId) -> Verb<()> {
        self.say("share_xrcd")
    }

    fn close_xrcd(&self, _: XrcdId) -> Verb<()> {
        self.say("close_xrcd")
    }

    fn open_qp(&self, _: XrcdId, _: QpNum) -> Verb<()> {
        self.say("open_qp")
    }

    fn modify_srq(&self, _: SrqId, _: Option<u32>, _: Option<u32>) -> Verb<()> {
        self.say("modify_srq")
    }

    fn query_srq(&self, _: SrqId) -> Verb<SrqAttributes> {
        self.say("query_srq").map(|()| SrqAttributes::default())
    }

    fn destroy_srq(&self, _: SrqId) -> Verb<()> {
        self.say("destroy_srq")
    }

    fn post_srq_recv(&self, _: SrqId, _: &[RecvWr<'_>]) -> Result<(), PostError> {
        self.say("post_srq_recv").map_err(|error| PostError { index: 0, error })
    }

    fn create_qp(&self, init: &QpInit) -> Verb<(QpNum, QpCapabilities)> {
        self.made("create_qp").map(|id| (QpNum::new(id), init.cap))
    }

    fn modify_qp(&self, _: QpNum, attributes: &QpAttributes, mask: QpAttributeMask) -> Verb<()> {
        self.say("modify_qp")?;
        self.modified.lock().unwrap().push((*attributes, mask));
        Ok(())
    }

    fn query_qp(&self, _: QpNum) -> Verb<(QpAttributes, QpInit)> {
        Err(VerbError::NotSupported("nothing to tell"))
    }

    fn destroy_qp(&self, _: QpNum) -> Verb<()> {
        self.say("destroy_qp")
    }

    fn post_send(&self, _: QpNum, _: &[SendWr<'_>]) -> Result<(), PostError> {
        self.say("post_send").map_err(|error| PostError { index: 0, error })
    }

    fn post_recv(&self, _: QpNum, _: &[RecvWr<'_>]) -> Result<(), PostError> {
        self.say("post_recv").map_err(|error| PostError { index: 0, error })
    }

    fn create_ah(&self, _: PdId, _: &AddressVector) -> Verb<AhId> {
        self.made("create_ah").map(AhId)
    }

    fn destroy_ah(&self, _: AhId) -> Verb<()> {
        self.say("destroy_ah")
    }

    fn attach_mcast(&self, _: QpNum, _: Gid) -> Verb<()> {
        self.say("attach_mcast")
    }

    fn detach_mcast(&self, _: QpNum, _: Gid) -> Verb<()> {
        self.say("detach_mcast")
    }

    fn get_async_event(&self, _: Timeout) -> Verb<Option<AsyncEvent>> {
        Ok(None)
    }

    #[cfg(unix)]
    fn async_fd(&self) -> Verb<std::os::fd::OwnedFd> {
        Err(VerbError::NotSupported("no events"))
    }

    fn counters(&self) -> Verb<Vec<Counter>> {
        Ok(Vec::new())
    }
}
