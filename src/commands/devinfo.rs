//! `softrnic devinfo`: what the device is and can do.

use clap::Args;

use crate::error::Failure;

const AFTER_HELP: &str = "\
Examples:
  softrnic devinfo                           the device on the default address
  softrnic devinfo -d eth0 -v                all limits of the device on eth0
  softrnic devinfo --profile cx5 -v          the limits that a ConnectX-5 would report
  softrnic devinfo --json                    the same for programs";

/// Show the device: name, addresses (GIDs), port state, MTU and limits
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DevinfoArgs {
    /// Show every limit and capability, not only the device and its port
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

pub(crate) fn run(args: &DevinfoArgs) -> Result<(), Failure> {
    Err(Failure::not_yet(if args.verbose { "devinfo --verbose" } else { "devinfo" }))
}
