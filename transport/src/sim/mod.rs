//! The simulated fabric: any number of hosts in one thread, under virtual time.

mod fabric;
mod memory;

pub use fabric::{Fabric, FabricConfig, Fate, Host, HostId, Weather};
pub use memory::SimMemory;
