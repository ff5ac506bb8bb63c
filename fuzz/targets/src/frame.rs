//! Any bytes as an Ethernet frame, as a packet, and as a GRH: no panic, and what parses says the
//! same again.

use softrnic_model::wire::{Grh, Packet, RoceFrame, split_icrc};

use crate::Reached;

/// Reads these bytes.
pub fn run(bytes: &[u8]) -> Reached {
    let mut reached = Reached::default();
    if let Ok(frame) = RoceFrame::parse(bytes) {
        let _ = (frame.route, frame.expected_icrc());
        let mut again = Vec::new();
        frame.emit(&mut again);
        assert_eq!(again, bytes, "a frame that parses is emitted as it was");
        reached.executed += 1;
    }
    let Some((packet, icrc)) = split_icrc(bytes) else { return reached };
    let _ = icrc;
    if let Ok(packet) = Packet::parse(packet) {
        assert!(packet.payload.len() + 12 <= packet.as_bytes().len());
        let _ = (packet.reth(), packet.aeth(), packet.atomic_eth(), packet.atomic_ack_eth());
        let _ = (packet.imm_dt(), packet.ieth(), packet.deth(), packet.xrc_eth(), packet.feth());
    }
    if let Some(grh) = bytes.first_chunk::<40>() {
        let _ = Grh::parse(grh);
    }
    reached
}
