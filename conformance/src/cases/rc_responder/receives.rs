//! Receives: which message takes which, what goes where, what is told.

use super::super::book::{book, named};
use crate::case::Case;

pub(super) fn cases() -> Vec<Case> {
    let mut all = book(SCRIPTS);
    for (variant, before, receive) in BAD_MEMORY {
        all.push(named(
            &format!("rc-responder/receive-bad-lkey/{variant}"),
            format!(
                "qp rc
                {before}
                recv id=1 {receive}
                recv id=2 at=buf len=8
                < SEND_ONLY psn=0 data=8*0xaa ack
                > NAK_OPERATION psn=0 msn=0
                in ERR
                done id=1 status=LOC_PROT_ERR
                done id=2 status=WR_FLUSH_ERR
                quiet
                holds buf 64"
            ),
        ));
    }
    all
}

/// Receives whose memory may not be written.
const BAD_MEMORY: [(&str, &str, &str); 6] = [
    ("unknown-key", "", "at=buf len=8 lkey=0xdead00"),
    ("stale-variant", "", "at=buf len=8 lkey=buf+1"),
    ("out-of-range", "", "at=buf+4090 len=8"),
    ("before-the-start", "", "at=buf-4 len=8"),
    ("no-local-write", "region mem rights=r", "at=mem len=8"),
    ("other-domain", "region mem pd=other", "at=mem len=8"),
];

const SCRIPTS: &str = r"
== rc-responder/receive-too-small/one-packet
qp rc
recv id=1 at=buf len=16
recv id=2 at=buf+512 len=16
< SEND_ONLY psn=0 data=32*0xaa ack
> NAK_INVALID psn=0 msn=0
in ERR
done id=1 status=LOC_LEN_ERR
done id=2 status=WR_FLUSH_ERR
quiet
holds buf+16 64:16

== rc-responder/receive-too-small/second-packet
qp rc
recv id=1 at=buf len=300
< SEND_FIRST psn=0 data=256*0xaa ack
> ACK psn=0 msn=0
< SEND_LAST psn=1 data=48*0xbb ack
> NAK_INVALID psn=1 msn=0
in ERR
done id=1 status=LOC_LEN_ERR
quiet
holds buf+300 212:44

== rc-responder/receive-too-small/no-memory-at-all
qp rc
recv id=1
< SEND_ONLY psn=0 data=4*0xaa ack
> NAK_INVALID psn=0
in ERR
done id=1 status=LOC_LEN_ERR

== rc-responder/receive-too-small/by-one-byte
qp rc
recv id=1 at=buf len=7
< SEND_ONLY psn=0 data=8*0xaa ack
> NAK_INVALID psn=0
in ERR
done id=1 status=LOC_LEN_ERR
quiet
holds buf+7 57:7

== rc-responder/receive-too-small/exactly-enough
qp rc
recv id=1 at=buf len=8
< SEND_ONLY psn=0 data=8*0xaa ack
> ACK psn=0 msn=1
done RECV id=1 len=8
holds buf+8 56:8

== rc-responder/receive-too-small/with-immediate
qp rc
recv id=1 at=buf len=4
< SEND_ONLY_WITH_IMMEDIATE psn=0 imm=7 data=8*0xaa ack
> NAK_INVALID psn=0
in ERR
done id=1 status=LOC_LEN_ERR

== rc-responder/send-scatter/three-elements
qp rc
recv id=1 sge=buf:4,buf+64:8,buf+128:16
< SEND_ONLY psn=0 data=20:100 ack
> ACK psn=0
done RECV id=1 len=20
holds buf x64656667
holds buf+4 60:4
holds buf+64 8:104
holds buf+72 56:72
holds buf+128 8:112
holds buf+136 64:136

== rc-responder/send-scatter/elements-out-of-order
qp rc
recv id=1 sge=buf+64:4,buf:4
< SEND_ONLY psn=0 data=8:100 ack
> ACK psn=0
done RECV id=1 len=8
holds buf 4:104
holds buf+64 4:100

== rc-responder/send-scatter/empty-element
qp rc
recv id=1 sge=buf:4,buf+32:0,buf+64:4
< SEND_ONLY psn=0 data=8:100 ack
> ACK psn=0
done RECV id=1 len=8
holds buf 4:100
holds buf+32 4:32
holds buf+64 4:104

== rc-responder/send-scatter/across-packets
qp rc
recv id=1 sge=buf:300,buf+1024:300
< SEND_FIRST psn=0 data=256*0xaa
< SEND_LAST psn=1 data=100*0xbb ack
> ACK psn=1
done RECV id=1 len=356
holds buf 256*0xaa
holds buf+256 44*0xbb
holds buf+300 212:44
holds buf+1024 56*0xbb
holds buf+1080 8:56

== rc-responder/receive-order/three-sends
qp rc
recv id=1 at=buf len=64
recv id=2 at=buf+64 len=64
recv id=3 at=buf+128 len=64
< SEND_ONLY psn=0 data=4*0xaa
< SEND_ONLY psn=1 data=4*0xbb
< SEND_ONLY psn=2 data=4*0xcc ack
> ACK psn=2 msn=3
done RECV id=1 len=4
done RECV id=2 len=4
done RECV id=3 len=4
holds buf 4*0xaa
holds buf+64 4*0xbb
holds buf+128 4*0xcc

== rc-responder/receive-order/write-with-immediate-between
qp rc
recv id=1 at=buf len=64
recv id=2 at=buf+64 len=64
recv id=3 at=buf+128 len=64
< SEND_ONLY psn=0 data=4*0xaa
< WRITE_ONLY_WITH_IMMEDIATE psn=1 va=buf+512 imm=5 data=4*0xbb
< SEND_ONLY psn=2 data=4*0xcc ack
> ACK psn=2 msn=3
done RECV id=1 len=4
done RECV_RDMA_WITH_IMM id=2 len=4 imm=5
done RECV id=3 len=4
holds buf+64 64:64
holds buf+128 4*0xcc

== rc-responder/receive-order/write-between-takes-none
qp rc
recv id=1 at=buf len=64
recv id=2 at=buf+64 len=64
< SEND_ONLY psn=0 data=4*0xaa
< WRITE_ONLY psn=1 va=buf+512 data=4*0xbb
< SEND_ONLY psn=2 data=4*0xcc ack
> ACK psn=2 msn=3
done RECV id=1 len=4
done RECV id=2 len=4

== rc-responder/write-imm-receive/only
qp rc
recv id=1 at=buf+512 len=64
< WRITE_ONLY_WITH_IMMEDIATE psn=0 imm=0x11223344 data=16*0xaa ack
> ACK psn=0 msn=1
done RECV_RDMA_WITH_IMM id=1 len=16 imm=0x11223344 flags=WITH_IMM
holds buf 16*0xaa
holds buf+512 64

== rc-responder/write-imm-receive/last
qp rc
recv id=1
< WRITE_FIRST psn=0 len=300 data=256*0xaa
< WRITE_LAST_WITH_IMMEDIATE psn=1 imm=9 data=44*0xbb ack
> ACK psn=1 msn=1
done RECV_RDMA_WITH_IMM id=1 len=300 imm=9

== rc-responder/write-imm-receive/longer-than-the-receive
qp rc
recv id=1 at=buf+512 len=4
< WRITE_ONLY_WITH_IMMEDIATE psn=0 imm=1 data=64*0xaa ack
> ACK psn=0
done RECV_RDMA_WITH_IMM id=1 len=64

== rc-responder/write-imm-receive/of-nothing
qp rc
recv id=1
< WRITE_ONLY_WITH_IMMEDIATE psn=0 va=0 rkey=0xdead00 imm=3 len=0 ack
> ACK psn=0 msn=1
done RECV_RDMA_WITH_IMM id=1 len=0 imm=3

== rc-responder/write-imm-receive/wrong-key-takes-none
qp rc
recv id=1
< WRITE_ONLY_WITH_IMMEDIATE psn=0 rkey=0xdead00 imm=3 data=4*0xaa ack
> NAK_ACCESS psn=0
in ERR
done id=1 status=WR_FLUSH_ERR

== rc-responder/write-silent/only
qp rc
recv id=1 at=buf len=64
< WRITE_ONLY psn=0 data=16*0xaa ack
> ACK psn=0
quiet
idle
holds buf 16*0xaa

== rc-responder/write-silent/without-acknowledgement
qp rc
< WRITE_ONLY psn=0 data=16*0xaa
holds buf 16*0xaa
quiet
idle

== rc-responder/write-silent/needs-no-receive
qp rc
< WRITE_FIRST psn=0 len=300 data=256*0xaa
< WRITE_LAST psn=1 data=44*0xbb ack
> ACK psn=1 msn=1
idle
holds buf+256 44*0xbb
holds buf+300 212:44
";
