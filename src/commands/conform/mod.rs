//! `softrnic conform`: judges a device.

mod compare;
mod list;
mod run;
mod serve;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use softrnic_conformance::case::Case;
use softrnic_conformance::cases;
use softrnic_conformance::deviation::matches;

use crate::cli::Shared;
use crate::error::Failure;
use crate::units;

const AFTER_HELP: &str = "\
Examples:
  softrnic conform                                   all cases, simulated and over UDP
  softrnic conform --filter rc-responder --filter rnr/wait
  softrnic conform --profile rxe --html rxe.html     one page: rules, cases, verdicts, packet ladders
  softrnic conform --results a.json --junit a.xml    for programs
  softrnic conform compare a.json b.json             what two devices do differently
  softrnic conform list --filter uc                  names of cases, with their rules' texts
  softrnic conform --backend hardware -d rxe0        a real device of this host, over the verbs
  softrnic conform serve -d 10.0.0.2                 on the host of a device to judge ...
  softrnic conform --peer 10.0.0.2                   ... and here: judged from the wire

Exit code 1 when a case fails, or a declared deviation does not happen any more.
docs/guides/conform.md says how to write a case and how to declare a deviation.";

/// Judge a device by the rules of docs/spec: 1,800 cases, over the verbs and from the wire
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct ConformArgs {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    run: RunArgs,
}

/// What else there is to do.
#[derive(Debug, Subcommand)]
enum Action {
    List(ListArgs),
    Compare(CompareArgs),
    Serve(ServeArgs),
}

/// List cases and rules without running anything
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  softrnic conform list                     every case with the texts of its rules
  softrnic conform list --filter rnr        those of one family")]
struct ListArgs {
    #[command(flatten)]
    selection: Selection,
}

/// Show what devices do differently, from files of --results or the output of --json conform
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  softrnic conform --results a.json                       one device ...
  softrnic conform --profile rxe --results b.json         ... another one ...
  softrnic conform compare a.json b.json                  ... and where they differ")]
struct CompareArgs {
    /// Result files; one may hold several runs
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// Open queue pairs and regions for whoever judges this host's device from the wire
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  softrnic conform serve -d 10.0.0.2                      an emulated device
  softrnic conform serve --backend hardware -d rxe0       a real one
  softrnic conform --peer 10.0.0.2                        on the host that judges")]
struct ServeArgs {
    /// TCP port to listen on
    #[arg(long, value_name = "PORT", default_value_t = softrnic_conformance::program::serve::PORT)]
    listen: u16,

    /// Address to listen on; every address of this host unless told
    #[arg(long, value_name = "IP", default_value = "0.0.0.0")]
    bind: IpAddr,
}

/// Which cases.
#[derive(Args, Debug)]
struct Selection {
    /// Only cases of this family, rule or name, or that begin so (with * at the end); may be repeated
    #[arg(long, short, value_name = "PATTERN")]
    filter: Vec<String>,
}

#[derive(Args, Debug)]
struct RunArgs {
    #[command(flatten)]
    selection: Selection,

    /// What to judge; may be repeated [default: simulated and emulated]
    #[arg(long, value_enum, value_name = "WORLD")]
    on: Vec<On>,

    /// Judge the device on the network whose helper (`conform serve`) is there
    #[arg(
        long, value_name = "IP[:PORT]", value_parser = helper, conflicts_with = "on"
    )]
    peer: Option<std::net::SocketAddr>,

    /// Deviations that are declared of the device: a file, or one of the names that come with the judge
    ///
    /// Those of the profile count without being named.
    #[arg(long, value_name = "FILE|NAME")]
    deviations: Option<String>,

    /// Write JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// Write the results as JSON, for `conform compare`
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,

    /// Write one page with everything
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// The most that one case may take
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = units::duration)]
    limit: Duration,

    /// Cases that run at a time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: Option<u16>,
}

/// Where devices come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum On {
    /// Simulated devices of this process, under virtual time
    Simulated,
    /// Emulated devices of this process, over UDP on the loopback interface
    Emulated,
}

/// Carries out the command.
pub(crate) fn run(args: &ConformArgs, shared: &Shared) -> Result<(), Failure> {
    match &args.action {
        None => run::run(&args.run, shared),
        Some(Action::List(args)) => list::run(args, shared),
        Some(Action::Compare(args)) => compare::run(args, shared),
        Some(Action::Serve(args)) => serve::run(args, shared),
    }
}

impl Selection {
    /// The cases that are wanted, in order.
    fn cases(&self) -> Result<Vec<Case>, Failure> {
        let mut cases = cases::all();
        if self.filter.is_empty() {
            return Ok(cases);
        }
        if let Some(nothing) = self
            .filter
            .iter()
            .find(|pattern| !cases.iter().any(|case| matches(pattern, &case.name())))
        {
            return Err(Failure::usage(
                format!("--filter: no case is named {nothing}"),
                "`softrnic conform list` names all; an asterisk at the end stands for the rest",
            ));
        }
        cases.retain(|case| self.filter.iter().any(|pattern| matches(pattern, &case.name())));
        Ok(cases)
    }
}

/// Where a helper listens.
fn helper(text: &str) -> Result<std::net::SocketAddr, String> {
    if let Ok(address) = text.parse::<std::net::SocketAddr>() {
        return Ok(address);
    }
    let port = softrnic_conformance::program::serve::PORT;
    let ip = text.parse::<IpAddr>();
    ip.map(|ip| (ip, port).into()).map_err(|_| "it must be an IP address, or IP:PORT".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helpers_have_a_usual_port() {
        assert_eq!(helper("10.0.0.2").map(|at| at.to_string()), Ok("10.0.0.2:18516".into()));
        assert_eq!(helper("[fd00::1]:7").map(|at| at.port()), Ok(7));
        assert!(helper("host").is_err());
    }
}
