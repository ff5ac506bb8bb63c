//! `softrnic devinfo`: what the devices of this host are and can do.

mod capabilities;
mod tables;

use std::net::IpAddr;

use clap::Args;
use softrnic_transport::interfaces;
use softrnic_verbs::emulated::{Description, EmulatedConfig, EmulatedProvider};
use softrnic_verbs::provider::Provider;

use crate::cli::Shared;
use crate::device::Settings;
use crate::error::Failure;
use crate::hardware;
use crate::output::Report;
use crate::units::Address;

const AFTER_HELP: &str = "\
Examples:
  softrnic devinfo                           the devices of this host, one for each interface
  softrnic devinfo -d eth0 -v                all limits and capabilities of the device on eth0
  softrnic devinfo --profile cx5 -v          how a ConnectX-5 behaves where devices differ
  softrnic devinfo --json                    the same for programs

  softrnic devinfo --backend hardware        what rdma-core knows

Emulated devices are not opened: what is shown is what a program would find.";

/// Show the devices: names, addresses (GIDs), port state, MTU, limits and capabilities
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DevinfoArgs {
    /// Show every limit and capability, not only the devices and their ports
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

/// Lists and prints.
pub(crate) fn run(args: &DevinfoArgs, shared: &Shared) -> Result<(), Failure> {
    if let Some(provider) = hardware::chosen(shared)? {
        return real(args, shared, &*provider);
    }
    let settings = Settings::emulated(shared).into_config();
    let profile = settings.profile;
    let configs = chosen(settings, shared.address.as_ref())?;
    let described: Vec<_> = configs.iter().map(EmulatedConfig::describe).collect();
    let owners: Vec<_> = configs.iter().map(owner).collect();
    let mut report = Report::new("devinfo")
        .fact("backend", "backend", "emulated")
        .fact("transport", "transport", "RoCEv2 (UDP), Ethernet link layer")
        .fact("udp_port", "UDP port", u64::from(softrnic_model::wire::ROCE_PORT))
        .fact("profile", "profile", profile.name)
        .table("devices", tables::devices(&described, &owners))
        .table("gids", tables::gids(&described))
        .table("pkeys", tables::pkeys(&described));
    if args.verbose {
        let attributes = described.first().map(|device| &device.attributes);
        report = report
            .table("limits", tables::limits(attributes))
            .table("capabilities", capabilities::table())
            .table("profile", tables::profile(&profile));
    }
    Ok(report.print(shared.json)?)
}

/// The interface that an emulated device is on.
fn owner(config: &EmulatedConfig) -> Option<String> {
    let owner = config.addresses.first().and_then(|at| interfaces::by_address(*at).ok()?);
    owner.map(|interface| interface.name)
}

/// Real devices are opened to be asked.
fn real(args: &DevinfoArgs, shared: &Shared, provider: &dyn Provider) -> Result<(), Failure> {
    let chosen = match &shared.address {
        Some(address) => {
            vec![hardware::open(provider, Some(address), None)?.verbs().device().name.clone()]
        }
        None => {
            let all = provider.devices().map_err(|error| Failure::plain(error.to_string()))?;
            all.into_iter().map(|device| device.name).collect()
        }
    };
    let mut described = Vec::new();
    let mut report = Report::new("devinfo").fact("backend", "backend", "hardware");
    for name in chosen {
        match provider.open(&name) {
            Ok(device) => described.push(
                Description::of(&*device).map_err(|error| Failure::plain(error.to_string()))?,
            ),
            Err(failure) => report.note(failure.reason),
        }
    }
    let all = interfaces::all().unwrap_or_default();
    let owner = |device: &Description| {
        let index =
            device.gids.iter().map(|entry| entry.interface_index).find(|index| *index != 0)?;
        all.iter().find(|interface| interface.index == index).map(|found| found.name.clone())
    };
    let owners: Vec<_> = described.iter().map(owner).collect();
    let mut report = report
        .table("devices", tables::devices(&described, &owners))
        .table("gids", tables::gids(&described))
        .table("pkeys", tables::pkeys(&described));
    if args.verbose {
        let first = described.first().map(|device| &device.attributes);
        report = report.table("limits", tables::limits(first));
        for device in &described {
            let names = device.attributes.capabilities.iter_names().map(|(name, _)| name);
            let names: Vec<_> = names.collect();
            report.note(format!("{} can: {}", device.info.name, names.join(", ")));
        }
    }
    Ok(report.print(shared.json)?)
}

/// The devices that `address` chooses; all without one.
fn chosen(
    settings: EmulatedConfig,
    address: Option<&Address>,
) -> Result<Vec<EmulatedConfig>, Failure> {
    let provider = EmulatedProvider::new(settings);
    let all = provider.configs().map_err(|error| Failure::plain(error.to_string()))?;
    match address {
        None => Ok(all),
        Some(Address::Interface(name)) => {
            let suffix = format!("_{name}");
            let found = all.into_iter().find(|config| config.name.ends_with(&suffix));
            found.map(|config| vec![config]).ok_or_else(|| {
                Failure::usage(
                    format!("--address: no interface called {name} is up and has an address"),
                    "`softrnic devinfo` without it lists all devices",
                )
            })
        }
        Some(Address::Several(lists)) => {
            let mut found = Vec::new();
            for (number, ips) in lists.iter().enumerate() {
                let one = chosen(provider.settings.clone(), Some(&Address::Ips(ips.clone())))?;
                let name = format!("softrnic{number}");
                found.extend(
                    one.into_iter().map(|config| EmulatedConfig { name: name.clone(), ..config }),
                );
            }
            Ok(found)
        }
        Some(Address::Ips(ips)) => {
            let owner = |ip: &IpAddr| {
                interfaces::by_address(*ip).ok().flatten().ok_or_else(|| {
                    Failure::usage(
                        format!("--address: no interface of this host has the address {ip}"),
                        "`softrnic devinfo` without it lists all devices",
                    )
                })
            };
            let owners = ips.iter().map(owner).collect::<Result<Vec<_>, _>>()?;
            // The device is named after the interface of its first address.
            let name = owners.first().map(|owner| format!("softrnic_{}", owner.name));
            let name = name.unwrap_or_default();
            Ok(vec![EmulatedConfig { name, addresses: ips.clone(), ..provider.settings }])
        }
    }
}
