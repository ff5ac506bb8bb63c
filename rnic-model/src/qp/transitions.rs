//! The one table of queue pair transitions.
//!
//! ```text
//!            1          2         3          4
//!     RESET ---> INIT ----> RTR ----> RTS <----> SQD          any state ---> RESET
//!                 |_|                 |_| <--+   |_|          any state ---> ERR
//!                                            |
//!                                       5   SQE
//!
//!     1  PKEY_INDEX, PORT; RC, UC, XRC: ACCESS_FLAGS; UD: QKEY
//!     2  RC, UC, XRC: AV, PATH_MTU, DEST_QPN, RQ_PSN; RC, XRC_RECV: MAX_DEST_RD_ATOMIC,
//!        MIN_RNR_TIMER
//!     3  SQ_PSN; RC, XRC_SEND: MAX_QP_RD_ATOMIC, TIMEOUT, RETRY_CNT, RNR_RETRY; XRC_RECV: TIMEOUT
//!     4  nothing: to SQD the queue drains, while there most attributes may change
//!     5  nothing; UC and UD only
//! ```
//!
//! The numbers are what a step requires; `|_|` is a step from a state to itself, to change
//! attributes. Only the device itself moves a queue pair to SQE.
//!
//! The lists follow the tables of `ibv_modify_qp(3)` (required) and of Linux,
//! `drivers/infiniband/core/verbs.c`, `qp_state_table` (optional), with these differences:
//!
//! * RESET → ERR is a step, as "any state → ERR" says (InfiniBand volume 1, section 10.3.1); Linux
//!   refuses it.
//! * SQE → RTS is no step of RC or XRC, which never are in SQE; Linux lists it for RC, without
//!   attributes.
//! * The alternate path and its migration state are never accepted: RoCE has none (Linux refuses
//!   them one layer further down). Nor are new queue sizes.
//! * A rate limit is accepted where "IB/core: Extend rate limit support for RC QPs" (linux-rdma,
//!   February 2026) puts it; later Linux leaves it to each driver.

use core::fmt;

use crate::verbs::{QpAttributeMask, QpState, QpType, VerbError};

/// What a step needs and what it may carry besides. `STATE` itself is in neither list: it may
/// always be given, and must be given when the state changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requirements {
    /// Attributes that must be given.
    pub required: QpAttributeMask,
    /// Attributes that may be given.
    pub optional: QpAttributeMask,
}

/// Why a change of a queue pair is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepError {
    /// No step leads from the one state to the other.
    NoSuchStep {
        /// Where the queue pair is.
        from: QpState,
        /// Where it was told to go.
        to: QpState,
    },
    /// The step needs these attributes, and they are not given.
    Missing(QpAttributeMask),
    /// These attributes are given, and the step does not take them.
    NotAllowed(QpAttributeMask),
}

/// Checks that a queue pair may step `from` → `to` with the attributes `given`.
///
/// A call that does not give `STATE` stays where it is: `to` is then `from`.
///
/// # Errors
/// The first that holds of: there is no such step; something required is missing; something is
/// given that the step does not take.
pub fn check_step(
    qp_type: QpType,
    from: QpState,
    to: QpState,
    given: QpAttributeMask,
) -> Result<(), StepError> {
    let step = requirements(qp_type, from, to).ok_or(StepError::NoSuchStep { from, to })?;
    // [qp-attributes/state-required]
    let mut required = step.required;
    if from != to {
        required = required.union(QpAttributeMask::STATE);
    }
    let missing = required.difference(given);
    if !missing.is_empty() {
        return Err(StepError::Missing(missing));
    }
    // [qp-attributes/optional]
    let extra = given.difference(required.union(step.optional).union(QpAttributeMask::STATE));
    if !extra.is_empty() {
        return Err(StepError::NotAllowed(extra));
    }
    Ok(())
}

macro_rules! mask {
    ($($name:ident)*) => {
        QpAttributeMask::from_bits_retain(0 $(| QpAttributeMask::$name.bits())*)
    };
}

/// One row of [`requirements`]: `need [required] may [optional]`.
macro_rules! step {
    (need [$($required:ident)*] may [$($optional:ident)*]) => {
        Some(Requirements { required: mask!($($required)*), optional: mask!($($optional)*) })
    };
}

/// The table: what a step needs and may carry; `None` if there is no such step.
#[must_use]
#[rustfmt::skip]
// [qp-states/steps] [qp-states/err-leaves-by-reset]
pub const fn requirements(qp_type: QpType, from: QpState, to: QpState) -> Option<Requirements> {
    use QpState::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};
    use QpType::{Rc, Uc, Ud, XrcRecv, XrcSend};
    match (from, to, qp_type) {
        // [qp-attributes/to-reset-err-bare]
        (_, Reset | Err, _)    => step!(need [] may []),

        // [qp-attributes/init-ud]
        (Reset, Init, Ud)      => step!(need [PKEY_INDEX PORT QKEY] may []),
        // [qp-attributes/init-connected]
        (Reset, Init, Rc | Uc | XrcSend | XrcRecv) => step!(
            need [PKEY_INDEX PORT ACCESS_FLAGS] may []),

        (Init, Init, Ud)       => step!(need [] may [PKEY_INDEX PORT QKEY]),
        (Init, Init, Rc | Uc | XrcSend | XrcRecv) => step!(
            need [] may [PKEY_INDEX PORT ACCESS_FLAGS]),

        // [qp-attributes/rtr-rc]
        (Init, Rtr, Rc)        => step!(
            need [AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER]
            may [PKEY_INDEX ACCESS_FLAGS RATE_LIMIT]),
        (Init, Rtr, XrcRecv)   => step!(
            need [AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER]
            may [PKEY_INDEX ACCESS_FLAGS]),
        // [qp-attributes/rtr-uc]
        (Init, Rtr, Uc | XrcSend) => step!(
            need [AV PATH_MTU DEST_QPN RQ_PSN] may [PKEY_INDEX ACCESS_FLAGS]),
        // [qp-attributes/rtr-ud]
        (Init, Rtr, Ud)        => step!(need [] may [PKEY_INDEX QKEY]),

        // [qp-attributes/rts-rc]
        (Rtr, Rts, Rc)         => step!(
            need [SQ_PSN MAX_QP_RD_ATOMIC TIMEOUT RETRY_CNT RNR_RETRY]
            may [CUR_STATE ACCESS_FLAGS MIN_RNR_TIMER RATE_LIMIT]),
        (Rtr, Rts, XrcSend)    => step!(
            need [SQ_PSN MAX_QP_RD_ATOMIC TIMEOUT RETRY_CNT RNR_RETRY]
            may [CUR_STATE ACCESS_FLAGS]),
        // [qp-attributes/rts-xrc-target]
        (Rtr, Rts, XrcRecv)    => step!(
            need [SQ_PSN TIMEOUT] may [CUR_STATE ACCESS_FLAGS MIN_RNR_TIMER]),
        // [qp-attributes/rts-unreliable]
        (Rtr, Rts, Uc)         => step!(need [SQ_PSN] may [CUR_STATE ACCESS_FLAGS]),
        (Rtr, Rts, Ud)         => step!(need [SQ_PSN] may [CUR_STATE QKEY]),

        (Rts, Rts, Rc)         => step!(
            need [] may [CUR_STATE ACCESS_FLAGS MIN_RNR_TIMER RATE_LIMIT]),
        (Sqd, Rts, Rc) | (Rts | Sqd, Rts, XrcRecv) => step!(
            need [] may [CUR_STATE ACCESS_FLAGS MIN_RNR_TIMER]),
        (Rts | Sqd, Rts, XrcSend) => step!(need [] may [CUR_STATE ACCESS_FLAGS]),
        // [qp-states/sqe-only-unreliable]
        (Rts | Sqd | Sqe, Rts, Uc) => step!(need [] may [CUR_STATE ACCESS_FLAGS]),
        (Rts | Sqd | Sqe, Rts, Ud) => step!(need [] may [CUR_STATE QKEY]),

        (Rts, Sqd, _)          => step!(need [] may [EN_SQD_ASYNC_NOTIFY]),

        (Sqd, Sqd, Rc)         => step!(
            need []
            may [PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC MAX_DEST_RD_ATOMIC
                 ACCESS_FLAGS PKEY_INDEX MIN_RNR_TIMER]),
        (Sqd, Sqd, XrcSend)    => step!(
            need []
            may [PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC ACCESS_FLAGS PKEY_INDEX]),
        (Sqd, Sqd, XrcRecv)    => step!(
            need []
            may [PORT AV TIMEOUT MAX_DEST_RD_ATOMIC ACCESS_FLAGS PKEY_INDEX MIN_RNR_TIMER]),
        (Sqd, Sqd, Uc)         => step!(need [] may [AV ACCESS_FLAGS PKEY_INDEX]),
        (Sqd, Sqd, Ud)         => step!(need [] may [PKEY_INDEX QKEY]),

        // Every pair that is left, spelled by where it leads.
        (_, Init | Rtr | Rts | Sqd | Sqe, _) => None,
    }
}

/// What a program is told, one row per attribute: (which, missing, not allowed).
macro_rules! texts {
    ($($name:ident)*) => {
        &[$((
            QpAttributeMask::$name,
            concat!("IBV_QP_", stringify!($name), " is required for this change of state"),
            concat!("IBV_QP_", stringify!($name), " cannot be changed in this step or service type"),
        )),*]
    };
}

const TEXTS: &[(QpAttributeMask, &str, &str)] = texts! {
    STATE CUR_STATE EN_SQD_ASYNC_NOTIFY ACCESS_FLAGS PKEY_INDEX PORT QKEY AV PATH_MTU TIMEOUT
    RETRY_CNT RNR_RETRY RQ_PSN MAX_QP_RD_ATOMIC MIN_RNR_TIMER SQ_PSN MAX_DEST_RD_ATOMIC DEST_QPN
    RATE_LIMIT
};

/// Attributes that no step takes because the device has no such thing.
// [qp-attributes/alternate-path] [qp-attributes/cap-resize]
const UNSUPPORTED: &[(QpAttributeMask, &str)] = &[
    (QpAttributeMask::ALT_PATH, "alternate paths (IBV_QP_ALT_PATH) do not exist on RoCE"),
    (
        QpAttributeMask::PATH_MIG_STATE,
        "path migration (IBV_QP_PATH_MIG_STATE) needs alternate paths",
    ),
    (QpAttributeMask::CAP, "queues (IBV_QP_CAP) cannot be resized"),
];

impl From<StepError> for VerbError {
    /// EINVAL; EOPNOTSUPP where the attribute is one that the device does not have. A verb error
    /// has a fixed text, so of several attributes the first is named.
    fn from(error: StepError) -> Self {
        match error {
            StepError::NoSuchStep { .. } => Self::Invalid(
                "no change of state leads from the present state to the one asked for",
            ),
            StepError::Missing(mask) => Self::Invalid(
                TEXTS
                    .iter()
                    .find(|(attribute, ..)| mask.intersects(*attribute))
                    .map_or("a required attribute is missing", |(_, missing, _)| missing),
            ),
            StepError::NotAllowed(mask) => {
                if let Some((_, text)) = UNSUPPORTED.iter().find(|row| mask.intersects(row.0)) {
                    return Self::NotSupported(text);
                }
                Self::Invalid(
                    TEXTS
                        .iter()
                        .find(|(attribute, ..)| mask.intersects(*attribute))
                        .map_or("the attribute mask has unknown bits", |(.., extra)| extra),
                )
            }
        }
    }
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchStep { from, to } => write!(f, "no step leads from {from:?} to {to:?}"),
            Self::Missing(mask) => {
                f.write_str("the step needs ")?;
                bitflags::parser::to_writer(mask, f)
            }
            Self::NotAllowed(mask) => {
                f.write_str("the step does not take ")?;
                bitflags::parser::to_writer(mask, f)
            }
        }
    }
}

impl core::error::Error for StepError {}

#[cfg(test)]
mod tests;
