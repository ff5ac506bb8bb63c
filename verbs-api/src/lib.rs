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

pub mod emulated;
pub mod error;
#[expect(unsafe_code, reason = "touches program memory by raw address")]
pub mod host_memory;
pub mod provider;

pub use error::{Error, PostError, Result};
pub use softrnic_model::verbs::{
    Access, AddressVector, AsyncEvent, BindInfo, DeviceAttributes, Gid, Key, Mtu, PortAttributes,
    PortState, Psn, QpAttributeMask, QpAttributes, QpCapabilities, QpInit, QpNum, QpState, QpType,
    RecvWr, SendFlags, SendOp, SendWr, Sge, SrqAttributes, VerbError, Wc, WcFlags, WcOpcode,
    WcStatus, WindowType,
};
