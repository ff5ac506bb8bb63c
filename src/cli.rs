//! The command line as a whole: commands, the options that all of them share, and how a refusal by
//! the parser becomes an exit code.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use softrnic_transport::tap::FaultRules;

#[cfg(target_os = "linux")]
use crate::commands::run;
use crate::commands::{bench, conform, demo, devinfo, pingpong, stat};
use crate::error::Failure;
use crate::units::{self, Address};

/// Where `ibv_rc_pingpong` listens too.
pub(crate) const EXCHANGE_PORT: u16 = 18515;

const AFTER_HELP: &str = "\
Examples:
  softrnic demo                              a tour on this host, nothing to prepare
  softrnic devinfo -v                        what the device can do
  softrnic pingpong                          wait for a peer ...
  softrnic pingpong 10.0.0.2                 ... and be that peer
  softrnic bench write bw --local -a         bandwidth over all sizes, both ends on this host
  softrnic --json bench limits               what this machine allows at most
  softrnic swarm --seed 7                    everything at once in bad weather, against a reference
  softrnic run -- ib_write_bw                a verbs program, unchanged

Exit codes: 0 done, 1 failed, 2 the command line is wrong.
`softrnic help COMMAND` says more about each command.";

/// An RDMA NIC in software: real RoCEv2 over UDP, no kernel module, no root, no hardware.
#[derive(Debug, Parser)]
#[command(name = "softrnic", version, propagate_version = true, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) shared: Shared,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(demo::DemoArgs),
    /// The other process of the tour; started by `demo` only.
    #[command(name = demo::PEER_COMMAND, hide = true)]
    DemoPeer(demo::PeerArgs),
    Devinfo(devinfo::DevinfoArgs),
    Pingpong(pingpong::PingpongArgs),
    Bench(bench::BenchArgs),
    Conform(conform::ConformArgs),
    Stat(stat::StatArgs),
    Swarm(crate::commands::swarm::SwarmArgs),
    Replay(crate::commands::replay::ReplayArgs),
    #[cfg(target_os = "linux")]
    Run(run::RunArgs),
    #[cfg(target_os = "linux")]
    Env(run::EnvArgs),
    #[cfg(target_os = "linux")]
    Ps(crate::commands::ps::PsArgs),
    #[cfg(target_os = "linux")]
    Service(crate::commands::service::ServiceArgs),
    /// The other process of a measurement; started by `bench limits` only.
    #[cfg(target_os = "linux")]
    #[command(name = bench::limits::PEER_COMMAND, hide = true)]
    LimitsPeer(bench::limits::PeerArgs),
}

/// Options of every command.
#[derive(Args, Debug)]
#[command(next_help_heading = "Shared options")]
pub(crate) struct Shared {
    /// Print one JSON document on one line instead of tables
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// IP address of the device (several with commas between), or the interface to take them from
    ///
    /// Where a command has several devices, semicolons between their addresses.
    /// Without it the device takes the address from which the peer is reached, and the loopback
    /// address where there is no peer.
    #[arg(
        long, short = 'd', visible_alias = "device", global = true, value_name = "IP|INTERFACE",
        env = "SOFTRNIC_ADDRESS", value_parser = units::address
    )]
    pub(crate) address: Option<Address>,

    /// Which kind of device: hardware through rdma-core, an emulated one, or hardware if there is some
    ///
    /// With hardware, --address names the device (rxe0, mlx5_0), its interface, or one of its addresses.
    /// SOFTRNIC_LIBIBVERBS is the path of another libibverbs, SOFTRNIC_LIBRDMACM of another librdmacm.
    #[arg(
        long, global = true, value_enum, value_name = "NAME", default_value_t = Backend::Auto,
        env = "SOFTRNIC_BACKEND"
    )]
    pub(crate) backend: Backend,

    /// TCP port on which the two ends introduce their queue pairs to each other
    #[arg(
        long, short = 'p', global = true, value_name = "PORT", default_value_t = EXCHANGE_PORT,
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    pub(crate) port: u16,

    /// Record every frame in FILE (pcapng; Wireshark opens it)
    #[arg(long, global = true, value_name = "FILE", env = "SOFTRNIC_CAPTURE")]
    pub(crate) capture: Option<PathBuf>,

    /// Bad weather for frames, such as drop=1%,reorder=2%,seed=7
    ///
    /// Faults: drop, reorder, duplicate, corrupt, ecn, delay. Each befalls a share (drop=1%) or one
    /// frame (drop=#3); delay also says for how long (delay=1%:500us). side=tx|rx|both,
    /// opcode=RDMA_WRITE_ONLY and qp=0x12 limit all of them; the same seed gives the same chances.
    #[arg(long, global = true, value_name = "SPEC", env = "SOFTRNIC_FAULTS")]
    pub(crate) faults: Option<String>,

    /// Print a line per frame on standard error [env: SOFTRNIC_TRACE=1]
    #[arg(long, global = true)]
    pub(crate) trace: bool,

    /// Whose habits the device takes on where real devices differ
    #[arg(
        long, global = true, value_enum, value_name = "NAME", default_value_t = Profile::Spec,
        env = "SOFTRNIC_PROFILE"
    )]
    pub(crate) profile: Profile,
}

impl Shared {
    /// Refuses what is said of a device on the command line of a command that takes devices of its own.
    pub(crate) fn without_device(&self, command: &str) -> Result<(), Failure> {
        // What the environment says is for other commands.
        let said = |given: bool, variable| given && std::env::var_os(variable).is_none();
        let hardware_by_environment =
            std::env::var_os("SOFTRNIC_BACKEND").is_some_and(|value| value == "hardware");
        let options = [
            ("--address", said(self.address.is_some(), "SOFTRNIC_ADDRESS")),
            ("--capture", said(self.capture.is_some(), "SOFTRNIC_CAPTURE")),
            ("--faults", said(self.faults.is_some(), "SOFTRNIC_FAULTS")),
            ("--backend", self.backend == Backend::Hardware && !hardware_by_environment),
        ];
        match options.into_iter().find(|(_, said)| *said) {
            None => Ok(()),
            Some((option, _)) => Err(Failure::usage(
                format!("{option}: {command} takes devices of its own"),
                "leave it out",
            )),
        }
    }
}

/// Which kind of device the commands use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// Hardware if there is some, else emulated; standard error says which
    Auto,
    /// A real device, through rdma-core
    Hardware,
    /// An emulated device
    Emulated,
}

/// Which device the emulated one resembles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// Refuses, poisons and reorders all that a program may not rely on
    Strict,
    /// What the InfiniBand specification says
    Spec,
    /// Linux soft-RoCE
    Rxe,
    /// ConnectX-5
    Cx5,
}

impl Profile {
    /// As `--profile` and `SOFTRNIC_PROFILE` spell it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Spec => "spec",
            Self::Rxe => "rxe",
            Self::Cx5 => "cx5",
        }
    }
}

impl Shared {
    /// What no single option can see of itself.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if let Some(rules) = &self.faults {
            FaultRules::parse(rules).map_err(|error| {
                Failure::usage(
                    format!("--faults (SOFTRNIC_FAULTS): {error}"),
                    "for example drop=1%,seed=7",
                )
            })?;
        }
        self.check_capture()?;
        self.check_backend()
    }

    /// What only an emulated device has: the option, if one is given.
    fn emulated_only(&self) -> Option<&'static str> {
        [
            (self.capture.is_some(), "--capture (SOFTRNIC_CAPTURE)"),
            (self.faults.is_some(), "--faults (SOFTRNIC_FAULTS)"),
            (self.trace, "--trace"),
            (self.profile != Profile::Spec, "--profile (SOFTRNIC_PROFILE)"),
        ]
        .into_iter()
        .find_map(|(given, option)| given.then_some(option))
    }

    fn check_backend(&self) -> Result<(), Failure> {
        match self.emulated_only() {
            Some(option) if self.backend == Backend::Hardware => Err(Failure::usage(
                format!("{option} is about an emulated device, and --backend asks for hardware"),
                "leave one of them away (SOFTRNIC_BACKEND counts, too)",
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// The kind of device that is asked for. Options that only an emulated device has ask for one.
    pub(crate) fn backend(&self) -> softrnic_verbs::Backend {
        match self.backend {
            Backend::Auto if self.emulated_only().is_some() => softrnic_verbs::Backend::Emulated,
            Backend::Auto => softrnic_verbs::Backend::Auto,
            Backend::Hardware => softrnic_verbs::Backend::Hardware,
            Backend::Emulated => softrnic_verbs::Backend::Emulated,
        }
    }

    fn check_capture(&self) -> Result<(), Failure> {
        let Some(file) = &self.capture else { return Ok(()) };
        let name = file.display();
        if file.is_dir() {
            return Err(Failure::usage(
                format!("--capture (SOFTRNIC_CAPTURE): {name} is a directory"),
                "name a file in it, such as frames.pcapng",
            ));
        }
        // The parent of a bare name is the empty path, which means here.
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        match folder {
            Some(folder) if !folder.is_dir() => Err(Failure::usage(
                format!(
                    "--capture (SOFTRNIC_CAPTURE): there is no directory {} to put {name} in",
                    folder.display()
                ),
                "make the directory first, or name another",
            )),
            Some(_) | None => Ok(()),
        }
    }
}

/// Each option that a variable of the environment can set: its id, its spelling, the variable.
const FROM_ENVIRONMENT: [(&str, &str, &str); 5] = [
    ("address", "--address", "SOFTRNIC_ADDRESS"),
    ("backend", "--backend", "SOFTRNIC_BACKEND"),
    ("capture", "--capture", "SOFTRNIC_CAPTURE"),
    ("faults", "--faults", "SOFTRNIC_FAULTS"),
    ("profile", "--profile", "SOFTRNIC_PROFILE"),
];

/// Why there is nothing to run: a mistake, or only help or the version was asked for.
#[derive(Debug)]
pub(crate) struct Refused {
    error: clap::Error,
    note: Option<String>,
}

impl Refused {
    /// Prints the help to standard output or the error to standard error, and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        // A closed pipe (`--help | head`) changes nothing about the outcome.
        _ = self.error.print();
        if let Some(note) = &self.note {
            _ = io::Write::write_all(&mut io::stderr(), format!("\n{note}\n").as_bytes());
        }
        if self.error.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS }
    }
}

/// Understands a command line (the first of `args` is the program) and the environment.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Cli, Refused> {
    let args: Vec<OsString> = args.into_iter().collect();
    let matches = command().try_get_matches_from(&args);
    matches.and_then(|mut found| Cli::from_arg_matches_mut(&mut found)).map_err(|error| {
        let note = environment_note(&error, &args);
        Refused { error, note }
    })
}

/// The parser. A variable that is set to nothing counts as unset.
fn command() -> clap::Command {
    FROM_ENVIRONMENT.iter().fold(Cli::command(), |command, &(id, _, variable)| {
        if std::env::var_os(variable).is_some_and(|value| value.is_empty()) {
            command.mut_arg(id, |arg| arg.env(Resettable::Reset))
        } else {
            command
        }
    })
}

/// The parser names the option even when a variable of the environment was at fault; this says so.
fn environment_note(error: &clap::Error, args: &[OsString]) -> Option<String> {
    if !matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation) {
        return None;
    }
    let (Some(ContextValue::String(argument)), Some(ContextValue::String(value))) =
        (error.get(ContextKind::InvalidArg), error.get(ContextKind::InvalidValue))
    else {
        return None;
    };
    let (_, _, variable) = FROM_ENVIRONMENT.iter().find(|(_, option, variable)| {
        let named = argument.starts_with(option);
        named && std::env::var_os(variable).as_deref() == Some(OsStr::new(value))
    })?;
    let on_the_line = args.iter().any(|arg| arg.to_str().is_some_and(|arg| arg.ends_with(value)));
    (!on_the_line).then(|| {
        format!("The value came from the environment variable {variable}; change or unset it.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(line: &[&str]) -> Shared {
        let line = ["softrnic"].iter().chain(line).map(OsString::from);
        parse(line).unwrap().shared
    }

    #[test]
    fn the_parser_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_option_of_the_table_exists_and_reads_its_variable() {
        let command = Cli::command();
        for (id, option, variable) in FROM_ENVIRONMENT {
            let arg = command.get_arguments().find(|arg| arg.get_id() == id).unwrap();
            assert_eq!(arg.get_env(), Some(OsStr::new(variable)));
            assert_eq!(arg.get_long(), option.strip_prefix("--"));
        }
        let with_variable = command.get_arguments().filter(|arg| arg.get_env().is_some()).count();
        assert_eq!(with_variable, FROM_ENVIRONMENT.len());
    }

    #[test]
    fn shared_options_stand_before_or_after_the_command() {
        assert!(shared(&["--json", "devinfo"]).json);
        assert!(shared(&["devinfo", "--json"]).json);
        let shared = shared(&["devinfo", "--device", "lo", "-p", "7000", "--profile", "cx5"]);
        assert_eq!(shared.address, Some(Address::Interface("lo".into())));
        assert_eq!((shared.port, shared.profile), (7000, Profile::Cx5));
    }

    #[test]
    fn a_capture_needs_a_directory_to_lie_in() {
        assert!(shared(&["devinfo", "--capture", "frames.pcapng"]).check().is_ok());
        for file in ["/", "no such directory/frames.pcapng"] {
            let refused = shared(&["devinfo", "--capture", file]).check().unwrap_err();
            assert_eq!(refused.kind(), crate::error::Kind::Usage, "{file}");
        }
    }
}
