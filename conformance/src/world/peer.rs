//! A device on the network, judged from the wire. Its helper opens queue pairs and regions; the
//! packets are made here.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use softrnic_model::profile::Profile;
use softrnic_model::wire::ROCE_PORT;

use super::{Asked, World};
use crate::case::Problem;
use crate::lab::{Family, Waits};
use crate::program::{Answer, Command, Program, Remote};
use crate::stage::Stage;
use crate::wire::{Bench, OverUdp};

/// A device on another host (or another address of this one) with a helper.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Where the helper listens.
    pub helper: SocketAddr,
    /// The address from which packets are sent; that by which the helper is reached if nothing is
    /// said. No other program may own its RoCE port.
    pub address: Option<IpAddr>,
    /// UDP port at both ends.
    pub port: u16,
}

impl Peer {
    /// A peer with the usual port.
    #[must_use]
    pub const fn new(helper: SocketAddr) -> Self {
        Self { helper, address: None, port: ROCE_PORT }
    }
}

/// Networks are slower than one machine.
const WAITS: Waits = Waits { patience: Duration::from_secs(5), quiet: Duration::from_millis(20) };

impl World for Peer {
    fn name(&self) -> String {
        format!("peer {}", self.helper.ip())
    }

    fn profile(&self) -> Option<Profile> {
        None
    }

    fn stage(&self, _: &Asked) -> Result<Stage, Problem> {
        Err(Problem::NotApplicable("both ends would have to be here".into()))
    }

    fn bench(&self, asked: &Asked) -> Result<Box<dyn Bench>, Problem> {
        if asked.profile.is_some() {
            let why = "the profile of a device on the network cannot be chosen";
            return Err(Problem::NotApplicable(why.into()));
        }
        let own = self.address.map(|address| Family::of(address.into()));
        let reached = own.unwrap_or_else(|| Family::of(self.helper.ip().into()));
        if asked.family.is_some_and(|family| family != reached) {
            let why = format!("the device is reached over {reached}: name another address of it");
            return Err(Problem::NotApplicable(why));
        }
        let failed = |what: String| Problem::Failed(what);
        let mut remote = Remote::connect(self.helper)
            .map_err(|error| failed(format!("the helper at {}: {error}", self.helper)))?;
        let own = match self.address {
            Some(address) => address,
            None => remote.local_ip().map_err(|error| failed(error.to_string()))?,
        };
        let device = address_of(&mut remote)?;
        let bench = OverUdp::open(Box::new(remote), device, own, None, self.port, WAITS)
            .map_err(|error| failed(format!("the script's end: {error}")))?;
        Ok(Box::new(bench))
    }
}

/// The address that the helper's device sends from: it tells when it makes a queue pair.
fn address_of(remote: &mut Remote) -> Result<softrnic_model::verbs::Gid, Problem> {
    let mut ask = |text: &str| {
        let command: Command = text.parse().map_err(Problem::Failed)?;
        remote.execute(&command).map_err(|refusal| Problem::Failed(refusal.to_string()))
    };
    let answer = ask("qp rc to=RESET")?;
    ask("close")?;
    let Answer::Qp { gid, .. } = answer else {
        return Err(Problem::Failed("the helper tells no address".into()));
    };
    let ip: IpAddr = gid.parse().map_err(|_| Problem::Failed(format!("{gid} is no address")))?;
    Ok(ip.into())
}
