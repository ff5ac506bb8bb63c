//! Values that an attribute may have.

use softrnic_model::verbs::{
    Access, DeviceAttributes, Gid, Mtu, PortAttributes, QpAttributeMask as Mask, QpAttributes,
    QpState, QpType,
};

use super::{attributes, end, is_refused, reach, refused_with};
use crate::case::{Case, Outcome, Problem, verbs};
use crate::stage::Stage;

/// What values are measured against.
struct Limits {
    device: DeviceAttributes,
    port: PortAttributes,
}

/// A value that is refused, or just taken.
struct Value {
    rule: &'static str,
    variant: &'static str,
    /// The step: from, to, and what it must carry.
    step: (QpState, QpState, Mask),
    change: fn(&mut QpAttributes, &Limits) -> Result<(), Problem>,
    taken: bool,
}

const INIT: (QpState, QpState, Mask) =
    (QpState::Reset, QpState::Init, Mask::PKEY_INDEX.union(Mask::PORT).union(Mask::ACCESS_FLAGS));
const RTR: (QpState, QpState, Mask) = (
    QpState::Init,
    QpState::Rtr,
    Mask::AV
        .union(Mask::PATH_MTU)
        .union(Mask::DEST_QPN)
        .union(Mask::RQ_PSN)
        .union(Mask::MAX_DEST_RD_ATOMIC)
        .union(Mask::MIN_RNR_TIMER),
);
const RTS: (QpState, QpState, Mask) = (
    QpState::Rtr,
    QpState::Rts,
    Mask::SQ_PSN
        .union(Mask::MAX_QP_RD_ATOMIC)
        .union(Mask::TIMEOUT)
        .union(Mask::RETRY_CNT)
        .union(Mask::RNR_RETRY),
);

macro_rules! value {
    ($rule:literal, $variant:literal, $step:expr, $taken:literal, |$a:ident, $l:ident| $change:expr) => {
        Value {
            rule: concat!("qp-attributes/", $rule),
            variant: $variant,
            step: $step,
            change: |$a, $l| {
                let _ = &$l;
                $change;
                Ok(())
            },
            taken: $taken,
        }
    };
}

const VALUES: &[Value] = &[
    value!("port-one", "zero", INIT, false, |a, l| a.port = 0),
    value!("port-one", "two", INIT, false, |a, l| a.port = 2),
    value!("pkey-index", "past-the-table", INIT, false, |a, l| a.pkey_index = l.port.pkey_tbl_len),
    value!("pkey-index", "last-of-the-table", INIT, true, |a, l| {
        a.pkey_index = l.port.pkey_tbl_len - 1;
    }),
    value!("access-bits", "unknown", INIT, false, |a, l| {
        a.access = Access::from_bits_retain(1 << 19);
    }),
    value!("access-bits", "none", INIT, true, |a, l| a.access = Access::empty()),
    value!("path-mtu", "active", RTR, true, |a, l| a.path_mtu = l.port.active_mtu),
    value!("path-mtu", "above-active", RTR, false, |a, l| {
        let next = Mtu::ALL.into_iter().find(|mtu| *mtu > l.port.active_mtu);
        let none = || Problem::NotApplicable("the port has the largest MTU that there is".into());
        a.path_mtu = next.ok_or_else(none)?;
    }),
    value!("max-dest-rd-atomic", "above", RTR, false, |a, l| {
        a.max_dest_rd_atomic = l.device.max_qp_rd_atom.saturating_add(1);
    }),
    value!("max-dest-rd-atomic", "as-the-device-has", RTR, true, |a, l| {
        a.max_dest_rd_atomic = l.device.max_qp_rd_atom;
    }),
    value!("max-dest-rd-atomic", "zero", RTR, true, |a, l| a.max_dest_rd_atomic = 0),
    value!("five-bit-timers", "rnr-31", RTR, true, |a, l| a.min_rnr_timer = 31),
    value!("five-bit-timers", "rnr-32", RTR, false, |a, l| a.min_rnr_timer = 32),
    value!("sgid-index", "past-the-table", RTR, false, |a, l| {
        let len = l.port.gid_tbl_len.min(255);
        a.path.sgid_index = len.to_le_bytes()[0];
    }),
    value!("dgid-family", "none", RTR, false, |a, l| a.path.dgid = Gid::default()),
    value!("dgid-family", "other-version", RTR, false, |a, l| {
        let v6 = Gid([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
        a.path.dgid = if a.path.dgid.as_v4().is_some() { v6 } else { Gid::from_v4([10, 0, 0, 9]) };
    }),
    value!("dgid-multicast", "connected", RTR, false, |a, l| {
        let v6 = Gid([0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
        a.path.dgid = if a.path.dgid.as_v4().is_some() { Gid::from_v4([239, 1, 1, 1]) } else { v6 };
    }),
    value!("numbers-24-bits", "rq-psn-all-ones", RTR, true, |a, l| {
        a.rq_psn = softrnic_model::verbs::Psn::new(0xff_ffff);
    }),
    value!("numbers-24-bits", "dest-qp-all-ones-less-one", RTR, true, |a, l| {
        a.dest_qp = softrnic_model::verbs::QpNum::new(0xff_fffe);
    }),
    value!("max-rd-atomic", "above", RTS, false, |a, l| {
        a.max_rd_atomic = l.device.max_qp_init_rd_atom.saturating_add(1);
    }),
    value!("max-rd-atomic", "as-the-device-has", RTS, true, |a, l| {
        a.max_rd_atomic = l.device.max_qp_init_rd_atom;
    }),
    value!("max-rd-atomic", "zero", RTS, true, |a, l| a.max_rd_atomic = 0),
    value!("five-bit-timers", "timeout-31", RTS, true, |a, l| a.timeout = 31),
    value!("five-bit-timers", "timeout-32", RTS, false, |a, l| a.timeout = 32),
    value!("three-bit-retries", "retry-7", RTS, true, |a, l| a.retry_count = 7),
    value!("three-bit-retries", "retry-8", RTS, false, |a, l| a.retry_count = 8),
    value!("three-bit-retries", "rnr-7", RTS, true, |a, l| a.rnr_retry = 7),
    value!("three-bit-retries", "rnr-8", RTS, false, |a, l| a.rnr_retry = 8),
    value!("numbers-24-bits", "sq-psn-all-ones", RTS, true, |a, l| {
        a.sq_psn = softrnic_model::verbs::Psn::new(0xff_ffff);
    }),
];

pub(super) fn cases() -> Vec<Case> {
    let of = |value: &'static Value| {
        verbs(value.rule, value.variant, move |stage| is_judged(stage, value))
    };
    let mut all: Vec<Case> = VALUES.iter().map(of).collect();
    all.push(verbs("qp-attributes/alternate-path", "in-init", |stage| {
        absent(stage, Mask::ALT_PATH)
    }));
    all.push(verbs("qp-attributes/alternate-path", "migration-state", |stage| {
        absent(stage, Mask::PATH_MIG_STATE)
    }));
    all.push(verbs("qp-attributes/cap-resize", "refused", |stage| absent(stage, Mask::CAP)));
    all.push(verbs("qp-attributes/dgid-multicast", "address-handle", group_handle));
    all.push(verbs("qp-attributes/rate-limit-range", "above-and-below", rate_limits));
    all
}

fn limits(stage: &Stage) -> Outcome<Limits> {
    let verbs = stage.verbs(0);
    Ok(Limits { device: verbs.query_device()?, port: verbs.query_port(1)? })
}

fn is_judged(stage: &Stage, value: &Value) -> Outcome {
    let (from, to, required) = value.step;
    let end = reach(stage, QpType::Rc, from)?;
    let mut attributes = attributes(stage, &end, from, to)?;
    (value.change)(&mut attributes, &limits(stage)?)?;
    let mask = Mask::STATE | required;
    if !value.taken {
        return is_refused(stage, &end, &attributes, mask);
    }
    stage.verbs(0).modify_qp(end.qp, &attributes, mask)?;
    crate::same!(stage.state(&end)?, to, "state");
    Ok(())
}

fn absent(stage: &Stage, mask: Mask) -> Outcome {
    let end = reach(stage, QpType::Rc, QpState::Init)?;
    let attributes = attributes(stage, &end, QpState::Init, QpState::Rtr)?;
    refused_with(stage, &end, &attributes, Mask::STATE | RTR.2 | mask, "EOPNOTSUPP")
}

fn group_handle(stage: &mut Stage) -> Outcome {
    let end = end(stage, 0, QpType::Ud)?;
    let mut path = attributes(stage, &end, QpState::Reset, QpState::Init)?.path;
    let v6 = Gid([0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    path.dgid = if path.dgid.as_v4().is_some() { Gid::from_v4([239, 1, 1, 1]) } else { v6 };
    let ah = stage.verbs(0).create_ah(end.pd, &path)?;
    Ok(stage.verbs(0).destroy_ah(ah)?)
}

fn rate_limits(stage: &mut Stage) -> Outcome {
    let device = limits(stage)?.device;
    if device.qp_rate_limit_max == 0 {
        return Err(Problem::NotApplicable("the device keeps no rate limits".into()));
    }
    let end = reach(stage, QpType::Rc, QpState::Rts)?;
    let mut attributes = attributes(stage, &end, QpState::Rts, QpState::Rts)?;
    for kbps in
        [device.qp_rate_limit_min.saturating_sub(1), device.qp_rate_limit_max.saturating_add(1)]
    {
        let is_inside = (device.qp_rate_limit_min..=device.qp_rate_limit_max).contains(&kbps);
        attributes.rate_limit = kbps;
        if kbps != 0 && !is_inside {
            is_refused(stage, &end, &attributes, Mask::RATE_LIMIT)?;
        }
    }
    for kbps in [0, device.qp_rate_limit_min, device.qp_rate_limit_max] {
        attributes.rate_limit = kbps;
        stage.verbs(0).modify_qp(end.qp, &attributes, Mask::RATE_LIMIT)?;
    }
    Ok(())
}
