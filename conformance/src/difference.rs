//! Where another answer than the recorded one is right.

use softrnic_model::verbs::{WcOpcode, WcStatus};
use softrnic_model::wire::NakCode;

use crate::recorded::{Answer, Line};
use crate::scenario::Side;

/// A habit of the recorded device that is not to be imitated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Oddity {
    /// Receives of RC and UC claim to have a GRH in front.
    GrhOnConnected,
    /// Completions of sends with an immediate claim to have received one.
    ImmOnSend,
    /// Fields of failed completions that mean nothing are zero.
    UndefinedFields,
    /// A wrong local key is reported as a failure of the queue pair.
    BadLkey,
    /// A message longer than the receive is reported as a failure of both devices.
    ReceiveTooSmall,
    /// A datagram longer than the receive fails the receive.
    DatagramTooLong,
    /// An atomic to an odd address is refused by the user library.
    UnalignedAtomic,
    /// A READ on a queue pair without read depth never completes.
    ReadWithoutDepth,
}

impl Oddity {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::GrhOnConnected,
        Self::ImmOnSend,
        Self::UndefinedFields,
        Self::BadLkey,
        Self::ReceiveTooSmall,
        Self::DatagramTooLong,
        Self::UnalignedAtomic,
        Self::ReadWithoutDepth,
    ];

    /// What the recorded device does.
    #[must_use]
    pub const fn habit(self) -> &'static str {
        match self {
            Self::GrhOnConnected => "receives of RC and UC claim to have a GRH in front",
            Self::ImmOnSend => "completions of sends with an immediate claim to have received one",
            Self::UndefinedFields => {
                "fields of failed completions that mean nothing are zero, the opcode too"
            }
            Self::BadLkey => "a wrong local key is reported as a failure of the queue pair",
            Self::ReceiveTooSmall => {
                "a message longer than the receive is reported as a failure of both devices"
            }
            Self::DatagramTooLong => "a datagram longer than the receive fails the receive",
            Self::UnalignedAtomic => {
                "an atomic to an address that is no multiple of 8 is refused by the user library"
            }
            Self::ReadWithoutDepth => "a READ on a queue pair without read depth never completes",
        }
    }

    /// What is right, and which rule says so.
    #[must_use]
    pub const fn rule(self) -> &'static str {
        match self {
            Self::GrhOnConnected => {
                "IBV_WC_GRH is for datagrams: RC and UC receives have no GRH (ibv_poll_cq(3))"
            }
            Self::ImmOnSend => {
                "IBV_WC_WITH_IMM says that imm_data is valid: only receives have one \
                 (ibv_poll_cq(3))"
            }
            Self::UndefinedFields => {
                "of a failed completion only wr_id, status, qp_num and vendor_err are valid \
                 (ibv_poll_cq(3))"
            }
            Self::BadLkey => "a wrong local key is a local protection error (IBA volume 1, 11.6.2)",
            Self::ReceiveTooSmall => {
                "a message too long for the receive is a local length error there and an invalid \
                 request to the peer (IBA volume 1, 11.6.2)"
            }
            Self::DatagramTooLong => {
                "a datagram that does not fit is dropped, or completes the receive in error, and \
                 the queue pair stays as it is"
            }
            Self::UnalignedAtomic => {
                "the responder refuses an atomic to an address that is no multiple of 8 as an \
                 invalid request (IBA volume 1, 11.6.2)"
            }
            Self::ReadWithoutDepth => {
                "every work request completes: a queue pair that may not READ reports the READ \
                 as a failed operation"
            }
        }
    }
}

/// A field of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// `status`
    Status,
    /// `opcode`
    Opcode,
    /// `wc_flags`
    Flags,
}

/// What is right in place of what was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// This value of a field of the only completion.
    Field(Field, u32),
    /// This completion, and no other, whatever was recorded.
    Completion(Line),
    /// No completion.
    Silence,
}

/// A declared difference.
#[derive(Clone, Copy, Debug)]
pub struct Difference {
    /// In which scenarios.
    pub scenarios: &'static [&'static str],
    /// At which side.
    pub side: Side,
    /// What is right.
    pub right: Right,
    /// Why.
    pub why: Oddity,
}

/// Of a device that does what the rules say.
pub const BY_THE_RULES: &[Difference] = &[
    Difference {
        scenarios: &[
            "send0",
            "send1",
            "send2",
            "send3",
            "send4",
            "send1023",
            "send1024",
            "send1025",
            "send2048",
            "send3000",
            "send_solicited",
            "rnr_then_ok",
            "wrap_send",
            "uc_send",
        ],
        side: Side::Responder,
        right: Right::Field(Field::Flags, 0),
        why: Oddity::GrhOnConnected,
    },
    Difference {
        scenarios: &[
            "send_imm",
            "send_imm_multi",
            "write_imm",
            "write_imm0",
            "write_imm_multi",
            "uc_write_imm",
        ],
        side: Side::Responder,
        right: Right::Field(Field::Flags, WITH_IMM),
        why: Oddity::GrhOnConnected,
    },
    Difference {
        scenarios: &[
            "send_imm",
            "send_imm_multi",
            "write_imm",
            "write_imm0",
            "write_imm_multi",
            "ud_send_imm",
            "uc_write_imm",
        ],
        side: Side::Requester,
        right: Right::Field(Field::Flags, 0),
        why: Oddity::ImmOnSend,
    },
    failed_as(
        &["E_bad_rkey_write", "E_oob_write", "E_oob_write_multi", "E_write_no_qp_perm"],
        Side::Requester,
        WcOpcode::RdmaWrite,
    ),
    failed_as(
        &["E_bad_rkey_read", "E_oob_read", "E_read_no_qp_perm"],
        Side::Requester,
        WcOpcode::RdmaRead,
    ),
    failed_as(&["E_atomic_bad_rkey", "E_atomic_no_qp_perm"], Side::Requester, WcOpcode::FetchAdd),
    failed_as(&["E_recv_too_small", "E_recv_too_small_multi"], Side::Responder, WcOpcode::Recv),
    Difference {
        scenarios: &["E_local_bad_lkey"],
        side: Side::Requester,
        right: status(WcStatus::LocalProtectionError),
        why: Oddity::BadLkey,
    },
    Difference {
        scenarios: &["E_recv_too_small", "E_recv_too_small_multi"],
        side: Side::Requester,
        right: status(WcStatus::RemoteInvalidRequest),
        why: Oddity::ReceiveTooSmall,
    },
    Difference {
        scenarios: &["E_recv_too_small", "E_recv_too_small_multi"],
        side: Side::Responder,
        right: status(WcStatus::LocalLengthError),
        why: Oddity::ReceiveTooSmall,
    },
    Difference {
        scenarios: &["ud_small_recv"],
        side: Side::Responder,
        right: Right::Silence,
        why: Oddity::DatagramTooLong,
    },
    Difference {
        scenarios: &["E_unaligned_atomic"],
        side: Side::Requester,
        right: failed_send(WcStatus::RemoteInvalidRequest, WcOpcode::FetchAdd),
        why: Oddity::UnalignedAtomic,
    },
    Difference {
        scenarios: &["E_read_rd_zero"],
        side: Side::Requester,
        right: failed_send(WcStatus::LocalQpOperationError, WcOpcode::RdmaRead),
        why: Oddity::ReadWithoutDepth,
    },
];

/// What is right on the wire in place of what was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// The NAK has this code.
    Nak(NakCode),
    /// A request of one packet is sent, and refused with this code, where none was sent at all.
    Refused(NakCode),
}

/// A declared difference on the wire.
#[derive(Clone, Copy, Debug)]
pub struct WireDifference {
    /// In which scenarios.
    pub scenarios: &'static [&'static str],
    /// What is right.
    pub right: Exchange,
    /// Why.
    pub why: Oddity,
}

/// Of a device that does what the rules say.
pub const BY_THE_RULES_ON_THE_WIRE: &[WireDifference] = &[
    WireDifference {
        scenarios: &["E_recv_too_small", "E_recv_too_small_multi"],
        right: Exchange::Nak(NakCode::InvalidRequest),
        why: Oddity::ReceiveTooSmall,
    },
    WireDifference {
        scenarios: &["E_unaligned_atomic"],
        right: Exchange::Refused(NakCode::InvalidRequest),
        why: Oddity::UnalignedAtomic,
    },
];

const WITH_IMM: u32 = 1 << 1;

const fn status(status: WcStatus) -> Right {
    Right::Field(Field::Status, status as u32)
}

/// A failed completion that still tells what failed.
const fn failed_as(scenarios: &'static [&'static str], side: Side, opcode: WcOpcode) -> Difference {
    let right = Right::Field(Field::Opcode, opcode as u32);
    Difference { scenarios, side, right, why: Oddity::UndefinedFields }
}

const fn failed_send(status: WcStatus, opcode: WcOpcode) -> Right {
    Right::Completion(Line {
        status: status as u32,
        opcode: opcode as u32,
        byte_len: 0,
        imm_data: 0,
        wc_flags: 0,
        wr_id: 1,
    })
}

impl Right {
    /// Puts what is right in place of what was recorded.
    pub(crate) fn apply(self, answer: &mut Answer) {
        match (self, answer) {
            (Self::Field(field, value), Answer::Completed(lines)) => {
                if let [line] = lines.as_mut_slice() {
                    *match field {
                        Field::Status => &mut line.status,
                        Field::Opcode => &mut line.opcode,
                        Field::Flags => &mut line.wc_flags,
                    } = value;
                }
            }
            (Self::Field(..), Answer::Refused(_)) => {}
            (Self::Completion(line), answer) => *answer = Answer::Completed(vec![line]),
            (Self::Silence, answer) => *answer = Answer::Completed(Vec::new()),
        }
    }
}
