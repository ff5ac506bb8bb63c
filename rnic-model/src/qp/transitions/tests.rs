//! The table against a second formulation of it, over every type, pair of states and mask.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::*;

const TYPES: [QpType; 5] = QpType::ALL;

/// Attributes that occur in some step.
const KNOWN: QpAttributeMask = mask! {
    STATE CUR_STATE EN_SQD_ASYNC_NOTIFY ACCESS_FLAGS PKEY_INDEX PORT QKEY AV PATH_MTU TIMEOUT
    RETRY_CNT RNR_RETRY RQ_PSN MAX_QP_RD_ATOMIC MIN_RNR_TIMER SQ_PSN MAX_DEST_RD_ATOMIC DEST_QPN
    RATE_LIMIT
};

/// Written attribute by attribute, where the code is written step by step: for each attribute and
/// type, the steps that demand it (`!`) and those that take it. `*` stands for every state.
const ORACLE: &str = "
    STATE               rc uc ud xi xt  *>RESET *>ERR SQD>RTS RTS>RTS INIT>INIT SQD>SQD
    STATE               uc ud           SQE>RTS
    STATE               rc uc ud xi xt  RESET>INIT INIT>RTR RTR>RTS RTS>SQD
    PKEY_INDEX          rc uc ud xi xt  RESET>INIT! INIT>INIT INIT>RTR SQD>SQD
    PORT                rc uc ud xi xt  RESET>INIT! INIT>INIT
    PORT                rc xi xt        SQD>SQD
    ACCESS_FLAGS        rc uc xi xt     RESET>INIT! INIT>INIT INIT>RTR RTR>RTS RTS>RTS SQD>RTS SQD>SQD
    ACCESS_FLAGS        uc              SQE>RTS
    QKEY                ud              RESET>INIT! INIT>INIT INIT>RTR RTR>RTS RTS>RTS SQD>RTS SQE>RTS SQD>SQD
    AV                  rc uc xi xt     INIT>RTR! SQD>SQD
    PATH_MTU            rc uc xi xt     INIT>RTR!
    DEST_QPN            rc uc xi xt     INIT>RTR!
    RQ_PSN              rc uc xi xt     INIT>RTR!
    MAX_DEST_RD_ATOMIC  rc xt           INIT>RTR! SQD>SQD
    MIN_RNR_TIMER       rc xt           INIT>RTR! RTR>RTS RTS>RTS SQD>RTS SQD>SQD
    SQ_PSN              rc uc ud xi xt  RTR>RTS!
    MAX_QP_RD_ATOMIC    rc xi           RTR>RTS! SQD>SQD
    TIMEOUT             rc xi xt        RTR>RTS! SQD>SQD
    RETRY_CNT           rc xi           RTR>RTS! SQD>SQD
    RNR_RETRY           rc xi           RTR>RTS! SQD>SQD
    CUR_STATE           rc uc ud xi xt  RTR>RTS RTS>RTS SQD>RTS
    CUR_STATE           uc ud           SQE>RTS
    EN_SQD_ASYNC_NOTIFY rc uc ud xi xt  RTS>SQD
    RATE_LIMIT          rc              INIT>RTR RTR>RTS RTS>RTS
";

/// What the oracle says of one step.
#[derive(Clone, Copy, Default)]
struct Expected {
    exists: bool,
    demands: u32,
    takes: u32,
}

fn parse_states(text: &str) -> Vec<QpState> {
    let states = ["RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"].into_iter().zip(QpState::ALL);
    let found: Vec<_> =
        states.filter(|(name, _)| text == "*" || text == *name).map(|(_, s)| s).collect();
    assert!(!found.is_empty(), "{text}");
    found
}

/// Every cell of the oracle as (attribute bits, type, from, to, demanded).
fn cells() -> Vec<(u32, QpType, QpState, QpState, bool)> {
    let mut cells = Vec::new();
    for line in ORACLE.lines().filter(|line| !line.trim().is_empty()) {
        let mut words = line.split_whitespace();
        let attribute = QpAttributeMask::from_name(words.next().unwrap()).expect(line).bits();
        let mut types = Vec::new();
        for word in words {
            match word {
                "rc" => types.push(QpType::Rc),
                "uc" => types.push(QpType::Uc),
                "ud" => types.push(QpType::Ud),
                "xi" => types.push(QpType::XrcSend),
                "xt" => types.push(QpType::XrcRecv),
                step => {
                    let (from, to) = step.trim_end_matches('!').split_once('>').expect(line);
                    for from in parse_states(from) {
                        for to in parse_states(to) {
                            cells.extend(
                                types
                                    .iter()
                                    .map(|&t| (attribute, t, from, to, step.ends_with('!'))),
                            );
                        }
                    }
                }
            }
        }
    }
    cells
}

fn expected(cells: &[(u32, QpType, QpState, QpState, bool)], step: Step) -> Expected {
    let mut of_step = Expected::default();
    for (attribute, ..) in cells.iter().filter(|c| (c.1, c.2, c.3) == step) {
        of_step.exists = true;
        of_step.takes |= attribute;
    }
    for (attribute, ..) in cells.iter().filter(|c| (c.1, c.2, c.3) == step && c.4) {
        of_step.demands |= attribute;
    }
    if step.1 != step.2 {
        of_step.demands |= QpAttributeMask::STATE.bits();
    }
    of_step
}

type Step = (QpType, QpState, QpState);

fn all_steps() -> impl Iterator<Item = Step> {
    TYPES.into_iter().flat_map(|t| {
        QpState::ALL.into_iter().flat_map(move |from| QpState::ALL.map(move |to| (t, from, to)))
    })
}

fn judge(of_step: Expected, step: Step, given: u32) -> Result<(), StepError> {
    let missing = of_step.demands & !given;
    let extra = given & !of_step.takes;
    if !of_step.exists {
        Err(StepError::NoSuchStep { from: step.1, to: step.2 })
    } else if missing != 0 {
        Err(StepError::Missing(QpAttributeMask::from_bits_retain(missing)))
    } else if extra != 0 {
        Err(StepError::NotAllowed(QpAttributeMask::from_bits_retain(extra)))
    } else {
        Ok(())
    }
}

fn every_step_with_every_mask(of: QpType) {
    let cells = cells();
    let mut accepted = 0;
    for step @ (qp_type, from, to) in all_steps().filter(|step| step.0 == of) {
        let of_step = expected(&cells, step);
        let mut given = 0_u32;
        loop {
            let verdict = check_step(qp_type, from, to, QpAttributeMask::from_bits_retain(given));
            assert_eq!(verdict, judge(of_step, step, given), "{step:?} {given:#x}");
            accepted += u32::from(verdict.is_ok());
            // The next subset of the known bits; 0 again after the last.
            given = given.wrapping_sub(KNOWN.bits()) & KNOWN.bits();
            if given == 0 {
                break;
            }
        }
    }
    assert!(accepted > 0);
}

#[test]
fn every_step_of_rc_with_every_mask() {
    every_step_with_every_mask(QpType::Rc);
}

#[test]
fn every_step_of_uc_with_every_mask() {
    every_step_with_every_mask(QpType::Uc);
}

#[test]
fn every_step_of_ud_with_every_mask() {
    every_step_with_every_mask(QpType::Ud);
}

#[test]
fn every_step_of_xrc_with_every_mask() {
    every_step_with_every_mask(QpType::XrcSend);
    every_step_with_every_mask(QpType::XrcRecv);
}

#[test]
fn unsupported_and_unknown_attributes_spoil_every_legal_change() {
    let foreign = [
        mask!(ALT_PATH),
        mask!(PATH_MIG_STATE),
        mask!(CAP),
        mask!(ALT_PATH PATH_MIG_STATE CAP),
        QpAttributeMask::from_bits_retain(1 << 21),
        QpAttributeMask::from_bits_retain(1 << 31),
    ];
    let mut changes = 0;
    for (qp_type, from, to) in all_steps() {
        let Some(step) = requirements(qp_type, from, to) else { continue };
        assert!(
            step.required.intersection(step.optional).is_empty(),
            "{qp_type:?} {from:?} {to:?}"
        );
        let legal = step.required.union(step.optional).union(QpAttributeMask::STATE);
        assert_eq!(check_step(qp_type, from, to, legal), Ok(()));
        for bits in foreign {
            changes += 1;
            let verdict = check_step(qp_type, from, to, legal.union(bits));
            assert_eq!(verdict, Err(StepError::NotAllowed(bits)));
        }
    }
    assert!(changes > 0);
}

#[test]
fn the_walk_that_every_program_takes() {
    let walks: [(QpType, [QpAttributeMask; 3]); 5] = [
        (
            QpType::Rc,
            [
                mask!(STATE PKEY_INDEX PORT ACCESS_FLAGS),
                mask!(STATE AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER),
                mask!(STATE TIMEOUT RETRY_CNT RNR_RETRY SQ_PSN MAX_QP_RD_ATOMIC),
            ],
        ),
        (
            QpType::Uc,
            [
                mask!(STATE PKEY_INDEX PORT ACCESS_FLAGS),
                mask!(STATE AV PATH_MTU DEST_QPN RQ_PSN),
                mask!(STATE SQ_PSN),
            ],
        ),
        (QpType::Ud, [mask!(STATE PKEY_INDEX PORT QKEY), mask!(STATE), mask!(STATE SQ_PSN)]),
        (
            QpType::XrcSend,
            [
                mask!(STATE PKEY_INDEX PORT ACCESS_FLAGS),
                mask!(STATE AV PATH_MTU DEST_QPN RQ_PSN),
                mask!(STATE TIMEOUT RETRY_CNT RNR_RETRY SQ_PSN MAX_QP_RD_ATOMIC),
            ],
        ),
        (
            QpType::XrcRecv,
            [
                mask!(STATE PKEY_INDEX PORT ACCESS_FLAGS),
                mask!(STATE AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER),
                mask!(STATE TIMEOUT SQ_PSN),
            ],
        ),
    ];
    for (qp_type, masks) in walks {
        let states = [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts];
        for (pair, given) in states.windows(2).zip(masks) {
            assert_eq!(check_step(qp_type, pair[0], pair[1], given), Ok(()), "{qp_type:?}");
            for attribute in given.iter() {
                let verdict = check_step(qp_type, pair[0], pair[1], given.difference(attribute));
                assert_eq!(verdict, Err(StepError::Missing(attribute)), "{qp_type:?}");
            }
        }
    }
}

#[test]
fn no_step_leads_to_sqe_or_out_of_err_but_to_reset() {
    for (qp_type, from, to) in all_steps() {
        if to == QpState::Sqe
            || (from == QpState::Err && !matches!(to, QpState::Reset | QpState::Err))
        {
            assert_eq!(requirements(qp_type, from, to), None);
        }
    }
}

#[test]
fn what_the_program_is_told() {
    let no_step = StepError::NoSuchStep { from: QpState::Reset, to: QpState::Rts };
    assert_eq!(no_step.to_string(), "no step leads from Reset to Rts");
    assert_eq!(VerbError::from(no_step).errno_name(), "EINVAL");

    let missing = StepError::Missing(mask!(AV PATH_MTU));
    assert_eq!(missing.to_string(), "the step needs AV | PATH_MTU");
    assert_eq!(
        VerbError::from(missing),
        VerbError::Invalid("IBV_QP_AV is required for this change of state")
    );

    let extra = StepError::NotAllowed(mask!(QKEY));
    assert_eq!(extra.to_string(), "the step does not take QKEY");
    assert_eq!(
        VerbError::from(extra),
        VerbError::Invalid("IBV_QP_QKEY cannot be changed in this step or service type")
    );

    for unsupported in [mask!(ALT_PATH), mask!(QKEY PATH_MIG_STATE), mask!(CAP)] {
        let error = VerbError::from(StepError::NotAllowed(unsupported));
        assert_eq!(error.errno_name(), "EOPNOTSUPP", "{unsupported:?}");
    }
    let unknown =
        VerbError::from(StepError::NotAllowed(QpAttributeMask::from_bits_retain(1 << 21)));
    assert_eq!(unknown, VerbError::Invalid("the attribute mask has unknown bits"));
}

#[test]
fn every_attribute_has_a_text_of_its_own() {
    for attribute in QpAttributeMask::all().iter() {
        let name = attribute.iter_names().next().unwrap().0.to_string();
        let told = VerbError::from(StepError::NotAllowed(attribute)).to_string();
        assert!(told.contains(&name), "{name}: {told}");
    }
}
