//! RDMA verbs in safe Rust.
//!
//! Two layers. [`provider`] holds the object-safe traits that every device implements (one method
//! per verb, objects named by numbers); the rest are typed handles on top of them: a [`Context`]
//! makes [`Pd`]s and [`Cq`]s, a [`Pd`] makes [`Mr`]s and [`Qp`]s, and so on. A handle is cheap to
//! clone and keeps its parents alive; the verb that destroys the object runs when the last handle
//! is gone, so that objects always go in the right order.
//!
//! Memory that a peer may write is never shown as `&[u8]`: see [`buffer`].
//!
//! # A first program
//!
//! Two devices in one process; one writes into the memory of the other and reads it back.
//!
//! ```
//! # #[cfg(target_os = "linux")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use softrnic_verbs::{Access, QpType, buffer::Buffer, emulated};
//!
//! let (near, far) = emulated::open_pair()?;
//!
//! // The far end lends 4 KiB to its peer and then sits still.
//! let far_pd = far.alloc_pd()?;
//! let far_qp = far_pd.create_qp(QpType::Rc, &far.create_cq(16)?).build()?;
//! let lent = far_pd.register(Buffer::new(4096)?, Access::LOCAL_WRITE | Access::REMOTE)?;
//!
//! // The near end has a buffer with a greeting, and room for an answer.
//! let pd = near.alloc_pd()?;
//! let cq = near.create_cq(16)?;
//! let qp = pd.create_qp(QpType::Rc, &cq).build()?;
//! let own = pd.register(Buffer::copy_of(b"hello .....")?, Access::LOCAL_WRITE)?;
//!
//! // Two processes would exchange the endpoints as text, by any means.
//! qp.connect(&far_qp.endpoint()?)?;
//! far_qp.connect(&qp.endpoint()?)?;
//!
//! qp.write(1, own.sge(0, 5), lent.remote(100))?;
//! qp.read(2, own.sge(6, 5), lent.remote(100))?;
//! for wr_id in [1, 2] {
//!     assert_eq!(cq.wait_success(None)?.wr_id, wr_id);
//! }
//! assert_eq!(own.buffer().to_vec()?, b"hello hello");
//! # Ok(())
//! # }
//! # #[cfg(not(target_os = "linux"))]
//! # fn main() {}
//! ```
//!
//! A device at an address of this host is one line, [`emulated::open_at`]; how else a device can be
//! is in [`emulated::EmulatedConfig`]. The `examples/` of this crate have a program per idiom.
#![deny(unsafe_code)]

mod backend;
#[expect(unsafe_code, reason = "owns and lends raw memory")]
pub mod buffer;
pub mod cm;
mod completion;
mod device;
mod device_memory;
mod domain;
pub mod emulated;
mod endpoint;
pub mod error;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[expect(unsafe_code, reason = "calls libibverbs")]
pub mod hardware;
#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
#[path = "hardware/absent.rs"]
pub mod hardware;
#[expect(unsafe_code, reason = "touches program memory by raw address")]
pub mod host_memory;
mod machine;
mod owned;
pub mod provider;
mod queue_pair;
#[expect(unsafe_code, reason = "vouches to the device for the memory that it keeps")]
pub mod region;
mod shared_receive;
pub mod simulated;
#[expect(unsafe_code, reason = "touches raw memory by copies and atomics")]
mod span;
#[cfg(test)]
mod testing;
mod window;
mod xrc;

pub use backend::{Backend, Choice, UnknownBackend, open, open_pair};
#[cfg(all(unix, feature = "tokio"))]
pub use completion::AsyncChannel;
pub use completion::{CompletionChannel, CompletionError, Cq, successful};
pub use device::{Context, Device, PORT};
pub use device_memory::{DeviceMemory, DmMr, NullMr};
pub use domain::{Ah, Pd};
pub use endpoint::{Endpoint, EndpointError};
pub use error::{Error, PostError, Result};
pub use queue_pair::connection::ConnectOptions;
pub use queue_pair::{Membership, Qp, QpBuilder};
pub use region::{Mr, RemoteAddress, ScopedMr};
pub use shared_receive::Srq;
pub use softrnic_model::verbs::{
    Access, AddressVector, AsyncEvent, BindInfo, CqModeration, DeviceAttributes,
    DeviceCapabilities, Gid, Key, Mtu, Placement, PortAttributes, PortState, Psn, QpAttributeMask,
    QpAttributes, QpCapabilities, QpInit, QpNum, QpState, QpType, RecvWr, Selectivity, SendFlags,
    SendOp, SendWr, Sge, SrqAttributes, SrqNum, VerbError, Wc, WcFlags, WcOpcode, WcStatus,
    WindowType,
};
pub use window::{Mw, WindowRange};
pub use xrc::{XrcTarget, Xrcd};
