//! The base transport header.

use core::fmt;

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Opcode;
use crate::verbs::{Psn, QpNum};

const LOW_24: u32 = 0x00ff_ffff;
const HIGH_8: u32 = !LOW_24;

/// Base transport header: 12 bytes in front of every packet (IBA volume 1, section 9.2).
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
// [packet-format/reserved-ignored]
pub struct Bth {
    opcode: u8,
    /// Solicited event, migration request, pad count (2), transport version (4).
    flags: u8,
    pkey: U16,
    /// FECN, BECN, 6 reserved bits, destination QP (24).
    ecn_qp: U32,
    /// Acknowledge request, 7 reserved bits, PSN (24).
    ack_psn: U32,
}

const _: () = assert!(size_of::<Bth>() == 12);

impl Bth {
    /// The partition key that every member of the default partition has.
    pub const DEFAULT_PKEY: u16 = 0xffff;

    const SOLICITED: u8 = 1 << 7;
    const MIGREQ: u8 = 1 << 6;
    const PAD_SHIFT: u32 = 4;
    const VERSION: u8 = 0x0f;
    const FECN: u32 = 1 << 31;
    const BECN: u32 = 1 << 30;
    const ACK_REQ: u32 = 1 << 31;

    /// A header of the default partition, with every flag clear, no pad, transport version 0.
    #[must_use]
    pub const fn new(opcode: Opcode, dest_qp: QpNum, psn: Psn) -> Self {
        Self {
            opcode: opcode.0,
            flags: 0,
            pkey: U16::from_bytes(Self::DEFAULT_PKEY.to_be_bytes()),
            ecn_qp: U32::from_bytes(dest_qp.get().to_be_bytes()),
            ack_psn: U32::from_bytes(psn.get().to_be_bytes()),
        }
    }

    /// What the packet is.
    #[must_use]
    pub const fn opcode(&self) -> Opcode {
        Opcode(self.opcode)
    }

    /// Whether the responder shall raise a solicited event.
    #[must_use]
    pub const fn solicited(&self) -> bool {
        self.flags & Self::SOLICITED != 0
    }

    /// Migration request: with automatic path migration, whether the sender is in state Migrated.
    #[must_use]
    pub const fn migreq(&self) -> bool {
        self.flags & Self::MIGREQ != 0
    }

    /// Pad bytes between payload and ICRC, 0 to 3.
    #[must_use]
    pub const fn pad(&self) -> usize {
        (self.flags >> Self::PAD_SHIFT & 0b11) as usize
    }

    /// Transport header version; only 0 exists.
    #[must_use]
    pub const fn transport_version(&self) -> u8 {
        self.flags & Self::VERSION
    }

    /// Partition key.
    #[must_use]
    pub const fn pkey(&self) -> u16 {
        self.pkey.get()
    }

    /// Forward explicit congestion notification: this packet met congestion.
    #[must_use]
    // [packet-format/fecn-becn-ignored]
    pub const fn fecn(&self) -> bool {
        self.ecn_qp.get() & Self::FECN != 0
    }

    /// Backward explicit congestion notification: the other direction met congestion.
    #[must_use]
    pub const fn becn(&self) -> bool {
        self.ecn_qp.get() & Self::BECN != 0
    }

    /// Destination queue pair.
    #[must_use]
    pub const fn dest_qp(&self) -> QpNum {
        QpNum::new(self.ecn_qp.get())
    }

    /// Whether the requester asks for an acknowledgement.
    #[must_use]
    pub const fn ack_req(&self) -> bool {
        self.ack_psn.get() & Self::ACK_REQ != 0
    }

    /// Packet sequence number.
    #[must_use]
    pub const fn psn(&self) -> Psn {
        Psn::new(self.ack_psn.get())
    }

    /// The same with another solicited event bit.
    #[must_use]
    pub const fn with_solicited(self, on: bool) -> Self {
        self.with_flag(Self::SOLICITED, on)
    }

    /// The same with another migration request bit.
    #[must_use]
    pub const fn with_migreq(self, on: bool) -> Self {
        self.with_flag(Self::MIGREQ, on)
    }

    /// The same with another pad count; of `pad` the low 2 bits count.
    #[must_use]
    pub const fn with_pad(mut self, pad: usize) -> Self {
        let bits = (pad & 0b11).to_le_bytes()[0] << Self::PAD_SHIFT;
        self.flags = self.flags & !(0b11 << Self::PAD_SHIFT) | bits;
        self
    }

    /// The same with another transport version; of `version` the low 4 bits count.
    #[must_use]
    pub const fn with_transport_version(mut self, version: u8) -> Self {
        self.flags = self.flags & !Self::VERSION | version & Self::VERSION;
        self
    }

    /// The same with another partition key.
    #[must_use]
    pub const fn with_pkey(mut self, pkey: u16) -> Self {
        self.pkey = U16::from_bytes(pkey.to_be_bytes());
        self
    }

    /// The same with another FECN bit.
    #[must_use]
    pub const fn with_fecn(mut self, on: bool) -> Self {
        self.ecn_qp = with_bit(self.ecn_qp, Self::FECN, on);
        self
    }

    /// The same with another BECN bit.
    #[must_use]
    pub const fn with_becn(mut self, on: bool) -> Self {
        self.ecn_qp = with_bit(self.ecn_qp, Self::BECN, on);
        self
    }

    /// The same for another queue pair.
    #[must_use]
    pub const fn with_dest_qp(mut self, dest_qp: QpNum) -> Self {
        let word = self.ecn_qp.get() & HIGH_8 | dest_qp.get();
        self.ecn_qp = U32::from_bytes(word.to_be_bytes());
        self
    }

    /// The same with another acknowledge request bit.
    #[must_use]
    pub const fn with_ack_req(mut self, on: bool) -> Self {
        self.ack_psn = with_bit(self.ack_psn, Self::ACK_REQ, on);
        self
    }

    /// The same with another sequence number.
    #[must_use]
    pub const fn with_psn(mut self, psn: Psn) -> Self {
        let word = self.ack_psn.get() & HIGH_8 | psn.get();
        self.ack_psn = U32::from_bytes(word.to_be_bytes());
        self
    }

    const fn with_flag(mut self, flag: u8, on: bool) -> Self {
        self.flags = if on { self.flags | flag } else { self.flags & !flag };
        self
    }
}

const fn with_bit(word: U32, bit: u32, on: bool) -> U32 {
    let word = if on { word.get() | bit } else { word.get() & !bit };
    U32::from_bytes(word.to_be_bytes())
}

impl fmt::Debug for Bth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bth")
            .field("opcode", &self.opcode())
            .field("solicited", &self.solicited())
            .field("migreq", &self.migreq())
            .field("pad", &self.pad())
            .field("transport_version", &self.transport_version())
            .field("pkey", &format_args!("{:#06x}", self.pkey()))
            .field("fecn", &self.fecn())
            .field("becn", &self.becn())
            .field("dest_qp", &self.dest_qp())
            .field("ack_req", &self.ack_req())
            .field("psn", &self.psn())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bytes_are_where_they_belong() {
        let plain = Bth::new(Opcode(0x0a), QpNum::new(0x0a_0b0c), Psn::new(0x01_0203));
        assert_eq!(plain.as_bytes(), [0x0a, 0, 0xff, 0xff, 0, 0x0a, 0x0b, 0x0c, 0, 1, 2, 3]);
        let full = plain
            .with_solicited(true)
            .with_migreq(true)
            .with_pad(3)
            .with_transport_version(0xf)
            .with_pkey(0x1234)
            .with_fecn(true)
            .with_becn(true)
            .with_ack_req(true);
        assert_eq!(
            full.as_bytes(),
            [0x0a, 0xff, 0x12, 0x34, 0xc0, 0x0a, 0x0b, 0x0c, 0x80, 1, 2, 3]
        );
    }

    proptest! {
        #[test]
        fn round_trip(bytes: [u8; 12]) {
            let read = Bth::read_from_bytes(&bytes).unwrap();
            let again = Bth::new(read.opcode(), read.dest_qp(), read.psn())
                .with_solicited(read.solicited())
                .with_migreq(read.migreq())
                .with_pad(read.pad())
                .with_transport_version(read.transport_version())
                .with_pkey(read.pkey())
                .with_fecn(read.fecn())
                .with_becn(read.becn())
                .with_ack_req(read.ack_req());
            let mut expected = bytes;
            expected[4] &= 0xc0;
            expected[8] &= 0x80;
            prop_assert_eq!(again.as_bytes(), &expected[..]);
        }

        /// Each setter changes its own bits, reserved ones of others included.
        #[test]
        fn setters_leave_the_rest_alone(bytes: [u8; 12], on: bool, n: u32) {
            let read = Bth::read_from_bytes(&bytes).unwrap();
            let changed = [
                (read.with_solicited(on), 1, 0x80),
                (read.with_migreq(on), 1, 0x40),
                (read.with_pad(n as usize), 1, 0x30),
                (read.with_transport_version(n.to_le_bytes()[0]), 1, 0x0f),
                (read.with_fecn(on), 4, 0x80),
                (read.with_becn(on), 4, 0x40),
                (read.with_ack_req(on), 8, 0x80),
            ];
            for (bth, byte, mask) in changed {
                let mut difference: [u8; 12] = zerocopy::transmute!(bth);
                difference.iter_mut().zip(bytes).for_each(|(new, old)| *new ^= old);
                prop_assert_eq!(difference[byte] & !mask, 0);
                difference[byte] = 0;
                prop_assert_eq!(difference, [0; 12]);
            }
            let moved = read.with_psn(Psn::new(n)).with_dest_qp(QpNum::new(n));
            prop_assert_eq!((moved.psn(), moved.dest_qp()), (Psn::new(n), QpNum::new(n)));
            let back = moved.with_psn(read.psn()).with_dest_qp(read.dest_qp());
            prop_assert_eq!(back, read);
        }
    }
}
