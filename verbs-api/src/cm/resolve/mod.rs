//! From IP addresses to devices: which device, and which of its GIDs, leads to a destination.
//!
//! The routes and addresses of the host decide, as they do for the connection manager of Linux: the
//! system says from which address it would send, and the device that has this address is the one.
//! RoCE v2 needs no more than that, for a GID is an IP address.
//!
//! Addresses of IPv4 that are written as IPv6 (`::ffff:10.0.0.1`) are routed as IPv4 and come back in
//! the form in which they were given.

mod choice;
mod group;
mod route;
mod system;

use std::fmt;
use std::net::{IpAddr, SocketAddr};

pub use group::group;
pub use system::{SystemResolver, device_at};

use crate::provider::GidEntry;

/// Where a destination is, and from where to reach it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The device, by its place in the list that was given.
    pub device: usize,
    /// The GID of the source, by its index in the table of the device.
    pub gid_index: u8,
    /// The own address; its port is the one that was bound, 0 if none was.
    pub source: SocketAddr,
    /// The destination; of a wildcard, the address of this host that it stands for.
    pub destination: SocketAddr,
}

/// The device that has an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// By its place in the list that was given.
    pub device: usize,
    /// Index in the GID table of the device.
    pub gid_index: u8,
}

/// Why an address leads to no device. The errno of each is that of `rdma_resolve_addr(3)` on Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResolveError {
    /// The host has no route to the destination (`ENETUNREACH`, `EHOSTUNREACH`): the errno.
    NoRoute(i32),
    /// The source address is of no interface of this host (`EADDRNOTAVAIL`).
    NoSuchSource,
    /// The address is of this host, but no device has it (`ENODEV`).
    NoDevice,
    /// Source and destination are of different families, or a link-local address does not say its
    /// interface (`EINVAL`).
    Malformed,
    /// The system does not answer: the errno.
    System(i32),
}

impl ResolveError {
    /// The errno, with the numbers of Linux.
    #[must_use]
    pub const fn errno(self) -> i32 {
        match self {
            Self::NoRoute(errno) | Self::System(errno) => errno,
            Self::NoSuchSource => 99,
            Self::NoDevice => 19,
            Self::Malformed => 22,
        }
    }
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoute(errno) => write!(f, "this host has no route to it (errno {errno})"),
            Self::NoSuchSource => f.write_str("the source is no address of this host"),
            Self::NoDevice => f.write_str("no device has the address that would be the source"),
            Self::Malformed => f.write_str(
                "source and destination are of different families, \
                 or a link-local address lacks its interface (fe80::1%eth0)",
            ),
            Self::System(errno) => write!(f, "the system does not tell the route (errno {errno})"),
        }
    }
}

impl std::error::Error for ResolveError {}

/// Finds the device and the source address for `destination` (`rdma_resolve_addr(3)`). `bound` is the
/// own address that must be used; a wildcard in it leaves the choice open. A wildcard as destination is
/// this host, and so is a loopback address where no device has any, as on Linux. `devices` are the GID
/// tables of all devices.
///
/// # Errors
/// See [`ResolveError`].
pub fn resolve<T: AsRef<[GidEntry]>>(
    destination: SocketAddr,
    bound: Option<SocketAddr>,
    devices: &[T],
) -> Result<Resolved, ResolveError> {
    let port = bound.map_or(0, |bound| bound.port());
    let bound = bound.filter(|bound| !is_open(*bound, devices));
    if bound.is_some_and(|bound| bound.is_ipv4() != destination.is_ipv4()) {
        return Err(ResolveError::Malformed);
    }
    let (plain, plain_bound) = (canonical(destination), bound.map(canonical));
    if is_open(plain, devices) {
        return to_this_host(destination, bound, port, devices);
    }
    let source = route::source(plain, plain_bound)?;
    let exact = choice::holder(source, devices);
    let chosen = match plain_bound {
        Some(_) => exact.map(|holder| (holder, source.ip())),
        None => exact
            .map(|holder| (holder, source.ip()))
            .or_else(|| choice::beside(source, devices, &choice::interface_of))
            // What this host says to itself it says from the address that it is said to.
            .or_else(|| {
                (source.ip() == plain.ip()).then(|| choice::on_this_host(plain, devices))?
            }),
    };
    let (holder, ip) = chosen.ok_or(ResolveError::NoDevice)?;
    let source = with_ip(source, ip, port);
    Ok(Resolved {
        device: holder.device,
        gid_index: holder.gid_index,
        source: in_form_of(source, destination),
        destination,
    })
}

/// Whether an address leaves the choice open: a wildcard, or a loopback address where no device has any.
#[must_use]
pub fn is_open<T: AsRef<[GidEntry]>>(address: SocketAddr, devices: &[T]) -> bool {
    let ip = canonical(address).ip();
    ip.is_unspecified() || ip.is_loopback() && !choice::has_loopback(devices)
}

/// A wildcard as destination: the own address if there is one, else the first of its family that any
/// device has.
fn to_this_host<T: AsRef<[GidEntry]>>(
    destination: SocketAddr,
    bound: Option<SocketAddr>,
    port: u16,
    devices: &[T],
) -> Result<Resolved, ResolveError> {
    let (holder, own) = match bound {
        Some(bound) => {
            let holder = choice::holder(canonical(bound), devices);
            (holder.ok_or(ResolveError::NoDevice)?, bound)
        }
        None => {
            let (holder, address) = choice::first(canonical(destination).is_ipv4(), devices)
                .ok_or(ResolveError::NoDevice)?;
            (holder, in_form_of(address, destination))
        }
    };
    let (mut source, mut destination_port) = (own, own);
    source.set_port(port);
    destination_port.set_port(destination.port());
    Ok(Resolved {
        device: holder.device,
        gid_index: holder.gid_index,
        source,
        destination: destination_port,
    })
}

/// Finds the device that has `address` (`rdma_bind_addr(3)`); `None` for a wildcard, which all have.
///
/// # Errors
/// `NoSuchSource`: no interface of this host has it; `NoDevice`: no device has it; `Malformed`.
pub fn holder<T: AsRef<[GidEntry]>>(
    address: SocketAddr,
    devices: &[T],
) -> Result<Option<Holder>, ResolveError> {
    let plain = canonical(address);
    if plain.ip().is_unspecified() {
        return Ok(None);
    }
    if let Some(holder) = choice::holder(plain, devices) {
        return Ok(Some(holder));
    }
    route::judge_own(plain)?;
    Err(ResolveError::NoDevice)
}

/// The address without IPv6 around IPv4.
#[must_use]
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match (address, address.ip().to_canonical()) {
        (SocketAddr::V6(_), IpAddr::V4(v4)) => SocketAddr::new(v4.into(), address.port()),
        _ => address,
    }
}

/// `address` of IPv4 as `model` is written: plain, or within IPv6.
fn in_form_of(address: SocketAddr, model: SocketAddr) -> SocketAddr {
    match (address.ip(), model) {
        (IpAddr::V4(v4), SocketAddr::V6(_)) => {
            SocketAddr::new(v4.to_ipv6_mapped().into(), address.port())
        }
        _ => address,
    }
}

/// `address` with another IP address, whose scope stays where it has one.
fn with_ip(mut address: SocketAddr, ip: IpAddr, port: u16) -> SocketAddr {
    address.set_ip(ip);
    address.set_port(port);
    address
}

#[cfg(all(test, target_os = "linux"))]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
