//! Why a work request failed, and how that is reported.

use crate::memory::MemoryFault;
use crate::profile::Profile;
use crate::protection::AccessFault;
use crate::verbs::{Wc, WcFlags, WcOpcode, WcStatus};

/// Why a work request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Its local memory may not be used so.
    Access(AccessFault),
    /// Its local memory is gone.
    Memory,
    /// Anything else.
    Status(WcStatus),
}

impl From<AccessFault> for Failure {
    fn from(fault: AccessFault) -> Self {
        Self::Access(fault)
    }
}

impl From<MemoryFault> for Failure {
    fn from(_: MemoryFault) -> Self {
        Self::Memory
    }
}

impl From<WcStatus> for Failure {
    fn from(status: WcStatus) -> Self {
        Self::Status(status)
    }
}

impl Failure {
    /// The status that the completion gets.
    pub(crate) fn status(self, profile: &Profile) -> WcStatus {
        match self {
            Self::Access(_) => profile.bad_lkey,
            Self::Memory => WcStatus::LocalProtectionError,
            Self::Status(status) => status,
        }
    }

    /// The finer cause that the completion gets.
    fn vendor_err(self, profile: &Profile) -> u32 {
        let codes = &profile.vendor_errors;
        match self {
            Self::Access(AccessFault::OutOfRange) => codes.sge_out_of_range,
            Self::Access(AccessFault::AccessDenied) => codes.no_local_write,
            Self::Access(_) => codes.bad_lkey,
            Self::Memory => codes.sge_out_of_range,
            Self::Status(status) => match status {
                WcStatus::RemoteInvalidRequest => codes.remote_invalid_request,
                WcStatus::RemoteAccessError => codes.remote_access,
                WcStatus::RnrRetryExceeded => codes.rnr_retry_exceeded,
                WcStatus::RetryExceeded => codes.retry_exceeded,
                WcStatus::WorkRequestFlushed => codes.flushed,
                WcStatus::Success
                | WcStatus::LocalLengthError
                | WcStatus::LocalQpOperationError
                | WcStatus::LocalEecOperationError
                | WcStatus::LocalProtectionError
                | WcStatus::MwBindError
                | WcStatus::BadResponseError
                | WcStatus::LocalAccessError
                | WcStatus::RemoteOperationError
                | WcStatus::LocalRddViolation
                | WcStatus::RemoteInvalidRdRequest
                | WcStatus::RemoteAborted
                | WcStatus::InvalidEecNumber
                | WcStatus::InvalidEecState
                | WcStatus::Fatal
                | WcStatus::ResponseTimeout
                | WcStatus::GeneralError
                | WcStatus::TagMatchingError
                | WcStatus::TagMatchingRendezvous => 0,
            },
        }
    }

    /// Fills in a completion: of the other fields of a failed one nothing may be relied on, and a
    /// profile that poisons says so loudly.
    // [completions/failed-fields]
    pub(crate) fn mark(self, wc: &mut Wc, profile: &Profile) {
        wc.status = self.status(profile);
        wc.vendor_err = self.vendor_err(profile);
        if profile.poison {
            let is_receive = matches!(wc.opcode, WcOpcode::Recv | WcOpcode::RecvRdmaWithImm);
            wc.opcode = if is_receive { WcOpcode::BindMw } else { WcOpcode::RecvRdmaWithImm };
            wc.flags = WcFlags::all();
            wc.byte_len = POISON;
            wc.imm_data = POISON;
            wc.src_qp = crate::verbs::QpNum::new(POISON);
            wc.invalidated_rkey = crate::verbs::Key(POISON);
            wc.pkey_index = POISON_16;
            wc.sl = POISON_8;
        } else {
            wc.byte_len = 0;
            if profile.failed_opcode_is_zero {
                wc.opcode = WcOpcode::Send;
            }
        }
    }
}

/// What undefined fields hold under a profile that poisons.
const POISON: u32 = 0xdead_a5a5;
const POISON_16: u16 = 0xa5a5;
const POISON_8: u8 = 0xa5;

/// Fills with junk what means nothing in a good completion: the immediate and the key without their
/// flags, what only datagrams have, and the length of what brings nothing (`ibv_poll_cq(3)`).
// [completions/imm-flag] [completions/inv-flag] [completions/byte-len]
pub(crate) fn poison(wc: &mut Wc) {
    if !wc.flags.contains(WcFlags::WITH_IMM) {
        wc.imm_data = POISON;
    }
    if !wc.flags.contains(WcFlags::WITH_INV) {
        wc.invalidated_rkey = crate::verbs::Key(POISON);
    }
    if !wc.flags.contains(WcFlags::GRH) {
        wc.src_qp = crate::verbs::QpNum::new(POISON);
        wc.pkey_index = POISON_16;
        wc.sl = POISON_8;
    }
    match wc.opcode {
        WcOpcode::Recv
        | WcOpcode::RecvRdmaWithImm
        | WcOpcode::RdmaRead
        | WcOpcode::CompareSwap
        | WcOpcode::FetchAdd => {}
        WcOpcode::Send
        | WcOpcode::RdmaWrite
        | WcOpcode::BindMw
        | WcOpcode::LocalInvalidate
        | WcOpcode::Flush
        | WcOpcode::AtomicWrite => wc.byte_len = POISON,
    }
}
