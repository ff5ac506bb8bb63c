//! Any bytes as an Ethernet frame, as a packet, and as a GRH: no panic, what parses says the same
//! again, and nothing parses whose lengths do not fit each other.

use softrnic_model::planted::Fault;
use softrnic_model::wire::{Grh, IpHeader, Packet, ROCE_PORT, RoceFrame, split_icrc};

use crate::Target;
use crate::reach::{Reach, hit};

pub(crate) const TARGET: Target = Target {
    name: "frame",
    run,
    reaches: &[Reach::FrameRead, Reach::PacketRead],
    fault: Fault::Fragment,
};

/// `UDP` as a protocol of IP.
const UDP: u8 = 17;

fn run(bytes: &[u8]) {
    if let Ok(frame) = RoceFrame::parse(bytes) {
        hit(Reach::FrameRead);
        check(&frame);
        let mut again = Vec::new();
        frame.emit(&mut again);
        assert_eq!(again, bytes, "a frame that parses is emitted as it was");
        // The length may be one that no sender would give it.
        let _ = (frame.route, frame.expected_icrc());
        packet(frame.packet);
    }
    if let Some((bytes, _)) = split_icrc(bytes) {
        packet(bytes);
    }
    if let Some(grh) = bytes.first_chunk::<40>() {
        let _ = Grh::parse(grh);
    }
}

/// The lengths of all layers, added up by hand.
pub(crate) fn check(frame: &RoceFrame<'_>) {
    let datagram = 8 + frame.packet.len() + 4;
    assert_eq!(usize::from(frame.udp.len.get()), datagram, "the length of UDP");
    assert_eq!(frame.udp.dst_port.get(), ROCE_PORT);
    match frame.ip {
        IpHeader::V4 { header, options } => {
            assert_eq!(usize::from(header.total_len.get()), 20 + options.len() + datagram);
            assert_eq!(header.header_len(), 20 + options.len());
            assert_eq!(header.flags_fragment.get() & 0x3fff, 0, "a fragment is no frame");
            assert_eq!((header.version(), header.protocol), (4, UDP));
        }
        IpHeader::V6(header) => {
            assert_eq!(usize::from(header.payload_len.get()), datagram);
            assert_eq!((header.version(), header.next_header), (6, UDP));
        }
    }
}

fn packet(bytes: &[u8]) {
    let Ok(packet) = Packet::parse(bytes) else { return };
    hit(Reach::PacketRead);
    assert_eq!(packet.as_bytes(), bytes);
    let header = packet.facts.map_or(12, |facts| facts.header_len());
    assert_eq!(header + packet.payload.len() + packet.bth.pad(), bytes.len(), "{packet:?}");
    let _ = (packet.reth(), packet.aeth(), packet.atomic_eth(), packet.atomic_ack_eth());
    let _ = (packet.imm_dt(), packet.ieth(), packet.deth(), packet.xrc_eth(), packet.feth());
}
