//! Connection management as `rdma_cm(7)` has it: identifiers, addresses and events.
//!
//! [`ConnectionManager`] is the object-safe layer with identifiers as plain numbers, one method for
//! each thing that a program can ask for.
//! Like the kernel's, it knows no queue pairs: whoever calls it creates them, and brings them from
//! state to state with the attributes that [`ConnectionManager::init_qp_attr`] gives.

mod api;
mod device;
mod error;
mod manager;
pub mod resolve;
mod types;

pub use api::{Cm, ConnectionManager, Resolver};
pub use device::{CmDevice, CmSink, CmSite};
pub use error::CmError;
pub use manager::EmulatedManager;
pub use softrnic_model::cm::{PortSpace, RejectReason, ServiceId};
pub use types::{
    CmEvent, CmEventKind, CmId, CmOption, CmPhase, ConnParam, Ece, EventChannelId, EventParam,
    IdInfo, Path, UdParam,
};
