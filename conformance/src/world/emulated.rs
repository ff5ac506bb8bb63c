//! Emulated devices on the loopback interface: a kernel's UDP between them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use softrnic_model::profile::Profile;
use softrnic_transport::interfaces::{self, Interface};
use softrnic_transport::tap::{Direction, Line};
use softrnic_transport::udp;
use softrnic_verbs::emulated::{EmulatedConfig, EmulatedContext, OpenError};
use softrnic_verbs::provider::Context;

use super::{Asked, World};
use crate::case::Problem;
use crate::lab::{Family, Waits};
use crate::program::Local;
use crate::stage::{DEVICES, RealTime, Stage, Time};
use crate::wire::{self, Bench, OverUdp, Tape};

/// Devices in this process, each with an address of its own.
#[derive(Clone, Copy, Debug)]
pub struct Emulated {
    /// How they behave where devices differ.
    pub profile: Profile,
}

/// IPv4 addresses of the two ends of a wire, and of a stranger: all are local on Linux.
const ADDRESSES: [IpAddr; 3] = [address(1), address(2), address(3)];
/// That many IPv6 addresses are needed: two ends of a wire. A third is the stranger's.
const V6_MIN: usize = 2;

const fn address(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(127, 77, 0, last))
}

/// How often another port is tried. It may be taken between the look for it and its use.
const ATTEMPTS: usize = 64;

/// Patient enough for a busy machine.
const WAITS: Waits = Waits { patience: Duration::from_secs(4), quiet: Duration::from_millis(8) };

/// The addresses of this host that cases use: all of one interface, over which multicast goes too.
fn addresses(family: Option<Family>) -> Result<Vec<IpAddr>, Problem> {
    if family != Some(Family::V6) {
        return Ok(ADDRESSES.to_vec());
    }
    let all = interfaces::all().map_err(|error| Problem::Failed(error.to_string()))?;
    let of = |interface: &Interface| -> Vec<IpAddr> {
        let is_usable = |ip: &&IpAddr| match ip {
            IpAddr::V6(v6) => !v6.is_unicast_link_local(),
            IpAddr::V4(_) => false,
        };
        interface.addresses.iter().filter(is_usable).copied().collect()
    };
    let enough = all.iter().map(of).find(|addresses| addresses.len() >= V6_MIN);
    enough.ok_or_else(|| {
        let why = "no interface of the host has two IPv6 addresses that are not link-local";
        Problem::NotApplicable(why.into())
    })
}

impl Emulated {
    fn config(&self, number: usize, at: IpAddr, port: u16, asked: &Asked) -> EmulatedConfig {
        EmulatedConfig {
            name: format!("softrnic{number}"),
            port,
            profile: asked.profile.unwrap_or(self.profile),
            ..EmulatedConfig::new(at)
        }
    }

    /// Calls `open` with ports that were free at `address` a moment ago until it has one.
    fn at_a_free_port<T>(
        address: IpAddr,
        open: impl Fn(u16) -> Result<T, Opening>,
    ) -> Result<T, Problem> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let port = free_port(address).map_err(|error| Problem::Failed(error.to_string()))?;
            match open(port) {
                Err(Opening::InUse(_)) if attempts < ATTEMPTS => {}
                Err(Opening::InUse(why) | Opening::Failed(why)) => {
                    return Err(Problem::Failed(why));
                }
                Ok(open) => return Ok(open),
            }
        }
    }
}

/// Why something was not opened.
enum Opening {
    InUse(String),
    Failed(String),
}

impl From<OpenError> for Opening {
    fn from(error: OpenError) -> Self {
        if let OpenError::Link(error) = error {
            return error.into();
        }
        Self::Failed(error.to_string())
    }
}

impl From<wire::OpenError> for Opening {
    fn from(error: wire::OpenError) -> Self {
        let why = error.to_string();
        if let udp::OpenError::PortInUse { .. } = error {
            Self::InUse(why)
        } else {
            Self::Failed(why)
        }
    }
}

impl World for Emulated {
    fn name(&self) -> String {
        format!("emulated {}", self.profile)
    }

    fn profile(&self) -> Option<Profile> {
        Some(self.profile)
    }

    fn stage(&self, asked: &Asked) -> Result<Stage, Problem> {
        let at = addresses(asked.family)?;
        let (tape, time) = (Tape::default(), RealTime::new(WAITS));
        let devices = Self::at_a_free_port(at[0], |port| {
            let open = |number: usize| {
                let config = self.config(number, at[number], port, asked);
                let watcher = recorder(&tape, time, DEVICES[number]);
                let context = EmulatedContext::open_watched(config, watcher)?;
                Ok::<Arc<dyn Context>, Opening>(Arc::new(context))
            };
            Ok([open(0)?, open(1)?])
        })?;
        let profile = asked.profile.unwrap_or(self.profile);
        let stage = Stage::new(devices, Box::new(time), Some(profile));
        Ok(stage.over(asked.family).on_tape(tape))
    }

    fn bench(&self, asked: &Asked) -> Result<Box<dyn Bench>, Problem> {
        let at = addresses(asked.family)?;
        Self::at_a_free_port(at[0], |port| {
            let verbs = Arc::new(EmulatedContext::open(self.config(0, at[0], port, asked))?);
            let program = Local::new(verbs).map_err(|error| Opening::Failed(error.to_string()))?;
            let device = program.gid();
            let program = Box::new(program);
            let (peer, stranger) = (at[1], at.get(2).copied());
            let bench = OverUdp::open(program, device, peer, stranger, port, WAITS)?;
            Ok(Box::new(bench) as Box<dyn Bench>)
        })
    }
}

/// Puts what a device sends on a tape.
fn recorder(
    tape: &Tape,
    time: RealTime,
    who: &'static str,
) -> impl FnMut(&Line<'_>, Option<u32>) + Send + use<> {
    let tape = tape.clone();
    move |line, _| {
        if line.direction == Direction::Sent {
            let at_ns = u64::try_from(time.now().as_nanos()).unwrap_or(u64::MAX);
            tape.packet(at_ns, who, "", line.route, line.packet);
        }
    }
}

fn free_port(address: IpAddr) -> io::Result<u16> {
    Ok(UdpSocket::bind((address, 0))?.local_addr()?.port())
}
