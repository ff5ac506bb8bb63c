//! What cases are run on: where devices come from.

mod emulated;
mod hardware;
mod peer;
mod simulated;

use softrnic_model::profile::Profile;

use crate::case::Problem;
use crate::stage::Stage;
use crate::wire::Bench;

pub use emulated::Emulated;
pub use hardware::{Hardware, Opener};
pub use peer::Peer;
pub use simulated::Simulated;

/// A source of devices. Every case gets new ones, so that none suffers from another.
pub trait World: Send + Sync {
    /// What is judged, in words: `emulated spec`.
    fn name(&self) -> String;

    /// The profile of its devices, if it has a choice.
    fn profile(&self) -> Option<Profile>;

    /// Two devices for a case over the verbs, with this profile if one is named.
    ///
    /// # Errors
    /// It has no such devices.
    fn stage(&self, profile: Option<Profile>) -> Result<Stage, Problem>;

    /// A device and the wire to it for a script, with this profile if one is named.
    ///
    /// # Errors
    /// It has no such device.
    fn bench(&self, profile: Option<Profile>) -> Result<Box<dyn Bench>, Problem>;
}
