//! What an acknowledgement says, and the 5-bit time codes of the transport.

/// The high byte of an [`Aeth`](super::Aeth) (IBA volume 1, section 9.3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Syndrome {
    /// Done.
    Ack {
        /// Code of the receive credits, 5 bits; [`Syndrome::NO_CREDITS`] if not kept.
        credits: u8,
    },
    /// No receive is posted: try again later.
    RnrNak {
        /// Code of the least time to wait, 5 bits: see [`rnr_timer_ns`].
        timer: u8,
    },
    /// Refused.
    Nak(NakCode),
    /// A value without a meaning.
    Reserved(u8),
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum NakCode {
    /// A packet is missing: resend from the expected PSN.
    PsnSequence = 0,
    /// The request is malformed or not allowed here.
    InvalidRequest = 1,
    /// Key, range or permission.
    RemoteAccess = 2,
    /// The responder failed.
    RemoteOperational = 3,
    /// Reliable datagram only.
    InvalidRd = 4,
}

impl Syndrome {
    /// The credit code of a responder that does not count credits.
    pub const NO_CREDITS: u8 = 31;

    /// An acknowledgement without credits.
    // [acknowledgement-retry/ack-format]
    pub const ACK: Self = Self::Ack { credits: Self::NO_CREDITS };

    const VALUE: u8 = 0b0001_1111;
    const RNR_NAK: u8 = 0b0010_0000;
    const NAK: u8 = 0b0110_0000;
}

impl From<u8> for Syndrome {
    fn from(byte: u8) -> Self {
        let value = byte & Self::VALUE;
        match byte & !Self::VALUE {
            0 => Self::Ack { credits: value },
            Self::RNR_NAK => Self::RnrNak { timer: value },
            Self::NAK => match value {
                0 => Self::Nak(NakCode::PsnSequence),
                1 => Self::Nak(NakCode::InvalidRequest),
                2 => Self::Nak(NakCode::RemoteAccess),
                3 => Self::Nak(NakCode::RemoteOperational),
                4 => Self::Nak(NakCode::InvalidRd),
                _ => Self::Reserved(byte),
            },
            _ => Self::Reserved(byte),
        }
    }
}

impl From<Syndrome> for u8 {
    /// Codes wider than 5 bits are cut to their low 5 bits.
    fn from(syndrome: Syndrome) -> Self {
        match syndrome {
            Syndrome::Ack { credits } => credits & Syndrome::VALUE,
            Syndrome::RnrNak { timer } => Syndrome::RNR_NAK | timer & Syndrome::VALUE,
            Syndrome::Nak(code) => Syndrome::NAK | code as Self,
            Syndrome::Reserved(byte) => byte,
        }
    }
}

/// Nanoseconds of an RNR timer code, of which the low 5 bits count (`min_rnr_timer` in
/// `ibv_modify_qp(3)`).
#[must_use]
// [rnr/timer-code]
pub const fn rnr_timer_ns(code: u8) -> u64 {
    RNR_TIMER_10_US[(code & 0x1f) as usize] as u64 * 10_000
}

/// By code, in units of 10 microseconds. From code 4 on the steps are a half and a third in turn.
const RNR_TIMER_10_US: [u32; 32] = [
    65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024,
    1_536, 2_048, 3_072, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768, 49_152,
];

/// Nanoseconds of a local ACK timeout code, of which the low 5 bits count: 4.096 us times two to
/// the power of the code. 0 means never (`timeout` in `ibv_modify_qp(3)`).
#[must_use]
// [acknowledgement-retry/timeout] [acknowledgement-retry/timeout-zero]
pub const fn ack_timeout_ns(code: u8) -> Option<u64> {
    match code & 0x1f {
        0 => None,
        exponent => Some(4_096 << exponent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_survives() {
        for byte in 0..=u8::MAX {
            let syndrome = Syndrome::from(byte);
            assert_eq!(u8::from(syndrome), byte, "{syndrome:?}");
            let meant = match byte {
                0x00..=0x1f => matches!(syndrome, Syndrome::Ack { credits } if credits == byte),
                0x20..=0x3f => {
                    matches!(syndrome, Syndrome::RnrNak { timer } if timer == byte - 0x20)
                }
                0x60..=0x64 => {
                    matches!(syndrome, Syndrome::Nak(code) if code as u8 == byte - 0x60)
                }
                _ => syndrome == Syndrome::Reserved(byte),
            };
            assert!(meant, "{byte:#04x} is {syndrome:?}");
        }
        assert_eq!(u8::from(Syndrome::ACK), 0x1f);
    }

    #[test]
    fn codes_are_cut_to_their_bits() {
        assert_eq!(u8::from(Syndrome::Ack { credits: 0xff }), 0x1f);
        assert_eq!(u8::from(Syndrome::RnrNak { timer: 0xff }), 0x3f);
    }

    #[test]
    fn rnr_timers() {
        // Microseconds, as ibv_modify_qp(3) lists them in milliseconds.
        let us = [
            655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1_280, 1_920,
            2_560, 3_840, 5_120, 7_680, 10_240, 15_360, 20_480, 30_720, 40_960, 61_440, 81_920,
            122_880, 163_840, 245_760, 327_680, 491_520,
        ];
        for (code, us) in (0..32).zip(us) {
            assert_eq!(rnr_timer_ns(code), us * 1_000, "{code}");
            assert_eq!(rnr_timer_ns(code | 0xe0), us * 1_000, "{code}");
        }
    }

    #[test]
    fn ack_timeouts() {
        assert_eq!(ack_timeout_ns(0), None);
        assert_eq!(ack_timeout_ns(1), Some(8_192));
        assert_eq!(ack_timeout_ns(14), Some(67_108_864));
        assert_eq!(ack_timeout_ns(31), Some(8_796_093_022_208));
        assert_eq!(ack_timeout_ns(32), None);
    }
}
