//! Inputs to begin with.

use std::fs;
use std::io;
use std::path::Path;

use softrnic_conformance::replay::Reader;
use softrnic_model::wire::{Operation, Packet, RoceFrame, Service};

/// The seeds of a target, made from a capture (pcapng) and from what the target knows.
#[must_use]
pub fn seeds(target: &str, capture: &[u8]) -> Vec<Vec<u8>> {
    match target {
        "frame" => frames(capture).map(<[u8]>::to_vec).collect(),
        "responder" => conversations(capture),
        "requester" => answers(),
        "protection" => accesses(),
        "capture" => vec![capture.to_vec(), capture[..capture.len() / 2].to_vec()],
        "device" => verbs(),
        "service" => messages(),
        _ => Vec::new(),
    }
}

/// Writes the seeds of a target into a folder, one file each.
///
/// # Errors
/// The folder cannot be made or written.
pub fn write(target: &str, capture: &[u8], folder: &Path) -> io::Result<usize> {
    fs::create_dir_all(folder)?;
    let all = seeds(target, capture);
    for (number, seed) in all.iter().enumerate() {
        fs::write(folder.join(format!("seed-{number:04}")), seed)?;
    }
    Ok(all.len())
}

fn frames(capture: &[u8]) -> impl Iterator<Item = &[u8]> {
    Reader::new(capture).filter_map(Result::ok).map(|frame| frame.bytes)
}

/// The requests of each scenario for one queue pair, one behind the other.
fn conversations(capture: &[u8]) -> Vec<Vec<u8>> {
    let mut all: Vec<((u8, u32), Vec<u8>)> = Vec::new();
    for bytes in frames(capture) {
        let Ok(frame) = RoceFrame::parse(bytes) else { continue };
        let Ok(packet) = Packet::parse(frame.packet) else { continue };
        let Some(facts) = packet.opcode.facts() else { continue };
        if !facts.operation.is_request() || facts.operation == Operation::Flush {
            continue;
        }
        let service = match facts.service {
            Service::Rc => 0,
            Service::Uc => 1,
            Service::Ud => 2,
            Service::Rd | Service::Cnp | Service::Xrc => continue,
        };
        let qp = (service, packet.bth.dest_qp().get());
        let place = match all.iter_mut().rev().find(|(of, seed)| *of == qp && seed.len() < 8192) {
            Some((_, seed)) => seed,
            None => {
                // Service, path MTU 1024, receives: none, for one in four.
                let receives = if service == 0 && all.len() % 4 == 3 { 0 } else { 8 };
                all.push((qp, vec![service, 2, receives]));
                match all.last_mut() {
                    Some((_, seed)) => seed,
                    None => continue,
                }
            }
        };
        let len = u16::try_from(frame.packet.len()).unwrap_or(u16::MAX);
        place.extend([0, 1]);
        place.extend(len.to_be_bytes());
        place.extend(frame.packet);
    }
    all.into_iter().map(|(_, seed)| seed).collect()
}

/// Requests of each kind, and the answers that complete them.
fn answers() -> Vec<Vec<u8>> {
    let begin = [2, 0, 0, 0];
    let post = |kind: u8, len: u16| {
        let [a, b] = len.to_be_bytes();
        vec![0, kind, a, b]
    };
    // Kind of answer, distance, syndrome, MSN, length.
    let answer = |opcode: u8, back: u8, syndrome: u8, len: u16| {
        let [a, b] = len.to_be_bytes();
        vec![4, opcode, back, syndrome, 1, a, b]
    };
    let (first, last, only, ack, atomic) = (0, 2, 3, 4, 5);
    let mut all = Vec::new();
    for ops in [
        [post(0, 100), answer(only, 1, 0, 100)].concat(),
        [post(0, 2000), answer(first, 2, 0, 1024), answer(last, 1, 0, 976)].concat(),
        [post(1, 300), answer(ack, 1, 0, 0)].concat(),
        [post(2, 8), answer(atomic, 1, 0, 0)].concat(),
        [post(3, 3000), post(1, 10), answer(ack, 2, 0, 0), answer(ack, 1, 0, 0)].concat(),
        [post(1, 10), answer(ack, 1, 0x82, 0), vec![2, 0, 200], answer(ack, 1, 0, 0)].concat(),
        [post(0, 10), answer(ack, 1, 0xe2, 0)].concat(),
    ] {
        all.push([&begin[..], &ops].concat());
    }
    all
}

/// A region at each corner, a window in it, and accesses at its edges.
fn accesses() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for corner in 0..7_u8 {
        let mut seed = vec![0, 0x0f, 0, 16, corner, 64, 0];
        seed.extend([1, 0]);
        seed.extend([2, 0, 0, 9, 0, 0, 16, corner, 32, 0, 0x0f]);
        for (which, offset, len) in [(0, 16, 64), (0, 17, 64), (0, 79, 2), (1, 16, 32), (1, 17, 32)]
        {
            for does in 0..5 {
                seed.extend([4, which, 0, does, 0, 0, offset, corner, len, 0]);
            }
        }
        // Another variant of the region's key.
        seed.extend([4, 0, 7, 1, 2, 0, 0, 16, corner, 8, 0]);
        seed.extend([3, 0, 4, 0, 0, 2, 0, 0, 16, corner, 8, 0]);
        all.push(seed);
    }
    all
}

/// Bytes of which structured inputs are made: any, but most of them odd, for an odd byte is what says
/// that a list goes on.
fn verbs() -> Vec<Vec<u8>> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = move || {
        state = state.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1);
        let odd = u8::from(state >> 40 & 0x1f != 0);
        (state >> 56) as u8 | odd
    };
    (0..2500).map(|number| (0..600 + number % 600 * 8).map(|_| draw()).collect()).collect()
}

/// Requests of every kind, as the wire has them.
fn messages() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for kind in 0..12_u8 {
        for len in [0, 1, 2, 40, 80] {
            let mut message = vec![1, kind, 0, 7];
            message.resize(4 + len, 0);
            all.push(message);
        }
    }
    all
}
