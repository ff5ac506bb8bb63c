//! RDMA verbs in safe Rust.
//!
//! Two layers. [`provider`] holds the object-safe traits that every device implements (one method
//! per verb, objects named by numbers); the rest are typed handles on top of them: a [`Context`]
//! makes [`Pd`]s and [`Cq`]s, a [`Pd`] makes [`Mr`]s and [`Qp`]s, and so on. A handle is cheap to
//! clone and keeps its parents alive; the verb that destroys the object runs when the last handle
//! is gone, so that objects always go in the right order.
//!
//! Memory that a peer may write is never shown as `&[u8]`: see [`buffer`].
#![deny(unsafe_code)]

#[expect(unsafe_code, reason = "owns and lends raw memory")]
pub mod buffer;
mod completion;
mod device;
mod domain;
pub mod emulated;
mod endpoint;
pub mod error;
#[expect(unsafe_code, reason = "touches program memory by raw address")]
pub mod host_memory;
mod owned;
pub mod provider;
mod queue_pair;
#[expect(unsafe_code, reason = "vouches to the device for the memory that it keeps")]
pub mod region;
mod shared_receive;
#[expect(unsafe_code, reason = "touches raw memory by copies and atomics")]
mod span;
#[cfg(test)]
mod testing;
mod window;

#[cfg(all(unix, feature = "tokio"))]
pub use completion::AsyncChannel;
pub use completion::{CompletionChannel, Cq};
pub use device::{Context, Device, PORT};
pub use domain::{Ah, Pd};
pub use endpoint::{Endpoint, EndpointError};
pub use error::{Error, PostError, Result};
pub use queue_pair::{ConnectOptions, Membership, Qp, QpBuilder};
pub use region::{Mr, RemoteAddress, ScopedMr};
pub use shared_receive::Srq;
pub use softrnic_model::verbs::{
    Access, AddressVector, AsyncEvent, BindInfo, DeviceAttributes, Gid, Key, Mtu, PortAttributes,
    PortState, Psn, QpAttributeMask, QpAttributes, QpCapabilities, QpInit, QpNum, QpState, QpType,
    RecvWr, SendFlags, SendOp, SendWr, Sge, SrqAttributes, VerbError, Wc, WcFlags, WcOpcode,
    WcStatus, WindowType,
};
pub use window::{Mw, WindowRange};
