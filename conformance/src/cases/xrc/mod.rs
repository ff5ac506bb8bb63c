//! Extended reliable connection. What needs more than one queue pair is in [`verbs`].

mod verbs;

use super::book::{book, named};
use crate::case::Case;

/// The cases of the family.
pub(super) fn cases() -> Vec<Case> {
    let mut all = book(SCRIPTS);
    all.extend(verbs::cases());
    for (variant, post, packet, answer, done) in OPERATIONS {
        all.push(named(
            &format!("xrc/operations/{variant}"),
            format!(
                "needs XRC\n{}qp xrc-send\n\
                 post {post} id=1 srq=0x10002\n\
                 > {packet} psn=0 srq=0x10002 ack\n\
                 < {answer} psn=0\n\
                 done {done} id=1",
                needs(post)
            ),
        ));
    }
    for (variant, packet, answer) in SERVED {
        all.push(named(
            &format!("xrc/xrceth/{variant}-served"),
            format!(
                "needs XRC\n{}qp xrc-recv srq=4 rights=wraf\nregion mem len=64 rights=lwraf\n\
                 < {packet} psn=0 va=mem rkey=mem ack\n\
                 > {answer} psn=0",
                needs(packet)
            ),
        ));
        all.push(named(
            &format!("xrc/unknown-srq/{variant}"),
            format!(
                "needs XRC\n{}qp xrc-recv srq=4 rights=wraf\nregion mem len=64 rights=lwraf\n\
                 < {packet} psn=0 va=mem rkey=mem srq=0xfffffe ack\n\
                 > NAK_INVALID psn=0\n\
                 in ERR\n\
                 holds mem 64",
                needs(packet)
            ),
        ));
        all.push(named(
            &format!("xrc/pd-of-srq/{variant}-other-domain"),
            format!(
                "needs XRC\n{}qp xrc-recv srq=4 rights=wraf\n\
                 region mem len=64 rights=lwraf pd=other\n\
                 < {packet} psn=0 va=mem rkey=mem ack\n\
                 > NAK_ACCESS psn=0\n\
                 in ERR\n\
                 holds mem 64",
                needs(packet)
            ),
        ));
    }
    all
}

/// What a device must be able to do for what the line asks for.
fn needs(line: &str) -> &'static str {
    match line.split(' ').next() {
        Some("FLUSH") => "needs FLUSH_GLOBAL\n",
        Some("ATOMIC_WRITE") => "needs ATOMIC_WRITE\n",
        _ => "",
    }
}

/// What is posted, what must leave, what answers it, what completes.
const OPERATIONS: [(&str, &str, &str, &str, &str); 7] = [
    ("send", "SEND at=buf len=8", "SEND_ONLY data=8", "ACK", "SEND"),
    ("write", "RDMA_WRITE at=buf len=8 to=7 rkey=9", "WRITE_ONLY va=7 rkey=9", "ACK", "RDMA_WRITE"),
    (
        "read",
        "RDMA_READ at=buf len=8 to=7 rkey=9",
        "READ_REQUEST va=7 rkey=9 len=8",
        "READ_RESPONSE_ONLY data=8*0xaa",
        "RDMA_READ",
    ),
    (
        "compare-swap",
        "COMP_SWAP at=buf len=8 to=8 rkey=9 compare=3 swap=4",
        "COMPARE_SWAP va=8 rkey=9 compare=3 swap=4",
        "ATOMIC_ACKNOWLEDGE orig=3",
        "COMP_SWAP",
    ),
    (
        "fetch-add",
        "FETCH_ADD at=buf len=8 to=8 rkey=9 swap=4",
        "FETCH_ADD va=8 rkey=9 add=4",
        "ATOMIC_ACKNOWLEDGE orig=3",
        "FETCH_ADD",
    ),
    (
        "atomic-write",
        "ATOMIC_WRITE at=buf len=8 to=8 rkey=9",
        "ATOMIC_WRITE va=8 rkey=9 data=8",
        "READ_RESPONSE_ONLY",
        "ATOMIC_WRITE",
    ),
    (
        "flush",
        "FLUSH to=8 rkey=9 len=8",
        "FLUSH va=8 rkey=9 len=8 placement=1 selectivity=0",
        "READ_RESPONSE_ONLY",
        "FLUSH",
    ),
];

/// Requests that take no receive, and what answers them.
const SERVED: [(&str, &str, &str); 5] = [
    ("write", "WRITE_ONLY data=8*0xaa", "ACK"),
    ("read", "READ_REQUEST len=8", "READ_RESPONSE_ONLY data=8"),
    ("fetch-add", "FETCH_ADD add=1", "ATOMIC_ACKNOWLEDGE"),
    ("atomic-write", "ATOMIC_WRITE data=8*0xaa", "READ_RESPONSE_ONLY"),
    ("flush", "FLUSH len=8", "READ_RESPONSE_ONLY"),
];

const SCRIPTS: &str = r"
== xrc/routed-by-number/send
needs XRC
qp xrc-recv srq=4
recv id=1 at=buf len=64
< SEND_ONLY psn=0 data=8*0xaa ack
> ACK psn=0
done RECV id=1 len=8
holds buf 8*0xaa

== xrc/routed-by-number/write-with-immediate
needs XRC
qp xrc-recv srq=4
recv id=1 at=buf len=64
< WRITE_ONLY_WITH_IMMEDIATE psn=0 va=buf+64 rkey=buf imm=7 data=8*0xaa ack
> ACK psn=0
done RECV_RDMA_WITH_IMM id=1 len=8 imm=7

== xrc/unknown-srq/send
needs XRC
qp xrc-recv srq=4
recv id=1 at=buf len=64
< SEND_ONLY psn=0 srq=0xfffffe data=8*0xaa ack
> NAK_INVALID psn=0
in ERR
idle

== xrc/same-srq-through-message/changes-in-the-middle
needs XRC
qp xrc-recv srq=4
recv id=1 at=buf len=1024
< SEND_FIRST psn=0 data=256*0xaa
< SEND_LAST psn=1 srq=0xfffffe data=4*0xbb ack
> NAK_INVALID psn=1
in ERR
done id=1 status=WR_FLUSH_ERR

== xrc/not-ready/empty-queue
needs XRC
qp xrc-recv srq=4 minrnr=14
< SEND_ONLY psn=0 data=8*0xaa ack
> RNR_NAK psn=0 timer=14
in RTS

== xrc/target-has-no-receives/send-refused
needs XRC
qp xrc-recv srq=4
refused EINVAL post SEND id=1 at=buf len=8
in RTS

== xrc/initiator-sends-only/request-dropped
needs XRC
qp xrc-send
< WRITE_ONLY psn=0 srq=1 va=buf rkey=buf data=8*0xaa ack
quiet
holds buf 64
in RTS

== xrc/initiator-sends-only/response-dropped-by-target
needs XRC
qp xrc-recv srq=4
< ACK psn=0
quiet
in RTS

== xrc/initiator-sends-only/receive-refused
needs XRC
qp xrc-send
refused EINVAL recv id=1 at=buf len=8
in RTS
";
