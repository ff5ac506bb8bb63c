//! The table of all opcodes, composed at compile time.

use super::{Extensions, Opcode, OpcodeFacts, Operation, Place, Service};
use crate::wire::bth::Bth;

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

/// What each opcode implies.
pub(super) static TABLE: [Option<OpcodeFacts>; 256] = {
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

/// See [`Opcode::compose`].
pub(super) const fn compose(
    service: Service,
    operation: Operation,
    place: Place,
    imm: bool,
    invalidate: bool,
) -> Option<Opcode> {
    let suffix = match (imm, invalidate) {
        (false, false) => Suffix::None,
        (true, false) => Suffix::Immediate,
        (false, true) => Suffix::Invalidate,
        (true, true) => return None,
    };
    match CODES[operation as usize][place as usize][suffix as usize] {
        Some(code) if has(service, operation, place, suffix) => {
            Some(Opcode((service as u8) << 5 | code))
        }
        _ => None,
    }
}

/// The longest header of any opcode, in bytes.
pub(in crate::wire) const HEADER_LEN_MAX: usize = {
    let mut longest = 0;
    let mut opcode = 0;
    while opcode < TABLE.len() {
        if let Some(facts) = &TABLE[opcode] {
            let len = facts.header_len();
            longest = if len > longest { len } else { longest };
        }
        opcode += 1;
    }
    longest
};
