//! `softrnic pingpong`: SEND back and forth, with the options of `ibv_rc_pingpong` and its sisters.

mod play;

use clap::Args;
use softrnic_model::verbs::{Mtu, QpType};

use crate::cli::Shared;
use crate::error::Failure;
use crate::exchange::{QueuePairInfo, Settings};
use crate::output::Report;
use crate::peer;
use crate::units::{self, show_size};
use crate::words;

const AFTER_HELP: &str = "\
Examples:
  softrnic pingpong                          server: wait for a client
  softrnic pingpong 10.0.0.2                 client: 1000 messages of 4 KiB over RC
  softrnic pingpong -s 64 -n 100000 HOST     small and many
  softrnic pingpong --ud -s 1024 HOST        over UD; the server needs --ud -s 1024 as well
  softrnic pingpong -e -c HOST               sleep until completions come, check every byte

The server must run first. Both ends need the same transport, size, iterations and MTU; when
they differ, both say which option it is. Service level (-l) and GID index (-g) are each end's own.";

/// Send messages back and forth between two hosts and time them
///
/// Without HOST this end is the server and waits for one client; with HOST it is the client. The two
/// find each other over TCP (see --port), then exchange messages over a queue pair of each.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct PingpongArgs {
    /// The server's name or address; without it, be the server
    #[arg(value_name = "HOST", value_parser = units::host)]
    pub(crate) host: Option<String>,

    /// Use unreliable connections (UC) instead of reliable ones (RC)
    #[arg(long, conflicts_with = "ud")]
    pub(crate) uc: bool,

    /// Use unreliable datagrams (UD) instead of reliable connections (RC)
    #[arg(long)]
    pub(crate) ud: bool,

    /// Bytes in a message, 1 to 8M [default: 4096; 1024 with --ud]
    #[arg(long, short, value_name = "SIZE", value_parser = units::message_size)]
    pub(crate) size: Option<u64>,

    /// How many messages each end sends
    #[arg(
        long, short = 'n', value_name = "NUMBER", default_value_t = 1000,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(crate) iters: u32,

    /// Sleep on a completion channel instead of polling
    #[arg(long, short)]
    pub(crate) events: bool,

    /// Path MTU in bytes: 256, 512, 1024, 2048 or 4096
    #[arg(long, short, value_name = "MTU", default_value = "1024", value_parser = units::mtu)]
    pub(crate) mtu: Mtu,

    /// How many receives to keep posted
    #[arg(
        long, short, value_name = "NUMBER", default_value_t = 500,
        value_parser = clap::value_parser!(u32).range(1..=65535)
    )]
    pub(crate) rx_depth: u32,

    /// Service level
    #[arg(
        long, short = 'l', value_name = "SL", default_value_t = 0,
        value_parser = clap::value_parser!(u8).range(0..=15)
    )]
    pub(crate) sl: u8,

    /// Index of the local GID [default: the first that is IPv4, else IPv6]
    #[arg(long, short, value_name = "INDEX")]
    pub(crate) gid_idx: Option<u8>,

    /// Check every byte that arrives
    #[arg(long, short)]
    pub(crate) chk: bool,

    /// Send from the work request itself, without a registered buffer
    #[arg(long)]
    pub(crate) inline: bool,
}

impl PingpongArgs {
    /// The service that the options choose.
    pub(crate) const fn transport(&self) -> QpType {
        match (self.uc, self.ud) {
            (_, true) => QpType::Ud,
            (true, false) => QpType::Uc,
            (false, false) => QpType::Rc,
        }
    }

    /// Bytes of a message.
    pub(crate) fn message_size(&self) -> u64 {
        self.size.unwrap_or_else(
            || {
                if self.ud { u64::from(self.mtu.bytes()).min(1024) } else { 4096 }
            },
        )
    }

    /// What no single option can see of itself.
    fn check(&self) -> Result<(), Failure> {
        let (size, mtu) = (self.message_size(), self.mtu.bytes());
        if self.ud && size > u64::from(mtu) {
            return Err(Failure::usage(
                format!(
                    "a message of {} does not fit a UD datagram: the MTU is {mtu} bytes",
                    show_size(size)
                ),
                "lower --size, or raise --mtu up to 4096",
            ));
        }
        Ok(())
    }

    /// What both ends must have been told alike, under the names of the options.
    pub(crate) fn settings(&self) -> Settings {
        let service = words::service(self.transport());
        Settings::from_pairs([
            ("transport (--uc, --ud)", service.to_string()),
            ("--size", self.message_size().to_string()),
            ("--iters", self.iters.to_string()),
            ("--mtu", self.mtu.bytes().to_string()),
        ])
    }
}

/// Plays and prints.
pub(crate) fn run(args: &PingpongArgs, shared: &Shared) -> Result<(), Failure> {
    args.check()?;
    let played = peer::with_peer(shared, args.host.as_deref(), |context, exchange| {
        play::play(args, context, exchange)
    })?;
    let (size, iters) = (args.message_size(), u64::from(args.iters));
    let bytes = 2 * size * iters;
    let seconds = played.elapsed.as_secs_f64();
    let end = |info: &QueuePairInfo| {
        let QueuePairInfo { qpn, psn, gid, .. } = info;
        format!("QPN {qpn:?}, PSN {psn:?}, GID {gid}")
    };
    let report = Report::new("pingpong")
        .fact("service", "service", words::service(args.transport()))
        .fact("local", "local", end(&played.local))
        .fact("remote", "remote", end(&played.remote))
        .fact("mtu", "path MTU", u64::from(args.mtu.bytes()))
        .fact("size", "bytes of a message", size)
        .fact("iterations", "iterations", iters)
        .fact("bytes", "bytes in both directions", bytes)
        .fact("seconds", "seconds", seconds)
        .fact("mbit_s", "Mbit/s", bytes as f64 * 8.0 / seconds / 1e6)
        .fact("us_per_iteration", "us an iteration", seconds * 1e6 / args.iters as f64);
    Ok(report.print(shared.json)?)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: PingpongArgs,
    }

    fn parsed(line: &[&str]) -> PingpongArgs {
        Line::try_parse_from(["pingpong"].iter().chain(line)).unwrap().args
    }

    #[test]
    fn defaults_are_those_of_ibv_rc_pingpong() {
        let args = parsed(&[]);
        assert_eq!((args.transport(), args.message_size()), (QpType::Rc, 4096));
        assert_eq!((args.iters, args.rx_depth, args.mtu), (1000, 500, Mtu::B1024));
        assert_eq!((args.sl, args.gid_idx), (0, None));
        assert!(!(args.events || args.chk || args.inline) && args.host.is_none());
    }

    #[test]
    fn short_options_are_those_of_ibv_rc_pingpong() {
        let line = "-s 64 -n 5 -e -m 4096 -r 20 -l 3 -g 1 -c host";
        let args = parsed(&line.split(' ').collect::<Vec<_>>());
        assert_eq!((args.message_size(), args.iters, args.rx_depth), (64, 5, 20));
        assert_eq!((args.mtu, args.sl, args.gid_idx), (Mtu::B4096, 3, Some(1)));
        assert!(args.events && args.chk);
        assert_eq!(args.host.as_deref(), Some("host"));
    }

    #[test]
    fn a_datagram_fits_its_mtu() {
        assert_eq!(parsed(&["--ud", "-m", "256"]).message_size(), 256);
        assert!(parsed(&["--ud", "-s", "1024"]).check().is_ok());
        let refused = parsed(&["--ud", "-s", "1025"]).check().unwrap_err();
        assert!(refused.to_string().contains("1025 B"), "{refused}");
        assert!(parsed(&["--uc", "-s", "1025"]).check().is_ok());
    }

    #[test]
    fn settings_differ_when_the_ends_would_not_understand_each_other() {
        let base = parsed(&[]).settings();
        for line in [&["--uc"][..], &["-s", "64"], &["-n", "5"], &["-m", "256"]] {
            assert!(base.first_difference(&parsed(line).settings()).is_some(), "{line:?}");
        }
        for line in [&["-e"][..], &["-c"], &["-r", "7"], &["-l", "1"], &["-g", "1"], &["--inline"]]
        {
            assert!(base.first_difference(&parsed(line).settings()).is_none(), "{line:?}");
        }
    }
}
