//! Packets near what the queue pair expects.

use arbitrary::Arbitrary;
use softrnic_model::verbs::{Key, Psn, SrqNum};
use softrnic_model::wire::{Opcode, OpcodeFacts, Operation, Route, Syndrome};

use super::{BASE, QKEY, World, harmless};
use crate::packet::Draft;

/// How far a sequence number is from the one that is due.
#[derive(Arbitrary, Debug, Clone, Copy)]
pub(crate) enum Distance {
    Due,
    Near(i8),
    Far(u32),
}

/// What the payload is.
#[derive(Arbitrary, Debug)]
pub(crate) enum Body {
    /// As long as the path MTU.
    Full(u8),
    Short(Vec<u8>),
}

#[derive(Arbitrary, Debug, Clone, Copy)]
pub(crate) enum Length {
    /// That of the payload.
    Same,
    Any(u32),
}

/// A place for a peer, by key.
#[derive(Arbitrary, Debug, Clone, Copy)]
pub(crate) struct Target {
    pub(crate) key: KeyChoice,
    pub(crate) va: i16,
}

#[derive(Arbitrary, Debug, Clone, Copy)]
pub(crate) enum KeyChoice {
    Right,
    /// Of the other protection domain.
    Foreign,
    Window1,
    Window2,
    Stale,
    Any(u32),
}

/// A packet whose headers are what its opcode demands.
#[derive(Arbitrary, Debug)]
pub(crate) struct Near {
    /// Mostly the number of one that the service has.
    opcode: u8,
    psn: Distance,
    ack: bool,
    marked: bool,
    solicited: bool,
    body: Body,
    at: Target,
    len: Length,
}

impl World {
    pub(super) fn key(&self, choice: KeyChoice) -> Key {
        let present = |window| self.device.protection().query_window(window).map(|(key, ..)| key);
        match choice {
            KeyChoice::Right => self.key,
            KeyChoice::Foreign => self.foreign,
            KeyChoice::Window1 => present(self.windows[0]).unwrap_or_default(),
            KeyChoice::Window2 => present(self.windows[1]).unwrap_or_default(),
            KeyChoice::Stale => Key(self.key.0 ^ 1),
            KeyChoice::Any(raw) => Key(raw),
        }
    }

    pub(super) fn place(&self, at: Target) -> (u64, Key) {
        (BASE.wrapping_add_signed(at.va.into()), self.key(at.key))
    }

    pub(super) fn psn(&self, facts: Option<&OpcodeFacts>, distance: Distance) -> Psn {
        let (request, response) = self.due();
        let answers = facts.is_some_and(|facts| facts.operation.is_response());
        let due = if answers { response } else { request };
        match distance {
            Distance::Due => due,
            Distance::Near(by) => due.plus(i32::from(by).cast_unsigned()),
            Distance::Far(psn) => Psn::new(psn),
        }
    }

    /// One of the opcodes that the service has, or any.
    fn opcode(&self, choice: u8) -> Opcode {
        const ANY_FROM: u8 = 200;
        let own = || (0..=u8::MAX).map(Opcode).filter(|opcode| self.has(*opcode));
        let count = own().count();
        match own().nth(usize::from(choice) % count.max(1)) {
            Some(opcode) if choice < ANY_FROM => opcode,
            _ => Opcode(choice),
        }
    }

    fn has(&self, opcode: Opcode) -> bool {
        opcode.facts().is_some_and(|facts| facts.service == self.service())
    }

    /// The number that requests of XRC have to name.
    pub(crate) fn srq_number(&self) -> Option<SrqNum> {
        self.srq.and_then(|srq| self.device.srq_number(srq).ok())
    }

    pub(super) fn near(&mut self, near: &Near) {
        let Near { opcode, psn, ack, marked, solicited, body, at, len } = near;
        let opcode = self.opcode(*opcode);
        let facts = opcode.facts();
        let mut draft = Draft::new(opcode, self.qp, self.psn(facts, *psn));
        draft.bth = draft.bth.with_ack_req(*ack).with_solicited(*solicited);
        draft.payload = match body {
            Body::Full(byte) => vec![harmless(*byte); self.attributes.path_mtu.bytes() as usize],
            Body::Short(bytes) => bytes.iter().map(|byte| harmless(*byte)).collect(),
        };
        (draft.va, draft.key) = self.place(*at);
        if facts.is_some_and(|facts| !facts.payload) && draft.va % 16 != 1 {
            draft.va &= !7;
        }
        let len = match *len {
            Length::Same => draft.payload.len() as u32,
            Length::Any(len) => len,
        };
        let word = |n: usize| {
            let bytes = draft.payload.chunks(8).nth(n).unwrap_or_default();
            bytes.iter().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte))
        };
        draft.operands = (word(0), word(1));
        draft.original = word(0);
        draft.len = len;
        draft.qkey = if len % 16 == 15 { len } else { QKEY };
        draft.srq = self.srq_number().filter(|_| len % 8 != 7).map_or(len, SrqNum::get);
        draft.feth = (len as u8, 0);
        draft.msn = len >> 8;
        draft.imm = len;
        if facts.is_some_and(|facts| facts.operation == Operation::Acknowledge) {
            draft.syndrome = Syndrome::from(len as u8);
        }
        let mut route = self.route();
        if *marked {
            route.traffic_class = Route::ECN_CE;
        }
        self.hand(&route, &draft.bytes());
    }
}
