//! What happens in a state, and on the way to it.

use softrnic_model::verbs::{
    AsyncEvent, QpAttributeMask as Mask, QpState, QpType, RecvWr, WcStatus,
};

use super::super::qp_attributes::{connection, end, fail_a_send, reach, type_name};
use crate::case::{Case, Outcome, script, verbs};
use crate::lab::Connection;
use crate::stage::{End, Stage, send, wr};
use crate::{ensure, same};

use QpState::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};
use WcStatus::{Success, WorkRequestFlushed};

pub(super) fn cases() -> Vec<Case> {
    let mut all = vec![
        verbs("qp-states/init-receives-wait", "filled-in-rtr", init_receives_wait),
        verbs("qp-states/rts-both", "at-once", both_directions),
        verbs("qp-states/sqd-drains", "nothing-new-begins", sqd_waits),
        verbs("qp-states/sqd-drains", "receives-on", sqd_receives),
        verbs("qp-states/sqd-event", "asked-for", |stage| sqd_event(stage, true)),
        verbs("events/sq-drained", "names-its-queue-pair", |stage| sqd_event(stage, true)),
        verbs("qp-states/sqd-event", "not-asked-for", |stage| sqd_event(stage, false)),
        verbs("qp-states/sqd-resumes", "in-order", sqd_resumes),
        verbs("qp-states/to-reset-forgets", "completions", reset_forgets_completions),
        verbs("qp-states/to-reset-forgets", "requests", reset_forgets_requests),
        verbs("qp-states/reset-attributes", "whole-way-again", whole_way_again),
        verbs("qp-states/query-state", "both-fields", query_state),
        verbs("qp-states/destroy", "number-is-gone", destroyed),
        verbs("qp-states/destroy", "with-requests-under-way", destroyed_under_way),
        verbs("qp-states/number-unique", "256-of-them", unique_numbers),
        verbs("qp-states/all-or-nothing", "good-and-bad-value", all_or_nothing),
    ];
    for of in [QpType::Rc, QpType::Uc, QpType::Ud] {
        let called = type_name(of);
        all.push(verbs("qp-states/reset-recv-refused", called, move |s| reset_recv(s, of)));
        all.push(verbs("qp-states/err-flushes", called, move |s| err_flushes(s, of)));
        all.push(verbs("qp-states/err-post-flushed", called, move |s| err_post(s, of)));
    }
    for of in [QpType::Uc, QpType::Ud] {
        let called = type_name(of);
        all.push(verbs("qp-states/sqe-receives", called, move |s| sqe_flushes(s, of)));
        all.push(verbs("qp-states/sqe-to-rts", called, move |s| sqe_to_rts(s, of)));
    }
    for (rule, variant, text) in SCRIPTS {
        all.push(script(*rule, *variant, *text));
    }
    all
}

/// What is seen from the wire: rule, variant, script.
const SCRIPTS: &[(&str, &str, &str)] = &[
    (
        "qp-states/init-drops",
        "request",
        "qp rc to=INIT
         < WRITE_ONLY psn=0 va=buf rkey=buf data=8*0xaa ack
         quiet
         holds buf 64
         in INIT",
    ),
    (
        "qp-states/init-drops",
        "datagram",
        "qp ud to=INIT
         recv id=1 at=buf len=100
         < SEND_ONLY data=8*0xaa
         quiet
         idle",
    ),
    (
        "qp-states/rtr-receives",
        "answers",
        "qp rc to=RTR
         < WRITE_ONLY psn=0 va=buf rkey=buf data=8*0xaa ack
         > ACK psn=0
         < READ_REQUEST psn=1 va=buf rkey=buf len=8
         > READ_RESPONSE_ONLY psn=1 data=8*0xaa
         in RTR",
    ),
    (
        "qp-states/rtr-receives",
        "no-sends",
        "qp rc to=RTR
         refused EINVAL post SEND id=1 at=buf len=8
         quiet
         idle",
    ),
    (
        "qp-states/err-drops",
        "request",
        "qp rc
         move ERR
         < WRITE_ONLY psn=0 va=buf rkey=buf data=8*0xaa ack
         quiet
         holds buf 64",
    ),
    (
        "qp-states/err-drops",
        "response",
        "qp rc
         post SEND id=1 at=buf len=8
         > SEND_ONLY psn=0
         move ERR
         done id=1 status=WR_FLUSH_ERR
         < ACK psn=0
         quiet
         idle",
    ),
    (
        "qp-states/err-drops",
        "datagram",
        "qp ud
         move ERR
         < SEND_ONLY data=8*0xaa
         quiet
         in ERR",
    ),
    (
        "qp-states/sqd-drains",
        "begun-is-finished",
        "qp rc
         post SEND id=1 at=buf len=8
         > SEND_ONLY psn=0
         move SQD
         post SEND id=2 at=buf len=8
         quiet
         < ACK psn=0
         done SEND id=1
         idle
         quiet
         move RTS
         > SEND_ONLY psn=1
         < ACK psn=1
         done SEND id=2",
    ),
    (
        "qp-states/sqd-event",
        "silent-unless-asked",
        "qp rc
         post SEND id=1 at=buf len=8
         > SEND_ONLY psn=0
         move SQD
         no-event SQ_DRAINED
         < ACK psn=0
         done SEND id=1",
    ),
];

/// A SEND or datagram to the other end.
fn message(of: QpType, from: &End, to: &End, id: u64) -> crate::stage::Wr {
    let op = if of == QpType::Ud { from.datagram(to, Connection::UD.qkey) } else { send() };
    wr(id, op).at(0, 8)
}

fn reset_recv(stage: &Stage, of: QpType) -> Outcome {
    let mut own = end(stage, 0, of)?;
    let refused = stage.verbs(0).post_recv(own.qp, &[RecvWr { wr_id: 1, sges: &[] }]);
    ensure!(
        refused.is_err_and(|r| r.error.errno_name() == "EINVAL"),
        "a receive was taken in RESET"
    );
    let (_, peer) = stage.address(1)?;
    let nobody = softrnic_model::verbs::QpNum::new(0x4321);
    stage.bring_up(&mut own, (peer, nobody), &connection(of), Init)?;
    stage.recv(&own, 1, 0, 64)
}

fn init_receives_wait(stage: &mut Stage) -> Outcome {
    let connection = Connection::RC;
    let [mut a, mut b] = [stage.end(0, &connection)?, stage.end(1, &connection)?];
    let names = [(a.gid, a.qp), (b.gid, b.qp)];
    stage.bring_up(&mut b, names[0], &connection, Init)?;
    stage.recv(&b, 7, 0, 64)?;
    stage.stays_idle(&b)?;
    let steps = connection.steps(1, path(stage, &b, &a)?, a.qp);
    stage.verbs(1).modify_qp(b.qp, &steps[1].attributes, steps[1].mask)?;
    stage.bring_up(&mut a, names[1], &connection, Rts)?;
    stage.post(&a, &wr(1, send()).at(100, 8))?;
    stage.completes(&a, 1, Success)?;
    let received = stage.receives(&b, 7, Success)?;
    same!(received.byte_len, 8, "byte_len");
    same!(b.bytes(0, 8)?, a.bytes(100, 8)?, "what was received");
    Ok(())
}

fn path(stage: &Stage, from: &End, to: &End) -> Outcome<softrnic_model::verbs::AddressVector> {
    let (_, dgid) = stage.address(to.device)?;
    Ok(softrnic_model::verbs::AddressVector {
        dgid,
        sgid_index: from.sgid_index,
        hop_limit: 64,
        ..Default::default()
    })
}

fn both_directions(stage: &mut Stage) -> Outcome {
    let [a, b] = stage.connect(&Connection::RC)?;
    stage.recv(&a, 1, 0, 64)?;
    stage.recv(&b, 2, 0, 64)?;
    stage.post(&a, &wr(3, send()).at(1000, 8))?;
    stage.post(&b, &wr(4, send()).at(2000, 16))?;
    stage.completes(&a, 3, Success)?;
    stage.completes(&b, 4, Success)?;
    same!(stage.receives(&a, 1, Success)?.byte_len, 16, "byte_len at the first");
    same!(stage.receives(&b, 2, Success)?.byte_len, 8, "byte_len at the second");
    Ok(())
}

fn sqd_waits(stage: &mut Stage) -> Outcome {
    let [a, b] = stage.connect(&Connection::RC)?;
    stage.move_to(&a, Sqd)?;
    stage.post(&a, &wr(1, a.write(&b, 0)).at(100, 8))?;
    let before = b.bytes(0, 8)?;
    stage.stays_idle(&a)?;
    same!(b.bytes(0, 8)?, before, "memory of the peer");
    Ok(())
}

fn sqd_receives(stage: &mut Stage) -> Outcome {
    let [a, b] = stage.connect(&Connection::RC)?;
    stage.recv(&a, 7, 0, 64)?;
    stage.move_to(&a, Sqd)?;
    stage.post(&b, &wr(1, send()).at(0, 8))?;
    stage.completes(&b, 1, Success)?;
    stage.receives(&a, 7, Success)?;
    Ok(())
}

fn sqd_event(stage: &Stage, asked: bool) -> Outcome {
    let [a, b] = stage.connect(&Connection::RC)?;
    stage.post(&a, &wr(1, a.write(&b, 0)).at(0, 60_000))?;
    stage.modify(&a, Mask::STATE | Mask::EN_SQD_ASYNC_NOTIFY, |attributes| {
        attributes.state = Sqd;
        attributes.sq_drained_event = asked;
    })?;
    stage.completes(&a, 1, Success)?;
    let drained = AsyncEvent::SqDrained(a.qp);
    if asked {
        stage.raises(0, drained)?;
    }
    stage.settle();
    ensure!(!stage.events(0)?.contains(&drained), "the event was raised once too often");
    Ok(())
}

fn sqd_resumes(stage: &mut Stage) -> Outcome {
    let [a, b] = stage.connect(&Connection::RC)?;
    stage.move_to(&a, Sqd)?;
    for id in 1..=3 {
        stage.recv(&b, id, 64 * id, 64)?;
        stage.post(&a, &wr(id, send()).at(100 * id, 8))?;
    }
    stage.stays_idle(&a)?;
    stage.move_to(&a, Rts)?;
    for id in 1..=3 {
        stage.completes(&a, id, Success)?;
        stage.receives(&b, id, Success)?;
    }
    Ok(())
}

fn sqe_flushes(stage: &Stage, of: QpType) -> Outcome {
    let [a, b] = stage.connect(&connection(of))?;
    fail_a_send(stage, &a, 1)?;
    stage.gets_into(&a, Sqe)?;
    stage.post(&a, &message(of, &a, &b, 2))?;
    stage.completes(&a, 2, WorkRequestFlushed)?;
    stage.recv(&a, 7, 0, 100)?;
    stage.post(&b, &message(of, &b, &a, 3))?;
    stage.receives(&a, 7, Success)?;
    same!(stage.state(&a)?, Sqe, "state");
    Ok(())
}

fn sqe_to_rts(stage: &Stage, of: QpType) -> Outcome {
    let [a, b] = stage.connect(&connection(of))?;
    fail_a_send(stage, &a, 1)?;
    stage.gets_into(&a, Sqe)?;
    stage.move_to(&a, Rts)?;
    stage.recv(&b, 7, 0, 100)?;
    stage.post(&a, &message(of, &a, &b, 2))?;
    stage.completes(&a, 2, Success)?;
    stage.receives(&b, 7, Success)?;
    Ok(())
}

fn err_flushes(stage: &Stage, of: QpType) -> Outcome {
    let [a, b] = stage.connect(&connection(of))?;
    stage.move_to(&a, Sqd)?;
    for id in 1..=3 {
        stage.recv(&a, 10 + id, 0, 64)?;
        stage.post(&a, &message(of, &a, &b, id))?;
    }
    stage.move_to(&a, Err)?;
    for id in 1..=3 {
        stage.completes(&a, id, WorkRequestFlushed)?;
        stage.receives(&a, 10 + id, WorkRequestFlushed)?;
    }
    stage.stays_idle(&a)
}

fn err_post(stage: &Stage, of: QpType) -> Outcome {
    let [a, b] = stage.connect(&connection(of))?;
    stage.move_to(&a, Err)?;
    stage.post(&a, &message(of, &a, &b, 1))?;
    stage.post(&a, &message(of, &a, &b, 2).unsignaled())?;
    stage.recv(&a, 3, 0, 64)?;
    stage.completes(&a, 1, WorkRequestFlushed)?;
    stage.completes(&a, 2, WorkRequestFlushed)?;
    stage.receives(&a, 3, WorkRequestFlushed)?;
    stage.stays_idle(&a)
}

fn reset_forgets_completions(stage: &mut Stage) -> Outcome {
    let [a, b] = stage.connect(&Connection::RC)?;
    stage.post(&a, &wr(1, a.write(&b, 0)).at(100, 8).unsignaled())?;
    stage.post(&a, &wr(2, a.write(&b, 0)).at(100, 8))?;
    stage.becomes(|| Ok(b.bytes(0, 8)? == a.bytes(100, 8)?), || "nothing was written".into())?;
    stage.settle();
    stage.move_to(&a, Reset)?;
    stage.stays_idle(&a)
}

fn reset_forgets_requests(stage: &mut Stage) -> Outcome {
    let [a, b] = stage.connect(&Connection::RC)?;
    stage.move_to(&a, Sqd)?;
    stage.recv(&a, 9, 0, 64)?;
    stage.post(&a, &wr(1, a.write(&b, 0)).at(100, 8))?;
    let before = b.bytes(0, 8)?;
    stage.move_to(&a, Reset)?;
    stage.stays_idle(&a)?;
    same!(b.bytes(0, 8)?, before, "memory of the peer");
    Ok(())
}

fn whole_way_again(stage: &mut Stage) -> Outcome {
    let connection = Connection::RC;
    let [mut a, mut b] = stage.connect(&connection)?;
    stage.move_to(&a, Reset)?;
    stage.move_to(&b, Reset)?;
    ensure!(stage.move_to(&a, Rtr).is_err(), "it went from RESET to RTR");
    ensure!(stage.move_to(&a, Rts).is_err(), "it went from RESET to RTS");
    let fresh = stage.verbs(0).query_qp(a.qp)?.0;
    same!(fresh.access, softrnic_model::verbs::Access::empty(), "rights after RESET");
    let again = Connection { psn: [softrnic_model::verbs::Psn::new(0x777); 2], ..connection };
    let names = [(a.gid, a.qp), (b.gid, b.qp)];
    stage.bring_up(&mut a, names[1], &again, Rts)?;
    stage.bring_up(&mut b, names[0], &again, Rts)?;
    stage.post(&a, &wr(1, a.write(&b, 0)).at(100, 8))?;
    stage.completes(&a, 1, Success)?;
    same!(b.bytes(0, 8)?, a.bytes(100, 8)?, "what was written");
    Ok(())
}

fn query_state(stage: &mut Stage) -> Outcome {
    for state in [Reset, Init, Rtr, Rts, Sqd, Err] {
        let end = reach(stage, QpType::Rc, state)?;
        let attributes = stage.verbs(0).query_qp(end.qp)?.0;
        same!((attributes.state, attributes.current_state), (state, state), "state");
    }
    Ok(())
}

fn destroyed(stage: &mut Stage) -> Outcome {
    for state in [Reset, Init, Rtr, Rts, Sqd, Err] {
        let end = reach(stage, QpType::Rc, state)?;
        let verbs = stage.verbs(0);
        verbs.destroy_qp(end.qp)?;
        let gone = [
            verbs.query_qp(end.qp).err(),
            verbs.destroy_qp(end.qp).err(),
            stage.move_to(&end, Err).err(),
        ];
        ensure!(gone.iter().all(Option::is_some), "it is still there: {gone:?}");
    }
    Ok(())
}

fn destroyed_under_way(stage: &mut Stage) -> Outcome {
    let connection = Connection { timeout: 8, retry_count: 1, ..Connection::RC };
    let [a, b] = stage.connect(&connection)?;
    stage.verbs(1).destroy_qp(b.qp)?;
    stage.post(&a, &wr(1, a.write(&b, 0)).at(0, 30_000))?;
    stage.verbs(0).destroy_qp(a.qp)?;
    // Timers that ran for it do nothing any more.
    stage.settle();
    stage.stays_idle(&a)
}

fn unique_numbers(stage: &mut Stage) -> Outcome {
    let mut numbers = std::collections::BTreeSet::new();
    let first = end(stage, 0, QpType::Rc)?;
    let init = stage.verbs(0).query_qp(first.qp)?.1;
    numbers.insert(first.qp.get());
    for _ in 1..256 {
        let (qp, _) = stage.verbs(0).create_qp(&init)?;
        ensure!(qp.get() > 1 && qp.get() < 0xff_ffff, "queue pair number {:#x}", qp.get());
        ensure!(numbers.insert(qp.get()), "queue pair number {:#x} was given twice", qp.get());
    }
    Ok(())
}

fn all_or_nothing(stage: &mut Stage) -> Outcome {
    let end = reach(stage, QpType::Rc, Init)?;
    let before = stage.verbs(0).query_qp(end.qp)?.0;
    let refused = stage.modify(&end, Mask::PORT | Mask::ACCESS_FLAGS, |attributes| {
        attributes.access = softrnic_model::verbs::Access::REMOTE_READ;
        attributes.port = 9;
    });
    ensure!(refused.is_err(), "port 9 was taken");
    same!(stage.verbs(0).query_qp(end.qp)?.0, before, "attributes");
    Ok(())
}
