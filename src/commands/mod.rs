//! One file or folder for each command.

pub(crate) mod bench;
pub(crate) mod conform;
pub(crate) mod demo;
pub(crate) mod devinfo;
pub(crate) mod pingpong;
#[cfg(target_os = "linux")]
pub(crate) mod ps;
#[cfg(target_os = "linux")]
pub(crate) mod run;
#[cfg(target_os = "linux")]
pub(crate) mod service;
pub(crate) mod stat;

use crate::cli::{Cli, Command};
use crate::error::Failure;

/// Carries out a command line.
pub(crate) fn run(cli: Cli) -> Result<(), Failure> {
    let Cli { shared, command } = cli;
    shared.check()?;
    match command {
        Command::Demo(args) => demo::run(&args, &shared),
        Command::DemoPeer(args) => demo::run_peer(&args, &shared),
        Command::Devinfo(args) => devinfo::run(&args, &shared),
        Command::Pingpong(args) => pingpong::run(&args, &shared),
        Command::Bench(args) => bench::run(&args, &shared),
        Command::Conform(args) => conform::run(&args, &shared),
        Command::Stat(args) => stat::run(&args, &shared),
        #[cfg(target_os = "linux")]
        Command::Run(args) => run::run(&args, &shared),
        #[cfg(target_os = "linux")]
        Command::Env(args) => run::env(&args, &shared),
        #[cfg(target_os = "linux")]
        Command::Service(args) => service::run(&args),
        #[cfg(target_os = "linux")]
        Command::Ps(args) => ps::run(&args, &shared),
        #[cfg(target_os = "linux")]
        Command::LimitsPeer(args) => bench::limits::run_peer(&args),
    }
}
