//! Port spaces (`enum rdma_port_space`), and the type of queue pair that goes with each.

use softrnic_model::verbs::QpType;
use softrnic_verbs::cm::PortSpace;

use crate::errno::{Errno, Result};

pub(super) const RDMA_PS_IPOIB: u32 = PortSpace::Ipoib as u32;
pub(super) const RDMA_PS_TCP: u32 = PortSpace::Tcp as u32;
pub(super) const RDMA_PS_UDP: u32 = PortSpace::Udp as u32;
pub(super) const RDMA_PS_IB: u32 = PortSpace::Ib as u32;

/// # Errors
/// `EPROTONOSUPPORT`: there is no such space.
pub(super) fn port_space(number: u32) -> Result<PortSpace> {
    let known = u16::try_from(number).ok().and_then(PortSpace::from_raw);
    known.ok_or(Errno(libc::EPROTONOSUPPORT))
}

/// The type of an identifier's queue pair where the program does not say one.
pub(super) const fn usual_type(space: PortSpace) -> QpType {
    if space.is_datagram() { QpType::Ud } else { QpType::Rc }
}
