//! What may be posted: checks that need nothing but the work request and the queue.
//!
//! Whether a queue has room, and whether keys and handles name anything, is not asked here. Local
//! keys, ranges and rights are judged when a request is carried out and give a completion with
//! an error, not a refusal.

use crate::verbs::{
    Mtu, Placement, QpCapabilities, QpState, QpType, RecvWr, SendFlags, SendOp, SendWr, Sge,
    SrqAttributes, SrqId, VerbError,
};

/// Largest message in bytes: 2^31, as InfiniBand volume 1 has it for all services but datagrams. It
/// is what `PortAttributes::max_msg_sz` reports and what is enforced.
pub const MAX_MESSAGE_BYTES: u32 = 1 << 31;

/// Bytes of an atomic's operand and result.
const ATOMIC_BYTES: u32 = 8;

/// Checks a send work request and returns the length of its local data in bytes.
///
/// `mtu` is the active MTU of the port, which bounds datagrams. A fence outside RC and a
/// solicited event where the peer completes no receive have no effect and are accepted, as
/// devices do.
///
/// # Errors
/// EINVAL, for the first that holds: the service does not have the operation; the queue pair is
/// not ready to send; flags or operands exclude each other; too many elements; too long.
// [rc-requester/post-state]
pub fn check_send(
    qp_type: QpType,
    state: QpState,
    cap: &QpCapabilities,
    mtu: Mtu,
    wr: &SendWr<'_>,
) -> Result<u32, VerbError> {
    if !has_operation(qp_type, &wr.op) {
        return Err(VerbError::Invalid("the service type does not have this operation"));
    }
    match state {
        QpState::Reset | QpState::Init | QpState::Rtr => {
            return Err(VerbError::Invalid("sends can be posted from RTS on"));
        }
        // In ERR and SQE the request is flushed, in SQD it waits.
        QpState::Rts | QpState::Sqd | QpState::Sqe | QpState::Err => {}
    }
    if !SendFlags::all().contains(wr.flags) {
        return Err(VerbError::Invalid("a send flag is unknown, or asks for checksum offload"));
    }
    // [rc-requester/invalidate-last]
    if matches!(wr.op, SendOp::Send { imm: Some(_), invalidate: Some(_) }) {
        return Err(VerbError::Invalid("a SEND carries an immediate or a key, not both"));
    }
    let length = local_length(cap, wr)?;
    match wr.op {
        // [ud/one-packet]
        SendOp::SendTo { .. } if length > mtu.bytes() => {
            Err(VerbError::Invalid("the datagram is longer than the MTU of the port"))
        }
        SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. } | SendOp::AtomicWrite { .. }
            // [read-atomic/atomic-operand]
            if length != ATOMIC_BYTES =>
        {
            Err(VerbError::Invalid("an atomic needs 8 bytes of local memory, no more, no less"))
        }
        SendOp::BindMw { .. } | SendOp::LocalInvalidate { .. } | SendOp::Flush { .. }
            if !wr.sges.is_empty() =>
        {
            Err(VerbError::Invalid("binds, invalidates and flushes take no local memory"))
        }
        SendOp::Flush { placement, .. }
            // [flush-placement/flush-placement-none]
            if placement.is_empty() || !Placement::all().contains(placement) =>
        {
            Err(VerbError::Invalid("a flush needs a placement type, and only those that exist"))
        }
        SendOp::Send { .. }
        | SendOp::SendTo { .. }
        | SendOp::Write { .. }
        | SendOp::Read { .. }
        | SendOp::CompareSwap { .. }
        | SendOp::FetchAdd { .. }
        | SendOp::AtomicWrite { .. }
        | SendOp::Flush { .. }
        | SendOp::BindMw { .. }
        | SendOp::LocalInvalidate { .. } => Ok(length),
    }
}

/// Refuses an atomic whose remote address is no multiple of 8: only for profiles with
/// [`unaligned_atomic_refused_at_post`](crate::profile::Profile::unaligned_atomic_refused_at_post),
/// by rule the responder answers with a NAK.
///
/// # Errors
/// EINVAL.
pub const fn check_atomic_alignment(op: &SendOp) -> Result<(), VerbError> {
    if let SendOp::CompareSwap { remote_addr, .. } | SendOp::FetchAdd { remote_addr, .. } = op
        && !remote_addr.is_multiple_of(8)
    {
        return Err(VerbError::Invalid("the remote address of an atomic is no multiple of 8"));
    }
    Ok(())
}

/// Checks a receive work request of a queue pair and returns the length of its buffers in bytes.
/// `srq` is the shared receive queue that the queue pair receives from, if it does.
///
/// # Errors
/// EINVAL: the queue pair is in RESET, has a shared receive queue, or none at all; too many
/// elements; too long.
pub fn check_recv(
    qp_type: QpType,
    state: QpState,
    srq: Option<SrqId>,
    cap: &QpCapabilities,
    wr: &RecvWr<'_>,
) -> Result<u32, VerbError> {
    // [xrc/target-has-no-receives]
    if !qp_type.receives() {
        return Err(VerbError::Invalid("the service type has no receive queue of its own"));
    }
    // [srq/post-recv-refused]
    if srq.is_some() {
        return Err(VerbError::Invalid("the queue pair receives from a shared receive queue"));
    }
    // In ERR the request is flushed.
    // [qp-states/reset-recv-refused]
    if state == QpState::Reset {
        return Err(VerbError::Invalid("receives can be posted from INIT on"));
    }
    total_length(wr.sges, cap.max_recv_sge)
}

/// The same for a shared receive queue.
///
/// # Errors
/// EINVAL: too many elements, or too long.
// [srq/too-many-sges]
pub fn check_srq_recv(queue: &SrqAttributes, wr: &RecvWr<'_>) -> Result<u32, VerbError> {
    total_length(wr.sges, queue.max_sge)
}

/// The table of `ibv_post_send(3)`, but that UC has no SEND with invalidate: the man page lists
/// it, and no opcode for it exists.
// [rc-requester/operations-by-service] [uc/operations] [ud/operations] [xrc/operations]
const fn has_operation(qp_type: QpType, op: &SendOp) -> bool {
    match op {
        SendOp::SendTo { .. } => matches!(qp_type, QpType::Ud),
        SendOp::Send { invalidate: None, .. }
        | SendOp::Write { .. }
        | SendOp::BindMw { .. }
        | SendOp::LocalInvalidate { .. } => {
            matches!(qp_type, QpType::Rc | QpType::Uc | QpType::XrcSend)
        }
        SendOp::Send { invalidate: Some(_), .. }
        | SendOp::Read { .. }
        | SendOp::CompareSwap { .. }
        | SendOp::FetchAdd { .. }
        | SendOp::AtomicWrite { .. }
        | SendOp::Flush { .. } => matches!(qp_type, QpType::Rc | QpType::XrcSend),
    }
}

/// The length of the data, inline or gathered.
fn local_length(cap: &QpCapabilities, wr: &SendWr<'_>) -> Result<u32, VerbError> {
    if !wr.flags.contains(SendFlags::INLINE) {
        if !wr.inline.is_empty() {
            return Err(VerbError::Invalid("there is inline data, but the inline flag is not set"));
        }
        return total_length(wr.sges, cap.max_send_sge);
    }
    let sends_data = matches!(
        wr.op,
        SendOp::Send { .. }
            | SendOp::SendTo { .. }
            | SendOp::Write { .. }
            | SendOp::AtomicWrite { .. }
    );
    if !sends_data {
        return Err(VerbError::Invalid("only SEND, WRITE and ATOMIC WRITE can be inline"));
    }
    match u32::try_from(wr.inline.len()) {
        Ok(length) if length <= cap.max_inline_data => Ok(length),
        _ => Err(VerbError::Invalid("the inline data is longer than max_inline_data")),
    }
}

/// The sum of the lengths, at most [`MAX_MESSAGE_BYTES`].
// [rc-requester/too-many-sges] [rc-requester/message-too-long] [protection/sge-sum]
fn total_length(sges: &[Sge], max_sge: u32) -> Result<u32, VerbError> {
    if u32::try_from(sges.len()).map_or(true, |count| count > max_sge) {
        return Err(VerbError::Invalid("more scatter/gather elements than the queue has"));
    }
    // Fewer than 2^32 numbers below 2^32: the sum fits.
    let sum: u64 = sges.iter().map(|sge| u64::from(sge.length)).sum();
    match u32::try_from(sum) {
        Ok(length) if length <= MAX_MESSAGE_BYTES => Ok(length),
        _ => Err(VerbError::Invalid("the message is longer than max_msg_sz")),
    }
}

#[cfg(test)]
mod tests;
