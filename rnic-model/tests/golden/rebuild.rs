//! Making a frame again from what was read in it, and nothing else.

use softrnic_model::wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, EthernetHeader, Feth, HeaderBuf, Ieth, ImmDt, Opcode,
    Packet, Reth, RoceFrame, XrcEth, emit_frame,
};

/// The packet, header by header, from decoded values.
pub(crate) fn packet(packet: &Packet<'_>) -> Vec<u8> {
    let facts = packet.facts.expect("golden frames have known opcodes");
    let opcode = Opcode::compose(
        facts.service,
        facts.operation,
        facts.place,
        packet.imm_dt().is_some(),
        packet.ieth().is_some(),
    );
    let bth = &packet.bth;
    let mut headers = HeaderBuf::new();
    headers.push(
        &Bth::new(opcode.unwrap(), bth.dest_qp(), bth.psn())
            .with_solicited(bth.solicited())
            .with_migreq(bth.migreq())
            .with_pad(bth.pad())
            .with_transport_version(bth.transport_version())
            .with_pkey(bth.pkey())
            .with_fecn(bth.fecn())
            .with_becn(bth.becn())
            .with_ack_req(bth.ack_req()),
    );
    if let Some(h) = packet.deth() {
        headers.push(&Deth::new(h.qkey(), h.src_qp()));
    }
    if let Some(h) = packet.xrc_eth() {
        headers.push(&XrcEth::new(h.srq()));
    }
    if let Some(h) = packet.feth() {
        headers.push(&Feth::new(h.placement(), h.selectivity()));
    }
    if let Some(h) = packet.reth() {
        headers.push(&Reth::new(h.va(), h.rkey(), h.len()));
    }
    if let Some(h) = packet.atomic_eth() {
        headers.push(&AtomicEth::new(h.va(), h.rkey(), h.swap_or_add(), h.compare()));
    }
    if let Some(h) = packet.aeth() {
        headers.push(&Aeth::new(h.syndrome(), h.msn()));
    }
    if let Some(h) = packet.atomic_ack_eth() {
        headers.push(&AtomicAckEth::new(h.original()));
    }
    if let Some(h) = packet.imm_dt() {
        headers.push(&ImmDt::new(h.data()));
    }
    if let Some(h) = packet.ieth() {
        headers.push(&Ieth::new(h.rkey()));
    }
    assert_eq!(headers.len(), facts.header_len());
    let pad = [0; 3];
    [headers.as_slice(), packet.payload, &pad[..bth.pad()]].concat()
}

/// The frame, from route, identification and the rebuilt packet. Only the Ethernet addresses are
/// not ours to choose.
pub(crate) fn frame(frame: &RoceFrame<'_>) -> Vec<u8> {
    let parsed = Packet::parse(frame.packet).unwrap();
    let identification = frame.ip.identification().unwrap_or(0);
    let mut made = Vec::new();
    emit_frame(&frame.route, identification, &packet(&parsed), &mut made).unwrap();
    let EthernetHeader { dst, src, ethertype } = frame.ethernet;
    assert_eq!(made[12..14], ethertype.to_bytes());
    made[..6].copy_from_slice(&dst);
    made[6..12].copy_from_slice(&src);
    made
}
