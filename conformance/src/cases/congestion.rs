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
";
