//! Which emulated devices a host has: one per interface with an address.

use std::sync::Arc;

use softrnic_transport::interfaces;

use super::config::device_name;
use super::{EmulatedConfig, EmulatedContext};
use crate::VerbError;
use crate::provider::{Context, DeviceInfo, OpenFailure, Provider, Verb};

/// One device for each interface that is up and has an address, named after it: `softrnic_eth0`.
/// It follows its interface ([`EmulatedConfig::interface`]).
#[derive(Clone, Debug)]
pub struct EmulatedProvider {
    /// Settings that all its devices share; name and addresses are each device's own.
    pub settings: EmulatedConfig,
}

impl EmulatedProvider {
    /// How its devices would be opened.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: the system does not list its interfaces.
    pub fn configs(&self) -> Verb<Vec<EmulatedConfig>> {
        let all = interfaces::all()
            .map_err(|_| VerbError::NotSupported("the system does not list its interfaces"))?;
        let config = |interface: interfaces::Interface| EmulatedConfig {
            name: device_name(&interface.name),
            addresses: interface.addresses,
            interface: Some(interface.name),
            ..self.settings.clone()
        };
        Ok(all.into_iter().filter(|i| i.up && !i.addresses.is_empty()).map(config).collect())
    }
}

impl Provider for EmulatedProvider {
    fn devices(&self) -> Verb<Vec<DeviceInfo>> {
        Ok(self.configs()?.iter().map(EmulatedContext::info_of).collect())
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Context>, OpenFailure> {
        let configs = self.configs()?;
        let known = || configs.iter().map(|config| config.name.as_str()).collect::<Vec<_>>();
        let Some(config) = configs.iter().find(|config| config.name == name) else {
            return Err(OpenFailure {
                error: VerbError::NoSuchObject("name: no such device"),
                reason: format!("no device is called {name:?}; there are {}", known().join(", ")),
            });
        };
        Ok(Arc::new(EmulatedContext::open(config.clone())?))
    }
}
