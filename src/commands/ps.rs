//! `softrnic ps`: who shares which address.

use std::net::IpAddr;

use clap::Args;
use softrnic_model::verbs::Gid;
use softrnic_transport::interfaces::Interface;
use softrnic_transport::service::{self, Listed, Listing, Row};

use crate::cli::Shared;
use crate::error::Failure;
use crate::output::{Column, Report, Table, Value};
use crate::units::Address;

const AFTER_HELP: &str = "\
Examples:
  softrnic ps                                all processes that share an address here
  softrnic ps -d 10.0.0.2                    those at one address
  softrnic --json ps                         the same for programs

Only processes that use the port service are seen, of this network namespace. `softrnic stat` shows
all counters of the devices of this user.";

/// Show the processes that share addresses: slot, queue pairs, regions, packets
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct PsArgs {
    /// Only this UDP port
    #[arg(long, value_name = "PORT")]
    udp_port: Option<u16>,
}

const SERVICES: [Column; 6] = [
    Column { key: "udp_port", title: "UDP port" },
    Column { key: "uid", title: "uid" },
    Column { key: "service", title: "service" },
    Column { key: "keeper", title: "keeper" },
    Column { key: "members", title: "members" },
    Column { key: "note", title: "note" },
];

const CONVERSATIONS: [Column; 8] = [
    Column { key: "pid", title: "pid" },
    Column { key: "program", title: "program" },
    Column { key: "service", title: "service" },
    Column { key: "state", title: "state" },
    Column { key: "role", title: "role" },
    Column { key: "local", title: "local" },
    Column { key: "peer", title: "peer" },
    Column { key: "comm_id", title: "comm ID" },
];

const MEMBERS: [Column; 16] = [
    Column { key: "address", title: "address" },
    Column { key: "udp_port", title: "UDP port" },
    Column { key: "slot", title: "slot" },
    Column { key: "pid", title: "pid" },
    Column { key: "uid", title: "uid" },
    Column { key: "program", title: "program" },
    Column { key: "device", title: "device" },
    Column { key: "queue_pairs", title: "QPs" },
    Column { key: "regions", title: "MRs" },
    Column { key: "sent", title: "sent" },
    Column { key: "received", title: "received" },
    Column { key: "sent_bytes", title: "bytes sent" },
    Column { key: "received_bytes", title: "bytes received" },
    Column { key: "dropped", title: "dropped" },
    Column { key: "listeners", title: "listeners" },
    Column { key: "connections", title: "connections" },
];

/// Asks every service and prints what it tells.
pub(crate) fn run(args: &PsArgs, shared: &Shared) -> Result<(), Failure> {
    let all = service::services()
        .map_err(|error| Failure::plain(format!("cannot look for port services: {error}")))?;
    let wanted = |listed: &Listed| args.udp_port.is_none_or(|port| port == listed.port);
    let mut services = Table::new(&SERVICES);
    let mut rows = Vec::new();
    for Listed { port, uid, listing } in all.into_iter().filter(wanted) {
        match listing {
            Ok(Listing { service, keeper, members }) => {
                services.push([
                    u64::from(port).into(),
                    u64::from(uid).into(),
                    u64::from(service).into(),
                    u64::from(keeper).into(),
                    count(members.len()),
                    Value::Missing,
                ]);
                rows.extend(members.into_iter().map(|member| (port, member)));
            }
            Err(why) => services.push([
                u64::from(port).into(),
                u64::from(uid).into(),
                Value::Missing,
                Value::Missing,
                Value::Missing,
                why.to_string().into(),
            ]),
        }
    }
    let wanted = Wanted::new(shared.address.as_ref())?;
    let mut members = members(&rows, &wanted);
    members.sort_by_key(|(order, _)| *order);
    let mut table = Table::new(&MEMBERS);
    let nobody = members.is_empty();
    members.into_iter().for_each(|(_, row)| table.push(row));
    let conversations = conversations(&rows, &wanted);
    let mut report = Report::new("ps")
        .table("services", services)
        .table("members", table)
        .table("connections", conversations);
    if nobody {
        report.note("No process shares an address.");
    }
    Ok(report.print(shared.json)?)
}

/// The addresses that are asked for.
struct Wanted<'a> {
    address: Option<&'a Address>,
    interface: Option<Interface>,
}

impl<'a> Wanted<'a> {
    fn new(address: Option<&'a Address>) -> Result<Self, Failure> {
        let interface = match address {
            Some(Address::Interface(name)) => softrnic_transport::interfaces::by_name(name)
                .map_err(|error| Failure::plain(format!("cannot list interfaces: {error}")))?,
            Some(Address::Ips(_) | Address::Several(_)) | None => None,
        };
        Ok(Self { address, interface })
    }

    fn has(&self, ip: IpAddr) -> bool {
        match self.address {
            None => true,
            Some(some @ (Address::Ips(_) | Address::Several(_))) => {
                some.ips().any(|own| *own == ip)
            }
            Some(Address::Interface(_)) => self.interface.as_ref().is_some_and(|one| one.owns(ip)),
        }
    }

    /// Who listens at all addresses does so at each of its process.
    fn has_end(&self, row: &Row, local: Gid) -> bool {
        if local == Gid::default() {
            row.places.iter().any(|place| self.has(place.ip))
        } else {
            self.has(local.into())
        }
    }
}

/// A row for each listener and connection of the connection manager.
fn conversations(rows: &[(u16, Row)], wanted: &Wanted<'_>) -> Table<8> {
    let mut table = Table::new(&CONVERSATIONS);
    for (_, row) in rows {
        for one in row.conversations.iter().filter(|one| wanted.has_end(row, one.local)) {
            let service = match one.service.port() {
                Some((space, port)) => format!("{space:?}:{port}").to_lowercase(),
                None => format!("{:#018x}", one.service.0),
            };
            let address = |gid: Gid| (gid != Gid::default()).then(|| gid.to_string());
            let (role, state) = match one.state {
                None => ("listener", "listen"),
                Some(state) if one.active => ("active", state.name()),
                Some(state) => ("passive", state.name()),
            };
            let local = address(one.local).unwrap_or_else(|| "all".into());
            let id = one.state.map(|_| format!("{:#010x}", one.id.0));
            table.push([
                u64::from(row.pid).into(),
                row.program.clone().into(),
                service.into(),
                state.into(),
                role.into(),
                local.into(),
                address(one.peer).into(),
                id.into(),
            ]);
        }
    }
    table
}

type Order = (IpAddr, u16, u8);

/// A row for each address of each member.
fn members(rows: &[(u16, Row)], wanted: &Wanted<'_>) -> Vec<(Order, [Value; 16])> {
    let mut table = Vec::new();
    for (port, row) in rows {
        for place in row.places.iter().filter(|place| wanted.has(place.ip)) {
            let status = row.status.as_ref();
            table.push((
                (place.ip, *port, row.slot),
                [
                    place.ip.to_string().into(),
                    u64::from(*port).into(),
                    u64::from(row.slot).into(),
                    u64::from(row.pid).into(),
                    u64::from(row.uid).into(),
                    row.program.clone().into(),
                    row.device.clone().into(),
                    status.map(|status| status.queue_pairs).into(),
                    status.map(|status| status.regions).into(),
                    status.map(|status| status.sent).into(),
                    status.map(|status| status.received).into(),
                    status.map(|status| status.sent_bytes).into(),
                    status.map(|status| status.received_bytes).into(),
                    status.map(|status| status.dropped).into(),
                    status.map(|status| status.listeners).into(),
                    status.map(|status| status.connections).into(),
                ],
            ));
        }
    }
    table
}

fn count(n: usize) -> Value {
    u64::try_from(n).unwrap_or(u64::MAX).into()
}
