//! `softrnic swarm`: drawn traffic under drawn weather, held against the reference model.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use softrnic_conformance::swarm::{self, Failure as Fault, Plan, Schedule, Step};

use crate::cli::Shared;
use crate::error::Failure;
use crate::output::{Column, Report, Table};

const AFTER_HELP: &str = "\
Examples:
  softrnic swarm                             runs of all kinds for a minute, from a seed of the clock
  softrnic swarm --seed 7 --minutes 10       from seed 7 on: the same runs each time
  softrnic swarm --seed 7 --runs 1           one run; prints its event hash
  softrnic swarm --schedule swarm-7.json     again what failed before; --trace shows the packets too
  softrnic swarm --speed                     packets a second, and 1,000 hosts with 100 queue pairs each

Everything happens in this process, in virtual time. Run number i has seed SEED + i; the same seed and
hosts give the same event hash. When a run fails, the shortest schedule that still does is written
into swarm-SEED.json.";

/// Simulate drawn traffic under drawn weather and compare everything with a reference model
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct SwarmArgs {
    /// Seed of the first run [without it: from the clock]
    #[arg(long)]
    seed: Option<u64>,

    /// Go on for so long
    #[arg(long, value_name = "MINUTES", default_value_t = 1.0, value_parser = minutes)]
    minutes: f64,

    /// End after so many runs at the latest
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    runs: Option<u64>,

    /// Hosts of each run
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    hosts: u32,

    /// Steps of each run
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,

    /// Run a schedule that was written before, and say what it does
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "runs", "hosts", "steps"])]
    schedule: Option<PathBuf>,

    /// Measure instead: packets a second with the reference model, and the memory of many hosts
    #[arg(long, conflicts_with_all = ["seed", "runs", "hosts", "steps", "schedule"])]
    speed: bool,
}

fn minutes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(minutes) if minutes.is_finite() && (0.0..=1e6).contains(&minutes) => Ok(minutes),
        Ok(_) | Err(_) => Err("not a number of minutes between 0 and 1000000".into()),
    }
}

const RUNS: [Column; 7] = [
    Column { key: "seed", title: "seed" },
    Column { key: "connections", title: "connections" },
    Column { key: "requests", title: "requests" },
    Column { key: "packets", title: "packets" },
    Column { key: "renewed", title: "renewed" },
    Column { key: "virtual_ms", title: "virtual ms" },
    Column { key: "event_hash", title: "event hash" },
];

const FIGURES: [Column; 4] = [
    Column { key: "figure", title: "figure" },
    Column { key: "value", title: "value" },
    Column { key: "unit", title: "unit" },
    Column { key: "bar", title: "bar" },
];

/// Runs, or measures.
pub(crate) fn run(args: &SwarmArgs, shared: &Shared) -> Result<(), Failure> {
    shared.without_device("swarm")?;
    // A panic of the device is a finding, and told as one.
    std::panic::set_hook(Box::new(|_| ()));
    if args.speed {
        return measure(shared);
    }
    if let Some(path) = &args.schedule {
        return again(path, shared.trace);
    }
    let first = args.seed.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(0, |now| now.as_secs())
    });
    let started = Instant::now();
    let within = Duration::from_secs_f64(args.minutes * 60.0);
    let mut table = Table::new(&RUNS);
    let (mut seed, mut packets) = (first, 0);
    loop {
        let plan = Plan::drawn(seed, args.hosts);
        let steps: Vec<Step> = Step::drawn(&plan).take(args.steps as usize).collect();
        let outcome = match swarm::run(&plan, &steps) {
            Ok(outcome) => outcome,
            Err(fault) => return Err(found(Schedule { plan, steps }, fault)),
        };
        packets += outcome.packets;
        let hash = format!("{:#018x}", outcome.event_hash);
        if !shared.json {
            eprintln!("seed {seed}: {} packets, event hash {hash}", outcome.packets);
        }
        table.push([
            seed.into(),
            u64::from(plan.connections).into(),
            outcome.requests.into(),
            outcome.packets.into(),
            outcome.renewed.into(),
            (outcome.time.as_secs_f64() * 1e3).into(),
            hash.into(),
        ]);
        seed += 1;
        let enough = args.runs.is_some_and(|runs| seed - first >= runs);
        if enough || started.elapsed() >= within {
            break;
        }
    }
    let took = started.elapsed().as_secs_f64();
    let mut report = Report::new("swarm").table("runs", table);
    let runs = seed - first;
    report.note(format!(
        "{runs} runs, {packets} packets in {took:.1} s: every byte, completion, key and counter is right"
    ));
    Ok(report.print(shared.json)?)
}

/// A run has failed: the shortest schedule that does too is written into a file.
fn found(schedule: Schedule, fault: Fault) -> Failure {
    let (seed, length) = (schedule.plan.seed, schedule.steps.len());
    eprintln!("seed {seed} fails: {fault}");
    eprintln!("looking for a shorter schedule that fails too, for a minute at most ...");
    let (shortest, fault) = swarm::shrink(schedule, fault, Duration::from_secs(60));
    let (_, words) = swarm::run_told(&shortest.plan, &shortest.steps, false);
    words.iter().for_each(|line| eprintln!("{line}"));
    let path = PathBuf::from(format!("swarm-{seed}.json"));
    let written = shortest.to_text().map_err(std::io::Error::other);
    let written = written.and_then(|text| std::fs::write(&path, text));
    let what = format!(
        "seed {seed}: {fault}; the shortest schedule found has {} of {length} steps",
        shortest.steps.len()
    );
    match written {
        Ok(()) => {
            let again = format!("softrnic swarm --schedule {}", path.display());
            Failure::failed(what, format!("see it again with `{again}`"))
        }
        Err(error) => Failure::plain(format!("{what}; {} is not written: {error}", path.display())),
    }
}

fn again(path: &Path, packets: bool) -> Result<(), Failure> {
    let wrong = |reason: String| Failure::plain(format!("{}: {reason}", path.display()));
    let text = crate::files::read_text(path).map_err(|error| wrong(error.to_string()))?;
    let schedule = Schedule::parse(&text).map_err(wrong)?;
    let (outcome, words) = swarm::run_told(&schedule.plan, &schedule.steps, packets);
    let mut out = std::io::stdout().lock();
    words.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    match outcome {
        Ok(outcome) => {
            writeln!(out, "nothing is wrong; event hash {:#018x}", outcome.event_hash)?;
            Ok(out.flush()?)
        }
        Err(fault) => Err(wrong(fault.to_string())),
    }
}

/// Packets a second, and hosts in memory.
fn measure(shared: &Shared) -> Result<(), Failure> {
    let wrong = |error| Failure::plain(format!("the measurement failed: {error}"));
    let mut table = Table::new(&FIGURES);
    let before = on_cpu();
    let speed = swarm::speed(Duration::from_secs(10)).map_err(wrong)?;
    let on_cpu = on_cpu().and_then(|after| after.checked_sub(before?));
    let rates = [
        ("drawn runs of 4 hosts, reference model on, one thread", Some(speed.rate())),
        (
            "  by the time that the thread was on a core",
            on_cpu.map(|on_cpu| speed.packets as f64 / on_cpu.as_secs_f64()),
        ),
    ];
    for (what, rate) in rates {
        if let Some(rate) = rate {
            table.push([what.into(), rate.into(), "packets/s".into(), "at least 300000".into()]);
        }
    }
    let crowd = swarm::crowd(1000, 100).map_err(wrong)?;
    table.push([
        "1,000 hosts with 100 queue pairs each: packets".into(),
        crowd.packets.into(),
        "packets".into(),
        "".into(),
    ]);
    table.push(["  time".into(), (crowd.took.as_secs_f64()).into(), "s".into(), "".into()]);
    if let Some(kib) = peak_kib() {
        table.push([
            "  most memory of this process".into(),
            (kib as f64 / 1024.0).into(),
            "MiB".into(),
            "below 4096".into(),
        ]);
    }
    Ok(Report::new("swarm").table("speed", table).print(shared.json)?)
}

/// How long this thread has been on a core (`/proc/thread-self/schedstat`, first field): on a busy
/// machine that is less than what has gone by.
fn on_cpu() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// The most memory that this process has had (`VmHWM`, `proc_pid_status(5)`).
fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}
