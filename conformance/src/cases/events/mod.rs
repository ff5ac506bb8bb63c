//! Asynchronous events.

mod verbs;

use super::book::{book, named};
use crate::case::Case;

/// The cases of the family.
pub(super) fn cases() -> Vec<Case> {
    let mut all = book(SCRIPTS);
    all.extend(verbs::cases());
    for (rule, event, variant, packet, nak) in REFUSALS {
        all.push(named(
            &format!("events/{rule}/{variant}"),
            format!("qp rc\n< {packet} psn=0\n> {nak} psn=0\nevent {event}\nno-event {event}"),
        ));
    }
    all
}

/// Requests that a responder refuses while no receive is under way.
const REFUSALS: [(&str, &str, &str, &str, &str); 6] = [
    (
        "access-error",
        "QP_ACCESS_ERR",
        "write",
        "WRITE_ONLY va=buf rkey=0xdead00 data=8 ack",
        "NAK_ACCESS",
    ),
    ("access-error", "QP_ACCESS_ERR", "read", "READ_REQUEST va=buf-8 rkey=buf len=8", "NAK_ACCESS"),
    ("access-error", "QP_ACCESS_ERR", "atomic", "FETCH_ADD va=buf rkey=1 add=1", "NAK_ACCESS"),
    ("request-error", "QP_REQ_ERR", "unknown-opcode", "RAW opcode=0x1f", "NAK_INVALID"),
    ("request-error", "QP_REQ_ERR", "middle-alone", "SEND_MIDDLE data=256 ack", "NAK_INVALID"),
    ("request-error", "QP_REQ_ERR", "unaligned", "FETCH_ADD va=buf+4 rkey=buf", "NAK_INVALID"),
];

const SCRIPTS: &str = r"
== events/comm-established/first-request
qp rc to=RTR
no-event COMM_EST
< WRITE_ONLY psn=0 va=buf rkey=buf data=8*0xaa ack
> ACK psn=0
event COMM_EST
< WRITE_ONLY psn=1 va=buf rkey=buf data=8*0xaa ack
> ACK psn=1
no-event COMM_EST

== events/comm-established/not-in-rts
qp rc
< WRITE_ONLY psn=0 va=buf rkey=buf data=8*0xaa ack
> ACK psn=0
no-event COMM_EST

== events/no-event-when-receive-fails/too-small
qp rc
recv id=1 at=buf len=4
< SEND_ONLY psn=0 data=8*0xaa ack
> NAK_INVALID psn=0
done id=1 status=LOC_LEN_ERR
no-event QP_REQ_ERR
no-event QP_ACCESS_ERR
no-event QP_FATAL

== events/no-event-rnr-sequence/not-ready
qp rc
< SEND_ONLY psn=0 data=8 ack
> RNR_NAK psn=0
no-event QP_REQ_ERR
no-event QP_ACCESS_ERR
in RTS

== events/no-event-rnr-sequence/gap
qp rc
< WRITE_ONLY psn=1 va=buf rkey=buf data=8 ack
> NAK_PSN psn=0
no-event QP_REQ_ERR
no-event QP_ACCESS_ERR
in RTS

== events/requester-error-silent/remote-access
qp rc
post RDMA_WRITE id=1 at=buf len=8 to=7 rkey=9
> WRITE_ONLY psn=0
< NAK_ACCESS psn=0
done id=1 status=REM_ACCESS_ERR
in ERR
no-event QP_FATAL
no-event QP_REQ_ERR
no-event QP_ACCESS_ERR

== events/requester-error-silent/silence
qp rc timeout=8 retry=0
post SEND id=1 at=buf len=8
> SEND_ONLY psn=0
done id=1 status=RETRY_EXC_ERR
no-event QP_FATAL

== events/last-wqe/only-shared
qp rc
move ERR
in ERR
no-event QP_LAST_WQE_REACHED

== events/srq-limit/once-for-each-arming
qp rc srq=8
recv id=1 at=buf len=8
limit 2
event SRQ_LIMIT_REACHED
no-event SRQ_LIMIT_REACHED
limit 2
event SRQ_LIMIT_REACHED
";
