//! Real devices: whether they are asked for, and which of them.

use std::net::IpAddr;
use std::sync::Arc;

use softrnic_transport::interfaces;
use softrnic_verbs::provider::{GidType, OpenFailure, Provider};
use softrnic_verbs::{Backend, Choice, Context, Gid, PortState};

use crate::cli::Shared;
use crate::device::not_one;
use crate::error::Failure;
use crate::units::Address;

/// The real devices, if it comes to them. Where nobody said so, a person is told on standard error what it is.
pub(crate) fn chosen(shared: &Shared) -> Result<Option<Arc<dyn Provider>>, Failure> {
    let choice = choose(shared)?;
    if shared.backend() == Backend::Auto && !shared.json {
        eprintln!("backend: {choice}");
    }
    Ok(into_provider(choice))
}

/// The same without a word.
pub(crate) fn chosen_silently(shared: &Shared) -> Result<Option<Arc<dyn Provider>>, Failure> {
    choose(shared).map(into_provider)
}

fn choose(shared: &Shared) -> Result<Choice, Failure> {
    shared.backend().choose().map_err(|OpenFailure { reason, .. }| {
        let (what, advice) = reason.split_once("; ").unwrap_or((&reason, ""));
        let advice = if advice.is_empty() { "--backend emulated needs none" } else { advice };
        Failure::failed(format!("--backend hardware: {what}"), advice)
    })
}

fn into_provider(choice: Choice) -> Option<Arc<dyn Provider>> {
    match choice {
        Choice::Hardware(provider) => Some(provider),
        Choice::Emulated(_) => None,
    }
}

/// Opens the real device that `address` means by its name, its interface or one of its addresses; without
/// it, the one with the address `reached`, else the first that is up. The address is then the source of
/// what it sends.
pub(crate) fn open(
    provider: &dyn Provider,
    address: Option<&Address>,
    reached: Option<IpAddr>,
) -> Result<Context, Failure> {
    let devices = provider.devices().map_err(|error| Failure::plain(error.to_string()))?;
    let mut refused = None;
    let mut usable = Vec::new();
    for device in &devices {
        if is_other_by_name(address, &device.name, &devices) {
            continue;
        }
        match provider.open(&device.name) {
            Ok(verbs) => usable.push(Context::new(verbs)),
            Err(failure) => refused = Some(failure),
        }
    }
    let found = match address {
        Some(Address::Ips(ips)) => usable.into_iter().find_map(|device| at(device, ips).ok()),
        Some(Address::Interface(name)) => usable.into_iter().find_map(|device| {
            let is_it = device.verbs().device().name == *name;
            if is_it { Some(device) } else { on_interface(device, name) }
        }),
        Some(several @ Address::Several(_)) => return Err(not_one(several)),
        None => first(usable, reached),
    };
    let Some(context) = found else {
        return Err(refused.map_or_else(|| unknown(address, &devices), cannot_open));
    };
    judge(&context)?;
    Ok(context)
}

/// Whether the device is not the one whose name is asked for.
fn is_other_by_name(
    address: Option<&Address>,
    name: &str,
    devices: &[softrnic_verbs::provider::DeviceInfo],
) -> bool {
    match address {
        Some(Address::Interface(wanted)) => {
            wanted != name && devices.iter().any(|device| device.name == *wanted)
        }
        Some(Address::Ips(_) | Address::Several(_)) | None => false,
    }
}

/// The entries of the GID table that RoCEv2 packets can carry.
fn entries(context: &Context) -> Vec<(u8, Gid, u32)> {
    let len = context.port().map_or(0, |port| port.gid_tbl_len.min(256));
    (0..=u8::MAX)
        .take(len as usize)
        .filter_map(|index| {
            let entry = context.gid(index).ok()?;
            let usable = entry.gid_type == GidType::RoceV2 && entry.gid != Gid::default();
            usable.then_some((index, entry.gid, entry.interface_index))
        })
        .collect()
}

/// The device, if it has the first of these addresses; else it is given back.
fn at(context: Context, ips: &[IpAddr]) -> Result<Context, Context> {
    let wanted = ips.first().map(|ip| Gid::from(*ip));
    let index = entries(&context).into_iter().find(|(_, gid, _)| Some(*gid) == wanted);
    match index {
        Some((index, ..)) => Ok(context.with_source(index)),
        None => Err(context),
    }
}

/// The device, if it is on an interface.
fn on_interface(context: Context, name: &str) -> Option<Context> {
    let index = interfaces::by_name(name).ok().flatten()?.index;
    entries(&context).into_iter().any(|(_, _, on)| on == index).then_some(context)
}

fn first(usable: Vec<Context>, reached: Option<IpAddr>) -> Option<Context> {
    let mut rest = Vec::new();
    for context in usable {
        let tried = match reached {
            Some(ip) => at(context, &[ip]),
            None => Err(context),
        };
        match tried {
            Ok(found) => return Some(found),
            Err(other) => rest.push(other),
        }
    }
    let up = rest.iter().position(|context| judge(context).is_ok());
    (!rest.is_empty()).then(|| rest.swap_remove(up.unwrap_or(0)))
}

/// Whether packets can leave.
fn judge(context: &Context) -> Result<(), Failure> {
    let name = &context.verbs().device().name;
    if context.port()?.state != PortState::Active {
        return Err(Failure::failed(
            format!("the port of {name} is down"),
            "bring its interface up (ip link set DEVICE up); `rdma link` shows which it is",
        ));
    }
    context.first_gid().map(|_| ()).map_err(|_| {
        Failure::failed(
            format!("{name} has no address for RoCEv2"),
            "give its interface one (ip addr add ADDRESS/24 dev DEVICE); InfiniBand and iWARP are not \
             served",
        )
    })
}

fn unknown(address: Option<&Address>, devices: &[softrnic_verbs::provider::DeviceInfo]) -> Failure {
    let known: Vec<_> = devices.iter().map(|device| device.name.as_str()).collect();
    let wanted = match address {
        Some(Address::Interface(name)) => format!("is called {name} or is on such an interface"),
        Some(address @ (Address::Ips(_) | Address::Several(_))) => {
            format!("has the address {address}")
        }
        None => "can be opened".into(),
    };
    Failure::usage(
        format!("--address: no RDMA device {wanted}"),
        format!(
            "there are {}; `softrnic devinfo --backend hardware` shows their addresses",
            known.join(", ")
        ),
    )
}

fn cannot_open(failure: OpenFailure) -> Failure {
    let (what, advice) = match failure.reason.split_once(": be ") {
        Some((what, advice)) => (what.to_owned(), format!("be {advice}")),
        None => (failure.reason, "--backend emulated needs no device".into()),
    };
    Failure::failed(format!("the device cannot be opened: {what}"), advice)
}
