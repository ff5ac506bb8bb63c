//! A packet taken apart.

use core::fmt;

use zerocopy::FromBytes;

use super::bth::Bth;
use super::headers::{
    Aeth, AtomicAckEth, AtomicEth, Deth, ExtensionHeader, Feth, Ieth, ImmDt, Reth, XrcEth,
};
use super::{Opcode, OpcodeFacts};

/// A packet from the base transport header to the end of the pad, ICRC excluded.
///
/// That it parses says only that the headers are complete and the lengths add up. Whether opcode,
/// version, keys and payload length are acceptable is for the receiver to judge.
#[derive(Clone, Copy)]
pub struct Packet<'a> {
    /// What the packet is.
    pub opcode: Opcode,
    /// What the opcode implies; `None` if it is unknown, and then everything behind the base
    /// transport header counts as payload.
    pub facts: Option<&'static OpcodeFacts>,
    /// Base transport header.
    pub bth: Bth,
    /// What follows the headers, without the pad. It need not be empty for opcodes that carry no
    /// message data (a CNP has 16 reserved bytes; a peer may send anything).
    pub payload: &'a [u8],
    bytes: &'a [u8],
}

/// Why bytes are not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParseError {
    /// Shorter than a base transport header.
    TooShortForBth,
    /// Not a multiple of 4 bytes.
    Misaligned,
    /// Shorter than the headers that the opcode demands.
    TooShortForHeaders,
    /// The pad count exceeds the bytes behind the headers.
    PadTooLong,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooShortForBth => "shorter than a base transport header",
            Self::Misaligned => "length is not a multiple of 4",
            Self::TooShortForHeaders => "shorter than the headers of its opcode",
            Self::PadTooLong => "pad count exceeds what follows the headers",
        })
    }
}

impl core::error::Error for ParseError {}

impl<'a> Packet<'a> {
    /// Takes apart the bytes from the base transport header to the end of the pad.
    ///
    /// # Errors
    /// See [`ParseError`]; checked in the order of its variants.
    #[inline]
    // [attacks/malformed-lengths]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        // [packet-format/bth-length]
        let (bth, behind_bth) =
            Bth::read_from_prefix(bytes).map_err(|_| ParseError::TooShortForBth)?;
        // [packet-format/word-length]
        if !bytes.len().is_multiple_of(4) {
            return Err(ParseError::Misaligned);
        }
        let opcode = bth.opcode();
        let facts = opcode.facts();
        // [packet-format/extension-headers]
        let behind_headers = match facts {
            Some(facts) => bytes.get(facts.header_len()..).ok_or(ParseError::TooShortForHeaders)?,
            None => behind_bth,
        };
        // [packet-format/pad-count]
        let payload_len =
            behind_headers.len().checked_sub(bth.pad()).ok_or(ParseError::PadTooLong)?;
        let payload = &behind_headers[..payload_len];
        Ok(Self { opcode, facts, bth, payload, bytes })
    }

    /// All bytes, as given to [`Packet::parse`].
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// RDMA extended transport header, if the opcode has one.
    #[must_use]
    #[inline]
    pub fn reth(&self) -> Option<&'a Reth> {
        self.extension()
    }

    /// ACK extended transport header, if the opcode has one.
    #[must_use]
    #[inline]
    pub fn aeth(&self) -> Option<&'a Aeth> {
        self.extension()
    }

    /// Atomic extended transport header, if the opcode has one.
    #[must_use]
    #[inline]
    pub fn atomic_eth(&self) -> Option<&'a AtomicEth> {
        self.extension()
    }

    /// Atomic ACK extended transport header, if the opcode has one.
    #[must_use]
    #[inline]
    pub fn atomic_ack_eth(&self) -> Option<&'a AtomicAckEth> {
        self.extension()
    }

    /// Immediate data, if the opcode has it.
    #[must_use]
    #[inline]
    pub fn imm_dt(&self) -> Option<&'a ImmDt> {
        self.extension()
    }

    /// Invalidate extended transport header, if the opcode has one.
    #[must_use]
    #[inline]
    pub fn ieth(&self) -> Option<&'a Ieth> {
        self.extension()
    }

    /// Datagram extended transport header, if the opcode has one.
    #[must_use]
    #[inline]
    pub fn deth(&self) -> Option<&'a Deth> {
        self.extension()
    }

    /// XRC extended transport header, if the opcode has one.
    #[must_use]
    #[inline]
    pub fn xrc_eth(&self) -> Option<&'a XrcEth> {
        self.extension()
    }

    /// FLUSH extended transport header, if the opcode has one.
    #[must_use]
    #[inline]
    pub fn feth(&self) -> Option<&'a Feth> {
        self.extension()
    }

    #[inline]
    fn extension<H: ExtensionHeader>(&self) -> Option<&'a H> {
        let start = self.facts?.offset_of::<H>()?;
        let (header, _) = H::ref_from_prefix(self.bytes.get(start..)?).ok()?;
        Some(header)
    }
}

impl fmt::Debug for Packet<'_> {
    /// The headers that are there, and how long the payload is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Packet");
        shown.field("bth", &self.bth);
        let extensions: [Option<&dyn fmt::Debug>; 9] = [
            self.deth().map(|h| h as _),
            self.xrc_eth().map(|h| h as _),
            self.feth().map(|h| h as _),
            self.reth().map(|h| h as _),
            self.atomic_eth().map(|h| h as _),
            self.aeth().map(|h| h as _),
            self.atomic_ack_eth().map(|h| h as _),
            self.imm_dt().map(|h| h as _),
            self.ieth().map(|h| h as _),
        ];
        for header in extensions.into_iter().flatten() {
            shown.field("extension", header);
        }
        shown.field("payload_len", &self.payload.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_opcode_at_every_length_with_every_pad() {
        for opcode in 0..=u8::MAX {
            let header_len = Opcode(opcode).facts().map_or(12, OpcodeFacts::header_len);
            for (pad, len) in (0..4).flat_map(|pad| (0..80).map(move |len| (pad, len))) {
                let mut bytes: Vec<u8> = (0..len).collect();
                for (at, value) in [(0, opcode), (1, pad << 4)] {
                    bytes.get_mut(at).into_iter().for_each(|byte| *byte = value);
                }
                let (len, pad) = (usize::from(len), usize::from(pad));
                let expected = if len < 12 {
                    Err(ParseError::TooShortForBth)
                } else if len % 4 != 0 {
                    Err(ParseError::Misaligned)
                } else if len < header_len {
                    Err(ParseError::TooShortForHeaders)
                } else if len < header_len + pad {
                    Err(ParseError::PadTooLong)
                } else {
                    Ok(&bytes[header_len..len - pad])
                };
                let parsed = Packet::parse(&bytes);
                assert_eq!(parsed.map(|packet| packet.payload), expected, "{opcode} {pad} {len}");
            }
        }
    }

    #[test]
    fn extension_headers_follow_each_other_and_fill_the_header() {
        for opcode in (0..=u8::MAX).map(Opcode).filter(|opcode| opcode.facts().is_some()) {
            let facts = opcode.facts().unwrap();
            let mut bytes = [0; 64];
            bytes[0] = opcode.0;
            let packet = Packet::parse(&bytes).unwrap();
            let at = |header: *const u8, len: usize| {
                let start = header as usize - bytes.as_ptr() as usize;
                start..start + len
            };
            let present = [
                packet.deth().map(|h| at(core::ptr::from_ref(h).cast(), 8)),
                packet.xrc_eth().map(|h| at(core::ptr::from_ref(h).cast(), 4)),
                packet.feth().map(|h| at(core::ptr::from_ref(h).cast(), 4)),
                packet.reth().map(|h| at(core::ptr::from_ref(h).cast(), 16)),
                packet.atomic_eth().map(|h| at(core::ptr::from_ref(h).cast(), 28)),
                packet.aeth().map(|h| at(core::ptr::from_ref(h).cast(), 4)),
                packet.atomic_ack_eth().map(|h| at(core::ptr::from_ref(h).cast(), 8)),
                packet.imm_dt().map(|h| at(core::ptr::from_ref(h).cast(), 4)),
                packet.ieth().map(|h| at(core::ptr::from_ref(h).cast(), 4)),
            ];
            let end = present.iter().flatten().fold(12, |end, range| {
                assert_eq!(range.start, end, "{opcode:?}");
                range.end
            });
            assert_eq!(end, facts.header_len(), "{opcode:?}");
            assert_eq!(present.iter().flatten().count(), facts.extensions.iter().count());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_safe_to_show(bytes in prop::collection::vec(any::<u8>(), 0..96)) {
            if let Ok(packet) = Packet::parse(&bytes) {
                let shown = alloc::format!("{packet:?}");
                prop_assert!(shown.starts_with("Packet"));
            }
        }
    }
}
