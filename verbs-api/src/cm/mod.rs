//! Connection management as `rdma_cm(7)` has it: identifiers, addresses and events.
//!
//! Most programs want a [`Listener`], or [`connect`], and get queue pairs that are connected:
//!
//! ```no_run
//! use softrnic_verbs::cm::{self, Listener, Options};
//! use softrnic_verbs::{Context, Qp, QpType};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let make = |device: &Context| -> softrnic_verbs::Result<Qp> {
//!     device.alloc_pd()?.create_qp(QpType::Rc, &device.create_cq(16)?).build()
//! };
//! // One program ..
//! let listener = Listener::bind("0.0.0.0:7471".parse()?)?;
//! let server = listener.accept(&Options::default(), make)?;
//! // .. and another one.
//! let client = cm::connect("10.0.0.1:7471".parse()?, &Options::saying("hello"), make)?;
//! # Ok(())
//! # }
//! ```
//!
//! Below that, [`ConnectionManager`] is the object-safe layer with identifiers as plain numbers, one
//! method for each thing that a program can ask for; [`EmulatedManager`] is the one of emulated devices,
//! [`HardwareManager`](crate::hardware) that of real ones, and
//! [`connection_manager`](crate::provider::Context::connection_manager) gives the one for a device.
//! Like the kernel's, it knows no queue pairs: whoever calls it creates them, and brings them from
//! state to state with the attributes that [`ConnectionManager::init_qp_attr`] gives.

mod api;
mod device;
mod error;
mod manager;
pub mod resolve;
mod typed;
mod types;

pub use api::{Cm, ConnectionManager, Resolver};
pub use device::{CmDevice, CmSink, CmSite};
pub use error::CmError;
pub use manager::EmulatedManager;
pub use softrnic_model::cm::{PortSpace, RejectReason, ServiceId};
pub use typed::{ConnectError, Connection, Connector, Listener, Options, Request, Route, connect};
pub use types::{
    CmEvent, CmEventKind, CmId, CmOption, CmPhase, ConnParam, Ece, EventChannelId, EventParam,
    IdInfo, Path, UdParam,
};
