//! Bandwidth: as many operations under way as the depth allows.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use softrnic_verbs::{QpType, Wc, WcOpcode};

use super::plan::{Operation, Repeat};
use super::station::Station;
use crate::error::Failure;
use crate::exchange::{ANSWER_WITHIN, Exchange};
use crate::peer::{POINT_WITHIN, give_up_after};

/// The client's side of one size.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Sent {
    messages: u64,
}

/// The server's answer.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Got {
    /// Messages that have arrived; `None` where it cannot know.
    messages: Option<u64>,
}

/// What was found at one size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub(super) operations: u64,
    pub(super) elapsed: Duration,
    /// Operations a second in the best [`SLICE`].
    pub(super) peak: f64,
    /// Messages that did not arrive, where that is known.
    pub(super) lost: Option<u64>,
}

/// The peak is that of a slice of so long.
const SLICE: Duration = Duration::from_millis(20);
/// Where messages may be lost, none comes any more after such a silence.
const SILENCE: Duration = Duration::from_millis(300);
/// Completions taken at once.
const BATCH: usize = 64;

/// Measures at the client.
pub(super) fn send(
    station: &mut Station<'_>,
    exchange: &mut Exchange,
    size: u64,
) -> Result<Flow, Failure> {
    exchange.meet(&point(size), POINT_WITHIN)?;
    let mut flow = run(station, exchange, size)?;
    exchange.tell(&Sent { messages: flow.operations })?;
    let Got { messages } = exchange.hear_told(POINT_WITHIN)?;
    flow.lost = messages.map(|arrived| flow.operations.saturating_sub(arrived));
    Ok(flow)
}

/// The server's part.
pub(super) fn serve(
    station: &mut Station<'_>,
    exchange: &mut Exchange,
    size: u64,
) -> Result<(), Failure> {
    exchange.meet(&point(size), POINT_WITHIN)?;
    let messages = if station.test.operation == Operation::Send {
        Some(receive(station, exchange)?)
    } else {
        let Sent { .. } = exchange.hear_told(POINT_WITHIN)?;
        None
    };
    Ok(exchange.tell(&Got { messages })?)
}

fn point(size: u64) -> String {
    format!("{size} bytes")
}

fn run(station: &mut Station<'_>, exchange: &mut Exchange, size: u64) -> Result<Flow, Failure> {
    let wanted = station.test.iterations(size);
    let begun = Instant::now();
    let end = match station.test.repeat {
        Repeat::For(time) => Some(begun + time),
        Repeat::Times(_) | Repeat::TimesOrBytes(_) => None,
    };
    let mut peak = Peak::new(begun);
    let (mut posted, mut done) = (0, 0);
    let mut completions = [Wc::default(); BATCH];
    loop {
        let over = end.is_some_and(|end| Instant::now() >= end);
        let left = if over { 0 } else { wanted.map_or(u64::MAX, |wanted| wanted - posted) };
        posted += post(station, size, left)?;
        if posted == done {
            break;
        }
        let count = station.completions.wait(exchange, &mut completions)?;
        for wc in completions.iter().take(count) {
            station.sent(wc.wr_id);
            done += 1;
        }
        peak.look(done);
    }
    let elapsed = begun.elapsed();
    let average = done as f64 / elapsed.as_secs_f64();
    Ok(Flow { operations: done, elapsed, peak: peak.best().max(average), lost: None })
}

/// Fills the queues of all lanes, with `left` at most.
fn post(station: &mut Station<'_>, size: u64, mut left: u64) -> Result<u64, Failure> {
    let mut posted = 0;
    for lane in 0..station.lanes.len() {
        while left > 0 {
            let count = station.post(lane, size, left)?;
            if count == 0 {
                break;
            }
            left -= count;
            posted += count;
        }
    }
    Ok(posted)
}

/// Receives until all has come that is known to have been sent; returns how many came.
fn receive(station: &mut Station<'_>, exchange: &mut Exchange) -> Result<u64, Failure> {
    let reliable = station.test.transport == QpType::Rc;
    let mut completions = [Wc::default(); BATCH];
    let (mut received, mut sent, mut silent_since) = (0, None, None);
    while sent != Some(received) {
        let count = match sent {
            None => station.completions.wait_or_word(exchange, &mut completions)?,
            Some(_) => station.completions.some(&mut completions)?,
        };
        for wc in completions.iter().take(count) {
            if wc.opcode == WcOpcode::Recv {
                received += 1;
                station.received(wc.wr_id)?;
            }
        }
        if count > 0 {
            silent_since = None;
        } else if sent.is_none() {
            let Sent { messages } = exchange.hear_told(ANSWER_WITHIN)?;
            sent = Some(messages);
        } else if reliable {
            give_up_after(ANSWER_WITHIN, &mut silent_since)?;
        } else if give_up_after(SILENCE, &mut silent_since).is_err() {
            break;
        }
    }
    Ok(received)
}

/// Finds the best slice of a run.
struct Peak {
    since: Instant,
    done: u64,
    best: f64,
}

impl Peak {
    const fn new(begun: Instant) -> Self {
        Self { since: begun, done: 0, best: 0.0 }
    }

    /// `done` operations have been done so far.
    fn look(&mut self, done: u64) {
        let elapsed = self.since.elapsed();
        if elapsed >= SLICE {
            self.best = self.best.max((done - self.done) as f64 / elapsed.as_secs_f64());
            (self.since, self.done) = (Instant::now(), done);
        }
    }

    /// Operations a second.
    const fn best(&self) -> f64 {
        self.best
    }
}
