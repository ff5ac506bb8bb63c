//! Packets in the making: what the opcode demands is put in front of the payload, with the fields as
//! they are set here, right or wrong.

use softrnic_model::verbs::{Key, Psn, QpNum};
use softrnic_model::wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Extensions as E, Feth, HeaderBuf, Ieth, ImmDt,
    Opcode, Packet, Reth, Service, Syndrome, XrcEth,
};

/// All that headers can say.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) bth: Bth,
    pub(crate) qkey: u32,
    pub(crate) src_qp: QpNum,
    pub(crate) srq: u32,
    pub(crate) feth: (u8, u8),
    pub(crate) va: u64,
    pub(crate) key: Key,
    pub(crate) len: u32,
    pub(crate) operands: (u64, u64),
    pub(crate) syndrome: Syndrome,
    pub(crate) msn: u32,
    pub(crate) original: u64,
    pub(crate) imm: u32,
    pub(crate) payload: Vec<u8>,
}

impl Draft {
    pub(crate) fn new(opcode: Opcode, qp: QpNum, psn: Psn) -> Self {
        Self {
            bth: Bth::new(opcode, qp, psn),
            qkey: 0,
            src_qp: QpNum::new(5),
            srq: 0,
            feth: (0, 0),
            va: 0,
            key: Key(0),
            len: 0,
            operands: (0, 0),
            syndrome: Syndrome::ACK,
            msn: 0,
            original: 0,
            imm: 0,
            payload: Vec::new(),
        }
    }

    /// What a packet says.
    pub(crate) fn of(packet: &Packet<'_>) -> Self {
        let mut draft = Self::new(packet.opcode, packet.bth.dest_qp(), packet.bth.psn());
        draft.bth = packet.bth;
        draft.payload = packet.payload.to_vec();
        if let Some(deth) = packet.deth() {
            (draft.qkey, draft.src_qp) = (deth.qkey(), deth.src_qp());
        }
        if let Some(reth) = packet.reth() {
            (draft.va, draft.key, draft.len) = (reth.va(), reth.rkey(), reth.len());
        }
        if let Some(eth) = packet.atomic_eth() {
            (draft.va, draft.key) = (eth.va(), eth.rkey());
            draft.operands = (eth.swap_or_add(), eth.compare());
        }
        if let Some(aeth) = packet.aeth() {
            (draft.syndrome, draft.msn) = (aeth.syndrome(), aeth.msn());
        }
        draft.srq = packet.xrc_eth().map_or(0, |eth| eth.srq());
        draft.feth = packet.feth().map_or((0, 0), |eth| (eth.placement(), eth.selectivity()));
        draft.original = packet.atomic_ack_eth().map_or(0, |eth| eth.original());
        draft.imm = packet.imm_dt().map_or(0, |eth| eth.data());
        if let Some(ieth) = packet.ieth() {
            draft.key = ieth.rkey();
        }
        draft
    }

    /// The same operation under another service, if that has it.
    pub(crate) fn move_to(&mut self, service: Service) {
        self.set_opcode(Opcode(self.bth.opcode().0 & 0x1f | (service as u8) << 5));
    }

    pub(crate) fn set_opcode(&mut self, opcode: Opcode) {
        self.bth = Bth::new(opcode, self.bth.dest_qp(), self.bth.psn())
            .with_ack_req(self.bth.ack_req())
            .with_solicited(self.bth.solicited())
            .with_migreq(self.bth.migreq())
            .with_fecn(self.bth.fecn())
            .with_becn(self.bth.becn())
            .with_pkey(self.bth.pkey())
            .with_transport_version(self.bth.transport_version());
    }

    /// BTH to the end of the pad.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let facts = self.bth.opcode().facts();
        let payload: &[u8] =
            if facts.is_none_or(|facts| facts.payload) { &self.payload } else { &[] };
        let pad = payload.len().wrapping_neg() & 3;
        let mut header = HeaderBuf::new();
        header.push(&self.bth.with_pad(pad));
        let extensions = facts.map_or(E::empty(), |facts| facts.extensions);
        for extension in extensions.iter() {
            match extension {
                E::DETH => header.push(&Deth::new(self.qkey, self.src_qp)),
                E::XRCETH => header.push(&XrcEth::new(self.srq)),
                E::FETH => header.push(&Feth::new(self.feth.0, self.feth.1)),
                E::RETH => header.push(&Reth::new(self.va, self.key, self.len)),
                E::ATOMIC_ETH => {
                    let (swap_or_add, compare) = self.operands;
                    header.push(&AtomicEth::new(self.va, self.key, swap_or_add, compare));
                }
                E::AETH => header.push(&Aeth::new(self.syndrome, self.msn)),
                E::ATOMIC_ACK_ETH => header.push(&AtomicAckEth::new(self.original)),
                E::IMM => header.push(&ImmDt::new(self.imm)),
                E::IETH => header.push(&Ieth::new(self.key)),
                _ => panic!("an extension header that is not known: {extension:?}"),
            }
        }
        let mut bytes = header.as_slice().to_vec();
        bytes.extend_from_slice(payload);
        bytes.resize(bytes.len() + pad, 0);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds::packets;

    #[test]
    fn a_packet_of_a_capture_is_made_again_as_it_was() {
        let mut count = 0;
        for (_, bytes) in packets() {
            let packet = Packet::parse(&bytes).unwrap();
            // Bits that nobody sets are not carried over.
            let reserved = bytes[4] & 0x3f | bytes[8] & 0x7f;
            if packet.facts.is_some() && reserved == 0 {
                assert_eq!(Draft::of(&packet).bytes(), bytes, "{packet:?}");
                count += 1;
            }
        }
        assert!(count > 1000, "{count}");
    }
}
