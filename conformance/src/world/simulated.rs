//! Simulated devices on a fabric under virtual time.

use std::sync::Arc;
use std::time::Duration;

use softrnic_model::profile::Profile;
use softrnic_model::verbs::Gid;
use softrnic_verbs::simulated::{Fabric, FabricConfig};

use super::World;
use crate::case::Problem;
use crate::lab::Waits;
use crate::program::Local;
use crate::stage::{Stage, Time};
use crate::wire::{Bench, OverFabric};

/// Devices on a fabric that loses nothing.
#[derive(Clone, Copy, Debug)]
pub struct Simulated {
    /// How they behave where devices differ.
    pub profile: Profile,
}

/// In virtual time, which costs nothing.
const WAITS: Waits = Waits { patience: Duration::from_secs(5), quiet: Duration::from_millis(50) };

/// The slot of queue pair numbers that scripts have.
const SCRIPT_SLOT: u8 = 1;

/// Two devices, a script's end, and a stranger.
const HOSTS: usize = 4;

impl Simulated {
    fn fabric(&self, profile: Option<Profile>) -> Fabric {
        let profile = profile.unwrap_or(self.profile);
        // Cases wait with the stage, which lets time pass: a poll takes none.
        let poll_costs = Duration::ZERO;
        Fabric::star_with(FabricConfig { profile, poll_costs, ..FabricConfig::default() }, HOSTS)
    }
}

/// The time of a fabric.
#[derive(Debug)]
struct Virtual(Fabric);

impl Time for Virtual {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn pass(&self, time: Duration) {
        self.0.run_for(time);
    }

    fn blink(&self) {
        self.0.run_for(Duration::from_nanos(100));
    }

    fn waits(&self) -> Waits {
        WAITS
    }
}

impl World for Simulated {
    fn name(&self) -> String {
        format!("simulated {}", self.profile)
    }

    fn profile(&self) -> Option<Profile> {
        Some(self.profile)
    }

    fn stage(&self, profile: Option<Profile>) -> Result<Stage, Problem> {
        let fabric = self.fabric(profile);
        let hosts = fabric.hosts();
        let open = |host: usize| {
            let opened = fabric.open(hosts[host]);
            let context = opened.map_err(|failure| Problem::Failed(failure.to_string()))?;
            Ok::<_, Problem>(Arc::clone(context.verbs()))
        };
        let devices = [open(0)?, open(1)?];
        let profile = profile.unwrap_or(self.profile);
        Ok(Stage::new(devices, Box::new(Virtual(fabric)), Some(profile)))
    }

    fn bench(&self, profile: Option<Profile>) -> Result<Box<dyn Bench>, Problem> {
        let fabric = self.fabric(profile);
        let hosts = fabric.hosts();
        let opened = fabric.open(hosts[0]);
        let context = opened.map_err(|failure| Problem::Failed(failure.to_string()))?;
        let program = Local::new(Arc::clone(context.verbs()))?;
        let device = program.gid();
        let wire = |host: usize| {
            let address = fabric.addresses(hosts[host]).first().map(|ip| Gid::from(*ip));
            let link = fabric.bare_link(hosts[host], SCRIPT_SLOT)?;
            Ok::<_, Problem>((address.unwrap_or_default(), link))
        };
        let (peer, stranger) = (wire(2)?, wire(3)?);
        let bench = OverFabric::new(fabric, Box::new(program), device, peer, stranger, WAITS);
        Ok(Box::new(bench))
    }
}
