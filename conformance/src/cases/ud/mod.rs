//! Unreliable datagram. What needs two devices (groups, address handles) is in [`verbs`].

mod verbs;

use super::book::{book, named};
use crate::case::Case;

/// The cases of the family.
pub(super) fn cases() -> Vec<Case> {
    let mut all = book(SCRIPTS);
    all.extend(verbs::cases());
    for (variant, request) in REFUSED {
        all.push(named(
            &format!("ud/operations/{variant}-refused"),
            format!("qp ud\nrefused EINVAL post {request}\nidle\nin RTS"),
        ));
    }
    all
}

/// Requests that UD does not have.
const REFUSED: [(&str, &str); 7] = [
    ("write", "RDMA_WRITE at=buf len=8 to=buf rkey=buf"),
    ("read", "RDMA_READ at=buf len=8 to=buf rkey=buf"),
    ("compare-swap", "COMP_SWAP at=buf len=8 to=buf rkey=buf"),
    ("fetch-add", "FETCH_ADD at=buf len=8 to=buf rkey=buf"),
    ("atomic-write", "ATOMIC_WRITE at=buf len=8 to=buf rkey=buf"),
    ("flush", "FLUSH to=buf rkey=buf len=8"),
    ("local-invalidate", "LOCAL_INV inv=buf"),
];

const SCRIPTS: &str = r"
== ud/one-packet/as-long-as-the-mtu
qp ud
post SEND id=1 at=buf len=256
> SEND_ONLY size=256
done SEND id=1

== ud/one-packet/too-long
qp ud
region big len=8192
refused EINVAL post SEND id=1 at=big len=4100
idle
in RTS
quiet

== ud/deth/sender-and-qkey
qp ud qkey=0x1234
post SEND id=1 at=buf len=8 qkey=0x77777777
> SEND_ONLY qkey=0x77777777 data=8
done SEND id=1

== ud/deth/with-immediate
qp ud
post SEND id=1 at=buf len=8 imm=0x01020304
> SEND_ONLY_WITH_IMMEDIATE imm=0x01020304 data=8 no-ack
done SEND id=1

== ud/qkey-match/right
qp ud qkey=0x22222222
recv id=1 at=buf len=100
< SEND_ONLY qkey=0x22222222 data=8*0xaa
done RECV id=1 len=48
holds buf+40 8*0xaa

== ud/qkey-match/wrong
qp ud qkey=0x22222222
recv id=1 at=buf len=100
< SEND_ONLY qkey=0x22222223 data=8*0xaa
quiet
idle
holds buf 100
in RTS

== ud/qkey-own/bit-31
qp ud qkey=0x22222222
post SEND id=1 at=buf len=8 qkey=0x80000000
> SEND_ONLY qkey=0x22222222
done SEND id=1

== ud/qkey-own/bit-31-clear
qp ud qkey=0x22222222
post SEND id=1 at=buf len=8 qkey=0x7fffffff
> SEND_ONLY qkey=0x7fffffff
done SEND id=1

== ud/grh-40-bytes/data-behind
qp ud
recv id=1 at=buf len=100
< SEND_ONLY data=8*0xaa
done RECV id=1 len=48 flags=GRH
holds buf+40 8*0xaa
holds buf+48 16:48

== ud/grh-40-bytes/with-immediate
qp ud
recv id=1 at=buf len=100
< SEND_ONLY_WITH_IMMEDIATE imm=0x55 data=8*0xaa
done RECV id=1 len=48 flags=GRH,WITH_IMM imm=0x55

== ud/grh-40-bytes/over-elements
qp ud
recv id=1 sge=buf:20,buf+100:24,buf+200:50
< SEND_ONLY data=8*0xaa
done RECV id=1 len=48
holds buf+120 4*0xaa
holds buf+200 4*0xaa

== ud/source-qp/named
qp ud
recv id=1 at=buf len=100
< SEND_ONLY src=0x00abcd data=8*0xaa
done RECV id=1 src=0x00abcd

== ud/no-receive/dropped
qp ud
< SEND_ONLY data=8*0xaa
quiet
in RTS
recv id=1 at=buf len=100
< SEND_ONLY data=8*0xbb
done RECV id=1 len=48
holds buf+40 8*0xbb

== ud/too-long/one-byte
qp ud
recv id=1 at=buf len=47
< SEND_ONLY data=8*0xaa
quiet
idle
in RTS
< SEND_ONLY data=7*0xbb
done RECV id=1 len=47
holds buf+40 7*0xbb
holds buf+47 8:47

== ud/too-long/no-room-for-the-header
qp ud
recv id=1 at=buf len=39
< SEND_ONLY
quiet
idle
in RTS

== ud/zero-length/received
qp ud
recv id=1 at=buf len=40
< SEND_ONLY
done RECV id=1 len=40 flags=GRH

== ud/zero-length/sent
qp ud
post SEND id=1
> SEND_ONLY size=0 pad=0
done SEND id=1

== ud/completes-when-sent/nobody-answers
qp ud
post SEND id=1 at=buf len=8 dest=0x3333
> SEND_ONLY dest=0x3333
done SEND id=1
idle
quiet

== ud/psn-ignored/any
qp ud psn=0x1000
recv id=1 at=buf len=100
recv id=2 at=buf+100 len=100
recv id=3 at=buf+200 len=100
< SEND_ONLY psn=abs:5 data=4*0xaa
< SEND_ONLY psn=abs:5 data=4*0xbb
< SEND_ONLY psn=abs:0xffffff data=4*0xcc
done RECV id=1 len=44
done RECV id=2 len=44
done RECV id=3 len=44

== ud/any-source/stranger
qp ud
recv id=1 at=buf len=100
< SEND_ONLY from=stranger data=8*0xaa
done RECV id=1 len=48

== ud/local-error-sqe/bad-lkey
qp ud
post SEND id=1 at=buf len=8 lkey=0xdead00
post SEND id=2 at=buf len=8
done id=1 status=LOC_PROT_ERR
done id=2 status=WR_FLUSH_ERR
in SQE
quiet

== ud/local-error-sqe/receives-on
qp ud
recv id=7 at=buf len=100
post SEND id=1 at=buf len=8 lkey=0xdead00
done id=1 status=LOC_PROT_ERR
< SEND_ONLY data=8*0xaa
done RECV id=7 len=48

== ud/multicast-format/number-without-address
qp ud
recv id=1 at=buf len=100
< SEND_ONLY dest=0xffffff data=8*0xaa
quiet
idle
";
