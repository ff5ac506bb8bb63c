//! From each state: where it leads, and where it does not.

use softrnic_model::verbs::{QpAttributeMask as Mask, QpAttributes, QpState, QpType};

use super::super::qp_attributes::{end, reach, state_name, type_name};
use crate::case::{Case, Outcome, Problem, verbs};
use crate::same;
use crate::stage::Stage;

use QpState::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};

/// Where a state leads; RESET and ERR are reached from everywhere.
const fn leads_to(of: QpType, from: QpState) -> &'static [QpState] {
    match (from, of) {
        (Reset, _) => &[Init],
        (Init, _) => &[Init, Rtr],
        (Rtr, _) => &[Rts],
        (Rts, _) => &[Rts, Sqd],
        (Sqd, _) => &[Rts, Sqd],
        (Sqe, QpType::Uc | QpType::Ud) => &[Rts],
        (Sqe | Err, _) => &[],
    }
}

/// The states that a queue pair of this type can be in.
fn states(of: QpType) -> impl Iterator<Item = QpState> {
    let has_sqe = matches!(of, QpType::Uc | QpType::Ud);
    QpState::ALL.into_iter().filter(move |state| has_sqe || *state != Sqe)
}

pub(super) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for of in QpType::ALL {
        let called = type_name(of);
        all.push(verbs("qp-states/created-in-reset", called, move |stage| created(stage, of)));
        for from in states(of) {
            let name = format!("{called}-{}", state_name(from));
            all.push(verbs("qp-states/steps", format!("{name}-no-other"), move |stage| {
                no_other(stage, of, from)
            }));
            for to in [Reset, Err] {
                let variant = format!("{name}-{}", state_name(to));
                let rule = if (from, to) == (Err, Reset) {
                    "qp-states/err-leaves-by-reset"
                } else {
                    "qp-states/steps"
                };
                all.push(verbs(rule, variant, move |stage| from_everywhere(stage, of, from, to)));
            }
            let variant = format!("{name}-assumed-otherwise");
            all.push(verbs("qp-states/cur-state-wrong", variant, move |stage| {
                assumed_otherwise(stage, of, from)
            }));
        }
        if !matches!(of, QpType::Uc | QpType::Ud) {
            all.push(verbs("qp-states/sqe-only-unreliable", called, move |stage| {
                never_in_sqe(stage, of)
            }));
        }
    }
    all
}

fn created(stage: &Stage, of: QpType) -> Outcome {
    let end = end(stage, 0, of)?;
    same!(stage.state(&end)?, Reset, "state");
    let (_, init) = stage.verbs(0).query_qp(end.qp)?;
    same!(init.qp_type, of, "type");
    Ok(())
}

/// Every attribute that there may be does not help where there is no step.
fn no_other(stage: &Stage, of: QpType, from: QpState) -> Outcome {
    let end = reach(stage, of, from)?;
    let known = [leads_to(of, from), &[Reset, Err]].concat();
    for to in QpState::ALL.into_iter().filter(|to| !known.contains(to)) {
        let attributes = QpAttributes { state: to, ..stage.verbs(0).query_qp(end.qp)?.0 };
        for mask in [Mask::STATE, Mask::STATE | Mask::SQ_PSN, Mask::STATE | Mask::QKEY] {
            let refused = stage.verbs(0).modify_qp(end.qp, &attributes, mask);
            let Result::Err(error) = refused else {
                return Result::Err(Problem::Failed(format!("it went from {from:?} to {to:?}")));
            };
            same!(error.errno_name(), "EINVAL", "the refusal of {from:?} to {to:?}");
        }
        same!(stage.state(&end)?, from, "state after a step that does not exist");
    }
    Ok(())
}

fn from_everywhere(stage: &Stage, of: QpType, from: QpState, to: QpState) -> Outcome {
    let end = reach(stage, of, from)?;
    stage.move_to(&end, to)?;
    same!(stage.state(&end)?, to, "state");
    Ok(())
}

fn assumed_otherwise(stage: &Stage, of: QpType, from: QpState) -> Outcome {
    let end = reach(stage, of, from)?;
    let other = if from == Rts { Sqd } else { Rts };
    let before = stage.verbs(0).query_qp(end.qp)?.0;
    let attributes = QpAttributes { state: Err, current_state: other, ..before };
    let refused = stage.verbs(0).modify_qp(end.qp, &attributes, Mask::STATE | Mask::CUR_STATE);
    crate::ensure!(refused.is_err(), "it was taken for {other:?} while it is in {from:?}");
    same!(stage.verbs(0).query_qp(end.qp)?.0, before, "attributes");
    Ok(())
}

/// A send that fails leads to ERR; and no program can ask for SQE.
fn never_in_sqe(stage: &Stage, of: QpType) -> Outcome {
    use super::super::qp_attributes::fail_a_send;
    let end = reach(stage, of, Rts)?;
    crate::ensure!(stage.move_to(&end, Sqe).is_err(), "it went to SQE");
    if of == QpType::XrcRecv {
        return Ok(());
    }
    fail_a_send(stage, &end, 1)?;
    stage.gets_into(&end, Err)
}
