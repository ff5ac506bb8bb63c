//! `softrnic run`: starts a verbs program on the emulated device; `softrnic env`: tells what that
//! takes.

mod library;
mod namespace;
mod program;
mod tree;
mod variables;

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::{Args, ValueEnum};
use softrnic_verbs::emulated::{DeviceChoice, EmulatedProvider};

use self::library::{DROP_IN, Found, SHIM};
use self::variables::Variables;
use crate::cli::Shared;
use crate::device::Settings;
use crate::error::Failure;
use crate::units::{self, Address};

const AFTER_RUN: &str = "\
Examples:
  softrnic run -- ibv_devinfo -v                         what the program sees
  softrnic run -d 127.0.0.2 -- ibv_rc_pingpong -g 0      wait for a peer ...
  softrnic run -d 127.0.0.3 -- ibv_rc_pingpong -g 0 127.0.0.2
  softrnic run --capture w.pcapng -- ib_write_bw         record all frames
  softrnic run --faults drop=1%,seed=7 -- ib_send_bw     bad weather
  softrnic run -- mpirun -n 2 --mca pml ucx ./a.out      whatever the program starts, too

The program is found and started as a shell would, in the same process: signals and exit codes are
its own. Everything that it starts inherits the device.";

const AFTER_ENV: &str = "\
Examples:
  eval \"$(softrnic env)\"                      from here on, this shell's programs
  eval \"$(softrnic env -d 127.0.0.2)\"         with a device at that address
  softrnic --json env                         for a program";

/// Run a verbs program, unchanged, on the emulated device
#[derive(Args, Debug)]
#[command(after_help = AFTER_RUN)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    device: DeviceArgs,

    /// How the program gets to see entries in /sys/class/infiniband and /dev/infiniband
    #[arg(long, value_enum, value_name = "HOW", default_value_t = FakeSysfs::Shim)]
    fake_sysfs: FakeSysfs,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

/// Print the variables that `run` would set, for a shell to take over
#[derive(Args, Debug)]
#[command(after_help = AFTER_ENV)]
pub(crate) struct EnvArgs {
    #[command(flatten)]
    device: DeviceArgs,

    /// How programs get to see entries in /sys/class/infiniband and /dev/infiniband
    #[arg(long, value_enum, value_name = "HOW", default_value_t = FakeSysfs::Shim)]
    fake_sysfs: FakeSysfs,
}

/// Which devices the program gets, beside the options of every command.
#[derive(Args, Debug)]
pub(super) struct DeviceArgs {
    /// One device for each of these interfaces [default: every usable one]
    ///
    /// Not looked at with --address.
    #[arg(long, value_name = "NAME", value_delimiter = ',', env = "SOFTRNIC_INTERFACE")]
    interface: Vec<String>,

    /// What the device is called; several by this name and a number
    #[arg(
        long, value_name = "NAME", env = "SOFTRNIC_DEVICE_NAME", value_parser = units::device_name
    )]
    device_name: Option<String>,

    /// UDP port of the device; peers must use the same one [default: 4791]
    #[arg(
        long, value_name = "PORT", env = "SOFTRNIC_PORT",
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    udp_port: Option<u16>,

    /// Load the drop-in by LD_PRELOAD as well: for programs that bring a libibverbs of their own
    #[arg(long)]
    preload: bool,

    /// The drop-in library [default: the one that was built or installed with this program]
    #[arg(long, value_name = "FILE", env = "SOFTRNIC_LIBRARY")]
    library: Option<PathBuf>,
}

impl DeviceArgs {
    /// The devices that the program will find.
    fn provider(&self, shared: &Shared) -> EmulatedProvider {
        let choice = match &shared.address {
            Some(Address::Ips(ips)) => DeviceChoice::Addresses(ips.clone()),
            Some(Address::Several(lists)) => DeviceChoice::Several(lists.clone()),
            Some(Address::Interface(name)) => DeviceChoice::Interfaces(vec![name.clone()]),
            None if self.interface.is_empty() => DeviceChoice::Usable,
            None => DeviceChoice::Interfaces(self.interface.clone()),
        };
        let settings = Settings::quiet(shared).into_config();
        EmulatedProvider { settings, choice, name: self.device_name.clone() }
    }
}

/// How programs see files that a kernel with RDMA would have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum FakeSysfs {
    /// By a small preload library that looks up other paths
    Shim,
    /// By a mount namespace of the program's own; reaches static programs, and may be forbidden
    Ns,
    /// Not at all
    None,
}

/// Starts the program in place of this process.
pub(crate) fn run(args: &RunArgs, shared: &Shared) -> Result<(), Failure> {
    let (program, arguments) = args.program.split_first().ok_or_else(|| {
        Failure::usage("run: no program", "for example: softrnic run -- ibv_devinfo")
    })?;
    let path = program::find(program)?;
    program::judge(&path, args.fake_sysfs)?;
    let how = match args.fake_sysfs {
        FakeSysfs::Shim if program::wants_no_preload(&path) => FakeSysfs::None,
        how @ (FakeSysfs::Shim | FakeSysfs::Ns | FakeSysfs::None) => how,
    };
    let prepared = prepare(&args.device, how, shared)?;
    if let (FakeSysfs::Ns, Some(tree)) = (how, &prepared.tree) {
        namespace::enter(tree)?;
    }
    let mut command = Command::new(&path);
    command.arg0(program).args(arguments);
    prepared.variables.apply(&mut command);
    let error = command.exec();
    Err(Failure::failed(
        format!("{} cannot be started: {error}", path.display()),
        "check that it is a program for this machine and may be executed",
    ))
}

/// Prints the variables.
pub(crate) fn env(args: &EnvArgs, shared: &Shared) -> Result<(), Failure> {
    if args.fake_sysfs == FakeSysfs::Ns {
        return Err(Failure::usage(
            "env: a mount namespace is no variable",
            "use `softrnic run --fake-sysfs=ns`, or `env` with --fake-sysfs=shim",
        ));
    }
    let prepared = prepare(&args.device, args.fake_sysfs, shared)?;
    let text = if shared.json { prepared.variables.json()? } else { prepared.variables.shell()? };
    io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

struct Prepared {
    variables: Variables,
    tree: Option<tree::Tree>,
}

fn prepare(device: &DeviceArgs, how: FakeSysfs, shared: &Shared) -> Result<Prepared, Failure> {
    let drop_in = Found::library(&DROP_IN, device.library.as_deref())?;
    let links = drop_in.directory()?;
    let provider = device.provider(shared);
    let mut variables = Variables::of_device(device, shared);
    variables.put_before("LD_LIBRARY_PATH", links.as_os_str());
    if device.preload {
        variables.put_before("LD_PRELOAD", drop_in.preload()?.as_os_str());
    }
    let tree = match how {
        FakeSysfs::None => None,
        FakeSysfs::Shim | FakeSysfs::Ns => Some(tree::Tree::of(&provider)?),
    };
    if let Some(tree) = &tree {
        variables.set("SOFTRNIC_SYSFS", tree.root().as_os_str());
    }
    if how == FakeSysfs::Shim {
        let shim = Found::library(&SHIM, None)?;
        variables.put_before("LD_PRELOAD", shim.preload()?.as_os_str());
    }
    Ok(Prepared { variables, tree })
}
