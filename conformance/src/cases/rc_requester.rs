//! RC, the sending side: from work requests to packets.

use softrnic_model::verbs::{SendFlags, WcStatus};

use super::book::{book, named};
use crate::case::{Case, Outcome, verbs};
use crate::lab::{CAPABILITIES, Connection};
use crate::stage::{Stage, send, wr};
use crate::{ensure, same};

/// The cases of the family.
pub(super) fn cases() -> Vec<Case> {
    let mut all = book(SCRIPTS);
    for (variant, before, post) in LOCAL_ERRORS {
        all.push(named(
            &format!("rc-requester/local-keys-at-send/{variant}"),
            format!(
                "qp rc
                {before}
                post {post} id=1
                done id=1 status=LOC_PROT_ERR
                in ERR
                quiet"
            ),
        ));
    }
    for state in ["RESET", "INIT", "RTR"] {
        all.push(named(
            &format!("rc-requester/post-state/{}-refused", state.to_lowercase()),
            format!("qp rc to={state}\nrefused EINVAL post SEND id=1 at=buf len=4\nquiet\nidle"),
        ));
    }
    all.push(verbs("rc-requester/sq-full", "refused-until-polled", full_until_polled));
    all.push(verbs("rc-requester/sq-full", "unsignaled-slots-freed-by-a-later-one", slots_freed));
    all.push(verbs("rc-requester/bad-wr", "all-before-it-run", all_before_bad_wr));
    all.push(verbs("rc-requester/order", "mixed-operations-complete-in-order", mixed_order));
    all
}

/// Requests whose local memory may not be used so.
const LOCAL_ERRORS: [(&str, &str, &str); 11] = [
    ("send-unknown-key", "", "SEND at=buf len=8 lkey=0xdead00"),
    ("send-stale-variant", "", "SEND at=buf len=8 lkey=buf+1"),
    ("send-past-the-end", "", "SEND at=buf+4090 len=8"),
    ("send-before-the-start", "", "SEND at=buf-4 len=8"),
    ("send-other-domain", "region mem pd=other", "SEND at=mem len=8"),
    ("write-unknown-key", "", "RDMA_WRITE at=buf len=8 lkey=0xdead00 to=0x1000 rkey=7"),
    ("write-second-element", "", "RDMA_WRITE sge=buf:8,buf+4090:8 to=0x1000 rkey=7"),
    ("read-unknown-key", "", "RDMA_READ at=buf len=8 lkey=0xdead00 to=0x1000 rkey=7"),
    ("compare-swap-unknown-key", "", "COMP_SWAP at=buf len=8 lkey=0xdead00 to=0x1000 rkey=7"),
    ("fetch-add-unknown-key", "", "FETCH_ADD at=buf len=8 lkey=0xdead00 to=0x1000 rkey=7"),
    ("deregistered", "region mem len=64\ndereg mem", "SEND at=mem len=8"),
];

fn full_until_polled(stage: &mut Stage) -> Outcome {
    let [a, b] = stage.connect(&Connection::RC)?;
    let places = u64::from(CAPABILITIES.max_send_wr);
    let write = wr(0, a.write(&b, 0)).at(64, 8);
    let mut taken = 0;
    while taken < 4 * places && stage.try_post(&a, &write).is_ok() {
        taken += 1;
    }
    ensure!(taken >= places, "only {taken} of {places} requests were taken");
    ensure!(taken < 4 * places, "the queue never fills: {taken} requests of {places} were taken");
    let refused = stage.try_post(&a, &write).map_err(|error| error.errno_name());
    same!(refused, Err("ENOMEM"), "a full queue");
    // They complete, and still nothing is free before somebody polls.
    stage.settle();
    let refused = stage.try_post(&a, &write).map_err(|error| error.errno_name());
    same!(refused, Err("ENOMEM"), "a queue whose completions wait");
    stage.completes(&a, 0, WcStatus::Success)?;
    stage.post(&a, &write)
}

fn slots_freed(stage: &mut Stage) -> Outcome {
    let [a, b] = stage.connect(&Connection::RC)?;
    let places = u64::from(CAPABILITIES.max_send_wr);
    for id in 1..places {
        stage.post(&a, &wr(id, a.write(&b, 0)).at(64, 8).unsignaled())?;
    }
    stage.post(&a, &wr(places, a.write(&b, 0)).at(64, 8))?;
    stage.completes(&a, places, WcStatus::Success)?;
    for id in 1..places {
        stage.post(&a, &wr(id, a.write(&b, 0)).at(64, 8).unsignaled())?;
    }
    Ok(())
}

fn all_before_bad_wr(stage: &mut Stage) -> Outcome {
    use softrnic_model::verbs::{SendOp, SendWr};
    let [a, b] = stage.connect(&Connection::RC)?;
    let (remote_addr, rkey) = b.remote(0);
    let op = SendOp::Write { remote_addr, rkey, imm: None };
    let piece = a.sge(64, 4);
    let (one, many) = ([piece], [piece; 40]);
    let flags = SendFlags::SIGNALED;
    let request = |wr_id, sges| SendWr { wr_id, op, flags, sges, ..SendWr::default() };
    let list = [request(1, &one[..]), request(2, &one), request(3, &many), request(4, &one)];
    let refused = stage.verbs(0).post_send(a.qp, &list);
    let Err(refused) = refused else { return Err("40 elements were taken".to_owned().into()) };
    same!(refused.index, 2, "the first that was refused");
    same!(refused.error.errno_name(), "EINVAL", "its error");
    stage.completes(&a, 1, WcStatus::Success)?;
    stage.completes(&a, 2, WcStatus::Success)?;
    stage.stays_idle(&a)
}

fn mixed_order(stage: &mut Stage) -> Outcome {
    let [a, b] = stage.connect(&Connection::RC)?;
    stage.recv(&b, 9, 4096, 64)?;
    stage.post(&a, &wr(1, a.write(&b, 0)).at(64, 3000))?;
    stage.post(&a, &wr(2, a.read(&b, 0)).at(8192, 3000))?;
    stage.post(&a, &wr(3, a.fetch_add(&b, 30_000, 1)).at(16_384, 8))?;
    stage.post(&a, &wr(4, send()).at(0, 16))?;
    stage.post(&a, &wr(5, a.write(&b, 0)).at(64, 8))?;
    for id in 1..=5 {
        stage.completes(&a, id, WcStatus::Success)?;
    }
    stage.receives(&b, 9, WcStatus::Success)?;
    same!(a.bytes(8192, 3000)?, a.bytes(64, 3000)?, "what the READ saw of the WRITE before it");
    Ok(())
}

const SCRIPTS: &str = r"
== rc-requester/first-psn/of-the-connection
qp rc sqpsn=0x123456
post SEND id=1 at=buf len=4
> SEND_ONLY psn=abs:0x123456
< ACK psn=0 msn=1
done SEND id=1
post SEND id=2 at=buf len=4
> SEND_ONLY psn=abs:0x123457
< ACK psn=1 msn=2
done SEND id=2

== rc-requester/first-psn/wraps
qp rc sqpsn=0xffffff
post RDMA_WRITE id=1 at=buf len=512 to=0x1000 rkey=7
> WRITE_FIRST psn=abs:0xffffff
> WRITE_LAST psn=abs:0
< ACK psn=abs:0 msn=1
done RDMA_WRITE id=1
post SEND id=2 at=buf len=4
> SEND_ONLY psn=abs:1
< ACK psn=abs:1 msn=2
done SEND id=2

== rc-requester/read-takes-responses/three
qp rc
post RDMA_READ id=1 at=buf len=600 to=0x1000 rkey=7
post SEND id=2 at=buf len=4
> READ_REQUEST psn=0 va=0x1000 rkey=7 len=600
> SEND_ONLY psn=3
< READ_RESPONSE_FIRST psn=0 data=256*0xaa msn=1
< READ_RESPONSE_MIDDLE psn=1 data=256*0xbb
< READ_RESPONSE_LAST psn=2 data=88*0xcc msn=1
< ACK psn=3 msn=2
done RDMA_READ id=1 len=600
done SEND id=2

== rc-requester/read-takes-responses/none-takes-one
qp rc
post RDMA_READ id=1 to=0x1000 rkey=7
post SEND id=2 at=buf len=4
> READ_REQUEST psn=0 len=0
> SEND_ONLY psn=1
< READ_RESPONSE_ONLY psn=0 msn=1
< ACK psn=1 msn=2
done RDMA_READ id=1 len=0
done SEND id=2

== rc-requester/segmentation/exactly-one-packet
qp rc
post SEND id=1 at=buf len=256
> SEND_ONLY psn=0 data=256
< ACK psn=0
done SEND id=1

== rc-requester/segmentation/one-byte-more
qp rc
post SEND id=1 at=buf len=257
> SEND_FIRST psn=0 data=256
> SEND_LAST psn=1 data=1
< ACK psn=1
done SEND id=1

== rc-requester/segmentation/middles
qp rc
post SEND id=1 at=buf len=800
> SEND_FIRST psn=0 size=256
> SEND_MIDDLE psn=1 size=256
> SEND_MIDDLE psn=2 size=256
> SEND_LAST psn=3 size=32
< ACK psn=3
done SEND id=1

== rc-requester/segmentation/full-last
qp rc
post RDMA_WRITE id=1 at=buf len=512 to=0x1000 rkey=7
> WRITE_FIRST psn=0 size=256 len=512
> WRITE_LAST psn=1 size=256
< ACK psn=1
done RDMA_WRITE id=1

== rc-requester/zero-length/send
qp rc
post SEND id=1
> SEND_ONLY psn=0 size=0 pad=0
< ACK psn=0
done SEND id=1

== rc-requester/zero-length/write
qp rc
post RDMA_WRITE id=1 to=0x1000 rkey=7
> WRITE_ONLY psn=0 size=0 len=0
< ACK psn=0
done RDMA_WRITE id=1

== rc-requester/order/sends-leave-as-posted
qp rc
post SEND id=1 at=buf len=4
post RDMA_WRITE id=2 at=buf len=8 to=0x1000 rkey=7
post SEND id=3 at=buf len=12
> SEND_ONLY psn=0 size=4
> WRITE_ONLY psn=1 size=8
> SEND_ONLY psn=2 size=12
< ACK psn=2 msn=3
done SEND id=1
done RDMA_WRITE id=2
done SEND id=3

== rc-requester/reth-once/of-three-packets
qp rc
post RDMA_WRITE id=1 at=buf len=600 to=0x123456789abc rkey=0x55
> WRITE_FIRST psn=0 va=0x123456789abc rkey=0x55 len=600
> WRITE_MIDDLE psn=1
> WRITE_LAST psn=2
< ACK psn=2
done RDMA_WRITE id=1

== rc-requester/immediate-last/send
qp rc
post SEND id=1 at=buf len=300 imm=0xa1b2c3d4
> SEND_FIRST psn=0
> SEND_LAST_WITH_IMMEDIATE psn=1 imm=0xa1b2c3d4 size=44
< ACK psn=1
done SEND id=1

== rc-requester/immediate-last/write
qp rc
post RDMA_WRITE id=1 at=buf len=300 to=0x1000 rkey=7 imm=5
> WRITE_FIRST psn=0 len=300
> WRITE_LAST_WITH_IMMEDIATE psn=1 imm=5 size=44
< ACK psn=1
done RDMA_WRITE id=1

== rc-requester/immediate-last/write-of-one-packet
qp rc
post RDMA_WRITE id=1 at=buf len=8 to=0x1000 rkey=7 imm=5
> WRITE_ONLY_WITH_IMMEDIATE psn=0 imm=5 va=0x1000 rkey=7 len=8
< ACK psn=0
done RDMA_WRITE id=1

== rc-requester/invalidate-last/send
qp rc
post SEND id=1 at=buf len=300 inv=0x1234
> SEND_FIRST psn=0
> SEND_LAST_WITH_INVALIDATE psn=1 inv=0x1234
< ACK psn=1
done SEND id=1

== rc-requester/invalidate-last/of-one-packet
qp rc
post SEND id=1 at=buf len=8 inv=0x1234
> SEND_ONLY_WITH_INVALIDATE psn=0 inv=0x1234 size=8
< ACK psn=0
done SEND id=1

== rc-requester/invalidate-last/not-with-an-immediate
qp rc
refused EINVAL post SEND id=1 at=buf len=8 inv=0x1234 imm=1
quiet

== rc-requester/solicited-last/send
qp rc
post SEND id=1 at=buf len=300 solicited
> SEND_FIRST psn=0 no-se
> SEND_LAST psn=1 se
< ACK psn=1
done SEND id=1

== rc-requester/solicited-last/write-with-immediate
qp rc
post RDMA_WRITE id=1 at=buf len=300 to=0x1000 rkey=7 imm=5 solicited
> WRITE_FIRST psn=0 no-se
> WRITE_LAST_WITH_IMMEDIATE psn=1 se
< ACK psn=1
done RDMA_WRITE id=1

== rc-requester/solicited-last/not-asked-for
qp rc
post SEND id=1 at=buf len=8
> SEND_ONLY psn=0 no-se
< ACK psn=0
done SEND id=1

== rc-requester/ack-req-at-end/send
qp rc
post SEND id=1 at=buf len=300
> SEND_FIRST psn=0
> SEND_LAST psn=1 ack
< ACK psn=1
done SEND id=1

== rc-requester/ack-req-at-end/each-of-several-messages
qp rc
post SEND id=1 at=buf len=4
post SEND id=2 at=buf len=4
post RDMA_WRITE id=3 at=buf len=4 to=0x1000 rkey=7
> SEND_ONLY psn=0 ack
> SEND_ONLY psn=1 ack
> WRITE_ONLY psn=2 ack
< ACK psn=2 msn=3
done SEND id=1
done SEND id=2
done RDMA_WRITE id=3

== rc-requester/ack-req-at-end/unsignaled-too
qp rc
post SEND id=1 at=buf len=4 unsignaled
> SEND_ONLY psn=0 ack
< ACK psn=0
quiet
idle

== rc-requester/one-message-at-a-time/long-before-short
qp rc
post RDMA_WRITE id=1 at=buf len=1024 to=0x1000 rkey=7
post SEND id=2 at=buf len=4
> WRITE_FIRST psn=0
> WRITE_MIDDLE psn=1
> WRITE_MIDDLE psn=2
> WRITE_LAST psn=3
> SEND_ONLY psn=4
< ACK psn=4 msn=2
done RDMA_WRITE id=1
done SEND id=2

== rc-requester/fence/behind-a-read
qp rc
post RDMA_READ id=1 at=buf len=8 to=0x1000 rkey=7
post SEND id=2 at=buf len=4 fence
> READ_REQUEST psn=0
quiet
< READ_RESPONSE_ONLY psn=0 data=8*0xaa msn=1
> SEND_ONLY psn=1 data=4*0xaa
< ACK psn=1 msn=2
done RDMA_READ id=1
done SEND id=2

== rc-requester/fence/behind-an-atomic
qp rc
post FETCH_ADD id=1 at=buf len=8 to=0x1000 rkey=7 swap=1
post RDMA_WRITE id=2 at=buf len=4 to=0x1000 rkey=7 fence
> FETCH_ADD psn=0
quiet
< ATOMIC_ACKNOWLEDGE psn=0 orig=7 msn=1
> WRITE_ONLY psn=1
< ACK psn=1 msn=2
done FETCH_ADD id=1
done RDMA_WRITE id=2

== rc-requester/fence/not-without-the-flag
qp rc
post RDMA_READ id=1 at=buf len=8 to=0x1000 rkey=7
post SEND id=2 at=buf+64 len=4
> READ_REQUEST psn=0
> SEND_ONLY psn=1
< READ_RESPONSE_ONLY psn=0 data=8*0xaa msn=1
< ACK psn=1 msn=2
done RDMA_READ id=1
done SEND id=2

== rc-requester/fence/writes-are-not-waited-for
qp rc
post RDMA_WRITE id=1 at=buf len=8 to=0x1000 rkey=7
post SEND id=2 at=buf+64 len=4 fence
> WRITE_ONLY psn=0
> SEND_ONLY psn=1
< ACK psn=1 msn=2
done RDMA_WRITE id=1
done SEND id=2

== rc-requester/read-depth/two-of-three
qp rc reads=2
post RDMA_READ id=1 at=buf len=8 to=0x1000 rkey=7
post RDMA_READ id=2 at=buf+8 len=8 to=0x1000 rkey=7
post RDMA_READ id=3 at=buf+16 len=8 to=0x1000 rkey=7
> READ_REQUEST psn=0
> READ_REQUEST psn=1
quiet
< READ_RESPONSE_ONLY psn=0 data=8*0xaa msn=1
> READ_REQUEST psn=2
< READ_RESPONSE_ONLY psn=1 data=8*0xbb msn=2
< READ_RESPONSE_ONLY psn=2 data=8*0xcc msn=3
done RDMA_READ id=1
done RDMA_READ id=2
done RDMA_READ id=3

== rc-requester/read-depth/atomics-count
qp rc reads=1
post RDMA_READ id=1 at=buf len=8 to=0x1000 rkey=7
post FETCH_ADD id=2 at=buf+8 len=8 to=0x1000 rkey=7 swap=1
> READ_REQUEST psn=0
quiet
< READ_RESPONSE_ONLY psn=0 data=8*0xaa msn=1
> FETCH_ADD psn=1
< ATOMIC_ACKNOWLEDGE psn=1 orig=0 msn=2
done RDMA_READ id=1
done FETCH_ADD id=2

== rc-requester/read-depth/what-is-behind-waits-as-well
qp rc reads=1
post RDMA_READ id=1 at=buf len=8 to=0x1000 rkey=7
post RDMA_READ id=2 at=buf+8 len=8 to=0x1000 rkey=7
post SEND id=3 at=buf+64 len=4
> READ_REQUEST psn=0
quiet
< READ_RESPONSE_ONLY psn=0 data=8*0xaa msn=1
> READ_REQUEST psn=1
> SEND_ONLY psn=2
< READ_RESPONSE_ONLY psn=1 data=8*0xbb msn=2
< ACK psn=2 msn=3
done RDMA_READ id=1
done RDMA_READ id=2
done SEND id=3

== rc-requester/read-depth-zero/read
qp rc reads=0
post RDMA_READ id=1 at=buf len=8 to=0x1000 rkey=7
done id=1 status=LOC_QP_OP_ERR
in ERR

== rc-requester/read-depth-zero/atomic
qp rc reads=0
post FETCH_ADD id=1 at=buf len=8 to=0x1000 rkey=7 swap=1
done id=1 status=LOC_QP_OP_ERR
in ERR

== rc-requester/read-depth-zero/in-its-turn
qp rc reads=0
post SEND id=1 at=buf len=4
post RDMA_READ id=2 at=buf len=8 to=0x1000 rkey=7
> SEND_ONLY psn=0
quiet
idle
< ACK psn=0 msn=1
done SEND id=1
done id=2 status=LOC_QP_OP_ERR
in ERR

== rc-requester/local-keys-at-send/deregistered-after-the-post
qp rc reads=1
region mem len=64
post RDMA_READ id=1 at=buf len=8 to=0x1000 rkey=7
post RDMA_READ id=2 at=mem len=8 to=0x1000 rkey=7
> READ_REQUEST psn=0
# The second waits for its turn; by then its memory is gone.
dereg mem
< READ_RESPONSE_ONLY psn=0 data=8*0xaa msn=1
done RDMA_READ id=1
done id=2 status=LOC_PROT_ERR
in ERR

== rc-requester/local-error-in-turn/those-before-succeed
qp rc
post SEND id=1 at=buf len=4
post SEND id=2 at=buf len=4 lkey=0xdead00
post SEND id=3 at=buf len=4
> SEND_ONLY psn=0
quiet
idle
< ACK psn=0 msn=1
done SEND id=1
done id=2 status=LOC_PROT_ERR
done id=3 status=WR_FLUSH_ERR
in ERR

== rc-requester/zero-length-sge-unchecked/alone
qp rc
post SEND id=1 at=buf+9999 len=0 lkey=0xdead00
> SEND_ONLY psn=0 size=0
< ACK psn=0
done SEND id=1

== rc-requester/zero-length-sge-unchecked/among-others
qp rc
post SEND id=1 sge=buf:4,buf+99999:0,buf+8:4
> SEND_ONLY psn=0 data=x0001020308090a0b
< ACK psn=0
done SEND id=1

== rc-requester/inline-copied/changed-after-the-post
qp rc
post SEND id=1 at=buf len=16 inline
store buf 16*0xaa
> SEND_ONLY psn=0 data=16
< ACK psn=0
done SEND id=1

== rc-requester/inline-copied/key-not-looked-at
qp rc
post SEND id=1 at=buf len=16 lkey=0xdead00 inline
> SEND_ONLY psn=0 data=16
< ACK psn=0
done SEND id=1

== rc-requester/inline-copied/all-elements
qp rc
post RDMA_WRITE id=1 sge=buf:4,buf+16:4 to=0x1000 rkey=7 inline
> WRITE_ONLY psn=0 data=x0001020310111213 len=8
< ACK psn=0
done RDMA_WRITE id=1

== rc-requester/inline-copied/sent-again
qp rc timeout=14
post SEND id=1 at=buf len=16 inline
store buf 16*0xaa
> SEND_ONLY psn=0 data=16
> SEND_ONLY psn=0 data=16
< ACK psn=0
done SEND id=1

== rc-requester/too-many-sges/one-more-than-granted
qp rc
refused EINVAL post SEND id=1 sge=buf:1,buf:1,buf:1,buf:1,buf:1,buf:1,buf:1,buf:1,buf:1,buf:1,buf:1,buf:1,buf:1,buf:1,buf:1,buf:1,buf:1,buf:1,buf:1,buf:1,buf:1,buf:1,buf:1,buf:1,buf:1,buf:1,buf:1,buf:1,buf:1,buf:1,buf:1,buf:1,buf:1,buf:1,buf:1,buf:1
quiet
in RTS

== rc-requester/message-too-long/one-element
qp rc
refused EINVAL post RDMA_WRITE id=1 at=buf len=0x80000001 to=0x1000 rkey=7
quiet
in RTS

== rc-requester/message-too-long/sum-of-elements
qp rc
refused EINVAL post RDMA_WRITE id=1 sge=buf:0x80000000,buf:1 to=0x1000 rkey=7
quiet
in RTS

== rc-requester/message-too-long/sum-wraps-32-bits
qp rc
refused EINVAL post RDMA_WRITE id=1 sge=buf:0x80000000,buf:0x80000000,buf:8 to=0x1000 rkey=7
quiet
in RTS

== rc-requester/post-state/rts-taken
qp rc
post SEND id=1 at=buf len=4
> SEND_ONLY psn=0
< ACK psn=0
done SEND id=1

== rc-requester/post-state/err-taken-and-flushed
qp rc
move ERR
post SEND id=1 at=buf len=4
done id=1 status=WR_FLUSH_ERR
quiet

== rc-requester/window-bounded/stays-behind-the-acknowledgement
qp rc mtu=256
region big len=4096
# A message is no longer than what may be under way; the second waits until the first is acknowledged.
post RDMA_WRITE id=1 at=big len=4096 to=0x1000 rkey=7
> WRITE_FIRST psn=0
> WRITE_MIDDLE psn=1
> WRITE_MIDDLE psn=2
> WRITE_MIDDLE psn=3
> WRITE_MIDDLE psn=4
> WRITE_MIDDLE psn=5
> WRITE_MIDDLE psn=6
> WRITE_MIDDLE psn=7
> WRITE_MIDDLE psn=8
> WRITE_MIDDLE psn=9
> WRITE_MIDDLE psn=10
> WRITE_MIDDLE psn=11
> WRITE_MIDDLE psn=12
> WRITE_MIDDLE psn=13
> WRITE_MIDDLE psn=14
> WRITE_LAST psn=15 ack
< ACK psn=15 msn=1
done RDMA_WRITE id=1

== rc-requester/operations-by-service/read-on-uc
qp uc
refused EINVAL post RDMA_READ id=1 at=buf len=8 to=0x1000 rkey=7
quiet
in RTS

== rc-requester/operations-by-service/write-on-ud
qp ud
refused EINVAL post RDMA_WRITE id=1 at=buf len=8 to=0x1000 rkey=7
quiet
in RTS
";
