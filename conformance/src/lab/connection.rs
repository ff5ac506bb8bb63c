//! How two queue pairs are connected: the parameters, and the steps that they make.

use softrnic_model::verbs::{
    Access, AddressVector, Mtu, Psn, QpAttributeMask, QpAttributes, QpCapabilities, QpNum, QpState,
    QpType,
};

/// Parameters of a connection. Both ends have the same but for the first sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Service type.
    pub qp_type: QpType,
    /// Path MTU.
    pub path_mtu: Mtu,
    /// The first sequence number that each end sends.
    pub psn: [Psn; 2],
    /// What each end lets the other do through the queue pair.
    pub access: Access,
    /// READs and atomics that may be open, as requester and as responder.
    pub read_depth: u8,
    /// Retries after silence.
    pub retry_count: u8,
    /// Retries after RNR; 7 is without end.
    pub rnr_retry: u8,
    /// RNR timer code.
    pub min_rnr_timer: u8,
    /// Local ACK timeout code.
    pub timeout: u8,
    /// Q_Key (datagrams).
    pub qkey: u32,
    /// Bytes of the buffer at each end.
    pub buffer_len: usize,
}

/// Every right that a region of the cases has.
pub const ALL_RIGHTS: Access = Access::LOCAL_WRITE.union(Access::REMOTE).union(Access::MW_BIND);

impl Connection {
    /// RC, path MTU 1024, every right, 16 READs, retries without end when no receive is posted
    /// (0.64 ms between them), time-out 268 ms.
    pub const RC: Self = Self {
        qp_type: QpType::Rc,
        path_mtu: Mtu::B1024,
        psn: [Psn::new(0); 2],
        access: ALL_RIGHTS,
        read_depth: 16,
        retry_count: 7,
        rnr_retry: 7,
        min_rnr_timer: 12,
        timeout: 16,
        qkey: 0x1111_1111,
        buffer_len: 65_536,
    };
    /// The same as UC.
    pub const UC: Self = Self { qp_type: QpType::Uc, ..Self::RC };
    /// The same as UD.
    pub const UD: Self = Self { qp_type: QpType::Ud, ..Self::RC };

    /// The steps that bring end `end` to RTS, towards queue pair `peer` at the end of `path`.
    #[must_use]
    pub fn steps(&self, end: usize, path: AddressVector, peer: QpNum) -> [Step; 3] {
        use QpAttributeMask as M;
        let [own_psn, peer_psn] = if end == 0 { self.psn } else { [self.psn[1], self.psn[0]] };
        let attributes = QpAttributes {
            qkey: self.qkey,
            access: self.access,
            path,
            path_mtu: self.path_mtu,
            dest_qp: peer,
            rq_psn: peer_psn,
            sq_psn: own_psn,
            max_dest_rd_atomic: self.read_depth,
            max_rd_atomic: self.read_depth,
            min_rnr_timer: self.min_rnr_timer,
            timeout: self.timeout,
            retry_count: self.retry_count,
            rnr_retry: self.rnr_retry,
            ..QpAttributes::default()
        };
        let way = M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN;
        let [init, rtr, rts] = match self.qp_type {
            QpType::Rc => [
                M::ACCESS_FLAGS,
                way | M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER,
                M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::MAX_QP_RD_ATOMIC,
            ],
            QpType::Uc => [M::ACCESS_FLAGS, way, M::empty()],
            QpType::Ud => [M::QKEY, M::empty(), M::empty()],
            QpType::XrcSend => [
                M::ACCESS_FLAGS,
                way,
                M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::MAX_QP_RD_ATOMIC,
            ],
            QpType::XrcRecv => {
                [M::ACCESS_FLAGS, way | M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER, M::TIMEOUT]
            }
        };
        let step = |state, mask| Step {
            attributes: QpAttributes { state, ..attributes },
            mask: M::STATE | mask,
        };
        [
            step(QpState::Init, M::PKEY_INDEX | M::PORT | init),
            step(QpState::Rtr, rtr),
            step(QpState::Rts, M::SQ_PSN | rts),
        ]
    }
}

/// One call of `ibv_modify_qp(3)`.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The attributes.
    pub attributes: QpAttributes,
    /// Which of them count.
    pub mask: QpAttributeMask,
}

/// Sizes of every queue pair of the cases.
pub const CAPABILITIES: QpCapabilities = QpCapabilities {
    max_send_wr: 64,
    max_recv_wr: 64,
    max_send_sge: 4,
    max_recv_sge: 4,
    max_inline_data: 64,
};
