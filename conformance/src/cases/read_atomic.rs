//! READ and atomics, at both ends.

use super::book::{book, named};
use crate::case::Case;

/// The cases of the family.
pub(super) fn cases() -> Vec<Case> {
    let mut all = book(SCRIPTS);
    for (rule, variant, response) in WRONG_RESPONSES {
        all.push(named(
            &format!("read-atomic/{rule}/{variant}"),
            format!(
                "qp rc
                post RDMA_READ id=1 at=buf len=300 to=0x1000 rkey=7
                post SEND id=2 at=buf len=4
                > READ_REQUEST psn=0
                > SEND_ONLY psn=2
                {response}
                done id=1 status=BAD_RESP_ERR
                done id=2 status=WR_FLUSH_ERR
                in ERR
                quiet
                holds buf+300 212:44"
            ),
        ));
    }
    all.extend(no_acknowledgements());
    for (variant, post) in [
        ("read-without-local-write", "RDMA_READ at=mem len=8"),
        ("compare-swap-without-local-write", "COMP_SWAP at=mem len=8"),
        ("fetch-add-without-local-write", "FETCH_ADD at=mem len=8"),
    ] {
        all.push(named(
            &format!("read-atomic/read-local-right/{variant}"),
            format!(
                "qp rc
                region mem rights=r
                post {post} id=1 to=0x1000 rkey=7
                done id=1 status=LOC_PROT_ERR
                in ERR
                quiet
                holds mem 64"
            ),
        ));
    }
    for offset in [1, 2, 4, 7] {
        for (variant, packet) in
            [("compare-swap", "COMPARE_SWAP swap=1"), ("fetch-add", "FETCH_ADD add=1")]
        {
            all.push(named(
                &format!("read-atomic/atomic-aligned/{variant}-by-{offset}"),
                format!(
                    "qp rc
                    < {packet} psn=0 va=buf+{offset}
                    > NAK_INVALID psn=0 msn=0
                    in ERR
                    event QP_REQ_ERR
                    holds buf 64"
                ),
            ));
        }
    }
    for (variant, request) in OTHER_DUPLICATES {
        all.push(named(
            &format!("read-atomic/read-duplicate-invalid/{variant}"),
            format!(
                "qp rc
                region mem len=1024
                < READ_REQUEST psn=0 len=600
                > READ_RESPONSE_FIRST psn=0
                > READ_RESPONSE_MIDDLE psn=1
                > READ_RESPONSE_LAST psn=2
                < {request}
                quiet
                in RTS
                < WRITE_ONLY psn=3 data=4*0xaa ack
                > ACK psn=3"
            ),
        ));
    }
    all
}

/// Responses with data that acknowledge nothing.
fn no_acknowledgements() -> Vec<Case> {
    let mut all = Vec::new();
    for (variant, syndrome) in NO_ACKNOWLEDGEMENTS {
        for (kind, post, request, response) in [
            (
                "read",
                "RDMA_READ id=1 at=buf len=8",
                "READ_REQUEST",
                "READ_RESPONSE_ONLY data=8*0xaa",
            ),
            (
                "read-first",
                "RDMA_READ id=1 at=buf len=300",
                "READ_REQUEST",
                "READ_RESPONSE_FIRST data=256*0xaa",
            ),
            ("fetch-add", "FETCH_ADD id=1 at=buf len=8", "FETCH_ADD", "ATOMIC_ACKNOWLEDGE orig=5"),
            (
                "compare-swap",
                "COMP_SWAP id=1 at=buf len=8",
                "COMPARE_SWAP",
                "ATOMIC_ACKNOWLEDGE orig=5",
            ),
        ] {
            all.push(named(
                &format!("read-atomic/response-acknowledges/{kind}-{variant}"),
                format!(
                    "qp rc
                    post {post} to=0x1000 rkey=7
                    > {request} psn=0
                    < {response} psn=0 syndrome={syndrome}
                    done id=1 status=BAD_RESP_ERR
                    in ERR
                    quiet
                    holds buf 300"
                ),
            ));
        }
    }
    all
}

/// Responses to a READ of 300 bytes in two packets that are not as they must be.
const WRONG_RESPONSES: [(&str, &str, &str); 9] = [
    ("read-response-length", "first-short", "< READ_RESPONSE_FIRST psn=0 data=252*0xaa"),
    ("read-response-length", "first-long", "< READ_RESPONSE_FIRST psn=0 data=260*0xaa"),
    ("read-response-length", "first-empty", "< READ_RESPONSE_FIRST psn=0"),
    (
        "read-response-length",
        "last-long",
        "< READ_RESPONSE_FIRST psn=0 data=256*0xaa\n< READ_RESPONSE_LAST psn=1 data=48*0xbb",
    ),
    (
        "read-response-length",
        "last-short",
        "< READ_RESPONSE_FIRST psn=0 data=256*0xaa\n< READ_RESPONSE_LAST psn=1 data=40*0xbb",
    ),
    ("read-response-place", "only-for-first", "< READ_RESPONSE_ONLY psn=0 data=256*0xaa"),
    ("read-response-place", "last-for-first", "< READ_RESPONSE_LAST psn=0 data=256*0xaa"),
    ("read-response-place", "middle-for-first", "< READ_RESPONSE_MIDDLE psn=0 data=256*0xaa"),
    (
        "read-response-place",
        "middle-for-last",
        "< READ_RESPONSE_FIRST psn=0 data=256*0xaa\n< READ_RESPONSE_MIDDLE psn=1 data=44*0xbb",
    ),
];

/// Syndromes that acknowledge nothing.
const NO_ACKNOWLEDGEMENTS: [(&str, &str); 4] =
    [("rnr-nak", "0x2c"), ("psn-nak", "0x60"), ("access-nak", "0x62"), ("reserved", "0x40")];

/// Requests with the number of a READ of 600 bytes that are not that READ.
const OTHER_DUPLICATES: [(&str, &str); 6] = [
    ("longer", "READ_REQUEST psn=0 len=604"),
    ("other-address", "READ_REQUEST psn=0 va=buf+4 len=600"),
    ("other-key", "READ_REQUEST psn=0 va=mem rkey=mem len=600"),
    ("unknown-key", "READ_REQUEST psn=0 rkey=0xdead00 len=600"),
    ("rest-too-long", "READ_REQUEST psn=1 va=buf+256 len=600"),
    ("never-made", "READ_REQUEST psn=-5 len=4"),
];

const SCRIPTS: &str = r"
== read-atomic/read-response-format/one-packet
qp rc
< READ_REQUEST psn=0 len=100
> READ_RESPONSE_ONLY psn=0 data=100 msn=1
quiet

== read-atomic/read-response-format/exactly-one-packet
qp rc
< READ_REQUEST psn=0 len=256
> READ_RESPONSE_ONLY psn=0 data=256

== read-atomic/read-response-format/two-packets
qp rc
< READ_REQUEST psn=0 len=257
> READ_RESPONSE_FIRST psn=0 data=256 msn=1
> READ_RESPONSE_LAST psn=1 data=1:0 msn=1

== read-atomic/read-response-format/four-packets
qp rc
< READ_REQUEST psn=0 len=1024
> READ_RESPONSE_FIRST psn=0 data=256
> READ_RESPONSE_MIDDLE psn=1 data=256
> READ_RESPONSE_MIDDLE psn=2 data=256
> READ_RESPONSE_LAST psn=3 data=256

== read-atomic/read-response-format/odd-length
qp rc
< READ_REQUEST psn=0 va=buf+3 len=5
> READ_RESPONSE_ONLY psn=0 data=5:3 pad=3

== read-atomic/read-response-psn/behind-a-write
qp rc
< WRITE_ONLY psn=0 va=buf+2048 data=4*0xaa
< READ_REQUEST psn=1 len=512
> READ_RESPONSE_FIRST psn=1
> READ_RESPONSE_LAST psn=2
< READ_REQUEST psn=3 len=4
> READ_RESPONSE_ONLY psn=3 msn=3

== read-atomic/read-zero-length/good-key
qp rc
< READ_REQUEST psn=0 len=0
> READ_RESPONSE_ONLY psn=0 size=0 pad=0 msn=1

== read-atomic/read-zero-length/junk-key
qp rc
< READ_REQUEST psn=0 va=0xffffffffffffffff rkey=0xdeadbeef len=0
> READ_RESPONSE_ONLY psn=0 size=0 msn=1
in RTS

== read-atomic/write-zero-length/good-key
qp rc
< WRITE_ONLY psn=0 len=0 ack
> ACK psn=0 msn=1

== read-atomic/write-zero-length/junk-key
qp rc
< WRITE_ONLY psn=0 va=0xffffffffffffffff rkey=0xdeadbeef len=0 ack
> ACK psn=0 msn=1
in RTS

== read-atomic/write-zero-length/junk-key-with-immediate
qp rc
recv id=1
< WRITE_ONLY_WITH_IMMEDIATE psn=0 va=1 rkey=0xdeadbeef len=0 imm=5 ack
> ACK psn=0 msn=1
done RECV_RDMA_WITH_IMM id=1 imm=5 len=0

== read-atomic/read-rights-again/duplicate-after-deregistration
qp rc
region mem len=64
< READ_REQUEST psn=0 va=mem rkey=mem len=8
> READ_RESPONSE_ONLY psn=0
dereg mem
# It was answered once; now nothing may be read, and nothing is.
< READ_REQUEST psn=0 va=mem rkey=mem len=8
quiet

== read-atomic/read-current-bytes/read-again
qp rc
< READ_REQUEST psn=0 len=8
> READ_RESPONSE_ONLY psn=0 data=8
store buf 8*0xaa
< READ_REQUEST psn=1 len=8
> READ_RESPONSE_ONLY psn=1 data=8*0xaa

== read-atomic/read-current-bytes/duplicate
qp rc
< READ_REQUEST psn=0 len=8
> READ_RESPONSE_ONLY psn=0 data=8
store buf 8*0xaa
< READ_REQUEST psn=0 len=8
> READ_RESPONSE_ONLY psn=0 data=8*0xaa

== read-atomic/read-duplicate-again/whole
qp rc
< READ_REQUEST psn=0 len=512
> READ_RESPONSE_FIRST psn=0
> READ_RESPONSE_LAST psn=1
< READ_REQUEST psn=0 len=512
> READ_RESPONSE_FIRST psn=0 data=256
> READ_RESPONSE_LAST psn=1 data=256
< WRITE_ONLY psn=2 data=4*0xaa ack
> ACK psn=2 msn=2

== read-atomic/read-duplicate-again/second-part
qp rc
< READ_REQUEST psn=0 len=600
> READ_RESPONSE_FIRST psn=0
> READ_RESPONSE_MIDDLE psn=1
> READ_RESPONSE_LAST psn=2
< READ_REQUEST psn=1 va=buf+256 len=344
> READ_RESPONSE_FIRST psn=1 data=256
> READ_RESPONSE_LAST psn=2 data=88

== read-atomic/read-duplicate-again/last-packet
qp rc
< READ_REQUEST psn=0 len=600
> READ_RESPONSE_FIRST psn=0
> READ_RESPONSE_MIDDLE psn=1
> READ_RESPONSE_LAST psn=2
< READ_REQUEST psn=2 va=buf+512 len=88
> READ_RESPONSE_ONLY psn=2 data=88

== read-atomic/read-duplicate-again/behind-a-write
qp rc
< READ_REQUEST psn=0 va=buf+64 len=8
> READ_RESPONSE_ONLY psn=0 data=8:64
< WRITE_ONLY psn=1 data=4*0xaa ack
> ACK psn=1 msn=2
< READ_REQUEST psn=0 va=buf+64 len=8
> READ_RESPONSE_ONLY psn=0 data=8:64

== read-atomic/read-local-range/scattered
qp rc
post RDMA_READ id=1 sge=buf:4,buf+64:8,buf+128:4 to=0x1000 rkey=7
> READ_REQUEST psn=0 len=16
< READ_RESPONSE_ONLY psn=0 data=16:100 msn=1
done RDMA_READ id=1 len=16
holds buf 4:100
holds buf+4 60:4
holds buf+64 8:104
holds buf+72 8:72
holds buf+128 4:112
holds buf+132 8:132

== read-atomic/read-local-range/many-packets
qp rc
post RDMA_READ id=1 at=buf+8 len=600 to=0x1000 rkey=7
> READ_REQUEST psn=0 len=600
< READ_RESPONSE_FIRST psn=0 data=256*0xaa msn=1
< READ_RESPONSE_MIDDLE psn=1 data=256*0xbb
< READ_RESPONSE_LAST psn=2 data=88*0xcc msn=1
done RDMA_READ id=1 len=600
holds buf 8
holds buf+8 256*0xaa
holds buf+264 256*0xbb
holds buf+520 88*0xcc
holds buf+608 32:96

== read-atomic/read-resumes/after-silence
qp rc timeout=14
post RDMA_READ id=1 at=buf len=600 to=0x1000 rkey=7
> READ_REQUEST psn=0 len=600
< READ_RESPONSE_FIRST psn=0 data=256*0xaa msn=1
> READ_REQUEST psn=1 va=0x1100 rkey=7 len=344
< READ_RESPONSE_FIRST psn=1 data=256*0xbb msn=1
< READ_RESPONSE_LAST psn=2 data=88*0xcc msn=1
done RDMA_READ id=1 len=600
holds buf+256 256*0xbb

== read-atomic/read-resumes/gap-in-the-responses
qp rc
post RDMA_READ id=1 at=buf len=600 to=0x1000 rkey=7
> READ_REQUEST psn=0 len=600
< READ_RESPONSE_FIRST psn=0 data=256*0xaa msn=1
# The second is lost.
< READ_RESPONSE_LAST psn=2 data=88*0xcc msn=1
> READ_REQUEST psn=1 va=0x1100 rkey=7 len=344
< READ_RESPONSE_FIRST psn=1 data=256*0xbb msn=1
< READ_RESPONSE_LAST psn=2 data=88*0xcc msn=1
done RDMA_READ id=1 len=600

== read-atomic/atomic-operand/too-short
qp rc
refused EINVAL post FETCH_ADD id=1 at=buf len=4 to=0x1000 rkey=7
quiet

== read-atomic/atomic-operand/too-long
qp rc
refused EINVAL post COMP_SWAP id=1 at=buf len=16 to=0x1000 rkey=7
quiet

== read-atomic/atomic-operand/result-in-two-elements
qp rc
post FETCH_ADD id=1 sge=buf:4,buf+64:4 to=0x1000 rkey=7 swap=1
> FETCH_ADD psn=0
< ATOMIC_ACKNOWLEDGE psn=0 orig=0x0102030405060708 msn=1
done FETCH_ADD id=1 len=8
holds buf x08070605
holds buf+64 x04030201

== read-atomic/atomic-byte-order/fetch-add
qp rc
store buf x0100000000000000
< FETCH_ADD psn=0 add=0x0100
> ATOMIC_ACKNOWLEDGE psn=0 orig=1
holds buf x0101000000000000

== read-atomic/atomic-byte-order/result
qp rc
post FETCH_ADD id=1 at=buf len=8 to=0x1000 rkey=7 swap=0x0a0b
> FETCH_ADD psn=0 add=0x0a0b
< ATOMIC_ACKNOWLEDGE psn=0 orig=0x1122334455667788 msn=1
done FETCH_ADD id=1
holds buf x8877665544332211

== read-atomic/compare-swap/matches
qp rc
store buf x0500000000000000
< COMPARE_SWAP psn=0 compare=5 swap=9
> ATOMIC_ACKNOWLEDGE psn=0 orig=5 msn=1
holds buf x0900000000000000

== read-atomic/compare-swap/does-not-match
qp rc
store buf x0500000000000000
< COMPARE_SWAP psn=0 compare=6 swap=9
> ATOMIC_ACKNOWLEDGE psn=0 orig=5 msn=1
quiet
holds buf x0500000000000000

== read-atomic/compare-swap/all-bits-compared
qp rc
store buf x0500000000000080
< COMPARE_SWAP psn=0 compare=5 swap=9
> ATOMIC_ACKNOWLEDGE psn=0 orig=0x8000000000000005
quiet
holds buf x0500000000000080

== read-atomic/compare-swap/sent
qp rc
post COMP_SWAP id=1 at=buf len=8 to=0x1000 rkey=0x77 compare=5 swap=9
> COMPARE_SWAP psn=0 va=0x1000 rkey=0x77 compare=5 swap=9 ack
< ATOMIC_ACKNOWLEDGE psn=0 orig=7 msn=1
done COMP_SWAP id=1 len=8
holds buf x0700000000000000

== read-atomic/fetch-add/adds
qp rc
store buf x0500000000000000
< FETCH_ADD psn=0 add=3
> ATOMIC_ACKNOWLEDGE psn=0 orig=5
< FETCH_ADD psn=1 add=4
> ATOMIC_ACKNOWLEDGE psn=1 orig=8
holds buf x0c00000000000000

== read-atomic/fetch-add/wraps
qp rc
store buf xffffffffffffffff
< FETCH_ADD psn=0 add=2
> ATOMIC_ACKNOWLEDGE psn=0 orig=0xffffffffffffffff
holds buf x0100000000000000

== read-atomic/fetch-add/of-nothing
qp rc
store buf x0500000000000000
< FETCH_ADD psn=0 add=0
> ATOMIC_ACKNOWLEDGE psn=0 orig=5
holds buf x0500000000000000

== read-atomic/atomic-aligned/aligned-within-the-region
qp rc
store buf+8 x0500000000000000
< FETCH_ADD psn=0 va=buf+8 add=3
> ATOMIC_ACKNOWLEDGE psn=0 orig=5
in RTS

== read-atomic/atomic-once/fetch-add
qp rc
store buf x0500000000000000
< FETCH_ADD psn=0 add=3
> ATOMIC_ACKNOWLEDGE psn=0 orig=5 msn=1
< FETCH_ADD psn=0 add=3
> ATOMIC_ACKNOWLEDGE psn=0 orig=5 msn=1
quiet
holds buf x0800000000000000

== read-atomic/atomic-once/compare-swap
qp rc
store buf x0500000000000000
< COMPARE_SWAP psn=0 compare=5 swap=6
> ATOMIC_ACKNOWLEDGE psn=0 orig=5
store buf x0500000000000000
< COMPARE_SWAP psn=0 compare=5 swap=6
> ATOMIC_ACKNOWLEDGE psn=0 orig=5
quiet
holds buf x0500000000000000

== read-atomic/atomic-once/memory-has-gone
qp rc
region mem len=64
store mem x0500000000000000
< FETCH_ADD psn=0 va=mem rkey=mem add=3
> ATOMIC_ACKNOWLEDGE psn=0 orig=5
dereg mem
< FETCH_ADD psn=0 va=mem rkey=mem add=3
> ATOMIC_ACKNOWLEDGE psn=0 orig=5
in RTS

== read-atomic/atomic-once/behind-others
qp rc depth=4
store buf x0000000000000000
< FETCH_ADD psn=0 add=1
> ATOMIC_ACKNOWLEDGE psn=0 orig=0
< FETCH_ADD psn=1 add=1
> ATOMIC_ACKNOWLEDGE psn=1 orig=1
< FETCH_ADD psn=2 add=1
> ATOMIC_ACKNOWLEDGE psn=2 orig=2
< FETCH_ADD psn=0 add=1
> ATOMIC_ACKNOWLEDGE psn=0 orig=0
< FETCH_ADD psn=1 add=1
> ATOMIC_ACKNOWLEDGE psn=1 orig=1
quiet
holds buf x0300000000000000

== read-atomic/atomic-duplicate-forgotten/dropped
qp rc depth=1
store buf x0000000000000000
< FETCH_ADD psn=0 add=1
> ATOMIC_ACKNOWLEDGE psn=0 orig=0
< FETCH_ADD psn=1 add=1
> ATOMIC_ACKNOWLEDGE psn=1 orig=1
< FETCH_ADD psn=0 add=1
quiet
holds buf x0200000000000000
in RTS

== read-atomic/atomic-duplicate-forgotten/never-made
qp rc
< FETCH_ADD psn=-3 add=1
quiet
holds buf 8
in RTS

== read-atomic/atomic-response-format/fields
qp rc
store buf x0807060504030201
< FETCH_ADD psn=0 add=1
> ATOMIC_ACKNOWLEDGE psn=0 orig=0x0102030405060708 msn=1 size=0 pad=0

== read-atomic/remembered-depth/four-atomics
qp rc depth=4
store buf x0000000000000000
< FETCH_ADD psn=0 add=1
> ATOMIC_ACKNOWLEDGE psn=0 orig=0
< FETCH_ADD psn=1 add=1
> ATOMIC_ACKNOWLEDGE psn=1 orig=1
< FETCH_ADD psn=2 add=1
> ATOMIC_ACKNOWLEDGE psn=2 orig=2
< FETCH_ADD psn=3 add=1
> ATOMIC_ACKNOWLEDGE psn=3 orig=3
< FETCH_ADD psn=0 add=1
> ATOMIC_ACKNOWLEDGE psn=0 orig=0
< FETCH_ADD psn=3 add=1
> ATOMIC_ACKNOWLEDGE psn=3 orig=3

== read-atomic/remembered-depth/writes-between-do-not-count
qp rc depth=1
store buf x0000000000000000
< FETCH_ADD psn=0 add=1
> ATOMIC_ACKNOWLEDGE psn=0 orig=0
< WRITE_ONLY psn=1 va=buf+64 data=4*0xaa ack
> ACK psn=1
< WRITE_ONLY psn=2 va=buf+64 data=4*0xaa ack
> ACK psn=2
< FETCH_ADD psn=0 add=1
> ATOMIC_ACKNOWLEDGE psn=0 orig=0

== read-atomic/ordered-with-writes/read-sees-the-write-before-it
qp rc
< WRITE_ONLY psn=0 data=8*0xaa
< READ_REQUEST psn=1 len=8
> READ_RESPONSE_ONLY psn=1 data=8*0xaa msn=2

== read-atomic/ordered-with-writes/atomic-sees-the-write-before-it
qp rc
< WRITE_ONLY psn=0 data=x0500000000000000
< FETCH_ADD psn=1 add=1
> ATOMIC_ACKNOWLEDGE psn=1 orig=5 msn=2

== read-atomic/ordered-with-writes/read-sees-the-send-before-it
qp rc
recv id=1 at=buf len=8
< SEND_ONLY psn=0 data=8*0xaa
< READ_REQUEST psn=1 len=8
> READ_RESPONSE_ONLY psn=1 data=8*0xaa msn=2
done RECV id=1

== read-atomic/atomic-atomic/two-queue-pairs
qp rc
qp rc name=other
store buf x0000000000000000
< FETCH_ADD psn=0 add=1
> ATOMIC_ACKNOWLEDGE psn=0 orig=0
< FETCH_ADD psn=0 qp=other add=1
> ATOMIC_ACKNOWLEDGE psn=0 qp=other orig=1
< FETCH_ADD psn=1 add=1
> ATOMIC_ACKNOWLEDGE psn=1 orig=2
holds buf x0300000000000000
";
