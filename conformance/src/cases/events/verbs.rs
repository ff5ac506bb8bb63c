//! Completion events and asynchronous events, as a program waits for them.

use std::time::Duration;

use softrnic_model::verbs::{AsyncEvent, CqId, QpState, SendFlags, Wc, WcStatus};
use softrnic_verbs::provider::ChannelId;

use crate::case::{Case, Outcome, verbs};
use crate::ensure;
use crate::lab::Connection;
use crate::stage::{End, Stage, send, wr};

use WcStatus::Success;

pub(super) fn cases() -> Vec<Case> {
    vec![
        verbs("events/completion-event", "send", completion_event),
        verbs("events/completion-event", "not-armed", not_armed),
        verbs("events/destroyed-object", "queue-pair", destroyed_object),
        verbs("events/events-in-order", "two-queue-pairs", in_order),
        verbs("events/fatal", "memory-of-a-receive", fatal_is_not_raised_with_a_completion),
        verbs("events/cq-error", "once", overrun),
        verbs("completions/overrun", "takes-nothing-more", overrun_takes_nothing_more),
        verbs("completions/overrun-kills-qps", "both-users", overrun_kills),
        verbs("completions/notify-once", "second-completion", notify_once),
        verbs("completions/notify-solicited", "plain-message", |stage| solicited(stage, false)),
        verbs("completions/notify-solicited", "solicited-message", |stage| solicited(stage, true)),
        verbs("completions/notify-solicited", "failed-completion", solicited_failure),
        verbs("completions/notify-not-narrowed", "every-then-solicited", not_narrowed),
        verbs("completions/notify-not-past", "already-there", not_past),
    ]
}

/// An end whose sends complete in a queue that is too small, overrun: and what it holds.
fn overrun_end(stage: &Stage) -> Outcome<(End, CqId, u32)> {
    let (cq, granted) = stage.verbs(0).create_cq(2, None)?;
    let a = stage.end_with(0, &Connection::RC, |init| init.send_cq = cq)?;
    let b = stage.end(1, &Connection::RC)?;
    let [a, _b] = stage.join(&Connection::RC, [a, b])?;
    stage.move_to(&a, QpState::Sqd)?;
    for id in 0..=u64::from(granted) {
        stage.post(&a, &wr(id, send()).at(0, 8))?;
    }
    // All of them are flushed, which is one too many.
    stage.move_to(&a, QpState::Err)?;
    Ok((a, cq, granted))
}

fn overrun(stage: &mut Stage) -> Outcome {
    let (_a, cq, _) = overrun_end(stage)?;
    stage.raises(0, AsyncEvent::CqError(cq))?;
    stage.settle();
    ensure!(!stage.events(0)?.contains(&AsyncEvent::CqError(cq)), "it was raised twice");
    Ok(())
}

fn overrun_takes_nothing_more(stage: &mut Stage) -> Outcome {
    let (a, cq, granted) = overrun_end(stage)?;
    stage.raises(0, AsyncEvent::CqError(cq))?;
    stage.post(&a, &wr(99, send()).at(0, 8))?;
    let mut taken = [Wc::default(); 64];
    let mut count = 0;
    // The queue cannot be used any more: what is not told as an error was there before.
    while let Ok(more @ 1..) = stage.verbs(0).poll_cq(cq, &mut taken[count..]) {
        count += more;
    }
    ensure!(count <= granted as usize, "{count} completions came out of a queue of {granted}");
    ensure!(taken[..count].iter().all(|wc| wc.wr_id != 99), "a completion came after the overrun");
    Ok(())
}

fn overrun_kills(stage: &mut Stage) -> Outcome {
    let (cq, granted) = stage.verbs(0).create_cq(2, None)?;
    let end = |stage: &Stage| stage.end_with(0, &Connection::RC, |init| init.send_cq = cq);
    let [a, _peer] = stage.join(&Connection::RC, [end(stage)?, stage.end(1, &Connection::RC)?])?;
    let [other, _] = stage.join(&Connection::RC, [end(stage)?, stage.end(1, &Connection::RC)?])?;
    stage.move_to(&a, QpState::Sqd)?;
    for id in 0..=u64::from(granted) {
        stage.post(&a, &wr(id, send()).at(0, 8))?;
    }
    stage.move_to(&a, QpState::Err)?;
    stage.gets_into(&other, QpState::Err)
}

/// Two ends; the receives of the second report to a channel.
fn with_channel(stage: &Stage) -> Outcome<([End; 2], ChannelId)> {
    let channel = stage.verbs(1).create_comp_channel()?;
    let (cq, _) = stage.verbs(1).create_cq(64, Some(channel))?;
    let a = stage.end(0, &Connection::RC)?;
    let b = stage.end_with(1, &Connection::RC, |init| init.recv_cq = cq)?;
    Ok((stage.join(&Connection::RC, [a, b])?, channel))
}

fn event(stage: &Stage, channel: ChannelId) -> Outcome<bool> {
    Ok(stage.verbs(1).get_cq_event(channel, Some(Duration::ZERO))?.is_some())
}

fn wakes(stage: &Stage, channel: ChannelId) -> Outcome {
    stage.becomes(|| event(stage, channel), || "no completion event came".into())
}

fn stays_asleep(stage: &Stage, channel: ChannelId) -> Outcome {
    stage.settle();
    ensure!(!event(stage, channel)?, "a completion event came that should not");
    Ok(())
}

fn message(stage: &Stage, [a, b]: &[End; 2], id: u64, flags: SendFlags) -> Outcome {
    stage.recv(b, id, 0, 64)?;
    stage.post(a, &wr(id, send()).at(0, 8).with(flags))?;
    stage.completes(a, id, Success)?;
    Ok(())
}

fn completion_event(stage: &mut Stage) -> Outcome {
    let (ends, channel) = with_channel(stage)?;
    stage.verbs(1).req_notify_cq(ends[1].recv_cq, false)?;
    stays_asleep(stage, channel)?;
    message(stage, &ends, 1, SendFlags::empty())?;
    wakes(stage, channel)?;
    stays_asleep(stage, channel)?;
    stage.receives(&ends[1], 1, Success)?;
    Ok(())
}

fn not_armed(stage: &mut Stage) -> Outcome {
    let (ends, channel) = with_channel(stage)?;
    message(stage, &ends, 1, SendFlags::empty())?;
    stage.receives(&ends[1], 1, Success)?;
    stays_asleep(stage, channel)
}

fn notify_once(stage: &mut Stage) -> Outcome {
    let (ends, channel) = with_channel(stage)?;
    stage.verbs(1).req_notify_cq(ends[1].recv_cq, false)?;
    message(stage, &ends, 1, SendFlags::empty())?;
    wakes(stage, channel)?;
    message(stage, &ends, 2, SendFlags::empty())?;
    stays_asleep(stage, channel)
}

fn solicited(stage: &Stage, asked: bool) -> Outcome {
    let (ends, channel) = with_channel(stage)?;
    stage.verbs(1).req_notify_cq(ends[1].recv_cq, true)?;
    let flags = if asked { SendFlags::SOLICITED } else { SendFlags::empty() };
    message(stage, &ends, 1, flags)?;
    if asked { wakes(stage, channel) } else { stays_asleep(stage, channel) }
}

fn solicited_failure(stage: &mut Stage) -> Outcome {
    let (ends, channel) = with_channel(stage)?;
    stage.recv(&ends[1], 1, 0, 64)?;
    stage.verbs(1).req_notify_cq(ends[1].recv_cq, true)?;
    stage.move_to(&ends[1], QpState::Err)?;
    wakes(stage, channel)
}

fn not_narrowed(stage: &mut Stage) -> Outcome {
    let (ends, channel) = with_channel(stage)?;
    stage.verbs(1).req_notify_cq(ends[1].recv_cq, false)?;
    stage.verbs(1).req_notify_cq(ends[1].recv_cq, true)?;
    message(stage, &ends, 1, SendFlags::empty())?;
    wakes(stage, channel)
}

fn not_past(stage: &mut Stage) -> Outcome {
    let (ends, channel) = with_channel(stage)?;
    message(stage, &ends, 1, SendFlags::empty())?;
    stage.settle();
    stage.verbs(1).req_notify_cq(ends[1].recv_cq, false)?;
    stays_asleep(stage, channel)?;
    message(stage, &ends, 2, SendFlags::empty())?;
    wakes(stage, channel)
}

fn destroyed_object(stage: &mut Stage) -> Outcome {
    let [a, b] = stage.connect(&Connection::RC)?;
    // It raises an event that nobody takes, and goes.
    let op = softrnic_model::verbs::SendOp::Write {
        remote_addr: 0,
        rkey: softrnic_model::verbs::Key(0xdead_0000),
        imm: None,
    };
    stage.post(&a, &wr(1, op).at(0, 8))?;
    stage.completes(&a, 1, WcStatus::RemoteAccessError)?;
    stage.gets_into(&b, QpState::Err)?;
    stage.verbs(1).destroy_qp(b.qp)?;
    for event in stage.events(1)? {
        let names_it =
            matches!(event.subject(), softrnic_model::verbs::Subject::Qp(qp) if qp == b.qp);
        ensure!(!names_it, "{event:?} names a queue pair that was destroyed before");
    }
    Ok(())
}

fn in_order(stage: &mut Stage) -> Outcome {
    let ends = [stage.connect(&Connection::RC)?, stage.connect(&Connection::RC)?];
    let mut expected = Vec::new();
    for [a, b] in &ends {
        let op = softrnic_model::verbs::SendOp::Read {
            remote_addr: 0,
            rkey: softrnic_model::verbs::Key(0xdead_0000),
        };
        stage.post(a, &wr(1, op).at(0, 8))?;
        stage.completes(a, 1, WcStatus::RemoteAccessError)?;
        stage.gets_into(b, QpState::Err)?;
        expected.push(AsyncEvent::QpAccessError(b.qp));
    }
    stage.settle();
    let mut events = stage.events(1)?;
    events.retain(|event| expected.contains(event));
    // A device that does not tell of refusals tells none of them.
    ensure!(events.is_empty() || events == expected, "{events:?}, expected {expected:?}");
    Ok(())
}

/// A receive whose memory cannot be written tells so by its completion.
fn fatal_is_not_raised_with_a_completion(stage: &mut Stage) -> Outcome {
    let [a, b] = stage.connect(&Connection::RC)?;
    let mut sge = b.sge(0, 64);
    sge.lkey = softrnic_model::verbs::Key(0xdead_0000);
    let receive = softrnic_model::verbs::RecvWr { wr_id: 7, sges: &[sge] };
    stage.verbs(1).post_recv(b.qp, &[receive])?;
    stage.post(&a, &wr(1, send()).at(0, 8))?;
    stage.completes(&a, 1, WcStatus::RemoteOperationError)?;
    let failed = stage.take(&b, b.recv_cq, 1)?[0];
    ensure!(failed.status != Success, "the receive succeeded");
    stage.settle();
    ensure!(
        !stage.events(1)?.contains(&AsyncEvent::QpFatal(b.qp)),
        "the event QP_FATAL was raised"
    );
    Ok(())
}
