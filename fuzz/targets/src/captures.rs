//! The frames of capture files.

use pcap_parser::pcapng::Block;
use pcap_parser::{PcapBlockOwned, PcapNGSlice};

/// The frames of a capture, up to the first block that is none.
pub(crate) fn frames(bytes: &[u8]) -> Vec<&[u8]> {
    let Ok(file) = PcapNGSlice::from_slice(bytes) else { return Vec::new() };
    let blocks = file.map_while(Result::ok);
    let packets = blocks.filter_map(|block| match block {
        PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
            let len = (packet.caplen as usize).min(packet.data.len());
            Some(&packet.data[..len])
        }
        PcapBlockOwned::NG(_) | PcapBlockOwned::Legacy(_) | PcapBlockOwned::LegacyHeader(_) => None,
    });
    packets.collect()
}
