use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::verbs::{Access, AhId, BindInfo, Key, Placement, QpNum, Selectivity, WindowType};

const CAP: QpCapabilities = QpCapabilities {
    max_send_wr: 16,
    max_recv_wr: 16,
    max_send_sge: 4,
    max_recv_sge: 3,
    max_inline_data: 64,
};

/// Operation, then whether UD, UC and RC have it.
const SERVICES: &str = "
    SEND        - x x
    SEND+IMM    - x x
    SEND+INV    - - x
    SENDTO      x - -
    SENDTO+IMM  x - -
    WRITE       - x x
    WRITE+IMM   - x x
    READ        - - x
    CAS         - - x
    FAA         - - x
    AWRITE      - - x
    FLUSH       - - x
    BIND        - x x
    INVALIDATE  - x x
";

/// State, then whether a send and whether a receive can be posted.
const STATES: [(QpState, bool, bool); 7] = [
    (QpState::Reset, false, false),
    (QpState::Init, false, true),
    (QpState::Rtr, false, true),
    (QpState::Rts, true, true),
    (QpState::Sqd, true, true),
    (QpState::Sqe, true, true),
    (QpState::Err, true, true),
];

const RKEY: Key = Key(0x1234);

fn op(name: &str) -> SendOp {
    let imm = name.ends_with("+IMM").then_some(7);
    let remote_addr = 0x1000;
    match name.split('+').next().unwrap() {
        "SEND" => SendOp::Send { imm, invalidate: name.ends_with("+INV").then_some(RKEY) },
        "SENDTO" => SendOp::SendTo { ah: AhId(1), remote_qpn: QpNum::new(2), remote_qkey: 3, imm },
        "WRITE" => SendOp::Write { remote_addr, rkey: RKEY, imm },
        "READ" => SendOp::Read { remote_addr, rkey: RKEY },
        "CAS" => SendOp::CompareSwap { remote_addr, rkey: RKEY, compare: 1, swap: 2 },
        "FAA" => SendOp::FetchAdd { remote_addr, rkey: RKEY, add: 1 },
        "AWRITE" => SendOp::AtomicWrite { remote_addr, rkey: RKEY },
        "FLUSH" => SendOp::Flush {
            remote_addr,
            rkey: RKEY,
            length: 8,
            placement: Placement::GLOBAL,
            selectivity: Selectivity::Range,
        },
        "BIND" => SendOp::BindMw {
            window: RKEY,
            new_rkey: RKEY,
            window_type: WindowType::Type2B,
            bind: BindInfo { mr_lkey: RKEY, addr: 0, length: 8, access: Access::REMOTE_READ },
        },
        "INVALIDATE" => SendOp::LocalInvalidate { key: RKEY },
        other => panic!("{other}"),
    }
}

/// Name, then whether UD, UC and RC have the operation.
fn services() -> Vec<(&'static str, [bool; 3])> {
    let lines = SERVICES.lines().map(str::trim).filter(|line| !line.is_empty());
    let rows: Vec<_> = lines
        .map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next().unwrap();
            (name, [(); 3].map(|()| words.next().unwrap() == "x"))
        })
        .collect();
    assert_eq!(rows.len(), 14);
    rows
}

fn has_no_data(name: &str) -> bool {
    matches!(name, "BIND" | "INVALIDATE" | "FLUSH")
}

fn sends_data(name: &str) -> bool {
    name.starts_with("SEND") || name.starts_with("WRITE") || name == "AWRITE"
}

/// The service type that has the operation, RC where several have it.
fn home(name: &str) -> QpType {
    if name.starts_with("SENDTO") { QpType::Ud } else { QpType::Rc }
}

fn sges(lengths: &[u32]) -> Vec<Sge> {
    lengths.iter().map(|&length| Sge { addr: 0x1000, length, lkey: Key(1) }).collect()
}

fn wr(op: SendOp, sges: &[Sge]) -> SendWr<'_> {
    SendWr { wr_id: 1, op, flags: SendFlags::empty(), sges, ..SendWr::default() }
}

/// Posts in RTS to a queue pair that has the operation.
fn send(name: &str, lengths: &[u32]) -> Result<u32, VerbError> {
    check_send(home(name), QpState::Rts, &CAP, Mtu::B1024, &wr(op(name), &sges(lengths)))
}

#[test]
fn every_operation_on_every_service_in_every_state() {
    for (name, has) in services() {
        let memory = if has_no_data(name) { vec![] } else { sges(&[5, 3]) };
        let length = if has_no_data(name) { 0 } else { 8 };
        // XRC has what RC has, at the initiator; the target has no send queue.
        let has = [has[0], has[1], has[2], has[2], false];
        let types =
            [QpType::Ud, QpType::Uc, QpType::Rc, QpType::XrcSend, QpType::XrcRecv].into_iter();
        for (qp_type, has) in types.zip(has) {
            for (state, ready, _) in STATES {
                let verdict = check_send(qp_type, state, &CAP, Mtu::B1024, &wr(op(name), &memory));
                let expected = match (has, ready) {
                    (false, _) => {
                        Err(VerbError::Invalid("the service type does not have this operation"))
                    }
                    (true, false) => Err(VerbError::Invalid("sends can be posted from RTS on")),
                    (true, true) => Ok(length),
                };
                assert_eq!(verdict, expected, "{name} on {qp_type:?} in {state:?}");
            }
        }
    }
}

#[test]
fn every_combination_of_flags_with_every_operation() {
    let inline = [1_u8; 8];
    for (name, _) in services() {
        for bits in 0..=u8::MAX {
            let flags = SendFlags::from_bits_retain(bits);
            let is_inline = flags.contains(SendFlags::INLINE);
            let memory = if has_no_data(name) { vec![] } else { sges(&[8]) };
            let wr = SendWr {
                flags,
                sges: if is_inline { &[] } else { &memory },
                inline: if is_inline { &inline } else { &[] },
                ..wr(op(name), &[])
            };
            let verdict = check_send(home(name), QpState::Rts, &CAP, Mtu::B1024, &wr);
            let expected = match (is_inline, sends_data(name)) {
                _ if bits >= 16 => {
                    Err(VerbError::Invalid("a send flag is unknown, or asks for checksum offload"))
                }
                (true, false) => {
                    Err(VerbError::Invalid("only SEND, WRITE and ATOMIC WRITE can be inline"))
                }
                (false, false) if has_no_data(name) => Ok(0),
                _ => Ok(8),
            };
            assert_eq!(verdict, expected, "{name} with {flags:?}");
        }
    }
}

#[test]
fn a_flush_says_where_the_bytes_shall_be() {
    for bits in 0..=u8::MAX {
        let placement = Placement::from_bits_retain(bits);
        let selectivity = Selectivity::Region;
        let op = SendOp::Flush { remote_addr: 0, rkey: RKEY, length: 0, placement, selectivity };
        let verdict = check_send(QpType::Rc, QpState::Rts, &CAP, Mtu::B1024, &wr(op, &[]));
        assert_eq!(verdict.is_ok(), (1..=3).contains(&bits), "{bits:#x}");
    }
}

#[test]
fn a_send_carries_an_immediate_or_a_key() {
    let both = SendOp::Send { imm: Some(1), invalidate: Some(RKEY) };
    let verdict = check_send(QpType::Rc, QpState::Rts, &CAP, Mtu::B1024, &wr(both, &[]));
    let text = "a SEND carries an immediate or a key, not both";
    assert_eq!(verdict, Err(VerbError::Invalid(text)));
}

#[test]
fn messages_are_summed_in_64_bits() {
    const HALF: u32 = 1 << 31;
    let too_long = Err(VerbError::Invalid("the message is longer than max_msg_sz"));
    for name in ["SEND", "WRITE", "READ"] {
        assert_eq!(send(name, &[]), Ok(0));
        assert_eq!(send(name, &[0, 0]), Ok(0));
        assert_eq!(send(name, &[HALF]), Ok(HALF));
        assert_eq!(send(name, &[HALF - 1, 0, 1]), Ok(HALF));
        assert_eq!(send(name, &[HALF - 1, 1, 1]), too_long);
        assert_eq!(send(name, &[u32::MAX]), too_long);
        assert_eq!(send(name, &[HALF, HALF]), too_long, "0 in 32 bits");
        assert_eq!(send(name, &[u32::MAX, 9]), too_long, "8 in 32 bits");
        assert_eq!(send(name, &[u32::MAX; 4]), too_long);
    }
}

#[test]
fn elements_are_counted_against_the_queue() {
    let too_many = Err(VerbError::Invalid("more scatter/gather elements than the queue has"));
    for name in ["SEND", "SENDTO", "WRITE", "READ"] {
        assert_eq!(send(name, &[1; 4]), Ok(4));
        assert_eq!(send(name, &[1; 5]), too_many, "{name}");
        assert_eq!(send(name, &[0; 5]), too_many, "{name}");
    }
    assert_eq!(send("CAS", &[2; 4]), Ok(8));
    assert_eq!(send("FAA", &[8, 0, 0, 0, 0]), too_many);
}

#[test]
fn atomics_need_eight_bytes() {
    let wrong =
        Err(VerbError::Invalid("an atomic needs 8 bytes of local memory, no more, no less"));
    for name in ["CAS", "FAA"] {
        for lengths in [&[][..], &[0], &[7], &[9], &[4, 3], &[8, 8], &[16]] {
            assert_eq!(send(name, lengths), wrong, "{name} {lengths:?}");
        }
        for lengths in [&[8][..], &[4, 4], &[0, 8]] {
            assert_eq!(send(name, lengths), Ok(8), "{name} {lengths:?}");
        }
    }
}

#[test]
fn binds_and_invalidates_take_no_memory() {
    for name in ["BIND", "INVALIDATE"] {
        assert!(send(name, &[8]).is_err() && send(name, &[0]).is_err(), "{name}");
    }
}

#[test]
fn datagrams_fit_a_packet() {
    let too_long = Err(VerbError::Invalid("the datagram is longer than the MTU of the port"));
    for mtu in Mtu::ALL {
        for name in ["SENDTO", "SENDTO+IMM"] {
            let post = |lengths: &[u32]| {
                check_send(QpType::Ud, QpState::Rts, &CAP, mtu, &wr(op(name), &sges(lengths)))
            };
            assert_eq!(post(&[mtu.bytes() - 1, 1]), Ok(mtu.bytes()));
            assert_eq!(post(&[mtu.bytes(), 1]), too_long);
            assert_eq!(post(&[1 << 31]), too_long);
        }
        assert_eq!(send("SEND", &[mtu.bytes(), 1]), Ok(mtu.bytes() + 1));
    }
    // Inline data is no way around it.
    let cap = QpCapabilities { max_inline_data: 512, ..CAP };
    let bytes = [0; 257];
    let inline =
        |bytes| SendWr { flags: SendFlags::INLINE, inline: bytes, ..wr(op("SENDTO"), &[]) };
    let post = |bytes| check_send(QpType::Ud, QpState::Rts, &cap, Mtu::B256, &inline(bytes));
    assert_eq!(post(&bytes[..256]), Ok(256));
    assert_eq!(post(&bytes), too_long);
}

#[test]
fn inline_data_is_bounded_and_replaces_the_elements() {
    let post = |flags, inline: &[u8], sges: &[Sge]| {
        let wr = SendWr { flags, inline, ..wr(op("WRITE"), sges) };
        check_send(QpType::Rc, QpState::Rts, &CAP, Mtu::B1024, &wr)
    };
    let bytes = [0; 65];
    assert_eq!(post(SendFlags::INLINE, &[], &[]), Ok(0));
    assert_eq!(post(SendFlags::INLINE, &bytes[..64], &[]), Ok(64));
    let text = "the inline data is longer than max_inline_data";
    assert_eq!(post(SendFlags::INLINE, &bytes, &[]), Err(VerbError::Invalid(text)));
    // The elements were gathered into the inline bytes before: neither length nor count matter.
    assert_eq!(post(SendFlags::INLINE, &bytes[..3], &sges(&[u32::MAX; 9])), Ok(3));
    let text = "there is inline data, but the inline flag is not set";
    assert_eq!(post(SendFlags::SIGNALED, &bytes[..1], &[]), Err(VerbError::Invalid(text)));
}

#[test]
fn only_atomics_are_asked_for_their_alignment() {
    for (name, _) in services() {
        for address in (0x1000..0x1010).chain([u64::MAX, u64::MAX - 7]) {
            let mut op = op(name);
            if let SendOp::Write { remote_addr, .. }
            | SendOp::Read { remote_addr, .. }
            | SendOp::CompareSwap { remote_addr, .. }
            | SendOp::FetchAdd { remote_addr, .. } = &mut op
            {
                *remote_addr = address;
            }
            let refused = matches!(name, "CAS" | "FAA") && address & 7 != 0;
            assert_eq!(check_atomic_alignment(&op).is_err(), refused, "{name} at {address:#x}");
        }
    }
}

#[test]
fn receives_in_every_state() {
    let memory = sges(&[100, 0, 28]);
    for (state, _, accepted) in STATES {
        let wr = RecvWr { wr_id: 1, sges: &memory };
        let verdict = check_recv(QpType::Rc, state, None, &CAP, &wr);
        assert_eq!(verdict.ok(), accepted.then_some(128), "{state:?}");
        assert!(check_recv(QpType::Rc, state, Some(SrqId(1)), &CAP, &wr).is_err(), "{state:?}");
        for qp_type in [QpType::XrcSend, QpType::XrcRecv] {
            assert!(check_recv(qp_type, state, None, &CAP, &wr).is_err(), "{qp_type:?} {state:?}");
        }
    }
}

#[test]
fn receives_are_counted_and_summed() {
    let queue = SrqAttributes { max_wr: 8, max_sge: 3, srq_limit: 0 };
    for (lengths, expected) in [
        (&[][..], Some(0)),
        (&[1 << 31], Some(1 << 31)),
        (&[1 << 30, 1 << 30, 0], Some(1 << 31)),
        (&[1 << 31, 1], None),
        (&[1 << 31, 1 << 31], None),
        (&[u32::MAX, 1], None),
        (&[1, 1, 1], Some(3)),
        (&[1, 1, 1, 1], None),
    ] {
        let memory = sges(lengths);
        let wr = RecvWr { wr_id: 1, sges: &memory };
        assert_eq!(
            check_recv(QpType::Rc, QpState::Rts, None, &CAP, &wr).ok(),
            expected,
            "{lengths:?}"
        );
        assert_eq!(check_srq_recv(&queue, &wr).ok(), expected, "{lengths:?}");
    }
    let one = SrqAttributes { max_sge: 1, ..queue };
    let wr = RecvWr { wr_id: 1, sges: &sges(&[1, 1]) };
    assert!(check_srq_recv(&one, &wr).is_err());
    assert_eq!(check_recv(QpType::Rc, QpState::Rts, None, &CAP, &wr), Ok(2));
}
