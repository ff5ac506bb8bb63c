//! The words of the verbs: what programs name, ask for, post and are told.
//!
//! Names and numbers are those of the InfiniBand verbs as rdma-core spells them
//! (`ibv_wc_status` 10 is [`WcStatus::RemoteAccessError`], and so on), so that every layer above,
//! the C ABI included, converts by value.

mod access;
mod attributes;
mod completion;
mod error;
mod event;
mod ids;
mod work;

pub use access::Access;
pub use attributes::{
    AddressVector, CqModeration, DeviceAttributes, DeviceCapabilities, Gid, Mtu, PortAttributes,
    PortState, QpAttributeMask, QpAttributes, QpCapabilities, QpCreateFlags, QpInit, QpState,
    QpType, SrqAttributes, SrqInit, WindowType, XrcSrq,
};
pub use completion::{Wc, WcFlags, WcOpcode, WcStatus};
pub use error::VerbError;
pub use event::{AsyncEvent, Event, Subject};
pub use ids::{AhId, CqId, Key, PdId, Psn, QpNum, SrqId, SrqNum, XrcdId};
pub use work::{BindInfo, Placement, RecvWr, Selectivity, SendFlags, SendOp, SendWr, Sge};
