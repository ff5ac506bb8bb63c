//! The table of steps as the man page and Linux have it, written down once more: the device's own
//! table is not asked.

use softrnic_model::verbs::{QpAttributeMask as Mask, QpState, QpType};

use super::{attributes, is_refused, reach, refused_with, state_name, type_name};
use crate::case::{Case, Outcome, verbs};
use crate::same;
use crate::stage::Stage;

/// A step of some types: what it must carry, and what it may.
struct Step {
    types: &'static [QpType],
    from: QpState,
    to: QpState,
    /// The rule that requires what it requires.
    rule: &'static str,
    required: &'static [Mask],
    optional: &'static [Mask],
}

use QpState::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};
use QpType::{Rc, Uc, Ud, XrcRecv, XrcSend};

const ALL: &[QpType] = &QpType::ALL;
const CONNECTED: &[QpType] = &[Rc, Uc, XrcSend, XrcRecv];
const WAY: [Mask; 4] = [Mask::AV, Mask::PATH_MTU, Mask::DEST_QPN, Mask::RQ_PSN];
const TO_RESET: &str = "qp-attributes/to-reset-err-bare";

const STEPS: &[Step] = &[
    Step {
        types: CONNECTED,
        from: Reset,
        to: Init,
        rule: "qp-attributes/init-connected",
        required: &[Mask::PKEY_INDEX, Mask::PORT, Mask::ACCESS_FLAGS],
        optional: &[],
    },
    Step {
        types: &[Ud],
        from: Reset,
        to: Init,
        rule: "qp-attributes/init-ud",
        required: &[Mask::PKEY_INDEX, Mask::PORT, Mask::QKEY],
        optional: &[],
    },
    Step {
        types: CONNECTED,
        from: Init,
        to: Init,
        rule: "qp-attributes/optional",
        required: &[],
        optional: &[Mask::PKEY_INDEX, Mask::PORT, Mask::ACCESS_FLAGS],
    },
    Step {
        types: &[Ud],
        from: Init,
        to: Init,
        rule: "qp-attributes/optional",
        required: &[],
        optional: &[Mask::PKEY_INDEX, Mask::PORT, Mask::QKEY],
    },
    Step {
        types: &[Rc, XrcRecv],
        from: Init,
        to: Rtr,
        rule: "qp-attributes/rtr-rc",
        required: &[WAY[0], WAY[1], WAY[2], WAY[3], Mask::MAX_DEST_RD_ATOMIC, Mask::MIN_RNR_TIMER],
        optional: &[Mask::PKEY_INDEX, Mask::ACCESS_FLAGS],
    },
    Step {
        types: &[Uc, XrcSend],
        from: Init,
        to: Rtr,
        rule: "qp-attributes/rtr-uc",
        required: &WAY,
        optional: &[Mask::PKEY_INDEX, Mask::ACCESS_FLAGS],
    },
    Step {
        types: &[Ud],
        from: Init,
        to: Rtr,
        rule: "qp-attributes/rtr-ud",
        required: &[],
        optional: &[Mask::PKEY_INDEX, Mask::QKEY],
    },
    Step {
        types: &[Rc],
        from: Rtr,
        to: Rts,
        rule: "qp-attributes/rts-rc",
        required: &[
            Mask::SQ_PSN,
            Mask::MAX_QP_RD_ATOMIC,
            Mask::TIMEOUT,
            Mask::RETRY_CNT,
            Mask::RNR_RETRY,
        ],
        optional: &[Mask::CUR_STATE, Mask::ACCESS_FLAGS, Mask::MIN_RNR_TIMER],
    },
    Step {
        types: &[XrcSend],
        from: Rtr,
        to: Rts,
        rule: "qp-attributes/rts-rc",
        required: &[
            Mask::SQ_PSN,
            Mask::MAX_QP_RD_ATOMIC,
            Mask::TIMEOUT,
            Mask::RETRY_CNT,
            Mask::RNR_RETRY,
        ],
        optional: &[Mask::CUR_STATE, Mask::ACCESS_FLAGS],
    },
    Step {
        types: &[XrcRecv],
        from: Rtr,
        to: Rts,
        rule: "qp-attributes/rts-xrc-target",
        required: &[Mask::SQ_PSN, Mask::TIMEOUT],
        optional: &[Mask::CUR_STATE, Mask::ACCESS_FLAGS, Mask::MIN_RNR_TIMER],
    },
    Step {
        types: &[Uc],
        from: Rtr,
        to: Rts,
        rule: "qp-attributes/rts-unreliable",
        required: &[Mask::SQ_PSN],
        optional: &[Mask::CUR_STATE, Mask::ACCESS_FLAGS],
    },
    Step {
        types: &[Ud],
        from: Rtr,
        to: Rts,
        rule: "qp-attributes/rts-unreliable",
        required: &[Mask::SQ_PSN],
        optional: &[Mask::CUR_STATE, Mask::QKEY],
    },
    Step {
        types: &[Rc, XrcRecv],
        from: Rts,
        to: Rts,
        rule: "qp-attributes/optional",
        required: &[],
        optional: &[Mask::CUR_STATE, Mask::ACCESS_FLAGS, Mask::MIN_RNR_TIMER],
    },
    Step {
        types: &[Uc, XrcSend],
        from: Rts,
        to: Rts,
        rule: "qp-attributes/optional",
        required: &[],
        optional: &[Mask::CUR_STATE, Mask::ACCESS_FLAGS],
    },
    Step {
        types: &[Ud],
        from: Rts,
        to: Rts,
        rule: "qp-attributes/optional",
        required: &[],
        optional: &[Mask::CUR_STATE, Mask::QKEY],
    },
    Step {
        types: ALL,
        from: Rts,
        to: Sqd,
        rule: "qp-attributes/optional",
        required: &[],
        optional: &[Mask::EN_SQD_ASYNC_NOTIFY],
    },
    Step {
        types: &[Rc],
        from: Sqd,
        to: Sqd,
        rule: "qp-attributes/optional",
        required: &[],
        optional: &[
            Mask::PORT,
            Mask::AV,
            Mask::TIMEOUT,
            Mask::RETRY_CNT,
            Mask::RNR_RETRY,
            Mask::MAX_QP_RD_ATOMIC,
            Mask::MAX_DEST_RD_ATOMIC,
            Mask::ACCESS_FLAGS,
            Mask::PKEY_INDEX,
            Mask::MIN_RNR_TIMER,
        ],
    },
    Step {
        types: &[Uc],
        from: Sqd,
        to: Sqd,
        rule: "qp-attributes/optional",
        required: &[],
        optional: &[Mask::AV, Mask::ACCESS_FLAGS, Mask::PKEY_INDEX],
    },
    Step {
        types: &[Ud],
        from: Sqd,
        to: Sqd,
        rule: "qp-attributes/optional",
        required: &[],
        optional: &[Mask::PKEY_INDEX, Mask::QKEY],
    },
    Step {
        types: &[Rc, XrcRecv],
        from: Sqd,
        to: Rts,
        rule: "qp-attributes/optional",
        required: &[],
        optional: &[Mask::CUR_STATE, Mask::ACCESS_FLAGS, Mask::MIN_RNR_TIMER],
    },
    Step {
        types: &[Uc],
        from: Sqe,
        to: Rts,
        rule: "qp-attributes/optional",
        required: &[],
        optional: &[Mask::CUR_STATE, Mask::ACCESS_FLAGS],
    },
    Step {
        types: &[Ud],
        from: Sqe,
        to: Rts,
        rule: "qp-attributes/optional",
        required: &[],
        optional: &[Mask::CUR_STATE, Mask::QKEY],
    },
    Step { types: ALL, from: Init, to: Reset, rule: TO_RESET, required: &[], optional: &[] },
    Step { types: ALL, from: Rts, to: Reset, rule: TO_RESET, required: &[], optional: &[] },
    Step { types: ALL, from: Rts, to: Err, rule: TO_RESET, required: &[], optional: &[] },
];

/// Attributes that a step refuses if it does not list them. Those that every step refuses are in
/// [`super::values`]; a rate limit is taken where the device says.
const KNOWN: &[(Mask, &str)] = &[
    (Mask::CUR_STATE, "cur-state"),
    (Mask::EN_SQD_ASYNC_NOTIFY, "en-sqd-async-notify"),
    (Mask::ACCESS_FLAGS, "access-flags"),
    (Mask::PKEY_INDEX, "pkey-index"),
    (Mask::PORT, "port"),
    (Mask::QKEY, "qkey"),
    (Mask::AV, "av"),
    (Mask::PATH_MTU, "path-mtu"),
    (Mask::TIMEOUT, "timeout"),
    (Mask::RETRY_CNT, "retry-cnt"),
    (Mask::RNR_RETRY, "rnr-retry"),
    (Mask::RQ_PSN, "rq-psn"),
    (Mask::MAX_QP_RD_ATOMIC, "max-qp-rd-atomic"),
    (Mask::MIN_RNR_TIMER, "min-rnr-timer"),
    (Mask::SQ_PSN, "sq-psn"),
    (Mask::MAX_DEST_RD_ATOMIC, "max-dest-rd-atomic"),
    (Mask::DEST_QPN, "dest-qpn"),
];

fn name(mask: Mask) -> &'static str {
    KNOWN.iter().find(|(known, _)| *known == mask).map_or("?", |(_, name)| name)
}

pub(super) fn cases() -> Vec<Case> {
    STEPS.iter().flat_map(|step| step.types.iter().flat_map(|of| of_step(step, *of))).collect()
}

fn of_step(step: &'static Step, of: QpType) -> Vec<Case> {
    let called = format!("{}-{}-{}", type_name(of), state_name(step.from), state_name(step.to));
    let taken = |optional: Mask| move |stage: &mut Stage| is_taken(stage, step, of, optional);
    let mut all = vec![verbs(step.rule, format!("{called}-taken"), taken(Mask::empty()))];
    for &optional in step.optional {
        let variant = format!("{called}-with-{}", name(optional));
        all.push(verbs("qp-attributes/optional", variant, taken(optional)));
    }
    for &missing in step.required {
        let act = move |stage: &mut Stage| lacks(stage, step, of, missing);
        all.push(verbs(step.rule, format!("{called}-without-{}", name(missing)), act));
    }
    if step.from != step.to && !step.required.is_empty() {
        let act = move |stage: &mut Stage| lacks(stage, step, of, Mask::STATE);
        all.push(verbs("qp-attributes/state-required", format!("{called}-without-state"), act));
    }
    let act = move |stage: &mut Stage| takes_no_other(stage, step, of);
    all.push(verbs("qp-attributes/optional", format!("{called}-no-other"), act));
    all
}

impl Step {
    fn required(&self) -> Mask {
        self.required.iter().copied().fold(Mask::STATE, Mask::union)
    }
}

fn is_taken(stage: &Stage, step: &Step, of: QpType, optional: Mask) -> Outcome {
    let end = reach(stage, of, step.from)?;
    let attributes = attributes(stage, &end, step.from, step.to)?;
    stage.verbs(0).modify_qp(end.qp, &attributes, step.required() | optional)?;
    same!(stage.state(&end)?, step.to, "state");
    Ok(())
}

fn lacks(stage: &Stage, step: &Step, of: QpType, missing: Mask) -> Outcome {
    let end = reach(stage, of, step.from)?;
    let attributes = attributes(stage, &end, step.from, step.to)?;
    is_refused(stage, &end, &attributes, step.required() - missing)
}

fn takes_no_other(stage: &Stage, step: &Step, of: QpType) -> Outcome {
    let end = reach(stage, of, step.from)?;
    let attributes = attributes(stage, &end, step.from, step.to)?;
    let taken = step.optional.iter().copied().fold(step.required(), Mask::union);
    for (other, _) in KNOWN.iter().filter(|(mask, _)| !taken.contains(*mask)) {
        is_refused(stage, &end, &attributes, step.required() | *other)?;
    }
    for absent in [Mask::ALT_PATH, Mask::PATH_MIG_STATE] {
        refused_with(stage, &end, &attributes, step.required() | absent, "EOPNOTSUPP")?;
    }
    Ok(())
}
