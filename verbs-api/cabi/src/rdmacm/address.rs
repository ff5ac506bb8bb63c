//! Addresses and routes (`rdma_bind_addr(3)`, `rdma_resolve_addr(3)`, `rdma_resolve_route(3)`).

use core::ffi::c_int;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use softrnic_verbs::provider::Timeout;

use super::Id;
use super::devices;
use super::sockaddr::{Storage, read};
use crate::errno::{Errno, Result, number};
use crate::object::{Object, Ptr, live};

/// Milliseconds as C says them. What is negative is no time.
fn patience(ms: c_int) -> Timeout {
    Some(Duration::from_millis(u64::try_from(ms).unwrap_or(0)))
}

/// An address that may be left out.
fn optional(address: *const Storage) -> Result<Option<SocketAddr>> {
    if address.is_null() { Ok(None) } else { read(address).map(Some) }
}

/// Gives an identifier an address of this host.
pub(super) fn bind(id: &Object<Id>, address: SocketAddr) -> Result<()> {
    id.cm()?;
    let bound = id.manager.with_device_for(|cm| cm.bind(id.number, address));
    let no_device = matches!(bound, Err(Errno(libc::ENODEV)));
    if no_device && address.ip().to_canonical().is_loopback() && !devices::is_listed(address) {
        // A loopback address that no device has is as good as a wildcard; one whose device cannot be
        // opened is not.
        let mut open = address;
        open.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        });
        id.cm()?.bind(id.number, open)?;
    } else {
        bound?;
    }
    id.refresh().map(drop)
}

/// Finds the device for a destination.
pub(super) fn resolve(
    id: &Object<Id>,
    source: Option<SocketAddr>,
    destination: SocketAddr,
    timeout: Timeout,
) -> Result<()> {
    id.cm()?;
    id.manager.with_device_for(|cm| cm.resolve_addr(id.number, source, destination, timeout))?;
    id.change(|public| public.id.route.addr.dst = destination.into());
    id.complete()
}

/// Finds the route.
pub(super) fn route(id: &Object<Id>, timeout: Timeout) -> Result<()> {
    id.cm()?.resolve_route(id.number, timeout)?;
    id.complete()
}

pub(crate) extern "C" fn bind_addr(id: Option<Ptr<Id>>, address: *const Storage) -> c_int {
    number(|| bind(live(&id)?, read(address)?).map(|()| 0))
}

pub(crate) extern "C" fn resolve_addr(
    id: Option<Ptr<Id>>,
    source: *const Storage,
    destination: *const Storage,
    timeout_ms: c_int,
) -> c_int {
    number(|| {
        let (id, source) = (live(&id)?, optional(source)?);
        let destination = read(destination)?;
        // Of IP, where only one of the two can be.
        if source.is_some_and(|source| source.is_ipv4() != destination.is_ipv4()) {
            return Err(Errno::INVALID);
        }
        resolve(id, source, destination, patience(timeout_ms)).map(|()| 0)
    })
}

pub(crate) extern "C" fn resolve_route(id: Option<Ptr<Id>>, timeout_ms: c_int) -> c_int {
    number(|| route(live(&id)?, patience(timeout_ms)).map(|()| 0))
}
