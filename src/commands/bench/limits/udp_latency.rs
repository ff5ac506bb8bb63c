//! How soon a UDP datagram of one process reaches another at best: both poll without a pause, so
//! that nobody has to be woken.

use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::sync::atomic::Ordering::Acquire;
use std::time::Instant;

use super::pair::{Job, Pair};
use super::sample::{Sample, Setting, failed, median};
use super::sys::Page;
use crate::error::Failure;

/// No sample has more round trips.
const ROUNDS_MAX: usize = 20_000;

/// One sample: half a round trip of `size` bytes in microseconds, the median of many.
pub(super) fn sample(size: u16, setting: &Setting) -> Result<Sample, Failure> {
    let pair = Pair::start(Job::UdpEcho, setting)?;
    let halves = round_trips(size, &pair.socket, setting).map_err(failed("play ping-pong"))?;
    let half = median(halves.into_iter()).ok_or_else(|| {
        Failure::failed(
            "bench limits: no UDP datagram came back over the loopback address",
            "see whether a packet filter drops them",
        )
    })?;
    pair.finish(|_| half)
}

/// Half of each round trip, in microseconds.
fn round_trips(size: u16, socket: &UdpSocket, setting: &Setting) -> io::Result<Vec<f64>> {
    socket.set_nonblocking(true)?;
    let message = vec![0; usize::from(size)];
    let mut buffer = vec![0; 1 << 16];
    let mut halves = Vec::with_capacity(ROUNDS_MAX);
    let mut begun = Instant::now();
    let end = begun + setting.time;
    while halves.len() < ROUNDS_MAX && begun < end {
        socket.send(&message)?;
        // Nothing is lost on the way; if it were, the sample would end here.
        if poll(socket, &mut buffer, || Instant::now() >= end)?.is_none() {
            break;
        }
        let now = Instant::now();
        halves.push((now - begun).as_secs_f64() * 1e6 / 2.0);
        begun = now;
    }
    Ok(halves)
}

/// The peer: sends back until the parent stops.
pub(super) fn echo(page: &Page, socket: &UdpSocket) -> io::Result<[u64; 3]> {
    socket.set_nonblocking(true)?;
    let mut buffer = vec![0; 1 << 16];
    let mut rounds = 0;
    while let Some(count) = poll(socket, &mut buffer, || page.stop.0.load(Acquire) != 0)? {
        let (message, _) = buffer.split_at(count);
        socket.send(message)?;
        rounds += 1;
    }
    Ok([rounds, 0, 0])
}

/// Receives without sleeping; `None` when `over` says so, which is asked now and then.
fn poll(
    socket: &UdpSocket,
    buffer: &mut [u8],
    over: impl Fn() -> bool,
) -> io::Result<Option<usize>> {
    let mut polls = 0u32;
    loop {
        match socket.recv(buffer) {
            Ok(count) => return Ok(Some(count)),
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            Err(_) => polls = polls.wrapping_add(1),
        }
        if polls.is_multiple_of(1024) && over() {
            return Ok(None);
        }
    }
}
