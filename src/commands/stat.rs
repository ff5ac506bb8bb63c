//! `softrnic stat`: what the devices of this host have counted.

use std::time::Duration;

use clap::Args;

use crate::error::Failure;
use crate::units;

const AFTER_HELP: &str = "\
Examples:
  softrnic stat                              all devices of this host, once
  softrnic stat -d 10.0.0.2                  one device
  softrnic stat -i 1s                        every second, as differences, until interrupted
  softrnic stat -i 500ms -n 10               ten times";

/// Show what running devices have counted: frames, bytes, retransmissions, drops
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct StatArgs {
    /// Repeat after this time, showing what was counted in between
    #[arg(long, short, value_name = "TIME", value_parser = units::duration)]
    pub(crate) interval: Option<Duration>,

    /// End after this many repetitions
    #[arg(
        long, short = 'n', value_name = "NUMBER", requires = "interval",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(crate) count: Option<u32>,
}

pub(crate) fn run(args: &StatArgs) -> Result<(), Failure> {
    let watching = args.interval.is_some() || args.count.is_some();
    Err(Failure::not_yet(if watching { "stat --interval" } else { "stat" }))
}
