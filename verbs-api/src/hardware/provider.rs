//! The devices that rdma-core knows.

use core::ffi::{CStr, c_int};
use std::sync::Arc;

use rustix::fs::Access;
use rustix::io::Errno;
use softrnic_model::verbs::VerbError;

use super::errno::{last_errno, refusal};
use super::layout::ibv_device;
use super::library::{Library, LoadError};
use super::{HardwareConfig, HardwareContext, HardwareManager, ManagerLoadError};
use crate::provider::{Context, DeviceInfo, OpenFailure, Provider, Verb};

/// The devices of a libibverbs.
#[derive(Clone, Debug)]
pub struct HardwareProvider {
    library: Arc<Library>,
}

impl HardwareProvider {
    /// Loads the library.
    ///
    /// # Errors
    /// [`LoadError`]; its text says what to do.
    pub fn load(config: &HardwareConfig) -> Result<Self, LoadError> {
        Ok(Self { library: Arc::new(Library::load(config)?) })
    }

    /// A connection manager for its devices, without devices, over the librdmacm that belongs to it.
    ///
    /// # Errors
    /// [`ManagerLoadError`]; its text says what to do.
    pub fn connection_manager(&self) -> Result<Arc<HardwareManager>, ManagerLoadError> {
        HardwareManager::of(&self.library)
    }
}

/// The list of devices, while it is not freed.
struct List<'a> {
    library: &'a Library,
    first: *mut *mut ibv_device,
    len: usize,
}

impl<'a> List<'a> {
    fn get(library: &'a Library) -> Verb<Self> {
        /// `ENOSYS`
        const NO_SUCH_CALL: i32 = 38;
        let mut len: c_int = 0;
        // SAFETY: the place is ours.
        let first = unsafe { (library.ibv_get_device_list)(&raw mut len) };
        if first.is_null() {
            return Err(match last_errno() {
                NO_SUCH_CALL => VerbError::System(
                    NO_SUCH_CALL,
                    "the kernel has no RDMA support, or it is not loaded; try: modprobe ib_uverbs",
                ),
                errno => refusal(errno, "the devices cannot be listed"),
            });
        }
        Ok(Self { library, first, len: usize::try_from(len).unwrap_or(0) })
    }

    fn devices(&self) -> impl Iterator<Item = *mut ibv_device> {
        // SAFETY: the list has that many entries until it is freed.
        (0..self.len).map(|index| unsafe { *self.first.add(index) })
    }

    fn info(&self, device: *mut ibv_device) -> DeviceInfo {
        // SAFETY: the device is of this list; its name lives as long as that.
        let name = unsafe { CStr::from_ptr((self.library.ibv_get_device_name)(device)) };
        // SAFETY: as above.
        let guid = unsafe { (self.library.ibv_get_device_guid)(device) };
        DeviceInfo { name: name.to_string_lossy().into_owned(), node_guid: guid.to_ne_bytes() }
    }
}

impl Drop for List<'_> {
    fn drop(&mut self) {
        // SAFETY: it came from `ibv_get_device_list`; open devices keep what they need.
        unsafe { (self.library.ibv_free_device_list)(self.first) };
    }
}

impl Provider for HardwareProvider {
    fn devices(&self) -> Verb<Vec<DeviceInfo>> {
        let list = List::get(&self.library)?;
        Ok(list.devices().map(|device| list.info(device)).collect())
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Context>, OpenFailure> {
        let list = List::get(&self.library)?;
        let found = list.devices().find(|device| list.info(*device).name == name);
        let Some(device) = found else {
            let known: Vec<_> = list.devices().map(|device| list.info(device).name).collect();
            return Err(OpenFailure {
                error: VerbError::NoSuchObject("name: no such device"),
                reason: if known.is_empty() {
                    format!("no RDMA device is called {name:?}: there is none at all")
                } else {
                    format!("no RDMA device is called {name:?}; there are {}", known.join(", "))
                },
            });
        };
        // SAFETY: the device is of this list.
        let opened = unsafe { (self.library.ibv_open_device)(device) };
        let Some(context) = opened else {
            let errno = last_errno();
            return Err(OpenFailure {
                error: refusal(errno, "the device cannot be opened"),
                reason: why_not_opened(name, &node_of(device), errno),
            });
        };
        Ok(Arc::new(HardwareContext::new(&self.library, context, list.info(device))?))
    }
}

/// The file by which a device is opened.
fn node_of(device: *mut ibv_device) -> String {
    // SAFETY: the device is of a list that is there.
    let name = unsafe { (*device).dev_name };
    let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
    format!("/dev/infiniband/{}", name.to_string_lossy())
}

/// What a person can do about it. rdma-core looks for the device elsewhere when its file cannot be opened, and tells the
/// error of that: the file is asked, too.
fn why_not_opened(name: &str, node: &str, errno: i32) -> String {
    let told = Errno::from_raw_os_error(errno);
    let file = rustix::fs::access(node, Access::READ_OK | Access::WRITE_OK);
    let cause = match (told, file) {
        (Errno::PERM | Errno::ACCESS, _) | (_, Ok(())) => told,
        (_, Err(refused)) => refused,
    };
    match cause {
        Errno::PERM | Errno::ACCESS => format!(
            "{name}: no permission on {node}: be root, or of the group that the file belongs to \
             (ls -l {node}); a container must be given the device (docker run --device={node})"
        ),
        Errno::NOENT | Errno::NXIO | Errno::NODEV | Errno::NOTDIR => format!(
            "{name}: there is no {node}: load the module ib_uverbs; a container must be given the \
             device (docker run --device={node})"
        ),
        error => format!("{name} cannot be opened: {}", std::io::Error::from(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_cannot_be_opened_says_what_to_do() {
        let why = |node, errno| why_not_opened("rxe0", node, errno);
        let none = "/dev/infiniband/uverbs-none";
        assert!(why(none, 13).contains("no permission on /dev/infiniband/uverbs-none"));
        assert!(why(none, 2).contains("load the module ib_uverbs"), "{}", why(none, 2));
        assert!(why("/dev/null", 12).contains("Cannot allocate memory"));
        // Nobody may write to it, not even root; the library tells of another file.
        let locked = "/proc/sys/kernel/ostype";
        assert!(why(locked, 2).contains("no permission on /proc/sys"), "{}", why(locked, 2));
    }
}
