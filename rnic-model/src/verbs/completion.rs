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
    /// Anything else.
    GeneralError = 21,
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
