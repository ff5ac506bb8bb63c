//! Values of queue pair attributes: whether they are in range, and putting them in place.

use core::ops::RangeInclusive;

use super::check_step;
use crate::verbs::{
    Access, AddressVector, DeviceAttributes, Gid, PortAttributes, QpAttributeMask, QpAttributes,
    QpState, QpType, VerbError,
};

/// What values are measured against.
#[derive(Clone, Copy, Debug)]
pub struct Bounds<'a> {
    /// Limits of the device.
    pub device: &'a DeviceAttributes,
    /// The port as it is now.
    pub port: &'a PortAttributes,
    /// The port's GID table; an entry of zeros is an empty one.
    pub gids: &'a [Gid],
}

/// Number of the only port.
const PORT: u8 = 1;
/// Codes of the two timers: 5 bits.
const TIMER_CODES: RangeInclusive<u8> = 0..=31;
/// Both retry counts: 3 bits.
const RETRIES: RangeInclusive<u8> = 0..=7;
/// The rights that may be given to a queue pair. Only those of peers mean something, but programs
/// give it what they registered their memory with, and devices do not mind.
const QP_RIGHTS: Access = Access::all();

/// Checks a whole `modify_qp`: the assumed state, the step, the values. Returns the state to be in
/// afterwards. A call that is refused changes nothing (`ibv_modify_qp(3)`, notes).
///
/// # Errors
/// EINVAL, or EOPNOTSUPP for attributes that the device does not have; the text says which.
// [qp-states/all-or-nothing]
pub fn check_modify(
    qp_type: QpType,
    current: QpState,
    mask: QpAttributeMask,
    attributes: &QpAttributes,
    bounds: &Bounds<'_>,
) -> Result<QpState, VerbError> {
    let next = if mask.contains(QpAttributeMask::STATE) { attributes.state } else { current };
    check_step(qp_type, current, next, mask)?;
    // [qp-states/cur-state-wrong]
    if mask.contains(QpAttributeMask::CUR_STATE) && attributes.current_state != current {
        return Err(VerbError::Invalid("the queue pair is not in the state that is assumed"));
    }
    check_values(qp_type, mask, attributes, bounds)?;
    Ok(next)
}

/// Checks the values of the attributes in `mask`; what is not in `mask` is not looked at.
///
/// # Errors
/// EINVAL; the text says which attribute and why.
pub fn check_values(
    qp_type: QpType,
    mask: QpAttributeMask,
    attributes: &QpAttributes,
    bounds: &Bounds<'_>,
) -> Result<(), VerbError> {
    use QpAttributeMask as Mask;
    let Bounds { device, port, gids } = *bounds;
    let a = attributes;
    let rules = [
        // [qp-attributes/port-one]
        (Mask::PORT, a.port == PORT, "port_num is not 1, the only port"),
        // [qp-attributes/pkey-index]
        (Mask::PKEY_INDEX, a.pkey_index < port.pkey_tbl_len, "pkey_index is past the P_Key table"),
        (
            Mask::ACCESS_FLAGS,
            // [qp-attributes/access-bits]
            QP_RIGHTS.contains(a.access),
            "qp_access_flags has a right that does not exist",
        ),
        (
            Mask::PATH_MTU,
            // [qp-attributes/path-mtu]
            a.path_mtu <= port.active_mtu,
            "path_mtu is above the active MTU of the port",
        ),
        (
            Mask::MAX_DEST_RD_ATOMIC,
            // [qp-attributes/max-dest-rd-atomic]
            a.max_dest_rd_atomic <= device.max_qp_rd_atom,
            "max_dest_rd_atomic is above max_qp_rd_atom",
        ),
        (
            Mask::MAX_QP_RD_ATOMIC,
            // [qp-attributes/max-rd-atomic]
            a.max_rd_atomic <= device.max_qp_init_rd_atom,
            "max_rd_atomic is above max_qp_init_rd_atom",
        ),
        (
            Mask::MIN_RNR_TIMER,
            // [qp-attributes/five-bit-timers]
            TIMER_CODES.contains(&a.min_rnr_timer),
            "min_rnr_timer is above 31, for it has 5 bits",
        ),
        (Mask::TIMEOUT, TIMER_CODES.contains(&a.timeout), "timeout is above 31, for it has 5 bits"),
        (
            Mask::RETRY_CNT,
            // [qp-attributes/three-bit-retries]
            RETRIES.contains(&a.retry_count),
            "retry_cnt is above 7, for it has 3 bits",
        ),
        (
            Mask::RNR_RETRY,
            RETRIES.contains(&a.rnr_retry),
            "rnr_retry is above 7, for it has 3 bits",
        ),
        (
            Mask::RATE_LIMIT,
            // [qp-attributes/rate-limit-range]
            a.rate_limit == 0
                || (device.qp_rate_limit_min..=device.qp_rate_limit_max).contains(&a.rate_limit),
            "rate_limit is outside of what the device can keep",
        ),
        (
            Mask::AV,
            // [qp-attributes/dgid-multicast]
            qp_type == QpType::Ud || !a.path.dgid.is_multicast(),
            "a connected queue pair cannot be connected to a multicast group",
        ),
    ];
    if let Some((.., why)) = rules.iter().find(|(bit, good, _)| mask.contains(*bit) && !good) {
        return Err(VerbError::Invalid(why));
    }
    if mask.contains(Mask::AV) {
        check_address(&a.path, gids)?;
    }
    Ok(())
}

/// Checks where packets are to go; the same for queue pairs and address handles.
///
/// # Errors
/// EINVAL: no such source GID, no destination, addresses of two families, or a flow label of more
/// than 20 bits.
// [qp-attributes/sgid-index] [qp-attributes/dgid-family]
pub fn check_address(path: &AddressVector, gids: &[Gid]) -> Result<(), VerbError> {
    let source = match gids.get(usize::from(path.sgid_index)) {
        None => return Err(VerbError::Invalid("sgid_index is past the GID table")),
        Some(gid) if is_unspecified(gid) => {
            return Err(VerbError::Invalid("sgid_index names an empty entry of the GID table"));
        }
        Some(gid) => gid,
    };
    if is_unspecified(&path.dgid) {
        return Err(VerbError::Invalid("dgid is the unspecified address"));
    }
    if source.as_v4().is_some() != path.dgid.as_v4().is_some() {
        return Err(VerbError::Invalid("the GID at sgid_index and dgid are not of one IP version"));
    }
    Ok(())
}

/// `::`, or `0.0.0.0` mapped.
fn is_unspecified(gid: &Gid) -> bool {
    gid.0 == [0; 16] || gid.as_v4() == Some([0; 4])
}

/// Copies the attributes in `mask`. A new state also becomes the current one, so that a query
/// reports the same state twice; an assumed state and queue sizes are not copied.
pub fn apply(mask: QpAttributeMask, from: &QpAttributes, into: &mut QpAttributes) {
    macro_rules! copy {
        ($($bit:ident: $field:ident),* $(,)?) => {
            $(if mask.contains(QpAttributeMask::$bit) { into.$field = from.$field; })*
        };
    }
    copy! {
        STATE: state,
        EN_SQD_ASYNC_NOTIFY: sq_drained_event,
        PKEY_INDEX: pkey_index,
        PORT: port,
        QKEY: qkey,
        ACCESS_FLAGS: access,
        AV: path,
        PATH_MTU: path_mtu,
        DEST_QPN: dest_qp,
        RQ_PSN: rq_psn,
        SQ_PSN: sq_psn,
        MAX_DEST_RD_ATOMIC: max_dest_rd_atomic,
        MAX_QP_RD_ATOMIC: max_rd_atomic,
        MIN_RNR_TIMER: min_rnr_timer,
        TIMEOUT: timeout,
        RETRY_CNT: retry_count,
        RNR_RETRY: rnr_retry,
        RATE_LIMIT: rate_limit,
    }
    into.current_state = into.state;
}

#[cfg(test)]
mod tests;
