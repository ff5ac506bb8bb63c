//! Where another answer than the recorded one is right, and the judgement.
//!
//! A difference is declared with its reason, and it is *demanded*: an answer that agrees with the
//! recording where a difference is declared is as wrong as one that differs where none is.

use std::fmt;

use softrnic_model::verbs::{QpState, QpType, WcOpcode, WcStatus};

use crate::recorded::{Answer, Line, Recording};
use crate::scenario::{Observation, Outcome, Side};

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
                 request to the peer (IBA volume 1, 11.6.2 and 9.7.5.2.8)"
            }
            Self::DatagramTooLong => {
                "a datagram that does not fit is dropped, or completes the receive in error, and \
                 the queue pair stays as it is"
            }
            Self::UnalignedAtomic => {
                "the responder refuses an atomic to an address that is no multiple of 8 as an \
                 invalid request (IBA volume 1, 9.7.4.1.7)"
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

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem(pub String);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a judgement finds.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Differences that were declared and are there.
    pub differences: Vec<Oddity>,
    /// Everything else that is not as recorded, or not as it must be.
    pub problems: Vec<Problem>,
}

/// Holds what was observed against what was recorded, but for the declared differences, and against
/// the rules about memory and states.
#[must_use]
pub fn judge(
    observation: &Observation,
    qp_type: QpType,
    recording: &Recording,
    declared: &[Difference],
) -> Verdict {
    let name = observation.scenario.name;
    let mut verdict = Verdict::default();
    for side in Side::ALL {
        let Some(recorded) = recording.answer(name, side) else {
            verdict.problems.push(Problem(format!("{name} was not recorded")));
            continue;
        };
        let mut right = recorded.clone();
        for difference in declared {
            if difference.side != side || !difference.scenarios.contains(&name) {
                continue;
            }
            let before = right.clone();
            difference.right.apply(&mut right);
            if right == before {
                let why = difference.why;
                let text = format!("{side}: the recording does not have the oddity {why:?}");
                verdict.problems.push(Problem(text));
            }
            verdict.differences.push(difference.why);
        }
        let found = Answer::from(&observation.outcomes[side as usize]);
        if found != right {
            let text = format!("{side}: {found:?}\n  right is {right:?}\n  recorded {recorded:?}");
            verdict.problems.push(Problem(text));
        }
        let expected = state_after(side, &observation.outcomes[0], qp_type);
        let state = observation.states[side as usize];
        if state != expected {
            let text = format!("the {side} is in state {state:?}, not {expected:?}");
            verdict.problems.push(Problem(text));
        }
    }
    let wrong_bytes = observation.wrong_bytes.iter();
    verdict.problems.extend(wrong_bytes.map(|byte| Problem(byte.to_string())));
    verdict
}

impl Right {
    fn apply(self, answer: &mut Answer) {
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

/// The state that a queue pair must be in, told from how the work request ended: a failed one of RC
/// is fatal to the requester, and to a responder that refused it for good (IBA volume 1, 9.9.3,
/// 10.3.1).
fn state_after(side: Side, requester: &Outcome, qp_type: QpType) -> QpState {
    let status = match requester {
        Outcome::Completed(wcs) => wcs.last().map_or(WcStatus::Success, |wc| wc.status),
        Outcome::Refused(_) => WcStatus::Success,
    };
    let refused = matches!(
        status,
        WcStatus::RemoteInvalidRequest
            | WcStatus::RemoteAccessError
            | WcStatus::RemoteOperationError
    );
    match side {
        Side::Requester if status != WcStatus::Success && qp_type == QpType::Rc => QpState::Err,
        Side::Requester if status != WcStatus::Success => QpState::Sqe,
        Side::Responder if refused => QpState::Err,
        Side::Requester | Side::Responder => QpState::Rts,
    }
}
