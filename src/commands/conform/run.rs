//! Running cases.

use std::io::Write;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use softrnic_conformance::cases;
use softrnic_conformance::deviation::{Deviation, Deviations};
use softrnic_conformance::program::Remote;
use softrnic_conformance::report::{
    CaseResult, Document, Report, Status, html, junit, reasons, table,
};
use softrnic_conformance::rules;
use softrnic_conformance::runner::{self, Options};
use softrnic_conformance::world::{Emulated, Hardware, Peer, Simulated, World};
use softrnic_verbs::provider::Provider;

use super::{On, RunArgs};
use crate::cli::Shared;
use crate::device::not_one;
use crate::error::Failure;
use crate::meter::Meter;
use crate::units::Address;
use crate::{files, hardware};

/// Failures whose packets are shown at the terminal; the page shows all.
const LADDERS_MAX: usize = 5;
/// Rungs of a ladder that are shown at the terminal: so many of the beginning, and of the end.
const RUNGS: (usize, usize) = (12, 8);
/// Cases that are not judged, or judged otherwise, are told of by so many reasons at the terminal.
const REASONS_MAX: usize = 40;

pub(super) fn run(args: &RunArgs, shared: &Shared) -> Result<(), Failure> {
    judge_files(args)?;
    let worlds = worlds(args, shared)?;
    let several = worlds.len() > 1;
    let mut reports = Vec::new();
    for (tag, world, name) in worlds {
        let deviations = deviations(args, name.as_deref())?;
        let report = judge(args, world, &deviations)?;
        let tag = several.then_some(tag);
        write_files(args, &report, tag)?;
        if !shared.json {
            let mut out = io::stdout().lock();
            print(&report, &mut out)?;
            out.flush()?;
        }
        reports.push(report);
    }
    let results = reports.iter().flat_map(|report| &report.results);
    let failed = results.filter(|result| result.status.is_failure()).count();
    if shared.json {
        let mut out = io::stdout().lock();
        writeln!(out, "{}", document(reports).to_text())?;
        out.flush()?;
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
        let remote = Remote::connect(helper).map_err(|error| {
            Failure::failed(
                format!("--peer: nobody answers at {helper}: {error}"),
                "start `softrnic conform serve` on that host",
            )
        })?;
        let peer = Peer { address, ..Peer::new(helper) };
        // Nor is an address of this host that packets cannot be sent from.
        if let Some(own) = address.or_else(|| remote.local_ip().ok()) {
            UdpSocket::bind((own, peer.port)).map_err(|error| {
                Failure::failed(
                    format!("packets cannot be sent from {own}, UDP port {}: {error}", peer.port),
                    "name an address of this host that no device has (--address)",
                )
            })?;
        }
        return Ok(vec![("peer", Box::new(peer), None)]);
    }
    if let Some(provider) = hardware_of(shared)? {
        return Ok(vec![real(provider, shared)?]);
    }
    shared.without_device("conform, without --peer and --backend hardware,")?;
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
    let known = Deviations::names().any(|name| name == named);
    if !known && Path::new(named).extension().is_some() {
        let text = files::read_text(Path::new(named)).map_err(|error| wrong(&error))?;
        let read = Deviations::parse(&text).map_err(|error| wrong(&error))?;
        let cases = cases::all();
        let unknown = |one: &&Deviation| !cases.iter().any(|case| one.concerns(&case.name()));
        return match read.list.iter().find(unknown) {
            None => Ok(read),
            Some(one) => {
                Err(wrong(&format!("no case is called as is declared: {}", one.difference)))
            }
        };
    }
    // A profile without a file has no deviations; what the command line names must be there.
    if args.deviations.is_some() && !known {
        let names = Deviations::names().collect::<Vec<_>>().join(", ");
        return Err(wrong(&format!("it is neither a file (NAME.toml) nor one of {names}")));
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
    let mut meter = Meter::new(&world.name(), "cases");
    let report = runner::run(cases, world, deviations, &options, &mut |progress| {
        meter.show(progress.done, progress.total, &progress.last.name);
    });
    meter.finish();
    Ok(report)
}

fn default_jobs() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(8))
}

/// Two kinds of file in one would be one of them.
fn judge_files(args: &RunArgs) -> Result<(), Failure> {
    let files = [&args.results, &args.junit, &args.html];
    let mut given: Vec<_> = files.into_iter().flatten().collect();
    given.sort();
    match given.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(()),
        Some(pair) => Err(Failure::usage(
            format!("{} is named for two kinds of result", pair[0].display()),
            "give each a file of its own",
        )),
    }
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
    write(&args.results, &|| Ok(document(vec![report.clone()]).to_text() + "\n"))?;
    write(&args.html, &|| {
        let rules = rules::all().map_err(|error| Failure::plain(error.to_string()))?;
        Ok(html(report, rules, &signature()))
    })
}

/// The commit that this program was built from, if that was known then.
const COMMIT: Option<&str> = option_env!("SOFTRNIC_COMMIT");

fn document(runs: Vec<Report>) -> Document {
    Document::new(COMMIT.map(str::to_owned), today(), runs)
}

/// Which program has judged, and when.
fn signature() -> String {
    let commit = COMMIT.map_or_else(String::new, |commit| format!(" ({commit:.12})"));
    format!("softrnic {}{commit}, {},", env!("CARGO_PKG_VERSION"), today())
}

/// UTC, as RFC 3339 writes it.
fn today() -> String {
    humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string()
}

/// `a.json` and `emulated` give `a-emulated.json`.
fn tagged(file: &Path, tag: &str) -> PathBuf {
    if fs::metadata(file).is_ok_and(|known| !known.is_file()) {
        // A device or a pipe takes all of them, and has no other names.
        return file.to_path_buf();
    }
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
    print_reasons(report, out)?;
    let mut ladders = 0;
    for result in report.results.iter().filter(|result| result.status.is_failure()) {
        writeln!(out, "\n{} {}: {}", result.status, result.name, result.message)?;
        print_contrast(result, out)?;
        if !result.ladder.is_empty() && ladders < LADDERS_MAX {
            ladders += 1;
            print_ladder(result, out)?;
        }
    }
    writeln!(out)
}

/// Why cases were not judged, or may differ.
fn print_reasons(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let reasons = reasons(report);
    if !reasons.is_empty() {
        writeln!(out)?;
    }
    for reason in reasons.iter().take(REASONS_MAX) {
        let (kind, cases, text) = (reason.kind(), reason.cases, &reason.text);
        writeln!(out, "{kind:>9} {cases:>5} x  {text}")?;
    }
    match reasons.len().checked_sub(REASONS_MAX) {
        None | Some(0) => Ok(()),
        Some(more) => writeln!(out, "{more:>17} more reasons: --html tells all"),
    }
}

/// What should have happened, and what did.
fn print_contrast(result: &CaseResult, out: &mut dyn Write) -> io::Result<()> {
    if let Ok(rules) = rules::all()
        && let Some(rule) = rules.get(&result.rule)
        && result.status == Status::Fail
    {
        writeln!(out, "      rule  {}", rule.text)?;
    }
    for (what, text) in [("expected", &result.expected), ("got", &result.got)] {
        if let Some(text) = text {
            writeln!(out, "{what:>10}  {text}")?;
        }
    }
    Ok(())
}

/// The beginning and the end of what happened.
fn print_ladder(result: &CaseResult, out: &mut dyn Write) -> io::Result<()> {
    let (first, last) = RUNGS;
    let ladder = &result.ladder;
    if ladder.len() <= first + last {
        return ladder.iter().try_for_each(|rung| writeln!(out, "{rung}"));
    }
    let end = ladder.len() - last;
    ladder[..first].iter().try_for_each(|rung| writeln!(out, "{rung}"))?;
    writeln!(out, "{:>24}  .. {} more: --html shows all ..", "", end - first)?;
    ladder[end..].iter().try_for_each(|rung| writeln!(out, "{rung}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_several_worlds_have_names_of_their_own() {
        assert_eq!(tagged(Path::new("x/a.json"), "peer"), Path::new("x/a-peer.json"));
        assert_eq!(tagged(Path::new("a"), "peer"), Path::new("a-peer"));
        #[cfg(unix)]
        assert_eq!(tagged(Path::new("/dev/null"), "peer"), Path::new("/dev/null"));
    }
}
