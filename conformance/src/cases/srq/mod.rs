//! Shared receive queues. What needs more than one queue pair is in [`verbs`].

mod verbs;

use super::book::book;
use crate::case::Case;

/// The cases of the family.
pub(super) fn cases() -> Vec<Case> {
    let mut all = book(SCRIPTS);
    all.extend(verbs::cases());
    all
}

const SCRIPTS: &str = r"
== srq/order/three
qp rc srq=4
recv id=1 at=buf len=8
recv id=2 at=buf+8 len=8
recv id=3 at=buf+16 len=8
< SEND_ONLY psn=0 data=8*0xaa
< SEND_ONLY psn=1 data=8*0xbb
< SEND_ONLY psn=2 data=8*0xcc ack
> ACK psn=2
done RECV id=1
done RECV id=2
done RECV id=3
holds buf 8*0xaa
holds buf+8 8*0xbb
holds buf+16 8*0xcc

== srq/order/datagrams
qp ud srq=4
recv id=1 at=buf len=100
recv id=2 at=buf+100 len=100
< SEND_ONLY data=8*0xaa
< SEND_ONLY data=8*0xbb
done RECV id=1
done RECV id=2
holds buf+40 8*0xaa
holds buf+140 8*0xbb

== srq/full/one-too-many
qp rc srq=2
recv id=1 at=buf len=8
recv id=2 at=buf len=8
refused ENOMEM recv id=3 at=buf len=8

== srq/too-many-sges/one-too-many
qp rc srq=2
refused EINVAL recv id=3 sge=buf:1,buf:1,buf:1,buf:1,buf:1

== srq/empty-rnr/send
qp rc srq=2 minrnr=9
< SEND_ONLY psn=0 data=8*0xaa ack
> RNR_NAK psn=0 timer=9
in RTS
recv id=1 at=buf len=8
< SEND_ONLY psn=0 data=8*0xaa ack
> ACK psn=0
done RECV id=1

== srq/limit-event/once
qp rc srq=8
recv id=1 at=buf len=8
recv id=2 at=buf len=8
recv id=3 at=buf len=8
limit 2
< SEND_ONLY psn=0 ack
> ACK psn=0
done RECV id=1
no-event SRQ_LIMIT_REACHED
< SEND_ONLY psn=1 ack
> ACK psn=1
done RECV id=2
event SRQ_LIMIT_REACHED
# It is disarmed now.
< SEND_ONLY psn=2 ack
> ACK psn=2
done RECV id=3
no-event SRQ_LIMIT_REACHED

== srq/limit-armed-below/at-once
qp rc srq=8
recv id=1 at=buf len=8
limit 2
event SRQ_LIMIT_REACHED

== srq/limit-zero/disarmed
qp rc srq=8
recv id=1 at=buf len=8
limit 1
limit 0
< SEND_ONLY psn=0 ack
> ACK psn=0
done RECV id=1
no-event SRQ_LIMIT_REACHED

== srq/limit-too-high/refused
qp rc srq=8
refused EINVAL limit 9

== srq/qp-error-keeps/nothing-flushed
qp rc srq=4
recv id=1 at=buf len=8
move ERR
in ERR
idle

== srq/last-wqe-event/moved-to-error
qp rc srq=4
recv id=1 at=buf len=8
move ERR
event QP_LAST_WQE_REACHED
no-event QP_LAST_WQE_REACHED

== srq/last-wqe-event/refused-request
qp rc srq=4
recv id=1 at=buf len=8
< WRITE_ONLY psn=0 va=buf rkey=0xdead00 data=8 ack
> NAK_ACCESS psn=0
event QP_LAST_WQE_REACHED
in ERR
idle

== srq/last-wqe-event/receive-being-filled
qp rc srq=4
recv id=1 at=buf len=1024
recv id=2 at=buf len=8
< SEND_FIRST psn=0 data=256*0xaa
holds buf 256*0xaa
move ERR
done id=1 status=WR_FLUSH_ERR
event QP_LAST_WQE_REACHED
idle

== rc-responder/receive-bad-lkey/of-a-shared-queue
qp rc srq=4
recv id=1 at=buf len=8 lkey=0xdead00
< SEND_ONLY psn=0 data=8 ack
> NAK_OPERATION psn=0
done id=1 status=LOC_PROT_ERR
in ERR
";
