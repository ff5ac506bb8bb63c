//! The hosts of a fabric as devices to be listed and opened.

use std::net::IpAddr;
use std::sync::Arc;

use softrnic_model::verbs::VerbError;

use super::Fabric;
use crate::provider::{Context, DeviceInfo, OpenFailure, Provider, Verb};

/// The devices of a fabric: one for each host, by the host's name. Opening one twice gives two devices
/// that share the host's addresses, as those of two processes do.
#[derive(Clone, Debug)]
pub struct SimulatedProvider {
    fabric: Fabric,
}

impl SimulatedProvider {
    pub(super) const fn new(fabric: Fabric) -> Self {
        Self { fabric }
    }
}

/// How the device of a host is listed.
pub(super) fn info(name: &str, addresses: &[IpAddr]) -> DeviceInfo {
    let [a, b, c, d] = match addresses.first() {
        Some(IpAddr::V4(v4)) => v4.octets(),
        Some(IpAddr::V6(_)) | None => [0; 4],
    };
    DeviceInfo { name: name.into(), node_guid: [0x02, a, 0x53, 0xff, 0xfe, b, c, d] }
}

impl Provider for SimulatedProvider {
    fn devices(&self) -> Verb<Vec<DeviceInfo>> {
        Ok(self.fabric.each_host(|host| info(&host.name, &host.addresses)))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Context>, OpenFailure> {
        let hosts = self.fabric.each_host(|host| (host.node, host.name.clone()));
        match hosts.iter().find(|(_, known)| known == name) {
            Some((node, _)) => self.fabric.open_verbs(*node),
            None => Err(OpenFailure {
                error: VerbError::NoSuchObject("name: no such device"),
                reason: format!(
                    "no host of the fabric is called {name:?}; there are {}",
                    hosts.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>().join(", ")
                ),
            }),
        }
    }
}
