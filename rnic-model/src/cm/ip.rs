//! The IP addressing header at the start of the private data of a request (annex A11.4).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of the header.
pub const IP_HEADER_LEN: usize = 36;

/// Who asks whom. The destination port is in the service ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpHeader {
    /// Port of who asks.
    pub source_port: u16,
    /// Address of who asks.
    pub source: IpAddr,
    /// Address of who is asked, of the same family.
    pub destination: IpAddr,
}

/// Why there is no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpHeaderError {
    /// Fewer bytes than a header has.
    Short,
    /// Another major version.
    Version(u8),
    /// Neither IPv4 nor IPv6.
    Family(u8),
}

impl IpHeader {
    /// The header at the start of `bytes`. A minor version that is newer, and reserved bits, are
    /// not looked at.
    ///
    /// # Errors
    /// See [`IpHeaderError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, IpHeaderError> {
        let header: &[u8; IP_HEADER_LEN] = bytes.first_chunk().ok_or(IpHeaderError::Short)?;
        let [version, family, port_high, port_low, addresses @ ..] = *header;
        if version >> 4 != 0 {
            return Err(IpHeaderError::Version(version >> 4));
        }
        let (source, destination) = addresses.split_at(16);
        let address = |field: &[u8]| {
            let octets: [u8; 16] = field.try_into().map_err(|_| IpHeaderError::Short)?;
            match family >> 4 {
                4 => {
                    let [.., a, b, c, d] = octets;
                    Ok(IpAddr::V4(Ipv4Addr::new(a, b, c, d)))
                }
                6 => Ok(IpAddr::V6(Ipv6Addr::from(octets))),
                other => Err(IpHeaderError::Family(other)),
            }
        };
        Ok(Self {
            source_port: u16::from_be_bytes([port_high, port_low]),
            source: address(source)?,
            destination: address(destination)?,
        })
    }

    /// The bytes of the header.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; IP_HEADER_LEN] {
        let mut bytes = [0; IP_HEADER_LEN];
        let family = if self.source.is_ipv4() { 4 } else { 6 };
        let [high, low] = self.source_port.to_be_bytes();
        bytes[..4].copy_from_slice(&[0, family << 4, high, low]);
        for (at, address) in [(4, self.source), (20, self.destination)] {
            match address {
                IpAddr::V4(v4) => bytes[at + 12..at + 16].copy_from_slice(&v4.octets()),
                IpAddr::V6(v6) => bytes[at..at + 16].copy_from_slice(&v6.octets()),
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_both_families_come_back() {
        for (source, destination) in [("10.0.0.1", "10.0.0.2"), ("fe80::1", "2001:db8::7")] {
            let header = IpHeader {
                source_port: 0xc287,
                source: source.parse().unwrap(),
                destination: destination.parse().unwrap(),
            };
            let bytes = header.to_bytes();
            assert_eq!(IpHeader::parse(&bytes), Ok(header));
            for len in 0..IP_HEADER_LEN {
                assert_eq!(IpHeader::parse(&bytes[..len]), Err(IpHeaderError::Short));
            }
        }
    }

    #[test]
    fn versions_and_families_that_nobody_knows_are_refused() {
        let mut bytes = [0; IP_HEADER_LEN];
        assert_eq!(IpHeader::parse(&bytes), Err(IpHeaderError::Family(0)));
        bytes[1] = 0x4f;
        bytes[0] = 0x0f;
        assert!(IpHeader::parse(&bytes).is_ok());
        bytes[0] = 0x10;
        assert_eq!(IpHeader::parse(&bytes), Err(IpHeaderError::Version(1)));
    }
}
