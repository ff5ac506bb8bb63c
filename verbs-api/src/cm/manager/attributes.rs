//! What brings the queue pair of an identifier from state to state.

use softrnic_model::cm::Parameters;
use softrnic_model::verbs::{
    Access, AddressVector, Gid, Mtu, QpAttributeMask as Mask, QpAttributes, QpState, QpType,
};

use super::EmulatedManager;
use super::ids::Id;
use super::requests::UDP_QKEY;
use crate::cm::{Cm, CmError, CmId};

/// RNR timer code that peers are asked to wait: 0.64 ms.
const MIN_RNR_TIMER: u8 = 12;

impl EmulatedManager {
    pub(super) fn attributes_for(&self, id: CmId, state: QpState) -> Cm<(QpAttributes, Mask)> {
        {
            let manager = self.lock();
            let known = manager.id(id)?;
            if known.qp_type == QpType::Ud || state == QpState::Init {
                return datagram_or_first(known, state);
            }
        }
        self.tell(id, |manager, machine, comm, _| {
            let parameters = *machine
                .parameters(comm)
                .ok_or_else(|| CmError::invalid("there is no connection"))?;
            let known = manager.id(id)?;
            match state {
                QpState::Rtr => ready_to_receive(known, &parameters),
                QpState::Rts => ready_to_send(known, &parameters),
                QpState::Reset | QpState::Init | QpState::Sqd | QpState::Sqe | QpState::Err => {
                    Err(CmError::invalid("no state of connecting"))
                }
            }
        })
    }
}

/// Into the first state of all types, and all states of a datagram queue pair.
fn datagram_or_first(id: &Id, state: QpState) -> Cm<(QpAttributes, Mask)> {
    let attributes = QpAttributes {
        state,
        qkey: UDP_QKEY,
        // What the peer may do beyond that is for the program to grant.
        access: Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC,
        sq_psn: id.psn,
        ..QpAttributes::default()
    };
    let datagram = id.qp_type == QpType::Ud;
    let mask = match state {
        QpState::Init if datagram => Mask::PKEY_INDEX | Mask::PORT | Mask::QKEY,
        QpState::Init => Mask::PKEY_INDEX | Mask::PORT | Mask::ACCESS_FLAGS,
        QpState::Rtr => Mask::empty(),
        QpState::Rts => Mask::SQ_PSN,
        QpState::Reset | QpState::Sqd | QpState::Sqe | QpState::Err => {
            return Err(CmError::invalid("no state of connecting"));
        }
    };
    Ok((attributes, mask | Mask::STATE))
}

fn early() -> CmError {
    CmError::invalid("the peer has not said yet what that takes")
}

fn ready_to_receive(id: &Id, agreed: &Parameters) -> Cm<(QpAttributes, Mask)> {
    let path = id.path.as_ref().ok_or_else(early)?;
    let mtu = Mtu::ALL.into_iter().find(|mtu| *mtu as u8 == agreed.mtu);
    let attributes = QpAttributes {
        state: QpState::Rtr,
        path: AddressVector {
            dgid: Gid::from(path.destination.ip()),
            sgid_index: path.gid_index,
            hop_limit: path.hop_limit,
            traffic_class: if id.tos == 0 { agreed.traffic_class } else { id.tos },
            flow_label: agreed.flow_label,
            service_level: 0,
        },
        path_mtu: mtu.ok_or_else(|| CmError::invalid("the peer's path MTU is none"))?,
        dest_qp: agreed.remote_qpn.ok_or_else(early)?,
        rq_psn: id.psn,
        max_dest_rd_atomic: agreed.responder_resources,
        min_rnr_timer: MIN_RNR_TIMER,
        ..QpAttributes::default()
    };
    let mut mask = Mask::STATE | Mask::AV | Mask::PATH_MTU | Mask::DEST_QPN | Mask::RQ_PSN;
    if matches!(id.qp_type, QpType::Rc | QpType::XrcRecv) {
        mask |= Mask::MAX_DEST_RD_ATOMIC | Mask::MIN_RNR_TIMER;
    }
    Ok((attributes, mask))
}

fn ready_to_send(id: &Id, agreed: &Parameters) -> Cm<(QpAttributes, Mask)> {
    agreed.remote_qpn.ok_or_else(early)?;
    let attributes = QpAttributes {
        state: QpState::Rts,
        sq_psn: agreed.sq_psn.ok_or_else(early)?,
        timeout: id.ack_timeout.unwrap_or(agreed.ack_timeout),
        retry_count: agreed.retry_count,
        rnr_retry: agreed.rnr_retry_count,
        max_rd_atomic: agreed.initiator_depth,
        ..QpAttributes::default()
    };
    let mut mask = Mask::STATE | Mask::SQ_PSN;
    match id.qp_type {
        QpType::Rc | QpType::XrcSend => {
            mask |= Mask::TIMEOUT | Mask::RETRY_CNT | Mask::RNR_RETRY | Mask::MAX_QP_RD_ATOMIC;
        }
        QpType::XrcRecv => mask |= Mask::TIMEOUT,
        QpType::Uc | QpType::Ud => {}
    }
    Ok((attributes, mask))
}
