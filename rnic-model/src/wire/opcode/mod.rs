//! Opcodes, and what each of them implies, written once.
//!
//! A byte of opcode is a service (high 3 bits) and a kind of packet (low 5 bits). The kinds are the
//! same for every service that has them, so a row says what the kind is (operation, place in its
//! message, suffix), and the extension headers follow from row and service. The table of all 256
//! values is composed from that at compile time. (IBA volume 1, section 9.2.1; memory placement
//! extensions, annex A19; congestion notification, annex A17.9.)

mod table;
#[cfg(test)]
mod tests;

use core::fmt;

use bitflags::bitflags;

use super::headers::{
    Aeth, AtomicAckEth, AtomicEth, Deth, ExtensionHeader, Feth, Ieth, ImmDt, Reth, XrcEth,
};
pub(super) use table::HEADER_LEN_MAX;

/// The first byte of a base transport header. Any value is representable: refusing one is a
/// decision of the receiver, not of the parser.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Opcode(pub u8);

/// Transport service, with its number in the high 3 bits of an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Service {
    /// Reliable connection.
    Rc = 0,
    /// Unreliable connection.
    Uc = 1,
    /// Reliable datagram; no opcode of it is known here.
    Rd = 2,
    /// Unreliable datagram.
    Ud = 3,
    /// Congestion notification.
    Cnp = 4,
    /// Extended reliable connection.
    Xrc = 5,
}

/// What a packet asks for or answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Operation {
    /// SEND, into the next posted receive.
    Send,
    /// RDMA WRITE.
    Write,
    /// RDMA READ, the request.
    ReadRequest,
    /// Data of an RDMA READ; with no data, the answer to a FLUSH or an ATOMIC WRITE.
    ReadResponse,
    /// ACK or NAK.
    Acknowledge,
    /// Answer to a compare-and-swap or fetch-and-add.
    AtomicAcknowledge,
    /// Atomic compare-and-swap of 8 bytes.
    CompareSwap,
    /// Atomic fetch-and-add of 8 bytes.
    FetchAdd,
    /// FLUSH of earlier writes.
    Flush,
    /// Atomic write of 8 bytes.
    AtomicWrite,
    /// "Your traffic met congestion."
    CongestionNotification,
}

impl Operation {
    const COUNT: usize = Self::CongestionNotification as usize + 1;

    /// Whether packets of this kind travel from responder to requester.
    #[must_use]
    pub const fn is_response(self) -> bool {
        matches!(self, Self::ReadResponse | Self::Acknowledge | Self::AtomicAcknowledge)
    }

    /// Whether packets of this kind travel from requester to responder.
    #[must_use]
    pub const fn is_request(self) -> bool {
        !self.is_response() && !matches!(self, Self::CongestionNotification)
    }
}

/// Where in its message a packet stands. Kinds that never span packets are [`Place::Only`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Place {
    /// The first of several.
    First,
    /// Neither first nor last.
    Middle,
    /// The last of several.
    Last,
    /// A message of one packet.
    Only,
}

impl Place {
    const COUNT: usize = Self::Only as usize + 1;

    /// Whether a message begins here.
    #[must_use]
    pub const fn begins(self) -> bool {
        matches!(self, Self::First | Self::Only)
    }

    /// Whether a message ends here.
    #[must_use]
    pub const fn ends(self) -> bool {
        matches!(self, Self::Last | Self::Only)
    }
}

bitflags! {
    /// Extension headers. They follow the base transport header in the order of these bits.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Extensions: u16 {
        /// [`Deth`]
        const DETH = 1 << 0;
        /// [`XrcEth`]
        const XRCETH = 1 << 1;
        /// [`Feth`]
        const FETH = 1 << 2;
        /// [`Reth`]
        const RETH = 1 << 3;
        /// [`AtomicEth`]
        const ATOMIC_ETH = 1 << 4;
        /// [`Aeth`]
        const AETH = 1 << 5;
        /// [`AtomicAckEth`]
        const ATOMIC_ACK_ETH = 1 << 6;
        /// [`ImmDt`]
        const IMM = 1 << 7;
        /// [`Ieth`]
        const IETH = 1 << 8;
    }
}

impl Extensions {
    const COUNT: usize = 9;

    /// Length in bytes of the header of each bit.
    const LENGTHS: [u8; Self::COUNT] = {
        let mut lengths = [0; Self::COUNT];
        lengths[index_of::<Deth>()] = len_of::<Deth>();
        lengths[index_of::<XrcEth>()] = len_of::<XrcEth>();
        lengths[index_of::<Feth>()] = len_of::<Feth>();
        lengths[index_of::<Reth>()] = len_of::<Reth>();
        lengths[index_of::<AtomicEth>()] = len_of::<AtomicEth>();
        lengths[index_of::<Aeth>()] = len_of::<Aeth>();
        lengths[index_of::<AtomicAckEth>()] = len_of::<AtomicAckEth>();
        lengths[index_of::<ImmDt>()] = len_of::<ImmDt>();
        lengths[index_of::<Ieth>()] = len_of::<Ieth>();
        lengths
    };
}

/// Position of `H` in the order of extension headers.
pub(super) const fn index_of<H: ExtensionHeader>() -> usize {
    H::FLAG.bits().trailing_zeros() as usize
}

#[expect(clippy::cast_possible_truncation, reason = "the longest header has 28 bytes")]
const fn len_of<H: ExtensionHeader>() -> u8 {
    assert!(size_of::<H>() <= 28);
    size_of::<H>() as u8
}

/// What an opcode implies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpcodeFacts {
    /// The name without the service, as `SEND_ONLY_WITH_IMMEDIATE`.
    pub name: &'static str,
    /// Transport service.
    pub service: Service,
    /// What the packet asks for or answers.
    pub operation: Operation,
    /// Where in its message it stands.
    pub place: Place,
    /// Which extension headers follow the base transport header.
    pub extensions: Extensions,
    /// Whether message data may follow the headers. The 16 reserved bytes of a congestion
    /// notification are not data.
    pub payload: bool,
    /// Bytes from the start of the base transport header to that extension header.
    offsets: [u8; Extensions::COUNT],
    header_len: u8,
}

impl OpcodeFacts {
    /// Bytes of base transport header and extension headers.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        self.header_len as usize
    }

    /// Where the extension header `H` starts, if this opcode has it.
    pub(super) const fn offset_of<H: ExtensionHeader>(&self) -> Option<usize> {
        if self.extensions.contains(H::FLAG) {
            Some(self.offsets[index_of::<H>()] as usize)
        } else {
            None
        }
    }
}

impl Opcode {
    /// Congestion notification packet.
    pub const CNP: Self = Self(0x81);

    /// What this opcode implies, or `None` if it is unknown.
    #[must_use]
    pub const fn facts(self) -> Option<&'static OpcodeFacts> {
        table::TABLE[self.0 as usize].as_ref()
    }

    /// The opcode of a packet, or `None` if the service has no such packet. `imm` adds immediate
    /// data, `invalidate` an rkey to invalidate; no packet has both.
    #[must_use]
    pub const fn compose(
        service: Service,
        operation: Operation,
        place: Place,
        imm: bool,
        invalidate: bool,
    ) -> Option<Self> {
        table::compose(service, operation, place, imm, invalidate)
    }
}

impl fmt::Debug for Opcode {
    /// `RC SEND_ONLY`, `CNP`, `opcode 0x1f`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(facts) = self.facts() else {
            return write!(f, "opcode {:#04x}", self.0);
        };
        match facts.service {
            Service::Rc => write!(f, "RC {}", facts.name),
            Service::Uc => write!(f, "UC {}", facts.name),
            Service::Rd => write!(f, "RD {}", facts.name),
            Service::Ud => write!(f, "UD {}", facts.name),
            Service::Xrc => write!(f, "XRC {}", facts.name),
            Service::Cnp => f.write_str(facts.name),
        }
    }
}
