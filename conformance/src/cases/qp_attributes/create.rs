//! What a queue pair is created with.

use softrnic_model::verbs::{CqId, DeviceAttributes, PdId, QpInit, QpState, QpType};

use super::{connection, end};
use crate::case::{Case, Outcome, Problem, verbs};
use crate::stage::Stage;
use crate::{ensure, same};

type Change = fn(&mut QpInit, &DeviceAttributes);

/// Creations that are refused with EINVAL.
const REFUSED: &[(&str, &str, Change)] = &[
    ("create-limits", "send-requests", |init, max| init.cap.max_send_wr = max.max_qp_wr + 1),
    ("create-limits", "receive-requests", |init, max| init.cap.max_recv_wr = max.max_qp_wr + 1),
    ("create-limits", "send-elements", |init, max| init.cap.max_send_sge = max.max_sge + 1),
    ("create-limits", "receive-elements", |init, max| init.cap.max_recv_sge = max.max_sge + 1),
    ("create-limits", "inline", |init, max| init.cap.max_inline_data = max.max_inline_data + 1),
    ("create-objects", "no-domain", |init, _| init.pd = PdId(0x7fff_0000)),
    ("create-objects", "no-send-queue", |init, _| init.send_cq = CqId(0x7fff_0000)),
    ("create-objects", "no-receive-queue", |init, _| init.recv_cq = CqId(0x7fff_0000)),
];

pub(super) fn cases() -> Vec<Case> {
    let of = |&(rule, variant, change): &'static (&str, &str, Change)| {
        verbs(format!("qp-attributes/{rule}"), variant, move |stage| is_refused(stage, change))
    };
    let mut all: Vec<Case> = REFUSED.iter().map(of).collect();
    all.push(verbs("qp-attributes/create-limits", "granted-at-least", granted));
    all.push(verbs("qp-attributes/create-limit-count", "one-too-many", one_too_many));
    all.push(verbs("qp-attributes/depth-while-open", "smaller-and-larger", depth_while_open));
    all
}

fn is_refused(stage: &Stage, change: Change) -> Outcome {
    let max = stage.verbs(0).query_device()?;
    let made = stage.end_with(0, &connection(QpType::Rc), |init| change(init, &max));
    match made {
        Ok(_) => Err(Problem::Failed("it was created".into())),
        Err(Problem::Failed(why)) if why.contains("EINVAL") => Ok(()),
        Err(other) => Err(other),
    }
}

fn granted(stage: &mut Stage) -> Outcome {
    let asked = crate::lab::CAPABILITIES;
    let end = end(stage, 0, QpType::Rc)?;
    let got = stage.verbs(0).query_qp(end.qp)?.0.cap;
    let all = [
        (got.max_send_wr, asked.max_send_wr),
        (got.max_recv_wr, asked.max_recv_wr),
        (got.max_send_sge, asked.max_send_sge),
        (got.max_recv_sge, asked.max_recv_sge),
        (got.max_inline_data, asked.max_inline_data),
    ];
    ensure!(all.iter().all(|(got, asked)| got >= asked), "{got:?} was granted of {asked:?}");
    Ok(())
}

/// More queue pairs than this are not made to see where a device ends.
const QPS_TRIED: u32 = 100_000;

fn one_too_many(stage: &mut Stage) -> Outcome {
    let verbs = stage.verbs(0);
    let max = verbs.query_device()?.max_qp;
    if max > QPS_TRIED {
        return Err(Problem::NotApplicable(format!("the device has {max} queue pairs")));
    }
    let first = end(stage, 0, QpType::Ud)?;
    let small = softrnic_model::verbs::QpCapabilities {
        max_send_wr: 1,
        max_recv_wr: 1,
        max_send_sge: 1,
        max_recv_sge: 1,
        max_inline_data: 0,
    };
    let init = QpInit { cap: small, ..verbs.query_qp(first.qp)?.1 };
    let mut made = vec![first.qp];
    let refused = loop {
        match verbs.create_qp(&init) {
            Ok((qp, _)) => made.push(qp),
            Err(error) => break error,
        }
        ensure!(made.len() <= max as usize, "more than max_qp = {max} queue pairs were made");
    };
    same!(refused.errno_name(), "ENOMEM", "the refusal of queue pair {}", made.len() + 1);
    // One that goes makes room for one.
    verbs.destroy_qp(made.pop().unwrap_or(first.qp))?;
    verbs.create_qp(&init)?;
    Ok(())
}

/// READs go on across changes of the responder's depth.
fn depth_while_open(stage: &mut Stage) -> Outcome {
    use crate::stage::wr;
    use softrnic_model::verbs::{QpAttributeMask as Mask, WcStatus};
    let connection = crate::lab::Connection { buffer_len: 8192, ..crate::lab::Connection::RC };
    let [a, b] = stage.connect(&connection)?;
    let depth = stage.verbs(1).query_device()?.max_qp_rd_atom;
    for (id, other) in (1..).zip([1, depth, 2]) {
        for n in 0..4 {
            stage.post(&a, &wr(10 * id + n, a.read(&b, 512 * n)).at(4096 + 512 * n, 512))?;
        }
        stage.move_to(&b, QpState::Sqd)?;
        stage.modify(&b, Mask::MAX_DEST_RD_ATOMIC, |attributes| {
            attributes.max_dest_rd_atomic = other.max(4);
        })?;
        stage.move_to(&b, QpState::Rts)?;
        for n in 0..4 {
            stage.completes(&a, 10 * id + n, WcStatus::Success)?;
        }
        same!(a.bytes(4096, 2048)?, b.bytes(0, 2048)?, "what was read");
    }
    Ok(())
}
