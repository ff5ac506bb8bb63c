//! Socket addresses that C passes (`ip(7)`, `ipv6(7)`).

use std::net::SocketAddr;

use softrnic_ffi::address::{AF_INET, AF_INET6, V4_LEN, V6_LEN, parse};

pub(super) use softrnic_ffi::Storage;

use crate::errno::{Errno, Result};

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
    use std::net::SocketAddrV6;

    use super::*;

    #[test]
    fn addresses_come_back() {
        let scoped = SocketAddrV6::new("fe80::1".parse().unwrap(), 7, 0x1234, 3).into();
        for address in ["10.0.0.1:18515".parse().unwrap(), "[fd00::1]:5".parse().unwrap(), scoped] {
            let storage = Storage::from(address);
            assert_eq!(storage.parse(), Some(address));
            assert_eq!(storage.port(), address.port().to_be());
            assert_eq!(read(&raw const storage), Ok(address));
            assert_eq!(storage.address_len(), if address.is_ipv4() { 16 } else { 28 });
        }
    }

    #[test]
    fn other_families_are_refused() {
        /// `AF_IB`
        const INFINIBAND: u8 = 27;
        let mut storage = Storage::EMPTY;
        assert_eq!((storage.parse(), storage.port()), (None, 0));
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
        assert_eq!((i32::from(AF_INET), i32::from(AF_INET6)), (libc::AF_INET, libc::AF_INET6));
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
