//! Work requests.

use super::{Access, AhId, DeviceCapabilities, Key, QpNum, SrqNum, WindowType};

/// A piece of local memory, laid out as `ibv_sge`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Sge {
    /// First byte, as the program addresses it (or from 0 in a zero-based region).
    pub addr: u64,
    /// Bytes.
    pub length: u32,
    /// Key of the region.
    pub lkey: Key,
}

bitflags::bitflags! {
    /// With the bits of `ibv_send_flags`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct SendFlags: u8 {
        /// Wait for all READs and atomics posted before.
        const FENCE = 1;
        /// Report the completion.
        const SIGNALED = 1 << 1;
        /// Wake a peer that waits for solicited events.
        const SOLICITED = 1 << 2;
        /// Copy the data at post; the buffers are free on return and keys are not looked at.
        const INLINE = 1 << 3;
    }
}

bitflags::bitflags! {
    /// Where flushed bytes shall be, with the bits of `ibv_placement_type`, which are also those
    /// of the FLUSH header.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Placement: u8 {
        /// Where everybody who can reach the memory sees them.
        const GLOBAL = 1;
        /// Where they survive loss of power.
        const PERSISTENT = 1 << 1;
    }
}

impl Placement {
    /// The rights that a peer needs for it.
    #[must_use]
    pub fn rights(self) -> Access {
        let mut rights = Access::empty();
        rights.set(Access::FLUSH_GLOBAL, self.contains(Self::GLOBAL));
        rights.set(Access::FLUSH_PERSISTENT, self.contains(Self::PERSISTENT));
        rights
    }

    /// What a device must be able to do for it.
    #[must_use]
    pub fn capabilities(self) -> DeviceCapabilities {
        let mut needs = DeviceCapabilities::empty();
        needs.set(DeviceCapabilities::FLUSH_GLOBAL, self.contains(Self::GLOBAL));
        needs.set(DeviceCapabilities::FLUSH_PERSISTENT, self.contains(Self::PERSISTENT));
        needs
    }
}

/// Which bytes a FLUSH is for, with the numbers of `ibv_selectivity_level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Selectivity {
    /// The range that is named.
    Range = 0,
    /// The whole region or window.
    Region = 1,
}

/// What a window is bound to (`ibv_mw_bind_info`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindInfo {
    /// The region's local key.
    pub mr_lkey: Key,
    /// First byte, in the region's own addresses.
    pub addr: u64,
    /// Bytes; 0 unbinds (type 1).
    pub length: u64,
    /// Rights that the window grants; `ZERO_BASED` makes its addresses count from 0.
    pub access: Access,
}

/// What a send work request asks for (`ibv_wr_opcode` with its operands).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOp {
    /// SEND, with an immediate or a key to invalidate at the peer.
    Send {
        /// Immediate data, host order.
        imm: Option<u32>,
        /// A remote key that the peer's device invalidates; not together with `imm`.
        invalidate: Option<Key>,
    },
    /// SEND of a datagram.
    SendTo {
        /// Where to.
        ah: AhId,
        /// The peer's queue pair.
        remote_qpn: QpNum,
        /// The peer's Q_Key; with bit 31 set, the own Q_Key of the queue pair is sent.
        remote_qkey: u32,
        /// Immediate data, host order.
        imm: Option<u32>,
    },
    /// RDMA WRITE, with or without immediate.
    Write {
        /// Address in the peer's region or window.
        remote_addr: u64,
        /// Its key.
        rkey: Key,
        /// Immediate data, host order.
        imm: Option<u32>,
    },
    /// RDMA READ.
    Read {
        /// Address in the peer's region or window.
        remote_addr: u64,
        /// Its key.
        rkey: Key,
    },
    /// Compare and swap of 8 bytes.
    CompareSwap {
        /// Address in the peer's region or window, a multiple of 8.
        remote_addr: u64,
        /// Its key.
        rkey: Key,
        /// Value expected.
        compare: u64,
        /// Value stored if the expectation holds.
        swap: u64,
    },
    /// Fetch and add of 8 bytes.
    FetchAdd {
        /// Address in the peer's region or window, a multiple of 8.
        remote_addr: u64,
        /// Its key.
        rkey: Key,
        /// Value added, modulo 2^64.
        add: u64,
    },
    /// Write of 8 bytes that whoever reads them sees whole (annex A19).
    AtomicWrite {
        /// Address in the peer's region or window, a multiple of 8.
        remote_addr: u64,
        /// Its key.
        rkey: Key,
    },
    /// FLUSH: what was written before is where it is asked to be when this completes (annex A19).
    Flush {
        /// Address in the peer's region or window; of a whole region not looked at.
        remote_addr: u64,
        /// Its key.
        rkey: Key,
        /// Bytes; of a whole region not looked at.
        length: u32,
        /// Where the bytes shall be.
        placement: Placement,
        /// Which bytes.
        selectivity: Selectivity,
    },
    /// Bind a window.
    BindMw {
        /// The window's present key.
        window: Key,
        /// The key afterwards: the low 8 bits are the program's choice for type 2.
        new_rkey: Key,
        /// Kind that the window must be of.
        window_type: WindowType,
        /// What it is bound to.
        bind: BindInfo,
    },
    /// Invalidate a type 2 window (or other key that may be invalidated) of this device.
    LocalInvalidate {
        /// Which.
        key: Key,
    },
}

impl SendOp {
    /// Whether the peer answers with data that goes to local memory: READs and atomics.
    #[must_use]
    #[inline]
    pub const fn is_answered_with_data(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::CompareSwap { .. } | Self::FetchAdd { .. })
    }

    /// Whether the peer answers this request and no other with the answer: what is answered with
    /// data, ATOMIC WRITE and FLUSH. The read depth limits how many are open.
    #[must_use]
    #[inline]
    pub const fn has_own_answer(&self) -> bool {
        self.is_answered_with_data()
            || matches!(self, Self::AtomicWrite { .. } | Self::Flush { .. })
    }
}

/// A send work request (`ibv_post_send(3)`).
#[derive(Clone, Copy, Debug)]
pub struct SendWr<'a> {
    /// The program's own number.
    pub wr_id: u64,
    /// What to do.
    pub op: SendOp,
    /// How.
    pub flags: SendFlags,
    /// Local memory: source of SEND and WRITE, target of READ and of the value that an atomic found.
    pub sges: &'a [Sge],
    /// The bytes themselves when `flags` has `INLINE`; `sges` is not looked at then.
    pub inline: &'a [u8],
    /// The peer's shared receive queue (XRC); not looked at of other types.
    pub remote_srq: SrqNum,
}

impl Default for SendWr<'_> {
    /// A SEND of nothing, not signalled.
    fn default() -> Self {
        Self {
            wr_id: 0,
            op: SendOp::Send { imm: None, invalidate: None },
            flags: SendFlags::empty(),
            sges: &[],
            inline: &[],
            remote_srq: SrqNum::new(0),
        }
    }
}

/// A receive work request (`ibv_post_recv(3)`).
#[derive(Clone, Copy, Debug)]
pub struct RecvWr<'a> {
    /// The program's own number.
    pub wr_id: u64,
    /// Where the message goes.
    pub sges: &'a [Sge],
}
