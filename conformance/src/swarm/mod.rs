//! The swarm: drawn traffic of all kinds under drawn weather on a simulated fabric, held against the
//! [reference model](softrnic_reference).
//!
//! A run is a [`Plan`] (hosts, connections, sizes, weather) and a list of [`Step`]s, both drawn from a
//! seed. A step that does not fit what is there is passed over, so any part of the list is a list that
//! can be run: that is how [`shrink`] finds the shortest that still fails.

mod act;
mod chance;
mod ends;
mod guarded;
mod hosts;
mod lending;
mod misuse;
mod offences;
mod plan;
mod run;
mod shrink;
mod speed;
mod steps;
mod storm;
mod stranger;
mod topology;
mod watch;
mod windows;

pub use plan::{Plan, Service, Weather};
pub use run::{Failure, Outcome, run, run_told};
pub use shrink::{Schedule, shrink};
pub use speed::{Crowd, Speed, crowd, speed};
pub use steps::{Op, Step};
pub use topology::Topology;
