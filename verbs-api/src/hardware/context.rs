//! The verbs of a real device. Small ones are here; the others are where the objects are.

use std::borrow::Cow;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use softrnic_model::verbs::{
    Access, AddressVector, AhId, AsyncEvent, CqId, CqModeration, DeviceAttributes, Gid, Key, PdId,
    PortAttributes, QpAttributeMask, QpAttributes, QpCapabilities, QpInit, QpNum, RecvWr, SendWr,
    Sge, SrqAttributes, SrqId, SrqInit, SrqNum, VerbError, Wc, WindowType, XrcdId,
};

use super::cm::HardwareManager;
use super::convert::{gid_type, memory_capabilities, path_attr, port_attributes};
use super::errno::last_errno;
use super::layout::{Zeroed, ibv_gid, ibv_gid_entry, ibv_port_attr};
use super::open::{HardwareContext, extended};
use super::queues::plain;
use crate::cm::{Cm, CmError, ConnectionManager};
use crate::device::PORT;
use crate::machine::events::Closed;
use crate::provider::{
    Advice, ChannelId, Context, Counter, CqInit, DeviceInfo, DmId, GidEntry, MemoryCapabilities,
    MemoryRange, MrKeys, MwBind, PostError, Reregistration, Timeout, Verb,
};

impl HardwareContext {
    pub(super) fn port_attributes(&self, port: u8) -> Verb<PortAttributes> {
        let mut attr = ibv_port_attr::zeroed();
        let extended = extended!(self, query_port);
        // SAFETY: the context is open, and the place is ours and as large as said.
        let done = unsafe {
            match extended {
                Ok(query) => {
                    query(Some(self.context()), port, &raw mut attr, size_of::<ibv_port_attr>())
                }
                Err(_) => (self.library.ibv_query_port)(self.context(), port, &raw mut attr),
            }
        };
        self.done(done, "port: there is no such port, or it cannot be asked")?;
        Ok(port_attributes(&attr))
    }

    pub(super) fn gid_entry(&self, port: u8, index: u32) -> Verb<GidEntry> {
        const WHAT: &str = "index: past the end of the GID table";
        let Some(query) = self.library._ibv_query_gid_ex else {
            return self.older_gid_entry(port, index);
        };
        let mut entry = ibv_gid_entry::zeroed();
        let size = size_of::<ibv_gid_entry>();
        // SAFETY: the context is open, and the place is ours and as large as said.
        let done = unsafe { query(self.context(), port.into(), index, &raw mut entry, 0, size) };
        if done != 0 {
            return self.empty_or_none(port, index, super::errno::errno_of(done), WHAT);
        }
        Ok(GidEntry {
            gid: Gid(entry.gid.0),
            gid_type: gid_type(entry.gid_type),
            interface_index: entry.ndev_ifindex,
        })
    }

    /// An entry that is empty gives an error of its own.
    fn empty_or_none(
        &self,
        port: u8,
        index: u32,
        errno: i32,
        what: &'static str,
    ) -> Verb<GidEntry> {
        /// `ENODATA`, and what drivers say that ask the kernel by files.
        const EMPTY: [i32; 3] = [61, 22, 5];
        let within = index < self.port_attributes(port)?.gid_tbl_len;
        if within && EMPTY.contains(&errno) {
            return Ok(GidEntry { gid: Gid::default(), gid_type: gid_type(0), interface_index: 0 });
        }
        Err(VerbError::Invalid(what))
    }

    /// Of libraries before rdma-core 32: the type is in a file.
    fn older_gid_entry(&self, port: u8, index: u32) -> Verb<GidEntry> {
        const WHAT: &str = "index: past the end of the GID table";
        let at = i32::try_from(index).map_err(|_| VerbError::Invalid(WHAT))?;
        let mut gid = ibv_gid([0; 16]);
        // SAFETY: the context is open, and the place is ours.
        let done = unsafe { (self.library.ibv_query_gid)(self.context(), port, at, &raw mut gid) };
        if done != 0 {
            return self.empty_or_none(port, index, last_errno(), WHAT);
        }
        let file = self.folder(port).join(format!("gid_attrs/types/{index}"));
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let number = match text.trim() {
            "RoCE v2" => 2,
            "IB/RoCE v1" => 1,
            _ => 0,
        };
        Ok(GidEntry { gid: Gid(gid.0), gid_type: gid_type(number), interface_index: 0 })
    }

    /// Where the kernel tells of a port.
    fn folder(&self, port: u8) -> std::path::PathBuf {
        Path::new("/sys/class/infiniband").join(&self.info.name).join(format!("ports/{port}"))
    }
}

/// The numbers in a folder, by the names of their files.
fn numbers(folder: &Path) -> impl Iterator<Item = Counter> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| {
        let value = std::fs::read_to_string(file.path()).ok()?.trim().parse().ok()?;
        Some(Counter { name: Cow::Owned(file.file_name().into_string().ok()?), value })
    })
}

impl Context for HardwareContext {
    fn device(&self) -> &DeviceInfo {
        &self.info
    }

    fn connection_manager(&self) -> Cm<Arc<dyn ConnectionManager>> {
        let manager = HardwareManager::of(&self.library);
        Ok(manager.map_err(|error| CmError::not_supported(error.to_string()))?)
    }

    fn query_device(&self) -> Verb<DeviceAttributes> {
        self.attributes()
    }

    fn query_port(&self, port: u8) -> Verb<PortAttributes> {
        self.port_attributes(port)
    }

    fn query_gid(&self, port: u8, index: u32) -> Verb<GidEntry> {
        self.gid_entry(port, index)
    }

    fn query_pkey(&self, port: u8, index: u16) -> Verb<u16> {
        let mut pkey = 0;
        // SAFETY: the context is open, and the place is ours.
        let done = unsafe {
            (self.library.ibv_query_pkey)(self.context(), port, index.into(), &raw mut pkey)
        };
        if done == 0 {
            Ok(u16::from_be(pkey))
        } else {
            Err(VerbError::Invalid("index: past the end of the P_Key table"))
        }
    }

    fn alloc_pd(&self) -> Verb<PdId> {
        // SAFETY: the context is open.
        let made = unsafe { (self.library.ibv_alloc_pd)(self.context()) };
        Ok(PdId(self.pds.add(self.life().made(made, "no more protection domains")?)))
    }

    fn dealloc_pd(&self, pd: PdId) -> Verb<()> {
        self.pds.destroy(pd.0, |pd| {
            // SAFETY: it is there, and nobody else looks at it.
            let done = unsafe { (self.library.ibv_dealloc_pd)(pd.ptr()) };
            self.done(done, "the protection domain is used")
        })
    }

    fn query_memory(&self) -> Verb<MemoryCapabilities> {
        Ok(memory_capabilities(&self.device_attr()?))
    }

    fn alloc_null_mr(&self, pd: PdId) -> Verb<Key> {
        self.null_region(pd)
    }

    fn alloc_dm(&self, len: usize, log_align: u32) -> Verb<DmId> {
        self.make_memory(len, log_align)
    }

    fn free_dm(&self, dm: DmId) -> Verb<()> {
        self.end_memory(dm)
    }

    fn reg_dm_mr(
        &self,
        pd: PdId,
        dm: DmId,
        offset: u64,
        len: usize,
        access: Access,
    ) -> Verb<MrKeys> {
        self.register_memory(pd, dm, offset, len, access)
    }

    fn memcpy_to_dm(&self, dm: DmId, offset: u64, bytes: &[u8]) -> Verb<()> {
        self.copy_in(dm, offset, bytes)
    }

    fn memcpy_from_dm(&self, dm: DmId, offset: u64, into: &mut [u8]) -> Verb<()> {
        self.copy_out(dm, offset, into)
    }

    fn advise_mr(&self, pd: PdId, advice: Advice, sges: &[Sge]) -> Verb<()> {
        self.advise(pd, advice, sges)
    }

    unsafe fn reg_mr(
        &self,
        pd: PdId,
        memory: MemoryRange,
        iova: u64,
        access: Access,
    ) -> Verb<MrKeys> {
        // SAFETY: the caller's contract is the same.
        unsafe { self.register(pd, memory, iova, access) }
    }

    unsafe fn rereg_mr(&self, lkey: Key, change: &Reregistration) -> Verb<MrKeys> {
        // SAFETY: the caller's contract is the same.
        unsafe { self.reregister(lkey, change) }
    }

    fn dereg_mr(&self, lkey: Key) -> Verb<()> {
        self.deregister(lkey)
    }

    fn alloc_mw(&self, pd: PdId, window_type: WindowType) -> Verb<Key> {
        self.make_window(pd, window_type)
    }

    fn dealloc_mw(&self, window: Key) -> Verb<()> {
        self.end_window(window)
    }

    fn bind_mw(&self, qp: QpNum, window: Key, bind: &MwBind) -> Verb<Key> {
        self.bind(qp, window, bind)
    }

    fn create_comp_channel(&self) -> Verb<ChannelId> {
        self.create_channel()
    }

    fn destroy_comp_channel(&self, channel: ChannelId) -> Verb<()> {
        self.destroy_channel(channel)
    }

    fn get_cq_event(&self, channel: ChannelId, timeout: Timeout) -> Verb<Option<CqId>> {
        self.next_event(channel, timeout)
    }

    fn read_cq_event(&self, channel: ChannelId) -> io::Result<CqId> {
        self.read_event(channel)
    }

    fn comp_channel_fd(&self, channel: ChannelId) -> Verb<OwnedFd> {
        self.channel_descriptor(channel)
    }

    fn create_cq(&self, entries: u32, channel: Option<ChannelId>) -> Verb<(CqId, u32)> {
        self.make_cq(&plain(entries, channel))
    }

    fn create_cq_ex(&self, init: &CqInit) -> Verb<(CqId, u32)> {
        self.make_cq(init)
    }

    fn query_clock(&self) -> Verb<u64> {
        self.clock()
    }

    fn moderate_cq(&self, cq: CqId, moderation: CqModeration) -> Verb<()> {
        self.moderate(cq, moderation)
    }

    fn resize_cq(&self, cq: CqId, entries: u32) -> Verb<u32> {
        self.resize(cq, entries)
    }

    fn destroy_cq(&self, cq: CqId) -> Verb<()> {
        self.end_cq(cq)
    }

    fn poll_cq(&self, cq: CqId, into: &mut [Wc]) -> Verb<usize> {
        self.poll(cq, into)
    }

    fn req_notify_cq(&self, cq: CqId, solicited_only: bool) -> Verb<()> {
        self.arm(cq, solicited_only)
    }

    fn create_srq(&self, pd: PdId, attributes: &SrqAttributes) -> Verb<(SrqId, SrqAttributes)> {
        self.make_srq(&SrqInit { pd, attributes: *attributes, xrc: None })
    }

    fn create_srq_ex(&self, init: &SrqInit) -> Verb<(SrqId, SrqAttributes)> {
        self.make_srq(init)
    }

    fn srq_number(&self, srq: SrqId) -> Verb<SrqNum> {
        self.number_of(srq)
    }

    fn open_xrcd(&self) -> Verb<XrcdId> {
        self.make_domain()
    }

    fn share_xrcd(&self, xrcd: XrcdId) -> Verb<()> {
        self.xrcds.change(xrcd.0, |domain| domain.opened += 1)
    }

    fn close_xrcd(&self, xrcd: XrcdId) -> Verb<()> {
        self.end_domain(xrcd)
    }

    fn modify_srq(&self, srq: SrqId, limit: Option<u32>, max_wr: Option<u32>) -> Verb<()> {
        self.change_srq(srq, limit, max_wr)
    }

    fn query_srq(&self, srq: SrqId) -> Verb<SrqAttributes> {
        self.ask_srq(srq)
    }

    fn destroy_srq(&self, srq: SrqId) -> Verb<()> {
        self.end_srq(srq)
    }

    fn post_srq_recv(&self, srq: SrqId, wrs: &[RecvWr<'_>]) -> Result<(), PostError> {
        self.receive_shared(srq, wrs)
    }

    fn create_qp(&self, init: &QpInit) -> Verb<(QpNum, QpCapabilities)> {
        self.make_qp(init)
    }

    fn open_qp(&self, xrcd: XrcdId, qp: QpNum) -> Verb<()> {
        self.join_qp(xrcd, qp)
    }

    fn modify_qp(&self, qp: QpNum, attributes: &QpAttributes, mask: QpAttributeMask) -> Verb<()> {
        self.change_qp(qp, attributes, mask)
    }

    fn query_qp(&self, qp: QpNum) -> Verb<(QpAttributes, QpInit)> {
        self.ask_qp(qp)
    }

    fn destroy_qp(&self, qp: QpNum) -> Verb<()> {
        self.end_qp(qp)
    }

    fn post_send(&self, qp: QpNum, wrs: &[SendWr<'_>]) -> Result<(), PostError> {
        self.send(qp, wrs)
    }

    fn post_recv(&self, qp: QpNum, wrs: &[RecvWr<'_>]) -> Result<(), PostError> {
        self.receive(qp, wrs)
    }

    fn create_ah(&self, pd: PdId, path: &AddressVector) -> Verb<AhId> {
        let mut attr = path_attr(path, PORT);
        self.pds.with(pd.0, |pd| {
            // SAFETY: the domain is looked at, and the attributes are ours.
            let made = unsafe { (self.library.ibv_create_ah)(pd.ptr(), &raw mut attr) };
            match made {
                Some(made) => Ok(AhId(self.ahs.add(super::table::Handle::new(made)))),
                None => Err(self.why_unreachable(PORT, path.sgid_index, last_errno())),
            }
        })
    }

    fn destroy_ah(&self, ah: AhId) -> Verb<()> {
        self.ahs.destroy(ah.0, |ah| {
            // SAFETY: it is there, and nobody else looks at it.
            let done = unsafe { (self.library.ibv_destroy_ah)(ah.ptr()) };
            self.done(done, "the address handle is used")
        })
    }

    fn attach_mcast(&self, qp: QpNum, group: Gid) -> Verb<()> {
        self.join_group(qp, group)
    }

    fn detach_mcast(&self, qp: QpNum, group: Gid) -> Verb<()> {
        self.leave_group(qp, group)
    }

    fn get_async_event(&self, timeout: Timeout) -> Verb<Option<AsyncEvent>> {
        match self.life().events.take(timeout) {
            Ok(event) => Ok(event),
            Err(Closed) => self.life().judge().map(|()| None),
        }
    }

    fn read_async_event(&self) -> io::Result<AsyncEvent> {
        self.life().events.read()
    }

    fn async_fd(&self) -> Verb<OwnedFd> {
        let descriptor = self.life().events.descriptor();
        descriptor.map_err(|_| VerbError::Full("no more descriptors"))
    }

    fn counters(&self) -> Verb<Vec<Counter>> {
        let folder = self.folder(PORT);
        let mut counters: Vec<_> =
            numbers(&folder.join("hw_counters")).chain(numbers(&folder.join("counters"))).collect();
        if counters.is_empty() {
            return Err(VerbError::NotSupported("the kernel has no counters of the device"));
        }
        counters.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(counters)
    }
}
