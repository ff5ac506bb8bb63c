//! Packets made by hand.

use softrnic_model::verbs::{Key, QpType, SrqNum};
use softrnic_model::wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Feth, HeaderBuf, Ieth, Opcode, Operation, Place,
    Reth, Service, Syndrome, XrcEth,
};

use super::{BASE, Bench, EndId, QKEY};

/// A packet as one end of a connection might send it to the other. Sequence numbers count from the
/// first of the requester.
#[derive(Clone, Debug)]
pub(crate) struct Forge {
    operation: Operation,
    place: Place,
    opcode: Option<u8>,
    psn: i32,
    ack_req: bool,
    invalidate: Option<Key>,
    feth: Option<Feth>,
    reth: Option<Reth>,
    atomic: Option<AtomicEth>,
    aeth: Option<(Syndrome, u32)>,
    original: u64,
    qkey: u32,
    srq: Option<SrqNum>,
    payload: Vec<u8>,
}

impl Forge {
    fn new(operation: Operation, place: Place, psn: i32) -> Self {
        Self {
            operation,
            place,
            opcode: None,
            psn,
            ack_req: true,
            invalidate: None,
            feth: None,
            reth: None,
            atomic: None,
            aeth: None,
            original: 0,
            qkey: QKEY,
            srq: None,
            payload: Vec::new(),
        }
    }

    pub(crate) fn send(place: Place, psn: i32) -> Self {
        Self::new(Operation::Send, place, psn)
    }

    /// A WRITE; give its range with [`Forge::range`] where the message begins.
    pub(crate) fn write(place: Place, psn: i32) -> Self {
        Self::new(Operation::Write, place, psn)
    }

    pub(crate) fn read(psn: i32, at: u64, key: Key, len: u32) -> Self {
        Self::new(Operation::ReadRequest, Place::Only, psn).range(at, key, len)
    }

    pub(crate) fn add(psn: i32, at: u64, key: Key, add: u64) -> Self {
        let atomic = Some(AtomicEth::new(BASE + at, key, add, 0));
        Self { atomic, ..Self::new(Operation::FetchAdd, Place::Only, psn) }
    }

    /// With 8 bytes of data if nothing else is said.
    pub(crate) fn atomic_write(psn: i32, at: u64, key: Key) -> Self {
        Self::new(Operation::AtomicWrite, Place::Only, psn).range(at, key, 8).count_up(1, 8)
    }

    /// With placement type and selectivity as they are on the wire.
    pub(crate) fn flush(psn: i32, placement: u8, selectivity: u8) -> Self {
        let feth = Some(Feth::new(placement, selectivity));
        Self { feth, ..Self::new(Operation::Flush, Place::Only, psn) }
    }

    pub(crate) fn swap(psn: i32, at: u64, key: Key, compare: u64, swap: u64) -> Self {
        let atomic = Some(AtomicEth::new(BASE + at, key, swap, compare));
        Self { atomic, ..Self::new(Operation::CompareSwap, Place::Only, psn) }
    }

    pub(crate) fn acknowledge(psn: i32, syndrome: Syndrome) -> Self {
        let aeth = Some((syndrome, 1));
        Self { aeth, ..Self::new(Operation::Acknowledge, Place::Only, psn) }
    }

    pub(crate) fn read_response(place: Place, psn: i32) -> Self {
        let aeth = (place != Place::Middle).then_some((Syndrome::ACK, 1));
        Self { aeth, ..Self::new(Operation::ReadResponse, place, psn) }
    }

    pub(crate) fn atomic_response(psn: i32, original: u64) -> Self {
        let aeth = Some((Syndrome::ACK, 1));
        Self { aeth, original, ..Self::new(Operation::AtomicAcknowledge, Place::Only, psn) }
    }

    /// Any opcode, with nothing but a base transport header in front of the payload.
    pub(crate) fn opcode(opcode: u8, psn: i32) -> Self {
        Self { opcode: Some(opcode), ..Self::send(Place::Only, psn) }
    }

    pub(crate) fn range(mut self, at: u64, key: Key, len: u32) -> Self {
        self.reth = Some(Reth::new(BASE + at, key, len));
        self
    }

    /// As [`Forge::range`], with any address.
    pub(crate) fn reth(mut self, addr: u64, key: Key, len: u32) -> Self {
        self.reth = Some(Reth::new(addr, key, len));
        self
    }

    /// Another syndrome, of a response that has one.
    pub(crate) fn says(mut self, syndrome: Syndrome) -> Self {
        self.aeth = self.aeth.map(|(_, msn)| (syndrome, msn));
        self
    }

    pub(crate) fn invalidate(mut self, key: Key) -> Self {
        self.invalidate = Some(key);
        self
    }

    /// Names this shared receive queue instead of the peer's (XRC).
    pub(crate) fn srq(mut self, srq: SrqNum) -> Self {
        self.srq = Some(srq);
        self
    }

    pub(crate) fn qkey(mut self, qkey: u32) -> Self {
        self.qkey = qkey;
        self
    }

    pub(crate) fn quiet(mut self) -> Self {
        self.ack_req = false;
        self
    }

    pub(crate) fn data(mut self, payload: &[u8]) -> Self {
        self.payload = payload.to_vec();
        self
    }

    /// With `len` bytes that count up from `first`.
    pub(crate) fn count_up(self, first: u8, len: usize) -> Self {
        let bytes: Vec<u8> = (0..len).map(|at| first.wrapping_add(at as u8)).collect();
        self.data(&bytes)
    }

    /// The packet, BTH to the end of the pad, from `from` to its peer.
    pub(crate) fn bytes(&self, bench: &Bench, from: EndId) -> Vec<u8> {
        let me = bench.end(from);
        let peer = bench.end(me.peer.unwrap());
        let is_response = self.operation.is_response();
        let (requester, dest) = if is_response { (peer, peer.qp) } else { (me, peer.target) };
        let (_, init) = bench.fabric.host(me.host).device.query_qp(me.qp).unwrap();
        let service = match init.qp_type {
            QpType::Rc => Service::Rc,
            QpType::Uc => Service::Uc,
            QpType::Ud => Service::Ud,
            QpType::XrcSend | QpType::XrcRecv => Service::Xrc,
        };
        let invalidate = self.invalidate.is_some();
        let opcode = match self.opcode {
            // Those of XRC are those of RC under another service.
            Some(opcode) if service == Service::Xrc => Opcode(opcode | (service as u8) << 5),
            Some(opcode) => Opcode(opcode),
            None => {
                Opcode::compose(service, self.operation, self.place, false, invalidate).unwrap()
            }
        };
        let psn = requester.first_psn.plus(self.psn.cast_unsigned());
        let pad = self.payload.len().wrapping_neg() & 3;
        let bth = Bth::new(opcode, dest, psn).with_ack_req(self.ack_req).with_pad(pad);
        let mut header = HeaderBuf::new();
        header.push(&bth);
        if service == Service::Ud {
            header.push(&Deth::new(self.qkey, me.qp));
        }
        if service == Service::Xrc && !is_response {
            let srq = self.srq.unwrap_or(bench.remote_srq(from));
            header.push(&XrcEth::new(srq.get()));
        }
        self.feth.iter().for_each(|feth| header.push(feth));
        self.reth.iter().for_each(|reth| header.push(reth));
        self.atomic.iter().for_each(|eth| header.push(eth));
        self.aeth.iter().for_each(|&(syndrome, msn)| header.push(&Aeth::new(syndrome, msn)));
        if self.operation == Operation::AtomicAcknowledge {
            header.push(&AtomicAckEth::new(self.original));
        }
        self.invalidate.iter().for_each(|&key| header.push(&Ieth::new(key)));
        let mut bytes = header.as_slice().to_vec();
        bytes.extend_from_slice(&self.payload);
        bytes.resize(bytes.len() + pad, 0);
        bytes
    }
}
