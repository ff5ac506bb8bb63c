//! FLUSH and ATOMIC WRITE (annex A19).

use super::book::book;
use crate::case::Case;

pub(super) fn cases() -> Vec<Case> {
    book(SCRIPTS)
}

const SCRIPTS: &str = r"
== flush-placement/flush-format/range
needs FLUSH_GLOBAL
qp rc
post FLUSH id=1 to=0x1000 rkey=7 len=64
> FLUSH psn=0 va=0x1000 rkey=7 len=64 placement=1 selectivity=0 size=0 pad=0 ack
< READ_RESPONSE_ONLY psn=0
done FLUSH id=1

== flush-placement/flush-format/region
needs FLUSH_GLOBAL
qp rc
post FLUSH id=1 to=0 rkey=7 len=0 selectivity=region
> FLUSH psn=0 rkey=7 placement=1 selectivity=1 size=0 ack
< READ_RESPONSE_ONLY psn=0
done FLUSH id=1

== flush-placement/flush-response/of-no-bytes
needs FLUSH_GLOBAL
qp rc rights=wraf
region mem len=64 rights=lwraf
< FLUSH psn=0 va=mem rkey=mem len=64
> READ_RESPONSE_ONLY psn=0 size=0 msn=1

== flush-placement/flush-response/too-long-for-the-requester
needs FLUSH_GLOBAL
qp rc
post FLUSH id=1 to=0x1000 rkey=7 len=64
> FLUSH psn=0
< READ_RESPONSE_ONLY psn=0 data=4
done id=1 status=BAD_RESP_ERR
in ERR

== flush-placement/flush-after-writes/write-before
needs FLUSH_GLOBAL
qp rc rights=wraf
region mem len=1024 rights=lwraf
< WRITE_FIRST psn=0 va=mem rkey=mem len=300 data=256*0xaa
< WRITE_LAST psn=1 data=44*0xaa
< FLUSH psn=2 va=mem rkey=mem len=300
> READ_RESPONSE_ONLY psn=2 size=0
holds mem 300*0xaa

== flush-placement/flush-after-writes/write-missing
needs FLUSH_GLOBAL
qp rc rights=wraf
region mem len=1024 rights=lwraf
# The WRITE before it was lost.
< FLUSH psn=1 va=mem rkey=mem len=8
> NAK_PSN psn=0
in RTS

== flush-placement/flush-key-checked/length-0
needs FLUSH_GLOBAL
qp rc rights=wraf
< FLUSH psn=0 va=0 rkey=0xdead00 len=0
> NAK_ACCESS psn=0
in ERR

== flush-placement/flush-range/past-the-end
needs FLUSH_GLOBAL
qp rc rights=wraf
region mem len=64 rights=lwraf
< FLUSH psn=0 va=mem+32 rkey=mem len=33
> NAK_ACCESS psn=0
in ERR

== flush-placement/flush-range/length-0-at-the-end
needs FLUSH_GLOBAL
qp rc rights=wraf
region mem len=64 rights=lwraf
< FLUSH psn=0 va=mem+64 rkey=mem len=0
> READ_RESPONSE_ONLY psn=0 size=0

== flush-placement/flush-region/range-not-looked-at
needs FLUSH_GLOBAL
qp rc rights=wraf
region mem len=64 rights=lwraf
< FLUSH psn=0 va=0xffffffffffffffff rkey=mem len=0xffffffff selectivity=1
> READ_RESPONSE_ONLY psn=0 size=0

== flush-placement/flush-region/unknown-key
needs FLUSH_GLOBAL
qp rc rights=wraf
< FLUSH psn=0 va=0 rkey=0xdead00 len=0 selectivity=1
> NAK_ACCESS psn=0
in ERR

== flush-placement/flush-selectivity-reserved/2
needs FLUSH_GLOBAL
qp rc rights=wraf
region mem len=64 rights=lwraf
< FLUSH psn=0 va=mem rkey=mem len=8 selectivity=2
> NAK_INVALID psn=0
in ERR

== flush-placement/flush-selectivity-reserved/3
needs FLUSH_GLOBAL
qp rc rights=wraf
region mem len=64 rights=lwraf
< FLUSH psn=0 va=mem rkey=mem len=8 selectivity=3
> NAK_INVALID psn=0
in ERR

== flush-placement/flush-placement-none/arrives
needs FLUSH_GLOBAL
qp rc rights=wraf
region mem len=64 rights=lwraf
< FLUSH psn=0 va=mem rkey=mem len=8 placement=0
> NAK_INVALID psn=0
in ERR

== flush-placement/flush-placement-none/posted
needs FLUSH_GLOBAL
qp rc
refused EINVAL post FLUSH id=1 to=0 rkey=7 len=8 placement=0

== flush-placement/flush-qp-right/without
needs FLUSH_GLOBAL
qp rc rights=wra
region mem len=64 rights=lwraf
< FLUSH psn=0 va=mem rkey=mem len=8
> NAK_INVALID psn=0
in ERR

== flush-placement/flush-region-right/without
needs FLUSH_GLOBAL
qp rc rights=wraf
region mem len=64 rights=lwra
< FLUSH psn=0 va=mem rkey=mem len=8
> NAK_ACCESS psn=0
in ERR

== flush-placement/flush-region-right/whole-region-without
needs FLUSH_GLOBAL
qp rc rights=wraf
region mem len=64 rights=lwra
< FLUSH psn=0 va=mem rkey=mem len=8 selectivity=1
> NAK_ACCESS psn=0
in ERR

== flush-placement/flush-unsupported/persistent
needs FLUSH_GLOBAL
qp rc rights=wraf
region mem len=64 rights=lwraf
< FLUSH psn=0 va=mem rkey=mem len=8 placement=2
> NAK_INVALID psn=0
in ERR

== flush-placement/flush-duplicate/answered-again
needs FLUSH_GLOBAL
qp rc rights=wraf
region mem len=64 rights=lwraf
< FLUSH psn=0 va=mem rkey=mem len=8
> READ_RESPONSE_ONLY psn=0 size=0
< FLUSH psn=0 va=mem rkey=mem len=8
> READ_RESPONSE_ONLY psn=0 size=0
< WRITE_ONLY psn=1 va=mem rkey=mem data=8 ack
> ACK psn=1

== flush-placement/flush-duplicate/of-another-key
needs FLUSH_GLOBAL
qp rc rights=wraf
region mem len=64 rights=lwraf
< FLUSH psn=0 va=mem rkey=mem len=8
> READ_RESPONSE_ONLY psn=0 size=0
< FLUSH psn=0 va=mem rkey=0xdead00 len=8
quiet
in RTS

== flush-placement/atomic-write-format/requester
needs ATOMIC_WRITE
qp rc
post ATOMIC_WRITE id=1 at=buf+8 len=8 to=0x1000 rkey=7
> ATOMIC_WRITE psn=0 va=0x1000 rkey=7 len=8 data=8:8 ack
< READ_RESPONSE_ONLY psn=0
done ATOMIC_WRITE id=1

== flush-placement/atomic-write-format/responder
needs ATOMIC_WRITE
qp rc
< ATOMIC_WRITE psn=0 va=buf+8 rkey=buf data=8*0xaa
> READ_RESPONSE_ONLY psn=0 size=0 msn=1
holds buf+8 8*0xaa

== flush-placement/atomic-write-length/4-bytes
needs ATOMIC_WRITE
qp rc
< ATOMIC_WRITE psn=0 va=buf rkey=buf data=4*0xaa
> NAK_INVALID psn=0
holds buf 64
in ERR

== flush-placement/atomic-write-length/16-bytes
needs ATOMIC_WRITE
qp rc
< ATOMIC_WRITE psn=0 va=buf rkey=buf data=16*0xaa
> NAK_INVALID psn=0
holds buf 64
in ERR

== flush-placement/atomic-write-length/no-bytes
needs ATOMIC_WRITE
qp rc
< ATOMIC_WRITE psn=0 va=buf rkey=buf len=8
> NAK_INVALID psn=0
holds buf 64
in ERR

== flush-placement/atomic-write-length/header-says-otherwise
needs ATOMIC_WRITE
qp rc
< ATOMIC_WRITE psn=0 va=buf rkey=buf len=16 data=8*0xaa
> NAK_INVALID psn=0
holds buf 64
in ERR

== flush-placement/atomic-write-length/posted
needs ATOMIC_WRITE
qp rc
refused EINVAL post ATOMIC_WRITE id=1 at=buf len=4 to=0x1000 rkey=7

== flush-placement/atomic-write-aligned/odd-address
needs ATOMIC_WRITE
qp rc
< ATOMIC_WRITE psn=0 va=buf+4 rkey=buf data=8*0xaa
> NAK_INVALID psn=0
holds buf 64
in ERR

== flush-placement/atomic-write-right/queue-pair-without
needs ATOMIC_WRITE
qp rc rights=ra
< ATOMIC_WRITE psn=0 va=buf rkey=buf data=8*0xaa
> NAK_INVALID psn=0
holds buf 64

== flush-placement/atomic-write-right/region-without
needs ATOMIC_WRITE
qp rc
region mem len=64 rights=lra
< ATOMIC_WRITE psn=0 va=mem rkey=mem data=8*0xaa
> NAK_ACCESS psn=0
holds mem 64

== flush-placement/atomic-write-duplicate/not-written-again
needs ATOMIC_WRITE
qp rc
< ATOMIC_WRITE psn=0 va=buf rkey=buf data=8*0xaa
> READ_RESPONSE_ONLY psn=0 size=0
store buf 8*0x55
< ATOMIC_WRITE psn=0 va=buf rkey=buf data=8*0xaa
> READ_RESPONSE_ONLY psn=0 size=0
holds buf 8*0x55

== flush-placement/count-as-reads/requester
needs FLUSH_GLOBAL
qp rc reads=1
post FLUSH id=1 to=0 rkey=7 len=8
post FLUSH id=2 to=8 rkey=7 len=8
> FLUSH psn=0 va=0
quiet
< READ_RESPONSE_ONLY psn=0
done FLUSH id=1
> FLUSH psn=1 va=8
< READ_RESPONSE_ONLY psn=1
done FLUSH id=2

== flush-placement/count-as-reads/atomic-write-behind-a-read
needs ATOMIC_WRITE
qp rc reads=1
post RDMA_READ id=1 at=buf len=8 to=0 rkey=7
post ATOMIC_WRITE id=2 at=buf+8 len=8 to=8 rkey=7
> READ_REQUEST psn=0
quiet
< READ_RESPONSE_ONLY psn=0 data=8
done RDMA_READ id=1
> ATOMIC_WRITE psn=1
< READ_RESPONSE_ONLY psn=1
done ATOMIC_WRITE id=2

== flush-placement/count-as-reads/responder-without-depth
needs FLUSH_GLOBAL
qp rc rights=wraf depth=0
region mem len=64 rights=lwraf
< FLUSH psn=0 va=mem rkey=mem len=8
> NAK_INVALID psn=0
in ERR

== flush-placement/count-as-reads/no-depth-at-all
needs ATOMIC_WRITE
qp rc reads=0
post ATOMIC_WRITE id=1 at=buf len=8 to=8 rkey=7
done id=1 status=LOC_QP_OP_ERR
in ERR
quiet
";
