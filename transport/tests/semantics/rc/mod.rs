//! Reliable connections. All of it is done on extended reliable connections once more, see
//! [`super::xrc`].

use crate::bench::Setup;

mod duplicates;
mod faults;
mod forged;
mod gaps;
mod judgement;
mod lengths;
mod local_faults;
mod not_ready;
mod pace;
mod placement;
mod reads;
mod silence;

/// What the tests are done on.
fn setup() -> Setup {
    Setup::rc()
}
