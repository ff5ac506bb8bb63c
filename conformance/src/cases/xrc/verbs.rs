//! XRC between two devices: domains, queues, targets that are shared.

use softrnic_model::verbs::{
    CqId, QpState, QpType, RecvWr, SrqAttributes, SrqId, SrqInit, SrqNum, VerbError, Wc, WcStatus,
    XrcSrq, XrcdId,
};

use crate::case::{Case, Outcome, verbs};
use crate::lab::Connection;
use crate::stage::{End, Stage, send, wr};
use crate::{ensure, same};

use WcStatus::Success;

pub(super) fn cases() -> Vec<Case> {
    vec![
        verbs("xrc/routed-by-number", "two-queues-one-target", two_queues),
        verbs("xrc/other-domain", "send", other_domain),
        verbs("xrc/target-shared", "goes-with-the-last", target_shared),
        verbs("xrc/open-other-domain", "refused", open_other_domain),
        verbs("xrc/open-other-domain", "initiator", open_initiator),
        verbs("xrc/domain-busy", "target", domain_busy_target),
        verbs("xrc/domain-busy", "queue", domain_busy_queue),
        verbs("xrc/domain-busy", "open-twice", domain_open_twice),
        verbs("xrc/srq-number", "basic-queue", number_of_basic),
        verbs("xrc/srq-number", "each-its-own", numbers_differ),
        verbs("xrc/srq-destroyed", "refused-and-not-reused", srq_destroyed),
        verbs("xrc/cq-of-srq-fails", "overrun", overrun),
    ]
}

const SEND: Connection =
    Connection { qp_type: QpType::XrcSend, buffer_len: 4096, ..Connection::RC };
const RECV: Connection = Connection { qp_type: QpType::XrcRecv, ..SEND };

/// An initiator on device 0 and a target of a domain on device 1, connected.
struct Pair {
    from: End,
    to: End,
    xrcd: XrcdId,
}

fn pair(stage: &Stage) -> Outcome<Pair> {
    let xrcd = stage.verbs(1).open_xrcd()?;
    let mut from = stage.end(0, &SEND)?;
    let mut to = stage.end_with(1, &RECV, |init| init.xrcd = Some(xrcd))?;
    let names = [(from.gid, from.qp), (to.gid, to.qp)];
    stage.bring_up(&mut from, names[1], &SEND, QpState::Rts)?;
    stage.bring_up(&mut to, names[0], &RECV, QpState::Rts)?;
    Ok(Pair { from, to, xrcd })
}

/// A shared receive queue of a domain.
struct Queue {
    id: SrqId,
    number: SrqNum,
    cq: CqId,
}

fn queue(stage: &Stage, to: &End, xrcd: XrcdId, entries: u32) -> Outcome<Queue> {
    let verbs = stage.verbs(1);
    let (cq, _) = verbs.create_cq(entries, None)?;
    let attributes = SrqAttributes { max_wr: 16, max_sge: 1, srq_limit: 0 };
    let init = SrqInit { pd: to.pd, attributes, xrc: Some(XrcSrq { xrcd, cq }) };
    let (id, _) = verbs.create_srq_ex(&init)?;
    Ok(Queue { id, number: verbs.srq_number(id)?, cq })
}

impl Queue {
    fn recv(&self, stage: &Stage, to: &End, id: u64, offset: u64) -> Outcome {
        let wr = RecvWr { wr_id: id, sges: &[to.sge(offset, 64)] };
        Ok(stage.verbs(1).post_srq_recv(self.id, &[wr])?)
    }

    fn received(&self, stage: &Stage, to: &End) -> Outcome<Wc> {
        Ok(stage.take(to, self.cq, 1)?[0])
    }
}

fn message(id: u64, queue: &Queue) -> crate::stage::Wr {
    crate::stage::Wr { remote_srq: queue.number, ..wr(id, send()).at(0, 8) }
}

fn two_queues(stage: &mut Stage) -> Outcome {
    let Pair { from, to, xrcd } = pair(stage)?;
    let [first, second] = [queue(stage, &to, xrcd, 16)?, queue(stage, &to, xrcd, 16)?];
    first.recv(stage, &to, 1, 1000)?;
    second.recv(stage, &to, 2, 2000)?;
    stage.post(&from, &message(10, &second))?;
    stage.post(&from, &message(11, &first))?;
    for (queue, id) in [(&first, 1), (&second, 2)] {
        let wc = queue.received(stage, &to)?;
        same!((wc.wr_id, wc.status, wc.qp_num), (id, Success, to.qp), "the completion");
    }
    stage.completes(&from, 10, Success)?;
    stage.completes(&from, 11, Success)?;
    Ok(())
}

fn other_domain(stage: &mut Stage) -> Outcome {
    let Pair { from, to, .. } = pair(stage)?;
    let other = stage.verbs(1).open_xrcd()?;
    let foreign = queue(stage, &to, other, 16)?;
    foreign.recv(stage, &to, 1, 0)?;
    stage.post(&from, &message(10, &foreign))?;
    stage.completes(&from, 10, WcStatus::RemoteInvalidRequest)?;
    stage.gets_into(&to, QpState::Err)
}

fn target_shared(stage: &mut Stage) -> Outcome {
    let Pair { from, to, xrcd } = pair(stage)?;
    let queue = queue(stage, &to, xrcd, 16)?;
    let verbs = stage.verbs(1);
    verbs.open_qp(xrcd, to.qp)?;
    verbs.destroy_qp(to.qp)?;
    // The other handle keeps it.
    queue.recv(stage, &to, 1, 0)?;
    stage.post(&from, &message(10, &queue))?;
    stage.completes(&from, 10, Success)?;
    verbs.destroy_qp(to.qp)?;
    ensure!(verbs.query_qp(to.qp).is_err(), "the target is still there");
    Ok(())
}

fn refused<T>(what: Result<T, VerbError>, errno: &str) -> Outcome {
    match what {
        Ok(_) => Err("it was not refused".to_owned().into()),
        Err(error) => {
            same!(error.errno_name(), errno, "the refusal");
            Ok(())
        }
    }
}

fn open_other_domain(stage: &mut Stage) -> Outcome {
    let Pair { to, .. } = pair(stage)?;
    let other = stage.verbs(1).open_xrcd()?;
    refused(stage.verbs(1).open_qp(other, to.qp), "EINVAL")
}

fn open_initiator(stage: &mut Stage) -> Outcome {
    let xrcd = stage.verbs(0).open_xrcd()?;
    let initiator = stage.end(0, &SEND)?;
    refused(stage.verbs(0).open_qp(xrcd, initiator.qp), "EINVAL")
}

fn domain_busy_target(stage: &mut Stage) -> Outcome {
    let Pair { to, xrcd, .. } = pair(stage)?;
    refused(stage.verbs(1).close_xrcd(xrcd), "EBUSY")?;
    stage.verbs(1).destroy_qp(to.qp)?;
    Ok(stage.verbs(1).close_xrcd(xrcd)?)
}

fn domain_busy_queue(stage: &mut Stage) -> Outcome {
    let Pair { to, .. } = pair(stage)?;
    let xrcd = stage.verbs(1).open_xrcd()?;
    let queue = queue(stage, &to, xrcd, 16)?;
    refused(stage.verbs(1).close_xrcd(xrcd), "EBUSY")?;
    stage.verbs(1).destroy_srq(queue.id)?;
    Ok(stage.verbs(1).close_xrcd(xrcd)?)
}

fn domain_open_twice(stage: &mut Stage) -> Outcome {
    let Pair { xrcd, .. } = pair(stage)?;
    stage.verbs(1).share_xrcd(xrcd)?;
    // Not the last time: it is closed although something belongs to it.
    stage.verbs(1).close_xrcd(xrcd)?;
    refused(stage.verbs(1).close_xrcd(xrcd), "EBUSY")
}

fn number_of_basic(stage: &mut Stage) -> Outcome {
    let verbs = stage.verbs(0);
    // Where there is no XRC this case has nothing to ask.
    verbs.open_xrcd()?;
    let pd = verbs.alloc_pd()?;
    let attributes = SrqAttributes { max_wr: 4, max_sge: 1, srq_limit: 0 };
    let (srq, _) = verbs.create_srq(pd, &attributes)?;
    ensure!(verbs.srq_number(srq).is_err(), "a basic queue has a number");
    Ok(())
}

fn numbers_differ(stage: &mut Stage) -> Outcome {
    let Pair { to, xrcd, .. } = pair(stage)?;
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..16 {
        let queue = queue(stage, &to, xrcd, 4)?;
        ensure!(seen.insert(queue.number.get()), "{:?} was given twice", queue.number);
    }
    Ok(())
}

fn srq_destroyed(stage: &mut Stage) -> Outcome {
    let Pair { from, to, xrcd } = pair(stage)?;
    let gone = queue(stage, &to, xrcd, 16)?;
    stage.verbs(1).destroy_srq(gone.id)?;
    // The next one may take its place in the table, but not its number.
    let next = queue(stage, &to, xrcd, 16)?;
    next.recv(stage, &to, 1, 0)?;
    stage.post(&from, &message(10, &gone))?;
    stage.completes(&from, 10, WcStatus::RemoteInvalidRequest)?;
    stage.gets_into(&to, QpState::Err)
}

fn overrun(stage: &mut Stage) -> Outcome {
    use softrnic_model::verbs::AsyncEvent;
    let Pair { from, to, xrcd } = pair(stage)?;
    let (_, granted) = stage.verbs(1).create_cq(1, None)?;
    let queue = queue(stage, &to, xrcd, 1)?;
    for id in 0..=u64::from(granted) {
        queue.recv(stage, &to, id, 0)?;
        stage.post(&from, &message(100 + id, &queue))?;
    }
    stage.raises(1, AsyncEvent::SrqError(queue.id))?;
    Ok(())
}
