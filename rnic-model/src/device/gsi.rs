//! The general services queue pair, number 1: management datagrams in and out (IBA 3.9.2.1).

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use super::{Device, FrameOut, Origin, Payload};
use crate::cm::mad::{GSI_QKEY, MAD_LEN, Mad};
use crate::counters::Counter;
use crate::verbs::{Psn, QpNum};
use crate::wire::{Bth, Deth, HeaderBuf, Opcode, Packet, Route};

/// Datagrams that wait to be taken. A queue pair of a real device has as many receives.
const INBOX_MAX: usize = 1024;
/// Bytes of payload.
const PAYLOAD: u32 = 256;
const _: () = assert!(PAYLOAD as usize == MAD_LEN);

/// The default partition, full member.
const PKEY: u16 = 0xffff;
/// UD SEND Only.
const SEND_ONLY: Opcode = Opcode(0x64);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Gsi {
    inbox: VecDeque<(Route, Box<Mad>)>,
    outbox: VecDeque<(Route, Box<Mad>)>,
    psn: Psn,
}

/// The management datagram in a packet to queue pair 1.
///
/// # Errors
/// The counter of what is wrong with it.
pub fn mad_of<'a>(packet: &Packet<'a>) -> Result<&'a Mad, Counter> {
    let deth = packet.deth().filter(|_| packet.opcode == SEND_ONLY);
    let deth = deth.ok_or(Counter::DropWrongService)?;
    // A limited member may talk to a full one.
    if packet.bth.pkey() & 0x7fff != PKEY & 0x7fff {
        return Err(Counter::DropBadPkey);
    }
    if deth.qkey() != GSI_QKEY {
        return Err(Counter::DropBadQkey);
    }
    packet.payload.try_into().map_err(|_| Counter::DropMalformed)
}

/// The headers of a packet with a management datagram from queue pair 1 to queue pair 1.
#[must_use]
pub fn mad_header(psn: Psn) -> HeaderBuf {
    let mut header = HeaderBuf::new();
    header.push(&Bth::new(SEND_ONLY, QpNum::GSI, psn));
    header.push(&Deth::new(GSI_QKEY, QpNum::GSI));
    header
}

impl Gsi {
    pub(super) fn arrives(&mut self, route: &Route, packet: &Packet<'_>) -> Result<(), Counter> {
        let mad = mad_of(packet)?;
        if self.inbox.len() >= INBOX_MAX {
            return Err(Counter::DropNoReceive);
        }
        self.inbox.push_back((*route, Box::new(*mad)));
        Ok(())
    }

    pub(super) fn has_work(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Describes the next datagram; it leaves when it is filled.
    pub(super) fn next_frame(&self, frame: &mut FrameOut) -> bool {
        let Some((route, _)) = self.outbox.front() else { return false };
        frame.route = *route;
        frame.header = mad_header(self.psn);
        frame.payload = Payload::None;
        frame.payload_len = PAYLOAD;
        frame.owner = u32::MAX;
        frame.psn = self.psn;
        frame.origin = Origin::Gsi;
        true
    }

    pub(super) fn fill(&mut self, frame: &FrameOut, out: &mut [u8]) -> bool {
        let header = frame.header.as_slice();
        let due = frame.psn == self.psn && out.len() == header.len() + MAD_LEN;
        let Some((_, mad)) = self.outbox.pop_front_if(|_| due) else { return false };
        let (head, payload) = out.split_at_mut(header.len());
        head.copy_from_slice(header);
        payload.copy_from_slice(&*mad);
        self.psn = self.psn.plus(1);
        true
    }
}

impl Device {
    /// Sends a management datagram to queue pair 1 of the route's end.
    pub fn post_mad(&mut self, route: Route, mad: Box<Mad>) {
        self.gsi.outbox.push_back((route, mad));
    }

    /// Takes a management datagram that has come to queue pair 1.
    pub fn take_mad(&mut self) -> Option<(Route, Box<Mad>)> {
        self.gsi.inbox.pop_front()
    }
}
