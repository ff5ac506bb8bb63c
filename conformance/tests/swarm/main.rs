//! The swarm, in short.

mod runs;
mod schedules;
