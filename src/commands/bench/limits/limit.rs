//! The limits by name, taken in turns with the figures, and their tables.

use super::figure::Figures;
use super::sample::{Sample, Samples, Setting, WAITED_MAX, failed, median};
use super::{Group, LimitsArgs, alone, udp_latency, udp_throughput};
use crate::error::Failure;
use crate::output::{Column, Report, Table};

/// Sizes at which copying and CRC are measured: a small packet, a path MTU, a burst, a message that
/// leaves the first caches.
const MEMORY_SIZES: [usize; 4] = [1 << 10, 4 << 10, 64 << 10, 1 << 20];

/// Something that can be sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// UDP in bursts between two processes, by datagram size.
    UdpThroughput(u16),
    /// UDP between two processes that poll, by datagram size.
    UdpLatency(u16),
    /// A write within one thread, one at a time.
    InProcess1,
    /// A write within one thread, 32 at a time.
    InProcess32,
    /// Copying, by buffer size.
    Memcpy(usize),
    /// CRC-32, by buffer size.
    Crc32(usize),
}

impl Limit {
    /// Takes one sample, in [`Limit::unit`].
    pub(super) fn sample(self, setting: &Setting) -> Result<Sample, Failure> {
        match self {
            Self::UdpThroughput(size) => udp_throughput::sample(size, setting),
            Self::UdpLatency(size) => udp_latency::sample(size, setting),
            Self::InProcess1 => alone::in_process::<1>(setting),
            Self::InProcess32 => alone::in_process::<32>(setting),
            Self::Memcpy(size) => Ok(alone::memcpy(size, setting)),
            Self::Crc32(size) => Ok(alone::crc32(size, setting)),
        }
    }

    const fn unit(self) -> &'static str {
        match self {
            Self::UdpThroughput(_) | Self::Memcpy(_) | Self::Crc32(_) => "GB/s",
            Self::UdpLatency(_) => "us",
            Self::InProcess1 | Self::InProcess32 => "ns",
        }
    }

    /// Its key in JSON and for scripts.
    const fn key(self) -> &'static str {
        match self {
            Self::UdpThroughput(_) => "udp_throughput",
            Self::UdpLatency(_) => "udp_latency",
            Self::InProcess1 => "in_process_depth_1",
            Self::InProcess32 => "in_process_depth_32",
            Self::Memcpy(_) => "memcpy",
            Self::Crc32(_) => "crc32",
        }
    }

    /// Bytes at a time.
    const fn size(self) -> u64 {
        match self {
            Self::UdpThroughput(size) | Self::UdpLatency(size) => size as u64,
            Self::InProcess1 | Self::InProcess32 => 8,
            Self::Memcpy(size) | Self::Crc32(size) => size as u64,
        }
    }

    /// The limits of `group`.
    fn of(group: Group, datagrams: &[u16]) -> Vec<Self> {
        let datagrams = datagrams.iter().copied();
        match group {
            Group::Udp => datagrams.map(Self::UdpThroughput).collect(),
            Group::Latency => datagrams.map(Self::UdpLatency).collect(),
            Group::InProcess => vec![Self::InProcess1, Self::InProcess32],
            Group::Memcpy => MEMORY_SIZES.map(Self::Memcpy).to_vec(),
            Group::Crc => MEMORY_SIZES.map(Self::Crc32).to_vec(),
            Group::QueuePairs | Group::Threads | Group::Perftest => Vec::new(),
        }
    }
}

const GROUPS: [Group; 8] = [
    Group::Udp,
    Group::Latency,
    Group::InProcess,
    Group::Memcpy,
    Group::Crc,
    Group::QueuePairs,
    Group::Threads,
    Group::Perftest,
];

const COLUMNS: [Column; 10] = [
    Column { key: "limit", title: "limit" },
    Column { key: "bytes", title: "#bytes" },
    Column { key: "median", title: "median" },
    Column { key: "unit", title: "unit" },
    Column { key: "min", title: "min" },
    Column { key: "max", title: "max" },
    Column { key: "near", title: "near" },
    Column { key: "far", title: "far" },
    Column { key: "samples", title: "samples" },
    Column { key: "waited_percent", title: "waited [%]" },
];

/// Measures all that `args` ask for.
pub(super) fn report(args: &LimitsArgs) -> Result<Report, Failure> {
    let cores = Setting::cores().map_err(failed("learn the allowed cores"))?;
    let setting = Setting { time: args.sample_time(), cores, realtime: args.realtime };
    let mut groups = GROUPS.to_vec();
    groups.retain(|group| match args.only.as_slice() {
        [] => *group != Group::Perftest,
        only => only.contains(group),
    });
    let limits = groups.iter().flat_map(|&group| Limit::of(group, &args.size));
    let mut measured: Vec<(Limit, Samples)> =
        limits.map(|limit| (limit, Samples::default())).collect();
    let mut figures = Figures::of(&groups);
    for _ in 0..args.samples() {
        // One sample of each, then the next of each: what disturbs the machine for a while
        // disturbs all.
        for (limit, samples) in &mut measured {
            samples.push(setting.quiet_sample(|setting| limit.sample(setting))?);
        }
        figures.sample(&setting)?;
    }

    let line_ns = median(measured.iter().flat_map(|(_, samples)| samples.line_ns()));
    let mut table = Table::new(&COLUMNS);
    for (limit, samples) in &measured {
        let (middle, min, max) = samples.median_min_max().unwrap_or_default();
        table.push([
            limit.key().into(),
            limit.size().into(),
            middle.into(),
            limit.unit().into(),
            min.into(),
            max.into(),
            samples.near().into(),
            samples.far().into(),
            samples.count().into(),
            (samples.waited() * 100.0).into(),
        ]);
    }
    let (first, second) = cores;
    let mut report = Report::new("bench limits")
        .fact("cores", "cores", format!("{first}, {second}"))
        .fact("core_to_core_ns", "cache line from one to the other [ns]", line_ns)
        .table("limits", table)
        .table("figures", figures.table());
    figures.notes().for_each(|note| report.note(note));
    let waited = measured.iter().map(|(_, samples)| samples.waited());
    let waited = waited.fold(figures.waited(), f64::max);
    if waited > WAITED_MAX {
        report.note(format!(
            "Other programs had our cores for up to {:.0} % of a sample: figures may be too low. End \
             them, or try --realtime.",
            waited * 100.0
        ));
    }
    Ok(report)
}
