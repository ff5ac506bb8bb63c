use alloc::format;

use super::*;

/// Every opcode, its name, the bytes of its headers, and whether data may follow: written out
/// by hand, not composed.
const ALL: &[(u8, &str, usize, bool)] = &[
    (0x00, "RC SEND_FIRST", 12, true),
    (0x01, "RC SEND_MIDDLE", 12, true),
    (0x02, "RC SEND_LAST", 12, true),
    (0x03, "RC SEND_LAST_WITH_IMMEDIATE", 16, true),
    (0x04, "RC SEND_ONLY", 12, true),
    (0x05, "RC SEND_ONLY_WITH_IMMEDIATE", 16, true),
    (0x06, "RC RDMA_WRITE_FIRST", 28, true),
    (0x07, "RC RDMA_WRITE_MIDDLE", 12, true),
    (0x08, "RC RDMA_WRITE_LAST", 12, true),
    (0x09, "RC RDMA_WRITE_LAST_WITH_IMMEDIATE", 16, true),
    (0x0a, "RC RDMA_WRITE_ONLY", 28, true),
    (0x0b, "RC RDMA_WRITE_ONLY_WITH_IMMEDIATE", 32, true),
    (0x0c, "RC RDMA_READ_REQUEST", 28, false),
    (0x0d, "RC RDMA_READ_RESPONSE_FIRST", 16, true),
    (0x0e, "RC RDMA_READ_RESPONSE_MIDDLE", 12, true),
    (0x0f, "RC RDMA_READ_RESPONSE_LAST", 16, true),
    (0x10, "RC RDMA_READ_RESPONSE_ONLY", 16, true),
    (0x11, "RC ACKNOWLEDGE", 16, false),
    (0x12, "RC ATOMIC_ACKNOWLEDGE", 24, false),
    (0x13, "RC COMPARE_SWAP", 40, false),
    (0x14, "RC FETCH_ADD", 40, false),
    (0x16, "RC SEND_LAST_WITH_INVALIDATE", 16, true),
    (0x17, "RC SEND_ONLY_WITH_INVALIDATE", 16, true),
    (0x1c, "RC FLUSH", 32, false),
    (0x1d, "RC ATOMIC_WRITE", 28, true),
    (0x20, "UC SEND_FIRST", 12, true),
    (0x21, "UC SEND_MIDDLE", 12, true),
    (0x22, "UC SEND_LAST", 12, true),
    (0x23, "UC SEND_LAST_WITH_IMMEDIATE", 16, true),
    (0x24, "UC SEND_ONLY", 12, true),
    (0x25, "UC SEND_ONLY_WITH_IMMEDIATE", 16, true),
    (0x26, "UC RDMA_WRITE_FIRST", 28, true),
    (0x27, "UC RDMA_WRITE_MIDDLE", 12, true),
    (0x28, "UC RDMA_WRITE_LAST", 12, true),
    (0x29, "UC RDMA_WRITE_LAST_WITH_IMMEDIATE", 16, true),
    (0x2a, "UC RDMA_WRITE_ONLY", 28, true),
    (0x2b, "UC RDMA_WRITE_ONLY_WITH_IMMEDIATE", 32, true),
    (0x64, "UD SEND_ONLY", 20, true),
    (0x65, "UD SEND_ONLY_WITH_IMMEDIATE", 24, true),
    (0x81, "CNP", 12, false),
    (0xa0, "XRC SEND_FIRST", 16, true),
    (0xa1, "XRC SEND_MIDDLE", 16, true),
    (0xa2, "XRC SEND_LAST", 16, true),
    (0xa3, "XRC SEND_LAST_WITH_IMMEDIATE", 20, true),
    (0xa4, "XRC SEND_ONLY", 16, true),
    (0xa5, "XRC SEND_ONLY_WITH_IMMEDIATE", 20, true),
    (0xa6, "XRC RDMA_WRITE_FIRST", 32, true),
    (0xa7, "XRC RDMA_WRITE_MIDDLE", 16, true),
    (0xa8, "XRC RDMA_WRITE_LAST", 16, true),
    (0xa9, "XRC RDMA_WRITE_LAST_WITH_IMMEDIATE", 20, true),
    (0xaa, "XRC RDMA_WRITE_ONLY", 32, true),
    (0xab, "XRC RDMA_WRITE_ONLY_WITH_IMMEDIATE", 36, true),
    (0xac, "XRC RDMA_READ_REQUEST", 32, false),
    (0xad, "XRC RDMA_READ_RESPONSE_FIRST", 16, true),
    (0xae, "XRC RDMA_READ_RESPONSE_MIDDLE", 12, true),
    (0xaf, "XRC RDMA_READ_RESPONSE_LAST", 16, true),
    (0xb0, "XRC RDMA_READ_RESPONSE_ONLY", 16, true),
    (0xb1, "XRC ACKNOWLEDGE", 16, false),
    (0xb2, "XRC ATOMIC_ACKNOWLEDGE", 24, false),
    (0xb3, "XRC COMPARE_SWAP", 44, false),
    (0xb4, "XRC FETCH_ADD", 44, false),
    (0xb6, "XRC SEND_LAST_WITH_INVALIDATE", 20, true),
    (0xb7, "XRC SEND_ONLY_WITH_INVALIDATE", 20, true),
    (0xbc, "XRC FLUSH", 36, false),
    (0xbd, "XRC ATOMIC_WRITE", 32, true),
];

#[test]
fn all_256() {
    for byte in 0..=u8::MAX {
        let opcode = Opcode(byte);
        match ALL.iter().find(|entry| entry.0 == byte) {
            Some(&(_, name, header_len, payload)) => {
                let facts = opcode.facts().unwrap();
                assert_eq!(format!("{opcode:?}"), name);
                assert!(name.ends_with(facts.name));
                assert_eq!((facts.header_len(), facts.payload), (header_len, payload));
                assert_eq!(facts.service as u8, byte >> 5);
                let word = |word: &str| name.split('_').any(|part| part == word);
                let first = word("FIRST");
                let middle = word("MIDDLE");
                let last = word("LAST");
                assert_eq!(facts.place.begins(), !middle && !last, "{name}");
                assert_eq!(facts.place.ends(), !middle && !first, "{name}");
                let ext = facts.extensions;
                assert_eq!(ext.contains(Extensions::IMM), word("IMMEDIATE"), "{name}");
                assert_eq!(ext.contains(Extensions::IETH), word("INVALIDATE"), "{name}");
            }
            None => {
                assert_eq!(opcode.facts(), None, "{byte:#04x}");
                assert_eq!(format!("{opcode:?}"), format!("opcode {byte:#04x}"));
            }
        }
    }
    assert_eq!(HEADER_LEN_MAX, ALL.iter().map(|entry| entry.2).max().unwrap());
}

#[test]
fn compose_gives_every_opcode_once_and_nothing_else() {
    use Operation::*;
    use Service::*;
    let operations = [
        Send,
        Write,
        ReadRequest,
        ReadResponse,
        Acknowledge,
        AtomicAcknowledge,
        CompareSwap,
        FetchAdd,
        Flush,
        AtomicWrite,
        CongestionNotification,
    ];
    assert_eq!(operations.len(), Operation::COUNT);
    let mut composed = [0; 256];
    for service in [Rc, Uc, Rd, Ud, Cnp, Xrc] {
        for operation in operations {
            for place in [Place::First, Place::Middle, Place::Last, Place::Only] {
                for (imm, inv) in [(false, false), (true, false), (false, true), (true, true)] {
                    let opcode = Opcode::compose(service, operation, place, imm, inv);
                    let Some(opcode) = opcode else { continue };
                    composed[usize::from(opcode.0)] += 1;
                    let facts = opcode.facts().unwrap();
                    assert_eq!(facts.service, service);
                    assert_eq!((facts.operation, facts.place), (operation, place));
                    assert_eq!(facts.extensions.contains(Extensions::IMM), imm);
                    assert_eq!(facts.extensions.contains(Extensions::IETH), inv);
                }
            }
        }
    }
    for (byte, times) in (0..=u8::MAX).zip(composed) {
        assert_eq!(times, i32::from(Opcode(byte).facts().is_some()), "{byte:#04x}");
    }
}

/// Composition works at compile time.
const ACKNOWLEDGE: Option<Opcode> =
    Opcode::compose(Service::Rc, Operation::Acknowledge, Place::Only, false, false);

#[test]
fn constants() {
    assert_eq!(ACKNOWLEDGE, Some(Opcode(0x11)));
    assert_eq!(format!("{:?}", Opcode::CNP), "CNP");
}

#[test]
fn requests_and_responses() {
    for &(byte, name, _, _) in ALL {
        let operation = Opcode(byte).facts().unwrap().operation;
        let response = name.contains("RESPONSE") || name.contains("ACKNOWLEDGE");
        assert_eq!(operation.is_response(), response, "{name}");
        assert_eq!(operation.is_request(), !response && name != "CNP", "{name}");
    }
}
