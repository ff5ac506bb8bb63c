//! Which packet may come now, what the queue pair allows, and which check decides.

use super::super::book::{book, named};
use super::{invalid, refused};
use crate::case::Case;

pub(super) fn cases() -> Vec<Case> {
    let mut all = book(SCRIPTS);
    for (variant, packet) in WITHOUT_BEGINNING {
        let name = format!("rc-responder/sequence-first-missing/{variant}");
        all.push(invalid(&name, "qp rc", &format!("{packet} psn=0")));
    }
    for (variant, first, needs, packet) in WITHOUT_END {
        all.push(named(
            &format!("rc-responder/sequence-last-missing/{variant}"),
            format!(
                "qp rc
                {needs}
                recv id=1 at=buf len=1024
                {first} psn=0 ack
                > ACK psn=0 msn=0
                < {packet} psn=1 ack
                > NAK_INVALID psn=1 msn=0
                in ERR
                done id=1 status=WR_FLUSH_ERR
                event QP_REQ_ERR
                holds buf+512 512"
            ),
        ));
    }
    for (rule, variant, setup, packet) in DENIED {
        let name = format!("rc-responder/{rule}/{variant}");
        all.push(invalid(&name, setup, &format!("{packet} psn=0")));
    }
    for (variant, needs, packet) in NO_DEPTH {
        let name = format!("rc-responder/too-many-reads/{variant}-without-depth");
        let setup = format!("qp rc depth=0 rights=wraf\n{needs}");
        all.push(invalid(&name, &setup, &format!("{packet} psn=0")));
    }
    all.push(refused(
        "rc-responder/error-nak-and-err/remote-access",
        "qp rc",
        "WRITE_ONLY psn=0 rkey=0xdead00 data=4*0xaa",
        "NAK_ACCESS psn=0 msn=0",
        "QP_ACCESS_ERR",
    ));
    all
}

/// Packets that go on with what has not begun.
const WITHOUT_BEGINNING: [(&str, &str); 7] = [
    ("send-middle", "SEND_MIDDLE data=256*0xaa"),
    ("send-last", "SEND_LAST data=4*0xaa"),
    ("send-last-with-immediate", "SEND_LAST_WITH_IMMEDIATE imm=1 data=4*0xaa"),
    ("send-last-with-invalidate", "SEND_LAST_WITH_INVALIDATE data=4*0xaa"),
    ("write-middle", "WRITE_MIDDLE data=256*0xaa"),
    ("write-last", "WRITE_LAST data=4*0xaa"),
    ("write-last-with-immediate", "WRITE_LAST_WITH_IMMEDIATE imm=1 data=4*0xaa"),
];

const SEND: &str = "< SEND_FIRST data=256*0xaa";
const WRITE: &str = "< WRITE_FIRST len=1024 data=256*0xaa";
const ATOMIC_WRITE: &str = "needs ATOMIC_WRITE";
const FLUSH: &str = "needs FLUSH_GLOBAL";

/// Packets that begin something else in the middle of a message, or go on with another operation.
const WITHOUT_END: [(&str, &str, &str, &str); 20] = [
    ("send-then-send-first", SEND, "", "SEND_FIRST data=256*0xbb"),
    ("send-then-send-only", SEND, "", "SEND_ONLY data=4*0xbb"),
    ("send-then-write-first", SEND, "", "WRITE_FIRST va=buf+512 len=512 data=256*0xbb"),
    ("send-then-write-middle", SEND, "", "WRITE_MIDDLE data=256*0xbb"),
    ("send-then-write-last", SEND, "", "WRITE_LAST data=4*0xbb"),
    ("send-then-write-only", SEND, "", "WRITE_ONLY va=buf+512 data=4*0xbb"),
    ("send-then-read", SEND, "", "READ_REQUEST len=4"),
    ("send-then-compare-swap", SEND, "", "COMPARE_SWAP va=buf+512"),
    ("send-then-fetch-add", SEND, "", "FETCH_ADD va=buf+512 add=1"),
    ("send-then-atomic-write", SEND, ATOMIC_WRITE, "ATOMIC_WRITE va=buf+512 data=8*0xbb"),
    ("send-then-flush", SEND, FLUSH, "FLUSH len=8"),
    ("write-then-write-first", WRITE, "", "WRITE_FIRST va=buf+512 len=512 data=256*0xbb"),
    ("write-then-write-only", WRITE, "", "WRITE_ONLY va=buf+512 data=4*0xbb"),
    ("write-then-send-first", WRITE, "", "SEND_FIRST data=256*0xbb"),
    ("write-then-send-middle", WRITE, "", "SEND_MIDDLE data=256*0xbb"),
    ("write-then-send-last", WRITE, "", "SEND_LAST data=4*0xbb"),
    ("write-then-send-only", WRITE, "", "SEND_ONLY data=4*0xbb"),
    ("write-then-read", WRITE, "", "READ_REQUEST len=4"),
    ("write-then-fetch-add", WRITE, "", "FETCH_ADD va=buf+512 add=1"),
    ("write-then-atomic-write", WRITE, ATOMIC_WRITE, "ATOMIC_WRITE va=buf+512 data=8*0xbb"),
];

/// What the queue pair does not let peers do.
const DENIED: [(&str, &str, &str, &str); 13] = [
    ("qp-write-denied", "only", "qp rc rights=ra", "WRITE_ONLY data=4*0xaa"),
    ("qp-write-denied", "first", "qp rc rights=ra", "WRITE_FIRST len=512 data=256*0xaa"),
    (
        "qp-write-denied",
        "with-immediate",
        "qp rc rights=ra",
        "WRITE_ONLY_WITH_IMMEDIATE imm=1 data=4*0xaa",
    ),
    ("qp-write-denied", "zero-length", "qp rc rights=ra", "WRITE_ONLY len=0"),
    (
        "qp-write-denied",
        "before-the-key",
        "qp rc rights=ra",
        "WRITE_ONLY rkey=0xdead00 data=4*0xaa",
    ),
    ("qp-read-denied", "read", "qp rc rights=wa", "READ_REQUEST len=4"),
    ("qp-read-denied", "zero-length", "qp rc rights=wa", "READ_REQUEST len=0"),
    ("qp-read-denied", "before-the-key", "qp rc rights=wa", "READ_REQUEST rkey=0xdead00 len=4"),
    ("qp-atomic-denied", "compare-swap", "qp rc rights=wr", "COMPARE_SWAP swap=1"),
    ("qp-atomic-denied", "fetch-add", "qp rc rights=wr", "FETCH_ADD add=1"),
    ("qp-atomic-denied", "before-the-key", "qp rc rights=wr", "FETCH_ADD add=1 rkey=0xdead00"),
    ("qp-atomic-denied", "read-and-write-are-not-enough", "qp rc rights=wr", "FETCH_ADD add=0"),
    ("qp-atomic-denied", "no-rights-at-all", "qp rc rights=-", "COMPARE_SWAP swap=1"),
];

/// What needs a place among the open READs.
const NO_DEPTH: [(&str, &str, &str); 5] = [
    ("read", "", "READ_REQUEST len=4"),
    ("compare-swap", "", "COMPARE_SWAP swap=1"),
    ("fetch-add", "", "FETCH_ADD add=1"),
    ("atomic-write", ATOMIC_WRITE, "ATOMIC_WRITE data=8*0xaa"),
    ("flush", FLUSH, "FLUSH len=8"),
];

const SCRIPTS: &str = r"
== rc-responder/check-order/psn-before-place
qp rc
# It has no beginning, but that is not asked of what comes too early.
< SEND_LAST psn=1 data=4*0xaa ack
> NAK_PSN psn=0
in RTS

== rc-responder/check-order/psn-before-rights
qp rc rights=-
< WRITE_ONLY psn=1 data=4*0xaa ack
> NAK_PSN psn=0
in RTS

== rc-responder/check-order/psn-before-key
qp rc
< WRITE_ONLY psn=1 rkey=0xdead00 data=4*0xaa ack
> NAK_PSN psn=0
in RTS

== rc-responder/check-order/psn-before-length
qp rc
< WRITE_ONLY psn=1 data=260*0xaa ack
> NAK_PSN psn=0
in RTS

== rc-responder/check-order/rights-before-key
qp rc rights=r
< WRITE_ONLY psn=0 rkey=0xdead00 data=4*0xaa ack
> NAK_INVALID psn=0
in ERR

== rc-responder/check-order/receive-before-length
qp rc
< SEND_ONLY psn=0 data=260*0xaa ack
> RNR_NAK psn=0
in RTS

== rc-responder/check-order/place-before-receive
qp rc
< SEND_LAST psn=0 data=4*0xaa ack
> NAK_INVALID psn=0
in ERR

== rc-responder/check-order/depth-before-key
qp rc depth=0
< READ_REQUEST psn=0 rkey=0xdead00 len=4
> NAK_INVALID psn=0
in ERR

== rc-responder/check-order/length-before-key
qp rc
< WRITE_ONLY psn=0 rkey=0xdead00 data=260*0xaa ack
> NAK_INVALID psn=0
in ERR

== rc-responder/check-order/key-before-range
qp rc
< WRITE_ONLY psn=0 va=buf+8192 rkey=0xdead00 data=4*0xaa ack
> NAK_ACCESS psn=0
in ERR

== rc-responder/too-many-reads/depth-is-enough
qp rc depth=1
< READ_REQUEST psn=0 len=4
> READ_RESPONSE_ONLY psn=0
< READ_REQUEST psn=1 len=4
> READ_RESPONSE_ONLY psn=1
< FETCH_ADD psn=2 add=1
> ATOMIC_ACKNOWLEDGE psn=2
in RTS

== rc-responder/too-many-reads/writes-need-none
qp rc depth=0
< WRITE_ONLY psn=0 data=4*0xaa ack
> ACK psn=0 msn=1
in RTS

== rc-responder/error-nak-and-err/all-receives-flushed
qp rc
recv id=1 at=buf len=64
recv id=2 at=buf len=64
recv id=3 at=buf len=64
< WRITE_ONLY psn=0 rkey=0xdead00 data=4*0xaa ack
> NAK_ACCESS psn=0
in ERR
done id=1 status=WR_FLUSH_ERR
done id=2 status=WR_FLUSH_ERR
done id=3 status=WR_FLUSH_ERR

== rc-responder/error-nak-and-err/sends-flushed
qp rc
post SEND id=1 at=buf len=4
> SEND_ONLY psn=0
< WRITE_ONLY psn=0 rkey=0xdead00 data=4*0xaa ack
> NAK_ACCESS psn=0
in ERR
done id=1 status=WR_FLUSH_ERR

== rc-responder/error-nak-and-err/without-being-asked
qp rc
# The request asks for no acknowledgement; a refusal is told all the same.
< WRITE_ONLY psn=0 rkey=0xdead00 data=4*0xaa
> NAK_ACCESS psn=0
in ERR

== rc-responder/error-nak-and-err/carries-the-psn-refused
qp rc
< WRITE_ONLY psn=0 data=4*0xaa
< WRITE_ONLY psn=1 data=4*0xaa
< WRITE_ONLY psn=2 rkey=0xdead00 data=4*0xaa
> NAK_ACCESS psn=2 msn=2
in ERR

== rc-responder/after-error-silent/good-request
qp rc
< WRITE_ONLY psn=0 rkey=0xdead00 data=4*0xaa ack
> NAK_ACCESS psn=0
in ERR
< WRITE_ONLY psn=0 data=4*0xaa ack
< WRITE_ONLY psn=1 data=4*0xaa ack
quiet
holds buf 4

== rc-responder/after-error-silent/duplicate
qp rc
< WRITE_ONLY psn=0 data=4*0xaa ack
> ACK psn=0
< WRITE_ONLY psn=1 rkey=0xdead00 data=4*0xaa ack
> NAK_ACCESS psn=1
in ERR
< WRITE_ONLY psn=0 data=4*0xaa ack
quiet

== rc-responder/after-error-silent/read
qp rc
< WRITE_ONLY psn=0 rkey=0xdead00 data=4*0xaa ack
> NAK_ACCESS psn=0
in ERR
< READ_REQUEST psn=0 len=4
quiet
";
