//! Simulated devices on a fabric under virtual time.

use std::sync::Arc;
use std::time::Duration;

use softrnic_model::profile::Profile;
use softrnic_model::verbs::Gid;
use softrnic_transport::sim::network::What;
use softrnic_verbs::simulated::{Fabric, FabricConfig};

use super::{Asked, World};
use crate::case::Problem;
use crate::lab::{Family, Waits};
use crate::program::Local;
use crate::stage::{DEVICES, Stage, Time};
use crate::wire::{Bench, OverFabric, Tape};

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

/// Puts what happens between two hosts on a tape.
fn record(fabric: &Fabric, tape: &Tape) {
    let hosts = fabric.hosts();
    let tape = tape.clone();
    fabric.observe(Some(Box::new(move |event| {
        let is_sent = event.what == What::Sent;
        // That it arrives goes without saying, and that it left is known.
        if event.what == What::Arrived {
            return;
        }
        let sender = hosts.iter().position(|host| *host == event.node);
        let device = sender.and_then(|at| DEVICES.get(at)).filter(|_| is_sent);
        let (who, fate) = device.map_or(("fabric", event.what.name()), |device| (*device, ""));
        tape.packet(event.at.as_ns(), who, fate, event.route, event.packet);
    })));
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

    fn seed(&self) -> Option<u64> {
        Some(FabricConfig::default().seed)
    }

    fn stage(&self, asked: &Asked) -> Result<Stage, Problem> {
        let fabric = self.fabric(asked.profile);
        let tape = Tape::default();
        record(&fabric, &tape);
        let hosts = fabric.hosts();
        let open = |host: usize| {
            let opened = fabric.open(hosts[host]);
            let context = opened.map_err(|failure| Problem::Failed(failure.to_string()))?;
            Ok::<_, Problem>(Arc::clone(context.verbs()))
        };
        let devices = [open(0)?, open(1)?];
        let profile = asked.profile.unwrap_or(self.profile);
        let stage = Stage::new(devices, Box::new(Virtual(fabric)), Some(profile));
        Ok(stage.over(asked.family).on_tape(tape))
    }

    fn bench(&self, asked: &Asked) -> Result<Box<dyn Bench>, Problem> {
        let fabric = self.fabric(asked.profile);
        let hosts = fabric.hosts();
        let opened = fabric.open(hosts[0]);
        let context = opened.map_err(|failure| Problem::Failed(failure.to_string()))?;
        let fits = |gid: &Gid| asked.family.is_none_or(|family| family == Family::of(*gid));
        let address = |host: usize| {
            let gids = fabric.addresses(hosts[host]).into_iter().map(Gid::from);
            let none = || Problem::NotApplicable("the host has no such address".into());
            gids.into_iter().find(fits).ok_or_else(none)
        };
        let device = address(0)?;
        let program = Local::reached_at(Arc::clone(context.verbs()), device.into())?;
        let wire = |host: usize| {
            let link = fabric.bare_link(hosts[host], SCRIPT_SLOT)?;
            Ok::<_, Problem>((address(host)?, link))
        };
        let (peer, stranger) = (wire(2)?, wire(3)?);
        let bench = OverFabric::new(fabric, Box::new(program), device, peer, stranger, WAITS);
        Ok(Box::new(bench))
    }
}
