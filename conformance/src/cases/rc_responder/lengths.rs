//! Lengths: of packets, of messages, and what a header says of them.

use super::super::book::{book, named};
use super::invalid;
use crate::case::Case;

pub(super) fn cases() -> Vec<Case> {
    let mut all = book(SCRIPTS);
    for (rule, variant, packet) in ALONE {
        let name = format!("rc-responder/{rule}/{variant}");
        all.push(invalid(&name, "qp rc", &format!("{packet} psn=0")));
    }
    for (rule, variant, first, packet) in BEHIND_FIRST {
        all.push(named(
            &format!("rc-responder/{rule}/{variant}"),
            format!(
                "qp rc
                recv id=1 at=buf len=2048
                < {first} psn=0 ack
                > ACK psn=0 msn=0
                < {packet} psn=1 ack
                > NAK_INVALID psn=1 msn=0
                in ERR
                done id=1 status=WR_FLUSH_ERR
                event QP_REQ_ERR
                quiet
                holds buf+512 512"
            ),
        ));
    }
    all
}

/// Messages that are wrong from their first packet on; no receive is posted but one that is flushed.
const ALONE: [(&str, &str, &str); 13] = [
    ("length-first-middle", "write-first-short", "WRITE_FIRST len=512 data=252*0xaa"),
    ("length-first-middle", "write-first-padded", "WRITE_FIRST len=512 data=255*0xaa"),
    ("length-first-middle", "write-first-long", "WRITE_FIRST len=512 data=260*0xaa"),
    ("length-first-middle", "write-first-empty", "WRITE_FIRST len=512"),
    ("length-only", "write-long", "WRITE_ONLY data=260*0xaa"),
    ("length-only", "write-with-immediate-long", "WRITE_ONLY_WITH_IMMEDIATE imm=1 data=260*0xaa"),
    ("length-reth", "write", "WRITE_FIRST len=0x80000001 data=256*0xaa"),
    ("length-reth", "read", "READ_REQUEST len=0x80000001"),
    ("length-reth", "read-of-all-ones", "READ_REQUEST len=0xffffffff"),
    ("length-write-sum", "only-shorter-than-said", "WRITE_ONLY len=8 data=4*0xaa"),
    ("length-write-sum", "only-longer-than-said", "WRITE_ONLY len=4 data=8*0xaa"),
    ("length-no-payload", "read", "READ_REQUEST len=4 data=4*0xaa"),
    ("length-no-payload", "fetch-add", "FETCH_ADD add=1 data=4*0xaa"),
];

const SEND: &str = "SEND_FIRST data=256*0xaa";
const WRITE: &str = "WRITE_FIRST len=1024 data=256*0xaa";
const SHORT_WRITE: &str = "WRITE_FIRST len=300 data=256*0xaa";

/// Messages whose second packet is wrong.
const BEHIND_FIRST: [(&str, &str, &str, &str); 14] = [
    ("length-first-middle", "send-middle-short", SEND, "SEND_MIDDLE data=252*0xbb"),
    ("length-first-middle", "send-middle-long", SEND, "SEND_MIDDLE data=260*0xbb"),
    ("length-first-middle", "send-middle-empty", SEND, "SEND_MIDDLE"),
    ("length-first-middle", "write-middle-short", WRITE, "WRITE_MIDDLE data=252*0xbb"),
    ("length-first-middle", "write-middle-long", WRITE, "WRITE_MIDDLE data=260*0xbb"),
    ("length-last", "send-empty", SEND, "SEND_LAST"),
    ("length-last", "send-long", SEND, "SEND_LAST data=260*0xbb"),
    ("length-last", "send-with-immediate-empty", SEND, "SEND_LAST_WITH_IMMEDIATE imm=1"),
    ("length-last", "write-empty", WRITE, "WRITE_LAST"),
    ("length-last", "write-long", "WRITE_FIRST len=516 data=256*0xaa", "WRITE_LAST data=260*0xbb"),
    ("length-write-sum", "ends-early", WRITE, "WRITE_LAST data=4*0xbb"),
    (
        "length-write-sum",
        "ends-early-with-immediate",
        WRITE,
        "WRITE_LAST_WITH_IMMEDIATE data=4*0xbb",
    ),
    ("length-write-sum", "goes-on", SHORT_WRITE, "WRITE_MIDDLE data=256*0xbb"),
    ("length-write-sum", "last-too-long", SHORT_WRITE, "WRITE_LAST data=48*0xbb"),
];

const SCRIPTS: &str = r"
== rc-responder/length-first-middle/send-first-short
qp rc
recv id=1 at=buf len=1024
< SEND_FIRST psn=0 data=252*0xaa ack
> NAK_INVALID psn=0
in ERR
done id=1 status=WR_FLUSH_ERR
holds buf 1024

== rc-responder/length-first-middle/send-first-long
qp rc
recv id=1 at=buf len=1024
< SEND_FIRST psn=0 data=260*0xaa ack
> NAK_INVALID psn=0
in ERR
done id=1 status=WR_FLUSH_ERR
holds buf 1024

== rc-responder/length-only/send-long
qp rc
recv id=1 at=buf len=1024
< SEND_ONLY psn=0 data=260*0xaa ack
> NAK_INVALID psn=0
in ERR
done id=1 status=WR_FLUSH_ERR
holds buf 1024

== rc-responder/length-only/send-of-the-path-mtu
qp rc
recv id=1 at=buf len=1024
< SEND_ONLY psn=0 data=256*0xaa ack
> ACK psn=0 msn=1
done RECV id=1 len=256

== rc-responder/length-only/send-of-nothing
qp rc
recv id=1 at=buf len=1024
< SEND_ONLY psn=0 ack
> ACK psn=0 msn=1
done RECV id=1 len=0
holds buf 64

== rc-responder/length-last/send-of-one-byte
qp rc
recv id=1 at=buf len=1024
< SEND_FIRST psn=0 data=256*0xaa
< SEND_LAST psn=1 data=1*0xbb ack
> ACK psn=1 msn=1
done RECV id=1 len=257
holds buf+256 xbb01

== rc-responder/length-last/send-of-the-path-mtu
qp rc
recv id=1 at=buf len=1024
< SEND_FIRST psn=0 data=256*0xaa
< SEND_LAST psn=1 data=256*0xbb ack
> ACK psn=1 msn=1
done RECV id=1 len=512

== rc-responder/length-reth/first-of-one-packet
qp rc
# It says that it ends where a First must not.
< WRITE_FIRST psn=0 len=256 data=256*0xaa ack
>? ACK psn=0 msn=0
< WRITE_LAST psn=1 data=4*0xbb ack
> NAK_INVALID
in ERR
holds buf+256 256

== rc-responder/write-judged-first/end-outside
qp rc
region mem len=1024
< WRITE_FIRST psn=0 va=mem+768 rkey=mem len=512 data=256*0xaa ack
> NAK_ACCESS psn=0
in ERR
holds mem 1024

== rc-responder/write-judged-first/unknown-key
qp rc
< WRITE_FIRST psn=0 rkey=0xdead00 len=512 data=256*0xaa ack
> NAK_ACCESS psn=0
in ERR
holds buf 1024

== rc-responder/write-judged-first/end-wraps
qp rc
< WRITE_FIRST psn=0 va=0xffffffffffffff00 len=512 data=256*0xaa ack
> NAK_ACCESS psn=0
in ERR

== rc-responder/write-judged-first/region-read-only
qp rc
region mem len=1024 rights=lra
< WRITE_FIRST psn=0 va=mem rkey=mem len=512 data=256*0xaa ack
> NAK_ACCESS psn=0
in ERR
holds mem 1024

== rc-responder/write-judged-again/deregistered-before-the-last
qp rc
region mem len=1024
< WRITE_FIRST psn=0 va=mem rkey=mem len=512 data=256*0xaa ack
> ACK psn=0 msn=0
dereg mem
< WRITE_LAST psn=1 data=256*0xbb ack
> NAK_ACCESS psn=1
in ERR
quiet
holds mem 256*0xaa
holds mem+256 256

== rc-responder/write-judged-again/deregistered-before-a-middle
qp rc
region mem len=1024
< WRITE_FIRST psn=0 va=mem rkey=mem len=768 data=256*0xaa ack
> ACK psn=0 msn=0
dereg mem
< WRITE_MIDDLE psn=1 data=256*0xbb ack
> NAK_ACCESS psn=1
in ERR
quiet
holds mem+256 256
";
