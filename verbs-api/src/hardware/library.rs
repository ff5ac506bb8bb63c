//! libibverbs, loaded at run time.

use core::ffi::{CStr, c_char, c_int, c_void};
use std::ffi::OsStr;
use std::fmt;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use libloading::os::unix::{Library as Loaded, RTLD_LOCAL, RTLD_NOW};

use super::HardwareConfig;
use super::cm::{self, ManagerLoadError};
use super::elf;
use super::layout::{
    Ptr, ibv_ah, ibv_ah_attr, ibv_async_event, ibv_comp_channel, ibv_context, ibv_cq_ex,
    ibv_device, ibv_device_attr, ibv_gid, ibv_gid_entry, ibv_mr, ibv_pd, ibv_port_attr,
    ibv_qp_attr, ibv_qp_ex, ibv_qp_init_attr, ibv_srq, ibv_srq_attr, ibv_srq_init_attr,
};

/// What it is called wherever it is installed.
pub(super) const NAME: &str = "libibverbs.so.1";
/// A function that softrnic's own library has and no other.
pub(super) const OWN: &CStr = c"softrnic_version";

/// Why there is no libibverbs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadError {
    /// The dynamic linker does not load it, for this reason.
    Absent {
        /// What was looked for.
        library: String,
        /// What the linker said.
        reason: String,
    },
    /// It is softrnic's own, which has no real devices, and nobody asked for it by path.
    Own,
    /// It has no function of this name.
    Incomplete {
        /// What was loaded.
        library: String,
        /// The function.
        function: &'static str,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent { library, reason } => write!(
                f,
                "{library} cannot be loaded: {reason}; install rdma-core (Debian, Ubuntu: libibverbs1 \
                 and ibverbs-providers; Fedora: libibverbs), or name the library by \
                 SOFTRNIC_LIBIBVERBS"
            ),
            Self::Own => write!(
                f,
                "the {NAME} that the linker finds is softrnic's own, which drives no hardware; \
                 start the program without `softrnic run` (LD_LIBRARY_PATH, LD_PRELOAD), or name a \
                 library by its path (SOFTRNIC_LIBIBVERBS)"
            ),
            Self::Incomplete { library, function } => write!(
                f,
                "{library} has no function {function}: it is no libibverbs, or one that is too old; \
                 install that of rdma-core 24 or newer"
            ),
        }
    }
}

impl core::error::Error for LoadError {}

/// Declares the functions that are called by name: those that must be there, and those that younger
/// libraries have besides.
macro_rules! functions {
    (
        required { $($(#[$doc:meta])* $name:ident: fn($($arg:ty),* $(,)?) $(-> $ret:ty)?;)* }
        optional { $($(#[$odoc:meta])* $oname:ident: fn($($oarg:ty),* $(,)?) $(-> $oret:ty)?;)* }
    ) => {
        /// The functions of the library. They are there for as long as the process lasts.
        pub(super) struct Library {
            $($(#[$doc])* pub(super) $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*
            $($(#[$odoc])* pub(super) $oname: Option<unsafe extern "C" fn($($oarg),*) $(-> $oret)?>,)*
            /// How it was asked for.
            pub(super) config: HardwareConfig,
            /// The librdmacm that belongs to it, once somebody has asked for that.
            manager: OnceLock<Result<Arc<cm::Library>, ManagerLoadError>>,
            /// Never unloaded: providers have threads and handlers of their own.
            loaded: ManuallyDrop<Loaded>,
        }

        impl Library {
            fn bind(
                loaded: Loaded,
                library: &str,
                config: &HardwareConfig,
            ) -> Result<Self, LoadError> {
                Ok(Self {
                    $($name: {
                        const NAME: &str = stringify!($name);
                        // SAFETY: the type is that of the man page.
                        let found = unsafe { loaded.get(NAME.as_bytes()) };
                        *found.map_err(|_| LoadError::Incomplete {
                            library: library.into(),
                            function: NAME,
                        })?
                    },)*
                    $($oname: {
                        // SAFETY: as above.
                        unsafe { loaded.get(stringify!($oname).as_bytes()) }.ok().map(|found| *found)
                    },)*
                    config: config.clone(),
                    manager: OnceLock::new(),
                    loaded: ManuallyDrop::new(loaded),
                })
            }
        }
    };
}

functions! {
    required {
        ibv_get_device_list: fn(*mut c_int) -> *mut *mut ibv_device;
        ibv_free_device_list: fn(*mut *mut ibv_device);
        ibv_get_device_name: fn(*mut ibv_device) -> *const c_char;
        /// Network byte order.
        ibv_get_device_guid: fn(*mut ibv_device) -> u64;
        ibv_open_device: fn(*mut ibv_device) -> Option<Ptr<ibv_context>>;
        ibv_close_device: fn(Ptr<ibv_context>) -> c_int;
        ibv_query_device: fn(Ptr<ibv_context>, *mut ibv_device_attr) -> c_int;
        ibv_query_port: fn(Ptr<ibv_context>, u8, *mut ibv_port_attr) -> c_int;
        ibv_query_gid: fn(Ptr<ibv_context>, u8, c_int, *mut ibv_gid) -> c_int;
        ibv_query_pkey: fn(Ptr<ibv_context>, u8, c_int, *mut u16) -> c_int;
        ibv_alloc_pd: fn(Ptr<ibv_context>) -> Option<Ptr<ibv_pd>>;
        ibv_dealloc_pd: fn(Ptr<ibv_pd>) -> c_int;
        ibv_reg_mr: fn(Ptr<ibv_pd>, *mut c_void, usize, c_int) -> Option<Ptr<ibv_mr>>;
        ibv_rereg_mr: fn(Ptr<ibv_mr>, c_int, *mut ibv_pd, *mut c_void, usize, c_int) -> c_int;
        ibv_dereg_mr: fn(Ptr<ibv_mr>) -> c_int;
        ibv_create_comp_channel: fn(Ptr<ibv_context>) -> Option<Ptr<ibv_comp_channel>>;
        ibv_destroy_comp_channel: fn(Ptr<ibv_comp_channel>) -> c_int;
        ibv_create_cq: fn(
            Ptr<ibv_context>, c_int, *mut c_void, Option<Ptr<ibv_comp_channel>>, c_int,
        ) -> Option<Ptr<ibv_cq_ex>>;
        ibv_resize_cq: fn(Ptr<ibv_cq_ex>, c_int) -> c_int;
        ibv_destroy_cq: fn(Ptr<ibv_cq_ex>) -> c_int;
        ibv_get_cq_event: fn(Ptr<ibv_comp_channel>, *mut *mut ibv_cq_ex, *mut *mut c_void) -> c_int;
        ibv_ack_cq_events: fn(*mut ibv_cq_ex, u32);
        ibv_create_srq: fn(Ptr<ibv_pd>, *mut ibv_srq_init_attr) -> Option<Ptr<ibv_srq>>;
        ibv_modify_srq: fn(Ptr<ibv_srq>, *mut ibv_srq_attr, c_int) -> c_int;
        ibv_query_srq: fn(Ptr<ibv_srq>, *mut ibv_srq_attr) -> c_int;
        ibv_destroy_srq: fn(Ptr<ibv_srq>) -> c_int;
        ibv_create_qp: fn(Ptr<ibv_pd>, *mut ibv_qp_init_attr) -> Option<Ptr<ibv_qp_ex>>;
        ibv_modify_qp: fn(Ptr<ibv_qp_ex>, *mut ibv_qp_attr, c_int) -> c_int;
        ibv_query_qp: fn(Ptr<ibv_qp_ex>, *mut ibv_qp_attr, c_int, *mut ibv_qp_init_attr) -> c_int;
        ibv_destroy_qp: fn(Ptr<ibv_qp_ex>) -> c_int;
        ibv_create_ah: fn(Ptr<ibv_pd>, *mut ibv_ah_attr) -> Option<Ptr<ibv_ah>>;
        ibv_destroy_ah: fn(Ptr<ibv_ah>) -> c_int;
        ibv_attach_mcast: fn(Ptr<ibv_qp_ex>, *const ibv_gid, u16) -> c_int;
        ibv_detach_mcast: fn(Ptr<ibv_qp_ex>, *const ibv_gid, u16) -> c_int;
        ibv_get_async_event: fn(Ptr<ibv_context>, *mut ibv_async_event) -> c_int;
        ibv_ack_async_event: fn(*mut ibv_async_event);
    }
    optional {
        /// Since rdma-core 26: rights that a device may ignore.
        ibv_reg_mr_iova2: fn(Ptr<ibv_pd>, *mut c_void, usize, u64, u32) -> Option<Ptr<ibv_mr>>;
        /// Since rdma-core 25.
        ibv_reg_mr_iova: fn(Ptr<ibv_pd>, *mut c_void, usize, u64, c_int) -> Option<Ptr<ibv_mr>>;
        /// Since rdma-core 25: the interface of `ibv_wr_post(3)`, of queue pairs made for it.
        ibv_qp_to_qp_ex: fn(Ptr<ibv_qp_ex>) -> Option<Ptr<ibv_qp_ex>>;
        /// Since rdma-core 32.
        _ibv_query_gid_ex: fn(Ptr<ibv_context>, u32, u32, *mut ibv_gid_entry, u32, usize) -> c_int;
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Library")
    }
}

impl Library {
    /// Loads the library that is named by its path, whatever it is, or else the one that the linker
    /// finds, which must not be softrnic's own.
    pub(super) fn load(config: &HardwareConfig) -> Result<Self, LoadError> {
        let path = config.path.as_deref();
        let wanted = path.map_or(OsStr::new(NAME), Path::as_os_str);
        let (loaded, library) =
            open(wanted).map_err(|(library, reason)| LoadError::Absent { library, reason })?;
        if has(&loaded, OWN) && path.is_none() {
            return Err(LoadError::Own);
        }
        Self::bind(loaded, &library, config)
    }

    /// Whether it has a function of that name, its own or one of a library that it needs.
    pub(super) fn has(&self, name: &CStr) -> bool {
        has(&self.loaded, name)
    }

    /// The librdmacm that belongs to it.
    pub(super) fn manager(&self) -> Result<Arc<cm::Library>, ManagerLoadError> {
        self.manager.get_or_init(|| cm::Library::load(self).map(Arc::new)).clone()
    }
}

fn has(loaded: &Loaded, name: &CStr) -> bool {
    // SAFETY: it is only asked for, not used.
    unsafe { loaded.get::<*const ()>(name.to_bytes_with_nul()) }.is_ok()
}

/// Loads a library; or its name, and why that cannot be.
pub(super) fn open(wanted: &OsStr) -> Result<(Loaded, String), (String, String)> {
    let library = wanted.to_string_lossy().into_owned();
    // A name without a slash is one that the linker looks for.
    let is_path = wanted.as_encoded_bytes().contains(&b'/');
    if is_path && let Some(reason) = elf::fault(Path::new(wanted)) {
        return Err((library, reason));
    }
    // SAFETY: what runs when the library is loaded is what every program that links to it runs.
    match unsafe { Loaded::open(Some(wanted), RTLD_NOW | RTLD_LOCAL) } {
        Ok(loaded) => Ok((loaded, library)),
        Err(error) => {
            let reason = without_name(&error.to_string(), &library);
            Err((library, reason))
        }
    }
}

/// What the linker says begins with the name, which the reader has just read.
fn without_name(text: &str, name: &str) -> String {
    text.strip_prefix(name).map_or(text, |rest| rest.trim_start_matches([':', ' '])).to_owned()
}
