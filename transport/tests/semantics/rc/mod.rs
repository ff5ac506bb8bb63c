//! Reliable connections.

mod duplicates;
mod faults;
mod forged;
mod gaps;
mod judgement;
mod lengths;
mod local_faults;
mod not_ready;
mod pace;
mod reads;
mod silence;
