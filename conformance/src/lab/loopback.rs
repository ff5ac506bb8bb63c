//! Two emulated devices on the loopback interface: a kernel's UDP between them.

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;

use softrnic_model::profile::Profile;
use softrnic_transport::udp;
use softrnic_verbs::emulated::{EmulatedConfig, EmulatedContext, OpenError};
use softrnic_verbs::provider::Context;

use super::Family;

/// How two devices on the loopback interface are opened.
#[derive(Clone, Debug)]
pub struct Loopback {
    /// Which addresses they have: [`Family::loopback`].
    pub family: Family,
    /// How they behave.
    pub profile: Profile,
    /// Where each records its frames, if anywhere.
    pub captures: Option<[PathBuf; 2]>,
}

/// How often another port is tried. It may be taken between the look for it and its use.
const ATTEMPTS: usize = 64;

impl Loopback {
    /// Opens them, on a UDP port that is free at both addresses.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(&self) -> Result<[Arc<dyn Context>; 2], OpenError> {
        let addresses = self.family.loopback();
        let mut attempts = 0;
        loop {
            attempts += 1;
            let port = free_port(addresses[0])
                .map_err(|error| OpenError::System("look for a free port", error))?;
            let both = self.open_at(0, addresses[0], port).and_then(|first| {
                let second = self.open_at(1, addresses[1], port)?;
                Ok([first, second])
            });
            match both {
                Err(OpenError::Link(udp::OpenError::PortInUse { .. })) if attempts < ATTEMPTS => {}
                other => return other,
            }
        }
    }

    fn open_at(
        &self,
        device: usize,
        address: IpAddr,
        port: u16,
    ) -> Result<Arc<dyn Context>, OpenError> {
        let config = EmulatedConfig {
            name: format!("softrnic{device}"),
            port,
            profile: self.profile,
            capture: self.captures.as_ref().map(|captures| captures[device].clone()),
            ..EmulatedConfig::new(address)
        };
        Ok(Arc::new(EmulatedContext::open(config)?))
    }
}

fn free_port(address: IpAddr) -> io::Result<u16> {
    Ok(UdpSocket::bind((address, 0))?.local_addr()?.port())
}
