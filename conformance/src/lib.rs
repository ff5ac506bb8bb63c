//! Cases that judge any RDMA device.
//!
//! [`lab`] is what a case needs of devices: two ends, in the words of the verbs. [`scenario`] holds
//! the cases that a soft-RoCE device was recorded with, and runs them on a lab; [`recorded`] holds
//! what that device answered; [`difference`] says where another answer is the right one; [`judge`]
//! holds the one against the other.

pub mod difference;
pub mod judge;
pub mod lab;
pub mod recorded;
pub mod replay;
pub mod scenario;
pub mod swarm;
