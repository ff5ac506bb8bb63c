//! Simulated networks, under virtual time and in one thread.
//!
//! Two of them. [`Fabric`] is the least that one can have: devices with memory of their own, a fixed
//! delay between any two, and a closure that decides the fate of each frame. [`Network`] has hosts,
//! switches and cables with rates, queues and faults that change while it runs, and devices are
//! joined to it as to any other [`Link`](crate::Link).

mod fabric;
mod memory;
pub mod network;
mod schedule;

pub use fabric::{Fabric, FabricConfig, Fate, Host, HostId, Weather};
pub use memory::SimMemory;
pub use network::Network;
