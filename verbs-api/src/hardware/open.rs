//! An open device.

use std::fmt;
use std::sync::{Arc, OnceLock};

use softrnic_model::verbs::{
    AhId, DeviceCapabilities, Key, QpCapabilities, QpInit, VerbError, WindowType,
};

use super::convert::device_attributes;
use super::errno::refusal;
use super::layout::{
    Ptr, Zeroed, ibv_ah, ibv_comp_channel, ibv_context, ibv_cq_ex, ibv_device_attr_ex, ibv_dm,
    ibv_mr, ibv_mw, ibv_pd, ibv_qp_ex, ibv_qp_init_attr, ibv_srq, ibv_xrcd, verbs_context,
};
use super::library::Library;
use super::life::{Life, Watcher};
use super::posting::Names;
use super::table::{Handle, Look, Table};
use crate::provider::{DeviceInfo, OpenFailure, Verb};

/// A real device that is open. It is closed, with all that is still on it, when this is dropped.
pub struct HardwareContext {
    pub(super) info: DeviceInfo,
    pub(super) library: Arc<Library>,
    pub(super) handle: Handle<ibv_context>,
    watcher: Watcher,
    /// Whether queue pairs can be made for FLUSH.
    flushes: OnceLock<bool>,
    /// The largest inline size of a queue pair; nothing tells it but a trial.
    max_inline: OnceLock<u32>,
    pub(super) pds: Table<Handle<ibv_pd>>,
    pub(super) mrs: Table<Region>,
    pub(super) mws: Table<Window>,
    pub(super) dms: Table<Handle<ibv_dm>>,
    pub(super) channels: Table<Channel>,
    pub(super) cqs: Table<CompletionQueue>,
    pub(super) srqs: Table<Handle<ibv_srq>>,
    pub(super) qps: Table<QueuePair>,
    pub(super) ahs: Table<Handle<ibv_ah>>,
    pub(super) xrcds: Table<Domain>,
}

/// A region, by its local key.
#[derive(Debug)]
pub(super) struct Region {
    pub(super) handle: Handle<ibv_mr>,
    /// Others with the same key: some devices have one for all regions of nothing.
    pub(super) others: Vec<Handle<ibv_mr>>,
}

/// A window, by the index of its key.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) handle: Handle<ibv_mw>,
    pub(super) kind: WindowType,
}

/// A completion channel.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) handle: Handle<ibv_comp_channel>,
    /// Readable while the channel has an event, and for good once the device has failed.
    pub(super) wait: Arc<std::os::fd::OwnedFd>,
}

/// A completion queue.
#[derive(Debug)]
pub(super) struct CompletionQueue {
    pub(super) handle: Handle<ibv_cq_ex>,
    /// Made by `ibv_create_cq_ex` for timestamps: the frequency of their clock in kHz.
    pub(super) clock_khz: Option<u64>,
}

/// A queue pair, by its number.
#[derive(Debug)]
pub(super) struct QueuePair {
    pub(super) handle: Handle<ibv_qp_ex>,
    /// What `ibv_open_qp` has given besides.
    pub(super) opened: Vec<Handle<ibv_qp_ex>>,
    pub(super) init: QpInit,
}

/// An XRC domain.
#[derive(Debug)]
pub(super) struct Domain {
    pub(super) handle: Handle<ibv_xrcd>,
    /// How often it is open.
    pub(super) opened: u32,
}

impl fmt::Debug for HardwareContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HardwareContext").field("info", &self.info).finish_non_exhaustive()
    }
}

/// The function `$field` of `verbs_context`, if the library knows it and the device has it.
macro_rules! extended {
    ($context:expr, $field:ident) => {
        $context
            .extended(core::mem::offset_of!($crate::hardware::layout::verbs_context, $field))
            // SAFETY: the library's struct reaches that far.
            .and_then(|extended| unsafe { (*extended.as_ptr()).$field })
            .ok_or(softrnic_model::verbs::VerbError::NotSupported(concat!(
                "the device or its library has no ",
                stringify!($field)
            )))
    };
}
pub(super) use extended;

impl HardwareContext {
    pub(super) fn new(
        library: &Arc<Library>,
        context: Ptr<ibv_context>,
        info: DeviceInfo,
    ) -> Result<Self, OpenFailure> {
        let handle = Handle::new(context);
        let watcher = match Watcher::start(library, handle) {
            Ok(watcher) => watcher,
            Err(error) => {
                // SAFETY: it was opened a moment ago, and nothing has been made on it.
                unsafe { (library.ibv_close_device)(context) };
                return Err(OpenFailure {
                    error: refusal(error.raw_os_error().unwrap_or(12), "no room for the device"),
                    reason: format!("{}: no room for its events: {error}", info.name),
                });
            }
        };
        Ok(Self {
            info,
            library: Arc::clone(library),
            handle,
            watcher,
            flushes: OnceLock::new(),
            max_inline: OnceLock::new(),
            pds: Table::new("pd: no such protection domain"),
            mrs: Table::new("lkey: no such region"),
            mws: Table::new("window: no such window"),
            dms: Table::new("dm: no such device memory"),
            channels: Table::new("channel: no such channel"),
            cqs: Table::new("cq: no such completion queue"),
            srqs: Table::new("srq: no such shared receive queue"),
            qps: Table::new("qp: no such queue pair"),
            ahs: Table::new("ah: no such address handle"),
            xrcds: Table::new("xrcd: no such XRC domain"),
        })
    }

    pub(super) fn life(&self) -> &Life {
        &self.watcher.life
    }

    pub(super) const fn context(&self) -> Ptr<ibv_context> {
        self.handle.ptr()
    }

    /// Judges what a verb has returned.
    pub(super) fn done(&self, returned: core::ffi::c_int, what: &'static str) -> Verb<()> {
        self.life().done(returned, what)
    }

    /// The struct around the context, if there is one that has a field at `offset`: it grows at its
    /// front.
    pub(super) fn extended(&self, offset: usize) -> Option<Ptr<verbs_context>> {
        /// What `abi_compat` holds in a context that has it (`__VERBS_ABI_IS_EXTENDED`).
        const EXTENDED: usize = usize::MAX;
        let context = self.handle.as_ptr();
        // SAFETY: the context is open.
        if unsafe { (*context).abi_compat } != EXTENDED {
            return None;
        }
        let whole = context
            .wrapping_byte_sub(core::mem::offset_of!(verbs_context, context))
            .cast::<verbs_context>();
        // SAFETY: the size stands right before the context, in whatever version.
        let known = unsafe { (&raw const (*whole).sz).read() };
        (known >= size_of::<verbs_context>() - offset).then(|| Ptr::new(whole)).flatten()
    }

    /// What the device tells of itself.
    pub(super) fn device_attr(&self) -> Verb<ibv_device_attr_ex> {
        let what = "the device cannot be asked";
        let mut attr = ibv_device_attr_ex::zeroed();
        if let Ok(query) = extended!(self, query_device_ex) {
            let size = size_of::<ibv_device_attr_ex>();
            // SAFETY: the place is ours and as large as said.
            let asked = unsafe { query(Some(self.context()), None, &raw mut attr, size) };
            if asked == 0 {
                return Ok(attr);
            }
        }
        let base = &raw mut attr.orig_attr;
        // SAFETY: the place is ours.
        let asked = unsafe { (self.library.ibv_query_device)(self.context(), base) };
        self.done(asked, what)?;
        Ok(attr)
    }

    /// Whether the device has FLUSH, and the library the interface by which it is posted.
    pub(super) fn can_flush(&self) -> bool {
        *self.flushes.get_or_init(|| {
            let flush = DeviceCapabilities::FLUSH_GLOBAL | DeviceCapabilities::FLUSH_PERSISTENT;
            let known = self.library.ibv_qp_to_qp_ex.is_some();
            let attr = self.device_attr();
            known && attr.is_ok_and(|attr| attr.device_cap_flags_ex & flush.bits() != 0)
        })
    }

    /// The frequency of the clock that stamps completions, in kHz.
    pub(super) fn clock_khz(&self) -> Verb<u64> {
        Ok(self.device_attr()?.hca_core_clock)
    }

    pub(super) fn attributes(&self) -> Verb<softrnic_model::verbs::DeviceAttributes> {
        Ok(device_attributes(&self.device_attr()?, self.max_inline()))
    }

    /// The largest inline size that a reliable connection is made with.
    fn max_inline(&self) -> u32 {
        *self.max_inline.get_or_init(|| {
            let library = &self.library;
            // SAFETY: the context is open; what is made here is destroyed here, in order.
            unsafe {
                let Some(pd) = (library.ibv_alloc_pd)(self.context()) else { return 0 };
                let cq = (library.ibv_create_cq)(self.context(), 1, core::ptr::null_mut(), None, 0);
                let found = cq.and_then(|cq| self.try_inline(pd, cq));
                if let Some(cq) = cq {
                    (library.ibv_destroy_cq)(cq);
                }
                (library.ibv_dealloc_pd)(pd);
                found.unwrap_or(0)
            }
        })
    }

    /// # Safety
    /// Both objects are there.
    unsafe fn try_inline(&self, pd: Ptr<ibv_pd>, cq: Ptr<ibv_cq_ex>) -> Option<u32> {
        const SIZES: [u32; 9] = [4096, 2048, 1024, 512, 256, 188, 128, 64, 32];
        let library = &self.library;
        SIZES.into_iter().find_map(|max_inline_data| {
            let mut init = ibv_qp_init_attr::zeroed();
            (init.send_cq, init.recv_cq) = (Some(cq), Some(cq));
            init.qp_type = softrnic_model::verbs::QpType::Rc as u32;
            init.cap = (&QpCapabilities {
                max_send_wr: 1,
                max_recv_wr: 1,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data,
            })
                .into();
            // SAFETY: the caller's objects; the queue pair goes at once.
            unsafe {
                let qp = (library.ibv_create_qp)(pd, &raw mut init)?;
                (library.ibv_destroy_qp)(qp);
            }
            Some(init.cap.max_inline_data.max(max_inline_data))
        })
    }

    /// Why a device that has said `errno` does not reach a peer by this entry of the GID table.
    pub(super) fn why_unreachable(&self, port: u8, sgid_index: u8, errno: i32) -> VerbError {
        /// `ETIMEDOUT`, `EHOSTUNREACH`, `ENETUNREACH`: what looking for the peer ends with.
        const SILENCE: [i32; 3] = [110, 113, 101];
        let port_is_down = || {
            let port = self.port_attributes(port).ok()?;
            Some(port.state == softrnic_model::verbs::PortState::Down)
        };
        let gid_is_empty = || {
            let entry = self.gid_entry(port, sgid_index.into()).ok()?;
            Some(entry.gid == softrnic_model::verbs::Gid::default())
        };
        let what = if port_is_down() == Some(true) {
            "the port is down: bring its interface up (ip link set DEVICE up)"
        } else if gid_is_empty() == Some(true) {
            "sgid_index: the entry of the GID table is empty: give the interface an address, or name \
             an entry that has one"
        } else if SILENCE.contains(&errno) {
            "nobody answers for the address of the peer on the network of the source GID"
        } else {
            "the device refused the attributes"
        };
        self.life().refused(errno, what)
    }

    /// What has to go before the device can be closed. Errors have nobody to go to.
    fn destroy_all(&self) {
        let library = &self.library;
        let (free_dm, close_xrcd) = (extended!(self, free_dm), extended!(self, close_xrcd));
        // SAFETY: everything was made by the library and destroyed by nobody; users go before what they
        // use.
        unsafe {
            for qp in self.qps.drain() {
                for opened in qp.opened.into_iter().chain([qp.handle]) {
                    (library.ibv_destroy_qp)(opened.ptr());
                }
            }
            for ah in self.ahs.drain() {
                (library.ibv_destroy_ah)(ah.ptr());
            }
            for window in self.mws.drain() {
                if let Some(dealloc) = (*self.handle.as_ptr()).ops.dealloc_mw {
                    dealloc(Some(window.handle.ptr()));
                }
            }
            for region in self.mrs.drain() {
                for mr in region.others.into_iter().chain([region.handle]) {
                    (library.ibv_dereg_mr)(mr.ptr());
                }
            }
            for srq in self.srqs.drain() {
                (library.ibv_destroy_srq)(srq.ptr());
            }
            for cq in self.cqs.drain() {
                (library.ibv_destroy_cq)(cq.handle.ptr());
            }
            for channel in self.channels.drain() {
                (library.ibv_destroy_comp_channel)(channel.handle.ptr());
            }
            if let Ok(free) = free_dm {
                for dm in self.dms.drain() {
                    free(Some(dm.ptr()));
                }
            }
            if let Ok(close) = close_xrcd {
                for domain in self.xrcds.drain() {
                    close(Some(domain.handle.ptr()));
                }
            }
            for pd in self.pds.drain() {
                (library.ibv_dealloc_pd)(pd.ptr());
            }
        }
    }
}

impl Drop for HardwareContext {
    fn drop(&mut self) {
        self.watcher.end();
        self.destroy_all();
        // SAFETY: nothing is left on it, and nobody else has it.
        unsafe { (self.library.ibv_close_device)(self.context()) };
    }
}

/// What the work requests of one post name, kept in place until they are posted.
pub(super) struct Named<'a> {
    context: &'a HardwareContext,
    ahs: std::cell::OnceCell<Look<'a, Handle<ibv_ah>>>,
    mrs: std::cell::OnceCell<Look<'a, Region>>,
    mws: std::cell::OnceCell<Look<'a, Window>>,
}

impl<'a> Named<'a> {
    pub(super) const fn new(context: &'a HardwareContext) -> Self {
        Self {
            context,
            ahs: std::cell::OnceCell::new(),
            mrs: std::cell::OnceCell::new(),
            mws: std::cell::OnceCell::new(),
        }
    }
}

impl Names for Named<'_> {
    fn ah(&self, ah: AhId) -> Verb<Ptr<ibv_ah>> {
        Ok(self.ahs.get_or_init(|| self.context.ahs.look()).get(ah.0)?.ptr())
    }

    fn mr(&self, lkey: Key) -> Verb<Ptr<ibv_mr>> {
        Ok(self.mrs.get_or_init(|| self.context.mrs.look()).get(lkey.0)?.handle.ptr())
    }

    fn mw(&self, window: Key) -> Verb<Ptr<ibv_mw>> {
        Ok(self.mws.get_or_init(|| self.context.mws.look()).get(window.index())?.handle.ptr())
    }
}
