//! What cases are run on: where devices come from.

mod emulated;
mod hardware;
mod peer;
mod simulated;

use softrnic_model::profile::Profile;

use crate::case::Problem;
use crate::lab::Family;
use crate::stage::Stage;
use crate::wire::Bench;

pub use emulated::Emulated;
pub use hardware::{Hardware, Opener};
pub use peer::Peer;
pub use simulated::Simulated;

/// What a case asks of the devices that it gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// That they behave so.
    pub profile: Option<Profile>,
    /// That packets between them have this version of IP. Otherwise they have that of the device's
    /// first address.
    pub family: Option<Family>,
}

/// A source of devices. Every case gets new ones, so that none suffers from another.
pub trait World: Send + Sync {
    /// What is judged, in words: `emulated spec`.
    fn name(&self) -> String;

    /// The profile of its devices, if it has a choice.
    fn profile(&self) -> Option<Profile>;

    /// Where all chance of its devices comes from, if nothing else does.
    fn seed(&self) -> Option<u64> {
        None
    }

    /// Two devices for a case over the verbs.
    ///
    /// # Errors
    /// It has no such devices.
    fn stage(&self, asked: &Asked) -> Result<Stage, Problem>;

    /// A device and the wire to it for a script.
    ///
    /// # Errors
    /// It has no such device.
    fn bench(&self, asked: &Asked) -> Result<Box<dyn Bench>, Problem>;
}
