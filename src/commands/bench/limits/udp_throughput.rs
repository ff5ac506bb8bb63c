//! How much UDP carries from one process to another at best: bursts that leave in one call
//! (`UDP_SEGMENT`) and arrive in one (`UDP_GRO`), with 1 MiB under way by a credit that costs
//! nothing, for it lies in shared memory.

use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::{Duration, Instant};

use super::pair::{Job, Pair};
use super::sample::{Sample, Setting};
use super::sys::{self, Page};
use crate::error::Failure;

/// Bytes under way.
const WINDOW: u64 = 1 << 20;
/// Datagrams under way however large they are.
const WINDOW_PACKETS_MIN: u64 = 64;
/// Bytes of a burst: what the length field of an IPv4 datagram leaves.
const BURST_MAX: usize = 65_507;
/// Datagrams of a burst: UDP_MAX_SEGMENTS of older kernels.
const SEGMENTS_MAX: usize = 64;
/// When nothing has arrived for so long, what is under way is lost.
const LOST_AFTER: Duration = Duration::from_millis(20);

/// One sample: GB/s of datagrams of `size` bytes that arrived.
pub(super) fn sample(size: u16, setting: &Setting) -> Result<Sample, Failure> {
    let pair = Pair::start(Job::UdpReceive, setting)?;
    send_for(setting.time, size, pair.page(), &pair.socket).map_err(|error| {
        Failure::failed(
            format!("bench limits: a burst of UDP datagrams cannot be sent: {error}"),
            "UDP_SEGMENT needs Linux 4.18 or later and a loopback MTU above the datagram size",
        )
    })?;
    // Bytes over nanoseconds are GB/s.
    pair.finish(|[bytes, elapsed_ns, _]| bytes as f64 / elapsed_ns.max(1) as f64)
}

/// The sender.
fn send_for(time: Duration, size: u16, page: &Page, socket: &UdpSocket) -> io::Result<()> {
    let bytes = usize::from(size);
    let segments = (BURST_MAX / bytes).clamp(1, SEGMENTS_MAX);
    let window = (WINDOW / u64::from(size)).max(WINDOW_PACKETS_MIN);
    let burst: Vec<u8> = (0..=u8::MAX).cycle().take(segments * bytes).collect();
    let end = Instant::now() + time;
    let (mut sent, mut lost) = (0, 0);
    loop {
        let now = Instant::now();
        if now >= end {
            return Ok(());
        }
        if !credit_comes(page, sent - lost, window, end.min(now + LOST_AFTER)) {
            lost = sent.saturating_sub(page.credit.0.load(Acquire));
            continue;
        }
        match sys::send_segments(socket, &burst, size) {
            Ok(()) => sent += segments as u64,
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether the same call may succeed soon.
fn is_passing(error: &io::Error) -> bool {
    error.kind() == ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::ENOBUFS)
}

/// Spins until fewer than `window` of `sent` packets are under way; false when `until` comes first.
fn credit_comes(page: &Page, sent: u64, window: u64, until: Instant) -> bool {
    let mut spins = 0u32;
    // Packets that were written off and arrive after all make the difference negative.
    while sent.saturating_sub(page.credit.0.load(Acquire)) > window {
        std::hint::spin_loop();
        spins = spins.wrapping_add(1);
        if spins.is_multiple_of(256) && Instant::now() >= until {
            return false;
        }
    }
    true
}

/// The peer: receives until the parent stops and nothing is left, and tells bytes, and nanoseconds
/// from the first arrival to the last.
pub(super) fn receive(page: &Page, socket: &UdpSocket) -> io::Result<[u64; 3]> {
    sys::coalesce_received(socket)?;
    socket.set_nonblocking(true)?;
    let mut buffer = vec![1; 1 << 16];
    let (mut packets, mut bytes) = (0, 0);
    let mut span: Option<(Instant, Instant)> = None;
    loop {
        match sys::receive_coalesced(socket, &mut buffer) {
            Ok(received) => {
                packets += received.bytes.div_ceil(received.segment) as u64;
                page.credit.0.store(packets, Release);
                bytes += received.bytes as u64;
                let now = Instant::now();
                span = Some((span.map_or(now, |(first, _)| first), now));
            }
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            Err(_) if page.stop.0.load(Acquire) != 0 => {
                let elapsed = span.map_or(Duration::ZERO, |(first, last)| last - first);
                let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
                return Ok([bytes, elapsed_ns, packets]);
            }
            Err(_) => {}
        }
    }
}
