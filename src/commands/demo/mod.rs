//! `softrnic demo`: a tour of the device for somebody who has never seen one.
//!
//! [`script`] is the list of rows. The first process ([`requester`]) plays each with the second one
//! ([`responder`]), which is this program started again, over real UDP. What must come of a row
//! follows from the script, the profile and [`image`], a prediction of the memory of both ends; what
//! did come of it is read from completions, events, queue pair states and memory, and [`judge`]
//! compares the two.

mod image;
mod judge;
mod requester;
mod responder;
mod script;
mod talk;

use std::net::IpAddr;
use std::time::{Duration, Instant};

use clap::Args;
use softrnic_model::wire::Route;
use softrnic_verbs::{Context, QpCapabilities};

use crate::child::Second;
use crate::cli::Shared;
use crate::device::Settings;
use crate::error::Failure;
use crate::exchange::{Exchange, Hello, Listener, Purpose};
use crate::output::{Column, Report, Table, Value};
use crate::units::{self, Address};
use crate::words;
use requester::{Played, Requester};
use script::{ACTS, Act, Outcome};
use talk::Ask;

pub(crate) use responder::{PeerArgs, run as run_peer};

/// The hidden command that the second process is started with.
pub(crate) const PEER_COMMAND: &str = "demo-peer";

/// How long the second process may take to begin, and to end.
const SECOND_WITHIN: Duration = Duration::from_secs(20);
/// How often a row is played where fault rules are at work: an unreliable service may lose any
/// message, and a reliable one the word of a refusal.
const TRIES_IN_BAD_WEATHER: usize = 50;
/// When rows are no longer played again: weather in which nothing arrives must not last for hours.
const TRIES_END_AFTER: Duration = Duration::from_secs(30);
/// The Q_Key of datagrams.
const QKEY: u32 = 0x1111_1111;

const AFTER_HELP: &str = "\
Examples:
  softrnic demo                              the tour
  softrnic demo --capture tour.pcapng        the same, and every frame for Wireshark
  softrnic demo --trace                      the same, and a line for every frame
  softrnic demo --faults drop=2%,seed=7      the same in bad weather
  softrnic demo -d ::1 --peer-address fd00::1    with two addresses of your own

A row that is not as it must be makes the command fail. Of UC and UD the time is that until the
message has left, of RC that until the peer has answered.";

/// Take a tour: two processes, every kind of operation, and every refusal
///
/// Starts a second process on this host, connects queue pairs of the two, and shows each operation
/// of each service at work; then what the protection refuses, and how both ends learn of it. Data,
/// status, events and states are checked at both ends. Nothing has to be prepared.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DemoArgs {
    /// IP address of the second device, or the interface to take it from
    #[arg(long, value_name = "IP|INTERFACE", value_parser = units::address)]
    peer_address: Option<Address>,
}

const COLUMNS: [Column; 7] = [
    Column { key: "operation", title: "operation" },
    Column { key: "service", title: "service" },
    Column { key: "bytes", title: "#bytes" },
    Column { key: "requester", title: "requester" },
    Column { key: "responder", title: "responder" },
    Column { key: "checked", title: "checked" },
    Column { key: "median_us", title: "median [us]" },
];

/// The tour.
pub(crate) fn run(args: &DemoArgs, shared: &Shared) -> Result<(), Failure> {
    if shared.backend() == softrnic_verbs::Backend::Hardware {
        return Err(Failure::usage(
            "--backend hardware: the tour is of the emulated device",
            "`softrnic conform --backend hardware` judges a real one",
        ));
    }
    let settings = Settings::emulated(shared);
    let context = match &shared.address {
        Some(address) => settings.open(address)?,
        None => settings.open_anywhere()?,
    };
    if let Some(address) = &args.peer_address {
        // A mistake in it is told here, where it was made. The second process opens it for itself.
        Settings::quiet(shared).open(address)?;
    }
    let (second, exchange, peer_gid) = start_second(args, shared)?;
    one_ip_version(&context.first_gid()?.1.to_string(), &peer_gid)?;
    let mut requester = Requester {
        pd: context.alloc_pd()?,
        context,
        exchange,
        profile: shared.profile.model(),
        bad_weather: shared.faults.is_some(),
    };
    let (table, wrong, grh) = play_all(&mut requester)?;
    requester.exchange.tell(&Ask::End)?;
    second.finish(SECOND_WITHIN)?;

    let mut report = Report::new("demo")
        .fact("requester", "requester", requester.context.first_gid()?.1.to_string())
        .fact("responder", "responder", peer_gid)
        .fact("profile", "profile", requester.profile.name)
        .fact("udp_port", "UDP port", u64::from(softrnic_model::wire::ROCE_PORT));
    for (key, title) in COUNTED {
        report = report.fact(key, title, counter(&requester.context, key)?);
    }
    let mut report = report.table("acts", table);
    if let Some(Route { src, dst, hop_limit, .. }) = grh {
        report.note(format!(
            "The GRH before a datagram on UD says: from {src} to {dst}, hop limit {hop_limit}."
        ));
    }
    report.note(match wrong.len() {
        0 => format!("All {} rows are as they must be.", ACTS.len()),
        some => format!("{some} of {} rows are not as they must be.", ACTS.len()),
    });
    report.print(shared.json)?;
    if wrong.is_empty() { Ok(()) } else { Err(Failure::plain(wrong.join("\n  "))) }
}

/// Counters of the requester's device that the tour shows.
const COUNTED: [(&str, &str); 3] = [
    ("sent_pkts", "packets sent"),
    ("rcvd_pkts", "packets received"),
    ("completer_retry_err", "retries"),
];

fn counter(context: &Context, name: &str) -> Result<Option<u64>, Failure> {
    let counters = context.counters()?;
    Ok(counters.into_iter().find(|counter| counter.name == name).map(|counter| counter.value))
}

/// Queue pairs connect addresses of one IP version only.
fn one_ip_version(ours: &str, theirs: &str) -> Result<(), Failure> {
    let is_v4 = |gid: &str| gid.parse().map(|ip: IpAddr| ip.is_ipv4());
    if is_v4(ours) == is_v4(theirs) {
        return Ok(());
    }
    Err(Failure::usage(
        format!("{ours} and {theirs}, of the two devices, are not of one IP version"),
        "name two addresses of this host with --address and --peer-address",
    ))
}

/// Starts the second process and meets it.
fn start_second(args: &DemoArgs, shared: &Shared) -> Result<(Second, Exchange, String), Failure> {
    let listener = Listener::bind_local()?;
    let mut arguments = vec![PEER_COMMAND.into(), "--meet".into(), listener.port().to_string()];
    arguments.extend(["--profile".into(), shared.profile.model().name.to_string()]);
    if let Some(address) = &args.peer_address {
        arguments.extend(["--address".into(), address.to_string()]);
    }
    let second = Second::start(arguments)?;
    let mut exchange = listener.accept(Some(SECOND_WITHIN))?;
    exchange.introduce(&hello(shared))?;
    let gid = exchange.hear_told(SECOND_WITHIN)?;
    Ok((second, exchange, gid))
}

/// How the two introduce themselves: what they talk about comes row by row.
fn hello(shared: &Shared) -> Hello {
    let profile = shared.profile.model().name.into();
    Hello {
        purpose: Purpose::Demo,
        settings: crate::exchange::Settings::from_pairs([("--profile", profile)]),
        queue_pairs: Vec::new(),
        regions: Vec::new(),
    }
}

/// Sizes of all queues: a row has few requests under way.
const fn capabilities() -> QpCapabilities {
    QpCapabilities {
        max_send_wr: 16,
        max_recv_wr: 16,
        max_send_sge: 1,
        max_recv_sge: 1,
        max_inline_data: 0,
    }
}

type Rows = (Table<7>, Vec<String>, Option<Route>);

/// Plays every row: the table, what is wrong in it, and the header in front of a datagram.
fn play_all(requester: &mut Requester) -> Result<Rows, Failure> {
    let mut table = Table::new(&COLUMNS);
    let (mut wrong, mut grh) = (Vec::new(), None);
    let tries_end = Instant::now() + TRIES_END_AFTER;
    for (index, act) in ACTS.iter().enumerate() {
        let (played, tries) = play_until_done(requester, index, act, tries_end)?;
        let service = words::service(act.service);
        let checked = match (&played.wrong, tries) {
            (Some(_), _) => "NO".to_string(),
            (None, 1) => checked(act).into(),
            (None, tries) => format!("{}; try {tries}", checked(act)),
        };
        grh = grh.or(played.grh);
        table.push([
            act.name.into(),
            service.into(),
            u64::from(act.bytes).into(),
            played.requester.into(),
            played.responder.into(),
            checked.into(),
            Value::Number(played.median_us),
        ]);
        wrong.extend(played.wrong.map(|why| format!("{} on {service}: {why}", act.name)));
    }
    Ok((table, wrong, grh))
}

fn play_until_done(
    requester: &mut Requester,
    index: usize,
    act: &'static Act,
    tries_end: Instant,
) -> Result<(Played, usize), Failure> {
    let tries_max = if requester.bad_weather { TRIES_IN_BAD_WEATHER } else { 1 };
    let mut tries = 1;
    loop {
        let played = requester.play(index, act)?;
        if played.wrong.is_none() || tries == tries_max || Instant::now() >= tries_end {
            return Ok((played, tries));
        }
        tries += 1;
    }
}

/// What was compared, in a few words.
const fn checked(act: &Act) -> &'static str {
    match act.outcome {
        Outcome::Done => "every byte",
        Outcome::ReceiveTooSmall => "no byte beyond",
        Outcome::AccessRefused | Outcome::RequestRefused => "memory untouched",
    }
}
