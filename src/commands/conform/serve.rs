//! The helper on the host of a device that is judged from the wire.

use std::net::{IpAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use softrnic_conformance::program::serve::{News, serve};

use super::ServeArgs;
use crate::cli::Shared;
use crate::device::Settings;
use crate::error::Failure;
use crate::units::Address;

pub(super) fn run(args: &ServeArgs, shared: &Shared) -> Result<(), Failure> {
    let settings = Settings::new(shared)?;
    let loopback = Address::Ips(vec![std::net::Ipv4Addr::LOCALHOST.into()]);
    let context = match &shared.address {
        None if settings.is_hardware() => settings.open_anywhere()?,
        address => settings.open(address.as_ref().unwrap_or(&loopback))?,
    };
    let at = (args.bind, args.listen);
    let listener = TcpListener::bind(at).map_err(|error| {
        Failure::failed(
            format!("TCP port {} cannot be listened on: {error}", args.listen),
            "another helper may run; --listen takes another port",
        )
    })?;
    let (_, gid) = context.first_gid()?;
    eprintln!("the device at {gid} can be judged: softrnic conform --peer IP:{}", args.listen);
    let failed = |error: std::io::Error| Failure::plain(format!("it cannot listen: {error}"));
    let visits = Arc::new(Mutex::new(Visits::default()));
    let observed = Arc::clone(&visits);
    let clerk = thread::Builder::new().name("visits".into()).spawn(move || {
        loop {
            thread::sleep(QUIET / 4);
            observed.lock().unwrap_or_else(PoisonError::into_inner).end_if_quiet(Instant::now());
        }
    });
    clerk.map_err(|error| Failure::plain(format!("no thread: {error}")))?;
    let mut tell = |from: std::net::SocketAddr, news| {
        let mut visits = visits.lock().unwrap_or_else(PoisonError::into_inner);
        visits.hear(from.ip(), news, Instant::now());
    };
    serve(&listener, context.verbs(), &mut tell).map_err(failed)
}

/// A judge that has not come back for so long is done.
const QUIET: Duration = Duration::from_secs(3);

/// The judge that comes again and again, once for each case.
#[derive(Debug, Default)]
struct Visits(Option<Visit>);

#[derive(Debug)]
struct Visit {
    judge: IpAddr,
    began: Instant,
    last: Instant,
    is_here: bool,
    cases: u64,
    commands: u64,
    given_up: u64,
    /// Why one was given up last.
    why: String,
}

impl Visits {
    /// Somebody comes or goes. Who is new is told of.
    fn hear(&mut self, judge: IpAddr, news: News, now: Instant) {
        if self.0.as_ref().is_some_and(|visit| visit.judge != judge) {
            self.end();
        }
        let visit = self.0.get_or_insert_with(|| {
            eprintln!("{judge} judges the device");
            Visit::new(judge, now)
        });
        visit.last = now;
        visit.is_here = matches!(news, News::Came);
        match news {
            News::Came => {}
            // Before it begins it looks whether anybody is here.
            News::Went(0) => {}
            News::Went(commands) => {
                visit.cases += 1;
                visit.commands += commands;
            }
            News::GivenUp(error) => {
                visit.given_up += 1;
                visit.why = error.to_string();
            }
        }
    }

    fn end_if_quiet(&mut self, now: Instant) {
        let is_over = |visit: &Visit| !visit.is_here && now.duration_since(visit.last) >= QUIET;
        if self.0.as_ref().is_some_and(is_over) {
            self.end();
        }
    }

    fn end(&mut self) {
        if let Some(visit) = self.0.take() {
            eprintln!("{}", visit.summary());
        }
    }
}

impl Visit {
    const fn new(judge: IpAddr, now: Instant) -> Self {
        let why = String::new();
        let (cases, commands, given_up) = (0, 0, 0);
        Self { judge, began: now, last: now, is_here: true, cases, commands, given_up, why }
    }

    fn summary(&self) -> String {
        let Self { judge, cases, commands, given_up, why, .. } = self;
        let seconds = self.last.duration_since(self.began).as_secs_f64();
        let mut text =
            format!("{judge} is done: {cases} cases, {commands} commands, {seconds:.1} s");
        if *given_up > 0 {
            text.push_str(&format!("; {given_up} were given up, the last because: {why}"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_judge_is_told_of_once_when_it_is_done() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let judge = IpAddr::from([10, 0, 0, 1]);
        let mut visits = Visits::default();
        for (second, news) in [
            (0, News::Came),
            (0, News::Went(0)),
            (0, News::Came),
            (1, News::Went(12)),
            (1, News::Came),
            (2, News::GivenUp(std::io::Error::other("line 1 has no end"))),
        ] {
            visits.hear(judge, news, at(second));
        }
        visits.end_if_quiet(at(4));
        let told = visits.0.as_ref().map(Visit::summary).unwrap_or_default();
        assert_eq!(
            told,
            "10.0.0.1 is done: 1 cases, 12 commands, 2.0 s; \
             1 were given up, the last because: line 1 has no end"
        );
        visits.hear(judge, News::Came, at(4));
        visits.end_if_quiet(at(60));
        assert!(visits.0.is_some(), "a case may take long");
        visits.hear(judge, News::Went(1), at(60));
        visits.end_if_quiet(at(63));
        assert!(visits.0.is_none());
    }
}
