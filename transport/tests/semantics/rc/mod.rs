//! Reliable connections.

mod duplicates;
mod faults;
mod forged;
mod gaps;
mod lengths;
mod local_faults;
mod not_ready;
mod reads;
mod silence;
