//! Moves frames between a device and its link. Drivers differ in who calls this, and in what
//! "now" and "wait" mean.

use std::io;

use softrnic_model::verbs::QpNum;
use softrnic_model::{Device, FrameOut, Instant, Memory};

use crate::{Link, Outgoing};

/// Takes in what has arrived, lets time pass, sends what is due. Returns how many packets came in
/// and went out: 0 means that there was nothing to do.
///
/// # Errors
/// The link failed for good.
pub fn pump<M: Memory + ?Sized>(
    device: &mut Device,
    link: &mut (dyn Link + '_),
    memory: &M,
    now: Instant,
) -> io::Result<usize> {
    let received = receive(device, link, memory, now)?;
    Ok(received + send(device, link, memory, now)?)
}

/// How many batches are taken in before something that is due counts as late.
const BATCHES_MAX: usize = 64;

/// Takes in what has arrived, one batch, and lets time pass. Returns how many packets came in.
///
/// When something is due, all that has arrived is taken in first: a thread that did not get to run
/// for a while finds answers and time-outs at once, and an answer that waits is no silence.
///
/// # Errors
/// The link failed for good.
pub fn receive<M: Memory + ?Sized>(
    device: &mut Device,
    link: &mut (dyn Link + '_),
    memory: &M,
    now: Instant,
) -> io::Result<usize> {
    let mut batch = |device: &mut Device| {
        link.receive(now, &mut |route, packet| device.on_frame(now, memory, route, packet))
    };
    let mut received = batch(device)?;
    if device.next_deadline().is_some_and(|deadline| deadline <= now) {
        for _ in 1..BATCHES_MAX {
            match batch(device)? {
                0 => break,
                more => received += more,
            }
        }
        device.on_time(now);
    }
    Ok(received)
}

/// Sends what is due. Returns how many packets went out.
///
/// # Errors
/// The link failed for good.
pub fn send<M: Memory + ?Sized>(
    device: &mut Device,
    link: &mut (dyn Link + '_),
    memory: &M,
    now: Instant,
) -> io::Result<usize> {
    let sent = transmit(device, link, memory, now, Device::next_frame)?;
    link.flush(now)?;
    Ok(sent)
}

/// Sends what is due, the requests of one queue pair first: right after a post they are what the
/// peer waits for, and answers that are owed leave in the same burst behind them.
///
/// # Errors
/// The link failed for good.
pub fn send_first<M: Memory + ?Sized>(
    device: &mut Device,
    link: &mut (dyn Link + '_),
    memory: &M,
    now: Instant,
    qp: QpNum,
) -> io::Result<usize> {
    let first = transmit(device, link, memory, now, |device| device.next_request(qp))?;
    Ok(first + send(device, link, memory, now)?)
}

fn transmit<M: Memory + ?Sized>(
    device: &mut Device,
    link: &mut (dyn Link + '_),
    memory: &M,
    now: Instant,
    mut next: impl FnMut(&mut Device) -> Option<FrameOut>,
) -> io::Result<usize> {
    let mut sent = 0;
    while link.ready() {
        let Some(frame) = next(device) else { break };
        let outgoing = Outgoing { route: frame.route, len: frame.len(), damage: None };
        link.transmit(now, outgoing, &mut |out| device.fill(now, memory, &frame, out))?;
        sent += 1;
    }
    Ok(sent)
}

/// When the device or its link next has something to do by itself.
#[must_use]
pub fn next_deadline(device: &Device, link: &(dyn Link + '_)) -> Option<Instant> {
    match (device.next_deadline(), link.next_deadline()) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
