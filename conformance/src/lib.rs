//! Cases that judge any RDMA device.
//!
//! [`lab`] is what a case needs of devices: two ends, in the words of the verbs. [`scenario`] holds
//! the cases that a soft-RoCE device was recorded with, and runs them on a lab; [`recorded`] holds
//! what that device answered; [`difference`] says where another answer is the right one; [`judge`]
//! holds the one against the other.

//!
//! [`rules`] are what cases are about, [`cases`] are all of them; a [`case`] is a packet [`script`] that
//! is played on a [`wire`], or a function over the verbs on a [`stage`]. Devices come from a [`world`].
#![deny(unsafe_code)]

pub mod case;
pub mod cases;
pub mod deviation;
pub mod difference;
pub mod judge;
pub mod lab;
pub mod names;
pub mod program;
pub mod recorded;
pub mod report;
pub mod rules;
pub mod runner;
pub mod scenario;
pub mod script;
pub mod stage;
pub mod text;
pub mod wire;
pub mod world;
