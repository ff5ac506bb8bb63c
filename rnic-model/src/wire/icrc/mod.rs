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

use self::crc::{FieldEffect, feed, feed_slowly, field_from_effect};
use super::Route;
use super::ip::{Ipv4Header, Ipv6Header, UdpHeader};

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

    /// Starts on a packet that comes in pieces.
    #[must_use]
    #[inline]
    pub const fn digest(&self) -> IcrcDigest {
        IcrcDigest { register: self.register, len: 0, identification: self.identification }
    }

    /// The ICRC of `packet`, as it stands on the wire.
    #[must_use]
    #[inline]
    // [icrc/covers-whole-datagram] [icrc/byte-order]
    pub fn finish(&self, packet: &[u8]) -> [u8; ICRC_LEN] {
        self.digest_of(packet).finish()
    }

    /// Judges the ICRC that came with `packet`.
    #[must_use]
    #[inline]
    // [icrc/every-bit]
    pub fn verify(&self, packet: &[u8], icrc: [u8; ICRC_LEN]) -> IcrcVerdict {
        self.digest_of(packet).verify(icrc)
    }

    /// The IPv4 identification with which `icrc` is right, if there is one. Of all wrong ICRCs one
    /// in 65,536 has one too.
    #[must_use]
    pub fn solve_identification(&self, packet: &[u8], icrc: [u8; ICRC_LEN]) -> Option<u16> {
        self.digest_of(packet).solve_identification(icrc)
    }

    #[inline]
    fn digest_of(&self, packet: &[u8]) -> IcrcDigest {
        let mut digest = self.digest();
        digest.update(packet);
        digest
    }
}

/// An ICRC in the making, fed piece by piece.
#[derive(Clone, Copy, Debug)]
pub struct IcrcDigest {
    register: u32,
    /// Bytes of the packet so far.
    len: usize,
    identification: Option<u16>,
}

impl IcrcDigest {
    /// Feeds the next bytes of the packet.
    #[inline]
    pub fn update(&mut self, piece: &[u8]) {
        let masked = MASKED_BYTE.checked_sub(self.len);
        self.len += piece.len();
        match masked {
            Some(index) if index < piece.len() => self.update_masked(piece, index),
            _ => self.register = feed(self.register, piece),
        }
    }

    /// Feeds `piece` with ones in place of `piece[index]`.
    #[inline]
    fn update_masked(&mut self, piece: &[u8], index: usize) {
        // The masked byte comes early, so a copy of the first block is enough. 16 bytes are what
        // the CRC takes in one step.
        if index == MASKED_BYTE
            && let Some((first, rest)) = piece.split_first_chunk::<16>()
        {
            let mut block = *first;
            block[MASKED_BYTE] = 0xff;
            self.register = feed(feed(self.register, &block), rest);
        } else {
            let (before, rest) = piece.split_at(index);
            self.register = feed(feed(self.register, before), &[0xff]);
            self.register = feed(self.register, rest.get(1..).unwrap_or_default());
        }
    }

    /// The ICRC of what was fed, as it stands on the wire.
    #[must_use]
    #[inline]
    pub fn finish(&self) -> [u8; ICRC_LEN] {
        (!self.register).to_le_bytes()
    }

    /// Judges the ICRC that came with what was fed.
    #[must_use]
    #[inline]
    pub fn verify(&self, icrc: [u8; ICRC_LEN]) -> IcrcVerdict {
        if self.finish() == icrc {
            return IcrcVerdict::Full;
        }
        match self.solve_identification(icrc) {
            Some(identification) => IcrcVerdict::Solved(identification),
            None => IcrcVerdict::Bad,
        }
    }

    /// As [`IcrcSeed::solve_identification`].
    #[must_use]
    pub fn solve_identification(&self, icrc: [u8; ICRC_LEN]) -> Option<u16> {
        let assumed = self.identification?;
        let behind = u16::try_from(self.len).ok()?.checked_add(BEHIND_IDENTIFICATION)?;
        let difference = !self.register ^ u32::from_le_bytes(icrc);
        Some(assumed ^ field_from_effect(difference, behind)?)
    }
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
