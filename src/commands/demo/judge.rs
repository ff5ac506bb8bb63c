//! Judgement of an act by what the responder has seen.

use std::ops::Range;

use softrnic_model::profile::Profile;
use softrnic_model::wire::{Grh, Route};
use softrnic_verbs::{Endpoint, Gid, QpType};

use super::image::{Image, grh_len, receive_offset};
use super::script::{Act, HOP_LIMIT, IMMEDIATE, Outcome, Verb};
use super::talk::{Arrived, Receipt, Seen, from_hex};
use crate::words;

/// All that decides what the responder must see.
#[derive(Debug)]
pub(super) struct Expected<'a> {
    pub(super) act: &'a Act,
    /// The requester's queue pair.
    pub(super) sender: Endpoint,
    /// The responder's address.
    pub(super) receiver: Gid,
    pub(super) profile: &'a Profile,
    /// What the responder's memory must hold.
    pub(super) memory: &'a Image,
}

impl Expected<'_> {
    /// What of the responder's report is not as it must be.
    pub(super) fn judge(&self, seen: &Seen) -> Option<String> {
        let expected = self.receipts();
        if seen.receipts.len() != expected.len() {
            return Some(format!("{} completions, not {}", seen.receipts.len(), expected.len()));
        }
        if let Some((seen, expected)) = seen.receipts.iter().zip(&expected).find(|(a, b)| a != b) {
            return Some(format!("completion {seen:?}, not {expected:?}"));
        }
        let event = self.act.outcome.event(self.profile);
        if !seen.events.iter().map(String::as_str).eq(event) {
            return Some(format!("events {:?}, not {:?}", seen.events, event.as_slice()));
        }
        let state = expected_state(self.act);
        if seen.state != state {
            return Some(format!("QP in {}, not {state}", seen.state));
        }
        let Some(memory) = from_hex(&seen.memory) else { return Some("memory is garbled".into()) };
        self.memory
            .difference(&memory, &undefined_places(self.act))
            .or_else(|| self.judge_grh(seen))
    }

    /// What the completions of receives must say.
    fn receipts(&self) -> Vec<Receipt> {
        let act = self.act;
        let immediate = |round: u64| IMMEDIATE + u32::try_from(round).unwrap_or(u32::MAX);
        let with_immediate = act.verb == Verb::WriteWithImmediate;
        let receipt = |round: u64| Receipt {
            wr_id: round,
            status: words::status(act.outcome.responder(self.profile)).into(),
            arrived: (act.outcome == Outcome::Done).then(|| Arrived {
                opcode: if with_immediate { "recv RDMA with imm" } else { "recv" }.into(),
                bytes: act.bytes + u32::try_from(grh_len(act)).unwrap_or(0),
                immediate: with_immediate.then(|| immediate(round)),
                sender: (act.service == QpType::Ud).then(|| self.sender.qp_num.get()),
            }),
        };
        (0..act.rounds).filter(|_| act.stage.receive > 0).map(receipt).collect()
    }

    fn judge_grh(&self, seen: &Seen) -> Option<String> {
        if self.act.service != QpType::Ud {
            return None;
        }
        let Some(route) = seen_grh(self.act, seen) else {
            return Some("no GRH before the datagram".into());
        };
        let expected = (self.sender.gid, self.receiver, HOP_LIMIT);
        let seen = (route.src, route.dst, route.hop_limit);
        (seen != expected).then(|| format!("GRH {seen:?}, not {expected:?}"))
    }
}

/// A refusal on RC ends the connection at both ends.
pub(super) const fn expected_state(act: &Act) -> &'static str {
    match act.outcome {
        Outcome::Done => "RTS",
        Outcome::AccessRefused | Outcome::RequestRefused | Outcome::ReceiveTooSmall => "ERR",
    }
}

/// Where the responder's memory is not foretold: the headers in front of datagrams, and what a
/// message that did not fit leaves in its receive.
fn undefined_places(act: &Act) -> Vec<Range<u64>> {
    let undefined = match act.outcome {
        Outcome::ReceiveTooSmall => u64::from(act.stage.receive),
        Outcome::Done | Outcome::AccessRefused | Outcome::RequestRefused => grh_len(act),
    };
    (0..act.rounds).map(|round| receive_offset(act, round)).map(|at| at..at + undefined).collect()
}

/// The header in front of the last datagram.
pub(super) fn seen_grh(act: &Act, seen: &Seen) -> Option<Route> {
    if act.service != QpType::Ud {
        return None;
    }
    let memory = from_hex(&seen.memory)?;
    let at = usize::try_from(receive_offset(act, act.rounds.checked_sub(1)?)).ok()?;
    Grh::parse(memory.get(at..)?.first_chunk()?)
}

/// What the responder saw, in a few words.
pub(super) fn describe(seen: &Seen) -> String {
    let mut parts = Vec::new();
    if let Some(first) = seen.receipts.first() {
        let what = match &first.arrived {
            Some(arrived) => format!("{}: {}", arrived.opcode, first.status),
            None => format!("recv: {}", first.status),
        };
        let many = seen.receipts.len();
        parts.push(if many == 1 { what } else { format!("{many} x {what}") });
    }
    parts.extend(seen.events.iter().map(|event| format!("event: {event}")));
    if seen.state != "RTS" {
        parts.push(format!("QP in {}", seen.state));
    }
    if parts.is_empty() { "no completion, no event".into() } else { parts.join("; ") }
}

#[cfg(test)]
mod tests {
    use softrnic_verbs::{Mtu, Psn, QpNum};

    use super::super::image::World;
    use super::super::script::ACTS;
    use super::super::talk::to_hex;
    use super::*;

    const SENDER: Endpoint = Endpoint {
        gid: Gid::from_v4([127, 0, 0, 2]),
        qp_num: QpNum::new(0x11),
        psn: Psn::new(0),
        mtu: Mtu::B1024,
        responder_depth: 16,
    };
    const RECEIVER: Gid = Gid::from_v4([127, 0, 0, 3]);

    /// Calls `check` with what is expected of each act and a report that is as it must be.
    fn each(check: impl Fn(&Expected<'_>, &Seen)) {
        for profile in &Profile::ALL {
            for act in &ACTS {
                let mut world = World::new();
                (0..act.rounds).for_each(|round| world.perform(act, round));
                let memory = &world.responder;
                let expected =
                    Expected { act, sender: SENDER, receiver: RECEIVER, profile, memory };
                let mut seen = Seen {
                    receipts: expected.receipts(),
                    events: act.outcome.event(profile).map(String::from).into_iter().collect(),
                    state: expected_state(act).into(),
                    memory: String::new(),
                };
                let mut memory = memory.clone();
                for round in (0..act.rounds).filter(|_| act.service == QpType::Ud) {
                    let (src, dst) = (SENDER.gid, RECEIVER);
                    let route = Route { src, dst, hop_limit: HOP_LIMIT, ..Route::default() };
                    memory.put(receive_offset(act, round), &Grh::new(&route, 0).0);
                }
                seen.memory = to_hex(memory.bytes());
                check(&expected, &seen);
            }
        }
    }

    #[test]
    fn what_is_as_it_must_be_is_accepted() {
        each(|expected, seen| assert_eq!(expected.judge(seen), None, "{:?}", expected.act));
    }

    #[test]
    fn a_byte_that_changed_is_found() {
        each(|expected, seen| {
            let mut memory = expected.memory.clone();
            // Behind the last receive of every act.
            memory.put(16_383, &[!memory.bytes()[16_383]]);
            let seen = Seen { memory: to_hex(memory.bytes()), ..seen.clone() };
            assert!(expected.judge(&seen).unwrap().contains("offset 16383"));
        });
    }

    #[test]
    fn completions_events_and_states_that_are_wrong_are_found() {
        each(|expected, seen| {
            let mut wrong = vec![
                Seen { state: "SQD".into(), ..seen.clone() },
                Seen { memory: "zz".into(), ..seen.clone() },
                Seen { events: vec!["device fatal".into()], ..seen.clone() },
            ];
            let mut more = seen.clone();
            more.receipts.push(Receipt { wr_id: 0, status: "success".into(), arrived: None });
            wrong.push(more);
            for (index, receipt) in seen.receipts.iter().enumerate() {
                let mut other = seen.clone();
                other.receipts[index] =
                    Receipt { status: "general error".into(), ..receipt.clone() };
                wrong.push(other);
                if let Some(arrived) = &receipt.arrived {
                    for arrived in [
                        Arrived { bytes: arrived.bytes + 1, ..arrived.clone() },
                        Arrived { immediate: Some(1), ..arrived.clone() },
                        Arrived { sender: Some(1), ..arrived.clone() },
                        Arrived { opcode: "send".into(), ..arrived.clone() },
                    ] {
                        let mut other = seen.clone();
                        other.receipts[index].arrived = Some(arrived);
                        wrong.push(other);
                    }
                }
            }
            for seen in wrong {
                assert!(expected.judge(&seen).is_some(), "{:?}: {seen:?}", expected.act);
            }
        });
    }

    #[test]
    fn a_header_that_tells_something_else_is_found() {
        each(|expected, seen| {
            if expected.act.service == QpType::Ud {
                let other = Expected { receiver: Gid::from_v4([127, 0, 0, 4]), ..*expected };
                assert!(other.judge(seen).unwrap().contains("GRH"));
            }
        });
    }
}
