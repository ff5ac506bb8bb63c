//! What comes back, and what follows when nothing does.

use super::book::{book, named};
use crate::case::Case;

/// The cases of the family.
pub(super) fn cases() -> Vec<Case> {
    let mut all = book(SCRIPTS);
    for (rule, nak, status) in [
        ("nak-invalid-request", "NAK_INVALID", "REM_INV_REQ_ERR"),
        ("nak-remote-access", "NAK_ACCESS", "REM_ACCESS_ERR"),
        ("nak-remote-operational", "NAK_OPERATION", "REM_OP_ERR"),
    ] {
        for (variant, post, packet) in REQUESTS {
            all.push(named(
                &format!("acknowledgement-retry/{rule}/{variant}"),
                format!(
                    "qp rc
                    post {post} id=1
                    > {packet} psn=0
                    < {nak} psn=0 msn=0
                    done id=1 status={status}
                    in ERR
                    quiet
                    holds buf 64"
                ),
            ));
        }
    }
    for (variant, syndrome) in RESERVED {
        all.push(named(
            &format!("acknowledgement-retry/syndrome-reserved/{variant}"),
            format!(
                "qp rc
                post SEND id=1 at=buf len=4
                > SEND_ONLY psn=0
                < ACK syndrome={syndrome} psn=0 msn=1
                quiet
                idle
                in RTS
                < ACK psn=0 msn=1
                done SEND id=1"
            ),
        ));
    }
    for (variant, answer) in OUTSIDE {
        all.push(named(
            &format!("acknowledgement-retry/ack-outside-window/{variant}"),
            format!(
                "qp rc
                post SEND id=1 at=buf len=4
                > SEND_ONLY psn=0
                < ACK psn=0 msn=1
                done SEND id=1
                post SEND id=2 at=buf len=4
                > SEND_ONLY psn=1
                < {answer}
                quiet
                idle
                in RTS
                < ACK psn=1 msn=2
                done SEND id=2"
            ),
        ));
    }
    for (variant, post, packet, answer) in OF_ANOTHER_KIND {
        all.push(named(
            &format!("acknowledgement-retry/unexpected-response/{variant}"),
            format!(
                "qp rc
                post {post} id=1
                > {packet} psn=0
                < {answer} psn=0 msn=1
                quiet
                idle
                in RTS
                holds buf 64"
            ),
        ));
    }
    all
}

/// Requests that can be refused.
const REQUESTS: [(&str, &str, &str); 5] = [
    ("send", "SEND at=buf len=4", "SEND_ONLY"),
    ("write", "RDMA_WRITE at=buf len=4 to=0x1000 rkey=7", "WRITE_ONLY"),
    ("read", "RDMA_READ at=buf len=4 to=0x1000 rkey=7", "READ_REQUEST"),
    ("compare-swap", "COMP_SWAP at=buf len=8 to=0x1000 rkey=7", "COMPARE_SWAP"),
    ("fetch-add", "FETCH_ADD at=buf len=8 to=0x1000 rkey=7", "FETCH_ADD"),
];

/// Syndromes without a meaning: reserved classes, and NAK codes that do not exist.
const RESERVED: [(&str, &str); 5] = [
    ("class-2", "0x40"),
    ("class-4", "0x80"),
    ("class-7", "0xff"),
    ("nak-code-5", "0x65"),
    ("nak-code-31", "0x7f"),
];

/// Answers to what was never sent, or was acknowledged before.
const OUTSIDE: [(&str, &str); 8] = [
    ("ack-ahead", "ACK psn=2 msn=3"),
    ("ack-far-ahead", "ACK psn=8388600 msn=3"),
    ("ack-behind", "ACK psn=0 msn=1"),
    ("ack-far-behind", "ACK psn=-8388600 msn=1"),
    ("nak-ahead", "NAK_ACCESS psn=2 msn=1"),
    ("nak-behind", "NAK_ACCESS psn=0 msn=1"),
    ("rnr-nak-behind", "RNR_NAK psn=0 msn=1 timer=1"),
    ("sequence-nak-ahead", "NAK_PSN psn=7 msn=1"),
];

/// Answers that do not fit what is open.
const OF_ANOTHER_KIND: [(&str, &str, &str, &str); 5] = [
    ("read-response-to-a-send", "SEND at=buf len=8", "SEND_ONLY", "READ_RESPONSE_ONLY data=8*0xaa"),
    (
        "read-response-to-a-write",
        "RDMA_WRITE at=buf len=8 to=0x1000 rkey=7",
        "WRITE_ONLY",
        "READ_RESPONSE_ONLY data=8*0xaa",
    ),
    (
        "read-response-to-an-atomic",
        "FETCH_ADD at=buf len=8 to=0x1000 rkey=7",
        "FETCH_ADD",
        "READ_RESPONSE_ONLY data=8*0xaa",
    ),
    ("atomic-response-to-a-send", "SEND at=buf len=8", "SEND_ONLY", "ATOMIC_ACKNOWLEDGE orig=1"),
    (
        "atomic-response-to-a-read",
        "RDMA_READ at=buf len=8 to=0x1000 rkey=7",
        "READ_REQUEST",
        "ATOMIC_ACKNOWLEDGE orig=1",
    ),
];

const SCRIPTS: &str = r"
== acknowledgement-retry/ack-format/positive
qp rc
< WRITE_ONLY psn=0 data=4*0xaa ack
> ACK psn=0 msn=1 size=0 pad=0

== acknowledgement-retry/ack-cumulative/three-messages
qp rc
post SEND id=1 at=buf len=4
post RDMA_WRITE id=2 at=buf len=4 to=0x1000 rkey=7
post SEND id=3 at=buf len=4
> SEND_ONLY psn=0
> WRITE_ONLY psn=1
> SEND_ONLY psn=2
< ACK psn=2 msn=3
done SEND id=1
done RDMA_WRITE id=2
done SEND id=3

== acknowledgement-retry/ack-cumulative/part-of-a-message
qp rc
post SEND id=1 at=buf len=4
post SEND id=2 at=buf len=600
> SEND_ONLY psn=0
> SEND_FIRST psn=1
> SEND_MIDDLE psn=2
> SEND_LAST psn=3
< ACK psn=2 msn=1
done SEND id=1
quiet
idle
< ACK psn=3 msn=2
done SEND id=2

== acknowledgement-retry/ack-cumulative/read-response-acknowledges
qp rc
post SEND id=1 at=buf len=4
post RDMA_READ id=2 at=buf len=8 to=0x1000 rkey=7
> SEND_ONLY psn=0
> READ_REQUEST psn=1
< READ_RESPONSE_ONLY psn=1 data=8*0xaa msn=2
done SEND id=1
done RDMA_READ id=2

== acknowledgement-retry/ack-cumulative/atomic-response-acknowledges
qp rc
post SEND id=1 at=buf len=4
post FETCH_ADD id=2 at=buf len=8 to=0x1000 rkey=7
> SEND_ONLY psn=0
> FETCH_ADD psn=1
< ATOMIC_ACKNOWLEDGE psn=1 orig=3 msn=2
done SEND id=1
done FETCH_ADD id=2

== acknowledgement-retry/ack-on-request/write
qp rc
< WRITE_ONLY psn=0 data=4*0xaa ack
> ACK psn=0 msn=1

== acknowledgement-retry/ack-on-request/send
qp rc
recv id=1 at=buf len=64
< SEND_ONLY psn=0 data=4*0xaa ack
> ACK psn=0 msn=1
done RECV id=1

== acknowledgement-retry/ack-on-request/middle-of-a-message
qp rc
< WRITE_FIRST psn=0 len=768 data=256*0xaa
< WRITE_MIDDLE psn=1 data=256*0xaa ack
> ACK psn=1 msn=0
< WRITE_LAST psn=2 data=256*0xaa ack
> ACK psn=2 msn=1

== acknowledgement-retry/ack-on-request/as-part-of-a-read-response
qp rc
< WRITE_ONLY psn=0 data=4*0xaa ack
>? ACK psn=0 msn=1
< READ_REQUEST psn=1 len=4
> READ_RESPONSE_ONLY psn=1 data=4*0xaa msn=2

== acknowledgement-retry/ack-coalesced/nothing-is-lost
qp rc
recv id=1 at=buf+512 len=64
< WRITE_ONLY psn=0 data=4*0xaa ack
>? ACK psn=0 msn=1
< SEND_ONLY psn=1 data=4*0xbb ack
>? ACK psn=1 msn=2
< WRITE_ONLY psn=2 data=4*0xcc ack
> ACK psn=2 msn=3
done RECV id=1 len=4

== acknowledgement-retry/responses-in-order/read-between-writes
qp rc
< WRITE_ONLY psn=0 data=4*0xaa ack
>? ACK psn=0 msn=1
< READ_REQUEST psn=1 va=buf+1024 len=600
> READ_RESPONSE_FIRST psn=1 data=256
> READ_RESPONSE_MIDDLE psn=2 data=256
> READ_RESPONSE_LAST psn=3 data=88
< WRITE_ONLY psn=4 data=4*0xbb ack
> ACK psn=4 msn=3

== acknowledgement-retry/responses-in-order/two-reads
qp rc
< READ_REQUEST psn=0 len=512
< READ_REQUEST psn=2 va=buf+512 len=300
> READ_RESPONSE_FIRST psn=0
> READ_RESPONSE_LAST psn=1
> READ_RESPONSE_FIRST psn=2
> READ_RESPONSE_LAST psn=3

== acknowledgement-retry/ack-skips-read/read-made-again
qp rc
post RDMA_READ id=1 at=buf len=8 to=0x1000 rkey=7
post SEND id=2 at=buf+64 len=4
> READ_REQUEST psn=0
> SEND_ONLY psn=1
# It says that the SEND has arrived, and so the READ; its response was lost.
< ACK psn=1 msn=2
> READ_REQUEST psn=0 va=0x1000 rkey=7 len=8
> SEND_ONLY psn=1
< READ_RESPONSE_ONLY psn=0 data=8*0xaa msn=1
< ACK psn=1 msn=2
done RDMA_READ id=1
done SEND id=2

== acknowledgement-retry/ack-skips-read/only-what-is-missing
qp rc
post RDMA_READ id=1 at=buf len=600 to=0x1000 rkey=7
post SEND id=2 at=buf+1024 len=4
> READ_REQUEST psn=0
> SEND_ONLY psn=3
< READ_RESPONSE_FIRST psn=0 data=256*0xaa msn=1
< ACK psn=3 msn=2
> READ_REQUEST psn=1 va=0x1100 rkey=7 len=344
> SEND_ONLY psn=3
< READ_RESPONSE_FIRST psn=1 data=256*0xbb msn=1
< READ_RESPONSE_LAST psn=2 data=88*0xcc msn=1
< ACK psn=3 msn=2
done RDMA_READ id=1 len=600
done SEND id=2
holds buf 256*0xaa
holds buf+256 256*0xbb

== acknowledgement-retry/ack-skips-read/atomic-made-again
qp rc
post FETCH_ADD id=1 at=buf len=8 to=0x1000 rkey=7 swap=5
post SEND id=2 at=buf+64 len=4
> FETCH_ADD psn=0 add=5
> SEND_ONLY psn=1
< ACK psn=1 msn=2
> FETCH_ADD psn=0 add=5
> SEND_ONLY psn=1
< ATOMIC_ACKNOWLEDGE psn=0 orig=9 msn=1
< ACK psn=1 msn=2
done FETCH_ADD id=1
done SEND id=2

== acknowledgement-retry/sequence-nak-resends/from-there
qp rc
post SEND id=1 at=buf len=4
post SEND id=2 at=buf len=8
post SEND id=3 at=buf len=12
> SEND_ONLY psn=0
> SEND_ONLY psn=1
> SEND_ONLY psn=2
< NAK_PSN psn=1 msn=1
> SEND_ONLY psn=1 size=8
> SEND_ONLY psn=2 size=12
< ACK psn=2 msn=3
done SEND id=1
done SEND id=2
done SEND id=3

== acknowledgement-retry/sequence-nak-resends/middle-of-a-message
qp rc
post RDMA_WRITE id=1 at=buf len=768 to=0x1000 rkey=7
> WRITE_FIRST psn=0
> WRITE_MIDDLE psn=1
> WRITE_LAST psn=2
< NAK_PSN psn=1 msn=0
> WRITE_MIDDLE psn=1 size=256
> WRITE_LAST psn=2 size=256
< ACK psn=2 msn=1
done RDMA_WRITE id=1

== acknowledgement-retry/sequence-nak-resends/acknowledges-before
qp rc
post SEND id=1 at=buf len=4
post SEND id=2 at=buf len=8
> SEND_ONLY psn=0
> SEND_ONLY psn=1
< NAK_PSN psn=1 msn=1
> SEND_ONLY psn=1
done SEND id=1
quiet
idle
< ACK psn=1 msn=2
done SEND id=2

== acknowledgement-retry/sequence-nak-counts/none-left
qp rc retry=0
post SEND id=1 at=buf len=4
> SEND_ONLY psn=0
< NAK_PSN psn=0 msn=0
done id=1 status=RETRY_EXC_ERR
in ERR

== acknowledgement-retry/sequence-nak-counts/one-left
qp rc retry=1 timeout=14
post SEND id=1 at=buf len=4
> SEND_ONLY psn=0
< NAK_PSN psn=0 msn=0
> SEND_ONLY psn=0
# The only retry is spent, so silence ends it.
done id=1 status=RETRY_EXC_ERR
in ERR

== acknowledgement-retry/nak-acknowledges-before/two-of-three
qp rc
post SEND id=1 at=buf len=4
post SEND id=2 at=buf len=4
post SEND id=3 at=buf len=4
> SEND_ONLY psn=0
> SEND_ONLY psn=1
> SEND_ONLY psn=2
< NAK_INVALID psn=2 msn=2
done SEND id=1
done SEND id=2
done id=3 status=REM_INV_REQ_ERR
in ERR

== acknowledgement-retry/nak-acknowledges-before/not-an-open-read
qp rc
post RDMA_READ id=1 at=buf len=8 to=0x1000 rkey=7
post SEND id=2 at=buf+64 len=4
> READ_REQUEST psn=0
> SEND_ONLY psn=1
# The response of the READ was lost; it has to be made again before the NAK can count.
< NAK_INVALID psn=1 msn=1
> READ_REQUEST psn=0
>? SEND_ONLY psn=1
< READ_RESPONSE_ONLY psn=0 data=8*0xaa msn=1
< NAK_INVALID psn=1 msn=1
done RDMA_READ id=1
done id=2 status=REM_INV_REQ_ERR
in ERR

== acknowledgement-retry/nak-to-error/those-behind-flushed
qp rc
recv id=9 at=buf len=64
post SEND id=1 at=buf len=4
post SEND id=2 at=buf len=4
post SEND id=3 at=buf len=4
> SEND_ONLY psn=0
> SEND_ONLY psn=1
> SEND_ONLY psn=2
< NAK_ACCESS psn=0 msn=0
in ERR
done id=1 status=REM_ACCESS_ERR
done id=2 status=WR_FLUSH_ERR
done id=3 status=WR_FLUSH_ERR
done id=9 status=WR_FLUSH_ERR
quiet

== acknowledgement-retry/nak-to-error/middle-of-a-message
qp rc
post RDMA_WRITE id=1 at=buf len=768 to=0x1000 rkey=7
> WRITE_FIRST psn=0
> WRITE_MIDDLE psn=1
> WRITE_LAST psn=2
< NAK_ACCESS psn=1 msn=0
done id=1 status=REM_ACCESS_ERR
in ERR
quiet

== acknowledgement-retry/timeout/sends-again
qp rc timeout=14
# 4.096 us times 16384 is 67 ms, at most four times that.
       post SEND id=1 at=buf len=4
       > SEND_ONLY psn=0
+67ms  > SEND_ONLY psn=0
       < ACK psn=0 msn=1
       done SEND id=1

== acknowledgement-retry/timeout/all-that-is-open
qp rc timeout=14
post SEND id=1 at=buf len=4
post SEND id=2 at=buf len=8
> SEND_ONLY psn=0
> SEND_ONLY psn=1
> SEND_ONLY psn=0
> SEND_ONLY psn=1
< ACK psn=1 msn=2
done SEND id=1
done SEND id=2

== acknowledgement-retry/timeout/read
qp rc timeout=14
post RDMA_READ id=1 at=buf len=8 to=0x1000 rkey=7
> READ_REQUEST psn=0
> READ_REQUEST psn=0 va=0x1000 rkey=7 len=8
< READ_RESPONSE_ONLY psn=0 data=8*0xaa msn=1
done RDMA_READ id=1

== acknowledgement-retry/timeout-zero/waits
qp rc timeout=0
post SEND id=1 at=buf len=4
> SEND_ONLY psn=0
quiet 300ms
idle
< ACK psn=0 msn=1
done SEND id=1

== acknowledgement-retry/timer-restarts/with-progress
qp rc timeout=13
# 33.5 ms. Two packets; the first is acknowledged late, and the timer begins anew.
        post SEND id=1 at=buf len=4
        post SEND id=2 at=buf len=8
        > SEND_ONLY psn=0
        > SEND_ONLY psn=1
+25ms   < ACK psn=0 msn=1
+30ms   > SEND_ONLY psn=1
        < ACK psn=1 msn=2
        done SEND id=1
        done SEND id=2

== acknowledgement-retry/timer-restarts/stops-when-nothing-is-open
qp rc timeout=14
post SEND id=1 at=buf len=4
> SEND_ONLY psn=0
< ACK psn=0 msn=1
done SEND id=1
quiet 200ms
in RTS

== acknowledgement-retry/retry-count/two
qp rc timeout=8 retry=2
post SEND id=1 at=buf len=4
> SEND_ONLY psn=0
> SEND_ONLY psn=0
> SEND_ONLY psn=0
done id=1 status=RETRY_EXC_ERR
in ERR
quiet

== acknowledgement-retry/retry-count/none
qp rc timeout=8 retry=0
post SEND id=1 at=buf len=4
> SEND_ONLY psn=0
done id=1 status=RETRY_EXC_ERR
in ERR
quiet

== acknowledgement-retry/retry-count/those-behind-flushed
qp rc timeout=8 retry=0
post RDMA_WRITE id=1 at=buf len=4 to=0x1000 rkey=7
post SEND id=2 at=buf len=4
> WRITE_ONLY psn=0
> SEND_ONLY psn=1
done id=1 status=RETRY_EXC_ERR
done id=2 status=WR_FLUSH_ERR
in ERR

== acknowledgement-retry/retry-count-restored/by-progress
qp rc timeout=14 retry=1
post SEND id=1 at=buf len=4
post SEND id=2 at=buf len=8
> SEND_ONLY psn=0
> SEND_ONLY psn=1
> SEND_ONLY psn=0
> SEND_ONLY psn=1
# The retry is spent, and progress gives it back.
< ACK psn=0 msn=1
> SEND_ONLY psn=1
< ACK psn=1 msn=2
done SEND id=1
done SEND id=2

== acknowledgement-retry/resend-same-psn/message-of-three
qp rc timeout=14
post RDMA_WRITE id=1 at=buf len=600 to=0x1000 rkey=7
> WRITE_FIRST psn=0 size=256 len=600 va=0x1000
> WRITE_MIDDLE psn=1 size=256
> WRITE_LAST psn=2 size=88
> WRITE_FIRST psn=0 size=256 len=600 va=0x1000
> WRITE_MIDDLE psn=1 size=256
> WRITE_LAST psn=2 size=88
< ACK psn=2 msn=1
done RDMA_WRITE id=1

== acknowledgement-retry/resend-same-psn/with-immediate
qp rc timeout=14
post SEND id=1 at=buf len=8 imm=7 solicited
> SEND_ONLY_WITH_IMMEDIATE psn=0 imm=7 se
> SEND_ONLY_WITH_IMMEDIATE psn=0 imm=7 se
< ACK psn=0 msn=1
done SEND id=1

== acknowledgement-retry/resend-current-memory/changed
qp rc timeout=14
post SEND id=1 at=buf len=8
> SEND_ONLY psn=0 data=8
store buf 8*0xaa
> SEND_ONLY psn=0 data=8*0xaa
< ACK psn=0 msn=1
done SEND id=1

== acknowledgement-retry/resend-current-memory/gone
qp rc timeout=14
region mem len=64
post SEND id=1 at=mem len=8
> SEND_ONLY psn=0
dereg mem
done id=1 status=LOC_PROT_ERR
in ERR
quiet

== acknowledgement-retry/lost-ack-not-twice/fetch-add
qp rc
store buf x0000000000000000
< FETCH_ADD psn=0 add=1
> ATOMIC_ACKNOWLEDGE psn=0 orig=0
< FETCH_ADD psn=0 add=1
> ATOMIC_ACKNOWLEDGE psn=0 orig=0
< FETCH_ADD psn=1 add=1
> ATOMIC_ACKNOWLEDGE psn=1 orig=1

== acknowledgement-retry/lost-ack-not-twice/send
qp rc
recv id=1 at=buf len=8
recv id=2 at=buf+8 len=8
< SEND_ONLY psn=0 data=8*0xaa ack
> ACK psn=0 msn=1
done RECV id=1
< SEND_ONLY psn=0 data=8*0xaa ack
> ACK psn=0 msn=1
quiet
idle
holds buf+8 8:8

== acknowledgement-retry/credits-respected/none-left
qp rc
post SEND id=1 at=buf len=4
> SEND_ONLY psn=0
# One message is done, and there is credit for none.
< ACK psn=0 msn=1 credits=0
done SEND id=1
post SEND id=2 at=buf len=4
post SEND id=3 at=buf len=4
# One may probe; the other waits.
> SEND_ONLY psn=1
quiet
< ACK psn=1 msn=2 credits=31
> SEND_ONLY psn=2
< ACK psn=2 msn=3 credits=31
done SEND id=2
done SEND id=3

== acknowledgement-retry/credits-respected/writes-need-none
qp rc
post SEND id=1 at=buf len=4
> SEND_ONLY psn=0
< ACK psn=0 msn=1 credits=0
done SEND id=1
post RDMA_WRITE id=2 at=buf len=4 to=0x1000 rkey=7
post RDMA_WRITE id=3 at=buf len=4 to=0x1000 rkey=7
> WRITE_ONLY psn=1
> WRITE_ONLY psn=2
< ACK psn=2 msn=3
done RDMA_WRITE id=2
done RDMA_WRITE id=3

== acknowledgement-retry/unexpected-response/ack-for-a-read
qp rc
post RDMA_READ id=1 at=buf len=8 to=0x1000 rkey=7
> READ_REQUEST psn=0
< ACK psn=0 msn=1
# No data has come: it may be asked for again, but it is not complete.
>? READ_REQUEST psn=0
quiet
idle
< READ_RESPONSE_ONLY psn=0 data=8*0xaa msn=1
done RDMA_READ id=1
";
