//! Emulated devices on the loopback interface: a kernel's UDP between them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use softrnic_model::profile::Profile;
use softrnic_transport::udp;
use softrnic_verbs::emulated::{EmulatedConfig, EmulatedContext, OpenError};
use softrnic_verbs::provider::Context;

use super::World;
use crate::case::Problem;
use crate::lab::Waits;
use crate::program::Local;
use crate::stage::{RealTime, Stage};
use crate::wire::{self, Bench, OverUdp};

/// Devices in this process, each with an address of its own.
#[derive(Clone, Copy, Debug)]
pub struct Emulated {
    /// How they behave where devices differ.
    pub profile: Profile,
}

/// Addresses of the two devices, of a script's end, and of its stranger: all are local on Linux.
const ADDRESSES: [IpAddr; 4] = [address(1), address(2), address(3), address(4)];

const fn address(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(127, 77, 0, last))
}

/// How often another port is tried. It may be taken between the look for it and its use.
const ATTEMPTS: usize = 64;

/// Patient enough for a busy machine.
const WAITS: Waits = Waits { patience: Duration::from_secs(4), quiet: Duration::from_millis(8) };

impl Emulated {
    fn open(
        &self,
        number: usize,
        port: u16,
        profile: Option<Profile>,
    ) -> Result<Arc<dyn Context>, OpenError> {
        let config = EmulatedConfig {
            name: format!("softrnic{number}"),
            port,
            profile: profile.unwrap_or(self.profile),
            ..EmulatedConfig::new(ADDRESSES[number])
        };
        Ok(Arc::new(EmulatedContext::open(config)?))
    }

    /// Calls `open` with ports that were free a moment ago until it has one.
    fn at_a_free_port<T>(open: impl Fn(u16) -> Result<T, Opening>) -> Result<T, Problem> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let port = free_port().map_err(|error| Problem::Failed(error.to_string()))?;
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
        match error {
            OpenError::Link(error) => error.into(),
            other => Self::Failed(other.to_string()),
        }
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

    fn stage(&self, profile: Option<Profile>) -> Result<Stage, Problem> {
        let devices = Self::at_a_free_port(|port| {
            Ok([self.open(0, port, profile)?, self.open(1, port, profile)?])
        })?;
        let profile = profile.unwrap_or(self.profile);
        Ok(Stage::new(devices, Box::new(RealTime::new(WAITS)), Some(profile)))
    }

    fn bench(&self, profile: Option<Profile>) -> Result<Box<dyn Bench>, Problem> {
        Self::at_a_free_port(|port| {
            let verbs = self.open(0, port, profile)?;
            let program = Local::new(verbs).map_err(|error| Opening::Failed(error.to_string()))?;
            let device = program.gid();
            let [_, _, peer, stranger] = ADDRESSES;
            let program = Box::new(program);
            let bench = OverUdp::open(program, device, peer, Some(stranger), port, WAITS)?;
            Ok(Box::new(bench) as Box<dyn Bench>)
        })
    }
}

fn free_port() -> io::Result<u16> {
    Ok(UdpSocket::bind((ADDRESSES[0], 0))?.local_addr()?.port())
}
