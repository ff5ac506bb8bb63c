//! Socket addresses between C and Rust (`ip(7)`, `ipv6(7)`).

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::errno::{Errno, Result};

/// Room for an address of any family.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(crate) struct Storage(pub(crate) [u8; 128]);

/// `sizeof(struct sockaddr_in)`, `sizeof(struct sockaddr_in6)`
const V4_LEN: usize = 16;
const V6_LEN: usize = 28;

const AF_INET: u16 = family(libc::AF_INET);
const AF_INET6: u16 = family(libc::AF_INET6);

#[expect(clippy::cast_possible_truncation, reason = "numbers of families are small")]
const fn family(number: core::ffi::c_int) -> u16 {
    number.cast_unsigned() as u16
}

impl Storage {
    pub(crate) const EMPTY: Self = Self([0; 128]);

    /// The address that it holds.
    ///
    /// # Errors
    /// `EAFNOSUPPORT`: none of IP.
    pub(crate) fn parse(&self) -> Result<SocketAddr> {
        parse(&self.0).ok_or(Errno(libc::EAFNOSUPPORT))
    }

    /// Bytes that its address has, by its family.
    pub(crate) fn len(&self) -> usize {
        match self.parse() {
            Ok(SocketAddr::V4(_)) => V4_LEN,
            Ok(SocketAddr::V6(_)) => V6_LEN,
            Err(_) => 0,
        }
    }

    /// The port, network byte order, 0 without an address.
    pub(crate) fn port(&self) -> u16 {
        self.parse().map_or(0, |address| address.port().to_be())
    }
}

impl From<SocketAddr> for Storage {
    fn from(address: SocketAddr) -> Self {
        let mut bytes = [0; 128];
        let mut put = |at: usize, field: &[u8]| {
            for (place, byte) in bytes.iter_mut().skip(at).zip(field) {
                *place = *byte;
            }
        };
        put(2, &address.port().to_be_bytes());
        match address {
            SocketAddr::V4(v4) => {
                put(0, &AF_INET.to_ne_bytes());
                put(4, &v4.ip().octets());
            }
            SocketAddr::V6(v6) => {
                put(0, &AF_INET6.to_ne_bytes());
                put(4, &v6.flowinfo().to_be_bytes());
                put(8, &v6.ip().octets());
                put(24, &v6.scope_id().to_ne_bytes());
            }
        }
        Self(bytes)
    }
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// The IP address at the start of `bytes`.
fn parse(bytes: &[u8]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(field(bytes, 2)?);
    match u16::from_ne_bytes(field(bytes, 0)?) {
        AF_INET => Some((Ipv4Addr::from(field::<4>(bytes, 4)?), port).into()),
        AF_INET6 => {
            let ip = Ipv6Addr::from(field::<16>(bytes, 8)?);
            let flow = u32::from_be_bytes(field(bytes, 4)?);
            let scope = u32::from_ne_bytes(field(bytes, 24)?);
            Some(SocketAddrV6::new(ip, port, flow, scope).into())
        }
        _ => None,
    }
}

/// The address that C passes: `struct sockaddr *`, as long as its family says.
///
/// # Errors
/// `EINVAL`: NULL; `EAFNOSUPPORT`: none of IP.
#[expect(unsafe_code, reason = "C passes addresses whose length their family says")]
pub(crate) fn read(address: *const Storage) -> Result<SocketAddr> {
    if address.is_null() {
        return Err(Errno::INVALID);
    }
    let bytes = address.cast::<u8>();
    let mut copy = [0_u8; V6_LEN];
    // SAFETY: every address begins with its family, and has the length of its family.
    unsafe {
        copy.as_mut_ptr().copy_from_nonoverlapping(bytes, size_of::<u16>());
        let len = match u16::from_ne_bytes([copy[0], copy[1]]) {
            AF_INET => V4_LEN,
            AF_INET6 => V6_LEN,
            _ => return Err(Errno(libc::EAFNOSUPPORT)),
        };
        copy.as_mut_ptr().copy_from_nonoverlapping(bytes, len);
    }
    parse(&copy).ok_or(Errno(libc::EAFNOSUPPORT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back() {
        let scoped = SocketAddrV6::new("fe80::1".parse().unwrap(), 7, 0x1234, 3).into();
        for address in ["10.0.0.1:18515".parse().unwrap(), "[fd00::1]:5".parse().unwrap(), scoped] {
            let storage = Storage::from(address);
            assert_eq!(storage.parse(), Ok(address));
            assert_eq!(storage.port(), address.port().to_be());
            assert_eq!(read(&raw const storage), Ok(address));
            assert_eq!(storage.len(), if address.is_ipv4() { 16 } else { 28 });
        }
    }

    #[test]
    fn other_families_are_refused() {
        /// `AF_IB`
        const INFINIBAND: u8 = 27;
        let mut storage = Storage::EMPTY;
        assert_eq!((storage.parse(), storage.port()), (Err(Errno(libc::EAFNOSUPPORT)), 0));
        storage.0[0] = INFINIBAND;
        assert_eq!(read(&raw const storage), Err(Errno(libc::EAFNOSUPPORT)));
        assert_eq!(read(core::ptr::null()), Err(Errno::INVALID));
    }

    #[test]
    fn it_is_what_the_c_library_has() {
        let storage = Storage::from("10.1.2.3:258".parse::<SocketAddr>().unwrap());
        let sin = libc::sockaddr_in {
            sin_family: AF_INET,
            sin_port: 258_u16.to_be(),
            sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([10, 1, 2, 3]) },
            sin_zero: [0; 8],
        };
        assert_eq!(size_of_val(&sin), V4_LEN);
        assert_eq!(storage.0[..2], sin.sin_family.to_ne_bytes());
        assert_eq!(storage.0[2..4], sin.sin_port.to_ne_bytes());
        assert_eq!(storage.0[4..8], sin.sin_addr.s_addr.to_ne_bytes());
        assert_eq!(size_of::<libc::sockaddr_in6>(), V6_LEN);
        assert_eq!(core::mem::offset_of!(libc::sockaddr_in6, sin6_addr), 8);
        assert_eq!(core::mem::offset_of!(libc::sockaddr_in6, sin6_scope_id), 24);
        assert_eq!(size_of::<libc::sockaddr_storage>(), size_of::<Storage>());
    }
}
