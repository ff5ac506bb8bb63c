//! From options to a test that can be carried out: defaults that depend on each other, and
//! combinations that make no sense.

use std::time::Duration;

use softrnic_model::verbs::{Mtu, QpType};

use super::{Atomic, CommonArgs, Metric, Service, SizeArgs};
use crate::error::Failure;
use crate::exchange::Settings;
use crate::units::{MESSAGE_MAX, show_size};

/// Most bytes that a default number of iterations moves for one size.
const BYTES_BY_DEFAULT: u64 = 1 << 30;

/// What the client does to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Write,
    Read,
    Send,
    Atomic(Atomic),
}

impl Operation {
    const fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Send => "send",
            Self::Atomic(Atomic::FetchAdd) => "atomic fetch-add",
            Self::Atomic(Atomic::CompareSwap) => "atomic compare-swap",
        }
    }

    /// The usual number of operations under way: for those that the responder must hold state for,
    /// what RDMA devices allow at most (`max_qp_rd_atom`).
    const fn depth(self) -> u16 {
        match self {
            Self::Write | Self::Send => 128,
            Self::Read | Self::Atomic(_) => 16,
        }
    }
}

/// Which end this process is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Server,
    Client {
        host: String,
    },
    /// The client, with a server that it starts itself.
    Local,
    /// That server.
    Second {
        /// Where the client waits for it.
        meet: u16,
    },
}

/// How long one size is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// This often at any size.
    Times(u64),
    /// This often, or as often as [`BYTES_BY_DEFAULT`] allow.
    TimesOrBytes(u64),
    /// This long.
    For(Duration),
}

/// A test that can be carried out.
#[derive(Debug)]
pub(crate) struct Test {
    pub(crate) operation: Operation,
    pub(crate) metric: Metric,
    pub(crate) transport: QpType,
    pub(crate) end: End,
    /// Message sizes in bytes, ascending.
    pub(crate) sizes: Vec<u64>,
    pub(crate) repeat: Repeat,
    pub(crate) queue_pairs: u16,
    /// Operations under way on each queue pair.
    pub(crate) depth: u16,
    pub(crate) mtu: Mtu,
    pub(crate) events: bool,
    /// Messages up to this many bytes are sent inline.
    pub(crate) inline_max: u64,
}

impl Test {
    /// What the options ask for.
    pub(super) fn plan(
        operation: Operation,
        common: &CommonArgs,
        sizes: Option<&SizeArgs>,
        service: Service,
    ) -> Result<Self, Failure> {
        let metric = common.metric;
        if metric == Metric::Lat {
            one_at_a_time("--qps", common.qps)?;
            one_at_a_time("--tx-depth", common.tx_depth.unwrap_or(1))?;
        }
        let transport = match service {
            Service::Rc => QpType::Rc,
            Service::Uc => QpType::Uc,
            Service::Ud => QpType::Ud,
        };
        let longest = match transport {
            QpType::Ud => u64::from(common.mtu.bytes()),
            QpType::Rc | QpType::Uc | QpType::XrcSend | QpType::XrcRecv => MESSAGE_MAX,
        };
        let repeat = match (common.duration, common.iters, metric) {
            (Some(duration), ..) => Repeat::For(duration),
            (None, Some(times), _) => Repeat::Times(times),
            (None, None, Metric::Bw) => Repeat::TimesOrBytes(5000),
            (None, None, Metric::Lat) => Repeat::TimesOrBytes(1000),
        };
        let depth = match metric {
            Metric::Bw => common.tx_depth.unwrap_or(operation.depth()),
            Metric::Lat => 1,
        };
        let end = match (&common.host, common.meet) {
            _ if common.local => End::Local,
            (_, Some(meet)) => End::Second { meet },
            (Some(host), None) => End::Client { host: host.clone() },
            (None, None) => End::Server,
        };
        if metric == Metric::Lat && operation == Operation::Write && common.events {
            return Err(Failure::usage(
                "a WRITE raises no event at the other end; its latency is found by looking into memory",
                "leave --events out, or measure send lat",
            ));
        }
        Ok(Self {
            operation,
            metric,
            transport,
            end,
            sizes: message_sizes(sizes, metric, longest)?,
            repeat,
            queue_pairs: common.qps,
            depth,
            mtu: common.mtu,
            events: common.events,
            inline_max: common.inline,
        })
    }

    /// How many operations of `size` bytes to do, unless time decides.
    pub(crate) fn iterations(&self, size: u64) -> Option<u64> {
        match self.repeat {
            Repeat::Times(times) => Some(times),
            Repeat::TimesOrBytes(times) => Some(times.min(BYTES_BY_DEFAULT / size.max(1)).max(1)),
            Repeat::For(_) => None,
        }
    }

    /// The command: `bench write bw`.
    pub(crate) const fn command(&self) -> &'static str {
        match (self.operation, self.metric) {
            (Operation::Write, Metric::Bw) => "bench write bw",
            (Operation::Write, Metric::Lat) => "bench write lat",
            (Operation::Read, Metric::Bw) => "bench read bw",
            (Operation::Read, Metric::Lat) => "bench read lat",
            (Operation::Send, Metric::Bw) => "bench send bw",
            (Operation::Send, Metric::Lat) => "bench send lat",
            (Operation::Atomic(_), Metric::Bw) => "bench atomic bw",
            (Operation::Atomic(_), Metric::Lat) => "bench atomic lat",
        }
    }

    /// The test in words: `write bw`, with the kind of atomic.
    pub(crate) fn name(&self) -> String {
        let metric = match self.metric {
            Metric::Bw => "bw",
            Metric::Lat => "lat",
        };
        format!("{} {metric}", self.operation.name())
    }

    /// What both ends must have been told alike, under the names of the options.
    pub(crate) fn settings(&self) -> Settings {
        let service = match self.transport {
            QpType::Rc => "rc",
            QpType::Uc => "uc",
            QpType::Ud => "ud",
            QpType::XrcSend | QpType::XrcRecv => "xrc",
        };
        let sizes: Vec<String> = self.sizes.iter().map(u64::to_string).collect();
        let repeat = match self.repeat {
            Repeat::Times(times) | Repeat::TimesOrBytes(times) => format!("{times} times"),
            Repeat::For(duration) => format!("{} ms", duration.as_millis()),
        };
        Settings::from_pairs([
            ("the test", self.name()),
            ("--connection", service.into()),
            ("--size or --all", sizes.join(",")),
            ("--iters or --duration", repeat),
            ("--qps", self.queue_pairs.to_string()),
            ("--tx-depth", self.depth.to_string()),
            ("--mtu", self.mtu.bytes().to_string()),
        ])
    }
}

/// Latency is that of one operation alone.
fn one_at_a_time(option: &str, given: u16) -> Result<(), Failure> {
    if given == 1 {
        return Ok(());
    }
    Err(Failure::usage(
        format!("lat measures one operation at a time; {option} {given} would queue them"),
        format!("leave {option} out, or measure bw"),
    ))
}

/// The sizes to measure, none above `longest`.
fn message_sizes(
    args: Option<&SizeArgs>,
    metric: Metric,
    longest: u64,
) -> Result<Vec<u64>, Failure> {
    // Atomics choose no size: their operand is a 64-bit word.
    let Some(args) = args else { return Ok(vec![8]) };
    if args.all {
        let powers = (1..u64::BITS).map(|shift| 1 << shift);
        return Ok(powers.take_while(|&size| size <= longest).collect());
    }
    let usual = match metric {
        Metric::Bw => longest.min(64 << 10),
        Metric::Lat => 2,
    };
    let size = args.size.unwrap_or(usual);
    if size > longest {
        return Err(Failure::usage(
            format!(
                "a message of {} does not fit a UD datagram: the MTU is {longest} bytes",
                show_size(size)
            ),
            "lower --size, or raise --mtu up to 4096",
        ));
    }
    Ok(vec![size])
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::Transfer;
    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        transfer: Transfer,
    }

    fn planned(line: &str) -> Result<Test, Failure> {
        let line = Line::try_parse_from(["bench"].into_iter().chain(line.split(' '))).unwrap();
        line.transfer.test()
    }

    #[test]
    fn defaults_are_those_of_perftest() {
        let test = planned("write bw").unwrap();
        assert_eq!((test.operation, test.metric), (Operation::Write, Metric::Bw));
        assert_eq!((test.transport, test.mtu), (QpType::Rc, Mtu::B1024));
        assert_eq!((test.queue_pairs, test.depth), (1, 128));
        assert_eq!((test.sizes.as_slice(), test.end.clone()), (&[64 << 10][..], End::Server));
        assert_eq!((test.events, test.inline_max), (false, 0));
        assert_eq!(planned("read bw").unwrap().depth, 16);
        let test = planned("send lat host").unwrap();
        assert_eq!((test.sizes.as_slice(), test.depth), (&[2][..], 1));
        assert_eq!(test.end, End::Client { host: "host".into() });
        assert_eq!(planned("send lat --local").unwrap().end, End::Local);
    }

    #[test]
    fn all_sizes_are_the_powers_of_two_that_fit() {
        let sizes = planned("write bw -a").unwrap().sizes;
        assert_eq!((sizes.len(), sizes[0], sizes[22]), (23, 2, 8 << 20));
        let sizes = planned("send bw -a -c ud -m 4096").unwrap().sizes;
        assert_eq!((sizes.len(), sizes[11]), (12, 4096));
        assert_eq!(planned("atomic bw").unwrap().sizes, [8]);
    }

    #[test]
    fn a_datagram_fits_its_mtu() {
        assert_eq!(planned("send bw -c ud").unwrap().sizes, [1024]);
        assert_eq!(planned("send bw -c ud -s 1K").unwrap().sizes, [1024]);
        let refused = planned("send bw -c ud -s 2K").unwrap_err().to_string();
        assert!(refused.contains("2 KiB") && refused.contains("1024"), "{refused}");
    }

    #[test]
    fn latency_is_of_one_operation() {
        for line in ["write lat -q 2", "write lat -t 2"] {
            let refused = planned(line).unwrap_err();
            assert_eq!(refused.kind(), crate::error::Kind::Usage);
            assert!(refused.to_string().contains("one operation at a time"), "{refused}");
        }
        assert!(planned("write lat -q 1 -t 1").is_ok());
    }

    #[test]
    fn how_often_follows_size_only_by_default() {
        let default = planned("write bw").unwrap();
        for (size, times) in [(2, 5000), (64 << 10, 5000), (1 << 20, 1024), (8 << 20, 128)] {
            assert_eq!(default.iterations(size), Some(times), "{size}");
        }
        assert_eq!(planned("write lat").unwrap().iterations(2), Some(1000));
        assert_eq!(planned("write bw -n 9").unwrap().iterations(8 << 20), Some(9));
        let timed = planned("write bw -D 2s").unwrap();
        assert_eq!(
            (timed.iterations(2), timed.repeat),
            (None, Repeat::For(Duration::from_secs(2)))
        );
    }

    #[test]
    fn settings_differ_when_the_ends_would_not_understand_each_other() {
        let base = planned("send bw -s 64").unwrap().settings();
        for line in [
            "send lat -s 64",
            "write bw -s 64",
            "send bw -s 128",
            "send bw -a",
            "send bw -s 64 -c uc",
            "send bw -s 64 -n 10",
            "send bw -s 64 -D 5s",
            "send bw -s 64 -q 2",
            "send bw -s 64 -t 5",
            "send bw -s 64 -m 256",
        ] {
            assert!(base.first_difference(&planned(line).unwrap().settings()).is_some(), "{line}");
        }
        for line in ["send bw -s 64 host", "send bw -s 64 -e", "send bw -s 64 -I 16"] {
            assert_eq!(base.first_difference(&planned(line).unwrap().settings()), None, "{line}");
        }
        let [add, swap] = ["fetch-add", "compare-swap"]
            .map(|op| planned(&format!("atomic lat -A {op}")).unwrap().settings());
        assert!(add.first_difference(&swap).is_some());
    }
}
