//! What a device offers to the layers above: the verbs, one method each.
//!
//! Three clients (the typed handles of this crate, the C ABI, the conformance cases) call these
//! traits, and every device (emulated, simulated, hardware) implements them. Objects are named by
//! the numbers that the device gave out; nothing here checks that parents outlive children, but a
//! device answers `EINVAL` for a number that names nothing and `EBUSY` for an object in use.
//!
//! Errors carry the errno of the rdma-core man page named at each method ([`VerbError::errno`]).
//! Every method may also answer `EINVAL` for a number that names no object.

use core::fmt;
use core::hash::{BuildHasher as _, Hasher as _};
use core::time::Duration;
use std::any::Any;
use std::borrow::Cow;
use std::hash::RandomState;
#[cfg(unix)]
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use softrnic_model::verbs::{
    Access, AddressVector, AhId, AsyncEvent, BindInfo, CqId, CqModeration, DeviceAttributes, Gid,
    Key, PdId, PortAttributes, Psn, QpAttributeMask, QpAttributes, QpCapabilities, QpInit, QpNum,
    RecvWr, SendFlags, SendWr, Sge, SrqAttributes, SrqId, SrqInit, SrqNum, VerbError, Wc,
    WindowType, XrcdId,
};

use crate::cm::resolve::SystemResolver;
use crate::cm::{Cm, CmDevice, ConnectionManager, EmulatedManager};

mod memory;

pub use crate::error::PostError;
pub use memory::{Advice, DmId, MemoryCapabilities, OdpCapabilities};

/// What a verb returns.
pub type Verb<T> = Result<T, VerbError>;

/// How long a call may wait for an event: `None` is without end, zero is not at all.
pub type Timeout = Option<Duration>;

/// A source of devices.
pub trait Provider: fmt::Debug + Send + Sync {
    /// The devices there are now (`ibv_get_device_list(3)`).
    ///
    /// # Errors
    /// `ENOMEM`; `EOPNOTSUPP` (rdma-core: `ENOSYS`) where this kind of device cannot exist.
    fn devices(&self) -> Verb<Vec<DeviceInfo>>;

    /// Opens a device by its name (`ibv_open_device(3)`). It is closed when the last reference to
    /// the context is dropped.
    ///
    /// # Errors
    /// `EINVAL`: no such device; `ENOMEM`; `ENETUNREACH`: its address or port cannot be had.
    fn open(&self, name: &str) -> Result<Arc<dyn Context>, OpenFailure>;
}

/// Why a device was not opened: an errno for programs, and a text for people, who need to know
/// which port of which address is in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFailure {
    /// For programs.
    pub error: VerbError,
    /// For people.
    pub reason: String,
}

impl fmt::Display for OpenFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "open_device was refused\n  {} ({})", self.reason, self.error.errno_name())
    }
}

impl core::error::Error for OpenFailure {}

impl From<VerbError> for OpenFailure {
    fn from(error: VerbError) -> Self {
        // The text of the error without its errno, which is shown beside the reason.
        let text = error.to_string();
        let reason = text.rsplit_once(" (").map_or(text.as_str(), |(what, _)| what).into();
        Self { error, reason }
    }
}

/// A device before it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its name, unique in the list: `softrnic0`.
    pub name: String,
    /// Number that names the node, network byte order (`ibv_get_device_guid(3)`).
    pub node_guid: [u8; 8],
}

/// A completion channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId(pub u32);

/// What a completion queue is made with (`ibv_cq_init_attr_ex`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CqInit {
    /// Completions that must fit.
    pub entries: u32,
    /// Where its events go.
    pub channel: Option<ChannelId>,
    /// Whether completions are stamped with the time (`Wc::timestamp`).
    pub timestamps: bool,
}

/// A range of program memory as a caller hands it over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRange {
    /// First byte.
    pub base: *mut u8,
    /// Bytes.
    pub len: usize,
}

/// The keys of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MrKeys {
    /// Local key; it also names the region in the verbs that take one.
    pub lkey: Key,
    /// Remote key.
    pub rkey: Key,
}

/// What `rereg_mr` changes; `None` leaves a thing as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reregistration {
    /// Another protection domain (`IBV_REREG_MR_CHANGE_PD`).
    pub pd: Option<PdId>,
    /// Other memory and the address of its first byte (`IBV_REREG_MR_CHANGE_TRANSLATION`).
    pub memory: Option<(MemoryRange, u64)>,
    /// Other rights (`IBV_REREG_MR_CHANGE_ACCESS`).
    pub access: Option<Access>,
}

/// How a type 1 window is bound (`ibv_mw_bind`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MwBind {
    /// The program's own number of the work request.
    pub wr_id: u64,
    /// `SIGNALED` and `FENCE` mean something.
    pub flags: SendFlags,
    /// What the window is bound to.
    pub info: BindInfo,
}

/// Which packets carry a GID of the table (`ibv_gid_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GidType {
    /// InfiniBand.
    Ib,
    /// RoCE version 1: Ethernet frames.
    RoceV1,
    /// RoCE version 2: UDP.
    RoceV2,
}

/// An entry of the GID table (`ibv_query_gid_ex(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GidEntry {
    /// The GID.
    pub gid: Gid,
    /// What it is for.
    pub gid_type: GidType,
    /// Index of the network interface that it belongs to, 0 if there is none.
    pub interface_index: u32,
}

/// A named number that only grows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Its name, lower case with underscores: `duplicate_request`.
    pub name: Cow<'static, str>,
    /// How often so far.
    pub value: u64,
}

/// An open device. Every method may be called from any thread at any time.
pub trait Context: Any + fmt::Debug + Send + Sync {
    /// What this device was listed as.
    fn device(&self) -> &DeviceInfo;

    /// A connection manager for devices of this kind, without devices.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: there is none, and the text says why.
    fn connection_manager(&self) -> Cm<Arc<dyn ConnectionManager>> {
        Ok(EmulatedManager::new(Arc::new(SystemResolver)))
    }

    /// The device's part in connection management; `None` if it has none that a connection manager of
    /// this crate could use.
    fn communication(&self) -> Option<Arc<dyn CmDevice>> {
        None
    }

    /// What the device can do (`ibv_query_device(3)`).
    ///
    /// # Errors
    /// None on a device that works.
    fn query_device(&self) -> Verb<DeviceAttributes>;

    /// The state of a port (`ibv_query_port(3)`). Ports count from 1.
    ///
    /// # Errors
    /// `EINVAL`: no such port.
    fn query_port(&self, port: u8) -> Verb<PortAttributes>;

    /// An entry of the GID table (`ibv_query_gid_ex(3)`). An index within the table whose entry is
    /// empty gives the zero GID.
    ///
    /// # Errors
    /// `EINVAL`: no such port or index.
    fn query_gid(&self, port: u8, index: u32) -> Verb<GidEntry>;

    /// An entry of the P_Key table, host order (`ibv_query_pkey(3)`).
    ///
    /// # Errors
    /// `EINVAL`: no such port or index.
    fn query_pkey(&self, port: u8, index: u16) -> Verb<u16>;

    /// Makes a protection domain (`ibv_alloc_pd(3)`).
    ///
    /// # Errors
    /// `ENOMEM`: as many as there can be.
    fn alloc_pd(&self) -> Verb<PdId>;

    /// Destroys one (`ibv_dealloc_pd(3)`).
    ///
    /// # Errors
    /// `EBUSY`: regions, queue pairs or others are still in it.
    fn dealloc_pd(&self, pd: PdId) -> Verb<()>;

    /// Which kinds of memory there are (`ibv_query_device_ex(3)`).
    ///
    /// # Errors
    /// None on a device that works.
    fn query_memory(&self) -> Verb<MemoryCapabilities>;

    /// Makes a region that reads as zeros and forgets what is written, over all addresses, and
    /// returns its local key (`ibv_alloc_null_mr(3)`). It ends by [`Context::dereg_mr`].
    ///
    /// # Errors
    /// `ENOMEM`; `EOPNOTSUPP`.
    fn alloc_null_mr(&self, pd: PdId) -> Verb<Key>;

    /// Allocates zeroed memory of the device (`ibv_alloc_dm(3)`), aligned on 2^`log_align` bytes.
    ///
    /// # Errors
    /// `EINVAL`: no bytes, or an alignment that cannot be had; `ENOMEM`: more than there is;
    /// `EOPNOTSUPP`.
    fn alloc_dm(&self, len: usize, log_align: u32) -> Verb<DmId>;

    /// Frees it (`ibv_free_dm(3)`).
    ///
    /// # Errors
    /// `EBUSY`: a region is registered over it.
    fn free_dm(&self, dm: DmId) -> Verb<()>;

    /// Registers a part of device memory (`ibv_reg_dm_mr(3)`): addresses count from its first byte.
    ///
    /// # Errors
    /// `EINVAL`: no `ZERO_BASED`, a range beyond the memory, rights that do not go together;
    /// `ENOMEM`.
    fn reg_dm_mr(
        &self,
        pd: PdId,
        dm: DmId,
        offset: u64,
        len: usize,
        access: Access,
    ) -> Verb<MrKeys>;

    /// Copies into device memory (`ibv_memcpy_to_dm(3)`).
    ///
    /// # Errors
    /// `EFAULT`: beyond the memory.
    fn memcpy_to_dm(&self, dm: DmId, offset: u64, bytes: &[u8]) -> Verb<()>;

    /// Copies out of device memory (`ibv_memcpy_from_dm(3)`).
    ///
    /// # Errors
    /// `EFAULT`: beyond the memory.
    fn memcpy_from_dm(&self, dm: DmId, offset: u64, into: &mut [u8]) -> Verb<()>;

    /// Tells what a program expects to do with ranges of `ON_DEMAND` regions
    /// (`ibv_advise_mr(3)`). It is done when this returns.
    ///
    /// # Errors
    /// `EINVAL`: no ranges, the key of a window, or a region that is not `ON_DEMAND`; `ENOENT`: not
    /// the key of a region; `EPERM`: a region of another domain, or one that may not be written;
    /// `EFAULT`: a range beyond the region, or not memory.
    fn advise_mr(&self, pd: PdId, advice: Advice, sges: &[Sge]) -> Verb<()>;

    /// Registers memory (`ibv_reg_mr_iova(3)`). With `ON_DEMAND`, the range from address 0 of
    /// `usize::MAX` bytes stands for all memory of the program, also what will be mapped later
    /// (implicit on-demand paging); the contract below is then for all of it. `iova` is the address by which work requests and
    /// peers name the first byte; it is ignored with `ZERO_BASED`.
    ///
    /// # Errors
    /// `EINVAL`: rights that do not go together, an empty range, or one that wraps; `EFAULT`: the
    /// range is not memory that may be read (and written, if a right says so), which is not asked of
    /// `ON_DEMAND` ones; `ENOMEM`: as many
    /// regions as there can be, or too long; `EOPNOTSUPP`: a right that the device does not know.
    ///
    /// # Safety
    /// Until [`Context::dereg_mr`] (or a [`Context::rereg_mr`] to other memory) has returned `Ok`,
    /// the device may read the range at any time, from any thread, and write it if `access` has a
    /// right to write; its accesses count as relaxed atomic ones of single bytes. For that long
    /// the caller keeps the range allocated and uses it only in ways that go together with that:
    /// by atomics, by raw copies of its own, never by a plain Rust reference.
    #[expect(unsafe_code, reason = "the caller vouches for memory that the device will touch")]
    unsafe fn reg_mr(
        &self,
        pd: PdId,
        memory: MemoryRange,
        iova: u64,
        access: Access,
    ) -> Verb<MrKeys>;

    /// Changes a region (`ibv_rereg_mr(3)`) and returns its keys from now on. When this fails the
    /// region is as it was on an emulated device; on others it may only be deregistered.
    ///
    /// # Errors
    /// As [`Context::reg_mr`]; `EBUSY`: a window is bound to it.
    ///
    /// # Safety
    /// As [`Context::reg_mr`], for the memory and the rights that the region has afterwards; after
    /// an error, for the memory and the rights of before and of the change.
    #[expect(unsafe_code, reason = "the caller vouches for memory that the device will touch")]
    unsafe fn rereg_mr(&self, lkey: Key, change: &Reregistration) -> Verb<MrKeys>;

    /// Ends a registration (`ibv_dereg_mr(3)`). After `Ok` the device does not touch the memory.
    ///
    /// # Errors
    /// `EBUSY`: a window is bound to it; the region stays.
    fn dereg_mr(&self, lkey: Key) -> Verb<()>;

    /// Makes a memory window (`ibv_alloc_mw(3)`) and returns its key. The index part of the key
    /// names the window for good; the variant part changes with every bind.
    ///
    /// # Errors
    /// `ENOMEM`: as many as there can be; `EOPNOTSUPP`: not this type.
    fn alloc_mw(&self, pd: PdId, window_type: WindowType) -> Verb<Key>;

    /// Destroys a window, bound or not (`ibv_dealloc_mw(3)`).
    ///
    /// # Errors
    /// `EBUSY`: a bind of it is in progress.
    fn dealloc_mw(&self, window: Key) -> Verb<()>;

    /// Posts a bind of a type 1 window to the send queue of `qp` (`ibv_bind_mw(3)`) and returns
    /// the key that it will have. Type 2 windows are bound by [`Context::post_send`].
    ///
    /// # Errors
    /// `EINVAL`: a type 2 window, or ranges and rights that the region does not allow; `ENOMEM`:
    /// the send queue is full; `EOPNOTSUPP`.
    fn bind_mw(&self, qp: QpNum, window: Key, bind: &MwBind) -> Verb<Key>;

    /// Makes a completion channel (`ibv_create_comp_channel(3)`).
    ///
    /// # Errors
    /// `ENOMEM`: no more descriptors.
    fn create_comp_channel(&self) -> Verb<ChannelId>;

    /// Destroys one (`ibv_destroy_comp_channel(3)`).
    ///
    /// # Errors
    /// `EBUSY`: a completion queue still reports to it.
    fn destroy_comp_channel(&self, channel: ChannelId) -> Verb<()>;

    /// Waits for an event of an armed completion queue and takes it (`ibv_get_cq_event(3)`); `None`
    /// when the time is over. Events count as acknowledged when they are taken.
    ///
    /// # Errors
    /// `EINVAL`.
    fn get_cq_event(&self, channel: ChannelId, timeout: Timeout) -> Verb<Option<CqId>>;

    /// The same as `read(2)` of [`Context::comp_channel_fd`] would: waits unless `O_NONBLOCK` is set on
    /// that descriptor, and signals interrupt it as they interrupt a read.
    ///
    /// # Errors
    /// `EAGAIN`, `EINTR`; `EINVAL`; `EOPNOTSUPP`: a device without descriptors.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn read_cq_event(&self, channel: ChannelId) -> std::io::Result<CqId> {
        let _ = channel;
        Err(std::io::Error::from_raw_os_error(VerbError::NotSupported("").errno()))
    }

    /// A descriptor that polls as readable while the channel holds an event. It is a duplicate and
    /// may outlive the channel; nothing may be read from it. `O_NONBLOCK` on it matters to
    /// [`Context::read_cq_event`] only.
    ///
    /// # Errors
    /// `ENOMEM`: no more descriptors; `EOPNOTSUPP`: a simulated device has none.
    #[cfg(unix)]
    fn comp_channel_fd(&self, channel: ChannelId) -> Verb<OwnedFd>;

    /// Makes a completion queue of at least `entries` (`ibv_create_cq(3)`); the number returned
    /// beside it is what was granted.
    ///
    /// # Errors
    /// `EINVAL`: no entries; `ENOMEM`: more than a queue may have, or no more queues.
    fn create_cq(&self, entries: u32, channel: Option<ChannelId>) -> Verb<(CqId, u32)>;

    /// Makes a completion queue (`ibv_create_cq_ex(3)`); otherwise as [`Context::create_cq`].
    ///
    /// # Errors
    /// As [`Context::create_cq`]; `EOPNOTSUPP`: no timestamps.
    fn create_cq_ex(&self, init: &CqInit) -> Verb<(CqId, u32)>;

    /// The device's clock now (`ibv_query_rt_values_ex(3)`): in ticks of
    /// `DeviceAttributes::core_clock_khz`, the same that stamps completions.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: it has none.
    fn query_clock(&self) -> Verb<u64>;

    /// Changes how many events the queue raises (`ibv_modify_cq(3)`).
    ///
    /// # Errors
    /// `EINVAL`: more than the device can hold back; `EOPNOTSUPP`.
    fn moderate_cq(&self, cq: CqId, moderation: CqModeration) -> Verb<()>;

    /// Changes the size (`ibv_resize_cq(3)`) and returns what was granted. Nothing is lost.
    ///
    /// # Errors
    /// `EINVAL`: fewer entries than completions that wait; `ENOMEM`; `EOPNOTSUPP`.
    fn resize_cq(&self, cq: CqId, entries: u32) -> Verb<u32>;

    /// Destroys one (`ibv_destroy_cq(3)`).
    ///
    /// # Errors
    /// `EBUSY`: a queue pair uses it.
    fn destroy_cq(&self, cq: CqId) -> Verb<()>;

    /// Takes completions, oldest first, and returns how many (`ibv_poll_cq(3)`). Makes progress
    /// even when there is none to take.
    ///
    /// # Errors
    /// `EINVAL`: no such queue, or it has overrun.
    fn poll_cq(&self, cq: CqId, into: &mut [Wc]) -> Verb<usize>;

    /// Polls until there is a completion to take, or the time is over (0): what a program does that
    /// spins on [`Context::poll_cq`]. A simulated device counts the time of its fabric.
    ///
    /// # Errors
    /// As [`Context::poll_cq`]; `EINVAL`: a simulated device on whose fabric nothing will ever happen
    /// again, and no end of the time.
    fn wait_cq(&self, cq: CqId, into: &mut [Wc], timeout: Timeout) -> Verb<usize> {
        spin(timeout, || self.poll_cq(cq, into))
    }

    /// Arms the queue for one event (`ibv_req_notify_cq(3)`): at the next completion, or with
    /// `solicited_only` at the next that is solicited or in error. Completions that are already
    /// there raise none, so poll again after arming.
    ///
    /// # Errors
    /// `EINVAL`.
    fn req_notify_cq(&self, cq: CqId, solicited_only: bool) -> Verb<()>;

    /// Makes a shared receive queue (`ibv_create_srq(3)`) and returns what was granted.
    ///
    /// # Errors
    /// `EINVAL`: a size of zero; `ENOMEM`: more than the device has.
    fn create_srq(&self, pd: PdId, attributes: &SrqAttributes) -> Verb<(SrqId, SrqAttributes)>;

    /// Makes a shared receive queue, basic or for XRC (`ibv_create_srq_ex(3)`), and returns what was
    /// granted.
    ///
    /// # Errors
    /// As [`Context::create_srq`]; `EOPNOTSUPP`: no XRC.
    fn create_srq_ex(&self, init: &SrqInit) -> Verb<(SrqId, SrqAttributes)>;

    /// The number by which requests of XRC name a shared receive queue (`ibv_get_srq_num(3)`).
    ///
    /// # Errors
    /// `EOPNOTSUPP`: it is not for XRC.
    fn srq_number(&self, srq: SrqId) -> Verb<SrqNum>;

    /// Makes an XRC domain, open once (`ibv_open_xrcd(3)`).
    ///
    /// # Errors
    /// `ENOMEM`: no more domains; `EOPNOTSUPP`: no XRC.
    fn open_xrcd(&self) -> Verb<XrcdId>;

    /// Opens a domain once more: whoever finds it by a file that it is associated with.
    ///
    /// # Errors
    /// `EINVAL`; `EOPNOTSUPP`: no XRC.
    fn share_xrcd(&self, xrcd: XrcdId) -> Verb<()>;

    /// Closes a domain once, and destroys it if that was the last time (`ibv_close_xrcd(3)`).
    ///
    /// # Errors
    /// `EBUSY`: it was the last time, and queue pairs or shared receive queues belong to it.
    fn close_xrcd(&self, xrcd: XrcdId) -> Verb<()>;

    /// Sets the limit, the size, or both (`ibv_modify_srq(3)`).
    ///
    /// # Errors
    /// `EINVAL`: nothing to change, a limit above the size, or a size below the receives in the queue;
    /// `ENOMEM`; `EOPNOTSUPP`: resizing.
    fn modify_srq(&self, srq: SrqId, limit: Option<u32>, max_wr: Option<u32>) -> Verb<()>;

    /// Its attributes now (`ibv_query_srq(3)`).
    ///
    /// # Errors
    /// `EINVAL`.
    fn query_srq(&self, srq: SrqId) -> Verb<SrqAttributes>;

    /// Destroys one (`ibv_destroy_srq(3)`).
    ///
    /// # Errors
    /// `EBUSY`: a queue pair uses it.
    fn destroy_srq(&self, srq: SrqId) -> Verb<()>;

    /// Posts receives (`ibv_post_srq_recv(3)`).
    ///
    /// # Errors
    /// In [`PostError`]: `EINVAL`: too many elements; `ENOMEM`: the queue is full.
    fn post_srq_recv(&self, srq: SrqId, wrs: &[RecvWr<'_>]) -> Result<(), PostError>;

    /// Makes a queue pair (`ibv_create_qp(3)`) and returns the sizes that were granted.
    ///
    /// # Errors
    /// `EINVAL`: objects of different domains, or a size above the device's; `ENOMEM`: no more
    /// queue pairs; `EOPNOTSUPP`: not this type.
    fn create_qp(&self, init: &QpInit) -> Verb<(QpNum, QpCapabilities)>;

    /// Opens an XRC target that exists once more (`ibv_open_qp(3)`): it takes one more
    /// [`Context::destroy_qp`] to destroy it.
    ///
    /// # Errors
    /// `EINVAL`: no target of that number in the domain; `EOPNOTSUPP`: no XRC.
    fn open_qp(&self, xrcd: XrcdId, qp: QpNum) -> Verb<()>;

    /// Changes attributes, the state above all (`ibv_modify_qp(3)`).
    ///
    /// # Errors
    /// `EINVAL`: no such transition, an attribute is missing, not allowed or out of range;
    /// `ENETUNREACH`: no route to the peer.
    fn modify_qp(&self, qp: QpNum, attributes: &QpAttributes, mask: QpAttributeMask) -> Verb<()>;

    /// Attributes now and at creation (`ibv_query_qp(3)`).
    ///
    /// # Errors
    /// `EINVAL`.
    fn query_qp(&self, qp: QpNum) -> Verb<(QpAttributes, QpInit)>;

    /// Destroys one (`ibv_destroy_qp(3)`). What is still posted never completes. An XRC target that is
    /// open more than once is closed once.
    ///
    /// # Errors
    /// `EBUSY`: attached to a multicast group.
    fn destroy_qp(&self, qp: QpNum) -> Verb<()>;

    /// Posts sends (`ibv_post_send(3)`).
    ///
    /// # Errors
    /// In [`PostError`]: `EINVAL`: the queue pair is not in a state to send, too many elements or
    /// inline bytes, an operation that its type does not have; `ENOMEM`: the queue is full.
    fn post_send(&self, qp: QpNum, wrs: &[SendWr<'_>]) -> Result<(), PostError>;

    /// Posts receives (`ibv_post_recv(3)`).
    ///
    /// # Errors
    /// In [`PostError`]: `EINVAL`: the queue pair is in `Reset` or has a shared receive queue, or
    /// too many elements; `ENOMEM`: the queue is full.
    fn post_recv(&self, qp: QpNum, wrs: &[RecvWr<'_>]) -> Result<(), PostError>;

    /// A PSN for a queue pair to start with that nobody can foresee. A simulated device has it from the
    /// seed of its fabric.
    fn draw_psn(&self) -> Psn {
        random_psn()
    }

    /// Makes an address handle (`ibv_create_ah(3)`).
    ///
    /// # Errors
    /// `EINVAL`: no such source GID; `ENETUNREACH`: no route; `ENOMEM`.
    fn create_ah(&self, pd: PdId, path: &AddressVector) -> Verb<AhId>;

    /// Destroys one (`ibv_destroy_ah(3)`). Sends that were posted with it are not affected.
    ///
    /// # Errors
    /// `EINVAL`.
    fn destroy_ah(&self, ah: AhId) -> Verb<()>;

    /// Lets a datagram queue pair receive from a group (`ibv_attach_mcast(3)`).
    ///
    /// # Errors
    /// `EINVAL`: not a group, or not a datagram queue pair; `ENOMEM`: no more groups or members.
    fn attach_mcast(&self, qp: QpNum, group: Gid) -> Verb<()>;

    /// Ends that (`ibv_detach_mcast(3)`).
    ///
    /// # Errors
    /// `EINVAL`: not attached.
    fn detach_mcast(&self, qp: QpNum, group: Gid) -> Verb<()>;

    /// Waits for an asynchronous event and takes it (`ibv_get_async_event(3)`); `None` when the
    /// time is over. Events count as acknowledged when they are taken.
    ///
    /// # Errors
    /// None on a device that works.
    fn get_async_event(&self, timeout: Timeout) -> Verb<Option<AsyncEvent>>;

    /// The same as `read(2)` of [`Context::async_fd`] would; otherwise as [`Context::read_cq_event`].
    ///
    /// # Errors
    /// `EAGAIN`, `EINTR`; `EOPNOTSUPP`: a device without descriptors.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn read_async_event(&self) -> std::io::Result<AsyncEvent> {
        Err(std::io::Error::from_raw_os_error(VerbError::NotSupported("").errno()))
    }

    /// A descriptor that polls as readable while an asynchronous event waits; otherwise as
    /// [`Context::comp_channel_fd`].
    ///
    /// # Errors
    /// As [`Context::comp_channel_fd`].
    #[cfg(unix)]
    fn async_fd(&self) -> Verb<OwnedFd>;

    /// Sends now what peers are owed, acknowledgements above all. A device does so by itself after a
    /// moment; a process that ends may not have that long.
    fn flush(&self) {}

    /// What the device and its link have counted, in a fixed order.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: this device tells nothing.
    fn counters(&self) -> Verb<Vec<Counter>>;
}

/// Polls until there is something, or the time is over.
pub(crate) fn spin(timeout: Timeout, mut poll: impl FnMut() -> Verb<usize>) -> Verb<usize> {
    // An end of time that the clock cannot tell never comes.
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let taken = poll()?;
        if taken != 0 || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Ok(taken);
        }
        core::hint::spin_loop();
    }
}

pub(crate) fn random_psn() -> Psn {
    // The keys of the standard library's hasher are its only source of chance.
    let chance = RandomState::new().build_hasher().finish().to_le_bytes();
    Psn::new(u32::from_le_bytes([chance[0], chance[1], chance[2], chance[3]]))
}
