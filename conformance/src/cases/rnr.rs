//! Receiver not ready.

use super::book::{book, named};
use crate::case::Case;

/// The cases of the family.
pub(super) fn cases() -> Vec<Case> {
    let mut all = book(SCRIPTS);
    // A code, the time that it stands for, and one a little shorter, for the first packet behind it.
    for (code, time) in
        [(1, "10us"), (14, "1.28ms"), (20, "10.24ms"), (24, "40.96ms"), (0, "655.36ms")]
    {
        all.push(named(
            &format!("rnr/wait/code-{code}"),
            format!(
                "qp rc
                         post SEND id=1 at=buf len=4
                         > SEND_ONLY psn=0
                         < RNR_NAK psn=0 msn=0 timer={code}
                +{time}  > SEND_ONLY psn=0
                         < ACK psn=0 msn=1
                         done SEND id=1"
            ),
        ));
    }
    for code in [0, 1, 12, 31] {
        all.push(named(
            &format!("rnr/timer-code/{code}"),
            format!("qp rc minrnr={code}\n< SEND_ONLY psn=0 data=4*0xaa ack\n> RNR_NAK psn=0 timer={code}"),
        ));
    }
    all
}

const SCRIPTS: &str = r"
== rnr/nak/send
qp rc
< SEND_ONLY psn=0 data=4*0xaa ack
> RNR_NAK psn=0 msn=0
in RTS

== rnr/nak/send-first
qp rc
< SEND_FIRST psn=0 data=256*0xaa
> RNR_NAK psn=0 msn=0
in RTS

== rnr/nak/send-with-invalidate
qp rc
region mem len=64
< SEND_ONLY_WITH_INVALIDATE psn=0 inv=mem data=4*0xaa ack
> RNR_NAK psn=0 msn=0
in RTS
# The key has not been invalidated.
< WRITE_ONLY psn=0 va=mem rkey=mem data=4*0xbb ack
> ACK psn=0

== rnr/nak/write-with-immediate
qp rc
< WRITE_ONLY_WITH_IMMEDIATE psn=0 imm=1 data=4*0xaa ack
> RNR_NAK psn=0 msn=0
in RTS

== rnr/nak/last-packet-of-a-write-with-immediate
qp rc
< WRITE_FIRST psn=0 len=300 data=256*0xaa ack
> ACK psn=0 msn=0
< WRITE_LAST_WITH_IMMEDIATE psn=1 imm=1 data=44*0xbb ack
> RNR_NAK psn=1 msn=0
in RTS
recv id=1
< WRITE_LAST_WITH_IMMEDIATE psn=1 imm=1 data=44*0xbb ack
> ACK psn=1 msn=1
done RECV_RDMA_WITH_IMM id=1 len=300

== rnr/nak/same-psn-expected-again
qp rc
< SEND_ONLY psn=0 data=4*0xaa ack
> RNR_NAK psn=0
recv id=1 at=buf len=64
< SEND_ONLY psn=0 data=4*0xaa ack
> ACK psn=0 msn=1
done RECV id=1 len=4

== rnr/nak/again-as-long-as-there-is-none
qp rc
< SEND_ONLY psn=0 data=4*0xaa ack
> RNR_NAK psn=0
< SEND_ONLY psn=0 data=4*0xaa ack
> RNR_NAK psn=0
in RTS

== rnr/nothing-placed/send
qp rc
< SEND_ONLY psn=0 data=4*0xaa ack
> RNR_NAK psn=0
quiet
idle
holds buf 64

== rnr/nothing-placed/write-with-immediate
qp rc
< WRITE_ONLY_WITH_IMMEDIATE psn=0 imm=1 data=4*0xaa ack
> RNR_NAK psn=0
quiet
idle
holds buf 64

== rnr/wait/nothing-else-leaves
qp rc
        post SEND id=1 at=buf len=4
        > SEND_ONLY psn=0
        < RNR_NAK psn=0 msn=0 timer=20
+2ms    post RDMA_WRITE id=2 at=buf len=4 to=0x1000 rkey=7
+7ms    > SEND_ONLY psn=0
        > WRITE_ONLY psn=1
        < ACK psn=1 msn=2
        done SEND id=1
        done RDMA_WRITE id=2

== rnr/resume/from-the-refused-packet
qp rc
post SEND id=1 at=buf len=4
post SEND id=2 at=buf len=8
post SEND id=3 at=buf len=12
> SEND_ONLY psn=0
> SEND_ONLY psn=1
> SEND_ONLY psn=2
< RNR_NAK psn=1 msn=1 timer=1
> SEND_ONLY psn=1 size=8
> SEND_ONLY psn=2 size=12
< ACK psn=2 msn=3
done SEND id=1
done SEND id=2
done SEND id=3

== rnr/resume/last-packet-of-a-message
qp rc
post RDMA_WRITE id=1 at=buf len=300 to=0x1000 rkey=7 imm=5
> WRITE_FIRST psn=0
> WRITE_LAST_WITH_IMMEDIATE psn=1
< RNR_NAK psn=1 msn=0 timer=1
> WRITE_LAST_WITH_IMMEDIATE psn=1 imm=5 size=44
< ACK psn=1 msn=1
done RDMA_WRITE id=1

== rnr/later-dropped/silently
qp rc
recv id=1 at=buf len=64
< SEND_ONLY psn=0 data=4*0xaa ack
> ACK psn=0 msn=1
done RECV id=1
< SEND_ONLY psn=1 data=4*0xaa ack
> RNR_NAK psn=1 msn=1
< SEND_ONLY psn=2 data=4*0xbb ack
< WRITE_ONLY psn=3 data=4*0xcc ack
quiet
idle
holds buf+4 60:4

== rnr/later-dropped/until-it-has-come-again
qp rc
< SEND_ONLY psn=0 data=4*0xaa ack
> RNR_NAK psn=0
< WRITE_ONLY psn=1 va=buf+64 data=4*0xcc ack
quiet
recv id=1 at=buf len=64
< SEND_ONLY psn=0 data=4*0xaa ack
> ACK psn=0 msn=1
done RECV id=1
< WRITE_ONLY psn=1 va=buf+64 data=4*0xcc ack
> ACK psn=1 msn=2

== rnr/retry-count/none
qp rc rnr=0
post SEND id=1 at=buf len=4
> SEND_ONLY psn=0
< RNR_NAK psn=0 msn=0 timer=1
done id=1 status=RNR_RETRY_EXC_ERR
in ERR

== rnr/retry-count/two
qp rc rnr=2
post SEND id=1 at=buf len=4
> SEND_ONLY psn=0
< RNR_NAK psn=0 msn=0 timer=1
> SEND_ONLY psn=0
< RNR_NAK psn=0 msn=0 timer=1
> SEND_ONLY psn=0
< RNR_NAK psn=0 msn=0 timer=1
done id=1 status=RNR_RETRY_EXC_ERR
in ERR
quiet

== rnr/retry-count/those-behind-flushed
qp rc rnr=0
post SEND id=1 at=buf len=4
post SEND id=2 at=buf len=4
> SEND_ONLY psn=0
> SEND_ONLY psn=1
< RNR_NAK psn=0 msn=0 timer=1
done id=1 status=RNR_RETRY_EXC_ERR
done id=2 status=WR_FLUSH_ERR
in ERR

== rnr/retry-infinite/eight-times
qp rc rnr=7
post SEND id=1 at=buf len=4
> SEND_ONLY psn=0
< RNR_NAK psn=0 timer=1
> SEND_ONLY psn=0
< RNR_NAK psn=0 timer=1
> SEND_ONLY psn=0
< RNR_NAK psn=0 timer=1
> SEND_ONLY psn=0
< RNR_NAK psn=0 timer=1
> SEND_ONLY psn=0
< RNR_NAK psn=0 timer=1
> SEND_ONLY psn=0
< RNR_NAK psn=0 timer=1
> SEND_ONLY psn=0
< RNR_NAK psn=0 timer=1
> SEND_ONLY psn=0
< RNR_NAK psn=0 timer=1
> SEND_ONLY psn=0
< ACK psn=0 msn=1
done SEND id=1

== rnr/responder-unharmed/peer-gives-up
qp rc
< SEND_ONLY psn=0 data=4*0xaa ack
> RNR_NAK psn=0
quiet
in RTS
no-event QP_ACCESS_ERR
no-event QP_REQ_ERR
no-event QP_FATAL
< WRITE_ONLY psn=0 data=4*0xaa ack
> ACK psn=0 msn=1

== rnr/retry-restored/by-progress
qp rc rnr=1
post SEND id=1 at=buf len=4
post SEND id=2 at=buf len=8
> SEND_ONLY psn=0
> SEND_ONLY psn=1
< RNR_NAK psn=0 msn=0 timer=1
> SEND_ONLY psn=0
> SEND_ONLY psn=1
< RNR_NAK psn=1 msn=1 timer=1
> SEND_ONLY psn=1
< ACK psn=1 msn=2
done SEND id=1
done SEND id=2

== rnr/retry-restored/other-retries-not-used
qp rc rnr=7 retry=0
post SEND id=1 at=buf len=4
> SEND_ONLY psn=0
< RNR_NAK psn=0 msn=0 timer=1
> SEND_ONLY psn=0
< RNR_NAK psn=0 msn=0 timer=1
> SEND_ONLY psn=0
< ACK psn=0 msn=1
done SEND id=1

== rnr/acknowledges-before/two-of-three
qp rc rnr=0
post SEND id=1 at=buf len=4
post SEND id=2 at=buf len=4
post SEND id=3 at=buf len=4
> SEND_ONLY psn=0
> SEND_ONLY psn=1
> SEND_ONLY psn=2
< RNR_NAK psn=2 msn=2 timer=1
done SEND id=1
done SEND id=2
done id=3 status=RNR_RETRY_EXC_ERR

== rnr/unreliable-drops/uc
qp uc
< SEND_ONLY psn=0 data=4*0xaa
quiet
idle
in RTS

== rnr/unreliable-drops/ud
qp ud
< SEND_ONLY data=4*0xaa
quiet
idle
in RTS

== rnr/read-write-need-none/all-of-them
qp rc
< WRITE_ONLY psn=0 data=4*0xaa ack
> ACK psn=0
< READ_REQUEST psn=1 len=4
> READ_RESPONSE_ONLY psn=1
< COMPARE_SWAP psn=2 swap=1
> ATOMIC_ACKNOWLEDGE psn=2
< FETCH_ADD psn=3 add=1
> ATOMIC_ACKNOWLEDGE psn=3
";
