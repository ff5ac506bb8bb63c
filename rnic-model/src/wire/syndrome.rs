//! What an acknowledgement says, and the 5-bit time codes of the transport.

/// The high byte of an [`Aeth`](super::Aeth) (IBA volume 1, section 9.7.5.1).
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

/// Nanoseconds of an RNR timer code, of which the low 5 bits count (IBA volume 1, table of RNR NAK
/// timer values).
#[must_use]
pub const fn rnr_timer_ns(code: u8) -> u64 {
    RNR_TIMER_10_US[(code & 0x1f) as usize] as u64 * 10_000
}

/// By code, in units of 10 microseconds. From code 4 on the steps are a half and a third in turn.
const RNR_TIMER_10_US: [u32; 32] = [
    65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024,
    1_536, 2_048, 3_072, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768, 49_152,
];

/// Nanoseconds of a local ACK timeout code, of which the low 5 bits count: 4.096 us times two to
/// the power of the code. 0 means never (IBA volume 1, section 11.2.5.2; `ibv_modify_qp(3)`).
#[must_use]
pub const fn ack_timeout_ns(code: u8) -> Option<u64> {
    match code & 0x1f {
        0 => None,
        exponent => Some(4_096 << exponent),
    }
}
