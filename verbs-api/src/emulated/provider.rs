//! Which emulated devices a host has: one per interface with an address.

use std::sync::Arc;

use softrnic_transport::interfaces;

use super::{EmulatedConfig, EmulatedContext};
use crate::VerbError;
use crate::provider::{Context, DeviceInfo, Provider, Verb};

/// One device for each interface that is up and has an address, named after it.
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
            name: format!("softrnic_{}", interface.name),
            addresses: interface.addresses,
            ..self.settings.clone()
        };
        Ok(all.into_iter().filter(|i| i.up && !i.addresses.is_empty()).map(config).collect())
    }
}

impl Provider for EmulatedProvider {
    fn devices(&self) -> Verb<Vec<DeviceInfo>> {
        Ok(self.configs()?.iter().map(EmulatedContext::info_of).collect())
    }

    fn open(&self, name: &str) -> Verb<Arc<dyn Context>> {
        let config = self.configs()?.into_iter().find(|config| config.name == name);
        let config = config.ok_or(VerbError::NoSuchObject("name: no such device"))?;
        EmulatedContext::open(config)
            .map(|context| Arc::new(context) as Arc<dyn Context>)
            .map_err(|_| VerbError::Unreachable("the address or port cannot be had"))
    }
}
