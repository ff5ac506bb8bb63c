//! Extended reliable connections: everything that [`super::rc`] demands, and what is XRC's own.

use crate::bench::Setup;

mod lifetime;
mod routing;

#[path = "../rc/duplicates.rs"]
mod duplicates;
#[path = "../rc/faults.rs"]
mod faults;
#[path = "../rc/forged.rs"]
mod forged;
#[path = "../rc/gaps.rs"]
mod gaps;
#[path = "../rc/judgement.rs"]
mod judgement;
#[path = "../rc/lengths.rs"]
mod lengths;
#[path = "../rc/local_faults.rs"]
mod local_faults;
#[path = "../rc/not_ready.rs"]
mod not_ready;
#[path = "../rc/pace.rs"]
mod pace;
#[path = "../rc/placement.rs"]
mod placement;
#[path = "../rc/reads.rs"]
mod reads;
#[path = "../rc/silence.rs"]
mod silence;

/// What the tests are done on.
fn setup() -> Setup {
    Setup::xrc()
}
