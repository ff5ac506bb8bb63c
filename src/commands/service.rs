//! `softrnic service`: the port service, by which many processes share one address.

use std::io::ErrorKind;
use std::time::Duration;

use clap::Args;
use softrnic_transport::service::{self, Settings};

use crate::error::Failure;
use crate::units;

/// How long a service that was started on demand outlives its last client.
const IDLE: Duration = Duration::from_secs(3);

const AFTER_HELP: &str = "\
Examples:
  softrnic service --allow-uid 1000,1001     several users share the addresses of this host
  softrnic service --idle 1m                 until nobody has needed it for a minute

Programs start a service themselves when they need one, for their own user, and it ends a few
seconds after the last of them.
`softrnic ps` shows who shares which address. SOFTRNIC_SERVICE=off makes a program do without.";

/// Own a UDP port for many processes: each gets a slot of the queue pair numbers, and the packets
/// for it
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ServiceArgs {
    /// The UDP port
    #[arg(
        long, value_name = "PORT", default_value_t = softrnic_model::wire::ROCE_PORT,
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    udp_port: u16,

    /// Users to serve besides this one, by number
    ///
    /// Their packets come by way of the service, for a process that has a socket of the port could
    /// have the packets of others. Run it as root or as a user of its own.
    #[arg(long, value_name = "UID", value_delimiter = ',')]
    allow_uid: Vec<u32>,

    /// End when there was no client for this long [without it: never]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    idle: Option<Duration>,

    /// Start in the background for a program that needs it, and return
    #[arg(long, hide = true, conflicts_with_all = ["allow_uid", "idle", "keep", "resume"])]
    on_demand: bool,

    /// Hold what a service owns; started by the service only
    #[arg(long, hide = true, conflicts_with = "resume")]
    keep: bool,

    /// Go on for a service that has died; started by the keeper only
    #[arg(long, hide = true)]
    resume: bool,
}

/// Runs in the role that the options say.
pub(crate) fn run(args: &ServiceArgs) -> Result<(), Failure> {
    let ServiceArgs { udp_port: port, .. } = *args;
    let done = if args.keep {
        service::keep()
    } else if args.resume {
        service::resume()
    } else if args.on_demand {
        service::start_detached(Settings { port, allowed: Vec::new(), idle: Some(IDLE) })
    } else {
        let settings = Settings { port, allowed: args.allow_uid.clone(), idle: args.idle };
        service::serve(settings)
    };
    done.map_err(|error| {
        if error.kind() == ErrorKind::AddrInUse {
            return Failure::failed(
                format!("there is a port service of this user for UDP port {port} already"),
                "see `softrnic ps`; it ends by itself when nobody uses it",
            );
        }
        Failure::plain(format!("the port service cannot run: {error}"))
    })
}
