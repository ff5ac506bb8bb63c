//! The invariant CRC: four bytes behind every packet (IBA annex A17.3.3; volume 1, section 7.8.1).
//!
//! It is the CRC-32 of Ethernet over 8 bytes of ones, the IP and UDP headers and the packet, with
//! ones in place of every field that a router may change. On the wire the least significant byte
//! comes first.
//!
//! What a sender knows beforehand is digested once into an [`IcrcRoute`]; lengths and the IPv4
//! identification are mixed in by table look-up ([`IcrcSeed`]). A socket does not show the
//! identification of what it receives, so [`IcrcSeed::verify`] can solve for it: 16 of the 32 bits
//! are spent on that, the other 16 still check.

mod crc;
#[cfg(test)]
mod tests;

use zerocopy::{FromBytes, IntoBytes};

use self::crc::{FieldEffect, SHORT, feed, feed_12, feed_short, feed_slowly, field_from_effect};
use super::ip::{Ipv4Header, Ipv6Header, UdpHeader};
use super::{Bth, Route};

/// Length of the ICRC in bytes.
pub const ICRC_LEN: usize = 4;

/// In the packet: FECN, BECN and 6 reserved bits.
// [icrc/bth-resv8a-masked]
const MASKED_BYTE: usize = 4;

/// Bytes between the identification of an IPv4 header without options and the packet.
const BEHIND_IDENTIFICATION: u16 = 14 + 8;

static IDENTIFICATION: FieldEffect = FieldEffect::followed_by(BEHIND_IDENTIFICATION as usize);
static IPV4_TOTAL_LEN: FieldEffect = FieldEffect::followed_by(16 + UdpHeader::LEN);
static IPV6_PAYLOAD_LEN: FieldEffect = FieldEffect::followed_by(34 + UdpHeader::LEN);
static UDP_LEN: FieldEffect = FieldEffect::followed_by(2);

/// Splits a datagram into packet and ICRC, if it is long enough for the latter.
#[must_use]
pub fn split_icrc(datagram: &[u8]) -> Option<(&[u8], [u8; ICRC_LEN])> {
    let (packet, icrc) = datagram.split_last_chunk()?;
    Some((packet, *icrc))
}

/// What the ICRCs of all packets on one route have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcrcRoute {
    /// CRC register after the headers, with lengths and identification 0.
    register: u32,
    is_v4: bool,
}

impl IcrcRoute {
    /// Digests the addresses and ports of `route`; its other fields do not matter.
    #[must_use]
    pub fn new(route: &Route) -> Self {
        let is_v4 = route.is_v4();
        let network = if is_v4 {
            feed(AFTER_ONES, Ipv4Header::unsummed(route, 0, 0).masked().as_bytes())
        } else {
            feed(AFTER_ONES, Ipv6Header::new(route, 0).masked().as_bytes())
        };
        let udp = UdpHeader::new(route.src_port, 0).masked();
        Self { register: feed(network, udp.as_bytes()), is_v4 }
    }

    /// The state in front of a packet whose UDP datagram carries `udp_payload_len` bytes: packet
    /// and ICRC. IPv4: identification 0, don't-fragment set.
    #[must_use]
    #[inline]
    pub fn seed(&self, udp_payload_len: usize) -> IcrcSeed {
        let udp_len = low_16(udp_payload_len.wrapping_add(UdpHeader::LEN));
        let network_len = if self.is_v4 {
            IPV4_TOTAL_LEN.of(low_16(udp_payload_len.wrapping_add(20 + UdpHeader::LEN)))
        } else {
            IPV6_PAYLOAD_LEN.of(udp_len)
        };
        IcrcSeed {
            register: self.register ^ network_len ^ UDP_LEN.of(udp_len),
            identification: self.is_v4.then_some(0),
        }
    }
}

/// Lengths past 65,535 do not occur in a UDP datagram; the seed of one matches no frame.
pub(super) fn low_16(len: usize) -> u16 {
    let [low, high, ..] = len.to_le_bytes();
    u16::from_le_bytes([low, high])
}

/// The register after 8 bytes of ones, which stand for the link layer.
// [icrc/seed]
const AFTER_ONES: u32 = feed_slowly(!0, &[0xff; 8]);

/// The state of an ICRC in front of the packet: everything up to the end of the UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcrcSeed {
    register: u32,
    /// The identification that is mixed in and may be replaced; `None` if there is none (IPv6), or
    /// if it was read from the frame itself.
    identification: Option<u16>,
}

impl IcrcSeed {
    /// The state in front of a packet on `route` whose UDP datagram carries `udp_payload_len`
    /// bytes: packet and ICRC. IPv4: identification 0, don't-fragment set. Keep an [`IcrcRoute`]
    /// instead where many packets travel one route.
    #[must_use]
    pub fn new(route: &Route, udp_payload_len: usize) -> Self {
        IcrcRoute::new(route).seed(udp_payload_len)
    }

    /// The state behind the headers of a captured frame, with whatever flags, options and
    /// identification they have. `ip` is one IPv4 header with its options or one IPv6 header;
    /// without `udp` this is RoCE version 1, whose GRH has the form of an IPv6 header.
    ///
    /// `None` if `ip` is neither.
    #[must_use]
    pub fn from_headers(ip: &[u8], udp: Option<&UdpHeader>) -> Option<Self> {
        match ip.first()? >> 4 {
            4 => {
                let (header, options) = Ipv4Header::read_from_prefix(ip).ok()?;
                if header.header_len() == ip.len() {
                    Some(Self::of_ipv4(&header, options, udp?))
                } else {
                    None
                }
            }
            6 => Some(Self::of_ipv6(&Ipv6Header::read_from_bytes(ip).ok()?, udp)),
            _ => None,
        }
    }

    /// As [`IcrcSeed::from_headers`], for a header taken apart.
    pub(super) fn of_ipv4(header: &Ipv4Header, options: &[u8], udp: &UdpHeader) -> Self {
        let network = feed(feed(AFTER_ONES, header.masked().as_bytes()), options);
        Self { register: feed(network, udp.masked().as_bytes()), identification: None }
    }

    /// As [`IcrcSeed::from_headers`], for a header taken apart.
    pub(super) fn of_ipv6(header: &Ipv6Header, udp: Option<&UdpHeader>) -> Self {
        let network = feed(AFTER_ONES, header.masked().as_bytes());
        let register = udp.map_or(network, |udp| feed(network, udp.masked().as_bytes()));
        Self { register, identification: None }
    }

    /// The same with another IPv4 identification. Seeds without one (IPv6, or made by
    /// [`IcrcSeed::from_headers`]) stay as they are.
    #[must_use]
    #[inline]
    // [icrc/ipv4-identification-covered]
    pub fn with_identification(self, identification: u16) -> Self {
        match self.identification {
            Some(old) => Self {
                register: self.register ^ IDENTIFICATION.of(old ^ identification),
                identification: Some(identification),
            },
            None => self,
        }
    }

    /// The ICRC of `packet`, as it stands on the wire.
    #[must_use]
    #[inline]
    // [icrc/covers-whole-datagram] [icrc/byte-order]
    pub fn finish(&self, packet: &[u8]) -> [u8; ICRC_LEN] {
        (!feed_packet(self.register, packet)).to_le_bytes()
    }

    /// Judges the ICRC that came with `packet`.
    #[must_use]
    #[inline]
    // [icrc/every-bit]
    pub fn verify(&self, packet: &[u8], icrc: [u8; ICRC_LEN]) -> IcrcVerdict {
        let difference = !feed_packet(self.register, packet) ^ u32::from_le_bytes(icrc);
        if difference == 0 {
            return IcrcVerdict::Full;
        }
        match self.solve(packet.len(), difference) {
            Some(identification) => IcrcVerdict::Solved(identification),
            None => IcrcVerdict::Bad,
        }
    }

    /// The IPv4 identification with which `icrc` is right, if there is one. Of all wrong ICRCs one
    /// in 65,536 has one too.
    #[must_use]
    pub fn solve_identification(&self, packet: &[u8], icrc: [u8; ICRC_LEN]) -> Option<u16> {
        let difference = !feed_packet(self.register, packet) ^ u32::from_le_bytes(icrc);
        self.solve(packet.len(), difference)
    }

    /// The identification that changes the ICRC of a packet of `len` bytes by `difference`.
    fn solve(&self, len: usize, difference: u32) -> Option<u16> {
        let assumed = self.identification?;
        let behind = u16::try_from(len).ok()?.checked_add(BEHIND_IDENTIFICATION)?;
        Some(assumed ^ field_from_effect(difference, behind)?)
    }
}

/// Vector instructions take the CRC in blocks of this many bytes or a part of it; what is left over
/// costs as much as several blocks.
const BLOCK: usize = 128;

/// The register after a packet, one byte of which is masked.
#[inline]
fn feed_packet(register: u32, packet: &[u8]) -> u32 {
    let Some((bth, rest)) = packet.split_first_chunk() else {
        return feed_stump(register, packet);
    };
    let mut masked: [u8; size_of::<Bth>()] = *bth;
    masked[MASKED_BYTE] = 0xff;
    let register = feed_12(register, masked);
    // Headers are short, and payloads mostly multiples of a block: what makes no block goes first.
    let odd = rest.len() % BLOCK;
    match rest.split_at_checked(odd) {
        Some((odd, blocks)) if odd.len() <= SHORT => feed(feed_short(register, odd), blocks),
        _ => feed(register, rest),
    }
}

/// As [`feed_packet`], of what is shorter than any packet.
#[cold]
fn feed_stump(register: u32, packet: &[u8]) -> u32 {
    let mask = |(at, &byte): (usize, &u8)| if at == MASKED_BYTE { 0xff } else { byte };
    packet.iter().enumerate().fold(register, |register, byte| feed_short(register, &[mask(byte)]))
}

/// What an ICRC proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IcrcVerdict {
    /// All 32 bits are right.
    Full,
    /// Right if the IPv4 identification was this one: a check of 16 bits. Of random damage one case
    /// in 65,536 passes; a single flipped bit in the first 26,744 bytes of a packet never does.
    Solved(u16),
    /// Wrong.
    Bad,
}

impl IcrcVerdict {
    /// Whether the packet may be believed.
    #[must_use]
    pub const fn is_good(self) -> bool {
        !matches!(self, Self::Bad)
    }
}
