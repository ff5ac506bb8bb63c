//! Reading the golden files.

use std::fs;
use std::path::PathBuf;

use pcap_parser::pcapng::Block;
use pcap_parser::traits::PcapNGPacketBlock as _;
use pcap_parser::{PcapBlockOwned, PcapNGSlice};
use softrnic_model::wire::RoceFrame;

/// One entry of `scapy-golden.txt`.
#[derive(Debug)]
pub(crate) struct ScapyFrame {
    pub(crate) number: usize,
    pub(crate) title: String,
    /// `key=value` words of the lines between title and bytes.
    notes: Vec<(String, String)>,
    pub(crate) bytes: Vec<u8>,
}

impl ScapyFrame {
    /// The value of a key, if the entry has it.
    pub(crate) fn note(&self, key: &str) -> Option<&str> {
        self.notes.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str())
    }

    /// The value of a key as a number, decimal or with `0x`.
    pub(crate) fn number_of(&self, key: &str) -> Option<u64> {
        self.note(key).map(|value| match value.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).unwrap(),
            None => value.parse().unwrap(),
        })
    }
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../conformance/captures").join(name)
}

/// All frames of a capture file, of any protocol.
pub(crate) fn frames_of(name: &str) -> Vec<Vec<u8>> {
    let file = fs::read(path(name)).unwrap();
    let mut frames = Vec::new();
    for block in PcapNGSlice::from_slice(&file).unwrap() {
        match block.unwrap() {
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                assert!(!packet.truncated(), "cut short");
                frames.push(packet.packet_data().to_vec());
            }
            PcapBlockOwned::NG(
                Block::SectionHeader(_)
                | Block::InterfaceDescription(_)
                | Block::InterfaceStatistics(_),
            ) => {}
            PcapBlockOwned::NG(other) => {
                panic!("a block of type {:#x} where there are none", other.magic());
            }
            PcapBlockOwned::Legacy(_) | PcapBlockOwned::LegacyHeader(_) => {
                panic!("not a pcapng file");
            }
        }
    }
    frames
}

/// Every frame that must take the way there and back: those of all captures, and the well-formed
/// ones of Scapy.
pub(crate) fn well_formed() -> Vec<Vec<u8>> {
    let captures = ["rxe-scenarios.pcapng", "rxe-v6-scenarios.pcapng", "rxe-tools.pcapng"];
    let mut frames: Vec<_> = captures.into_iter().flat_map(frames_of).collect();
    frames.retain(|frame| RoceFrame::parse(frame).is_ok());
    frames.extend(scapy_frames().into_iter().filter(|f| f.number <= 35).map(|f| f.bytes));
    frames
}

/// The entries of `scapy-golden.txt`, in order.
pub(crate) fn scapy_frames() -> Vec<ScapyFrame> {
    let text = fs::read_to_string(path("scapy-golden.txt")).unwrap();
    let mut frames: Vec<ScapyFrame> = Vec::new();
    for line in text.lines() {
        if let Some((number, title)) = line.strip_prefix('[').and_then(|l| l.split_once("] ")) {
            let number = number.parse().unwrap();
            assert_eq!(number, frames.len() + 1, "entries are numbered from 1 without a gap");
            frames.push(ScapyFrame {
                number,
                title: title.to_owned(),
                notes: Vec::new(),
                bytes: Vec::new(),
            });
        } else if let (Some(hex), Some(frame)) = (line.strip_prefix("  hex="), frames.last_mut()) {
            frame.bytes = from_hex(hex);
        } else if let (true, Some(frame)) = (line.starts_with("  "), frames.last_mut()) {
            let words = line.split_whitespace().filter_map(|word| word.split_once('='));
            frame.notes.extend(words.map(|(key, value)| (key.to_owned(), value.to_owned())));
        }
    }
    frames
}

pub(crate) fn from_hex(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2));
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}
