//! What the program is told, and what is flushed.

use std::time::Duration;

use softrnic_model::verbs::{
    AsyncEvent, CqId, QpState, SendFlags, VerbError, Wc, WcFlags, WcOpcode, WcStatus,
};
use softrnic_verbs::provider::CqInit;

use super::book::{book, named};
use crate::case::{Case, Outcome, verbs};
use crate::lab::Connection;
use crate::stage::{Stage, send, wr};
use crate::{ensure, same};

/// The cases of the family.
pub(super) fn cases() -> Vec<Case> {
    let mut all = book(SCRIPTS);
    for (variant, post, packet, answer) in OPERATIONS {
        let opcode = post.split(' ').next().unwrap_or_default();
        let (needs, post) = (needs(opcode), format!("post {post} id=1"));
        all.push(named(
            &format!("completions/opcodes/{variant}"),
            format!("{needs}\nqp rc\n{post}\n> {packet} psn=0\n< {answer} psn=0 msn=1\ndone {opcode} id=1"),
        ));
        all.push(named(
            &format!("completions/unsignaled-silent/{variant}"),
            format!(
                "{needs}\nqp rc\n{post} unsignaled\n> {packet} psn=0\n< {answer} psn=0 msn=1\nquiet\nidle"
            ),
        ));
        all.push(named(
            &format!("completions/error-always/{variant}-unsignaled"),
            format!(
                "{needs}\nqp rc\n{post} unsignaled\n> {packet} psn=0\n< NAK_ACCESS psn=0\n\
                 done id=1 status=REM_ACCESS_ERR"
            ),
        ));
    }
    let functions: [(&str, &str, fn(&mut Stage) -> Outcome); 17] = [
        ("order-per-queue", "twenty-sends", twenty_in_order),
        ("success-means-done", "write", write_is_done),
        ("success-means-done", "receive", receive_is_done),
        ("overrun", "event-and-refusal", overrun),
        ("overrun-kills-qps", "both-queue-pairs", overrun_kills),
        ("overrun-keeps", "what-was-there", overrun_keeps),
        ("resize-keeps", "larger", |stage| resized(stage, 128)),
        ("resize-keeps", "smaller", |stage| resized(stage, 8)),
        ("resize-keeps", "too-small", resize_too_small),
        ("size-limits", "none", |stage| size_refused(stage, Some(0))),
        ("size-limits", "one-more-than-granted", |stage| size_refused(stage, None)),
        ("destroy-busy", "queue-pair", destroy_busy),
        ("notify-once", "one-event", notified_once),
        ("notify-solicited", "only-what-asks", notified_solicited),
        ("notify-not-narrowed", "stays", not_narrowed),
        ("notify-not-past", "what-is-there", not_past),
        ("timestamps", "not-backwards", timestamps),
    ];
    for (rule, variant, act) in functions {
        all.push(verbs(format!("completions/{rule}"), variant, act));
    }
    all.push(verbs("completions/notify-solicited", "failures-too", solicited_failures));
    all.push(verbs("completions/slot-freed-by-poll", "receives", receive_slots));
    all
}

/// Operations: called what, posted how, sent as what, answered how.
const OPERATIONS: [(&str, &str, &str, &str); 7] = [
    ("send", "SEND at=buf len=4", "SEND_ONLY", "ACK"),
    ("write", "RDMA_WRITE at=buf len=4 to=0x1000 rkey=7", "WRITE_ONLY", "ACK"),
    (
        "read",
        "RDMA_READ at=buf len=4 to=0x1000 rkey=7",
        "READ_REQUEST",
        "READ_RESPONSE_ONLY data=4*0xaa",
    ),
    (
        "compare-swap",
        "COMP_SWAP at=buf len=8 to=0x1000 rkey=7",
        "COMPARE_SWAP",
        "ATOMIC_ACKNOWLEDGE",
    ),
    ("fetch-add", "FETCH_ADD at=buf len=8 to=0x1000 rkey=7", "FETCH_ADD", "ATOMIC_ACKNOWLEDGE"),
    (
        "atomic-write",
        "ATOMIC_WRITE at=buf len=8 to=0x1000 rkey=7",
        "ATOMIC_WRITE",
        "READ_RESPONSE_ONLY",
    ),
    ("flush", "FLUSH to=0x1000 rkey=7 len=8", "FLUSH", "READ_RESPONSE_ONLY"),
];

fn needs(opcode: &str) -> &'static str {
    match opcode {
        "ATOMIC_WRITE" => "needs ATOMIC_WRITE",
        "FLUSH" => "needs FLUSH_GLOBAL",
        _ => "",
    }
}

fn twenty_in_order(stage: &mut Stage) -> Outcome {
    let [a, b] = stage.connect(&Connection::RC)?;
    for id in 0..20 {
        stage.recv(&b, 100 + id, 64 * id, 64)?;
    }
    for id in 0..20 {
        stage.post(&a, &wr(id, send()).at(0, 8))?;
    }
    for id in 0..20 {
        stage.completes(&a, id, WcStatus::Success)?;
        stage.receives(&b, 100 + id, WcStatus::Success)?;
    }
    Ok(())
}

fn write_is_done(stage: &mut Stage) -> Outcome {
    let [a, b] = stage.connect(&Connection::RC)?;
    a.store(0, &[0xaa; 5000])?;
    stage.post(&a, &wr(1, a.write(&b, 100)).at(0, 5000))?;
    stage.completes(&a, 1, WcStatus::Success)?;
    same!(b.bytes(100, 5000)?, vec![0xaa; 5000], "memory when the WRITE has completed");
    Ok(())
}

fn receive_is_done(stage: &mut Stage) -> Outcome {
    let [a, b] = stage.connect(&Connection::RC)?;
    a.store(0, &[0xaa; 5000])?;
    stage.recv(&b, 1, 0, 8000)?;
    stage.post(&a, &wr(1, send()).at(0, 5000))?;
    stage.receives(&b, 1, WcStatus::Success)?;
    same!(b.bytes(0, 5000)?, vec![0xaa; 5000], "memory when the receive has completed");
    same!(b.bytes(5000, 1)?, vec![(5000 % 256) as u8], "the byte behind");
    Ok(())
}

/// Two ends of which the first has a completion queue of two places, and 4 requests that fill it.
fn overrunning(stage: &Stage) -> Outcome<([crate::stage::End; 2], CqId)> {
    let (small, granted) = stage.verbs(0).create_cq(2, None)?;
    if granted > 64 {
        let why = format!("a queue of 2 has {granted} places");
        return Err(crate::case::Problem::NotApplicable(why));
    }
    let first = stage.end_with(0, &Connection::RC, |init| init.send_cq = small)?;
    let ends = stage.join(&Connection::RC, [first, stage.end(1, &Connection::RC)?])?;
    for id in 0..=u64::from(granted) + 1 {
        stage.post(&ends[0], &wr(id, ends[0].write(&ends[1], 0)).at(0, 8))?;
    }
    Ok((ends, small))
}

fn overrun(stage: &mut Stage) -> Outcome {
    let (_ends, small) = overrunning(stage)?;
    stage.raises(0, AsyncEvent::CqError(small))
}

fn overrun_kills(stage: &mut Stage) -> Outcome {
    let (ends, _) = overrunning(stage)?;
    stage.gets_into(&ends[0], QpState::Err)
}

fn overrun_keeps(stage: &mut Stage) -> Outcome {
    let (_ends, small) = overrunning(stage)?;
    stage.raises(0, AsyncEvent::CqError(small))?;
    let mut some = [Wc::default(); 2];
    let count = stage.verbs(0).poll_cq(small, &mut some)?;
    same!(count, 2, "completions that were there before");
    same!(
        some.map(|wc| (wc.wr_id, wc.status)),
        [(0, WcStatus::Success), (1, WcStatus::Success)],
        "they"
    );
    Ok(())
}

/// Six completions wait while the queue is resized.
fn resized(stage: &Stage, entries: u32) -> Outcome {
    let [a, b] = stage.connect(&Connection::RC)?;
    for id in 0..6 {
        stage.post(&a, &wr(id, a.write(&b, 0)).at(0, 8))?;
    }
    stage.settle();
    let granted = stage.verbs(0).resize_cq(a.send_cq, entries)?;
    ensure!(granted >= entries, "{granted} places were granted of {entries}");
    for id in 0..6 {
        stage.completes(&a, id, WcStatus::Success)?;
    }
    stage.post(&a, &wr(6, a.write(&b, 0)).at(0, 8))?;
    stage.completes(&a, 6, WcStatus::Success)?;
    Ok(())
}

fn resize_too_small(stage: &mut Stage) -> Outcome {
    let [a, b] = stage.connect(&Connection::RC)?;
    for id in 0..6 {
        stage.post(&a, &wr(id, a.write(&b, 0)).at(0, 8))?;
    }
    stage.settle();
    let refused = stage.verbs(0).resize_cq(a.send_cq, 3).map_err(VerbError::errno_name);
    same!(refused, Err("EINVAL"), "a size below what waits");
    for id in 0..6 {
        stage.completes(&a, id, WcStatus::Success)?;
    }
    Ok(())
}

fn size_refused(stage: &Stage, entries: Option<u32>) -> Outcome {
    let verbs = stage.verbs(0);
    let most = verbs.query_device()?.max_cqe;
    let entries = entries.unwrap_or(most.saturating_add(1));
    match verbs.create_cq(entries, None) {
        Ok((_, granted)) => Err(format!("{entries} places were taken, {granted} granted").into()),
        Err(error) if entries == 0 => {
            same!(error.errno_name(), "EINVAL", "a queue without places");
            Ok(())
        }
        Err(error) => {
            ensure!(
                matches!(error.errno_name(), "EINVAL" | "ENOMEM"),
                "more places than there can be: {error}"
            );
            Ok(())
        }
    }
}

fn destroy_busy(stage: &mut Stage) -> Outcome {
    let end = stage.end(0, &Connection::RC)?;
    let verbs = stage.verbs(0);
    let refused = verbs.destroy_cq(end.send_cq).map_err(VerbError::errno_name);
    same!(refused, Err("EBUSY"), "the queue of a queue pair");
    verbs.destroy_qp(end.qp)?;
    verbs.destroy_cq(end.send_cq)?;
    Ok(())
}

/// Two ends; the second receives into a queue that reports to a channel.
fn with_channel(
    stage: &Stage,
) -> Outcome<([crate::stage::End; 2], softrnic_verbs::provider::ChannelId)> {
    let verbs = stage.verbs(1);
    let channel = verbs.create_comp_channel()?;
    let (cq, _) = verbs.create_cq(64, Some(channel))?;
    let second = stage.end_with(1, &Connection::RC, |init| init.recv_cq = cq)?;
    let ends = stage.join(&Connection::RC, [stage.end(0, &Connection::RC)?, second])?;
    for id in 0..8 {
        stage.recv(&ends[1], id, 0, 64)?;
    }
    Ok((ends, channel))
}

/// Whether an event waits, or comes within a moment.
fn event(stage: &Stage, channel: softrnic_verbs::provider::ChannelId) -> Outcome<bool> {
    stage.settle();
    Ok(stage.verbs(1).get_cq_event(channel, Some(Duration::ZERO))?.is_some())
}

fn notified_once(stage: &mut Stage) -> Outcome {
    let ([a, b], channel) = with_channel(stage)?;
    stage.verbs(1).req_notify_cq(b.recv_cq, false)?;
    stage.post(&a, &wr(1, send()).at(0, 8))?;
    ensure!(event(stage, channel)?, "no event with the first completion");
    stage.post(&a, &wr(2, send()).at(0, 8))?;
    ensure!(!event(stage, channel)?, "an event that nobody asked for");
    stage.verbs(1).req_notify_cq(b.recv_cq, false)?;
    stage.post(&a, &wr(3, send()).at(0, 8))?;
    ensure!(event(stage, channel)?, "no event after asking again");
    Ok(())
}

fn notified_solicited(stage: &mut Stage) -> Outcome {
    let ([a, b], channel) = with_channel(stage)?;
    stage.verbs(1).req_notify_cq(b.recv_cq, true)?;
    stage.post(&a, &wr(1, send()).at(0, 8))?;
    ensure!(!event(stage, channel)?, "an event for a message that asks for none");
    stage.post(&a, &wr(2, send()).at(0, 8).with(SendFlags::SOLICITED))?;
    ensure!(event(stage, channel)?, "no event for a message that asks for one");
    Ok(())
}

fn solicited_failures(stage: &mut Stage) -> Outcome {
    let ([_a, b], channel) = with_channel(stage)?;
    stage.verbs(1).req_notify_cq(b.recv_cq, true)?;
    stage.move_to(&b, QpState::Err)?;
    ensure!(event(stage, channel)?, "no event for receives that were flushed");
    Ok(())
}

fn not_narrowed(stage: &mut Stage) -> Outcome {
    let ([a, b], channel) = with_channel(stage)?;
    stage.verbs(1).req_notify_cq(b.recv_cq, false)?;
    stage.verbs(1).req_notify_cq(b.recv_cq, true)?;
    stage.post(&a, &wr(1, send()).at(0, 8))?;
    ensure!(event(stage, channel)?, "asking for less has taken back what was asked before");
    Ok(())
}

fn not_past(stage: &mut Stage) -> Outcome {
    let ([a, b], channel) = with_channel(stage)?;
    stage.post(&a, &wr(1, send()).at(0, 8))?;
    stage.completes(&a, 1, WcStatus::Success)?;
    stage.settle();
    stage.verbs(1).req_notify_cq(b.recv_cq, false)?;
    ensure!(!event(stage, channel)?, "an event for a completion that was there before");
    Ok(())
}

fn timestamps(stage: &mut Stage) -> Outcome {
    let verbs = stage.verbs(0);
    let init = CqInit { entries: 64, channel: None, timestamps: true };
    let (cq, _) = verbs.create_cq_ex(&init)?;
    let first = stage.end_with(0, &Connection::RC, |init| init.send_cq = cq)?;
    let [a, b] = stage.join(&Connection::RC, [first, stage.end(1, &Connection::RC)?])?;
    let before = stage.verbs(0).query_clock()?;
    for id in 0..10 {
        stage.post(&a, &wr(id, a.write(&b, 0)).at(0, 8))?;
    }
    let all = stage.take(&a, cq, 10)?;
    let after = stage.verbs(0).query_clock()?;
    let mut last = before;
    for wc in &all {
        ensure!(
            wc.timestamp >= last,
            "request {} completed at {} after {last}",
            wc.wr_id,
            wc.timestamp
        );
        last = wc.timestamp;
    }
    ensure!(last <= after, "the last completed at {last}, and now it is {after}");
    Ok(())
}

fn receive_slots(stage: &mut Stage) -> Outcome {
    let [a, b] = stage.connect(&Connection::RC)?;
    let places = u64::from(crate::lab::CAPABILITIES.max_recv_wr);
    for id in 0..places {
        stage.recv(&b, id, 0, 64)?;
    }
    stage.post(&a, &wr(1, send()).at(0, 8))?;
    let wc = stage.receives(&b, 0, WcStatus::Success)?;
    same!((wc.opcode, wc.byte_len, wc.flags), (WcOpcode::Recv, 8, WcFlags::empty()), "the receive");
    stage.recv(&b, places, 0, 64)
}

const SCRIPTS: &str = r"
== completions/one-per-signaled/three
qp rc
post SEND id=1 at=buf len=4
post SEND id=2 at=buf len=4
post SEND id=3 at=buf len=4
> SEND_ONLY psn=0
> SEND_ONLY psn=1
> SEND_ONLY psn=2
< ACK psn=2 msn=3
done SEND id=1
done SEND id=2
done SEND id=3
quiet
idle

== completions/one-per-signaled/message-of-many-packets
qp rc
post RDMA_WRITE id=1 at=buf len=1000 to=0x1000 rkey=7
> WRITE_FIRST psn=0
> WRITE_MIDDLE psn=1
> WRITE_MIDDLE psn=2
> WRITE_LAST psn=3
< ACK psn=0
< ACK psn=2
quiet
idle
< ACK psn=3 msn=1
done RDMA_WRITE id=1
quiet
idle

== completions/one-per-signaled/acknowledged-twice
qp rc
post SEND id=1 at=buf len=4
> SEND_ONLY psn=0
< ACK psn=0 msn=1
< ACK psn=0 msn=1
done SEND id=1
quiet
idle

== completions/receive-always/of-nothing
qp rc
recv id=1 at=buf len=64
< SEND_ONLY psn=0 ack
> ACK psn=0
done RECV id=1 len=0

== completions/receive-always/flushed
qp rc
recv id=1 at=buf len=64
move ERR
done id=1 status=WR_FLUSH_ERR
quiet
idle

== completions/opcodes/receive
qp rc
recv id=1 at=buf len=64
< SEND_ONLY psn=0 data=4*0xaa ack
> ACK psn=0
done RECV id=1

== completions/opcodes/receive-with-immediate
qp rc
recv id=1 at=buf len=64
< SEND_ONLY_WITH_IMMEDIATE psn=0 imm=1 data=4*0xaa ack
> ACK psn=0
done RECV id=1

== completions/opcodes/write-with-immediate-received
qp rc
recv id=1
< WRITE_ONLY_WITH_IMMEDIATE psn=0 imm=1 data=4*0xaa ack
> ACK psn=0
done RECV_RDMA_WITH_IMM id=1

== completions/byte-len/receive
qp rc
recv id=1 at=buf len=1024
< SEND_FIRST psn=0 data=256*0xaa
< SEND_LAST psn=1 data=7*0xaa ack
> ACK psn=1
done RECV id=1 len=263

== completions/byte-len/read
qp rc
post RDMA_READ id=1 at=buf len=7 to=0x1000 rkey=7
> READ_REQUEST psn=0
< READ_RESPONSE_ONLY psn=0 data=7*0xaa msn=1
done RDMA_READ id=1 len=7

== completions/byte-len/atomic
qp rc
post FETCH_ADD id=1 at=buf len=8 to=0x1000 rkey=7
> FETCH_ADD psn=0
< ATOMIC_ACKNOWLEDGE psn=0 msn=1
done FETCH_ADD id=1 len=8

== completions/imm-flag/receive
qp rc
recv id=1 at=buf len=64
< SEND_ONLY_WITH_IMMEDIATE psn=0 imm=0xa1b2c3d4 data=4*0xaa ack
> ACK psn=0
done RECV id=1 imm=0xa1b2c3d4 flags=WITH_IMM

== completions/imm-flag/receive-without
qp rc
recv id=1 at=buf len=64
< SEND_ONLY psn=0 data=4*0xaa ack
> ACK psn=0
done RECV id=1 flags=-

== completions/imm-flag/not-on-the-send
qp rc
post SEND id=1 at=buf len=4 imm=5
> SEND_ONLY_WITH_IMMEDIATE psn=0 imm=5
< ACK psn=0 msn=1
done SEND id=1 flags=-

== completions/imm-flag/not-on-the-write
qp rc
post RDMA_WRITE id=1 at=buf len=4 to=0x1000 rkey=7 imm=5
> WRITE_ONLY_WITH_IMMEDIATE psn=0 imm=5
< ACK psn=0 msn=1
done RDMA_WRITE id=1 flags=-

== completions/inv-flag/receive
needs MEM_WINDOW_TYPE_2A
qp rc
window win type=2
post BIND_MW id=7 window=win to=buf len=64 rights=wr variant=9
done BIND_MW id=7
recv id=1 at=buf+512 len=64
< SEND_ONLY_WITH_INVALIDATE psn=0 inv=win data=4*0xaa ack
> ACK psn=0 msn=1
done RECV id=1 len=4 inv=win flags=WITH_INV

== completions/grh-flag/not-on-rc
qp rc
recv id=1 at=buf len=64
< SEND_ONLY psn=0 data=4*0xaa ack
> ACK psn=0
done RECV id=1 flags=-

== completions/grh-flag/not-on-uc
qp uc
recv id=1 at=buf len=64
< SEND_ONLY psn=0 data=4*0xaa
done RECV id=1 flags=-

== completions/grh-flag/on-ud
qp ud
recv id=1 at=buf len=128
< SEND_ONLY data=4*0xaa
done RECV id=1 len=44 flags=GRH

== completions/failed-fields/id-and-status-hold
qp rc
post SEND id=0x1122334455667788 at=buf len=4
> SEND_ONLY psn=0
< NAK_OPERATION psn=0
done id=0x1122334455667788 status=REM_OP_ERR qp=qp

== completions/failed-fields/flushed-receive
qp rc
recv id=0x99 at=buf len=64
move ERR
done id=0x99 status=WR_FLUSH_ERR qp=qp

== completions/first-error-cause/then-flushes
qp rc
post SEND id=1 at=buf len=4
post SEND id=2 at=buf len=4
post SEND id=3 at=buf len=4 unsignaled
> SEND_ONLY psn=0
> SEND_ONLY psn=1
> SEND_ONLY psn=2
< NAK_OPERATION psn=0
done id=1 status=REM_OP_ERR
done id=2 status=WR_FLUSH_ERR
done id=3 status=WR_FLUSH_ERR
quiet
idle

== completions/first-error-cause/local-fault
qp rc
post SEND id=1 at=buf len=4 lkey=0xdead00
post SEND id=2 at=buf len=4
done id=1 status=LOC_PROT_ERR
done id=2 status=WR_FLUSH_ERR

== completions/flush-both-queues/moved-to-error
qp rc
recv id=11 at=buf len=64
recv id=12 at=buf len=64
post SEND id=1 at=buf len=4
> SEND_ONLY psn=0
move ERR
done id=1 status=WR_FLUSH_ERR
done id=11 status=WR_FLUSH_ERR
done id=12 status=WR_FLUSH_ERR
quiet
idle

== completions/flush-both-queues/uc
qp uc
recv id=11 at=buf len=64
move ERR
post SEND id=1 at=buf len=4
done id=11 status=WR_FLUSH_ERR
done id=1 status=WR_FLUSH_ERR
quiet
idle

== completions/flush-both-queues/posted-later
qp rc
move ERR
recv id=11 at=buf len=64
post SEND id=1 at=buf len=4
post RDMA_READ id=2 at=buf len=4 to=0x1000 rkey=7 unsignaled
done id=11 status=WR_FLUSH_ERR
done id=1 status=WR_FLUSH_ERR
done id=2 status=WR_FLUSH_ERR
quiet

== completions/flush-partial-receive/moved-to-error
qp rc
recv id=1 at=buf len=1024
recv id=2 at=buf len=1024
< SEND_FIRST psn=0 data=256*0xaa ack
> ACK psn=0 msn=0
move ERR
done id=1 status=WR_FLUSH_ERR
done id=2 status=WR_FLUSH_ERR
quiet
idle

== completions/flush-partial-receive/refused-in-the-middle
qp rc
recv id=1 at=buf len=1024
< SEND_FIRST psn=0 data=256*0xaa ack
> ACK psn=0 msn=0
< SEND_MIDDLE psn=1 data=252*0xbb ack
> NAK_INVALID psn=1
done id=1 status=WR_FLUSH_ERR
quiet
idle

== completions/order-per-queue/unsignaled-between
qp rc
post SEND id=1 at=buf len=4
post SEND id=2 at=buf len=4 unsignaled
post SEND id=3 at=buf len=4
> SEND_ONLY psn=0
> SEND_ONLY psn=1
> SEND_ONLY psn=2
< ACK psn=2 msn=3
done SEND id=1
done SEND id=3
quiet
idle
";
