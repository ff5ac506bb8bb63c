//! Work completions.

use super::{Key, QpNum};

/// How a work request ended, with the numbers of `ibv_wc_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum WcStatus {
    /// Done.
    Success = 0,
    /// A buffer is too short, or a message too long.
    LocalLengthError = 1,
    /// The device could not carry it out.
    LocalQpOperationError = 2,
    /// Reserved by the numbering; never reported.
    LocalEecOperationError = 3,
    /// A local key, address or right is wrong.
    LocalProtectionError = 4,
    /// The queue pair went to error before it was done.
    WorkRequestFlushed = 5,
    /// A window could not be bound.
    MwBindError = 6,
    /// The peer answered with something unexpected.
    BadResponseError = 7,
    /// The receive buffer of a WRITE with immediate could not be used.
    LocalAccessError = 8,
    /// The peer refused the request as invalid.
    RemoteInvalidRequest = 9,
    /// The peer refused access.
    RemoteAccessError = 10,
    /// The peer could not carry it out.
    RemoteOperationError = 11,
    /// The peer did not answer.
    RetryExceeded = 12,
    /// The peer had no receive posted, too often.
    RnrRetryExceeded = 13,
    /// An RD domain was violated; reported by real devices only, as are those down to 20.
    LocalRddViolation = 14,
    /// The peer refused a request of the RD service.
    RemoteInvalidRdRequest = 15,
    /// The operation was aborted by the peer.
    RemoteAborted = 16,
    /// An EE context number is wrong.
    InvalidEecNumber = 17,
    /// An EE context is in a wrong state.
    InvalidEecState = 18,
    /// The device failed.
    Fatal = 19,
    /// A response did not come in time.
    ResponseTimeout = 20,
    /// Anything else.
    GeneralError = 21,
    /// A tag could not be matched; reported by real devices only.
    TagMatchingError = 22,
    /// A rendezvous is left to software; reported by real devices only.
    TagMatchingRendezvous = 23,
}

impl WcStatus {
    /// The status with a number of `ibv_wc_status`.
    #[must_use]
    pub const fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::Success,
            1 => Self::LocalLengthError,
            2 => Self::LocalQpOperationError,
            3 => Self::LocalEecOperationError,
            4 => Self::LocalProtectionError,
            5 => Self::WorkRequestFlushed,
            6 => Self::MwBindError,
            7 => Self::BadResponseError,
            8 => Self::LocalAccessError,
            9 => Self::RemoteInvalidRequest,
            10 => Self::RemoteAccessError,
            11 => Self::RemoteOperationError,
            12 => Self::RetryExceeded,
            13 => Self::RnrRetryExceeded,
            14 => Self::LocalRddViolation,
            15 => Self::RemoteInvalidRdRequest,
            16 => Self::RemoteAborted,
            17 => Self::InvalidEecNumber,
            18 => Self::InvalidEecState,
            19 => Self::Fatal,
            20 => Self::ResponseTimeout,
            21 => Self::GeneralError,
            22 => Self::TagMatchingError,
            23 => Self::TagMatchingRendezvous,
            _ => return None,
        })
    }
}

/// What a completed work request was, with the numbers of `ibv_wc_opcode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum WcOpcode {
    /// SEND
    Send = 0,
    /// RDMA WRITE
    RdmaWrite = 1,
    /// RDMA READ
    RdmaRead = 2,
    /// Compare and swap
    CompareSwap = 3,
    /// Fetch and add
    FetchAdd = 4,
    /// Window bind
    BindMw = 5,
    /// Local invalidate
    LocalInvalidate = 6,
    /// FLUSH
    Flush = 8,
    /// ATOMIC WRITE
    AtomicWrite = 9,
    /// A SEND was received.
    Recv = 128,
    /// A WRITE with immediate was received.
    RecvRdmaWithImm = 129,
}

impl WcOpcode {
    /// The opcode with a number of `ibv_wc_opcode`, if it is one of those above.
    #[must_use]
    pub const fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::Send,
            1 => Self::RdmaWrite,
            2 => Self::RdmaRead,
            3 => Self::CompareSwap,
            4 => Self::FetchAdd,
            5 => Self::BindMw,
            6 => Self::LocalInvalidate,
            8 => Self::Flush,
            9 => Self::AtomicWrite,
            128 => Self::Recv,
            129 => Self::RecvRdmaWithImm,
            _ => return None,
        })
    }
}

bitflags::bitflags! {
    /// With the bits of `ibv_wc_flags`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct WcFlags: u8 {
        /// 40 bytes of GRH lie in front of the payload.
        const GRH = 1;
        /// `imm_data` is valid.
        const WITH_IMM = 1 << 1;
        /// `invalidated_rkey` is valid.
        const WITH_INV = 1 << 3;
    }
}

/// A work completion (`ibv_poll_cq(3)`).
///
/// When `status` is not success, only `wr_id`, `status`, `qp_num` and `vendor_err` mean something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wc {
    /// The program's own number of the work request.
    pub wr_id: u64,
    /// How it ended.
    pub status: WcStatus,
    /// What it was.
    pub opcode: WcOpcode,
    /// Which of the fields below mean something.
    pub flags: WcFlags,
    /// Finer cause of an error, device specific; 0 is none.
    pub vendor_err: u32,
    /// Bytes received or read; of a datagram, with the 40 of the GRH.
    pub byte_len: u32,
    /// Immediate data as the peer's program posted it, in host order.
    pub imm_data: u32,
    /// The key that a SEND with invalidate has invalidated.
    pub invalidated_rkey: Key,
    /// The local queue pair.
    pub qp_num: QpNum,
    /// The sender of a datagram.
    pub src_qp: QpNum,
    /// Index of the P_Key that a datagram came with.
    pub pkey_index: u16,
    /// When it completed, in nanoseconds of the device's clock; 0 unless its queue was made with
    /// timestamps.
    pub timestamp: u64,
    /// Service level of a datagram. RoCEv2 has none; devices tell here which network header it came
    /// with, as annex A17.4.5.1 wants a completion to do: [`Wc::SL_IPV4`] or [`Wc::SL_IPV6`].
    pub sl: u8,
}

impl Wc {
    /// UDP over IPv4.
    pub const SL_IPV4: u8 = 0b1010;
    /// UDP over IPv6.
    pub const SL_IPV6: u8 = 0b1001;
}

const _: () = assert!(size_of::<Wc>() == 48, "a completion is copied often");

impl Default for Wc {
    /// An empty place to poll into. It says [`WcStatus::GeneralError`], so that nobody takes it for
    /// a completion.
    fn default() -> Self {
        Self {
            wr_id: 0,
            status: WcStatus::GeneralError,
            opcode: WcOpcode::Send,
            flags: WcFlags::empty(),
            vendor_err: 0,
            byte_len: 0,
            imm_data: 0,
            invalidated_rkey: Key(0),
            qp_num: QpNum::new(0),
            src_qp: QpNum::new(0),
            pkey_index: 0,
            timestamp: 0,
            sl: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_back_to_what_they_are_of() {
        for number in 0..=u32::from(u8::MAX) {
            if let Some(status) = WcStatus::from_number(number) {
                assert_eq!(status as u32, number);
            }
            if let Some(opcode) = WcOpcode::from_number(number) {
                assert_eq!(opcode as u32, number);
            }
        }
        assert_eq!((0..99).filter_map(WcStatus::from_number).count(), 24);
        assert_eq!((0..999).filter_map(WcOpcode::from_number).count(), 11);
    }
}
