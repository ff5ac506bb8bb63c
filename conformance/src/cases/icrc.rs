//! The CRC at the end of every packet. That frames of the device have a right one is looked at in
//! every script.

use super::book::{book, named};
use crate::case::Case;

/// The cases of the family.
pub(super) fn cases() -> Vec<Case> {
    let mut all = book(SCRIPTS);
    for (variant, packet) in REQUESTS {
        all.push(named(
            &format!("icrc/bad-dropped/{variant}"),
            format!(
                "qp rc
                recv id=1 at=buf+1024 len=64
                < {packet} psn=0 ack icrc=bad
                quiet
                idle
                in RTS
                holds buf 512
                < WRITE_ONLY psn=0 data=4*0xaa ack
                > ACK psn=0 msn=1"
            ),
        ));
    }
    for (variant, bit) in BITS {
        all.push(named(
            &format!("icrc/every-bit/{variant}"),
            format!(
                "qp rc
                < WRITE_ONLY psn=0 data=6*0xaa ack flip={bit}
                quiet
                in RTS
                holds buf 256
                < WRITE_ONLY psn=0 data=4*0xbb ack
                > ACK psn=0 msn=1"
            ),
        ));
    }
    all
}

/// Requests of every kind.
const REQUESTS: [(&str, &str); 7] = [
    ("write", "WRITE_ONLY data=4*0xaa"),
    ("send", "SEND_ONLY data=4*0xaa"),
    ("read", "READ_REQUEST len=4"),
    ("compare-swap", "COMPARE_SWAP swap=1"),
    ("fetch-add", "FETCH_ADD add=1"),
    ("unknown-opcode", "RAW opcode=0x15"),
    ("wrong-key", "WRITE_ONLY rkey=0xdead00 data=4*0xaa"),
];

/// A bit of each field of a WRITE with 6 bytes of data, counted from the base transport header.
const BITS: [(&str, u32); 16] = [
    ("opcode", 0),
    ("solicited", 8 + 7),
    ("migration-request", 8 + 6),
    ("pad-count", 8 + 4),
    ("transport-version", 8),
    ("pkey", 16),
    ("destination", 7 * 8),
    ("acknowledge-request", 8 * 8 + 7),
    ("psn", 11 * 8),
    ("address", 19 * 8),
    ("key", 23 * 8),
    ("length", 27 * 8 + 3),
    ("first-byte-of-data", 28 * 8),
    ("last-byte-of-data", 33 * 8 + 7),
    ("pad", 35 * 8),
    ("icrc", 38 * 8 + 5),
];

const SCRIPTS: &str = r"
== icrc/bth-resv8a-masked/reserved-bit-set-under-way
qp rc
< WRITE_ONLY psn=0 data=4*0xaa ack flip=37
> ACK psn=0 msn=1
holds buf 4*0xaa

== icrc/bth-resv8a-masked/becn-set-under-way
qp rc
< WRITE_ONLY psn=0 data=4*0xaa ack flip=38
> ACK psn=0 msn=1
holds buf 4*0xaa

== icrc/bth-resv8a-masked/fecn-set-under-way
qp rc
< WRITE_ONLY psn=0 data=4*0xaa ack flip=39
> ACK psn=0 msn=1
holds buf 4*0xaa

== icrc/ipv4-masked/marked-under-way
qp rc
< WRITE_ONLY psn=0 data=4*0xaa ack ce
>? CNP becn
> ACK psn=0 msn=1
>? CNP becn
holds buf 4*0xaa

== icrc/bad-dropped/acknowledgement
qp rc
post SEND id=1 at=buf len=4
> SEND_ONLY psn=0
< ACK psn=0 msn=1 icrc=bad
quiet
idle
< ACK psn=0 msn=1
done SEND id=1

== icrc/bad-dropped/negative-acknowledgement
qp rc
post SEND id=1 at=buf len=4
> SEND_ONLY psn=0
< NAK_ACCESS psn=0 icrc=bad
quiet
idle
in RTS
< ACK psn=0 msn=1
done SEND id=1

== icrc/bad-dropped/read-response
qp rc
post RDMA_READ id=1 at=buf len=8 to=0x1000 rkey=7
> READ_REQUEST psn=0
< READ_RESPONSE_ONLY psn=0 data=8*0xaa icrc=bad
quiet
idle
holds buf 8
< READ_RESPONSE_ONLY psn=0 data=8*0xbb
done RDMA_READ id=1
holds buf 8*0xbb

== icrc/bad-dropped/unreliable-datagram
qp ud
recv id=1 at=buf len=128
< SEND_ONLY data=8*0xaa icrc=bad
quiet
idle
< SEND_ONLY data=8*0xbb
done RECV id=1

== icrc/bad-dropped/unreliable-connection
qp uc
recv id=1 at=buf len=128
< SEND_ONLY psn=0 data=8*0xaa icrc=bad
quiet
idle
< SEND_ONLY psn=1 data=8*0xbb
done RECV id=1 len=8

== icrc/bad-dropped/notification
qp rc
< CNP becn icrc=bad
quiet
in RTS

== icrc/covers-whole-datagram/pad
qp rc
post SEND id=1 at=buf len=5
> SEND_ONLY psn=0 pad=3 size=5
< ACK psn=0
done SEND id=1

== icrc/polynomial/long-packet
qp rc mtu=1024
post SEND id=1 at=buf len=1024
> SEND_ONLY psn=0 data=1024
< ACK psn=0
done SEND id=1

== icrc/seed/answers-of-the-responder
qp rc
< READ_REQUEST psn=0 len=300
> READ_RESPONSE_FIRST psn=0 data=256
> READ_RESPONSE_LAST psn=1 data=44
< FETCH_ADD psn=2 add=1
> ATOMIC_ACKNOWLEDGE psn=2
< WRITE_ONLY psn=3 data=4*0xaa ack
> ACK psn=3

== icrc/byte-order/least-significant-first
qp rc
# The ICRC is that of the sender to the bit, or the packet would not arrive: its four bytes are in order.
< WRITE_ONLY psn=0 data=1*0x01 ack
> ACK psn=0 msn=1

== icrc/ipv4-identification-covered/many-packets
qp rc
post RDMA_WRITE id=1 at=buf len=2048 to=0x1000 rkey=7
> WRITE_FIRST psn=0
> WRITE_MIDDLE psn=1
> WRITE_MIDDLE psn=2
> WRITE_MIDDLE psn=3
> WRITE_MIDDLE psn=4
> WRITE_MIDDLE psn=5
> WRITE_MIDDLE psn=6
> WRITE_LAST psn=7
< ACK psn=7
done RDMA_WRITE id=1

== icrc/retransmission/changed-memory
qp rc timeout=14
post SEND id=1 at=buf len=8
> SEND_ONLY psn=0 data=8
store buf 8*0xaa
> SEND_ONLY psn=0 data=8*0xaa
< ACK psn=0
done SEND id=1
";
