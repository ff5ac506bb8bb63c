//! Latency: one operation at a time. SEND and WRITE go back and forth, and half of that is told; a
//! READ and an atomic are there and back by themselves.

use std::time::{Duration, Instant};

use softrnic_verbs::{Wc, WcOpcode};

use super::plan::{Operation, Repeat};
use super::station::Station;
use crate::error::Failure;
use crate::exchange::{ANSWER_WITHIN, Exchange};
use crate::peer::{POINT_WITHIN, give_up_after};

/// Looks into memory between two looks at the clock.
const LOOKS: u32 = 256;
/// How long a WRITE may take to show.
const PATIENCE: Duration = Duration::from_secs(10);

/// Measures at the client: microseconds, one for each operation.
pub(super) fn measure(
    station: &mut Station<'_>,
    exchange: &mut Exchange,
    size: u64,
) -> Result<Vec<f64>, Failure> {
    meet(station, exchange, size)?;
    let wanted = station.test.iterations(size);
    let mut times = Vec::new();
    let mut begun = Instant::now();
    let end = match station.test.repeat {
        Repeat::For(time) => Some(begun + time),
        Repeat::Times(_) | Repeat::TimesOrBytes(_) => None,
    };
    let share = match station.test.operation {
        Operation::Send | Operation::Write => 0.5,
        Operation::Read | Operation::Atomic(_) => 1.0,
    };
    while wanted.is_none_or(|wanted| (times.len() as u64) < wanted)
        && end.is_none_or(|end| begun < end)
    {
        there_and_back(station, exchange, size, times.len() as u64)?;
        let now = Instant::now();
        times.push((now - begun).as_secs_f64() * 1e6 * share);
        begun = now;
    }
    exchange.tell(&times.len())?;
    exchange.meet("measured", POINT_WITHIN)?;
    Ok(times)
}

/// The server's part.
pub(super) fn serve(
    station: &mut Station<'_>,
    exchange: &mut Exchange,
    size: u64,
) -> Result<(), Failure> {
    meet(station, exchange, size)?;
    match station.test.operation {
        Operation::Send => send_back(station, exchange, size)?,
        Operation::Write => write_back(station, exchange, size)?,
        Operation::Read | Operation::Atomic(_) => {}
    }
    let _times: usize = exchange.hear_told(POINT_WITHIN)?;
    Ok(exchange.meet("measured", ANSWER_WITHIN)?)
}

fn meet(station: &Station<'_>, exchange: &mut Exchange, size: u64) -> Result<(), Failure> {
    station.clear_mark(size)?;
    Ok(exchange.meet(&format!("{size} bytes"), POINT_WITHIN)?)
}

fn there_and_back(
    station: &mut Station<'_>,
    exchange: &mut Exchange,
    size: u64,
    round: u64,
) -> Result<(), Failure> {
    match station.test.operation {
        Operation::Send => {
            post_one(station, exchange, size)?;
            while await_completion(station, exchange)? != WcOpcode::Recv {}
        }
        Operation::Write => {
            station.mark(size, mark(round))?;
            post_one(station, exchange, size)?;
            let spoken = !await_mark(station, exchange, size, mark(round))?;
            if spoken {
                return Err(Failure::plain("the server ended before its time"));
            }
        }
        Operation::Read | Operation::Atomic(_) => {
            post_one(station, exchange, size)?;
            await_completion(station, exchange)?;
        }
    }
    Ok(())
}

/// The mark of a round, never 0.
fn mark(round: u64) -> u8 {
    u8::try_from(round % 255).unwrap_or(0) + 1
}

/// Posts one request, after waiting for room.
fn post_one(station: &mut Station<'_>, exchange: &mut Exchange, size: u64) -> Result<(), Failure> {
    while station.post(0, size, 1)? == 0 {
        await_completion(station, exchange)?;
    }
    Ok(())
}

/// Waits for one completion, and keeps the books.
fn await_completion(
    station: &mut Station<'_>,
    exchange: &mut Exchange,
) -> Result<WcOpcode, Failure> {
    let mut wc = [Wc::default()];
    station.completions.wait(exchange, &mut wc)?;
    book(station, &wc[0])?;
    Ok(wc[0].opcode)
}

fn book(station: &mut Station<'_>, wc: &Wc) -> Result<(), Failure> {
    if wc.opcode == WcOpcode::Recv {
        return station.received(wc.wr_id);
    }
    station.sent(wc.wr_id);
    Ok(())
}

/// Answers each SEND with one, until the client has something to say.
fn send_back(station: &mut Station<'_>, exchange: &mut Exchange, size: u64) -> Result<(), Failure> {
    let mut wc = [Wc::default()];
    while station.completions.wait_or_word(exchange, &mut wc)? > 0 {
        book(station, &wc[0])?;
        if wc[0].opcode == WcOpcode::Recv {
            post_one(station, exchange, size)?;
        }
    }
    Ok(())
}

/// Answers each WRITE with one, until the client has something to say.
fn write_back(
    station: &mut Station<'_>,
    exchange: &mut Exchange,
    size: u64,
) -> Result<(), Failure> {
    for round in 0.. {
        if !await_mark(station, exchange, size, mark(round))? {
            break;
        }
        station.mark(size, mark(round))?;
        post_one(station, exchange, size)?;
    }
    Ok(())
}

/// Looks into memory until a message with `mark` has come; false when the peer has something to
/// say instead.
fn await_mark(
    station: &mut Station<'_>,
    exchange: &mut Exchange,
    size: u64,
    mark: u8,
) -> Result<bool, Failure> {
    let mut since = None;
    loop {
        for _ in 0..LOOKS {
            if station.mark_seen(size)? == mark {
                return Ok(true);
            }
            // Completions of own WRITEs; looking for them also lets the device work.
            let mut wc = [Wc::default()];
            if station.completions.take(&mut wc)? == 1 {
                book(station, &wc[0])?;
            }
        }
        if exchange.has_spoken()? {
            return Ok(false);
        }
        give_up_after(PATIENCE, &mut since)?;
    }
}
