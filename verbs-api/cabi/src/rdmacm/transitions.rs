//! The states of an identifier's queue pair.

use softrnic_model::verbs::{Psn, QpAttributeMask, QpAttributes, QpState, QpType};

use super::Id;
use crate::errno::{Errno, Result};
use crate::object::{Object, live};
use crate::queue_pair;

/// What the connection manager says about connections that no queue pair of the type has: unacknowledged
/// ones have no READs and repeat nothing, and of XRC each end has one half.
const fn not_of(qp_type: QpType) -> QpAttributeMask {
    let responder = QpAttributeMask::MAX_DEST_RD_ATOMIC.union(QpAttributeMask::MIN_RNR_TIMER);
    let requester = QpAttributeMask::MAX_QP_RD_ATOMIC
        .union(QpAttributeMask::TIMEOUT)
        .union(QpAttributeMask::RETRY_CNT)
        .union(QpAttributeMask::RNR_RETRY);
    match qp_type {
        QpType::Uc => responder.union(requester),
        QpType::XrcSend => responder,
        QpType::XrcRecv => requester.difference(QpAttributeMask::TIMEOUT),
        QpType::Rc | QpType::Ud => QpAttributeMask::empty(),
    }
}

/// Brings the queue pair to a state, with what the connection manager says and `change` corrects.
fn modify(id: &Object<Id>, state: QpState, change: impl FnOnce(&mut QpAttributes)) -> Result<()> {
    let qp = id.see(|public| public.id.qp);
    let pair = live(&qp)?;
    let (mut attributes, mask) = id.cm()?.init_qp_attr(id.number, state)?;
    change(&mut attributes);
    queue_pair::modify(pair, &attributes, mask.difference(not_of(pair.qp_type)))
}

/// From its creation until it may receive: into the state where receives can be posted.
pub(super) fn to_init(id: &Object<Id>) -> Result<()> {
    modify(id, QpState::Init, |_| {})
}

/// To where it receives; with another number of READs to serve than the peer was told.
pub(super) fn to_receive(id: &Object<Id>, responder_resources: Option<u8>) -> Result<()> {
    // What was not known when it was made.
    to_init(id)?;
    modify(id, QpState::Rtr, |attributes| {
        if let Some(most) = responder_resources {
            attributes.max_dest_rd_atomic = most;
        }
    })
}

/// To where it sends.
pub(super) fn to_send(id: &Object<Id>, initiator_depth: Option<u8>) -> Result<()> {
    modify(id, QpState::Rts, |attributes| {
        if let Some(most) = initiator_depth {
            attributes.max_rd_atomic = most;
        }
    })
}

/// Ends it, if there is one.
pub(super) fn to_error(id: &Object<Id>) -> Result<()> {
    let Some(qp) = id.see(|public| public.id.qp) else { return Ok(()) };
    step(id, qp.get()?.qp_type, QpState::Err, QpAttributeMask::empty())
}

/// All the way, as datagrams need no peer.
pub(super) fn to_datagrams(id: &Object<Id>) -> Result<()> {
    to_init(id)?;
    step(id, QpType::Ud, QpState::Rtr, QpAttributeMask::empty())?;
    step(id, QpType::Ud, QpState::Rts, QpAttributeMask::SQ_PSN)
}

/// To a state that needs nothing, or a first sequence number of 0.
fn step(id: &Object<Id>, qp_type: QpType, state: QpState, also: QpAttributeMask) -> Result<()> {
    let qp = id.see(|public| public.id.qp);
    let pair = live(&qp)?;
    if pair.qp_type != qp_type {
        return Err(Errno::INVALID);
    }
    let attributes = QpAttributes { state, sq_psn: Psn::new(0), ..QpAttributes::default() };
    queue_pair::modify(pair, &attributes, QpAttributeMask::STATE.union(also))
}
