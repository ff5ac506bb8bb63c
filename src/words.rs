//! The field's terms for what the verbs report, as text.

use softrnic_model::verbs::{AsyncEvent, QpState, QpType, WcOpcode, WcStatus};

/// How a work request ended.
pub(crate) const fn status(status: WcStatus) -> &'static str {
    match status {
        WcStatus::Success => "success",
        WcStatus::LocalLengthError => "local length error",
        WcStatus::LocalQpOperationError => "local QP operation error",
        WcStatus::LocalEecOperationError => "local EE context operation error",
        WcStatus::LocalProtectionError => "local protection error",
        WcStatus::WorkRequestFlushed => "work request flushed",
        WcStatus::MwBindError => "memory window bind error",
        WcStatus::BadResponseError => "bad response error",
        WcStatus::LocalAccessError => "local access error",
        WcStatus::RemoteInvalidRequest => "remote invalid request error",
        WcStatus::RemoteAccessError => "remote access error",
        WcStatus::RemoteOperationError => "remote operation error",
        WcStatus::RetryExceeded => "transport retry counter exceeded",
        WcStatus::RnrRetryExceeded => "RNR retry counter exceeded",
        WcStatus::LocalRddViolation => "local RDD violation",
        WcStatus::RemoteInvalidRdRequest => "remote invalid RD request",
        WcStatus::RemoteAborted => "aborted by the peer",
        WcStatus::InvalidEecNumber => "invalid EE context number",
        WcStatus::InvalidEecState => "invalid EE context state",
        WcStatus::Fatal => "fatal error",
        WcStatus::ResponseTimeout => "response timeout",
        WcStatus::GeneralError => "general error",
        WcStatus::TagMatchingError => "tag matching error",
        WcStatus::TagMatchingRendezvous => "tag matching left to software",
    }
}

/// What a completed work request was.
pub(crate) const fn opcode(opcode: WcOpcode) -> &'static str {
    match opcode {
        WcOpcode::Send => "send",
        WcOpcode::RdmaWrite => "RDMA write",
        WcOpcode::RdmaRead => "RDMA read",
        WcOpcode::CompareSwap => "compare and swap",
        WcOpcode::FetchAdd => "fetch and add",
        WcOpcode::BindMw => "bind window",
        WcOpcode::LocalInvalidate => "local invalidate",
        WcOpcode::Flush => "flush",
        WcOpcode::AtomicWrite => "atomic write",
        WcOpcode::Recv => "recv",
        WcOpcode::RecvRdmaWithImm => "recv RDMA with imm",
    }
}

/// An asynchronous event.
pub(crate) const fn event(event: AsyncEvent) -> &'static str {
    match event {
        AsyncEvent::CqError(_) => "CQ error",
        AsyncEvent::QpFatal(_) => "QP fatal",
        AsyncEvent::QpRequestError(_) => "QP request error",
        AsyncEvent::QpAccessError(_) => "QP access error",
        AsyncEvent::CommunicationEstablished(_) => "communication established",
        AsyncEvent::SqDrained(_) => "SQ drained",
        AsyncEvent::LastWqeReached(_) => "last WQE reached",
        AsyncEvent::SrqError(_) => "SRQ error",
        AsyncEvent::SrqLimitReached(_) => "SRQ limit reached",
        AsyncEvent::PortActive => "port active",
        AsyncEvent::PortError => "port error",
        AsyncEvent::GidChange => "GID change",
        AsyncEvent::PathMigrated(_) => "path migrated",
        AsyncEvent::PathMigrationFailed(_) => "path migration failed",
        AsyncEvent::LidChange => "LID change",
        AsyncEvent::PkeyChange => "P_Key change",
        AsyncEvent::SubnetManagerChange => "subnet manager change",
        AsyncEvent::ClientReregister => "client reregister",
        AsyncEvent::DeviceFatal => "device fatal",
        _ => "another event",
    }
}

/// State of a queue pair.
pub(crate) const fn state(state: QpState) -> &'static str {
    match state {
        QpState::Reset => "RESET",
        QpState::Init => "INIT",
        QpState::Rtr => "RTR",
        QpState::Rts => "RTS",
        QpState::Sqd => "SQD",
        QpState::Sqe => "SQE",
        QpState::Err => "ERR",
    }
}

/// Service of a queue pair.
pub(crate) const fn service(service: QpType) -> &'static str {
    match service {
        QpType::Rc => "RC",
        QpType::Uc => "UC",
        QpType::Ud => "UD",
        QpType::XrcSend => "XRC_SEND",
        QpType::XrcRecv => "XRC_RECV",
    }
}
