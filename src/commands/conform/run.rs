//! Running cases.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use softrnic_conformance::deviation::Deviations;
use softrnic_conformance::program::Remote;
use softrnic_conformance::report::{Report, html, junit, table};
use softrnic_conformance::rules;
use softrnic_conformance::runner::{self, Options};
use softrnic_conformance::world::{Emulated, Hardware, Peer, Simulated, World};
use softrnic_verbs::provider::Provider;

use super::progress::Meter;
use super::{On, RunArgs};
use crate::cli::Shared;
use crate::device::not_one;
use crate::error::Failure;
use crate::hardware;
use crate::units::Address;

/// Failures whose packets are shown at the terminal; the page shows all.
const LADDERS_MAX: usize = 5;

pub(super) fn run(args: &RunArgs, shared: &Shared) -> Result<(), Failure> {
    let worlds = worlds(args, shared)?;
    let several = worlds.len() > 1;
    let mut failed = 0;
    for (tag, world, name) in worlds {
        let deviations = deviations(args, name.as_deref())?;
        let report = judge(args, world, &deviations)?;
        let tag = several.then_some(tag);
        write_files(args, &report, tag)?;
        let mut out = io::stdout().lock();
        if shared.json {
            writeln!(out, "{}", report.to_json())?;
        } else {
            print(&report, &mut out)?;
        }
        out.flush()?;
        failed += report.results.iter().filter(|result| result.status.is_failure()).count();
    }
    if failed == 0 {
        return Ok(());
    }
    Err(Failure::plain(format!("{failed} cases did not go as they should")))
}

/// What is to be judged: a tag for file names, the world, and the name of its deviations.
type Judged = (&'static str, Box<dyn World>, Option<String>);

fn worlds(args: &RunArgs, shared: &Shared) -> Result<Vec<Judged>, Failure> {
    let profile = shared.profile.model();
    if let Some(helper) = args.peer {
        let address = match &shared.address {
            None => None,
            Some(Address::Ips(ips)) => ips.first().copied(),
            Some(several @ Address::Several(_)) => return Err(not_one(several)),
            Some(Address::Interface(_)) => {
                return Err(Failure::usage(
                    "--address: packets to a peer are sent from an IP address",
                    "name one of this host's addresses",
                ));
            }
        };
        // A helper that is not there is no fault of the device.
        Remote::connect(helper).map_err(|error| {
            Failure::failed(
                format!("--peer: nobody answers at {helper}: {error}"),
                "start `softrnic conform serve` on that host",
            )
        })?;
        let peer = Peer { address, ..Peer::new(helper) };
        return Ok(vec![("peer", Box::new(peer), None)]);
    }
    if let Some(provider) = hardware_of(shared)? {
        return Ok(vec![real(provider, shared)?]);
    }
    let all = [On::Simulated, On::Emulated];
    let wanted = if args.on.is_empty() { &all[..] } else { &args.on };
    let world = |on: &On| -> Judged {
        let name = Some(profile.name.to_owned());
        match on {
            On::Simulated => ("simulated", Box::new(Simulated { profile }), name),
            On::Emulated => ("emulated", Box::new(Emulated { profile }), name),
        }
    };
    Ok(wanted.iter().map(world).collect())
}

/// The real devices, if the command line asks for them: a judge that nobody told takes its own devices.
fn hardware_of(shared: &Shared) -> Result<Option<Arc<dyn Provider>>, Failure> {
    match shared.backend() {
        softrnic_verbs::Backend::Hardware => hardware::chosen(shared),
        softrnic_verbs::Backend::Auto | softrnic_verbs::Backend::Emulated => Ok(None),
    }
}

/// A real device that talks to itself.
fn real(provider: Arc<dyn Provider>, shared: &Shared) -> Result<Judged, Failure> {
    let context = hardware::open(&*provider, shared.address.as_ref(), None)?;
    let device = context.verbs().device().name.clone();
    let declared = declared_of(&device).map(str::to_owned);
    let name = device.clone();
    let open = Box::new(move |_: usize| provider.open(&name));
    Ok(("hardware", Box::new(Hardware { device, open }), declared))
}

/// The deviations that come with the judge for a driver, which names its devices.
fn declared_of(device: &str) -> Option<&'static str> {
    device.starts_with("rxe").then_some("rxe-6.1")
}

/// What is declared: of the profile, or what the command line names.
fn deviations(args: &RunArgs, profile: Option<&str>) -> Result<Deviations, Failure> {
    let Some(named) = args.deviations.as_deref().or(profile) else {
        return Ok(Deviations::default());
    };
    let wrong = |why: &dyn std::fmt::Display| {
        Failure::usage(format!("--deviations {named}: {why}"), "see docs/guides/conform.md")
    };
    if Path::new(named).extension().is_some() {
        let text = fs::read_to_string(named).map_err(|error| wrong(&error))?;
        return Deviations::parse(&text).map_err(|error| wrong(&error));
    }
    Deviations::of(named).map_err(|error| wrong(&error))
}

fn judge(
    args: &RunArgs,
    world: Box<dyn World>,
    deviations: &Deviations,
) -> Result<Report, Failure> {
    let cases = args.selection.cases()?;
    let jobs = args.jobs.map_or_else(default_jobs, usize::from);
    // A device on the network is one: its cases come one after the other.
    let jobs = if args.peer.is_some() || world.profile().is_none() { 1 } else { jobs };
    let options = Options { limit: args.limit, jobs };
    let mut meter = Meter::new(&world.name());
    let report = runner::run(cases, world, deviations, &options, &mut |progress| {
        meter.show(progress);
    });
    meter.finish();
    Ok(report)
}

fn default_jobs() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(8))
}

/// Writes the files that were asked for. With several worlds, each has a name of its own.
fn write_files(args: &RunArgs, report: &Report, tag: Option<&str>) -> Result<(), Failure> {
    let write = |file: &Option<PathBuf>, text: &dyn Fn() -> Result<String, Failure>| {
        let Some(file) = file else { return Ok(()) };
        let file = tag.map_or_else(|| file.clone(), |tag| tagged(file, tag));
        fs::write(&file, text()?).map_err(|error| cannot_write(&file, &error))?;
        eprintln!("wrote {}", file.display());
        Ok(())
    };
    write(&args.junit, &|| Ok(junit(report)))?;
    write(&args.results, &|| Ok(report.to_json() + "\n"))?;
    write(&args.html, &|| {
        let rules = rules::all().map_err(|error| Failure::plain(error.to_string()))?;
        Ok(html(report, rules))
    })
}

/// `a.json` and `emulated` give `a-emulated.json`.
fn tagged(file: &Path, tag: &str) -> PathBuf {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let name = match file.extension() {
        Some(extension) => format!("{stem}-{tag}.{}", extension.to_string_lossy()),
        None => format!("{stem}-{tag}"),
    };
    file.with_file_name(name)
}

fn cannot_write(file: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("{} cannot be written: {error}", file.display()), "name another file")
}

fn print(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let (seconds, milliseconds) = (report.took_ms / 1000, report.took_ms % 1000);
    writeln!(out, "{}, {seconds}.{milliseconds:03} s\n", report.device)?;
    writeln!(out, "{}", table(report))?;
    let mut ladders = 0;
    for result in report.results.iter().filter(|result| result.status.is_failure()) {
        writeln!(out, "\n{} {}: {}", result.status, result.name, result.message)?;
        if !result.ladder.is_empty() && ladders < LADDERS_MAX {
            ladders += 1;
            result.ladder.iter().try_for_each(|rung| writeln!(out, "{rung}"))?;
        }
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_several_worlds_have_names_of_their_own() {
        assert_eq!(tagged(Path::new("x/a.json"), "peer"), Path::new("x/a-peer.json"));
        assert_eq!(tagged(Path::new("a"), "peer"), Path::new("a-peer"));
    }
}
