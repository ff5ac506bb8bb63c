//! The field's names of what verbs report, as scripts, reports and the helper's protocol spell them:
//! those of rdma-core without their prefixes.

use softrnic_model::verbs::{
    Access, AsyncEvent, DeviceCapabilities, QpState, QpType, WcFlags, WcOpcode, WcStatus,
};

/// `enum ibv_wc_status`
pub const STATUSES: &[(&str, WcStatus)] = &[
    ("SUCCESS", WcStatus::Success),
    ("LOC_LEN_ERR", WcStatus::LocalLengthError),
    ("LOC_QP_OP_ERR", WcStatus::LocalQpOperationError),
    ("LOC_EEC_OP_ERR", WcStatus::LocalEecOperationError),
    ("LOC_PROT_ERR", WcStatus::LocalProtectionError),
    ("WR_FLUSH_ERR", WcStatus::WorkRequestFlushed),
    ("MW_BIND_ERR", WcStatus::MwBindError),
    ("BAD_RESP_ERR", WcStatus::BadResponseError),
    ("LOC_ACCESS_ERR", WcStatus::LocalAccessError),
    ("REM_INV_REQ_ERR", WcStatus::RemoteInvalidRequest),
    ("REM_ACCESS_ERR", WcStatus::RemoteAccessError),
    ("REM_OP_ERR", WcStatus::RemoteOperationError),
    ("RETRY_EXC_ERR", WcStatus::RetryExceeded),
    ("RNR_RETRY_EXC_ERR", WcStatus::RnrRetryExceeded),
    ("GENERAL_ERR", WcStatus::GeneralError),
];

/// `enum ibv_wc_opcode`
pub const OPCODES: &[(&str, WcOpcode)] = &[
    ("SEND", WcOpcode::Send),
    ("RDMA_WRITE", WcOpcode::RdmaWrite),
    ("RDMA_READ", WcOpcode::RdmaRead),
    ("COMP_SWAP", WcOpcode::CompareSwap),
    ("FETCH_ADD", WcOpcode::FetchAdd),
    ("BIND_MW", WcOpcode::BindMw),
    ("LOCAL_INV", WcOpcode::LocalInvalidate),
    ("FLUSH", WcOpcode::Flush),
    ("ATOMIC_WRITE", WcOpcode::AtomicWrite),
    ("RECV", WcOpcode::Recv),
    ("RECV_RDMA_WITH_IMM", WcOpcode::RecvRdmaWithImm),
];

/// `enum ibv_wc_flags`
pub const FLAGS: &[(&str, WcFlags)] =
    &[("GRH", WcFlags::GRH), ("WITH_IMM", WcFlags::WITH_IMM), ("WITH_INV", WcFlags::WITH_INV)];

/// `enum ibv_qp_state`
pub const STATES: &[(&str, QpState)] = &[
    ("RESET", QpState::Reset),
    ("INIT", QpState::Init),
    ("RTR", QpState::Rtr),
    ("RTS", QpState::Rts),
    ("SQD", QpState::Sqd),
    ("SQE", QpState::Sqe),
    ("ERR", QpState::Err),
];

/// `enum ibv_qp_type`, in lower case as scripts have it.
pub const TYPES: &[(&str, QpType)] = &[
    ("rc", QpType::Rc),
    ("uc", QpType::Uc),
    ("ud", QpType::Ud),
    ("xrc-send", QpType::XrcSend),
    ("xrc-recv", QpType::XrcRecv),
];

/// Rights, each by a letter: `l` and `w`, `r`, `a` are local write and remote write, read, atomic; `b`
/// lets windows be bound, `z` counts addresses from 0, `f` and `p` let peers FLUSH.
pub const RIGHTS: &[(char, Access)] = &[
    ('l', Access::LOCAL_WRITE),
    ('w', Access::REMOTE_WRITE),
    ('r', Access::REMOTE_READ),
    ('a', Access::REMOTE_ATOMIC),
    ('b', Access::MW_BIND),
    ('z', Access::ZERO_BASED),
    ('f', Access::FLUSH_GLOBAL),
    ('p', Access::FLUSH_PERSISTENT),
];

/// Capabilities that a case may need.
pub const CAPABILITIES: &[(&str, DeviceCapabilities)] = &[
    ("XRC", DeviceCapabilities::XRC),
    ("MEM_WINDOW", DeviceCapabilities::MEM_WINDOW),
    ("MEM_WINDOW_TYPE_2A", DeviceCapabilities::MEM_WINDOW_TYPE_2A),
    ("MEM_WINDOW_TYPE_2B", DeviceCapabilities::MEM_WINDOW_TYPE_2B),
    ("MEM_MGT_EXTENSIONS", DeviceCapabilities::MEM_MGT_EXTENSIONS),
    ("ATOMIC_WRITE", DeviceCapabilities::ATOMIC_WRITE),
    ("FLUSH_GLOBAL", DeviceCapabilities::FLUSH_GLOBAL),
    ("FLUSH_PERSISTENT", DeviceCapabilities::FLUSH_PERSISTENT),
    ("SRQ_RESIZE", DeviceCapabilities::SRQ_RESIZE),
];

/// The value of a name in one of the tables.
#[must_use]
pub fn value<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

/// The name of a value in one of the tables; `?` for one that is not there.
#[must_use]
pub fn name<T: Copy + PartialEq>(table: &[(&'static str, T)], value: T) -> &'static str {
    table.iter().find(|(_, known)| *known == value).map_or("?", |(name, _)| name)
}

/// An asynchronous event without its subject (`enum ibv_event_type`).
#[must_use]
pub const fn event(event: AsyncEvent) -> &'static str {
    match event {
        AsyncEvent::CqError(_) => "CQ_ERR",
        AsyncEvent::QpFatal(_) => "QP_FATAL",
        AsyncEvent::QpRequestError(_) => "QP_REQ_ERR",
        AsyncEvent::QpAccessError(_) => "QP_ACCESS_ERR",
        AsyncEvent::CommunicationEstablished(_) => "COMM_EST",
        AsyncEvent::SqDrained(_) => "SQ_DRAINED",
        AsyncEvent::LastWqeReached(_) => "QP_LAST_WQE_REACHED",
        AsyncEvent::SrqError(_) => "SRQ_ERR",
        AsyncEvent::SrqLimitReached(_) => "SRQ_LIMIT_REACHED",
        AsyncEvent::PortActive => "PORT_ACTIVE",
        AsyncEvent::PortError => "PORT_ERR",
        AsyncEvent::GidChange => "GID_CHANGE",
        AsyncEvent::DeviceFatal => "DEVICE_FATAL",
        _ => "?",
    }
}

/// The names that [`event`] gives.
pub const EVENTS: &[&str] = &[
    "CQ_ERR",
    "QP_FATAL",
    "QP_REQ_ERR",
    "QP_ACCESS_ERR",
    "COMM_EST",
    "SQ_DRAINED",
    "QP_LAST_WQE_REACHED",
    "SRQ_ERR",
    "SRQ_LIMIT_REACHED",
    "PORT_ACTIVE",
    "PORT_ERR",
    "GID_CHANGE",
    "DEVICE_FATAL",
];

/// Rights from their letters; `-` is none.
///
/// # Errors
/// The letter that stands for none.
pub fn rights(letters: &str) -> Result<Access, char> {
    letters.chars().filter(|letter| *letter != '-').try_fold(Access::empty(), |all, letter| {
        let right = RIGHTS.iter().find(|(known, _)| *known == letter);
        right.map(|(_, right)| all | *right).ok_or(letter)
    })
}
