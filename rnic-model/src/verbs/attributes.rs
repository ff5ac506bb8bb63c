//! Attributes of devices, ports, queue pairs and shared receive queues.

use core::fmt;

use super::{Access, CqId, PdId, Psn, QpNum, SrqId, XrcdId};

/// A global identifier: an IPv6 address, or an IPv4 address mapped into one (`::ffff:a.b.c.d`).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// The v4-mapped form of an IPv4 address (RoCEv2, annex A17).
    #[must_use]
    pub const fn from_v4(a: [u8; 4]) -> Self {
        Self([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a[0], a[1], a[2], a[3]])
    }

    /// The IPv4 address, if this is a mapped one.
    #[must_use]
    #[inline]
    pub const fn as_v4(&self) -> Option<[u8; 4]> {
        let [.., a, b, c, d] = self.0;
        if u128::from_be_bytes(self.0) >> 32 == 0xffff { Some([a, b, c, d]) } else { None }
    }

    /// Whether this names a multicast group: ff00::/8, or a mapped address of 224.0.0.0/4.
    #[must_use]
    #[inline]
    pub const fn is_multicast(&self) -> bool {
        match self.as_v4() {
            Some(a) => a[0] >> 4 == 0xe,
            None => self.0[0] == 0xff,
        }
    }
}

impl From<core::net::IpAddr> for Gid {
    fn from(ip: core::net::IpAddr) -> Self {
        match ip {
            core::net::IpAddr::V4(v4) => Self::from_v4(v4.octets()),
            core::net::IpAddr::V6(v6) => Self(v6.octets()),
        }
    }
}

impl From<Gid> for core::net::IpAddr {
    fn from(gid: Gid) -> Self {
        match gid.as_v4() {
            Some(a) => Self::V4(a.into()),
            None => Self::V6(gid.0.into()),
        }
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&core::net::IpAddr::from(*self), f)
    }
}

impl fmt::Display for Gid {
    /// The address as IP programs write it: `10.0.0.1`, `fe80::1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&core::net::IpAddr::from(*self), f)
    }
}

/// Service type of a queue pair, with the numbers of `ibv_qp_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum QpType {
    /// Reliable connection.
    Rc = 2,
    /// Unreliable connection.
    Uc = 3,
    /// Unreliable datagram.
    Ud = 4,
    /// The initiator of extended reliable connections: it sends, to shared receive queues that each
    /// request names (annex A14).
    XrcSend = 9,
    /// The target of extended reliable connections: it serves the queues of an XRC domain, and
    /// belongs to no protection domain and no completion queue itself.
    XrcRecv = 10,
}

impl QpType {
    /// All types.
    pub const ALL: [Self; 5] = [Self::Rc, Self::Uc, Self::Ud, Self::XrcSend, Self::XrcRecv];

    /// Whether it has a send queue: a protection domain and a completion queue for it.
    #[must_use]
    pub const fn sends(self) -> bool {
        !matches!(self, Self::XrcRecv)
    }

    /// Whether it has receives, of its own or of a queue that it shares from its creation on. An XRC
    /// target takes those of the queue that a request names.
    #[must_use]
    pub const fn receives(self) -> bool {
        matches!(self, Self::Rc | Self::Uc | Self::Ud)
    }

    /// Whether what it sends is acknowledged, and repeated when it is not.
    #[must_use]
    pub const fn is_reliable(self) -> bool {
        matches!(self, Self::Rc | Self::XrcSend | Self::XrcRecv)
    }

    /// Whether it has one peer.
    #[must_use]
    pub const fn is_connected(self) -> bool {
        !matches!(self, Self::Ud)
    }
}

/// State of a queue pair, with the numbers of `ibv_qp_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum QpState {
    /// Created or reset: nothing is posted, nothing received.
    Reset = 0,
    /// Receives may be posted.
    Init = 1,
    /// Ready to receive.
    Rtr = 2,
    /// Ready to send.
    Rts = 3,
    /// Send queue drained.
    Sqd = 4,
    /// The send queue is in error (UC and UD only).
    Sqe = 5,
    /// In error: everything is flushed.
    Err = 6,
}

impl QpState {
    /// All states.
    pub const ALL: [Self; 7] =
        [Self::Reset, Self::Init, Self::Rtr, Self::Rts, Self::Sqd, Self::Sqe, Self::Err];
}

/// Path MTU: the largest payload of one packet, with the numbers of `ibv_mtu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Mtu {
    /// 256 bytes.
    B256 = 1,
    /// 512 bytes.
    B512 = 2,
    /// 1024 bytes.
    B1024 = 3,
    /// 2048 bytes.
    B2048 = 4,
    /// 4096 bytes.
    B4096 = 5,
}

impl Mtu {
    /// All sizes, ascending.
    pub const ALL: [Self; 5] = [Self::B256, Self::B512, Self::B1024, Self::B2048, Self::B4096];

    /// The payload in bytes.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        128 << self as u32
    }

    /// log2 of [`Mtu::bytes`].
    #[must_use]
    pub const fn shift(self) -> u32 {
        7 + self as u32
    }

    /// The largest path MTU whose packets fit an interface MTU: IP header, UDP header, the longest
    /// transport headers and the ICRC come on top of the payload.
    #[must_use]
    pub fn fitting(interface_mtu: u32) -> Option<Self> {
        // 40 (IPv6) + 8 (UDP) + 12 (BTH) + 28 (the longest extension headers) + 4 (ICRC)
        let room = interface_mtu.checked_sub(92)?;
        Self::ALL.into_iter().rev().find(|mtu| mtu.bytes() <= room)
    }
}

/// Where the packets of a connected queue pair, or of an address handle, go (`ibv_ah_attr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AddressVector {
    /// The peer, or a multicast group.
    pub dgid: Gid,
    /// Which GID of the port is the source.
    pub sgid_index: u8,
    /// Hop limit or time to live; 0 is sent as 64.
    pub hop_limit: u8,
    /// Traffic class or type of service.
    pub traffic_class: u8,
    /// IPv6 flow label: the low 20 bits. Others are ignored, as Linux does; UCX sets them.
    pub flow_label: u32,
    /// Service level; kept and reported, without effect.
    pub service_level: u8,
}

/// Sizes of the queues of a queue pair (`ibv_qp_cap`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct QpCapabilities {
    /// Send work requests that may be outstanding.
    pub max_send_wr: u32,
    /// Receive work requests that may be outstanding; ignored with a shared receive queue.
    pub max_recv_wr: u32,
    /// Scatter/gather elements of a send work request.
    pub max_send_sge: u32,
    /// Scatter/gather elements of a receive work request; ignored with a shared receive queue.
    pub max_recv_sge: u32,
    /// Bytes that may be sent inline.
    pub max_inline_data: u32,
}

bitflags::bitflags! {
    /// Peculiarities of a queue pair, with the bits of `ibv_qp_create_flags`. The others of rdma-core
    /// are about Ethernet frames.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct QpCreateFlags: u32 {
        /// It gets no multicast datagram that this device has sent (UD).
        const BLOCK_SELF_MCAST_LB = 1 << 1;
    }
}

/// What a queue pair is created with (`ibv_qp_init_attr_ex`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpInit {
    /// Its protection domain; not looked at of a type that does not send.
    pub pd: PdId,
    /// Service type.
    pub qp_type: QpType,
    /// Where send completions go; not looked at of a type that does not send.
    pub send_cq: CqId,
    /// Where receive completions go; not looked at of a type without receives.
    pub recv_cq: CqId,
    /// A shared receive queue in place of an own one; not looked at of a type without receives.
    pub srq: Option<SrqId>,
    /// The domain whose queues an XRC target serves; of no other type.
    pub xrcd: Option<XrcdId>,
    /// Queue sizes; those of a queue that the type does not have are not looked at.
    pub cap: QpCapabilities,
    /// Every send work request completes, signalled or not (`sq_sig_all`).
    pub signal_all: bool,
    /// What is peculiar to it.
    pub create_flags: QpCreateFlags,
}

/// What `ibv_modify_qp` sets and `ibv_query_qp` reports (`ibv_qp_attr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpAttributes {
    /// State to move to.
    pub state: QpState,
    /// State assumed to be the current one.
    pub current_state: QpState,
    /// Event when the send queue has drained (with a move to `Sqd`).
    pub sq_drained_event: bool,
    /// Index into the P_Key table.
    pub pkey_index: u16,
    /// Port; always 1 here.
    pub port: u8,
    /// Q_Key (UD).
    pub qkey: u32,
    /// What peers may do through this queue pair (`REMOTE_*` rights).
    pub access: Access,
    /// The path to the peer.
    pub path: AddressVector,
    /// Path MTU.
    pub path_mtu: Mtu,
    /// The peer's queue pair.
    pub dest_qp: QpNum,
    /// First PSN expected.
    pub rq_psn: Psn,
    /// First PSN sent.
    pub sq_psn: Psn,
    /// READs and atomics outstanding as responder.
    pub max_dest_rd_atomic: u8,
    /// READs and atomics outstanding as requester.
    pub max_rd_atomic: u8,
    /// RNR timer code, 5 bits, that the responder asks peers to wait.
    pub min_rnr_timer: u8,
    /// Local ACK timeout code, 5 bits: 4.096 µs · 2^t; 0 waits for ever.
    pub timeout: u8,
    /// Retries after a timeout or a sequence error, 3 bits.
    pub retry_count: u8,
    /// Retries after RNR, 3 bits; 7 is without end.
    pub rnr_retry: u8,
    /// Rate limit in kbps; 0 is none.
    pub rate_limit: u32,
    /// Queue sizes, as granted (reported only).
    pub cap: QpCapabilities,
}

impl Default for QpAttributes {
    fn default() -> Self {
        Self {
            state: QpState::Reset,
            current_state: QpState::Reset,
            sq_drained_event: false,
            pkey_index: 0,
            port: 1,
            qkey: 0,
            access: Access::empty(),
            path: AddressVector::default(),
            path_mtu: Mtu::B1024,
            dest_qp: QpNum::new(0),
            rq_psn: Psn::new(0),
            sq_psn: Psn::new(0),
            max_dest_rd_atomic: 0,
            max_rd_atomic: 0,
            min_rnr_timer: 0,
            timeout: 0,
            retry_count: 0,
            rnr_retry: 0,
            rate_limit: 0,
            cap: QpCapabilities::default(),
        }
    }
}

bitflags::bitflags! {
    /// Which fields of [`QpAttributes`] a call gives, with the bits of `ibv_qp_attr_mask`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct QpAttributeMask: u32 {
        /// `state`
        const STATE = 1;
        /// `current_state`
        const CUR_STATE = 1 << 1;
        /// `sq_drained_event`
        const EN_SQD_ASYNC_NOTIFY = 1 << 2;
        /// `access`
        const ACCESS_FLAGS = 1 << 3;
        /// `pkey_index`
        const PKEY_INDEX = 1 << 4;
        /// `port`
        const PORT = 1 << 5;
        /// `qkey`
        const QKEY = 1 << 6;
        /// `path`
        const AV = 1 << 7;
        /// `path_mtu`
        const PATH_MTU = 1 << 8;
        /// `timeout`
        const TIMEOUT = 1 << 9;
        /// `retry_count`
        const RETRY_CNT = 1 << 10;
        /// `rnr_retry`
        const RNR_RETRY = 1 << 11;
        /// `rq_psn`
        const RQ_PSN = 1 << 12;
        /// `max_rd_atomic`
        const MAX_QP_RD_ATOMIC = 1 << 13;
        /// The alternate path; not supported.
        const ALT_PATH = 1 << 14;
        /// `min_rnr_timer`
        const MIN_RNR_TIMER = 1 << 15;
        /// `sq_psn`
        const SQ_PSN = 1 << 16;
        /// `max_dest_rd_atomic`
        const MAX_DEST_RD_ATOMIC = 1 << 17;
        /// Path migration state; not supported.
        const PATH_MIG_STATE = 1 << 18;
        /// `cap`; resizing is not supported.
        const CAP = 1 << 19;
        /// `dest_qp`
        const DEST_QPN = 1 << 20;
        /// `rate_limit`
        const RATE_LIMIT = 1 << 25;
    }
}

/// What a shared receive queue is made of (`ibv_srq_attr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SrqAttributes {
    /// Receive work requests that may be outstanding.
    pub max_wr: u32,
    /// Scatter/gather elements of each.
    pub max_sge: u32,
    /// An event is raised when fewer than this many are left; 0 is none.
    pub srq_limit: u32,
}

/// What a shared receive queue is created with (`ibv_srq_init_attr_ex`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrqInit {
    /// Its protection domain.
    pub pd: PdId,
    /// Its sizes.
    pub attributes: SrqAttributes,
    /// What it has besides if it is for XRC; a basic one has nothing.
    pub xrc: Option<XrcSrq>,
}

/// What a shared receive queue for XRC has besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XrcSrq {
    /// The domain whose targets may take from it.
    pub xrcd: XrcdId,
    /// Where its receives complete.
    pub cq: CqId,
}

/// How many events a completion queue raises (`ibv_moderate_cq`): one for every `count` completions,
/// or once `period_us` have passed since the first that has raised none, whichever is first. A failed
/// completion raises one at once. The default is one for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CqModeration {
    /// Completions per event; 0 and 1 are one if there is no period, and any number with one.
    pub count: u16,
    /// Microseconds that a completion may wait for others; 0 is without end.
    pub period_us: u16,
}

/// Kind of a memory window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WindowType {
    /// Bound by the bind verb; belongs to a protection domain.
    Type1,
    /// Bound by a posted bind; usable only through the queue pair that bound it.
    Type2A,
    /// Like type 2A, and the protection domain is compared as well. (A queue pair only binds
    /// windows of its own domain, so what is granted is the same.)
    Type2B,
}

/// State of a port, with the numbers of `ibv_port_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PortState {
    /// No link.
    Down = 1,
    /// Usable.
    Active = 4,
}

bitflags::bitflags! {
    /// What a device can do, with the bits of `device_cap_flags_ex` (`ibv_query_device_ex(3)`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct DeviceCapabilities: u64 {
        /// Packets with a wrong P_Key are counted.
        const BAD_PKEY_CNTR = 1 << 1;
        /// Packets with a wrong Q_Key are counted.
        const BAD_QKEY_CNTR = 1 << 2;
        /// `CUR_STATE` may be given to `modify_qp`.
        const CURR_QP_STATE_MOD = 1 << 7;
        /// A port that becomes usable raises an event.
        const PORT_ACTIVE_EVENT = 1 << 10;
        /// RC responders send RNR NAKs.
        const RC_RNR_NAK_GEN = 1 << 12;
        /// Shared receive queues can be resized.
        const SRQ_RESIZE = 1 << 13;
        /// Windows of type 1.
        const MEM_WINDOW = 1 << 17;
        /// Extended reliable connections.
        const XRC = 1 << 20;
        /// SEND with invalidate and local invalidate.
        const MEM_MGT_EXTENSIONS = 1 << 21;
        /// Windows of type 2A.
        const MEM_WINDOW_TYPE_2A = 1 << 23;
        /// Windows of type 2B.
        const MEM_WINDOW_TYPE_2B = 1 << 24;
        /// FLUSH towards global visibility.
        const FLUSH_GLOBAL = 1 << 38;
        /// FLUSH towards persistence.
        const FLUSH_PERSISTENT = 1 << 39;
        /// ATOMIC WRITE.
        const ATOMIC_WRITE = 1 << 40;
    }
}

/// What a device can do and how much of it there is (`ibv_device_attr`). Every number is the one
/// that is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceAttributes {
    /// Largest region in bytes.
    pub max_mr_size: u64,
    /// Queue pairs.
    pub max_qp: u32,
    /// Work requests of one queue.
    pub max_qp_wr: u32,
    /// Scatter/gather elements of one work request.
    pub max_sge: u32,
    /// Inline bytes of one send work request.
    pub max_inline_data: u32,
    /// Completion queues.
    pub max_cq: u32,
    /// Entries of one completion queue.
    pub max_cqe: u32,
    /// Memory regions.
    pub max_mr: u32,
    /// Memory windows.
    pub max_mw: u32,
    /// Protection domains.
    pub max_pd: u32,
    /// Address handles.
    pub max_ah: u32,
    /// Shared receive queues.
    pub max_srq: u32,
    /// Work requests of one shared receive queue.
    pub max_srq_wr: u32,
    /// Scatter/gather elements of a work request of a shared receive queue.
    pub max_srq_sge: u32,
    /// READs and atomics outstanding on one queue pair as responder.
    pub max_qp_rd_atom: u8,
    /// The same as requester.
    pub max_qp_init_rd_atom: u8,
    /// Multicast groups.
    pub max_mcast_grp: u32,
    /// Queue pairs attached to one multicast group.
    pub max_mcast_qp_attach: u32,
    /// Entries of the P_Key table.
    pub max_pkeys: u16,
    /// Number that names the node, network byte order.
    pub node_guid: [u8; 8],
    /// What it can do.
    pub capabilities: DeviceCapabilities,
    /// Largest number of completions per event.
    pub max_cq_moderation_count: u16,
    /// Longest wait for an event, in microseconds.
    pub max_cq_moderation_period_us: u16,
    /// Lowest rate limit of a queue pair, in kbps; RC queue pairs can have one.
    pub qp_rate_limit_min: u32,
    /// Highest rate limit of a queue pair, in kbps; 0 if there is none.
    pub qp_rate_limit_max: u32,
    /// Frequency of the clock that stamps completions, in kHz; its time has 64 bits.
    pub core_clock_khz: u64,
}

/// Attributes of the port (`ibv_port_attr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortAttributes {
    /// Whether it is usable.
    pub state: PortState,
    /// Largest path MTU that the device supports.
    pub max_mtu: Mtu,
    /// Largest path MTU that the interface carries now.
    pub active_mtu: Mtu,
    /// Entries of the GID table.
    pub gid_tbl_len: u32,
    /// Largest message in bytes.
    pub max_msg_sz: u32,
    /// Entries of the P_Key table.
    pub pkey_tbl_len: u16,
    /// Packets dropped for a wrong P_Key.
    pub bad_pkey_cntr: u32,
    /// Packets dropped for a wrong Q_Key.
    pub qkey_viol_cntr: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_mtu_that_fits_an_interface_is_found() {
        for (at, mtu) in Mtu::ALL.into_iter().enumerate() {
            let smaller = at.checked_sub(1).map(|at| Mtu::ALL[at]);
            // IPv6, UDP, BTH, the longest headers behind it, ICRC.
            let longest = 40 + 8 + 12 + 28 + mtu.bytes() + 4;
            assert_eq!(Mtu::fitting(longest), Some(mtu));
            assert_eq!(Mtu::fitting(longest - 1), smaller);
        }
        for (interface, mtu) in
            [(1500, Mtu::B1024), (4200, Mtu::B4096), (9000, Mtu::B4096), (u32::MAX, Mtu::B4096)]
        {
            assert_eq!(Mtu::fitting(interface), Some(mtu));
        }
        assert_eq!(Mtu::fitting(0), None);
    }
}
