//! What the device reaches, each figure beside the limit that was sampled in turns with it.

use softrnic_verbs::Mtu;

use super::limit::Limit;
use super::perftest::Program;
use super::sample::{Sample, Samples, Setting, WAITED_MAX, median};
use super::{Group, device, fabric};
use crate::error::Failure;
use crate::output::{Column, Table};

/// Connected queue pairs of a busy service.
const MANY: usize = 10_000;
/// Bytes of a frame besides the payload: BTH and ICRC.
const FRAME: u16 = 12 + 4;

/// Something of the device that can be sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ours {
    /// WRITEs of 8 bytes within one thread, 32 under way.
    InProcess {
        /// Whether ICRCs are made and checked.
        icrc: bool,
    },
    /// The same while so many other queue pairs are connected.
    InProcessAmong(usize),
    /// Bytes that an idle queue pair takes.
    IdleQp,
    /// WRITEs of 64 KiB between two processes.
    Throughput(Mtu),
    /// SENDs of 8 bytes between two processes that poll.
    Latency,
    /// WRITEs of 8 bytes between two processes, by so many threads.
    Threads(usize),
    /// An unchanged program.
    Perftest(Program),
}

impl Ours {
    fn sample(self, setting: &Setting) -> Result<Sample, Failure> {
        match self {
            Self::InProcess { icrc } => fabric::writes(icrc, 0, setting),
            Self::InProcessAmong(idle) => fabric::writes(false, idle, setting),
            Self::IdleQp => fabric::bytes_of_idle(MANY),
            Self::Throughput(mtu) => device::throughput(mtu, setting),
            Self::Latency => device::latency(setting),
            Self::Threads(threads) => device::threads(threads, setting),
            Self::Perftest(program) => program.sample(),
        }
    }
}

/// What a figure is compared with.
#[derive(Clone, Copy, Debug)]
enum Against {
    /// A limit of the machine, in the figure's unit after a change.
    Limit(Limit, fn(f64) -> f64),
    /// Another figure of the device.
    Ours(Ours),
    /// Nothing.
    Nothing,
}

impl Against {
    fn sample(self, setting: &Setting) -> Result<Option<Sample>, Failure> {
        match self {
            Self::Limit(limit, change) => {
                let sample = limit.sample(setting)?;
                Ok(Some(Sample { value: change(sample.value), ..sample }))
            }
            Self::Ours(ours) => ours.sample(setting).map(Some),
            Self::Nothing => Ok(None),
        }
    }
}

/// What a figure must reach.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bar {
    AtLeast(f64),
    AtMost(f64),
    RatioAtLeast(f64),
    RatioAtMost(f64),
    None,
}

impl Bar {
    fn is_met(self, ours: f64, ratio: Option<f64>) -> Option<bool> {
        match self {
            Self::AtLeast(bar) => Some(ours >= bar),
            Self::AtMost(bar) => Some(ours <= bar),
            Self::RatioAtLeast(bar) => ratio.map(|ratio| ratio >= bar),
            Self::RatioAtMost(bar) => ratio.map(|ratio| ratio <= bar),
            Self::None => None,
        }
    }

    fn text(self) -> Option<String> {
        match self {
            Self::AtLeast(bar) => Some(format!("at least {bar}")),
            Self::AtMost(bar) => Some(format!("at most {bar}")),
            Self::RatioAtLeast(bar) => Some(format!("ratio at least {bar}")),
            Self::RatioAtMost(bar) => Some(format!("ratio at most {bar}")),
            Self::None => None,
        }
    }
}

/// A row.
#[derive(Debug)]
struct Figure {
    name: &'static str,
    ours: Ours,
    unit: &'static str,
    against: Against,
    limit_name: &'static str,
    bar: Bar,
    /// What was done, for the reader.
    how: &'static str,
}

/// The rows of `group`.
fn figures(group: Group) -> Vec<Figure> {
    let floor = Against::Limit(Limit::InProcess32, |ns| 1e3 / ns);
    let raw = |mtu: u16| Against::Limit(Limit::UdpThroughput(mtu + FRAME), |same| same);
    match group {
        Group::InProcess => [false, true]
            .map(|icrc| Figure {
                name: if icrc { "in_process_write_8_icrc" } else { "in_process_write_8" },
                ours: Ours::InProcess { icrc },
                unit: "M/s",
                against: floor,
                limit_name: "least device",
                bar: Bar::AtLeast(if icrc { 2.5 } else { 4.0 }),
                how: if icrc {
                    "the same, the ICRC made and checked"
                } else {
                    "RC WRITEs of 8 bytes, 32 under way, two devices on the simulated fabric, one thread"
                },
            })
            .into(),
        Group::Udp => [(Mtu::B4096, 4096), (Mtu::B1024, 1024)]
            .map(|(mtu, bytes)| Figure {
                name: if bytes == 4096 {
                    "udp_write_64k_mtu_4096"
                } else {
                    "udp_write_64k_mtu_1024"
                },
                ours: Ours::Throughput(mtu),
                unit: "GB/s",
                against: raw(bytes),
                limit_name: "raw UDP, GSO+GRO",
                bar: Bar::RatioAtLeast(0.6),
                how: "RC WRITEs of 64 KiB, 1 MiB under way, two processes on loopback; payload \
                      against all bytes of datagrams of the same length; 0.75 is aimed at",
            })
            .into(),
        Group::Latency => vec![Figure {
            name: "udp_send_8_half_round_trip",
            ours: Ours::Latency,
            unit: "us",
            against: Against::Limit(Limit::UdpLatency(8 + FRAME), |same| same),
            limit_name: "raw UDP, polling",
            bar: Bar::RatioAtMost(1.6),
            how: "RC SENDs of 8 bytes to and fro, two processes on loopback that poll",
        }],
        Group::QueuePairs => vec![
            Figure {
                name: "idle_qp_memory",
                ours: Ours::IdleQp,
                unit: "B",
                against: Against::Nothing,
                limit_name: "",
                bar: Bar::AtMost(4096.0),
                how: "10,000 connected RC pairs with queues of 16 and 16 requests: what the \
                      allocator counts (mallinfo2), divided by the 20,000 ends",
            },
            Figure {
                name: "one_busy_qp_of_10000",
                ours: Ours::InProcessAmong(MANY - 1),
                unit: "M/s",
                against: Against::Ours(Ours::InProcess { icrc: false }),
                limit_name: "one QP alone",
                bar: Bar::RatioAtLeast(0.9),
                how: "as in_process_write_8 on one of 10,000 connected pairs",
            },
        ],
        Group::Threads => vec![Figure {
            name: "two_threads_two_qps",
            ours: Ours::Threads(2),
            unit: "M/s",
            against: Against::Ours(Ours::Threads(1)),
            limit_name: "one thread",
            bar: Bar::None,
            how: "RC WRITEs of 8 bytes, 32 under way on each QP, to another process on loopback",
        }],
        Group::Perftest => perftest_figures(raw(4096)),
        Group::Memcpy | Group::Crc => Vec::new(),
    }
}

fn perftest_figures(raw: Against) -> Vec<Figure> {
    let polling = Against::Limit(Limit::UdpLatency(8 + FRAME), |same| same);
    let bandwidth = |name, program, how| Figure {
        name,
        ours: Ours::Perftest(program),
        unit: "GB/s",
        against: raw,
        limit_name: "raw UDP, GSO+GRO",
        bar: Bar::RatioAtLeast(0.5),
        how,
    };
    let latency = |name, program, most, how| Figure {
        name,
        ours: Ours::Perftest(program),
        unit: "us",
        against: polling,
        limit_name: "raw UDP, polling",
        bar: Bar::RatioAtMost(most),
        how,
    };
    let send_lat = "ib_send_lat -s 2, typical: both ends poll";
    let write_lat = "ib_write_lat -s 2, typical: both programs watch their memory, so that a \
                     device has to take the processor from them";
    vec![
        bandwidth("ib_write_bw", Program::WriteBandwidth, "ib_write_bw -s 65536 -m 4096, average"),
        bandwidth("ib_send_bw", Program::SendBandwidth, "ib_send_bw -s 65536 -m 4096, average"),
        latency("ib_send_lat", Program::SendLatency, 2.0, send_lat),
        latency("ib_write_lat", Program::WriteLatency, 8.0, write_lat),
    ]
}

const COLUMNS: [Column; 10] = [
    Column { key: "figure", title: "figure" },
    Column { key: "ours", title: "ours" },
    Column { key: "limit", title: "limit" },
    Column { key: "unit", title: "unit" },
    Column { key: "limit_is", title: "limit is" },
    Column { key: "ratio", title: "ratio" },
    Column { key: "bar", title: "bar" },
    Column { key: "verdict", title: "verdict" },
    Column { key: "samples", title: "samples" },
    Column { key: "waited_percent", title: "waited [%]" },
];

/// The figures of some groups, while they are sampled.
#[derive(Debug)]
pub(super) struct Figures(Vec<(Figure, Pairs)>);

/// Samples of a figure and of its limit, by turns.
#[derive(Debug, Default)]
struct Pairs {
    ours: Samples,
    limit: Samples,
    ratios: Vec<f64>,
}

impl Figures {
    /// Those of `groups`.
    pub(super) fn of(groups: &[Group]) -> Self {
        let all = groups.iter().copied().flat_map(figures);
        Self(all.map(|figure| (figure, Pairs::default())).collect())
    }

    /// Takes one sample of each figure, and one of its limit after it.
    pub(super) fn sample(&mut self, setting: &Setting) -> Result<(), Failure> {
        for (figure, pairs) in &mut self.0 {
            // The same memory is allocated each time.
            if figure.ours == Ours::IdleQp && pairs.ours.count() > 0 {
                continue;
            }
            // Other programs choose their cores themselves.
            let ours = if matches!(figure.ours, Ours::Perftest(_)) {
                figure.ours.sample(setting)?
            } else {
                setting.quiet_sample(|setting| figure.ours.sample(setting))?
            };
            pairs.ours.push(ours);
            if matches!(figure.against, Against::Nothing) {
                continue;
            }
            let limit = setting.quiet_sample(|setting| {
                let sample = figure.against.sample(setting)?;
                sample.ok_or_else(|| Failure::plain("bench limits: nothing to compare with"))
            })?;
            pairs.ratios.push(ours.value / limit.value);
            pairs.limit.push(limit);
        }
        Ok(())
    }

    /// The table.
    pub(super) fn table(&self) -> Table<10> {
        let mut table = Table::new(&COLUMNS);
        for (figure, pairs) in &self.0 {
            let middle = |samples: &Samples| samples.median_min_max().map(|(middle, ..)| middle);
            let ours = middle(&pairs.ours).unwrap_or(f64::NAN);
            let ratio = median(pairs.ratios.iter().copied());
            let disturbed = self.waited_of(pairs) > WAITED_MAX;
            let verdict = figure.bar.is_met(ours, ratio).map(|met| verdict(met, disturbed));
            let name = Some(figure.limit_name).filter(|name| !name.is_empty());
            table.push([
                figure.name.into(),
                ours.into(),
                middle(&pairs.limit).into(),
                figure.unit.into(),
                name.into(),
                ratio.into(),
                figure.bar.text().into(),
                verdict.into(),
                pairs.ours.count().into(),
                (self.waited_of(pairs) * 100.0).into(),
            ]);
        }
        table
    }

    fn waited_of(&self, pairs: &Pairs) -> f64 {
        pairs.ours.waited().max(pairs.limit.waited())
    }

    /// The largest share of time lost to others.
    pub(super) fn waited(&self) -> f64 {
        self.0.iter().map(|(_, pairs)| self.waited_of(pairs)).fold(0.0, f64::max)
    }

    /// What was done for each.
    pub(super) fn notes(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(figure, _)| format!("{}: {}.", figure.name, figure.how))
    }
}

/// A verdict over samples in which other programs had our cores says little.
const fn verdict(met: bool, disturbed: bool) -> &'static str {
    match (met, disturbed) {
        (true, false) => "met",
        (false, false) => "MISSED",
        (true, true) => "met (disturbed)",
        (false, true) => "MISSED (disturbed)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_met_on_its_right_side() {
        assert_eq!(Bar::AtLeast(4.0).is_met(4.0, None), Some(true));
        assert_eq!(Bar::AtLeast(4.0).is_met(3.9, Some(9.0)), Some(false));
        assert_eq!(Bar::AtMost(4096.0).is_met(4097.0, None), Some(false));
        assert_eq!(Bar::RatioAtLeast(0.6).is_met(1.0, Some(0.61)), Some(true));
        assert_eq!(Bar::RatioAtMost(1.6).is_met(1.0, Some(1.7)), Some(false));
        assert_eq!(Bar::RatioAtMost(1.6).is_met(1.0, None), None);
        assert_eq!(Bar::None.is_met(1.0, Some(1.0)), None);
    }

    #[test]
    fn names_are_unique_and_a_ratio_bar_has_something_to_compare_with() {
        let groups = [
            Group::InProcess,
            Group::Udp,
            Group::Latency,
            Group::QueuePairs,
            Group::Threads,
            Group::Perftest,
        ];
        let all: Vec<Figure> = groups.into_iter().flat_map(figures).collect();
        let names: std::collections::BTreeSet<_> = all.iter().map(|figure| figure.name).collect();
        assert_eq!(names.len(), all.len());
        for figure in all {
            let by_ratio = matches!(figure.bar, Bar::RatioAtLeast(_) | Bar::RatioAtMost(_));
            let alone = matches!(figure.against, Against::Nothing);
            assert!(!(by_ratio && alone), "{}", figure.name);
        }
    }
}
