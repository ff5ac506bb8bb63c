//! What is captured is what a wire would have carried.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pcap_parser::pcapng::Block;
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{PcapBlockOwned, PcapError, PcapNGReader};
use softrnic_model::wire::RoceFrame;
use softrnic_verbs::{QpType, SendOp};

use crate::world::World;

/// A file that is removed in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("softrnic-{}-{name}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The Ethernet frames of a capture file.
fn frames(path: &Path) -> Vec<Vec<u8>> {
    let mut reader = PcapNGReader::new(1 << 20, fs::File::open(path).unwrap()).unwrap();
    let mut frames = Vec::new();
    loop {
        match reader.next() {
            Ok((len, block)) => {
                if let PcapBlockOwned::NG(Block::EnhancedPacket(packet)) = block {
                    let len = usize::try_from(packet.caplen).unwrap();
                    frames.push(packet.data[..len].to_vec());
                }
                reader.consume(len);
            }
            Err(PcapError::Eof) => return frames,
            Err(PcapError::Incomplete(_)) => reader.refill().unwrap(),
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// Some of every kind of packet.
fn talk(World { near, far }: World) {
    far.qp.recv(1, far.sge(0, 9000)).unwrap();
    near.post(1, SendOp::Send { imm: Some(1), invalidate: None }, near.sge(0, 9000));
    // On its own, for what comes next might acknowledge it.
    near.success();
    near.qp.write(2, near.sge(1, 30_001), far.mr.remote(0)).unwrap();
    near.qp.read(3, near.sge(0, 30_000), far.mr.remote(7)).unwrap();
    near.qp.fetch_add(4, near.sge(0, 8), far.mr.remote(0), 1).unwrap();
    (1..4).for_each(|_| assert_eq!(near.success().qp_num, near.qp.num()));
    far.success();
    // Closing writes what is left.
}

#[test]
fn every_frame_of_a_capture_has_the_right_icrc_and_tshark_knows_it() {
    let file = Scratch::new("capture.pcapng");
    talk(World::with(QpType::Rc, |config| {
        if config.name == "softrnic0" {
            config.capture = Some(file.0.clone());
        }
    }));
    let frames = frames(&file.0);
    let mut opcodes = BTreeMap::new();
    for (n, frame) in frames.iter().enumerate() {
        let parsed = RoceFrame::parse(frame).unwrap();
        assert_eq!(parsed.icrc, parsed.expected_icrc(), "frame {n}");
        *opcodes.entry(parsed.packet[0]).or_insert(0) += 1;
    }
    // Of RC: SEND first, middle, last with immediate; WRITE first, middle, last; READ request and
    // responses; acknowledge; fetch and add and its answer.
    for opcode in [0, 1, 3, 6, 7, 8, 12, 13, 15, 17, 18, 20] {
        assert!(opcodes.contains_key(&opcode), "opcode {opcode} is missing: {opcodes:?}");
    }
    let told = Command::new("tshark")
        .args(["-r", file.0.to_str().unwrap(), "-T", "fields", "-e", "infiniband.bth.opcode"])
        .output();
    let Ok(told) = told else {
        eprintln!("NOT CHECKED BY TSHARK: it is not installed");
        return;
    };
    let told = String::from_utf8(told.stdout).unwrap();
    let by_tshark: Vec<u8> = told.lines().map(|line| line.parse().unwrap()).collect();
    let own: Vec<u8> = frames.iter().map(|frame| frame[42]).collect();
    assert_eq!(by_tshark, own);
}

#[test]
fn a_damaged_frame_is_captured_damaged() {
    let file = Scratch::new("damaged.pcapng");
    talk(World::with(QpType::Rc, |config| {
        config.faults = Some("corrupt=20%,seed=5".into());
        if config.name == "softrnic0" {
            config.capture = Some(file.0.clone());
        }
    }));
    let wrong = frames(&file.0)
        .iter()
        .filter(|frame| {
            RoceFrame::parse(frame).map_or(true, |frame| frame.icrc != frame.expected_icrc())
        })
        .count();
    assert!(wrong > 0);
}

#[test]
fn a_capture_that_cannot_be_written_is_refused() {
    let error = softrnic_verbs::emulated::open_pair_with(|config| {
        config.capture = Some("/nonexistent/file.pcapng".into());
    });
    let error = error.unwrap_err().to_string();
    assert!(error.contains("/nonexistent/file.pcapng"), "{error}");
}
