//! Opcodes, and what each of them implies, written once.
//!
//! A byte of opcode is a service (high 3 bits) and a kind of packet (low 5 bits). The kinds are the
//! same for every service that has them, so a row says what the kind is (operation, place in its
//! message, suffix), and the extension headers follow from row and service. The table of all 256
//! values is composed from that at compile time. (IBA volume 1, section 9.2.1; memory placement
//! extensions, annex A19; congestion notification, annex A17.9.)

use core::fmt;

use bitflags::bitflags;

use super::bth::Bth;
use super::headers::{
    Aeth, AtomicAckEth, AtomicEth, Deth, ExtensionHeader, Feth, Ieth, ImmDt, Reth, XrcEth,
};

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
        TABLE[self.0 as usize].as_ref()
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
        let suffix = match (imm, invalidate) {
            (false, false) => Suffix::None,
            (true, false) => Suffix::Immediate,
            (false, true) => Suffix::Invalidate,
            (true, true) => return None,
        };
        match CODES[operation as usize][place as usize][suffix as usize] {
            Some(code) if has(service, operation, place, suffix) => {
                Some(Self((service as u8) << 5 | code))
            }
            _ => None,
        }
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

/// What a SEND or WRITE carries besides its data.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Suffix {
    None,
    Immediate,
    Invalidate,
}

impl Suffix {
    const COUNT: usize = Self::Invalidate as usize + 1;
}

/// One kind of packet: the low 5 bits of its opcodes, and what they mean.
struct Row(u8, &'static str, Operation, Place, Suffix);

const ROWS: &[Row] = {
    use Operation::*;
    use Place::*;
    &[
        Row(0x00, "SEND_FIRST", Send, First, Suffix::None),
        Row(0x01, "SEND_MIDDLE", Send, Middle, Suffix::None),
        Row(0x02, "SEND_LAST", Send, Last, Suffix::None),
        Row(0x03, "SEND_LAST_WITH_IMMEDIATE", Send, Last, Suffix::Immediate),
        Row(0x04, "SEND_ONLY", Send, Only, Suffix::None),
        Row(0x05, "SEND_ONLY_WITH_IMMEDIATE", Send, Only, Suffix::Immediate),
        Row(0x06, "RDMA_WRITE_FIRST", Write, First, Suffix::None),
        Row(0x07, "RDMA_WRITE_MIDDLE", Write, Middle, Suffix::None),
        Row(0x08, "RDMA_WRITE_LAST", Write, Last, Suffix::None),
        Row(0x09, "RDMA_WRITE_LAST_WITH_IMMEDIATE", Write, Last, Suffix::Immediate),
        Row(0x0a, "RDMA_WRITE_ONLY", Write, Only, Suffix::None),
        Row(0x0b, "RDMA_WRITE_ONLY_WITH_IMMEDIATE", Write, Only, Suffix::Immediate),
        Row(0x0c, "RDMA_READ_REQUEST", ReadRequest, Only, Suffix::None),
        Row(0x0d, "RDMA_READ_RESPONSE_FIRST", ReadResponse, First, Suffix::None),
        Row(0x0e, "RDMA_READ_RESPONSE_MIDDLE", ReadResponse, Middle, Suffix::None),
        Row(0x0f, "RDMA_READ_RESPONSE_LAST", ReadResponse, Last, Suffix::None),
        Row(0x10, "RDMA_READ_RESPONSE_ONLY", ReadResponse, Only, Suffix::None),
        Row(0x11, "ACKNOWLEDGE", Acknowledge, Only, Suffix::None),
        Row(0x12, "ATOMIC_ACKNOWLEDGE", AtomicAcknowledge, Only, Suffix::None),
        Row(0x13, "COMPARE_SWAP", CompareSwap, Only, Suffix::None),
        Row(0x14, "FETCH_ADD", FetchAdd, Only, Suffix::None),
        Row(0x16, "SEND_LAST_WITH_INVALIDATE", Send, Last, Suffix::Invalidate),
        Row(0x17, "SEND_ONLY_WITH_INVALIDATE", Send, Only, Suffix::Invalidate),
        Row(0x1c, "FLUSH", Flush, Only, Suffix::None),
        Row(0x1d, "ATOMIC_WRITE", AtomicWrite, Only, Suffix::None),
        Row(0x01, "CNP", CongestionNotification, Only, Suffix::None),
    ]
};

/// Whether `service` has this kind of packet (given that some service has it).
const fn has(service: Service, operation: Operation, place: Place, suffix: Suffix) -> bool {
    let congestion = matches!(operation, Operation::CongestionNotification);
    let invalidate = matches!(suffix, Suffix::Invalidate);
    match service {
        Service::Rc | Service::Xrc => !congestion,
        Service::Uc => matches!(operation, Operation::Send | Operation::Write) && !invalidate,
        Service::Ud => matches!((operation, place), (Operation::Send, Place::Only)) && !invalidate,
        Service::Cnp => congestion,
        Service::Rd => false,
    }
}

/// The extension headers of a kind of packet under a service.
const fn extensions(service: Service, row: &Row) -> Extensions {
    let &Row(_, _, operation, place, suffix) = row;
    let of_service = match service {
        Service::Ud => Extensions::DETH,
        Service::Xrc if operation.is_request() => Extensions::XRCETH,
        Service::Xrc | Service::Rc | Service::Uc | Service::Rd | Service::Cnp => {
            Extensions::empty()
        }
    };
    let of_operation = match operation {
        Operation::Send | Operation::CongestionNotification => Extensions::empty(),
        // The target is named once, where the message begins.
        Operation::Write if place.begins() => Extensions::RETH,
        Operation::Write => Extensions::empty(),
        Operation::ReadRequest | Operation::AtomicWrite => Extensions::RETH,
        // Every response acknowledges, except in the middle of one.
        Operation::ReadResponse if !place.begins() && !place.ends() => Extensions::empty(),
        Operation::ReadResponse | Operation::Acknowledge => Extensions::AETH,
        Operation::AtomicAcknowledge => Extensions::AETH.union(Extensions::ATOMIC_ACK_ETH),
        Operation::CompareSwap | Operation::FetchAdd => Extensions::ATOMIC_ETH,
        Operation::Flush => Extensions::FETH.union(Extensions::RETH),
    };
    let of_suffix = match suffix {
        Suffix::None => Extensions::empty(),
        Suffix::Immediate => Extensions::IMM,
        Suffix::Invalidate => Extensions::IETH,
    };
    of_service.union(of_operation).union(of_suffix)
}

#[expect(clippy::cast_possible_truncation, reason = "a base transport header has 12 bytes")]
const fn facts(service: Service, row: &Row) -> OpcodeFacts {
    let &Row(_, name, operation, place, _) = row;
    let extensions = extensions(service, row);
    let payload = matches!(
        operation,
        Operation::Send | Operation::Write | Operation::ReadResponse | Operation::AtomicWrite
    );
    let mut offsets = [0; Extensions::COUNT];
    let mut header_len = size_of::<Bth>() as u8;
    let mut index = 0;
    while index < Extensions::COUNT {
        if extensions.bits() >> index & 1 == 1 {
            offsets[index] = header_len;
            header_len += Extensions::LENGTHS[index];
        }
        index += 1;
    }
    OpcodeFacts { name, service, operation, place, extensions, payload, offsets, header_len }
}

static TABLE: [Option<OpcodeFacts>; 256] = {
    use Service::*;
    let services = [Rc, Uc, Rd, Ud, Cnp, Xrc];
    let mut table = [None; 256];
    let mut s = 0;
    while s < services.len() {
        let mut r = 0;
        while r < ROWS.len() {
            let &Row(code, _, operation, place, suffix) = &ROWS[r];
            if has(services[s], operation, place, suffix) {
                let opcode = ((services[s] as u8) << 5 | code) as usize;
                assert!(table[opcode].is_none(), "two rows for one opcode");
                table[opcode] = Some(facts(services[s], &ROWS[r]));
            }
            r += 1;
        }
        s += 1;
    }
    table
};

/// The low 5 bits of an opcode, by operation, place and suffix.
static CODES: [[[Option<u8>; Suffix::COUNT]; Place::COUNT]; Operation::COUNT] = {
    let mut codes = [[[None; Suffix::COUNT]; Place::COUNT]; Operation::COUNT];
    let mut r = 0;
    while r < ROWS.len() {
        let &Row(code, _, operation, place, suffix) = &ROWS[r];
        codes[operation as usize][place as usize][suffix as usize] = Some(code);
        r += 1;
    }
    codes
};

/// The longest header of any opcode, in bytes.
pub(super) const HEADER_LEN_MAX: usize = {
    // A `static` cannot be read here, so the longest is composed again.
    let mut longest = 0;
    let mut r = 0;
    while r < ROWS.len() {
        let with_xrc = facts(Service::Xrc, &ROWS[r]).header_len();
        let with_ud = facts(Service::Ud, &ROWS[r]).header_len();
        let len = if with_xrc > with_ud { with_xrc } else { with_ud };
        longest = if len > longest { len } else { longest };
        r += 1;
    }
    longest
};
