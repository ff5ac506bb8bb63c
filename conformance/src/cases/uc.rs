//! Unreliable connection.

use super::book::{book, named};
use crate::case::Case;

/// The cases of the family.
pub(super) fn cases() -> Vec<Case> {
    let mut all = book(SCRIPTS);
    for (variant, request) in REFUSED {
        all.push(named(
            &format!("uc/operations/{variant}-refused"),
            format!("qp uc\nrefused EINVAL post {request}\nidle\nin RTS"),
        ));
    }
    for (rule, variant, before, packet) in DROPPED {
        all.push(named(
            &format!("uc/{rule}/{variant}"),
            format!(
                "{before}\n\
                 < {packet}\n\
                 quiet\n\
                 idle\n\
                 in RTS\n\
                 holds mem 64\n\
                 recv id=9 at=buf len=64\n\
                 # The next message is received, whatever was lost.\n\
                 < SEND_ONLY psn=9 data=4*0x99\n\
                 done RECV id=9 len=4\n\
                 holds buf 4*0x99"
            ),
        ));
    }
    all
}

/// Requests that UC does not have.
const REFUSED: [(&str, &str); 6] = [
    ("read", "RDMA_READ at=buf len=8 to=buf rkey=buf"),
    ("compare-swap", "COMP_SWAP at=buf len=8 to=buf rkey=buf"),
    ("fetch-add", "FETCH_ADD at=buf len=8 to=buf rkey=buf"),
    ("send-with-invalidate", "SEND at=buf len=8 inv=buf"),
    ("atomic-write", "ATOMIC_WRITE at=buf len=8 to=buf rkey=buf"),
    ("flush", "FLUSH to=buf rkey=buf len=8"),
];

const OPEN: &str = "qp uc\nregion mem len=64";

/// Packets that leave no trace: of which rule, called what, after what.
const DROPPED: [(&str, &str, &str, &str); 19] = [
    ("bad-key", "unknown", OPEN, "WRITE_ONLY psn=0 va=mem rkey=0xdead00 data=8*0xaa"),
    ("bad-key", "stale-variant", OPEN, "WRITE_ONLY psn=0 va=mem rkey=mem+1 data=8*0xaa"),
    ("bad-key", "past-the-end", OPEN, "WRITE_ONLY psn=0 va=mem+57 rkey=mem data=8*0xaa"),
    ("bad-key", "before-the-start", OPEN, "WRITE_ONLY psn=0 va=mem-1 rkey=mem data=8*0xaa"),
    ("bad-key", "wraps", OPEN, "WRITE_ONLY psn=0 va=0xfffffffffffffffc rkey=mem data=8*0xaa"),
    (
        "bad-key",
        "right-missing",
        "qp uc\nregion mem len=64 rights=lra",
        "WRITE_ONLY psn=0 va=mem rkey=mem data=8*0xaa",
    ),
    (
        "bad-key",
        "other-domain",
        "qp uc\nregion mem len=64 pd=other",
        "WRITE_ONLY psn=0 va=mem rkey=mem data=8*0xaa",
    ),
    (
        "qp-write-denied",
        "no-right",
        "qp uc rights=-\nregion mem len=64",
        "WRITE_ONLY psn=0 va=mem rkey=mem data=8*0xaa",
    ),
    ("bad-length", "only-too-long", OPEN, "WRITE_ONLY psn=0 va=mem rkey=mem len=260 data=260*0xaa"),
    ("bad-length", "first-too-short", OPEN, "WRITE_FIRST psn=0 va=mem rkey=mem len=16 data=8*0xaa"),
    ("bad-length", "more-than-said", OPEN, "WRITE_ONLY psn=0 va=mem rkey=mem len=4 data=8*0xaa"),
    ("bad-length", "less-than-said", OPEN, "WRITE_ONLY psn=0 va=mem rkey=mem len=16 data=8*0xaa"),
    ("middle-without-first", "send-middle", OPEN, "SEND_MIDDLE psn=0 data=256*0xaa"),
    ("middle-without-first", "send-last", OPEN, "SEND_LAST psn=0 data=8*0xaa"),
    ("middle-without-first", "write-middle", OPEN, "WRITE_MIDDLE psn=0 data=256*0xaa"),
    ("middle-without-first", "write-last", OPEN, "WRITE_LAST psn=0 data=8*0xaa"),
    ("no-receive", "send", OPEN, "SEND_ONLY psn=0 data=8*0xaa"),
    ("no-receive", "send-first", OPEN, "SEND_FIRST psn=0 data=256*0xaa"),
    (
        "no-receive",
        "write-with-immediate",
        OPEN,
        "WRITE_ONLY_WITH_IMMEDIATE psn=0 va=mem rkey=mem imm=7 data=8*0xaa",
    ),
];

const SCRIPTS: &str = r"
== uc/completes-when-sent/send
qp uc
post SEND id=1 at=buf len=8
> SEND_ONLY psn=0 no-ack data=8
done SEND id=1
idle

== uc/completes-when-sent/write-of-three-packets
qp uc
post RDMA_WRITE id=1 at=buf len=600 to=0x1000 rkey=0x77
> WRITE_FIRST psn=0 va=0x1000 rkey=0x77 len=600 size=256
> WRITE_MIDDLE psn=1 size=256
> WRITE_LAST psn=2 size=88
done RDMA_WRITE id=1

== uc/completes-when-sent/nobody-there
qp uc peerqp=0x123456
post SEND id=1 at=buf len=8
>? SEND_ONLY psn=0 dest=0x123456
done SEND id=1
in RTS

== uc/no-ack-req/every-packet
qp uc
post SEND id=1 at=buf len=600
> SEND_FIRST psn=0 no-ack
> SEND_MIDDLE psn=1 no-ack
> SEND_LAST psn=2 no-ack
done SEND id=1

== uc/no-answers/asked-for-an-acknowledgement
qp uc
recv id=1 at=buf len=64
< SEND_ONLY psn=0 data=8*0xaa ack
quiet
done RECV id=1 len=8
holds buf 8*0xaa

== uc/no-answers/gap
qp uc
recv id=1 at=buf len=64
< SEND_ONLY psn=5 data=8*0xaa ack
quiet
done RECV id=1 len=8

== uc/gap-loses-message/middle-lost
qp uc
recv id=1 at=buf len=2048
< SEND_FIRST psn=0 data=256*0xaa
# Packet 1 is lost.
< SEND_MIDDLE psn=2 data=256*0xbb
< SEND_LAST psn=3 data=8*0xcc
quiet
idle
# The receive takes the next message from its start.
< SEND_ONLY psn=4 data=4*0xdd
done RECV id=1 len=4
holds buf 4*0xdd
in RTS

== uc/gap-loses-message/last-lost
qp uc
recv id=1 at=buf len=2048
recv id=2 at=buf+2048 len=2048
< SEND_FIRST psn=0 data=256*0xaa
# Packet 1 is lost, and with it the end.
< SEND_ONLY psn=2 data=4*0xdd
done RECV id=1 len=4
holds buf 4*0xdd
idle

== uc/gap-loses-message/first-lost
qp uc
recv id=1 at=buf len=2048
< SEND_MIDDLE psn=1 data=256*0xaa
< SEND_LAST psn=2 data=8*0xaa
quiet
idle
< SEND_ONLY psn=3 data=4*0xdd
done RECV id=1 len=4

== uc/resync-at-first/any-number
qp uc psn=0x10
recv id=1 at=buf len=64
recv id=2 at=buf+64 len=64
< SEND_ONLY psn=abs:0xabcdef data=4*0xaa
done RECV id=1 len=4
< SEND_ONLY psn=abs:0xabcdf0 data=4*0xbb
done RECV id=2 len=4

== uc/resync-at-first/number-behind
qp uc psn=0x1000
recv id=1 at=buf len=64
< SEND_ONLY psn=-5 data=4*0xaa
done RECV id=1 len=4

== uc/duplicate-is-new/send
qp uc
recv id=1 at=buf len=64
recv id=2 at=buf+64 len=64
< SEND_ONLY psn=0 data=4*0xaa
done RECV id=1 len=4
< SEND_ONLY psn=0 data=4*0xaa
done RECV id=2 len=4

== uc/too-long/send
qp uc
recv id=1 at=buf len=4
< SEND_ONLY psn=0 data=8*0xaa
quiet
idle
in RTS
< SEND_ONLY psn=1 data=4*0xbb
done RECV id=1 len=4
holds buf 4*0xbb
holds buf+4 8:4

== uc/partial-write/end-lost
qp uc
region mem len=1024
< WRITE_FIRST psn=0 va=mem rkey=mem len=264 data=256*0xaa
< SEND_ONLY psn=2 data=0
quiet
idle
holds mem+256 8
in RTS

== uc/local-error-sqe/bad-lkey
qp uc
post SEND id=1 at=buf len=8 lkey=0xdead00
post SEND id=2 at=buf len=8
done id=1 status=LOC_PROT_ERR
done id=2 status=WR_FLUSH_ERR
in SQE
quiet

== uc/local-error-sqe/receives-on
qp uc
recv id=7 at=buf len=64
post SEND id=1 at=buf len=8 lkey=0xdead00
done id=1 status=LOC_PROT_ERR
< SEND_ONLY psn=0 data=4*0xaa
done RECV id=7 len=4

== uc/receive-bad-lkey/unknown
qp uc
recv id=1 at=buf len=64 lkey=0xdead00
recv id=2 at=buf len=64
< SEND_ONLY psn=0 data=4*0xaa
done id=1 status=LOC_PROT_ERR
done id=2 status=WR_FLUSH_ERR
in ERR
quiet
";
