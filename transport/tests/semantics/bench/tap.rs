//! A tap on the wire: what passes, in words, and the fate of each frame.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use softrnic_model::Instant;
use softrnic_model::verbs::{Psn, QpNum};
use softrnic_model::wire::{Packet, Route, Syndrome};
use softrnic_transport::sim::{Fate, HostId, Weather};

use super::{Digest, End, EndId};

/// A frame as it left.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) at: Instant,
    pub(crate) route: Route,
    pub(crate) bytes: Vec<u8>,
    /// As [`Tap::take`] tells it.
    pub(crate) text: String,
}

impl Seen {
    pub(crate) fn packet(&self) -> Packet<'_> {
        Packet::parse(&self.bytes).unwrap()
    }
}

/// Who sends to which queue pair, and where both count from.
#[derive(Clone, Copy, Debug)]
struct Name {
    host: HostId,
    dest: QpNum,
    end: EndId,
    own_psn: Psn,
    peer_psn: Psn,
}

type Rule = Box<dyn FnMut(&Seen) -> Fate>;

#[derive(Default)]
struct State {
    names: Vec<Name>,
    log: Vec<Seen>,
    silent: bool,
    hash: Digest,
    once: Vec<(String, Fate)>,
    rule: Option<Rule>,
}

/// A handle on the tap.
#[derive(Clone, Default)]
pub(crate) struct Tap(Rc<RefCell<State>>);

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.borrow().log.iter().map(|seen| &seen.text)).finish()
    }
}

impl Tap {
    pub(super) fn weather(&self) -> Box<dyn Weather> {
        Box::new(self.clone())
    }

    pub(super) fn name(&self, id: EndId, end: &End, peer: &End) {
        let name = Name {
            host: end.host,
            dest: peer.qp,
            end: id,
            own_psn: end.first_psn,
            peer_psn: peer.first_psn,
        };
        let mut state = self.0.borrow_mut();
        state.names.retain(|known| known.end != id);
        state.names.push(name);
        if peer.target != peer.qp {
            state.names.push(Name { dest: peer.target, ..name });
        }
    }

    /// The first frame with this text from now on meets this fate.
    pub(crate) fn once(&self, text: &str, fate: Fate) {
        self.0.borrow_mut().once.push((text.to_owned(), fate));
    }

    /// Every frame from now on meets the fate that `rule` decides.
    pub(crate) fn rule(&self, rule: impl FnMut(&Seen) -> Fate + 'static) {
        self.0.borrow_mut().rule = Some(Box::new(rule));
    }

    /// Every frame from now on arrives.
    pub(crate) fn calm(&self) {
        let mut state = self.0.borrow_mut();
        state.rule = None;
        state.once.clear();
    }

    /// Nothing is written down any more.
    pub(crate) fn silence(&self) {
        self.0.borrow_mut().silent = true;
    }

    /// The frames since the last call, in words: who, what, and the packet sequence number counted
    /// from the first of the requester: `A SEND_FIRST 0`, `B ACK 3`, `B NAK PsnSequence 1`. Where
    /// ends are not connected, who is the number of the host, and there is no other number.
    pub(crate) fn take(&self) -> Vec<String> {
        self.log().into_iter().map(|seen| seen.text).collect()
    }

    /// The frames since the last call.
    pub(crate) fn log(&self) -> Vec<Seen> {
        std::mem::take(&mut self.0.borrow_mut().log)
    }

    /// A number that stands for all frames so far, their and their times.
    pub(crate) fn hash(&self) -> u64 {
        self.0.borrow().hash.value()
    }

    /// The latest frames, in words.
    pub(crate) fn last(&self) -> Vec<String> {
        let state = self.0.borrow();
        let skip = state.log.len().saturating_sub(20);
        state.log[skip..].iter().map(|seen| seen.text.clone()).collect()
    }
}

impl Weather for Tap {
    fn judge(&mut self, now: Instant, from: HostId, route: &Route, packet: &[u8]) -> Fate {
        let mut state = self.0.borrow_mut();
        let text = if state.silent { String::new() } else { text(&state.names, from, packet) };
        let seen = Seen { at: now, route: *route, bytes: packet.to_vec(), text };
        let once = state.once.iter().position(|(text, _)| *text == seen.text);
        let fate = match (once, &mut state.rule) {
            (Some(at), _) => state.once.remove(at).1,
            (None, Some(rule)) => rule(&seen),
            (None, None) => Fate::Pass,
        };
        state.hash.add(&[now.as_ns(), from as u64]);
        state.hash.add_bytes(packet);
        if std::env::var("SWARM_TRACE").is_ok() {
            eprintln!("{} {} {fate:?}", now.as_ns(), seen.text);
        }
        if !state.silent {
            state.log.push(seen);
        }
        fate
    }
}

fn text(names: &[Name], from: HostId, bytes: &[u8]) -> String {
    let packet = Packet::parse(bytes).unwrap();
    let name = names.iter().find(|name| name.host == from && name.dest == packet.bth.dest_qp());
    let facts = packet.facts.unwrap();
    let what = match packet.aeth().map(|aeth| aeth.syndrome()) {
        Some(Syndrome::Nak(code)) => format!("NAK {code:?}"),
        Some(Syndrome::RnrNak { timer }) => format!("RNR_NAK {timer}"),
        Some(Syndrome::Ack { .. }) if facts.name == "ACKNOWLEDGE" => "ACK".to_owned(),
        _ => facts.name.to_owned(),
    };
    let Some(name) = name else { return format!("{from} {what}") };
    let origin = if facts.operation.is_response() { name.peer_psn } else { name.own_psn };
    let letter = char::from(b'A' + name.end.0 as u8);
    match facts.name {
        "CNP" => format!("{letter} CNP"),
        _ => format!("{letter} {what} {}", packet.bth.psn().distance_from(origin)),
    }
}
