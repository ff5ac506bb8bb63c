//! Connections: what both ends tell each other, and the steps that follow.

use softrnic_model::verbs::{
    AddressVector, Gid, Mtu, Psn, QpAttributeMask, QpAttributes, QpNum, QpState, QpType,
};

use crate::device::Context;
use crate::endpoint::Endpoint;
use crate::error::Result;

/// How a connection is to behave; the default is that of most programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectOptions {
    /// Path MTU; `None` is the largest that both ports carry. Both ends must have the same.
    pub mtu: Option<Mtu>,
    /// Local ACK timeout code: 4.096 µs · 2^t. 14 is 67 ms.
    pub timeout: u8,
    /// Retries after a timeout, up to 7. Linux's soft-RoCE takes 7 for "without end": the default is 6, with which a
    /// peer that is gone is noticed there, too.
    pub retry_count: u8,
    /// Retries after RNR; 7 is without end.
    pub rnr_retry: u8,
    /// RNR timer code that peers are asked to wait; 12 is 0.64 ms.
    pub min_rnr_timer: u8,
    /// READs and atomics outstanding as requester; `None` is what both ends can.
    pub max_rd_atomic: Option<u8>,
    /// Hop limit or time to live.
    pub hop_limit: u8,
    /// Traffic class or type of service.
    pub traffic_class: u8,
    /// IPv6 flow label.
    pub flow_label: u32,
    /// Service level; kept and reported, without effect on RoCE.
    pub service_level: u8,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            mtu: None,
            timeout: 14,
            retry_count: 6,
            rnr_retry: 7,
            min_rnr_timer: 12,
            max_rd_atomic: None,
            hop_limit: 64,
            traffic_class: 0,
            flow_label: 0,
            service_level: 0,
        }
    }
}

/// What an end of a connection keeps for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) sgid_index: u8,
    gid: Gid,
    pub(crate) first_psn: Psn,
}

impl End {
    /// With the source GID that is asked for or the best one, and a sequence number that is asked
    /// for or a random one.
    pub(crate) fn new(context: &Context, sgid_index: Option<u8>, psn: Option<Psn>) -> Result<Self> {
        let (sgid_index, gid) = match sgid_index {
            Some(index) => (index, context.gid(index)?.gid),
            None => context.first_gid()?,
        };
        Ok(Self { sgid_index, gid, first_psn: psn.unwrap_or_else(|| context.verbs().draw_psn()) })
    }

    /// What the peer needs to know to connect to queue pair `num`.
    pub(crate) fn endpoint(&self, context: &Context, num: QpNum) -> Result<Endpoint> {
        Ok(Endpoint {
            gid: self.gid,
            qp_num: num,
            psn: self.first_psn,
            mtu: context.port()?.active_mtu,
            responder_depth: context.attributes()?.max_qp_rd_atom,
        })
    }

    /// The attributes of a connection of queue pair `num` to `peer`.
    pub(crate) fn attributes(
        &self,
        context: &Context,
        num: QpNum,
        peer: &Endpoint,
        options: &ConnectOptions,
    ) -> Result<QpAttributes> {
        let own = self.endpoint(context, num)?;
        let initiator_depth = context.attributes()?.max_qp_init_rd_atom;
        Ok(QpAttributes {
            path: AddressVector {
                dgid: peer.gid,
                sgid_index: self.sgid_index,
                hop_limit: options.hop_limit,
                traffic_class: options.traffic_class,
                flow_label: options.flow_label,
                service_level: options.service_level,
            },
            path_mtu: options.mtu.unwrap_or_else(|| own.mtu.min(peer.mtu)),
            dest_qp: peer.qp_num,
            rq_psn: peer.psn,
            sq_psn: own.psn,
            max_dest_rd_atomic: own.responder_depth,
            max_rd_atomic: options
                .max_rd_atomic
                .unwrap_or_else(|| initiator_depth.min(peer.responder_depth)),
            min_rnr_timer: options.min_rnr_timer,
            timeout: options.timeout,
            retry_count: options.retry_count,
            rnr_retry: options.rnr_retry,
            ..QpAttributes::default()
        })
    }
}

/// The steps from `Init` to `Rts` of a connected queue pair, with what each must be given.
pub(crate) fn steps(qp_type: QpType) -> [(QpState, QpAttributeMask); 2] {
    use QpAttributeMask as M;
    let mut rtr = M::STATE | M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN;
    let mut rts = M::STATE | M::SQ_PSN;
    if matches!(qp_type, QpType::Rc | QpType::XrcRecv) {
        rtr |= M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER;
    }
    if qp_type.is_reliable() {
        rts |= M::TIMEOUT;
    }
    if matches!(qp_type, QpType::Rc | QpType::XrcSend) {
        rts |= M::RETRY_CNT | M::RNR_RETRY | M::MAX_QP_RD_ATOMIC;
    }
    [(QpState::Rtr, rtr), (QpState::Rts, rts)]
}
