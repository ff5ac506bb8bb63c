//! librdmacm, loaded at run time.

use core::ffi::{CStr, c_int, c_void};
use std::ffi::OsStr;
use std::fmt;

use super::super::layout::{
    Ptr, Storage, ibv_ece, ibv_qp_attr, rdma_cm_event, rdma_cm_id, rdma_conn_param,
    rdma_event_channel,
};
use super::super::library::{self, Library as Verbs, OWN};

/// What it is called wherever it is installed.
const NAME: &str = "librdmacm.so.1";

/// Why there is no librdmacm.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ManagerLoadError {
    /// The dynamic linker does not load it, for this reason.
    Absent {
        /// What was looked for.
        library: String,
        /// What the linker said.
        reason: String,
    },
    /// It is softrnic's own, which connects no real devices, and nobody asked for it by path.
    Own,
    /// It has no function of this name and version.
    Incomplete {
        /// What was loaded.
        library: String,
        /// The function.
        function: &'static str,
        /// The version of its interface.
        version: &'static str,
    },
    /// It works with another libibverbs than the one that drives the devices.
    Foreign {
        /// What was loaded.
        library: String,
    },
}

impl fmt::Display for ManagerLoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent { library, reason } => write!(
                f,
                "{library} cannot be loaded: {reason}; install rdma-core's connection manager (Debian, \
                 Ubuntu: librdmacm1; Fedora: librdmacm), or name the library by SOFTRNIC_LIBRDMACM"
            ),
            Self::Own => write!(
                f,
                "the {NAME} that the linker finds is softrnic's own, which connects no hardware; start \
                 the program without `softrnic run` (LD_LIBRARY_PATH, LD_PRELOAD), or name a library by \
                 its path (SOFTRNIC_LIBRDMACM)"
            ),
            Self::Incomplete { library, function, version } => write!(
                f,
                "{library} has no function {function} ({version}): it is no librdmacm, or one that is \
                 too old; install that of rdma-core 24 or newer"
            ),
            Self::Foreign { library } => write!(
                f,
                "{library} works with another libibverbs than the one that drives the devices; name both \
                 libraries of one rdma-core by their paths (SOFTRNIC_LIBIBVERBS, SOFTRNIC_LIBRDMACM), or \
                 none"
            ),
        }
    }
}

impl core::error::Error for ManagerLoadError {}

/// A library that is never unloaded: it has handlers of its own.
struct Loaded(*mut c_void);

impl Loaded {
    /// A function of that name with that version of its interface, as programs that were linked to it get
    /// it.
    fn get(&self, name: &CStr, version: &CStr) -> Option<Ptr<c_void>> {
        // SAFETY: the library stays loaded, and both texts end with 0.
        #[cfg(target_env = "gnu")]
        let found = unsafe { libc::dlvsym(self.0, name.as_ptr(), version.as_ptr()) };
        // SAFETY: as above.
        #[cfg(not(target_env = "gnu"))]
        let found = {
            let _ = version;
            unsafe { libc::dlsym(self.0, name.as_ptr()) }
        };
        Ptr::new(found)
    }
}

/// Declares the functions by version: those that must be there, and those that younger libraries have
/// besides.
macro_rules! functions {
    (
        required { $($version:literal { $($name:ident: fn($($arg:ty),* $(,)?) $(-> $ret:ty)?;)* })* }
        optional { $($oversion:literal { $($oname:ident: fn($($oarg:ty),* $(,)?) $(-> $oret:ty)?;)* })* }
    ) => {
        /// The functions of the library. They are there for as long as the process lasts.
        pub(in crate::hardware) struct Library {
            $($(pub(super) $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*)*
            $($(pub(super) $oname: Option<unsafe extern "C" fn($($oarg),*) $(-> $oret)?>,)*)*
        }

        impl Library {
            fn bind(loaded: &Loaded, library: &str) -> Result<Self, ManagerLoadError> {
                Ok(Self {
                    $($($name: {
                        let found = loaded.get(text!(stringify!($name)), text!($version));
                        let found = found.ok_or_else(|| ManagerLoadError::Incomplete {
                            library: library.into(),
                            function: stringify!($name),
                            version: $version,
                        })?;
                        // SAFETY: the type is that of the man page.
                        unsafe {
                            core::mem::transmute::<
                                Ptr<c_void>,
                                unsafe extern "C" fn($($arg),*) $(-> $ret)?,
                            >(found)
                        }
                    },)*)*
                    $($($oname: {
                        let found = loaded.get(text!(stringify!($oname)), text!($oversion));
                        // SAFETY: as above.
                        found.map(|found| unsafe {
                            core::mem::transmute::<
                                Ptr<c_void>,
                                unsafe extern "C" fn($($oarg),*) $(-> $oret)?,
                            >(found)
                        })
                    },)*)*
                })
            }
        }
    };
}

/// A text as C has it.
macro_rules! text {
    ($text:expr) => {
        const { as_c(concat!($text, "\0")) }
    };
}

const fn as_c(text: &str) -> &CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => c"",
    }
}

functions! {
    required {
        "RDMACM_1.0" {
            rdma_create_event_channel: fn() -> Option<Ptr<rdma_event_channel>>;
            rdma_destroy_event_channel: fn(Ptr<rdma_event_channel>);
            rdma_create_id: fn(
                Ptr<rdma_event_channel>, *mut Option<Ptr<rdma_cm_id>>, *mut c_void, c_int,
            ) -> c_int;
            rdma_destroy_id: fn(Ptr<rdma_cm_id>) -> c_int;
            rdma_migrate_id: fn(Ptr<rdma_cm_id>, Ptr<rdma_event_channel>) -> c_int;
            rdma_set_option: fn(Ptr<rdma_cm_id>, c_int, c_int, *mut c_void, usize) -> c_int;
            rdma_bind_addr: fn(Ptr<rdma_cm_id>, *const Storage) -> c_int;
            rdma_resolve_addr: fn(
                Ptr<rdma_cm_id>, *const Storage, *const Storage, c_int,
            ) -> c_int;
            rdma_resolve_route: fn(Ptr<rdma_cm_id>, c_int) -> c_int;
            rdma_listen: fn(Ptr<rdma_cm_id>, c_int) -> c_int;
            rdma_connect: fn(Ptr<rdma_cm_id>, *mut rdma_conn_param) -> c_int;
            rdma_accept: fn(Ptr<rdma_cm_id>, *mut rdma_conn_param) -> c_int;
            rdma_reject: fn(Ptr<rdma_cm_id>, *const c_void, u8) -> c_int;
            rdma_disconnect: fn(Ptr<rdma_cm_id>) -> c_int;
            rdma_notify: fn(Ptr<rdma_cm_id>, c_int) -> c_int;
            rdma_join_multicast: fn(Ptr<rdma_cm_id>, *const Storage, *mut c_void) -> c_int;
            rdma_leave_multicast: fn(Ptr<rdma_cm_id>, *const Storage) -> c_int;
            rdma_get_cm_event: fn(
                Ptr<rdma_event_channel>, *mut Option<Ptr<rdma_cm_event>>,
            ) -> c_int;
            rdma_ack_cm_event: fn(Ptr<rdma_cm_event>) -> c_int;
        }
        "RDMACM_1.2" {
            rdma_establish: fn(Ptr<rdma_cm_id>) -> c_int;
            rdma_init_qp_attr: fn(Ptr<rdma_cm_id>, *mut ibv_qp_attr, *mut c_int) -> c_int;
        }
    }
    optional {
        "RDMACM_1.3" {
            rdma_reject_ece: fn(Ptr<rdma_cm_id>, *const c_void, u8) -> c_int;
            rdma_set_local_ece: fn(Ptr<rdma_cm_id>, *mut ibv_ece) -> c_int;
            rdma_get_remote_ece: fn(Ptr<rdma_cm_id>, *mut ibv_ece) -> c_int;
        }
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Library")
    }
}

impl Library {
    /// Loads the library that works with `verbs`: the one that is named by its path; the libibverbs that
    /// is named by its path, if it is both; or the one that the linker finds, which must not be
    /// softrnic's own.
    pub(in crate::hardware) fn load(verbs: &Verbs) -> Result<Self, ManagerLoadError> {
        let config = &verbs.config;
        let both = config.path.as_deref().filter(|_| verbs.has(c"rdma_create_id"));
        let path = config.manager.as_deref().or(both);
        let wanted = path.map_or(OsStr::new(NAME), std::path::Path::as_os_str);
        let (loaded, library) = library::open(wanted)
            .map_err(|(library, reason)| ManagerLoadError::Absent { library, reason })?;
        let loaded = Loaded(loaded.into_raw());
        // SAFETY: the library stays loaded, and the texts end with 0.
        let known = |name: &CStr| unsafe { libc::dlsym(loaded.0, name.as_ptr()) };
        if path.is_none() && !known(OWN).is_null() {
            return Err(ManagerLoadError::Own);
        }
        let bound = Self::bind(&loaded, &library)?;
        // A search from the library goes on in those that it needs: what it finds is what it calls.
        if known(c"ibv_open_device").addr() == verbs.ibv_open_device as usize {
            Ok(bound)
        } else {
            Err(ManagerLoadError::Foreign { library })
        }
    }
}
