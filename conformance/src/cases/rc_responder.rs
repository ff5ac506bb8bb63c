//! RC, the receiving side.

use crate::case::{Case, script};

/// The cases of this family.
pub(super) fn cases() -> Vec<Case> {
    let mut all = vec![script(
        "rc-responder/duplicate-send-write",
        "write-acknowledged-not-placed",
        "
        qp rc
              < WRITE_ONLY psn=0 data=4*0xaa ack
              > ACK psn=0 msn=1
              holds buf 4*0xaa
              store buf 4*0x55
        50us  < WRITE_ONLY psn=0 data=4*0xaa ack      # the acknowledgement was lost
              > ACK psn=0 msn=1
              holds buf 4*0x55
        ",
    )];
    all.extend(GAPS.iter().map(|(variant, packet)| {
        let text = format!("qp rc\nrecv id=1 len=64\n< {packet} psn=1 ack\n> NAK_PSN psn=0 msn=0\n");
        script("rc-responder/gap-nak", *variant, text)
    }));
    all
}

/// Requests that come too early.
const GAPS: &[(&str, &str)] = &[
    ("send", "SEND_ONLY data=4"),
    ("write", "WRITE_ONLY data=4"),
    ("read", "READ_REQUEST len=4"),
    ("compare-swap", "COMPARE_SWAP"),
    ("fetch-add", "FETCH_ADD"),
];
