//! Reading capture files.

use std::path::Path;

use pcap_parser::pcapng::Block;
use pcap_parser::traits::PcapNGPacketBlock as _;
use pcap_parser::{PcapBlockOwned, PcapNGSlice};

/// All frames of a capture file, of any protocol.
pub(crate) fn frames_in(path: &Path) -> Vec<Vec<u8>> {
    let file = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut frames = Vec::new();
    for block in PcapNGSlice::from_slice(&file).expect("it is a pcapng file") {
        if let PcapBlockOwned::NG(Block::EnhancedPacket(packet)) = block.expect("it is whole") {
            assert!(!packet.truncated(), "a frame is cut short");
            frames.push(packet.packet_data().to_vec());
        }
    }
    frames
}
