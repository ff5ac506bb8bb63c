//! What a case over the verbs and its devices did, kept while it runs and told if it fails: what its
//! programs asked for, and every packet between the devices.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use softrnic_model::wire::Route;

use super::{Rung, in_words};

/// A record of a case. A clone is the same record.
#[derive(Clone, Debug, Default)]
pub struct Tape(Arc<Mutex<Reel>>);

/// The beginning and the end of what happened: what is between them is only counted.
#[derive(Debug, Default)]
struct Reel {
    first: Vec<Taped>,
    last: VecDeque<Taped>,
    left_out: u64,
}

/// Something that happened.
#[derive(Debug)]
struct Taped {
    at_ns: u64,
    who: &'static str,
    what: What,
}

#[derive(Debug)]
enum What {
    /// A frame, and what became of it unless it simply left. Put in words only when somebody asks.
    Packet {
        fate: &'static str,
        route: Route,
        packet: Vec<u8>,
    },
    Words(String),
}

/// How much of the beginning is kept.
const FIRST: usize = 48;
/// How much of the end is kept.
const LAST: usize = 80;

impl Tape {
    /// A frame passes. `fate` says what became of it, unless it simply left.
    pub fn packet(
        &self,
        at_ns: u64,
        who: &'static str,
        fate: &'static str,
        route: &Route,
        packet: &[u8],
    ) {
        let mut reel = self.reel();
        let mut bytes = reel.make_room();
        bytes.extend_from_slice(packet);
        reel.push(Taped { at_ns, who, what: What::Packet { fate, route: *route, packet: bytes } });
    }

    /// Somebody does something else.
    pub fn words(&self, at_ns: u64, who: &'static str, what: String) {
        let mut reel = self.reel();
        reel.make_room();
        reel.push(Taped { at_ns, who, what: What::Words(what) });
    }

    /// What was kept, in the order of time.
    #[must_use]
    pub fn ladder(&self) -> Vec<Rung> {
        let reel = self.reel();
        let mut ladder: Vec<Rung> = reel.first.iter().map(Taped::rung).collect();
        if let (Some(next), 1..) = (reel.last.front(), reel.left_out) {
            let what = format!("{} more are left out here", reel.left_out);
            ladder.push(Rung { at_ns: next.at_ns, who: "judge".into(), what, expected: None });
        }
        ladder.extend(reel.last.iter().map(Taped::rung));
        // Two devices in real time may put down in the wrong order what they did at once.
        ladder.sort_by_key(|rung| rung.at_ns);
        ladder
    }

    fn reel(&self) -> std::sync::MutexGuard<'_, Reel> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reel {
    /// Makes room for one more. The bytes are empty; they may have been a packet's that had to go.
    fn make_room(&mut self) -> Vec<u8> {
        if self.last.len() < LAST {
            return Vec::new();
        }
        self.left_out += 1;
        match self.last.pop_front() {
            Some(Taped { what: What::Packet { mut packet, .. }, .. }) => {
                packet.clear();
                packet
            }
            Some(_) | None => Vec::new(),
        }
    }

    fn push(&mut self, taped: Taped) {
        if self.first.len() < FIRST {
            self.first.push(taped);
        } else {
            self.last.push_back(taped);
        }
    }
}

impl Taped {
    fn rung(&self) -> Rung {
        let what = match &self.what {
            What::Words(words) => words.clone(),
            What::Packet { fate, route, packet } => {
                let gap = if fate.is_empty() { "" } else { ": " };
                format!("{fate}{gap}{}", in_words(route, packet))
            }
        };
        Rung { at_ns: self.at_ns, who: self.who.into(), what, expected: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_and_the_end_are_kept_and_the_rest_is_counted() {
        let tape = Tape::default();
        for at in 0..1000 {
            tape.words(at, "a", format!("{at}"));
        }
        let ladder = tape.ladder();
        assert_eq!(ladder.len(), FIRST + 1 + LAST);
        assert_eq!(ladder[0].what, "0");
        assert_eq!(ladder[FIRST].what, format!("{} more are left out here", 1000 - FIRST - LAST));
        assert_eq!(ladder[FIRST + LAST].what, "999");
    }

    #[test]
    fn packets_are_put_in_words() {
        let tape = Tape::default();
        let route = Route {
            src: softrnic_model::verbs::Gid::from_v4([10, 0, 0, 1]),
            dst: softrnic_model::verbs::Gid::from_v4([10, 0, 0, 2]),
            src_port: 0xc000,
            hop_limit: 64,
            traffic_class: 0,
            flow_label: 0,
        };
        let ack = [0x11, 0, 0xff, 0xff, 0, 0, 0, 0x12, 0, 0, 0, 7, 0x1f, 0, 0, 1];
        tape.packet(2, "b", "", &route, &ack);
        tape.packet(1, "fabric", "lost", &route, &ack[..8]);
        let told: Vec<String> = tape.ladder().iter().map(ToString::to_string).collect();
        let way = "10.0.0.1>10.0.0.2";
        assert_eq!(told.len(), 2);
        assert!(told[0].contains(&format!("fabric  lost: {way} malformed")), "{}", told[0]);
        let words = format!("{way} qp 0x000012 RC ACKNOWLEDGE psn 0x000007 ack credits 31 msn 1");
        assert!(told[1].ends_with(&format!("b  {words}")), "{}", told[1]);
    }
}
