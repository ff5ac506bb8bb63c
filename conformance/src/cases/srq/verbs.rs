//! A shared receive queue with several queue pairs.

use softrnic_model::verbs::{QpState, RecvWr, Sge, SrqAttributes, SrqId, VerbError, WcStatus};

use crate::case::{Case, Outcome, verbs};
use crate::lab::{ALL_RIGHTS, Connection};
use crate::program::Region;
use crate::stage::{End, Stage, send, wr};
use crate::{ensure, same};

use WcStatus::Success;

pub(super) fn cases() -> Vec<Case> {
    vec![
        verbs("srq/order", "two-queue-pairs", two_queue_pairs),
        verbs("srq/completes-in-qp-cq", "each-in-its-own", each_in_its_own),
        verbs("srq/pd-of-srq", "other-domain-than-the-queue-pair", domain_of_the_queue),
        verbs("srq/pd-of-srq", "domain-of-the-queue-pair-only", domain_of_the_queue_pair),
        verbs("srq/post-recv-refused", "own-queue", own_queue),
        verbs("srq/recv-caps-ignored", "absurd-sizes", absurd_sizes),
        verbs("srq/modify-all-or-nothing", "limit-and-size", all_or_nothing),
        verbs("srq/resize-keeps", "larger", |stage| resize(stage, 32)),
        verbs("srq/resize-keeps", "exactly-full", |stage| resize(stage, 5)),
        verbs("srq/resize-keeps", "too-small", |stage| resize(stage, 4)),
        verbs("srq/destroy-busy", "in-use", destroy_busy),
        verbs("srq/qp-error-keeps", "for-the-other", error_keeps),
    ]
}

/// Two connections whose receiving ends, on device 1, share a queue in the domain of the first.
struct Shared {
    srq: SrqId,
    pairs: [[End; 2]; 2],
}

fn shared(stage: &Stage) -> Outcome<Shared> {
    let connection = Connection { buffer_len: 4096, ..Connection::RC };
    let verbs = stage.verbs(1);
    let pd = verbs.alloc_pd()?;
    let attributes = SrqAttributes { max_wr: 16, max_sge: 2, srq_limit: 0 };
    let (srq, _) = verbs.create_srq(pd, &attributes)?;
    let pair = || -> Outcome<[End; 2]> {
        let from = stage.end(0, &connection)?;
        let mut to = stage.end_with(1, &connection, |init| {
            init.srq = Some(srq);
            init.pd = pd;
        })?;
        to.region = Region::new(verbs, pd, connection.buffer_len, ALL_RIGHTS)?;
        stage.join(&connection, [from, to])
    };
    Ok(Shared { srq, pairs: [pair()?, pair()?] })
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

fn two_queue_pairs(stage: &mut Stage) -> Outcome {
    let Shared { pairs: [[a, to_a], [b, to_b]], .. } = shared(stage)?;
    for id in 1..=4 {
        stage.recv(&to_a, id, 64 * id, 64)?;
    }
    for (id, (from, to)) in (1..).zip([(&a, &to_a), (&b, &to_b), (&b, &to_b), (&a, &to_a)]) {
        stage.post(from, &wr(10 + id, send()).at(0, 8))?;
        stage.completes(from, 10 + id, Success)?;
        stage.receives(to, id, Success)?;
    }
    Ok(())
}

fn each_in_its_own(stage: &mut Stage) -> Outcome {
    let Shared { pairs: [[a, to_a], [b, to_b]], .. } = shared(stage)?;
    stage.recv(&to_a, 1, 0, 64)?;
    stage.recv(&to_a, 2, 64, 64)?;
    stage.post(&b, &wr(11, send()).at(0, 8))?;
    stage.completes(&b, 11, Success)?;
    stage.post(&a, &wr(12, send()).at(0, 8))?;
    stage.completes(&a, 12, Success)?;
    same!(stage.receives(&to_b, 1, Success)?.qp_num, to_b.qp, "qp_num");
    same!(stage.receives(&to_a, 2, Success)?.qp_num, to_a.qp, "qp_num");
    Ok(())
}

/// A queue pair in a domain of its own, with a shared queue of another one.
fn apart(stage: &Stage) -> Outcome<(End, End, Region)> {
    let connection = Connection { buffer_len: 4096, ..Connection::RC };
    let verbs = stage.verbs(1);
    let pd = verbs.alloc_pd()?;
    let attributes = SrqAttributes { max_wr: 16, max_sge: 2, srq_limit: 0 };
    let (srq, _) = verbs.create_srq(pd, &attributes)?;
    let from = stage.end(0, &connection)?;
    let to = stage.end_with(1, &connection, |init| init.srq = Some(srq))?;
    let [from, to] = stage.join(&connection, [from, to])?;
    Ok((from, to, Region::new(verbs, pd, 4096, ALL_RIGHTS)?))
}

fn domain_of_the_queue(stage: &mut Stage) -> Outcome {
    let (from, to, region) = apart(stage)?;
    let srq = to.srq.unwrap_or(SrqId(0));
    let sge = Sge { addr: region.addr(), length: 64, lkey: region.lkey() };
    stage.verbs(1).post_srq_recv(srq, &[RecvWr { wr_id: 1, sges: &[sge] }])?;
    stage.post(&from, &wr(11, send()).at(8, 8))?;
    stage.completes(&from, 11, Success)?;
    stage.receives(&to, 1, Success)?;
    Ok(())
}

fn domain_of_the_queue_pair(stage: &mut Stage) -> Outcome {
    let (from, to, _region) = apart(stage)?;
    // `to`'s own memory is in the domain of the queue pair.
    stage.recv(&to, 1, 0, 64)?;
    stage.post(&from, &wr(11, send()).at(8, 8))?;
    stage.completes(&from, 11, WcStatus::RemoteOperationError)?;
    let failed = stage.take(&to, to.recv_cq, 1)?[0];
    ensure!(failed.status != Success, "a receive was filled across domains");
    stage.gets_into(&to, QpState::Err)
}

fn own_queue(stage: &mut Stage) -> Outcome {
    let Shared { pairs: [[_, to], _], .. } = shared(stage)?;
    let posted = stage.verbs(1).post_recv(to.qp, &[RecvWr { wr_id: 1, sges: &[] }]);
    refused(posted.map_err(|refusal| refusal.error), "EINVAL")
}

fn absurd_sizes(stage: &mut Stage) -> Outcome {
    let verbs = stage.verbs(0);
    let pd = verbs.alloc_pd()?;
    let attributes = SrqAttributes { max_wr: 4, max_sge: 1, srq_limit: 0 };
    let (srq, _) = verbs.create_srq(pd, &attributes)?;
    stage.end_with(0, &Connection::RC, |init| {
        init.srq = Some(srq);
        init.cap.max_recv_wr = u32::MAX;
        init.cap.max_recv_sge = u32::MAX;
    })?;
    Ok(())
}

fn all_or_nothing(stage: &mut Stage) -> Outcome {
    let Shared { srq, .. } = shared(stage)?;
    let verbs = stage.verbs(1);
    let before = verbs.query_srq(srq)?;
    refused(verbs.modify_srq(srq, Some(33), Some(32)), "EINVAL")?;
    same!(verbs.query_srq(srq)?, before, "attributes");
    refused(verbs.modify_srq(srq, None, None), "EINVAL")?;
    same!(verbs.query_srq(srq)?, before, "attributes");
    Ok(())
}

fn resize(stage: &Stage, size: u32) -> Outcome {
    const WAITING: u64 = 5;
    let Shared { srq, pairs: [[a, to], _] } = shared(stage)?;
    for id in 1..=WAITING {
        stage.recv(&to, id, 64 * id, 64)?;
    }
    let resized = stage.verbs(1).modify_srq(srq, None, Some(size));
    if u64::from(size) < WAITING {
        refused(resized, "EINVAL")?;
    } else {
        resized?;
        ensure!(stage.verbs(1).query_srq(srq)?.max_wr >= size, "the size is another one");
    }
    for id in 1..=WAITING {
        stage.post(&a, &wr(10 + id, send()).at(0, 8))?;
        stage.completes(&a, 10 + id, Success)?;
        stage.receives(&to, id, Success)?;
    }
    Ok(())
}

fn destroy_busy(stage: &mut Stage) -> Outcome {
    let Shared { srq, pairs } = shared(stage)?;
    refused(stage.verbs(1).destroy_srq(srq), "EBUSY")?;
    for [_, to] in &pairs {
        stage.verbs(1).destroy_qp(to.qp)?;
    }
    Ok(stage.verbs(1).destroy_srq(srq)?)
}

fn error_keeps(stage: &mut Stage) -> Outcome {
    let Shared { pairs: [[_, to_a], [b, to_b]], .. } = shared(stage)?;
    stage.recv(&to_a, 1, 0, 64)?;
    stage.move_to(&to_a, QpState::Err)?;
    stage.stays_idle(&to_a)?;
    stage.post(&b, &wr(11, send()).at(0, 8))?;
    stage.completes(&b, 11, Success)?;
    stage.receives(&to_b, 1, Success)?;
    Ok(())
}
