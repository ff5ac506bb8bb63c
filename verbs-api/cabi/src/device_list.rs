//! The device list (`ibv_get_device_list(3)`).
//!
//! A device that was listed once stays, for programs keep pointers into freed lists. Nothing is
//! started for a list.

use core::ffi::{CStr, c_char, c_int};
use core::ptr::null_mut;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use softrnic_verbs::emulated::{EmulatedConfig, EmulatedContext, EmulatedProvider, Sharing};
use softrnic_verbs::provider::{GidEntry, OpenFailure};

use crate::convert::{put, put_if_wanted};
use crate::errno::{Errno, Result, complain, guarded, number, pointer};
use crate::fork;
use crate::layout::{Zeroed, ibv_device};
use crate::object::{Kind, Ptr, live};
use crate::shared::Shared;

/// A device that was listed.
pub(crate) struct Device {
    state: Mutex<State>,
}

struct State {
    config: EmulatedConfig,
    /// The device while it is open.
    open: Weak<Shared>,
}

/// `ibv_device`, and room behind it: provider libraries look there for their own operations, and
/// finding none they know that the device is not theirs.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Public {
    device: ibv_device,
    _none: [usize; 32],
}

impl Kind for Device {
    type Public = Public;
    type Seen = ibv_device;
    const MARK: u64 = 0x5f3a_91c7_0000_0000;
}

/// All devices that have been listed.
static LISTED: Mutex<Vec<Ptr<Device>>> = Mutex::new(Vec::new());

impl Device {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens it, or joins those of this process that have it open.
    ///
    /// # Errors
    /// Why it cannot be opened, which the person is told as well.
    pub(crate) fn open(&self) -> Result<Arc<Shared>> {
        let mut state = self.state();
        if let Some(open) = state.open.upgrade()
            && open.device().is_ok()
        {
            return Ok(open);
        }
        fork::note_port(state.config.port);
        match EmulatedContext::open(state.config.clone()).map_err(OpenFailure::from) {
            Ok(context) => {
                let shared = Arc::new(Shared::new(Arc::new(context)));
                state.open = Arc::downgrade(&shared);
                Ok(shared)
            }
            Err(OpenFailure { error, reason }) => {
                let name = &state.config.name;
                complain(&format!("device {name} cannot be opened: {}", reason.replace('\n', " ")));
                Err(error.into())
            }
        }
    }
}

/// The text of a fixed field, cut where it must be.
fn field<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [0; N];
    for (place, byte) in field.iter_mut().zip(text.bytes().take(N - 1)) {
        *place = byte;
    }
    field
}

fn public(config: &EmulatedConfig, number: usize) -> Public {
    /// `IBV_NODE_CA`, `IBV_TRANSPORT_IB`: what RoCE devices are.
    const CHANNEL_ADAPTER: i32 = 1;
    const INFINIBAND: i32 = 0;
    let device = ibv_device {
        node_type: CHANNEL_ADAPTER,
        transport_type: INFINIBAND,
        name: field(&config.name),
        dev_name: field(&format!("uverbs{number}")),
        dev_path: field(&format!("/sys/class/infiniband_verbs/uverbs{number}")),
        ibdev_path: field(&format!("/sys/class/infiniband/{}", config.name)),
        ..ibv_device::zeroed()
    };
    Public { device, _none: [0; 32] }
}

/// The devices that there are now, those that were listed before at the addresses that they had.
pub(crate) fn devices() -> Result<Vec<Ptr<Device>>> {
    let mut settings = EmulatedConfig::new(IpAddr::V4(Ipv4Addr::LOCALHOST));
    settings.sharing = Sharing::Service;
    let provider = EmulatedProvider::from_environment(settings).map_err(|error| {
        complain(&error.to_string());
        Errno::INVALID
    })?;
    let configs = provider.configs()?;
    let mut listed = LISTED.lock().unwrap_or_else(PoisonError::into_inner);
    let mut found = Vec::new();
    for config in configs {
        let named = |device: &&Ptr<Device>| {
            device.get().is_ok_and(|device| device.state().config.name == config.name)
        };
        if let Some(known) = listed.iter().find(named) {
            known.get()?.state().config = config;
            found.push(*known);
        } else {
            let public = public(&config, listed.len());
            let state = Mutex::new(State { config, open: Weak::new() });
            let device = Ptr::new(public, Device { state });
            listed.push(device);
            found.push(device);
        }
    }
    Ok(found)
}

/// The GID table of a device, which is not opened for it.
pub(crate) fn gids_of(device: &Ptr<Device>) -> Option<Vec<GidEntry>> {
    Some(device.get().ok()?.state().config.gids())
}

/// An array of the C library, which ends with NULL.
pub(crate) fn c_array<K: Kind>(items: &[Ptr<K>]) -> Result<*mut Option<Ptr<K>>> {
    let array = allocate(items.len() + 1, size_of::<Option<Ptr<K>>>()).cast::<Option<Ptr<K>>>();
    if array.is_null() {
        return Err(Errno::NO_MEMORY);
    }
    for (index, item) in items.iter().copied().map(Some).chain([None]).enumerate() {
        put(array, index, item);
    }
    Ok(array)
}

#[expect(unsafe_code, reason = "memory of the C library")]
fn allocate(count: usize, size: usize) -> *mut core::ffi::c_void {
    // SAFETY: any numbers will do.
    unsafe { libc::calloc(count, size) }
}

#[expect(unsafe_code, reason = "memory of the C library")]
pub(crate) fn release(array: *mut core::ffi::c_void) {
    // SAFETY: C vouches that it comes from `allocate`, or is NULL.
    unsafe { libc::free(array) };
}

pub(crate) extern "C" fn get_device_list(count: *mut c_int) -> *mut Option<Ptr<Device>> {
    let list = pointer(|| {
        let devices = devices()?;
        let array = c_array(&devices)?;
        Ok((array, c_int::try_from(devices.len())?))
    });
    put_if_wanted(count, list.map_or(0, |(_, len)| len));
    list.map_or(null_mut(), |(array, _)| array)
}

pub(crate) extern "C" fn free_device_list(list: *mut Option<Ptr<Device>>) {
    release(list.cast());
}

/// The name, which lives as long as the device.
pub(crate) extern "C" fn get_device_name(device: Option<Ptr<Device>>) -> *const c_char {
    let name = guarded(|| Ok(live(&device)?.see(|public| (&raw const public.device.name).cast())));
    name.unwrap_or_else(|errno| {
        errno.set();
        core::ptr::null()
    })
}

/// 0 where there is no such device.
pub(crate) extern "C" fn get_device_guid(device: Option<Ptr<Device>>) -> u64 {
    let guid = guarded(|| {
        let config = live(&device)?.state().config.clone();
        Ok(u64::from_ne_bytes(config.node_guid()))
    });
    guid.unwrap_or(0)
}

/// The kernel does not know the device.
pub(crate) extern "C" fn get_device_index(device: Option<Ptr<Device>>) -> c_int {
    number(|| {
        live(&device)?;
        Err(Errno::NOT_SUPPORTED)
    })
}

pub(crate) extern "C" fn get_sysfs_path() -> *const c_char {
    const PATH: &CStr = c"/sys";
    PATH.as_ptr()
}
