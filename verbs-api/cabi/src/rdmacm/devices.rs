//! The devices that the connection manager works with. They stay open (`rdma_get_devices(3)`), and each
//! has a protection domain for programs that do not bring one.

use core::ffi::c_int;
use core::ptr::null_mut;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use softrnic_verbs::cm::ConnectionManager;
use softrnic_verbs::cm::resolve;
use softrnic_verbs::provider;

use super::made;
use super::manager::Manager;
use crate::convert::put_if_wanted;
use crate::device_list::{self, Device};
use crate::errno::{Errno, Result, pointer};
use crate::layout::ibv_xrcd_init_attr;
use crate::object::Ptr;
use crate::objects::{Context, Pd, Xrcd};
use crate::{context, domain, extended};

/// An open device.
pub(super) struct CmDevice {
    listed: Ptr<Device>,
    pub(super) context: Ptr<Context>,
    device: Arc<dyn provider::Context>,
    /// READs and atomics that a connection may have outstanding, from here and to here.
    pub(super) max_initiator_depth: u8,
    pub(super) max_responder_resources: u8,
    shared: Mutex<SharedObjects>,
}

/// What identifiers of a device have together while there are any.
#[derive(Default)]
struct SharedObjects {
    pd: Option<Ptr<Pd>>,
    xrcd: Option<Ptr<Xrcd>>,
    users: u32,
}

/// All open devices.
#[derive(Default)]
pub(super) struct Devices(Mutex<Vec<Arc<CmDevice>>>);

impl CmDevice {
    fn open(listed: Ptr<Device>) -> Result<Self> {
        let context = made(context::open_device(Some(listed)))?;
        let device = context.get()?.shared.device_handle()?;
        let attributes = device.query_device()?;
        Ok(Self {
            listed,
            context,
            device,
            max_initiator_depth: attributes.max_qp_init_rd_atom,
            max_responder_resources: attributes.max_qp_rd_atom,
            shared: Mutex::default(),
        })
    }

    fn shared(&self) -> MutexGuard<'_, SharedObjects> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more identifier is of this device. Returns the domain that it may use.
    pub(super) fn enter(&self) -> Result<Ptr<Pd>> {
        let mut shared = self.shared();
        let pd = match shared.pd {
            Some(pd) => pd,
            None => made(domain::alloc_pd(Some(self.context)))?,
        };
        shared.pd = Some(pd);
        shared.users += 1;
        Ok(pd)
    }

    /// One of them is gone. What others still use stays.
    pub(super) fn leave(&self) {
        let mut shared = self.shared();
        shared.users = shared.users.saturating_sub(1);
        if shared.users != 0 {
            return;
        }
        if let Some(pd) = shared.pd
            && domain::dealloc_pd(Some(pd)) == 0
        {
            shared.pd = None;
        }
        if let Some(xrcd) = shared.xrcd
            && extended::close_xrcd(Some(xrcd)) == 0
        {
            shared.xrcd = None;
        }
    }

    /// The XRC domain of its identifiers.
    pub(super) fn xrcd(&self) -> Result<Ptr<Xrcd>> {
        let mut shared = self.shared();
        if let Some(xrcd) = shared.xrcd {
            return Ok(xrcd);
        }
        let attr = ibv_xrcd_init_attr { comp_mask: 0b11, fd: -1, oflags: libc::O_CREAT };
        let xrcd = made(extended::open_xrcd(Some(self.context), Some(&attr)))?;
        shared.xrcd = Some(xrcd);
        Ok(xrcd)
    }
}

impl Devices {
    fn open(&self) -> MutexGuard<'_, Vec<Arc<CmDevice>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that are open.
    fn all(&self) -> Vec<Arc<CmDevice>> {
        self.open().clone()
    }

    /// That of the connection manager's word for it.
    pub(super) fn of(&self, device: &Arc<dyn provider::Context>) -> Option<Arc<CmDevice>> {
        self.open().iter().find(|open| Arc::ptr_eq(&open.device, device)).cloned()
    }

    /// Opens all devices that there are now. One that cannot be opened says so itself and is left out.
    pub(super) fn open_all(&self, cm: &dyn ConnectionManager) -> Result<()> {
        let mut open = self.open();
        for listed in device_list::devices()? {
            if open.iter().any(|known| known.listed == listed) {
                continue;
            }
            if let Ok(device) = CmDevice::open(listed) {
                cm.add_device(&device.device)?;
                open.push(Arc::new(device));
            }
        }
        Ok(())
    }
}

impl Manager {
    /// What does the work, once it has devices to do it with.
    pub(super) fn with_devices(&self) -> Result<&dyn ConnectionManager> {
        let cm = self.cm()?;
        if self.devices.open().is_empty() {
            self.devices.open_all(cm)?;
        }
        Ok(cm)
    }

    /// The same, and if there is no device for an address, those that have come since are looked for.
    pub(super) fn with_device_for<T>(
        &self,
        act: impl Fn(&dyn ConnectionManager) -> softrnic_verbs::cm::Cm<T>,
    ) -> Result<T> {
        let cm = self.with_devices()?;
        match act(cm) {
            Err(error) if error.errno() == libc::ENODEV => {
                let before = self.devices.open().len();
                if before != 0 {
                    self.devices.open_all(cm)?;
                }
                if self.devices.open().len() == before {
                    return Err(error.into());
                }
                Ok(act(cm)?)
            }
            end => Ok(end?),
        }
    }
}

/// From which address a destination would be reached, if there is a device for it. Nothing is opened.
pub(super) fn source_for(destination: SocketAddr) -> Option<SocketAddr> {
    let devices = device_list::devices().ok()?;
    let tables: Vec<_> = devices.iter().filter_map(device_list::gids_of).collect();
    resolve::resolve(destination, None, &tables).ok().map(|resolved| resolved.source)
}

/// Whether a device has the address, open or not.
pub(super) fn is_listed(address: SocketAddr) -> bool {
    let devices = device_list::devices().unwrap_or_default();
    let tables: Vec<_> = devices.iter().filter_map(device_list::gids_of).collect();
    matches!(resolve::holder(address, &tables), Ok(Some(_)))
}

pub(crate) extern "C" fn get_devices(count: *mut c_int) -> *mut Option<Ptr<Context>> {
    let list = pointer(|| {
        let manager = Manager::current()?;
        manager.devices.open_all(manager.cm()?)?;
        let contexts: Vec<_> = manager.devices.all().iter().map(|device| device.context).collect();
        if contexts.is_empty() {
            return Err(Errno(libc::ENODEV));
        }
        Ok((device_list::c_array(&contexts)?, c_int::try_from(contexts.len())?))
    });
    put_if_wanted(count, list.map_or(0, |(_, len)| len));
    list.map_or(null_mut(), |(array, _)| array)
}

pub(crate) extern "C" fn free_devices(list: *mut Option<Ptr<Context>>) {
    device_list::release(list.cast());
}
