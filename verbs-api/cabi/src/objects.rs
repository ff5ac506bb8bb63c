//! The private part of each kind of object.

use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};

use softrnic_model::verbs::{AhId, CqId, Key, PdId, QpNum, QpType, SrqId, WindowType, XrcdId};
use softrnic_verbs::provider::{ChannelId, DmId};

use crate::completion::Polling;
use crate::extended::File;
use crate::layout::{
    CONTEXT_AT, ibv_ah, ibv_comp_channel, ibv_context, ibv_cq_ex, ibv_dm, ibv_mr, ibv_mw, ibv_pd,
    ibv_qp_ex, ibv_srq, ibv_td, ibv_xrcd, verbs_context,
};
use crate::object::{Kind, Ptr};
use crate::shared::{Shared, Tally};
use crate::users::Users;
use crate::work_list::WorkList;

/// An open device.
pub(crate) struct Context {
    pub(crate) shared: Arc<Shared>,
    /// What `cmd_fd` and `async_fd` are; programs duplicate and poll them.
    pub(crate) _descriptors: [OwnedFd; 2],
}

/// A protection domain, or a parent domain around one.
pub(crate) struct Pd {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: PdId,
    pub(crate) role: DomainRole,
    /// Parent domains around it, and objects made in a parent domain.
    pub(crate) users: Users,
}

/// Whether a domain is the device's own.
pub(crate) enum DomainRole {
    /// `ibv_alloc_pd`
    Own,
    /// `ibv_import_pd`
    Imported,
    /// `ibv_alloc_parent_domain`
    Parent { of: Ptr<Pd>, td: Option<Ptr<Td>> },
}

/// A thread domain: nothing but a promise, which nobody has to keep here.
pub(crate) struct Td {
    pub(crate) users: Users,
}

/// A memory region.
pub(crate) struct Mr {
    pub(crate) shared: Arc<Shared>,
    /// `ibv_rereg_mr` may change it.
    pub(crate) lkey: Mutex<Key>,
    pub(crate) imported: bool,
}

/// Memory of the device.
pub(crate) struct Dm {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: DmId,
    pub(crate) imported: bool,
}

/// A memory window.
pub(crate) struct Mw {
    pub(crate) shared: Arc<Shared>,
    pub(crate) kind: WindowType,
    /// Of type 1, the key that it has once all binds that are posted are done; of type 2 only the
    /// index counts, which is for good. `rkey` is for the program.
    pub(crate) present: AtomicU32,
}

/// A completion channel.
pub(crate) struct Channel {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: ChannelId,
    /// What `fd` is; programs poll it.
    pub(crate) _descriptor: OwnedFd,
}

/// A completion queue.
pub(crate) struct Cq {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: CqId,
    pub(crate) channel: Option<Ptr<Channel>>,
    /// Completion events and asynchronous events.
    pub(crate) completions: Tally,
    pub(crate) asynchronous: Tally,
    /// What `ibv_start_poll` and its like are at.
    pub(crate) polling: Polling,
    pub(crate) parent: Option<Ptr<Pd>>,
}

/// An address handle.
pub(crate) struct Ah {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: AhId,
}

/// A shared receive queue.
pub(crate) struct Srq {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: SrqId,
    pub(crate) asynchronous: Tally,
}

/// A queue pair.
pub(crate) struct Qp {
    pub(crate) shared: Arc<Shared>,
    pub(crate) number: QpNum,
    pub(crate) qp_type: QpType,
    pub(crate) asynchronous: Tally,
    /// What `ibv_wr_start` and its like build, if it was made for them.
    pub(crate) building: Option<WorkList>,
}

/// An XRC domain.
pub(crate) struct Xrcd {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: XrcdId,
    /// The file by which others find it, if there is one.
    pub(crate) file: Option<File>,
}

/// Marks are arbitrary numbers that memory does not hold by chance.
macro_rules! kinds {
    ($($kind:ident: $public:ident as $seen:ident $(at $at:expr)?, $mark:literal;)*) => { $(
        impl Kind for $kind {
            type Public = $public;
            type Seen = $seen;
            $(const SEEN_AT: usize = $at;)?
            const MARK: u64 = 0x5f3a_91c7_0000_0000 | $mark;
        }
    )* };
}

kinds! {
    Context: verbs_context as ibv_context at CONTEXT_AT, 1;
    Pd: ibv_pd as ibv_pd, 2;
    Td: ibv_td as ibv_td, 3;
    Mr: ibv_mr as ibv_mr, 4;
    Mw: ibv_mw as ibv_mw, 5;
    Channel: ibv_comp_channel as ibv_comp_channel, 6;
    Cq: ibv_cq_ex as ibv_cq_ex, 7;
    Ah: ibv_ah as ibv_ah, 8;
    Srq: ibv_srq as ibv_srq, 9;
    Qp: ibv_qp_ex as ibv_qp_ex, 10;
    Xrcd: ibv_xrcd as ibv_xrcd, 11;
    Dm: ibv_dm as ibv_dm, 12;
}
