//! The environment that the drop-in reads.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::process::Command;

use crate::cli::Shared;
use crate::commands::run::DeviceArgs;
use crate::error::Failure;
use crate::units::Address;

/// Variables to set, in the order of their names; those without a value are to be removed.
#[derive(Debug, Default)]
pub(super) struct Variables(BTreeMap<&'static str, Option<OsString>>);

impl Variables {
    /// Those that say which devices there are and how they behave. What was in the environment
    /// already has become an option of the same meaning.
    pub(super) fn of_device(device: &DeviceArgs, shared: &Shared) -> Self {
        let mut variables = Self::default();
        // The two of them name devices in two ways; the drop-in takes one.
        variables.0.insert("SOFTRNIC_ADDRESS", None);
        variables.0.insert("SOFTRNIC_INTERFACE", None);
        match &shared.address {
            Some(Address::Interface(name)) => variables.set("SOFTRNIC_INTERFACE", name),
            Some(addresses) => variables.set("SOFTRNIC_ADDRESS", addresses.to_string()),
            None if device.interface.is_empty() => {}
            None => variables.set("SOFTRNIC_INTERFACE", device.interface.join(",")),
        }
        if let Some(name) = &device.device_name {
            variables.set("SOFTRNIC_DEVICE_NAME", name);
        }
        if let Some(port) = device.udp_port {
            variables.set("SOFTRNIC_PORT", port.to_string());
        }
        if let Some(capture) = &shared.capture {
            // The program may change its folder before it opens the device.
            let absolute = std::path::absolute(capture);
            variables.set("SOFTRNIC_CAPTURE", absolute.as_deref().unwrap_or(capture));
        }
        if let Some(faults) = &shared.faults {
            variables.set("SOFTRNIC_FAULTS", faults);
        }
        if shared.trace {
            variables.set("SOFTRNIC_TRACE", "1");
        }
        variables.set("SOFTRNIC_PROFILE", shared.profile.name());
        if std::env::var_os("SOFTRNIC_STAT").is_none() {
            variables.set("SOFTRNIC_STAT", "1");
        }
        // Who starts the service that shares the address: this program can.
        if let (None, Ok(program)) = (std::env::var_os("SOFTRNIC_SERVICE"), std::env::current_exe())
        {
            variables.set("SOFTRNIC_SERVICE", program);
        }
        variables
    }

    pub(super) fn set(&mut self, name: &'static str, value: impl AsRef<OsStr>) {
        self.0.insert(name, Some(value.as_ref().to_os_string()));
    }

    /// Puts `value` before what the list `name` has in the environment. What stands there already
    /// is not put there twice.
    pub(super) fn put_before(&mut self, name: &'static str, value: &OsStr) {
        let before = self.0.get(name).cloned().unwrap_or_else(|| std::env::var_os(name));
        let mut list = value.to_os_string();
        for item in std::env::split_paths(&before.unwrap_or_default()) {
            if !item.as_os_str().is_empty() && item.as_os_str() != value {
                list.push(":");
                list.push(item);
            }
        }
        self.set(name, list);
    }

    /// Sets and removes them for a command.
    pub(super) fn apply(&self, command: &mut Command) {
        for (name, value) in &self.0 {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
    }

    /// As commands of a shell.
    pub(super) fn shell(&self) -> Result<String, Failure> {
        let line = |(name, value): (&str, &str)| {
            let quoted = value.replace('\'', r"'\''");
            format!("export {name}='{quoted}'\n")
        };
        let removed = self
            .0
            .iter()
            .filter(|(name, value)| value.is_none() && std::env::var_os(name).is_some());
        let removed = removed.map(|(name, _)| format!("unset {name}\n"));
        Ok(removed.chain(self.texts()?.into_iter().map(line)).collect())
    }

    /// As one JSON object on a line.
    pub(super) fn json(&self) -> Result<String, Failure> {
        let object: BTreeMap<_, _> = self.texts()?.into_iter().collect();
        let text = serde_json::to_string(&object)
            .map_err(|error| Failure::plain(format!("the variables make no JSON: {error}")))?;
        Ok(text + "\n")
    }

    fn texts(&self) -> Result<Vec<(&str, &str)>, Failure> {
        let set = self.0.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?)));
        set.map(|(name, value)| match value.to_str() {
            Some(value) => Ok((name, value)),
            None => Err(Failure::failed(
                format!("{name} would have a value that is no text: {}", value.display()),
                "use folders whose names are valid UTF-8",
            )),
        })
        .collect()
    }
}
