//! Carrying out a test, at either end, and its tables.

use std::time::Duration;

use softrnic_verbs::Context;

use super::Metric;
use super::bandwidth::{self, Flow};
use super::latency;
use super::plan::{End, Test};
use super::station::Station;
use crate::child::{self, Second};
use crate::cli::Shared;
use crate::device::Settings;
use crate::error::Failure;
use crate::exchange::{ANSWER_WITHIN, Exchange, Listener};
use crate::output::{Column, Report, Table, Value};
use crate::peer::{tell_failure, with_peer};
use crate::words;

/// How long the second process may take to begin, and to end.
const SECOND_WITHIN: Duration = Duration::from_secs(20);

/// Carries out `test` and prints what came of it.
pub(super) fn run(test: &Test, shared: &Shared) -> Result<(), Failure> {
    let report = match &test.end {
        End::Server => with_peer(shared, None, |context, exchange| serve(test, context, exchange))?,
        End::Client { host } => {
            with_peer(shared, Some(host), |context, exchange| measure(test, context, exchange))?
        }
        End::Local => local(test, shared)?,
        End::Second { meet } => return second(test, shared, *meet),
    };
    Ok(report.print(shared.json)?)
}

/// The client, with a server that it starts itself.
fn local(test: &Test, shared: &Shared) -> Result<Report, Failure> {
    let settings = Settings::new(shared)?;
    let context = match &shared.address {
        Some(address) => settings.open(address)?,
        None => settings.open_anywhere()?,
    };
    let listener = Listener::bind_local()?;
    let meet = format!("--meet={}", listener.port());
    let arguments = std::env::args_os().skip(1);
    let arguments = arguments
        .map(|argument| if argument == "--local" { meet.clone().into() } else { argument });
    let second = Second::start(arguments)?;
    let mut exchange = listener.accept(Some(SECOND_WITHIN))?;
    let report = tell_failure(&mut exchange, |exchange| measure(test, &context, exchange))?;
    second.finish(SECOND_WITHIN)?;
    Ok(report)
}

/// The server that [`local`] has started.
fn second(test: &Test, shared: &Shared, meet: u16) -> Result<(), Failure> {
    child::end_with_parent();
    let mut exchange = Exchange::connect("127.0.0.1", meet)?;
    // What fails here, the other process reports.
    _ = tell_failure(&mut exchange, |exchange| {
        let settings = Settings::second(shared)?;
        let context = match &shared.address {
            Some(address) if settings.is_hardware() => settings.open(address)?,
            Some(_) | None => settings.open_anywhere()?,
        };
        serve(test, &context, exchange)
    });
    Ok(())
}

/// The client's side.
fn measure(test: &Test, context: &Context, exchange: &mut Exchange) -> Result<Report, Failure> {
    let mut station = Station::prepare(test, context, exchange)?;
    let mut report = about(test, context, &station);
    match test.metric {
        Metric::Bw => {
            let mut table = Table::new(&BANDWIDTH);
            for &size in &test.sizes {
                let flow = bandwidth::send(&mut station, exchange, size)?;
                table.push(flow_row(size, &flow));
            }
            report = report.table("bandwidth", table);
        }
        Metric::Lat => {
            let mut table = Table::new(&LATENCY);
            for &size in &test.sizes {
                let times = latency::measure(&mut station, exchange, size)?;
                table.push(times_row(size, times));
            }
            report = report.table("latency", table);
        }
    }
    exchange.meet("done", ANSWER_WITHIN)?;
    Ok(report)
}

/// The server's side.
fn serve(test: &Test, context: &Context, exchange: &mut Exchange) -> Result<Report, Failure> {
    let mut station = Station::prepare(test, context, exchange)?;
    for &size in &test.sizes {
        match test.metric {
            Metric::Bw => bandwidth::serve(&mut station, exchange, size)?,
            Metric::Lat => latency::serve(&mut station, exchange, size)?,
        }
    }
    exchange.meet("done", ANSWER_WITHIN)?;
    let mut report = about(test, context, &station);
    report.note("The client has the figures.");
    Ok(report)
}

fn about(test: &Test, context: &Context, station: &Station<'_>) -> Report {
    let local = context.first_gid().ok().map(|(_, gid)| gid.to_string());
    Report::new(test.command())
        .fact("service", "service", words::service(test.transport))
        .fact("local", "local", local)
        .fact("remote", "remote", station.peer_gid())
        .fact("mtu", "path MTU", u64::from(test.mtu.bytes()))
        .fact("queue_pairs", "queue pairs", u64::from(test.queue_pairs))
        .fact("depth", "operations under way", u64::from(test.depth))
}

const BANDWIDTH: [Column; 6] = [
    Column { key: "bytes", title: "#bytes" },
    Column { key: "iterations", title: "#iterations" },
    Column { key: "peak_mib_s", title: "peak [MiB/s]" },
    Column { key: "average_mib_s", title: "average [MiB/s]" },
    Column { key: "rate_m_s", title: "rate [M/s]" },
    Column { key: "lost", title: "#lost" },
];

fn flow_row(size: u64, flow: &Flow) -> [Value; 6] {
    const MIB: f64 = (1 << 20) as f64;
    let arrived = flow.operations - flow.lost.unwrap_or(0);
    let rate = arrived as f64 / flow.elapsed.as_secs_f64();
    [
        size.into(),
        flow.operations.into(),
        (flow.peak * size as f64 / MIB).into(),
        (rate * size as f64 / MIB).into(),
        (rate / 1e6).into(),
        flow.lost.into(),
    ]
}

const LATENCY: [Column; 9] = [
    Column { key: "bytes", title: "#bytes" },
    Column { key: "iterations", title: "#iterations" },
    Column { key: "min_us", title: "min [us]" },
    Column { key: "max_us", title: "max [us]" },
    Column { key: "median_us", title: "median [us]" },
    Column { key: "average_us", title: "average [us]" },
    Column { key: "stdev_us", title: "stdev [us]" },
    Column { key: "p99_us", title: "99 % [us]" },
    Column { key: "p999_us", title: "99.9 % [us]" },
];

fn times_row(size: u64, mut times: Vec<f64>) -> [Value; 9] {
    times.sort_by(f64::total_cmp);
    let count = times.len() as f64;
    let average = times.iter().sum::<f64>() / count;
    let variance = times.iter().map(|time| (time - average).powi(2)).sum::<f64>() / count;
    let at = |thousandths: usize| {
        let index = (times.len() * thousandths / 1000).min(times.len().saturating_sub(1));
        Value::from(times.get(index).copied())
    };
    [
        size.into(),
        (times.len() as u64).into(),
        at(0),
        at(1000),
        at(500),
        average.into(),
        variance.sqrt().into(),
        at(990),
        at(999),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_times_has_its_order_statistics() {
        let times = (1..=1000).rev().map(f64::from).collect();
        let [_, count, min, max, median, average, stdev, p99, p999] = times_row(8, times);
        assert_eq!(count, Value::Count(1000));
        let number = Value::Number;
        assert_eq!((min, max, median), (number(1.0), number(1000.0), number(501.0)));
        assert_eq!((average, p99, p999), (number(500.5), number(991.0), number(1000.0)));
        let Value::Number(stdev) = stdev else { panic!("{stdev:?}") };
        assert!((stdev - 288.675).abs() < 0.001, "{stdev}");
    }

    #[test]
    fn a_row_of_one_time_has_one_value() {
        let [.., stdev, p99, p999] = times_row(8, vec![3.0]);
        assert_eq!(
            (stdev, p99, p999),
            (Value::Number(0.0), Value::Number(3.0), Value::Number(3.0))
        );
    }

    #[test]
    fn the_rate_is_that_of_what_arrived() {
        let elapsed = Duration::from_secs(2);
        let flow = Flow { operations: 100, elapsed, peak: 64.0, lost: Some(20) };
        let [bytes, count, peak, average, rate, lost] = flow_row(1 << 20, &flow);
        assert_eq!(
            (bytes, count, lost),
            (Value::Count(1 << 20), Value::Count(100), Value::Count(20))
        );
        assert_eq!((peak, average), (Value::Number(64.0), Value::Number(40.0)));
        assert_eq!(rate, Value::Number(40e-6));
    }
}
