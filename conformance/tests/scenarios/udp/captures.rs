//! What the devices have recorded while the scenarios ran.

use std::io::{self, Seek as _};
use std::process::Command;

use softrnic_conformance::lab::Family;
use softrnic_model::wire::{Packet, RoceFrame};

use super::world::{Capture, Run};
use crate::world::{RXE, SPEC};

pub(super) fn packets_are_the_recorded_ones(family: Family) {
    for judged in [SPEC, RXE] {
        Run::straight(family, &judged).check_packets();
    }
}

pub(super) fn every_icrc_is_right(family: Family) {
    for run in [SPEC, RXE].map(|judged| Run::straight(family, &judged)) {
        for bytes in run.captures.iter().flat_map(|capture| &capture.frames) {
            let frame = RoceFrame::parse(bytes).expect("devices record frames");
            assert_eq!(frame.icrc, frame.expected_icrc(), "{:?}", frame.ip);
            assert_eq!(frame.route.is_v4(), family == Family::V4);
        }
        let counts = run.captures.each_ref().map(|capture| capture.frames.len());
        assert!(counts.iter().all(|&count| count > 200), "{counts:?}");
        run.check_links();
    }
}

/// What tshark may not take payloads for: it guesses that short SENDs carry RPC over RDMA, and
/// calls them malformed when they do not.
const NO_GUESSES: [&str; 2] = ["--disable-protocol", "rpcordma"];

pub(super) fn dissectors_read_every_frame(family: Family) {
    for run in [SPEC, RXE].map(|judged| Run::straight(family, &judged)) {
        for capture in &run.captures {
            match dissect(capture) {
                Ok(text) => check_dissection(capture, &text),
                Err(why) => {
                    return softrnic_testing::not_installed(&format!(
                        "captures under tshark: {why}"
                    ));
                }
            }
        }
    }
}

/// Operation code, destination queue pair and sequence number of each frame as tshark reads them,
/// and its verdict if it finds fault; one line a frame.
fn dissect(capture: &Capture) -> io::Result<String> {
    let fields = ["infiniband.bth.opcode", "infiniband.bth.destqp", "infiniband.bth.psn"];
    let mut command = Command::new("tshark");
    command.args(["-n", "-r", "-", "-T", "fields"]).args(NO_GUESSES);
    for field in fields.iter().chain(&["_ws.malformed"]) {
        command.args(["-e", field]);
    }
    let mut file = capture.file.try_clone()?;
    file.rewind()?;
    let output = command.stdin(file).output()?;
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "tshark fails: {complaints}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn check_dissection(capture: &Capture, text: &str) {
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), capture.frames.len());
    for (line, bytes) in lines.iter().zip(&capture.frames) {
        let frame = RoceFrame::parse(bytes).expect("devices record frames");
        let packet = Packet::parse(frame.packet).expect("devices send packets");
        let (opcode, bth) = (packet.opcode.0, packet.bth);
        // The last field is that of the verdict: empty.
        let expected = format!("{opcode}\t{:#08x}\t{}\t", bth.dest_qp().get(), bth.psn().get());
        assert_eq!(*line, expected, "{packet:?}");
    }
}
