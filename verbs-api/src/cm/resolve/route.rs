//! What the system says about its routes.
//!
//! A datagram socket that is connected sends nothing: it looks up the route, and takes the address that
//! the route prefers as its own. That is the question that is asked here, and every system answers it.

use std::io::{Error, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use softrnic_model::wire::ROCE_PORT;

use super::ResolveError;

/// The address from which this host would send to `destination`, or would if it must be `bound`. Ports
/// mean nothing.
pub(super) fn source(
    destination: SocketAddr,
    bound: Option<SocketAddr>,
) -> Result<SocketAddr, ResolveError> {
    let any = match destination {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let socket = open(bound.unwrap_or(any))?;
    let mut destination = destination;
    destination.set_port(ROCE_PORT);
    socket.connect(destination).map_err(|error| no_route(&error))?;
    socket.local_addr().map_err(|error| system(&error))
}

/// # Errors
/// `address` is of no interface of this host.
pub(super) fn judge_own(address: SocketAddr) -> Result<(), ResolveError> {
    open(address).map(drop)
}

fn open(mut address: SocketAddr) -> Result<UdpSocket, ResolveError> {
    address.set_port(0);
    UdpSocket::bind(address).map_err(|error| {
        let kind = error.kind();
        if kind == ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(NO_SUCH_INTERFACE) {
            ResolveError::NoSuchSource
        } else if kind == ErrorKind::InvalidInput {
            // A link-local address without its interface.
            ResolveError::Malformed
        } else {
            system(&error)
        }
    })
}

/// `ENODEV`: the scope of an address is no interface.
const NO_SUCH_INTERFACE: i32 = 19;

fn no_route(error: &Error) -> ResolveError {
    match (error.kind(), error.raw_os_error()) {
        (ErrorKind::InvalidInput, _) => ResolveError::Malformed,
        (_, Some(errno)) => ResolveError::NoRoute(errno),
        (_, None) => system(error),
    }
}

fn system(error: &Error) -> ResolveError {
    /// `EIO`
    const UNKNOWN: i32 = 5;
    ResolveError::System(error.raw_os_error().unwrap_or(UNKNOWN))
}
