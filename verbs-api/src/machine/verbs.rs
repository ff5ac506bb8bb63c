//! The verbs of every device that is made of the model: emulated and simulated ones.

#[cfg(unix)]
use std::os::fd::OwnedFd;
use std::sync::Arc;

use softrnic_model::protection::{RegionChanges, RegionSpec, Translation};
use softrnic_model::verbs::{
    Access, AddressVector, AhId, AsyncEvent, CqId, CqModeration, DeviceAttributes, Gid, Key, PdId,
    PortAttributes, Psn, QpAttributeMask, QpAttributes, QpCapabilities, QpInit, QpNum, RecvWr,
    SendOp, SendWr, Sge, SrqAttributes, SrqId, SrqInit, SrqNum, Subject, VerbError, Wc, WindowType,
    XrcdId,
};

use super::Home;
use super::core::{Channel, Core, Registered, Report};
use super::events::{Closed, EventQueue};
use super::memory::judge_memory;
use crate::cm::CmDevice;
use crate::provider::{
    Advice, ChannelId, Context, Counter, CqInit, DeviceInfo, DmId, GidEntry, GidType,
    MemoryCapabilities, MemoryRange, MrKeys, MwBind, PostError, Reregistration, Timeout, Verb,
};

/// Does something for a caller that may ask for it. Not for posting and polling.
fn with<H: Home, T>(home: &H, act: impl FnOnce(&mut Core) -> Verb<T>) -> Verb<T> {
    home.judge_caller()?;
    home.with_core(act)
}

fn judge_port(port: u8) -> Verb<()> {
    if port == 1 { Ok(()) } else { Err(VerbError::Invalid("port: there is one, number 1")) }
}

impl<H: Home> Context for H {
    fn device(&self) -> &DeviceInfo {
        self.info()
    }

    fn communication(&self) -> Option<Arc<dyn CmDevice>> {
        Home::communication(self)
    }

    fn query_device(&self) -> Verb<DeviceAttributes> {
        with(self, |core| Ok(core.device.query_device()))
    }

    fn query_port(&self, port: u8) -> Verb<PortAttributes> {
        judge_port(port)?;
        with(self, |core| Ok(core.device.query_port()))
    }

    fn query_gid(&self, port: u8, index: u32) -> Verb<GidEntry> {
        judge_port(port)?;
        let index = index as usize;
        with(self, |core| {
            let gid = core.device.gids().get(index).copied();
            let gid = gid.ok_or(VerbError::Invalid("index: past the end of the GID table"))?;
            let interface_index = core.addresses.interface(index);
            Ok(GidEntry { gid, gid_type: GidType::RoceV2, interface_index })
        })
    }

    fn query_pkey(&self, port: u8, index: u16) -> Verb<u16> {
        judge_port(port)?;
        with(self, |core| {
            let pkey = core.device.pkeys().get(usize::from(index)).copied();
            pkey.ok_or(VerbError::Invalid("index: past the end of the P_Key table"))
        })
    }

    fn alloc_pd(&self) -> Verb<PdId> {
        with(self, |core| core.device.alloc_pd())
    }

    fn dealloc_pd(&self, pd: PdId) -> Verb<()> {
        with(self, |core| core.device.dealloc_pd(pd))
    }

    #[expect(unsafe_code, reason = "the caller vouches for memory that the device will touch")]
    unsafe fn reg_mr(
        &self,
        pd: PdId,
        memory: MemoryRange,
        iova: u64,
        access: Access,
    ) -> Verb<MrKeys> {
        judge_memory(memory.base, memory.len, access)?;
        with(self, |core| {
            // SAFETY: the caller's contract is that of `add`, until the region goes.
            let id = unsafe { core.memory.add(memory.base, memory.len, None) }?;
            let spec = RegionSpec {
                pd,
                memory: id,
                memory_offset: 0,
                addr: iova,
                length: memory.len as u64,
                access,
            };
            core.register(spec, Registered::new(id, memory))
        })
    }

    #[expect(unsafe_code, reason = "the caller vouches for memory that the device will touch")]
    unsafe fn rereg_mr(&self, lkey: Key, change: &Reregistration) -> Verb<MrKeys> {
        judge_change(self, lkey, change)?;
        with(self, |core| {
            let new = match change.memory {
                Some((range, addr)) => {
                    // SAFETY: the caller's contract is that of `add`, until the region goes.
                    let memory = unsafe { core.memory.add(range.base, range.len, None) }?;
                    Some((memory, range, addr))
                }
                None => None,
            };
            let translation = new.map(|(memory, range, addr)| Translation {
                memory,
                memory_offset: 0,
                addr,
                length: range.len as u64,
            });
            let changes = RegionChanges { pd: change.pd, translation, access: change.access };
            match (core.device.reregister(lkey, changes), new) {
                (Ok(key), Some((memory, range, _))) => {
                    core.forget_memory(lkey);
                    core.regions.insert(key.index(), Registered::new(memory, range));
                    Ok(MrKeys { lkey: key, rkey: key })
                }
                (Ok(key), None) => {
                    let same = core.regions.remove(&lkey.index());
                    core.regions.extend(same.map(|same| (key.index(), same)));
                    Ok(MrKeys { lkey: key, rkey: key })
                }
                (Err(error), new) => {
                    if let Some((memory, ..)) = new {
                        let _ = core.memory.remove(memory);
                    }
                    Err(error)
                }
            }
        })
    }

    fn dereg_mr(&self, lkey: Key) -> Verb<()> {
        with(self, |core| {
            core.device.deregister(lkey)?;
            core.forget_memory(lkey);
            Ok(())
        })
    }

    fn query_memory(&self) -> Verb<MemoryCapabilities> {
        Ok(super::memory::CAPABILITIES)
    }

    fn alloc_null_mr(&self, pd: PdId) -> Verb<Key> {
        with(self, |core| core.alloc_null_mr(pd))
    }

    fn alloc_dm(&self, len: usize, log_align: u32) -> Verb<DmId> {
        with(self, |core| core.alloc_dm(len, log_align))
    }

    fn free_dm(&self, dm: DmId) -> Verb<()> {
        with(self, |core| core.free_dm(dm))
    }

    fn reg_dm_mr(
        &self,
        pd: PdId,
        dm: DmId,
        offset: u64,
        len: usize,
        access: Access,
    ) -> Verb<MrKeys> {
        with(self, |core| core.reg_dm_mr(pd, dm, offset, len, access))
    }

    fn memcpy_to_dm(&self, dm: DmId, offset: u64, bytes: &[u8]) -> Verb<()> {
        with(self, |core| core.memcpy_to_dm(dm, offset, bytes))
    }

    fn memcpy_from_dm(&self, dm: DmId, offset: u64, into: &mut [u8]) -> Verb<()> {
        with(self, |core| core.memcpy_from_dm(dm, offset, into))
    }

    fn advise_mr(&self, pd: PdId, advice: Advice, sges: &[Sge]) -> Verb<()> {
        let ranges = with(self, |core| core.judge_advice(pd, advice, sges))?;
        // Pages may take their time: not under the lock.
        super::memory::follow(advice, &ranges)
    }

    fn alloc_mw(&self, pd: PdId, window_type: WindowType) -> Verb<Key> {
        with(self, |core| core.device.alloc_mw(pd, window_type))
    }

    fn dealloc_mw(&self, window: Key) -> Verb<()> {
        with(self, |core| {
            // The index names it, whatever binds have made of its key.
            let present = core.device.protection().query_window(window);
            core.device.dealloc_mw(present.map_or(window, |(present, ..)| present))
        })
    }

    fn bind_mw(&self, qp: QpNum, window: Key, bind: &MwBind) -> Verb<Key> {
        self.with_send(None, |core| {
            let (present, _, window_type) = core
                .device
                .protection()
                .query_window(window)
                .ok_or(VerbError::NoSuchObject("mw: no such memory window"))?;
            if window_type != WindowType::Type1 {
                return Err(VerbError::Invalid("mw: type 2 windows are bound by post_send"));
            }
            let new_rkey = Key::from_parts(present.index(), present.variant().wrapping_add(1));
            let op = SendOp::BindMw { window: present, new_rkey, window_type, bind: bind.info };
            let (wr_id, flags) = (bind.wr_id, bind.flags);
            core.device
                .post_send(qp, &SendWr { wr_id, op, flags, sges: &[], ..SendWr::default() })?;
            Ok(new_rkey)
        })
    }

    fn create_comp_channel(&self) -> Verb<ChannelId> {
        let events = self.event_queue()?;
        with(self, |core| {
            let id = ChannelId(core.next_channel);
            core.next_channel = core.next_channel.wrapping_add(1);
            core.channels.insert(id, Channel { events: Arc::new(events), users: 0 });
            Ok(id)
        })
    }

    fn destroy_comp_channel(&self, channel: ChannelId) -> Verb<()> {
        with(self, |core| {
            let users = core.channels.get(&channel).ok_or(NO_CHANNEL)?.users;
            if users != 0 {
                return Err(VerbError::Busy("channel: completion queues report to it"));
            }
            if let Some(channel) = core.channels.remove(&channel) {
                channel.events.close();
            }
            Ok(())
        })
    }

    fn get_cq_event(&self, channel: ChannelId, timeout: Timeout) -> Verb<Option<CqId>> {
        // An event comes from an armed queue, so the engine is at work already.
        let events = channel_events(self, channel)?;
        self.take_event(&events, timeout)?.map_err(|Closed| NO_CHANNEL)
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn read_cq_event(&self, channel: ChannelId) -> std::io::Result<CqId> {
        let events = channel_events(self, channel);
        events.map_err(|error| std::io::Error::from_raw_os_error(error.errno()))?.read()
    }

    #[cfg(unix)]
    fn comp_channel_fd(&self, channel: ChannelId) -> Verb<OwnedFd> {
        descriptor(&*channel_events(self, channel)?)
    }

    fn create_cq(&self, entries: u32, channel: Option<ChannelId>) -> Verb<(CqId, u32)> {
        self.create_cq_ex(&CqInit { entries, channel, timestamps: false })
    }

    fn create_cq_ex(&self, init: &CqInit) -> Verb<(CqId, u32)> {
        let CqInit { entries, channel, timestamps } = *init;
        with(self, |core| {
            if let Some(channel) = channel {
                core.channels.get(&channel).ok_or(NO_CHANNEL)?;
            }
            let cq = core.device.create_cq_ex(entries, timestamps)?;
            if let Some(id) = channel
                && let Some(channel) = core.channels.get_mut(&id)
            {
                channel.users += 1;
                let events = Arc::clone(&channel.events);
                core.reports.insert(cq, Report { channel: id, events, armed: false });
            }
            Ok((cq, core.device.cq_capacity(cq)?))
        })
    }

    fn moderate_cq(&self, cq: CqId, moderation: CqModeration) -> Verb<()> {
        with(self, |core| core.device.moderate_cq(cq, moderation))
    }

    fn query_clock(&self) -> Verb<u64> {
        Ok(self.now().as_ns())
    }

    fn resize_cq(&self, cq: CqId, entries: u32) -> Verb<u32> {
        with(self, |core| core.device.resize_cq(cq, entries))?;
        Ok(entries)
    }

    fn destroy_cq(&self, cq: CqId) -> Verb<()> {
        with(self, |core| {
            core.device.destroy_cq(cq)?;
            core.forget_events(Subject::Cq(cq));
            if let Some(report) = core.reports.remove(&cq) {
                report.events.retain(|event| *event != cq);
                core.duty.armed -= u32::from(report.armed);
                if let Some(channel) = core.channels.get_mut(&report.channel) {
                    channel.users -= 1;
                }
            }
            Ok(())
        })
    }

    fn poll_cq(&self, cq: CqId, into: &mut [Wc]) -> Verb<usize> {
        Home::poll_cq(self, cq, into)
    }

    fn wait_cq(&self, cq: CqId, into: &mut [Wc], timeout: Timeout) -> Verb<usize> {
        Home::wait_cq(self, cq, into, timeout)
    }

    fn req_notify_cq(&self, cq: CqId, solicited_only: bool) -> Verb<()> {
        let relaxed = with(self, |core| {
            core.device.req_notify_cq(cq, solicited_only)?;
            if let Some(report) = core.reports.get_mut(&cq)
                && !std::mem::replace(&mut report.armed, true)
            {
                core.duty.armed += 1;
            }
            Ok(core.duty.relaxed)
        })?;
        if relaxed {
            self.sleeper_comes();
        }
        Ok(())
    }

    fn create_srq(&self, pd: PdId, attributes: &SrqAttributes) -> Verb<(SrqId, SrqAttributes)> {
        self.create_srq_ex(&SrqInit { pd, attributes: *attributes, xrc: None })
    }

    fn create_srq_ex(&self, init: &SrqInit) -> Verb<(SrqId, SrqAttributes)> {
        with(self, |core| {
            let srq = core.device.create_srq_ex(init)?;
            Ok((srq, core.device.query_srq(srq)?))
        })
    }

    fn srq_number(&self, srq: SrqId) -> Verb<SrqNum> {
        with(self, |core| core.device.srq_number(srq))
    }

    fn open_xrcd(&self) -> Verb<XrcdId> {
        with(self, |core| core.device.open_xrcd())
    }

    fn share_xrcd(&self, xrcd: XrcdId) -> Verb<()> {
        with(self, |core| core.device.share_xrcd(xrcd))
    }

    fn close_xrcd(&self, xrcd: XrcdId) -> Verb<()> {
        with(self, |core| core.device.close_xrcd(xrcd))
    }

    fn modify_srq(&self, srq: SrqId, limit: Option<u32>, max_wr: Option<u32>) -> Verb<()> {
        with(self, |core| core.device.modify_srq(srq, limit, max_wr))
    }

    fn query_srq(&self, srq: SrqId) -> Verb<SrqAttributes> {
        with(self, |core| core.device.query_srq(srq))
    }

    fn destroy_srq(&self, srq: SrqId) -> Verb<()> {
        with(self, |core| {
            core.device.destroy_srq(srq)?;
            core.forget_events(Subject::Srq(srq));
            Ok(())
        })
    }

    fn post_srq_recv(&self, srq: SrqId, wrs: &[RecvWr<'_>]) -> Result<(), PostError> {
        self.with_core(|core| each(wrs, |wr| core.device.post_srq_recv(srq, wr)))
    }

    fn create_qp(&self, init: &QpInit) -> Verb<(QpNum, QpCapabilities)> {
        with(self, |core| {
            let qp = core.device.create_qp(init)?;
            Ok((qp, core.device.query_qp(qp)?.0.cap))
        })
    }

    fn modify_qp(&self, qp: QpNum, attributes: &QpAttributes, mask: QpAttributeMask) -> Verb<()> {
        self.with_send(None, |core| core.device.modify_qp(qp, attributes, mask))
    }

    fn query_qp(&self, qp: QpNum) -> Verb<(QpAttributes, QpInit)> {
        with(self, |core| core.device.query_qp(qp))
    }

    fn destroy_qp(&self, qp: QpNum) -> Verb<()> {
        let now = self.now();
        with(self, |core| {
            // The peer is owed an acknowledgement of what the program has been told of.
            core.send(now);
            core.device.destroy_qp(qp)?;
            if core.device.query_qp(qp).is_err() {
                core.forget_events(Subject::Qp(qp));
            }
            Ok(())
        })
    }

    fn open_qp(&self, xrcd: XrcdId, qp: QpNum) -> Verb<()> {
        with(self, |core| core.device.open_qp(xrcd, qp))
    }

    fn post_send(&self, qp: QpNum, wrs: &[SendWr<'_>]) -> Result<(), PostError> {
        self.with_send(Some(qp), |core| each(wrs, |wr| core.device.post_send(qp, wr)))
    }

    fn post_recv(&self, qp: QpNum, wrs: &[RecvWr<'_>]) -> Result<(), PostError> {
        self.with_core(|core| each(wrs, |wr| core.device.post_recv(qp, wr)))
    }

    fn draw_psn(&self) -> Psn {
        Home::draw_psn(self)
    }

    fn create_ah(&self, pd: PdId, path: &AddressVector) -> Verb<AhId> {
        with(self, |core| core.device.create_ah(pd, *path))
    }

    fn destroy_ah(&self, ah: AhId) -> Verb<()> {
        with(self, |core| core.device.destroy_ah(ah))
    }

    fn attach_mcast(&self, qp: QpNum, group: Gid) -> Verb<()> {
        let joined = with(self, |core| {
            let first = core.device.attach_mcast(qp, group)?;
            if first && core.link.join(group).is_err() {
                core.device.detach_mcast(qp, group)?;
                return Err(VerbError::Unreachable("gid: the interface cannot join the group"));
            }
            Ok(first)
        })?;
        if joined && self.groups_changed().is_err() {
            self.detach_mcast(qp, group)?;
            return Err(VerbError::Full("no more descriptors to wait for the group"));
        }
        Ok(())
    }

    fn detach_mcast(&self, qp: QpNum, group: Gid) -> Verb<()> {
        let left = with(self, |core| {
            let last = core.device.detach_mcast(qp, group)?;
            if last {
                core.link.leave(group);
            }
            Ok(last)
        })?;
        if left {
            // Should this fail, the other sockets are found by the engine's next look all the same.
            let _ = self.groups_changed();
        }
        Ok(())
    }

    fn get_async_event(&self, timeout: Timeout) -> Verb<Option<AsyncEvent>> {
        let event = self.take_event(self.asynchronous(), timeout)?;
        event.map_err(|Closed| VerbError::Invalid("the device is closed"))
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn read_async_event(&self) -> std::io::Result<AsyncEvent> {
        self.asynchronous().read()
    }

    #[cfg(unix)]
    fn async_fd(&self) -> Verb<OwnedFd> {
        descriptor(self.asynchronous())
    }

    fn flush(&self) {
        let now = self.now();
        // A child of fork owes nobody anything.
        let _ = with(self, |core| {
            core.send(now);
            Ok(())
        });
    }

    fn counters(&self) -> Verb<Vec<Counter>> {
        with(self, |core| Ok(core.counters()))
    }
}

const NO_CHANNEL: VerbError = VerbError::NoSuchObject("channel: no such completion channel");

fn channel_events<H: Home>(home: &H, channel: ChannelId) -> Verb<Arc<EventQueue<CqId>>> {
    with(home, |core| {
        core.channels.get(&channel).map(|channel| Arc::clone(&channel.events)).ok_or(NO_CHANNEL)
    })
}

#[cfg(unix)]
fn descriptor<T>(events: &EventQueue<T>) -> Verb<OwnedFd> {
    events.descriptor().map_err(|error| {
        if error.kind() == std::io::ErrorKind::Unsupported {
            VerbError::NotSupported("events of this device have no descriptors")
        } else {
            VerbError::Full("no more descriptors")
        }
    })
}

/// Judges the memory that a region has after a change, by the rights that it has then.
fn judge_change<H: Home>(home: &H, lkey: Key, change: &Reregistration) -> Verb<()> {
    let before = with(home, |core| {
        let region = core.device.protection().query_region(lkey);
        Ok(region.and_then(|is| Some((is.access, *core.regions.get(&lkey.index())?))))
    })?;
    // A key that names nothing is refused by the change itself.
    let Some((access, registered)) = before else { return Ok(()) };
    let Registered::Program { base, len, .. } = registered else {
        return Err(VerbError::Invalid("mr: only memory of the program can be reregistered"));
    };
    let (base, len) = match change.memory {
        Some((memory, _)) => (memory.base.cast_const(), memory.len),
        None => (std::ptr::without_provenance(base), len),
    };
    judge_memory(base, len, change.access.unwrap_or(access))
}

/// Posts requests until one is refused.
fn each<W>(wrs: &[W], mut post: impl FnMut(&W) -> Result<(), VerbError>) -> Result<(), PostError> {
    for (index, wr) in wrs.iter().enumerate() {
        post(wr).map_err(|error| PostError { index, error })?;
    }
    Ok(())
}
