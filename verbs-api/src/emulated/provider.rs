//! Which emulated devices there are: what the environment asks for, else one per interface.

use std::net::IpAddr;
use std::sync::Arc;

use softrnic_transport::interfaces::{self, Interface};

use super::config::{OpenError, device_name, variable};
use super::{EmulatedConfig, EmulatedContext};
use crate::VerbError;
use crate::provider::{Context, DeviceInfo, OpenFailure, Provider, Verb};

/// The emulated devices of this host. Each follows its interface ([`EmulatedConfig::interface`])
/// unless it was made for certain addresses.
#[derive(Clone, Debug)]
pub struct EmulatedProvider {
    /// Settings that all its devices share; name and addresses are each device's own.
    pub settings: EmulatedConfig,
    /// Which devices there are.
    pub choice: DeviceChoice,
    /// What they are called: one device by this name, several by this name and a number. Without
    /// it, after their interface (`softrnic_eth0`), or `softrnic0` for certain addresses.
    pub name: Option<String>,
}

/// Which devices there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// One for each interface that is up and has an address.
    #[default]
    Every,
    /// The same, but none for loopback interfaces if there is another.
    Usable,
    /// One for each of these interfaces.
    Interfaces(Vec<String>),
    /// One that has these addresses.
    Addresses(Vec<IpAddr>),
    /// One for each of these lists of addresses.
    Several(Vec<Vec<IpAddr>>),
}

impl EmulatedProvider {
    /// One device for each interface that is up and has an address, named after it.
    #[must_use]
    pub const fn new(settings: EmulatedConfig) -> Self {
        Self { settings, choice: DeviceChoice::Every, name: None }
    }

    /// The devices that the environment asks for: `SOFTRNIC_ADDRESS` (addresses of this host,
    /// separated by commas: one device that has them; several devices are separated by semicolons), or `SOFTRNIC_INTERFACE` (names of interfaces:
    /// a device for each); without both, [`DeviceChoice::Usable`]. `SOFTRNIC_DEVICE_NAME` names
    /// them, `SOFTRNIC_PORT` is their UDP port, and [`EmulatedConfig::with_environment`] tells the
    /// rest.
    ///
    /// # Errors
    /// [`OpenError::Setting`]: a variable that cannot be understood, or both of the first two.
    pub fn from_environment(settings: EmulatedConfig) -> Result<Self, OpenError> {
        let mut settings = settings.with_environment()?;
        let wrong = |name: &str, text: &str, what: &str| {
            OpenError::Setting(format!("{name}={text}: {what}"))
        };
        if let Some(text) = variable("SOFTRNIC_PORT") {
            let port = text.parse().ok().filter(|port| *port != 0);
            settings.port =
                port.ok_or_else(|| wrong("SOFTRNIC_PORT", &text, "not a UDP port (1 to 65535)"))?;
        }
        let choice = match (variable("SOFTRNIC_ADDRESS"), variable("SOFTRNIC_INTERFACE")) {
            (None, None) => DeviceChoice::Usable,
            (Some(text), None) => {
                let addresses = |list| items(list).map(str::parse).collect::<Result<_, _>>();
                let lists = text.split(';').map(addresses).collect::<Result<Vec<Vec<IpAddr>>, _>>();
                let mut lists = lists.map_err(|_| {
                    wrong("SOFTRNIC_ADDRESS", &text, "not IP addresses separated by commas")
                })?;
                match lists.len() {
                    1 => DeviceChoice::Addresses(lists.remove(0)),
                    _ => DeviceChoice::Several(lists),
                }
            }
            (None, Some(text)) => {
                DeviceChoice::Interfaces(items(&text).map(str::to_owned).collect())
            }
            (Some(address), Some(_)) => {
                let what = "not together with SOFTRNIC_INTERFACE, which names devices as well";
                return Err(wrong("SOFTRNIC_ADDRESS", &address, what));
            }
        };
        Ok(Self { settings, choice, name: variable("SOFTRNIC_DEVICE_NAME") })
    }

    /// How its devices would be opened.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: the system does not list its interfaces.
    pub fn configs(&self) -> Verb<Vec<EmulatedConfig>> {
        let all = interfaces::all()
            .map_err(|_| VerbError::NotSupported("the system does not list its interfaces"))?;
        let mut configs = self.chosen(all);
        if let Some(name) = &self.name {
            let several = configs.len() > 1;
            for (number, config) in configs.iter_mut().enumerate() {
                config.name = if several { format!("{name}{number}") } else { name.clone() };
            }
        }
        Ok(configs)
    }

    fn chosen(&self, all: Vec<Interface>) -> Vec<EmulatedConfig> {
        let of = |interface: Interface| EmulatedConfig {
            name: device_name(&interface.name),
            addresses: interface.addresses,
            interface: Some(interface.name),
            ..self.settings.clone()
        };
        let usable = |interface: &Interface| interface.up && !interface.addresses.is_empty();
        let loopback = |interface: &Interface| interface.addresses.iter().all(IpAddr::is_loopback);
        match &self.choice {
            DeviceChoice::Every => all.into_iter().filter(usable).map(of).collect(),
            DeviceChoice::Usable => {
                let (inner, outer): (Vec<_>, Vec<_>) =
                    all.into_iter().filter(usable).partition(loopback);
                let usable = if outer.is_empty() { inner } else { outer };
                usable.into_iter().map(of).collect()
            }
            DeviceChoice::Interfaces(names) => {
                let named = |name: &String| EmulatedConfig {
                    addresses: all
                        .iter()
                        .find(|interface| interface.name == *name)
                        .map_or_else(Vec::new, |interface| interface.addresses.clone()),
                    name: device_name(name),
                    interface: Some(name.clone()),
                    ..self.settings.clone()
                };
                names.iter().map(named).collect()
            }
            DeviceChoice::Addresses(addresses) => vec![EmulatedConfig {
                addresses: addresses.clone(),
                interface: None,
                ..self.settings.clone()
            }],
            DeviceChoice::Several(lists) => {
                let numbered = |(number, addresses): (usize, &Vec<IpAddr>)| EmulatedConfig {
                    name: format!("softrnic{number}"),
                    addresses: addresses.clone(),
                    interface: None,
                    ..self.settings.clone()
                };
                lists.iter().enumerate().map(numbered).collect()
            }
        }
    }
}

/// The parts of a list.
fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
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

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn interface(name: &str, address: [u8; 4], up: bool) -> Interface {
        let addresses = vec![Ipv4Addr::from(address).into()];
        Interface { name: name.into(), index: 1, addresses, mtu: None, up }
    }

    fn names(choice: DeviceChoice, all: &[Interface]) -> Vec<String> {
        let settings = EmulatedConfig::new(Ipv4Addr::LOCALHOST.into());
        let provider = EmulatedProvider { choice, ..EmulatedProvider::new(settings) };
        provider.chosen(all.to_vec()).into_iter().map(|config| config.name).collect()
    }

    #[test]
    fn loopback_is_a_device_only_where_there_is_no_other() {
        let lo = interface("lo", [127, 0, 0, 1], true);
        let eth = interface("eth0", [10, 0, 0, 1], true);
        let down = interface("eth1", [10, 0, 1, 1], false);
        let all = [lo.clone(), eth, down];
        assert_eq!(names(DeviceChoice::Every, &all), ["softrnic_lo", "softrnic_eth0"]);
        assert_eq!(names(DeviceChoice::Usable, &all), ["softrnic_eth0"]);
        assert_eq!(names(DeviceChoice::Usable, &[lo]), ["softrnic_lo"]);
    }

    #[test]
    fn a_chosen_interface_is_a_device_whether_it_is_there_or_not() {
        let chosen = DeviceChoice::Interfaces(vec!["eth9".into(), "lo".into()]);
        let all = [interface("lo", [127, 0, 0, 1], true)];
        assert_eq!(names(chosen, &all), ["softrnic_eth9", "softrnic_lo"]);
    }

    #[test]
    fn a_name_is_numbered_when_there_are_several_devices() {
        let settings = EmulatedConfig::new(Ipv4Addr::LOCALHOST.into());
        let mut provider = EmulatedProvider {
            choice: DeviceChoice::Interfaces(vec!["a".into(), "b".into()]),
            name: Some("emu".into()),
            settings,
        };
        let names = |provider: &EmulatedProvider| {
            let configs = provider.configs().unwrap();
            configs.into_iter().map(|config| config.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&provider), ["emu0", "emu1"]);
        provider.choice = DeviceChoice::Addresses(vec![Ipv4Addr::LOCALHOST.into()]);
        assert_eq!(names(&provider), ["emu"]);
    }

    #[test]
    fn several_lists_of_addresses_are_several_devices() {
        let lists = [[127, 0, 0, 1], [127, 0, 0, 2]].map(|ip| vec![Ipv4Addr::from(ip).into()]);
        assert_eq!(names(DeviceChoice::Several(lists.to_vec()), &[]), ["softrnic0", "softrnic1"]);
    }

    #[test]
    fn lists_may_have_spaces_and_ends() {
        assert_eq!(items(" a, b ,,").collect::<Vec<_>>(), ["a", "b"]);
    }
}
