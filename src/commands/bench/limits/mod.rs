//! `softrnic bench limits`: what this machine allows at most, and beside it what the device reaches
//! in the same run.
//!
//! Each limit is a function that takes one short sample, so that samples of several limits, or of a
//! limit and of the device, can alternate in one run: on a shared or virtual machine figures from
//! different runs say little about each other. Cores may also move: while two of them share a
//! cache, a line passes between them in a fraction of the time, and all that crosses cores follows.
//! So each sample of two processes begins with a look at that, and medians are given for both
//! states.

#[cfg(target_os = "linux")]
mod alone;
#[cfg(target_os = "linux")]
mod device;
#[cfg(target_os = "linux")]
mod fabric;
#[cfg(target_os = "linux")]
mod figure;
#[cfg(target_os = "linux")]
mod floor;
#[cfg(target_os = "linux")]
mod limit;
#[cfg(target_os = "linux")]
mod pair;
#[cfg(target_os = "linux")]
mod perftest;
#[cfg(target_os = "linux")]
mod sample;
#[cfg(target_os = "linux")]
mod sys;
#[cfg(target_os = "linux")]
mod udp_latency;
#[cfg(target_os = "linux")]
mod udp_throughput;

use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::error::Failure;
use crate::units;

#[cfg(target_os = "linux")]
pub(crate) use pair::{PeerArgs, run_peer};

/// The hidden command that a peer process is started with.
#[cfg(target_os = "linux")]
pub(crate) const PEER_COMMAND: &str = "limits-peer";

const AFTER_HELP: &str = "\
Examples:
  softrnic bench limits                      all groups: two minutes or more
  softrnic bench limits --quick              the same with fewer and shorter samples
  softrnic bench limits --only udp,latency   what UDP allows
  softrnic bench limits --only perftest      unchanged ib_write_bw and others (perftest must be there)
  softrnic bench limits -s 64,1024,4096      other datagram sizes
  softrnic --json bench limits -n 15         more samples, for a program

Columns `near` and `far` are medians of the samples during which the two cores shared a cache,
and of the others; compare figures of the same state only. `waited` is the largest share of a
sample in which other programs had our cores; above 3 % the figures are too low.";

/// Measure what this machine allows at most, and how near the device comes to it (Linux)
///
/// Limits: UDP between two processes, the least device within one thread, copying, CRC. Figures:
/// the device on the simulated fabric and over UDP, each with the limit that was sampled in turns
/// with it, the bar that it is held to, and the verdict.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct LimitsArgs {
    /// Only these groups [default: all but perftest]
    #[arg(long, value_enum, value_name = "GROUP", value_delimiter = ',')]
    only: Vec<Group>,

    /// Bytes of a UDP datagram
    #[arg(
        long, short, value_name = "SIZE", value_delimiter = ',', default_value = "1024,4096",
        value_parser = datagram_size
    )]
    size: Vec<u16>,

    /// Samples of each, all taking turns [default: 5; 3 with --quick]
    #[arg(
        long, short = 'n', value_name = "NUMBER",
        value_parser = clap::value_parser!(u16).range(1..=1000)
    )]
    samples: Option<u16>,

    /// How long a sample takes, 60ms to 400ms [default: 200ms; 100ms with --quick]
    #[arg(long, value_name = "TIME", value_parser = sample_time)]
    sample_time: Option<Duration>,

    /// Fewer and shorter samples
    #[arg(long)]
    quick: bool,

    /// Run samples before all ordinary programs (SCHED_FIFO; needs CAP_SYS_NICE)
    #[arg(long)]
    realtime: bool,
}

#[cfg(target_os = "linux")]
impl LimitsArgs {
    fn samples(&self) -> u16 {
        self.samples.unwrap_or(if self.quick { 3 } else { 5 })
    }

    fn sample_time(&self) -> Duration {
        let default = if self.quick { 100 } else { 200 };
        self.sample_time.unwrap_or(Duration::from_millis(default))
    }
}

/// Limits of one kind, and the figures of the device beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Group {
    /// UDP throughput in bursts (UDP_SEGMENT and UDP_GRO) between two processes
    Udp,
    /// UDP latency between two processes that poll
    Latency,
    /// The least device that checks keys, ranges and rights, within one thread
    InProcess,
    /// Copying
    Memcpy,
    /// CRC-32, as the ICRC needs it
    Crc,
    /// Ten thousand queue pairs of one device: memory, and the speed of a busy one
    QueuePairs,
    /// Two threads with a queue pair each on one device
    Threads,
    /// perftest's programs on the drop-in library; only when asked for
    Perftest,
}

/// The longest datagram that is a RoCEv2 frame: 4096 bytes and all headers; and what makes a burst
/// worth the name.
fn datagram_size(text: &str) -> Result<u16, String> {
    match units::size(text)? {
        size @ 8..=8192 => u16::try_from(size).map_err(|error| error.to_string()),
        _ => Err("a datagram has 8 to 8192 bytes".into()),
    }
}

fn sample_time(text: &str) -> Result<Duration, String> {
    let time = units::duration(text)?;
    if (60..=400).contains(&time.as_millis()) {
        return Ok(time);
    }
    Err("a sample takes 60ms to 400ms: less says nothing, more is disturbed".into())
}

/// Measures and prints.
#[cfg(target_os = "linux")]
pub(super) fn run(args: &LimitsArgs, json: bool) -> Result<(), Failure> {
    Ok(limit::report(args)?.print(json)?)
}

/// Says what is missing.
#[cfg(not(target_os = "linux"))]
pub(super) fn run(_args: &LimitsArgs, _json: bool) -> Result<(), Failure> {
    Err(Failure::failed(
        "bench limits needs Linux: UDP_SEGMENT, UDP_GRO, memfd and a choice of cores",
        "run it on a Linux machine",
    ))
}
