//! `softrnic stat`: what the open devices of this user have counted.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use softrnic_model::counters::{Counter, LINUX_COUNTERS};
use softrnic_verbs::emulated::Description;
use softrnic_verbs::{Backend, Gid, VerbError};

use crate::cli::Shared;
use crate::error::Failure;
use crate::hardware;
use crate::output::{Column, Report, Table, Value};
use crate::units::{self, Address};

const AFTER_HELP: &str = "\
Examples:
  softrnic stat                              all open devices of this user, once
  softrnic stat -d 10.0.0.2                  one device
  softrnic stat --pid 4711 --all             one process, counters at zero too
  softrnic stat -i 1s                        every second, as differences, until interrupted
  softrnic stat --watch                      the same
  softrnic stat -i 500ms -n 10               ten times
  softrnic --json stat -i 1s                 a document a line, every second
  softrnic stat --backend hardware           what the kernel has counted of real devices

Every command of softrnic tells its counters; a program of your own does when SOFTRNIC_STAT=1 is set
for it and it opens its device with `EmulatedConfig::with_environment`.";

/// Show what open devices have counted: packets, retransmissions, drops by reason, lost frames
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct StatArgs {
    /// Only devices of this process
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,

    /// Counters at zero as well
    #[arg(long, short)]
    all: bool,

    /// Repeat after this time, showing what was counted in between [without TIME: 1s]
    #[arg(
        long, short, visible_alias = "watch", value_name = "TIME", num_args = 0..=1,
        default_missing_value = "1s", value_parser = units::duration
    )]
    pub(crate) interval: Option<Duration>,

    /// End after this many repetitions
    #[arg(
        long, short = 'n', value_name = "NUMBER", requires = "interval",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(crate) count: Option<u32>,
}

const DEVICES: [Column; 7] = [
    Column { key: "pid", title: "pid" },
    Column { key: "program", title: "program" },
    Column { key: "device", title: "device" },
    Column { key: "addresses", title: "addresses" },
    Column { key: "dropped", title: "dropped" },
    Column { key: "rx_overflow", title: "overflowed" },
    Column { key: "icrc", title: "ICRC check" },
];

const COUNTERS: [Column; 6] = [
    Column { key: "pid", title: "pid" },
    Column { key: "device", title: "device" },
    Column { key: "kind", title: "kind" },
    Column { key: "counter", title: "counter" },
    Column { key: "value", title: "value" },
    Column { key: "help", title: "what" },
];

/// A device, however it was found.
struct Device {
    pid: u32,
    program: String,
    name: String,
    addresses: Vec<std::net::IpAddr>,
    counters: Vec<(String, u64)>,
}

impl Device {
    fn get(&self, name: &str) -> u64 {
        self.counters.iter().find(|(known, _)| known == name).map_or(0, |(_, value)| *value)
    }

    fn dropped(&self) -> u64 {
        let drops = self.counters.iter().filter(|(name, _)| kind(name) == "drop");
        drops.map(|(_, value)| value).sum()
    }

    /// How the frames that arrived were checked.
    fn icrc(&self) -> &'static str {
        match (self.get("rx_icrc_full") > 0, self.get("rx_icrc_solved") > 0) {
            (true, true) => "32 bits; 16 bits where the identification was solved",
            (true, false) => "32 bits",
            (false, true) => "16 bits, identification solved",
            (false, false) => "-",
        }
    }

    /// The same device with what was counted since `before`.
    fn since(mut self, before: &BTreeMap<(u32, String, String), u64>) -> Self {
        let (pid, device) = (self.pid, self.key());
        for (name, value) in &mut self.counters {
            let then = before.get(&(pid, device.clone(), name.clone()));
            *value = value.wrapping_sub(then.copied().unwrap_or(0));
        }
        self
    }

    /// What names it within its process: several devices may be called the same.
    fn key(&self) -> String {
        let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        addresses.join(", ")
    }
}

/// Asks and prints, once or again and again.
pub(crate) fn run(args: &StatArgs, shared: &Shared) -> Result<(), Failure> {
    let Some(interval) = args.interval else {
        return Ok(report(args, shared.json, &ask(args, shared)?).print(shared.json)?);
    };
    let mut left = args.count;
    let mut before = BTreeMap::new();
    remember(&ask(args, shared)?, &mut before);
    while left != Some(0) {
        std::thread::sleep(interval);
        let devices = ask(args, shared)?;
        let mut now = BTreeMap::new();
        remember(&devices, &mut now);
        let devices: Vec<_> = devices.into_iter().map(|device| device.since(&before)).collect();
        report(args, shared.json, &devices).print(shared.json)?;
        before = now;
        left = left.map(|left| left - 1);
    }
    Ok(())
}

fn remember(devices: &[Device], into: &mut BTreeMap<(u32, String, String), u64>) {
    for device in devices {
        let named = device.counters.iter();
        into.extend(named.map(|(name, value)| ((device.pid, device.key(), name.clone()), *value)));
    }
}

/// The devices that the options choose.
fn ask(args: &StatArgs, shared: &Shared) -> Result<Vec<Device>, Failure> {
    let wanted = |device: &Device| {
        args.pid.is_none_or(|pid| pid == device.pid)
            && match &shared.address {
                None => true,
                Some(Address::Interface(name)) => device.name == *name || owned_by(name, device),
                Some(address) => address.ips().any(|ip| device.addresses.contains(ip)),
            }
    };
    let all = match shared.backend() {
        Backend::Hardware => real(shared)?,
        Backend::Auto | Backend::Emulated => published()?,
    };
    Ok(all.into_iter().filter(wanted).collect())
}

/// What the kernel has counted of real devices, for all who use them.
fn real(shared: &Shared) -> Result<Vec<Device>, Failure> {
    let Some(provider) = hardware::chosen(shared)? else { return Ok(Vec::new()) };
    let refused = |error: VerbError| Failure::plain(error.to_string());
    let mut devices = Vec::new();
    for info in provider.devices().map_err(refused)? {
        let opened = provider.open(&info.name).map_err(|failure| Failure::plain(failure.reason))?;
        let described = Description::of(&*opened).map_err(refused)?;
        let gids =
            described.gids.iter().map(|entry| entry.gid).filter(|gid| *gid != Gid::default());
        let counters = opened.counters().map_err(refused)?;
        devices.push(Device {
            pid: 0,
            program: "kernel".into(),
            name: info.name,
            addresses: gids.map(Into::into).collect(),
            counters: counters.into_iter().map(|c| (c.name.into_owned(), c.value)).collect(),
        });
    }
    Ok(devices)
}

fn owned_by(interface: &str, device: &Device) -> bool {
    let interface = softrnic_transport::interfaces::by_name(interface).ok().flatten();
    interface.is_some_and(|interface| device.addresses.iter().any(|at| interface.owns(*at)))
}

#[cfg(unix)]
fn published() -> Result<Vec<Device>, Failure> {
    let all = softrnic_verbs::emulated::Published::all()
        .map_err(|error| Failure::plain(format!("cannot look for open devices: {error}")))?;
    let device = |device: softrnic_verbs::emulated::Published| Device {
        pid: device.pid,
        program: device.program,
        name: device.device,
        addresses: device.addresses,
        counters: device.counters.into_iter().map(|c| (c.name.into_owned(), c.value)).collect(),
    };
    Ok(all.into_iter().map(device).collect())
}

#[cfg(not(unix))]
fn published() -> Result<Vec<Device>, Failure> {
    Err(Failure::plain("stat needs unix sockets, which this system lacks"))
}

/// Which part of the device counts `name`.
fn kind(name: &str) -> &'static str {
    match Counter::ALL.iter().position(|counter| counter.name() == name) {
        Some(0..LINUX_COUNTERS) => "soft-RoCE",
        Some(_) if name.starts_with("drop_") => "drop",
        Some(_) => "device",
        None => "link",
    }
}

fn help(name: &str) -> Option<&'static str> {
    let of_device = Counter::ALL.iter().find(|counter| counter.name() == name);
    of_device
        .map(|counter| counter.help())
        .or_else(|| LINK_HELP.iter().find(|(known, _)| *known == name).map(|(_, help)| *help))
}

/// What the counters of a link mean ([`softrnic_transport::LinkCounters`]).
const LINK_HELP: [(&str, &str); 15] = [
    ("tx_packets", "Frames sent"),
    ("tx_bytes", "Bytes sent, UDP payload"),
    ("rx_packets", "Frames arrived, good or bad"),
    ("rx_bytes", "Bytes arrived, UDP payload"),
    ("tx_calls", "System calls that sent"),
    ("rx_calls", "System calls that received something"),
    ("rx_bad_length", "Dropped: too short or too long for any packet"),
    ("rx_bad_icrc", "Dropped: wrong ICRC"),
    ("rx_icrc_full", "ICRC checked over all 32 bits"),
    ("rx_icrc_solved", "ICRC checked over 16 bits, the IPv4 identification solved from the rest"),
    ("rx_icrc_odd_identification", "Solved identifications that do not fit the peer's pattern"),
    ("rx_overflow", "Lost because the receive buffer was full, as the kernel counts them"),
    ("tx_failed", "Not sent: no route, no buffer space, or refused by the kernel"),
    ("faults_dropped", "Frames that fault rules dropped"),
    ("faults_applied", "Frames that fault rules changed, repeated, delayed or marked"),
];

/// Documents for programs have every counter; people see those of Linux and what was counted.
fn report(args: &StatArgs, json: bool, devices: &[Device]) -> Report {
    let mut table = Table::new(&DEVICES);
    let mut counters = Table::new(&COUNTERS);
    for device in devices {
        table.push([
            u64::from(device.pid).into(),
            device.program.clone().into(),
            device.name.clone().into(),
            device.key().into(),
            device.dropped().into(),
            device.get("rx_overflow").into(),
            device.icrc().into(),
        ]);
        for (name, value) in &device.counters {
            let kind = kind(name);
            if args.all || json || *value != 0 || kind == "soft-RoCE" {
                counters.push([
                    u64::from(device.pid).into(),
                    device.name.clone().into(),
                    kind.into(),
                    name.clone().into(),
                    (*value).into(),
                    help(name).map_or(Value::Missing, Into::into),
                ]);
            }
        }
    }
    let mut report = Report::new("stat").table("devices", table).table("counters", counters);
    if devices.is_empty() {
        report.note("No device is open.");
    }
    report
}

#[cfg(test)]
mod tests {
    use softrnic_transport::LinkCounters;

    use super::*;

    #[test]
    fn every_counter_has_a_kind_and_a_help() {
        let link = LinkCounters::default().fields();
        let links: Vec<&str> = link.iter().map(|(name, _)| *name).collect();
        assert_eq!(LINK_HELP.map(|(name, _)| name).to_vec(), links);
        for counter in Counter::ALL {
            assert_eq!(help(counter.name()), Some(counter.help()));
            assert_eq!(kind(counter.name()) == "drop", counter.help().starts_with("Dropped: "));
        }
        assert_eq!((kind("sent_pkts"), kind("rdma_recvs")), ("soft-RoCE", "soft-RoCE"));
        assert_eq!((kind("cnp_sent"), kind("rx_overflow")), ("device", "link"));
    }

    #[test]
    fn differences_are_those_of_the_same_device() {
        let device = |last: u8, value| Device {
            pid: 1,
            program: "p".into(),
            name: "softrnic0".into(),
            addresses: vec![[127, 0, 0, last].into()],
            counters: vec![("sent_pkts".into(), value)],
        };
        let mut before = BTreeMap::new();
        remember(&[device(2, 10), device(3, 100)], &mut before);
        assert_eq!(device(2, 15).since(&before).get("sent_pkts"), 5);
        assert_eq!(device(3, 101).since(&before).get("sent_pkts"), 1);
        // A device that was not there before counts from its beginning.
        assert_eq!(device(4, 7).since(&before).get("sent_pkts"), 7);
    }
}
