//! Multicast groups.

use std::net::IpAddr;

use softrnic_model::verbs::Gid;

/// The group that a multicast address names on RoCE v2: an IPv6 address is its own GID, an IPv4 address
/// the mapped one. `None` if the address is of one host.
///
/// ```
/// # use softrnic_verbs::cm::resolve::group;
/// let mgid = group("239.1.2.3".parse().unwrap()).unwrap();
/// assert_eq!(mgid.as_v4(), Some([239, 1, 2, 3]));
/// assert_eq!(group("10.0.0.1".parse().unwrap()), None);
/// ```
#[must_use]
pub fn group(address: IpAddr) -> Option<Gid> {
    let canonical = address.to_canonical();
    canonical.is_multicast().then(|| canonical.into())
}
