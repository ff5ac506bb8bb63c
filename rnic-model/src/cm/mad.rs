//! Management datagrams: 256 bytes, of which the first 24 are a header (IBA 13.4).

use core::fmt;

use super::message::cell::{Cell, Place};

/// Bytes of a management datagram.
pub const MAD_LEN: usize = 256;
/// Bytes of its header.
pub const HEADER_LEN: usize = 24;
/// Bytes of what a message of the connection manager has behind the header.
pub const BODY_LEN: usize = MAD_LEN - HEADER_LEN;
/// The Q_Key of the general services queue pair (IBA 3.5.3).
pub const GSI_QKEY: u32 = 0x8001_0000;

/// The bytes of a management datagram.
pub type Mad = [u8; MAD_LEN];
/// What is behind the header.
pub type Body = [u8; BODY_LEN];

/// The class of communication management.
const CLASS: u8 = 0x07;
/// Its version.
const CLASS_VERSION: u8 = 2;
/// The version of what all classes share.
const BASE_VERSION: u8 = 1;
/// The only method of the class.
const METHOD_SEND: u8 = 0x03;

/// The header of a message of the connection manager, without what is the same in all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MadHeader {
    /// Status, 0 in all messages of the class.
    pub status: u16,
    /// Of the class' own choice, 0.
    pub class_specific: u16,
    /// The exchange that the message belongs to: chosen by who begins it, repeated by who answers.
    pub transaction: u64,
    /// Which message it is.
    pub attribute: u16,
    /// The options of enhanced connection establishment in REQ and REP, otherwise 0.
    pub modifier: u32,
}

/// Why a datagram is not for the connection manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotCm {
    /// It has another length.
    Length,
    /// It is of another class, or nobody knows its attribute.
    Class,
    /// It is of another version.
    Version,
    /// It is no message but a method of management, or reports an error.
    Method,
}

impl fmt::Display for NotCm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Length => "not 256 bytes",
            Self::Class => "of another class or attribute",
            Self::Version => "of another version",
            Self::Method => "of another method",
        })
    }
}

macro_rules! header_fields {
    ($($field:ident @ $byte:literal;)*) => {
        impl MadHeader {
            /// Takes a datagram apart: header and body.
            ///
            /// # Errors
            /// See [`NotCm`].
            pub fn parse(bytes: &[u8]) -> Result<(Self, &Body), NotCm> {
                let mad: &Mad = bytes.try_into().map_err(|_| NotCm::Length)?;
                let (head, body) = mad.split_at(HEADER_LEN);
                if head[1] != CLASS {
                    return Err(NotCm::Class);
                }
                if (head[0], head[2]) != (BASE_VERSION, CLASS_VERSION) {
                    return Err(NotCm::Version);
                }
                if head[3] != METHOD_SEND {
                    return Err(NotCm::Method);
                }
                let header = Self { $($field: Cell::get(head, Place::byte($byte)),)* };
                if header.status != 0 {
                    return Err(NotCm::Method);
                }
                let body = body.try_into().map_err(|_| NotCm::Length)?;
                Ok((header, body))
            }

            /// The datagram with this header; the body is zeros.
            #[must_use]
            pub fn to_mad(&self) -> Mad {
                let mut mad = [0; MAD_LEN];
                mad[..4].copy_from_slice(&[BASE_VERSION, CLASS, CLASS_VERSION, METHOD_SEND]);
                $(self.$field.put(&mut mad, Place::byte($byte));)*
                mad
            }
        }
    };
}

header_fields! {
    status @ 4;
    class_specific @ 6;
    transaction @ 8;
    attribute @ 16;
    modifier @ 20;
}
