//! Keys, ranges, rights, domains.

mod local;
mod remote;
mod verbs;

use super::book::book;
use crate::case::Case;

/// The cases of the family, and those of the attacks that are a matter of keys and ranges.
pub(super) fn cases() -> Vec<Case> {
    let mut all = book(SCRIPTS);
    all.extend(remote::cases());
    all.extend(local::cases());
    all.extend(verbs::cases());
    all
}

/// Lifetime of regions.
const SCRIPTS: &str = r"
== protection/stale-key/deregistered
qp rc
region mem len=64
dereg mem
< WRITE_ONLY psn=0 va=mem rkey=mem data=8*0xaa ack
> NAK_ACCESS psn=0
in ERR

== protection/stale-key/read-of-deregistered
qp rc
region mem len=64
dereg mem
< READ_REQUEST psn=0 va=mem rkey=mem len=8
> NAK_ACCESS psn=0
in ERR

== protection/stale-key/send-from-deregistered
qp rc
region mem len=64
dereg mem
post SEND id=1 at=mem len=8
done id=1 status=LOC_PROT_ERR
in ERR
quiet

== protection/stale-key/receive-into-deregistered
qp rc
region mem len=64
recv id=1 at=mem len=8
dereg mem
< SEND_ONLY psn=0 data=8*0xaa ack
> NAK_OPERATION psn=0
done id=1 status=LOC_PROT_ERR
in ERR

== protection/dereg-no-access/middle-of-a-write
qp rc
region mem len=1024
< WRITE_FIRST psn=0 va=mem rkey=mem len=264 data=256*0xaa
holds mem 256*0xaa
dereg mem
< WRITE_LAST psn=1 data=8*0xbb ack
> NAK_ACCESS psn=1
in ERR

== protection/dereg-no-access/middle-of-a-send
qp rc
region mem len=1024
recv id=1 at=mem len=1024
< SEND_FIRST psn=0 data=256*0xaa
holds mem 256*0xaa
dereg mem
< SEND_LAST psn=1 data=8*0xbb ack
> NAK_OPERATION psn=1
done id=1 status=LOC_PROT_ERR
in ERR

== protection/dereg-no-access/read-response-to-come
qp rc
region mem len=64
post RDMA_READ id=1 at=mem len=8 to=0x1000 rkey=7
> READ_REQUEST psn=0 len=8
dereg mem
< READ_RESPONSE_ONLY psn=0 data=8*0xaa
done id=1 status=LOC_PROT_ERR
in ERR

== protection/zero-length-key/write
qp rc
< WRITE_ONLY psn=0 va=0 rkey=0xdead00 len=0 ack
> ACK psn=0
in RTS

== protection/zero-length-key/write-with-immediate
qp rc
recv id=1 at=buf len=8
< WRITE_ONLY_WITH_IMMEDIATE psn=0 va=0 rkey=0xdead00 len=0 imm=5 ack
> ACK psn=0
done RECV_RDMA_WITH_IMM id=1 imm=5 len=0
in RTS

== protection/zero-length-key/read
qp rc
< READ_REQUEST psn=0 va=0xffffffffffffffff rkey=0xdead00 len=0
> READ_RESPONSE_ONLY psn=0 size=0
in RTS

== protection/sge-sum/one-byte-too-many
qp rc
refused EINVAL post RDMA_WRITE id=1 sge=buf:0x80000000,buf:1 to=0 rkey=7
in RTS
idle

== protection/sge-sum/wraps-32-bits
qp rc
refused EINVAL post RDMA_WRITE id=1 sge=buf:0xffffffff,buf:0xffffffff,buf:3 to=0 rkey=7
in RTS
idle

== protection/sge-sum/of-a-receive
qp rc
refused EINVAL recv id=1 sge=buf:0x80000000,buf:0x80000000,buf:1
in RTS
idle

== protection/sge-sum/of-a-read
qp rc
refused EINVAL post RDMA_READ id=1 sge=buf:0xffffffff,buf:2 to=0 rkey=7
in RTS
idle

== protection/no-partial-write/range-ends-too-early
qp rc
region mem len=300
< WRITE_FIRST psn=0 va=mem rkey=mem len=301 data=256*0xaa
> NAK_ACCESS psn=0
holds mem 256
in ERR

== protection/range-whole-message/read
qp rc
region mem len=300
< READ_REQUEST psn=0 va=mem rkey=mem len=301
> NAK_ACCESS psn=0
in ERR

== protection/zero-based/remote
qp rc
region mem len=64 rights=lwraz
< WRITE_ONLY psn=0 va=8 rkey=mem data=8*0xaa ack
> ACK psn=0
holds mem+8 8*0xaa

== protection/zero-based/remote-past-the-end
qp rc
region mem len=64 rights=lwraz
< WRITE_ONLY psn=0 va=57 rkey=mem data=8*0xaa ack
> NAK_ACCESS psn=0
in ERR

== protection/dereg-busy/window-bound
needs MEM_WINDOW_TYPE_2B
qp rc
region mem len=64
window mw type=2
post BIND_MW id=1 window=mw to=mem len=64
done BIND_MW id=1
refused EBUSY dereg mem
";
