//! Marks of the network and notifications. What a requester does about them, and how often a responder
//! sends them, is a matter of microseconds and tested where time is virtual.

use super::book::book;
use crate::case::Case;

pub(super) fn cases() -> Vec<Case> {
    book(SCRIPTS)
}

const SCRIPTS: &str = r"
== congestion/mark-makes-cnp/rc
qp rc
< WRITE_ONLY psn=0 va=buf rkey=buf data=8*0xaa ce
> CNP
holds buf 8*0xaa

== congestion/mark-makes-cnp/uc
qp uc
< WRITE_ONLY psn=0 va=buf rkey=buf data=8*0xaa ce
> CNP
holds buf 8*0xaa

== congestion/mark-makes-cnp/no-mark
qp rc
< WRITE_ONLY psn=0 va=buf rkey=buf data=8*0xaa
holds buf 8*0xaa
quiet

== congestion/mark-makes-cnp/invalid-packet
qp rc
< WRITE_ONLY psn=0 va=buf rkey=buf data=8*0xaa ce pkey=0x8001
quiet
holds buf 64

== congestion/cnp-format/fields
qp rc psn=0x4711
< WRITE_ONLY psn=0 va=buf rkey=buf data=8*0xaa ce
> CNP psn=abs:0 no-se no-mig no-ack pad=0 data=16*0

== congestion/mark-not-an-error/carried-out
qp rc
< WRITE_ONLY psn=0 va=buf rkey=buf data=8*0xaa ce ack
>? CNP
> ACK psn=0
>? CNP
holds buf 8*0xaa
in RTS

== congestion/cnp-no-answer/received
qp rc
< CNP psn=abs:0
quiet
in RTS
< WRITE_ONLY psn=0 va=buf rkey=buf data=8*0xaa ack
> ACK psn=0

== congestion/cnp-no-answer/while-waiting
qp rc
post SEND id=1 at=buf len=8
> SEND_ONLY psn=0
< CNP psn=abs:0
quiet
idle
< ACK psn=0
done SEND id=1

== congestion/cnp-source/stranger
qp rc
< CNP psn=abs:0 from=stranger
quiet
in RTS

== congestion/cnp-source/wrong-pkey
qp rc
< CNP psn=abs:0 pkey=0x8001
quiet
in RTS

== congestion/ud-mark-counted/received
qp ud
recv id=1 at=buf len=100
< SEND_ONLY data=8*0xaa ce
done RECV id=1 len=48
quiet

== congestion/mark-makes-cnp/acknowledgement
qp rc
post SEND id=1 at=buf len=4
> SEND_ONLY psn=0
< ACK psn=0 msn=1 ce
> CNP becn
done SEND id=1

== congestion/mark-makes-cnp/read-response
qp rc
post RDMA_READ id=1 at=buf len=8 to=0x1000 rkey=7
> READ_REQUEST psn=0
< READ_RESPONSE_ONLY psn=0 data=8*0xaa msn=1 ce
> CNP becn
done RDMA_READ id=1

== congestion/mark-makes-cnp/not-of-a-stranger
qp rc
< WRITE_ONLY psn=0 data=4*0xaa ack ce from=stranger
quiet

== congestion/mark-makes-cnp/not-with-a-wrong-icrc
qp rc
< WRITE_ONLY psn=0 data=4*0xaa ack ce icrc=bad
quiet

== congestion/cnp-rate/one-for-many
qp rc
< WRITE_ONLY psn=0 data=4*0xaa ce
> CNP becn
< WRITE_ONLY psn=1 data=4*0xaa ce
>? CNP becn
< WRITE_ONLY psn=2 data=4*0xaa ce
>? CNP becn
< WRITE_ONLY psn=3 data=4*0xaa ack
> ACK psn=3 msn=4

== congestion/cnp-rate/again-after-a-while
qp rc
       < WRITE_ONLY psn=0 data=4*0xaa ce
       > CNP becn
+1ms   < WRITE_ONLY psn=1 data=4*0xaa ce
       > CNP becn

== congestion/mark-not-an-error/send
qp rc
recv id=1 at=buf len=64
< SEND_ONLY psn=0 data=4*0xaa ack ce
>? CNP becn
> ACK psn=0 msn=1
done RECV id=1 len=4

== congestion/mark-not-an-error/read
qp rc
< READ_REQUEST psn=0 len=4 ce
>? CNP becn
> READ_RESPONSE_ONLY psn=0 data=4

== congestion/mark-not-an-error/datagram
qp ud
recv id=1 at=buf len=128
< SEND_ONLY data=4*0xaa ce
done RECV id=1

== congestion/reaction-off/nothing-slows
qp rc
# Notifications before and between; the message leaves as a whole all the same.
< CNP becn
< CNP becn
< CNP becn
post RDMA_WRITE id=1 at=buf len=1024 to=0x1000 rkey=7
> WRITE_FIRST psn=0
> WRITE_MIDDLE psn=1
> WRITE_MIDDLE psn=2
> WRITE_LAST psn=3
< CNP becn
< ACK psn=3 msn=1
done RDMA_WRITE id=1

== congestion/cnp-source/queue-pair-in-error
qp rc
move ERR
< CNP becn
quiet
in ERR

== congestion/ecn-capable/not-marked-by-the-sender
qp rc
post SEND id=1 at=buf len=4
> SEND_ONLY psn=0 ecn=0
< ACK psn=0 msn=1
done SEND id=1
";
