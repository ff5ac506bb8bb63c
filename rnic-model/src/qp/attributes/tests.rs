use alloc::vec::Vec;

use super::*;
use crate::verbs::{Mtu, PortState, Psn, QpCapabilities, QpNum};
use QpAttributeMask as Mask;

const V4: Gid = Gid::from_v4([10, 0, 0, 1]);
const V6: Gid = Gid([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
const EMPTY: Gid = Gid([0; 16]);
const GIDS: [Gid; 3] = [V4, V6, EMPTY];

const DEVICE: DeviceAttributes = DeviceAttributes {
    max_mr_size: 1 << 40,
    max_qp: 1024,
    max_qp_wr: 1024,
    max_sge: 16,
    max_inline_data: 256,
    max_cq: 1024,
    max_cqe: 1024,
    max_mr: 1024,
    max_mw: 1024,
    max_pd: 1024,
    max_ah: 1024,
    max_srq: 1024,
    max_srq_wr: 1024,
    max_srq_sge: 16,
    max_qp_rd_atom: 16,
    max_qp_init_rd_atom: 12,
    max_mcast_grp: 16,
    max_mcast_qp_attach: 16,
    max_pkeys: 4,
    node_guid: [0; 8],
    capabilities: crate::verbs::DeviceCapabilities::empty(),
    max_cq_moderation_count: 0,
    max_cq_moderation_period_us: 0,
    qp_rate_limit_min: 10,
    qp_rate_limit_max: 2000,
    core_clock_khz: 1_000_000,
};

const PORT_NOW: PortAttributes = PortAttributes {
    state: PortState::Active,
    max_mtu: Mtu::B4096,
    active_mtu: Mtu::B1024,
    gid_tbl_len: 3,
    max_msg_sz: 1 << 31,
    pkey_tbl_len: 4,
    bad_pkey_cntr: 0,
    qkey_viol_cntr: 0,
};

const BOUNDS: Bounds<'_> = Bounds { device: &DEVICE, port: &PORT_NOW, gids: &GIDS };

fn path(sgid_index: u8, dgid: Gid) -> AddressVector {
    AddressVector { dgid, sgid_index, ..AddressVector::default() }
}

/// Every attribute at a legal value, none of them the default one. There is no `..`: a new
/// attribute does not compile here until somebody has thought of it.
fn legal() -> QpAttributes {
    QpAttributes {
        state: QpState::Rtr,
        current_state: QpState::Init,
        sq_drained_event: true,
        pkey_index: 3,
        port: 1,
        qkey: 0x1111_1111,
        access: Access::REMOTE_READ | Access::LOCAL_WRITE,
        path: path(0, Gid::from_v4([10, 0, 0, 2])),
        path_mtu: Mtu::B512,
        dest_qp: QpNum::new(0x12),
        rq_psn: Psn::new(0xff_ffff),
        sq_psn: Psn::new(0x80_0000),
        max_dest_rd_atomic: 16,
        max_rd_atomic: 12,
        min_rnr_timer: 31,
        timeout: 30,
        retry_count: 7,
        rnr_retry: 6,
        rate_limit: 1000,
        cap: QpCapabilities { max_send_wr: 5, ..QpCapabilities::default() },
    }
}

type Set = fn(&mut QpAttributes);
/// Attribute, how to set it to the bad value, and whether the bad value is bad for UD too.
type Bad = (Mask, Set, bool);

/// One step past each limit, and each other kind of nonsense.
const BAD: &[Bad] = &[
    (Mask::PORT, |a| a.port = 0, true),
    (Mask::PORT, |a| a.port = 2, true),
    (Mask::PKEY_INDEX, |a| a.pkey_index = 4, true),
    (Mask::PKEY_INDEX, |a| a.pkey_index = u16::MAX, true),
    (Mask::ACCESS_FLAGS, |a| a.access = Access::from_bits_retain(1 << 31), true),
    (Mask::PATH_MTU, |a| a.path_mtu = Mtu::B2048, true),
    (Mask::PATH_MTU, |a| a.path_mtu = Mtu::B4096, true),
    (Mask::MAX_DEST_RD_ATOMIC, |a| a.max_dest_rd_atomic = 17, true),
    (Mask::MAX_QP_RD_ATOMIC, |a| a.max_rd_atomic = 13, true),
    (Mask::MIN_RNR_TIMER, |a| a.min_rnr_timer = 32, true),
    (Mask::TIMEOUT, |a| a.timeout = 32, true),
    (Mask::RETRY_CNT, |a| a.retry_count = 8, true),
    (Mask::RNR_RETRY, |a| a.rnr_retry = 8, true),
    (Mask::RATE_LIMIT, |a| a.rate_limit = 9, true),
    (Mask::RATE_LIMIT, |a| a.rate_limit = 2001, true),
    (Mask::AV, |a| a.path.sgid_index = 3, true),
    (Mask::AV, |a| a.path.sgid_index = 255, true),
    (Mask::AV, |a| a.path.sgid_index = 1, true),
    (Mask::AV, |a| a.path = path(2, Gid::from_v4([10, 0, 0, 2])), true),
    (Mask::AV, |a| a.path = path(2, V6), true),
    (Mask::AV, |a| a.path.dgid = V6, true),
    (Mask::AV, |a| a.path.dgid = EMPTY, true),
    (Mask::AV, |a| a.path.dgid = Gid::from_v4([0; 4]), true),
    (Mask::AV, |a| a.path = path(1, EMPTY), true),
    (Mask::AV, |a| a.path.dgid = Gid::from_v4([239, 1, 2, 3]), false),
    (Mask::AV, |a| a.path = path(1, Gid([0xff; 16])), false),
];

/// The same at the limits, where the value is still good.
const GOOD: &[(Mask, Set)] = &[
    (Mask::PKEY_INDEX, |a| a.pkey_index = 0),
    (Mask::ACCESS_FLAGS, |a| a.access = Access::empty()),
    (Mask::ACCESS_FLAGS, |a| a.access = Access::REMOTE | Access::LOCAL_WRITE),
    (Mask::ACCESS_FLAGS, |a| a.access = Access::all()),
    (Mask::PATH_MTU, |a| a.path_mtu = Mtu::B1024),
    (Mask::PATH_MTU, |a| a.path_mtu = Mtu::B256),
    (Mask::MAX_DEST_RD_ATOMIC, |a| a.max_dest_rd_atomic = 0),
    (Mask::MAX_QP_RD_ATOMIC, |a| a.max_rd_atomic = 0),
    (Mask::MIN_RNR_TIMER, |a| a.min_rnr_timer = 0),
    (Mask::TIMEOUT, |a| a.timeout = 31),
    (Mask::TIMEOUT, |a| a.timeout = 0),
    (Mask::RETRY_CNT, |a| a.retry_count = 0),
    (Mask::RNR_RETRY, |a| a.rnr_retry = 7),
    (Mask::RATE_LIMIT, |a| a.rate_limit = 0),
    (Mask::RATE_LIMIT, |a| a.rate_limit = 10),
    (Mask::RATE_LIMIT, |a| a.rate_limit = 2000),
    (Mask::AV, |a| a.path = path(1, V6)),
    (Mask::AV, |a| a.path.dgid = V4),
    (Mask::AV, |a| a.path.flow_label = u32::MAX),
];

const TYPES: [QpType; 5] = QpType::ALL;

#[test]
fn values_at_their_limits_are_good() {
    for qp_type in TYPES {
        assert_eq!(check_values(qp_type, Mask::all(), &legal(), &BOUNDS), Ok(()));
        for (i, (_, set)) in GOOD.iter().enumerate() {
            let mut attributes = legal();
            set(&mut attributes);
            let verdict = check_values(qp_type, Mask::all(), &attributes, &BOUNDS);
            assert_eq!(verdict, Ok(()), "{qp_type:?}, row {i}");
        }
    }
}

#[test]
fn values_past_their_limits_are_refused_where_they_are_given_and_only_there() {
    for qp_type in TYPES {
        for (i, (bit, set, bad_for_ud)) in BAD.iter().enumerate() {
            let mut attributes = legal();
            set(&mut attributes);
            let refused = qp_type != QpType::Ud || *bad_for_ud;
            for mask in [*bit, Mask::all()] {
                let verdict = check_values(qp_type, mask, &attributes, &BOUNDS);
                assert_eq!(verdict.is_err(), refused, "{qp_type:?}, row {i}: {verdict:?}");
            }
            let without = Mask::all().difference(*bit);
            assert_eq!(check_values(qp_type, without, &attributes, &BOUNDS), Ok(()), "row {i}");
        }
    }
}

#[test]
fn each_kind_of_nonsense_is_told_apart() {
    let mut texts: Vec<(Mask, &str)> = Vec::new();
    for (bit, set, _) in BAD {
        let mut attributes = legal();
        set(&mut attributes);
        match check_values(QpType::Rc, *bit, &attributes, &BOUNDS) {
            Err(VerbError::Invalid(text)) => texts.push((*bit, text)),
            other => panic!("{bit:?}: {other:?}"),
        }
    }
    for (bit, text) in &texts {
        assert!(
            texts.iter().all(|(b, t)| t != text || b == bit),
            "{text} is said of two attributes"
        );
    }
    texts.dedup();
    let of_av = texts.iter().filter(|(bit, _)| *bit == Mask::AV).count();
    assert!(of_av >= 6, "{texts:?}");
}

#[test]
fn apply_moves_each_attribute_alone() {
    let from = legal();
    let before = QpAttributes::default();
    for bit in Mask::all().iter() {
        let mut after = before;
        apply(bit, &from, &mut after);
        let expected_change = !matches!(
            bit,
            Mask::CUR_STATE | Mask::PORT | Mask::CAP | Mask::ALT_PATH | Mask::PATH_MIG_STATE
        );
        assert_eq!(after != before, expected_change, "{bit:?}");
        // Putting the one field back must restore everything.
        apply(bit, &before, &mut after);
        assert_eq!(after, before, "{bit:?}");
    }
    let mut port = before;
    apply(Mask::PORT, &QpAttributes { port: 9, ..from }, &mut port);
    assert_eq!(port, QpAttributes { port: 9, ..before });
}

#[test]
fn apply_of_all_leaves_out_the_assumption_and_the_sizes() {
    let mut after = QpAttributes::default();
    apply(Mask::all(), &legal(), &mut after);
    let expected =
        QpAttributes { current_state: QpState::Rtr, cap: QpCapabilities::default(), ..legal() };
    assert_eq!(after, expected);
    let mut same = legal();
    apply(Mask::empty(), &QpAttributes::default(), &mut same);
    assert_eq!(same, QpAttributes { current_state: QpState::Rtr, ..legal() });
}

#[test]
fn apply_moves_what_its_name_says() {
    type Move = fn(&mut QpAttributes, &QpAttributes);
    let names: [(Mask, Move); 17] = [
        (Mask::EN_SQD_ASYNC_NOTIFY, |to, from| to.sq_drained_event = from.sq_drained_event),
        (Mask::ACCESS_FLAGS, |to, from| to.access = from.access),
        (Mask::PKEY_INDEX, |to, from| to.pkey_index = from.pkey_index),
        (Mask::PORT, |to, from| to.port = from.port),
        (Mask::QKEY, |to, from| to.qkey = from.qkey),
        (Mask::AV, |to, from| to.path = from.path),
        (Mask::PATH_MTU, |to, from| to.path_mtu = from.path_mtu),
        (Mask::TIMEOUT, |to, from| to.timeout = from.timeout),
        (Mask::RETRY_CNT, |to, from| to.retry_count = from.retry_count),
        (Mask::RNR_RETRY, |to, from| to.rnr_retry = from.rnr_retry),
        (Mask::RQ_PSN, |to, from| to.rq_psn = from.rq_psn),
        (Mask::MAX_QP_RD_ATOMIC, |to, from| to.max_rd_atomic = from.max_rd_atomic),
        (Mask::MIN_RNR_TIMER, |to, from| to.min_rnr_timer = from.min_rnr_timer),
        (Mask::SQ_PSN, |to, from| to.sq_psn = from.sq_psn),
        (Mask::MAX_DEST_RD_ATOMIC, |to, from| to.max_dest_rd_atomic = from.max_dest_rd_atomic),
        (Mask::DEST_QPN, |to, from| to.dest_qp = from.dest_qp),
        (Mask::RATE_LIMIT, |to, from| to.rate_limit = from.rate_limit),
    ];
    for (bit, set) in names {
        let (mut applied, mut expected) = (QpAttributes::default(), QpAttributes::default());
        apply(bit, &legal(), &mut applied);
        set(&mut expected, &legal());
        assert_eq!(applied, expected, "{bit:?}");
    }
}

#[test]
fn modify_goes_from_reset_to_rts_and_stays_without_a_state() {
    let mut qp = QpAttributes::default();
    let walk = [
        (QpState::Init, Mask::PKEY_INDEX | Mask::PORT | Mask::ACCESS_FLAGS),
        (
            QpState::Rtr,
            Mask::AV
                | Mask::PATH_MTU
                | Mask::DEST_QPN
                | Mask::RQ_PSN
                | Mask::MAX_DEST_RD_ATOMIC
                | Mask::MIN_RNR_TIMER,
        ),
        (
            QpState::Rts,
            Mask::SQ_PSN
                | Mask::TIMEOUT
                | Mask::RETRY_CNT
                | Mask::RNR_RETRY
                | Mask::MAX_QP_RD_ATOMIC,
        ),
    ];
    for (state, mask) in walk {
        let mask = mask | Mask::STATE;
        let asked = QpAttributes { state, ..legal() };
        assert_eq!(check_modify(QpType::Rc, qp.state, mask, &asked, &BOUNDS), Ok(state));
        apply(mask, &asked, &mut qp);
        assert_eq!((qp.state, qp.current_state), (state, state));
    }
    // Without STATE the asked state is not looked at.
    let asked = QpAttributes { state: QpState::Sqe, ..legal() };
    let stays = check_modify(QpType::Rc, qp.state, Mask::MIN_RNR_TIMER, &asked, &BOUNDS);
    assert_eq!(stays, Ok(QpState::Rts));
}

#[test]
fn modify_refuses_a_wrong_assumption_a_wrong_step_and_a_wrong_value() {
    let modify =
        |mask, attributes| check_modify(QpType::Rc, QpState::Rts, mask, &attributes, &BOUNDS);
    let state = Mask::STATE | Mask::CUR_STATE;
    let assumed = |current_state| QpAttributes { state: QpState::Rts, current_state, ..legal() };
    assert_eq!(modify(state, assumed(QpState::Rts)), Ok(QpState::Rts));
    assert_eq!(
        modify(state, assumed(QpState::Sqd)),
        Err(VerbError::Invalid("the queue pair is not in the state that is assumed"))
    );
    let to_init = QpAttributes { state: QpState::Init, ..legal() };
    assert_eq!(modify(Mask::STATE, to_init).unwrap_err().errno(), 22);
    let value = QpAttributes { min_rnr_timer: 32, ..legal() };
    assert_eq!(modify(Mask::MIN_RNR_TIMER, value).unwrap_err().errno(), 22);
    assert_eq!(modify(Mask::ALT_PATH, legal()).unwrap_err().errno(), 95);
}
