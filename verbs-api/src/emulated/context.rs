//! The verbs of an emulated device.

use std::borrow::Cow;
#[cfg(unix)]
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use softrnic_model::Device;
use softrnic_model::protection::{RegionChanges, RegionSpec, Translation};
use softrnic_model::verbs::{
    Access, AddressVector, AhId, AsyncEvent, CqId, DeviceAttributes, Gid, Key, PdId,
    PortAttributes, QpAttributeMask, QpAttributes, QpCapabilities, QpInit, QpNum, RecvWr, SendOp,
    SendWr, SrqAttributes, SrqId, VerbError, Wc, WindowType,
};
use softrnic_transport::tap::{Capture, CaptureFile, FaultRules, Faults, Trace};
use softrnic_transport::{Link, LinkSet, UdpLink, interfaces};

use super::config::{EmulatedConfig, OpenError};
use super::core::{Channel, Core};
use super::engine::{self, Shared};
use super::events::EventQueue;
use crate::host_memory::{HostMemory, probe};
use crate::provider::{
    ChannelId, Context, Counter, DeviceInfo, GidEntry, GidType, MemoryRange, MrKeys, MwBind,
    PostError, Reregistration, Timeout, Verb,
};

/// An open emulated device. It is closed when this is dropped.
#[derive(Debug)]
pub struct EmulatedContext {
    info: DeviceInfo,
    shared: Arc<Shared>,
    asynchronous: Arc<EventQueue<AsyncEvent>>,
    interface_index: u32,
    engine: Option<JoinHandle<()>>,
}

impl EmulatedContext {
    /// Opens a device: binds its port and starts its engine.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(config: EmulatedConfig) -> Result<Self, OpenError> {
        let mut links: Vec<(Gid, Box<dyn Link>)> = Vec::new();
        let mut receive_buffer = usize::MAX;
        for address in &config.addresses {
            let link = UdpLink::open(&config.udp(*address))?;
            receive_buffer = receive_buffer.min(link.granted_receive_buffer().unwrap_or(212_992));
            links.push((link.gid(), Box::new(link)));
        }
        let link = match links.len() {
            0 => return Err(OpenError::Setting("a device needs at least one address".into())),
            1 => links.remove(0).1,
            _ => Box::new(LinkSet::new(links)),
        };
        let link = tapped(&config, link)?;
        let system = |what| move |error| OpenError::System(what, error);
        let asynchronous = Arc::new(EventQueue::new().map_err(system("event descriptor"))?);
        let core = Core {
            device: Device::new(config.device(receive_buffer)),
            link,
            memory: HostMemory::new(),
            regions: std::collections::BTreeMap::new(),
            channels: std::collections::BTreeMap::new(),
            next_channel: 0,
            channel_of: std::collections::BTreeMap::new(),
            channel_id_of: std::collections::BTreeMap::new(),
            asynchronous: Arc::clone(&asynchronous),
            last_arrival: softrnic_model::Instant::ZERO,
            failure: None,
        };
        let shared = Arc::new(Shared::new(core).map_err(system("waiting for packets"))?);
        let engine = engine::start(&shared).map_err(system("engine thread"))?;
        let interface_index = config
            .addresses
            .first()
            .and_then(|at| interfaces::by_address(*at).ok().flatten())
            .map_or(0, |interface| interface.index);
        Ok(Self {
            info: Self::info_of(&config),
            shared,
            asynchronous,
            interface_index,
            engine: Some(engine),
        })
    }

    /// How a device with this configuration is listed.
    pub(super) fn info_of(config: &EmulatedConfig) -> DeviceInfo {
        DeviceInfo { name: config.name.clone(), node_guid: config.device(0).attributes.node_guid }
    }

    /// Does something with the device and passes on the events that come of it.
    fn with<T>(&self, act: impl FnOnce(&mut Core) -> T) -> T {
        let mut core = self.shared.lock();
        let result = act(&mut core);
        core.dispatch();
        result
    }

    /// The same, and sends what that made ready.
    fn with_send<T>(&self, act: impl FnOnce(&mut Core) -> T) -> T {
        let mut core = self.shared.lock();
        let result = act(&mut core);
        let now = self.shared.now();
        core.send(now);
        self.shared.done_inline(core);
        result
    }

    fn judge_port(port: u8) -> Verb<()> {
        if port == 1 { Ok(()) } else { Err(VerbError::Invalid("port: there is one, number 1")) }
    }
}

impl Drop for EmulatedContext {
    fn drop(&mut self) {
        self.shared.close();
        if let Some(engine) = self.engine.take() {
            // It ends at its next look; a panic there has been reported by the runtime already.
            let _ = engine.join();
        }
    }
}

/// Wraps the link in what the configuration asks for: what is captured and traced is what was on
/// the wire, so faults are nearest to the device.
fn tapped(config: &EmulatedConfig, mut link: Box<dyn Link>) -> Result<Box<dyn Link>, OpenError> {
    if let Some(path) = &config.capture {
        let file = CaptureFile::create(path, std::time::SystemTime::now())
            .map_err(|error| OpenError::Setting(error.to_string()))?;
        link = Box::new(Capture::new(link, &file, &config.name));
    }
    if config.trace {
        link = Box::new(Trace::new(link, std::io::stderr()));
    }
    if let Some(rules) = &config.faults {
        let rules = FaultRules::parse(rules)
            .map_err(|error| OpenError::Setting(format!("faults: {error}")))?;
        link = Box::new(Faults::new(link, rules));
    }
    Ok(link)
}

/// What a region's memory must allow.
const WRITES: Access = Access::LOCAL_WRITE.union(Access::REMOTE_WRITE).union(Access::REMOTE_ATOMIC);

impl Context for EmulatedContext {
    fn device(&self) -> &DeviceInfo {
        &self.info
    }

    fn query_device(&self) -> Verb<DeviceAttributes> {
        Ok(self.with(|core| core.device.query_device()))
    }

    fn query_port(&self, port: u8) -> Verb<PortAttributes> {
        Self::judge_port(port)?;
        Ok(self.with(|core| core.device.query_port()))
    }

    fn query_gid(&self, port: u8, index: u32) -> Verb<GidEntry> {
        Self::judge_port(port)?;
        let gid = self.with(|core| core.device.gids().get(index as usize).copied());
        let gid = gid.ok_or(VerbError::Invalid("index: past the end of the GID table"))?;
        let interface_index = self.interface_index;
        Ok(GidEntry { gid, gid_type: GidType::RoceV2, interface_index })
    }

    fn query_pkey(&self, port: u8, index: u16) -> Verb<u16> {
        Self::judge_port(port)?;
        self.with(|core| core.device.pkeys().get(usize::from(index)).copied())
            .ok_or(VerbError::Invalid("index: past the end of the P_Key table"))
    }

    fn alloc_pd(&self) -> Verb<PdId> {
        self.with(|core| core.device.alloc_pd())
    }

    fn dealloc_pd(&self, pd: PdId) -> Verb<()> {
        self.with(|core| core.device.dealloc_pd(pd))
    }

    #[expect(unsafe_code, reason = "the caller vouches for memory that the device will touch")]
    unsafe fn reg_mr(
        &self,
        pd: PdId,
        memory: MemoryRange,
        iova: u64,
        access: Access,
    ) -> Verb<MrKeys> {
        probe(memory.base, memory.len, access.intersects(WRITES))?;
        self.with(|core| {
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
            match core.device.register(spec) {
                Ok(key) => {
                    core.regions.insert(key.index(), id);
                    Ok(MrKeys { lkey: key, rkey: key })
                }
                Err(error) => {
                    let _ = core.memory.remove(id);
                    Err(error)
                }
            }
        })
    }

    #[expect(unsafe_code, reason = "the caller vouches for memory that the device will touch")]
    unsafe fn rereg_mr(&self, lkey: Key, change: &Reregistration) -> Verb<MrKeys> {
        if let Some((memory, _)) = change.memory {
            probe(memory.base, memory.len, change.access.is_some_and(|a| a.intersects(WRITES)))?;
        }
        self.with(|core| {
            let translation = match change.memory {
                Some((memory, addr)) => {
                    // SAFETY: the caller's contract is that of `add`, until the region goes.
                    let id = unsafe { core.memory.add(memory.base, memory.len, None) }?;
                    let length = memory.len as u64;
                    Some(Translation { memory: id, memory_offset: 0, addr, length })
                }
                None => None,
            };
            let changes = RegionChanges { pd: change.pd, translation, access: change.access };
            match core.device.reregister(lkey, changes) {
                Ok(key) => {
                    let before = core.regions.remove(&lkey.index());
                    let (keep, forget) = match translation {
                        Some(new) => (Some(new.memory), before),
                        None => (before, None),
                    };
                    if let Some(memory) = keep {
                        core.regions.insert(key.index(), memory);
                    }
                    if let Some(memory) = forget {
                        let _ = core.memory.remove(memory);
                    }
                    Ok(MrKeys { lkey: key, rkey: key })
                }
                Err(error) => {
                    if let Some(new) = translation {
                        let _ = core.memory.remove(new.memory);
                    }
                    Err(error)
                }
            }
        })
    }

    fn dereg_mr(&self, lkey: Key) -> Verb<()> {
        self.with(|core| {
            core.device.deregister(lkey)?;
            core.forget_memory(lkey);
            Ok(())
        })
    }

    fn alloc_mw(&self, pd: PdId, window_type: WindowType) -> Verb<Key> {
        self.with(|core| core.device.alloc_mw(pd, window_type))
    }

    fn dealloc_mw(&self, window: Key) -> Verb<()> {
        self.with(|core| core.device.dealloc_mw(window))
    }

    fn bind_mw(&self, qp: QpNum, window: Key, bind: &MwBind) -> Verb<Key> {
        self.with_send(|core| {
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
            core.device.post_send(qp, &SendWr { wr_id, op, flags, sges: &[], inline: &[] })?;
            Ok(new_rkey)
        })
    }

    fn create_comp_channel(&self) -> Verb<ChannelId> {
        let events = EventQueue::new().map_err(|_| VerbError::Full("no more descriptors"))?;
        self.with(|core| {
            let id = ChannelId(core.next_channel);
            core.next_channel = core.next_channel.wrapping_add(1);
            core.channels.insert(id, Channel { events: Arc::new(events), users: 0 });
            Ok(id)
        })
    }

    fn destroy_comp_channel(&self, channel: ChannelId) -> Verb<()> {
        self.with(|core| {
            let users = core.channels.get(&channel).ok_or(NO_CHANNEL)?.users;
            if users != 0 {
                return Err(VerbError::Busy("channel: completion queues report to it"));
            }
            core.channels.remove(&channel);
            Ok(())
        })
    }

    fn get_cq_event(&self, channel: ChannelId, timeout: Timeout) -> Verb<Option<CqId>> {
        let events = self.channel_events(channel)?;
        if let Some(cq) = events.take(Some(std::time::Duration::ZERO)) {
            return Ok(Some(cq));
        }
        self.shared.hand_over();
        Ok(events.take(timeout))
    }

    #[cfg(unix)]
    fn comp_channel_fd(&self, channel: ChannelId) -> Verb<OwnedFd> {
        let events = self.channel_events(channel)?;
        events.descriptor().map_err(|_| VerbError::Full("no more descriptors"))
    }

    fn create_cq(&self, entries: u32, channel: Option<ChannelId>) -> Verb<(CqId, u32)> {
        self.with(|core| {
            if let Some(channel) = channel {
                core.channels.get(&channel).ok_or(NO_CHANNEL)?;
            }
            let cq = core.device.create_cq(entries)?;
            if let Some(id) = channel
                && let Some(channel) = core.channels.get_mut(&id)
            {
                channel.users += 1;
                let events = Arc::clone(&channel.events);
                core.channel_of.insert(cq, events);
                core.channel_id_of.insert(cq, id);
            }
            Ok((cq, entries))
        })
    }

    fn resize_cq(&self, cq: CqId, entries: u32) -> Verb<u32> {
        self.with(|core| core.device.resize_cq(cq, entries))?;
        Ok(entries)
    }

    fn destroy_cq(&self, cq: CqId) -> Verb<()> {
        self.with(|core| {
            core.device.destroy_cq(cq)?;
            if let Some(events) = core.channel_of.remove(&cq) {
                events.retain(|event| *event != cq);
            }
            if let Some(id) = core.channel_id_of.remove(&cq)
                && let Some(channel) = core.channels.get_mut(&id)
            {
                channel.users -= 1;
            }
            Ok(())
        })
    }

    fn poll_cq(&self, cq: CqId, into: &mut [Wc]) -> Verb<usize> {
        let mut core = self.shared.lock();
        let mut taken = core.device.poll_cq(cq, into)?;
        let mut idle_ns = 0;
        if taken == 0 {
            let now = self.shared.now();
            core.receive(now);
            taken = core.device.poll_cq(cq, into)?;
            if taken == 0 {
                core.send(now);
                idle_ns = now.ns_since(core.last_arrival);
            }
            // What is owed for a completion that is handed out leaves with what the program posts
            // next, or at its next look: the program is not kept waiting for it.
        }
        let overrun = taken == 0 && core.device.cq_overran(cq);
        self.shared.take_over();
        self.shared.done_inline(core);
        if overrun {
            return Err(VerbError::Invalid("cq: it has overrun"));
        }
        if idle_ns > SPIN_NS {
            // Both ends may share a processor: whoever waits lets the other one work.
            std::thread::yield_now();
        }
        Ok(taken)
    }

    fn req_notify_cq(&self, cq: CqId, solicited_only: bool) -> Verb<()> {
        self.with(|core| core.device.req_notify_cq(cq, solicited_only))?;
        // Whoever arms is about to sleep, maybe on the channel's descriptor.
        self.shared.hand_over();
        Ok(())
    }

    fn create_srq(&self, pd: PdId, attributes: &SrqAttributes) -> Verb<(SrqId, SrqAttributes)> {
        self.with(|core| {
            let srq = core.device.create_srq(pd, *attributes)?;
            Ok((srq, core.device.query_srq(srq)?))
        })
    }

    fn modify_srq(&self, srq: SrqId, limit: Option<u32>, max_wr: Option<u32>) -> Verb<()> {
        if max_wr.is_some() {
            return Err(VerbError::NotSupported("max_wr: shared receive queues keep their size"));
        }
        match limit {
            Some(limit) => self.with(|core| core.device.set_srq_limit(srq, limit)),
            None => Err(VerbError::Invalid("nothing to change")),
        }
    }

    fn query_srq(&self, srq: SrqId) -> Verb<SrqAttributes> {
        self.with(|core| core.device.query_srq(srq))
    }

    fn destroy_srq(&self, srq: SrqId) -> Verb<()> {
        self.with(|core| core.device.destroy_srq(srq))
    }

    fn post_srq_recv(&self, srq: SrqId, wrs: &[RecvWr<'_>]) -> Result<(), PostError> {
        self.with(|core| each(wrs, |wr| core.device.post_srq_recv(srq, wr)))
    }

    fn create_qp(&self, init: &QpInit) -> Verb<(QpNum, QpCapabilities)> {
        self.with(|core| {
            let qp = core.device.create_qp(init)?;
            Ok((qp, core.device.query_qp(qp)?.0.cap))
        })
    }

    fn modify_qp(&self, qp: QpNum, attributes: &QpAttributes, mask: QpAttributeMask) -> Verb<()> {
        self.with_send(|core| core.device.modify_qp(qp, attributes, mask))
    }

    fn query_qp(&self, qp: QpNum) -> Verb<(QpAttributes, QpInit)> {
        self.with(|core| core.device.query_qp(qp))
    }

    fn destroy_qp(&self, qp: QpNum) -> Verb<()> {
        self.with(|core| core.device.destroy_qp(qp))
    }

    fn post_send(&self, qp: QpNum, wrs: &[SendWr<'_>]) -> Result<(), PostError> {
        let mut core = self.shared.lock();
        let result = each(wrs, |wr| core.device.post_send(qp, wr));
        let now = self.shared.now();
        core.send_first(now, qp);
        self.shared.done_inline(core);
        result
    }

    fn post_recv(&self, qp: QpNum, wrs: &[RecvWr<'_>]) -> Result<(), PostError> {
        self.with(|core| each(wrs, |wr| core.device.post_recv(qp, wr)))
    }

    fn create_ah(&self, pd: PdId, path: &AddressVector) -> Verb<AhId> {
        self.with(|core| core.device.create_ah(pd, *path))
    }

    fn destroy_ah(&self, ah: AhId) -> Verb<()> {
        self.with(|core| core.device.destroy_ah(ah))
    }

    fn attach_mcast(&self, qp: QpNum, group: Gid) -> Verb<()> {
        let joined = self.with(|core| {
            let first = core.device.attach_mcast(qp, group)?;
            if first && core.link.join(group).is_err() {
                core.device.detach_mcast(qp, group)?;
                return Err(VerbError::Unreachable("gid: the interface cannot join the group"));
            }
            Ok(first)
        })?;
        if joined {
            self.rewatch()?;
        }
        Ok(())
    }

    fn detach_mcast(&self, qp: QpNum, group: Gid) -> Verb<()> {
        let left = self.with(|core| {
            let last = core.device.detach_mcast(qp, group)?;
            if last {
                core.link.leave(group);
            }
            Ok::<_, VerbError>(last)
        })?;
        if left {
            self.rewatch()?;
        }
        Ok(())
    }

    fn get_async_event(&self, timeout: Timeout) -> Verb<Option<AsyncEvent>> {
        if let Some(event) = self.asynchronous.take(Some(std::time::Duration::ZERO)) {
            return Ok(Some(event));
        }
        self.shared.hand_over();
        Ok(self.asynchronous.take(timeout))
    }

    #[cfg(unix)]
    fn async_fd(&self) -> Verb<OwnedFd> {
        self.asynchronous.descriptor().map_err(|_| VerbError::Full("no more descriptors"))
    }

    fn counters(&self) -> Verb<Vec<Counter>> {
        Ok(self.with(|core| {
            let device = core.device.counters();
            let link = core.link.counters();
            let named = |(name, value)| Counter { name: Cow::Borrowed(name), value };
            let model = device.iter().map(|(name, _, value)| (name, value));
            model.chain(link.fields()).map(named).collect()
        }))
    }
}

/// How long after the last packet an empty poll returns at once; later ones yield the processor.
const SPIN_NS: u64 = 10_000;

const NO_CHANNEL: VerbError = VerbError::NoSuchObject("channel: no such completion channel");

impl EmulatedContext {
    fn channel_events(&self, channel: ChannelId) -> Verb<Arc<EventQueue<CqId>>> {
        self.with(|core| {
            core.channels.get(&channel).map(|channel| Arc::clone(&channel.events)).ok_or(NO_CHANNEL)
        })
    }

    fn rewatch(&self) -> Verb<()> {
        self.shared
            .watch_sockets()
            .map_err(|_| VerbError::Unreachable("the group's socket cannot be watched"))
    }
}

/// Posts requests until one is refused.
fn each<W>(wrs: &[W], mut post: impl FnMut(&W) -> Result<(), VerbError>) -> Result<(), PostError> {
    for (index, wr) in wrs.iter().enumerate() {
        post(wr).map_err(|error| PostError { index, error })?;
    }
    Ok(())
}
