//! `softrnic bench`: bandwidth and latency of each operation, and the limits of the machine.

mod bandwidth;
mod connect;
mod latency;
pub(crate) mod limits;
mod plan;
mod run;
mod station;

use clap::{Args, Subcommand, ValueEnum};
use softrnic_model::verbs::Mtu;
use std::time::Duration;

use crate::cli::Shared;
use crate::error::Failure;
use crate::units;
use plan::{Operation, Test};

const AFTER_HELP: &str = "\
Examples:
  softrnic bench write bw                    server: wait for a client
  softrnic bench write bw 10.0.0.2           client: 64 KiB writes to that server
  softrnic bench write bw --local -a         both ends on this host, 2 B to 8 MiB
  softrnic bench send lat --local -s 64      half a round trip of a 64-byte message
  softrnic bench read bw HOST -D 10s -q 4    four queue pairs for ten seconds a size
  softrnic bench connect --local             connections per second, both ends on this host
  softrnic bench limits                      what UDP, memcpy and CRC allow on this machine

The server must run first. Both ends need the same operation and options; when they differ, both
say which option it is.";

const WRITE_EXAMPLES: &str = "\
Examples:
  softrnic bench write bw                    server: wait for a client
  softrnic bench write bw 10.0.0.2 -a        client: every size, into that server's memory
  softrnic bench write bw --local -s 1M -c uc    over UC, both ends on this host
  softrnic bench write lat --local -s 8 -n 100000";

const READ_EXAMPLES: &str = "\
Examples:
  softrnic bench read bw                     server: wait for a client
  softrnic bench read bw HOST -D 10s -q 4    client: four queue pairs for ten seconds
  softrnic bench read lat --local -s 64      both ends on this host";

const SEND_EXAMPLES: &str = "\
Examples:
  softrnic bench send bw                     server: wait for a client
  softrnic bench send bw HOST -s 8 -t 512    client: the rate of small messages
  softrnic bench send lat --local -c ud      over UD, both ends on this host
  softrnic bench send lat --local -e         asleep until completions come";

const ATOMIC_EXAMPLES: &str = "\
Examples:
  softrnic bench atomic lat                  server: wait for a client
  softrnic bench atomic lat HOST             client: fetch and add, one at a time
  softrnic bench atomic bw --local -A compare-swap -q 4";

/// Measure bandwidth or latency, as perftest does, or the limits of this machine
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    what: Bench,
}

#[derive(Debug, Subcommand)]
enum Bench {
    #[command(flatten)]
    Transfer(Transfer),
    Connect(connect::ConnectArgs),
    Limits(limits::LimitsArgs),
}

/// What the client does to the server.
#[derive(Debug, Subcommand)]
enum Transfer {
    /// RDMA WRITE to the server's memory
    #[command(after_help = WRITE_EXAMPLES)]
    Write {
        #[command(flatten)]
        common: CommonArgs,
        #[command(flatten)]
        sizes: SizeArgs,
        /// Service of the queue pairs
        #[arg(long, short, value_enum, value_name = "SERVICE", default_value_t = Connected::Rc)]
        connection: Connected,
    },
    /// RDMA READ from the server's memory (RC)
    #[command(after_help = READ_EXAMPLES)]
    Read {
        #[command(flatten)]
        common: CommonArgs,
        #[command(flatten)]
        sizes: SizeArgs,
    },
    /// SEND into receive buffers of the server
    #[command(after_help = SEND_EXAMPLES)]
    Send {
        #[command(flatten)]
        common: CommonArgs,
        #[command(flatten)]
        sizes: SizeArgs,
        /// Service of the queue pairs
        #[arg(long, short, value_enum, value_name = "SERVICE", default_value_t = Service::Rc)]
        connection: Service,
    },
    /// Atomic operations on 8 bytes of the server's memory (RC)
    #[command(after_help = ATOMIC_EXAMPLES)]
    Atomic {
        #[command(flatten)]
        common: CommonArgs,
        /// Which atomic operation
        #[arg(long, short = 'A', value_enum, value_name = "OP", default_value_t = Atomic::FetchAdd)]
        operation: Atomic,
    },
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Metric {
    /// Bandwidth and message rate, many operations under way
    Bw,
    /// Latency, one operation at a time
    Lat,
}

/// Services with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Connected {
    /// Reliable
    Rc,
    /// Unreliable
    Uc,
}

/// All services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Service {
    /// Reliable connection
    Rc,
    /// Unreliable connection
    Uc,
    /// Unreliable datagram; a message fits one packet
    Ud,
}

/// Atomic operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Atomic {
    /// Fetch and add
    FetchAdd,
    /// Compare and swap
    CompareSwap,
}

/// Options of every measurement.
#[derive(Args, Debug)]
struct CommonArgs {
    /// Bandwidth or latency
    #[arg(value_enum, value_name = "bw|lat")]
    metric: Metric,

    /// The server's name or address; without it, be the server
    #[arg(value_name = "HOST", value_parser = units::host)]
    host: Option<String>,

    /// Be both ends: start a server on this host and measure against it
    #[arg(long, conflicts_with = "host")]
    local: bool,

    /// The server of `--local` meets its client at this TCP port
    #[arg(long, hide = true, value_name = "PORT", conflicts_with_all = ["host", "local"])]
    meet: Option<u16>,

    /// How many operations for each size [default: 5000 for bw, 1000 for lat; fewer where those
    /// would move more than 1 GiB]
    #[arg(
        long, short = 'n', value_name = "NUMBER",
        value_parser = clap::value_parser!(u64).range(1..=1_000_000_000)
    )]
    iters: Option<u64>,

    /// How long for each size, instead of a number
    #[arg(
        long, short = 'D', value_name = "TIME", conflicts_with = "iters",
        value_parser = units::duration
    )]
    duration: Option<Duration>,

    /// How many queue pairs (bw)
    #[arg(
        long, short, value_name = "NUMBER", default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=256)
    )]
    qps: u16,

    /// Most operations under way on a queue pair (bw) [default: 128; 16 for read and atomic]
    #[arg(
        long, short = 't', value_name = "NUMBER",
        value_parser = clap::value_parser!(u16).range(1..=16384)
    )]
    tx_depth: Option<u16>,

    /// Path MTU in bytes: 256, 512, 1024, 2048 or 4096
    #[arg(long, short, value_name = "MTU", default_value = "1024", value_parser = units::mtu)]
    mtu: Mtu,

    /// Sleep on a completion channel instead of polling
    #[arg(long, short)]
    events: bool,

    /// Send messages up to this size from the work request itself
    #[arg(
        long, short = 'I', value_name = "SIZE", default_value = "0", value_parser = units::size
    )]
    inline: u64,
}

/// Which message sizes.
#[derive(Args, Debug)]
struct SizeArgs {
    /// Bytes in a message, 1 to 8M [default: 64K for bw, 2 for lat]
    #[arg(long, short, value_name = "SIZE", value_parser = units::message_size)]
    size: Option<u64>,

    /// Every power of two from 2 B to 8 MiB (over UD: to the MTU)
    #[arg(long, short, conflicts_with = "size")]
    all: bool,
}

pub(crate) fn run(args: &BenchArgs, shared: &Shared) -> Result<(), Failure> {
    match &args.what {
        Bench::Connect(args) => connect::run(args, shared),
        Bench::Limits(args) => limits::run(args, shared.json),
        Bench::Transfer(transfer) => run::run(&transfer.test()?, shared),
    }
}

impl Transfer {
    /// The test that the options ask for.
    fn test(&self) -> Result<Test, Failure> {
        let (operation, common, sizes, service) = match self {
            Self::Write { common, sizes, connection } => {
                (Operation::Write, common, Some(sizes), (*connection).into())
            }
            Self::Read { common, sizes } => (Operation::Read, common, Some(sizes), Service::Rc),
            Self::Send { common, sizes, connection } => {
                (Operation::Send, common, Some(sizes), *connection)
            }
            Self::Atomic { common, operation } => {
                (Operation::Atomic(*operation), common, None, Service::Rc)
            }
        };
        Test::plan(operation, common, sizes, service)
    }
}

impl From<Connected> for Service {
    fn from(service: Connected) -> Self {
        match service {
            Connected::Rc => Self::Rc,
            Connected::Uc => Self::Uc,
        }
    }
}
