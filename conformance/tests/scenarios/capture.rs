//! What the recorded device put on the wire, scenario by scenario.
//!
//! The two programs of the recording told each other names, numbers and the scenario that comes
//! next over TCP, and those lines are in the capture too: they say what a frame belongs to.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use serde_json::Value;
use softrnic_conformance::lab::Family;
use softrnic_conformance::scenario::Side;
use softrnic_model::verbs::{Key, Psn, QpNum};
use softrnic_model::wire::{NotRoce, RoceFrame, Route};

use crate::pcapng::frames_in;

/// What names the ends of a connection; by [`Side`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    pub(crate) qp: [QpNum; 2],
    pub(crate) first_psn: [Psn; 2],
    pub(crate) rkey: [Key; 2],
    /// Address of the buffer.
    pub(crate) addr: [u64; 2],
}

/// The packets of one scenario.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) names: Names,
    pub(crate) frames: Vec<Captured>,
}

#[derive(Clone, Debug)]
pub(crate) struct Captured {
    pub(crate) from: Side,
    pub(crate) route: Route,
    pub(crate) identification: u16,
    pub(crate) packet: Vec<u8>,
    pub(crate) icrc: [u8; 4],
}

/// The scenes of the capture, by name of the scenario.
pub(crate) fn scenes(family: Family) -> &'static BTreeMap<String, Scene> {
    static V4: LazyLock<BTreeMap<String, Scene>> =
        LazyLock::new(|| read("rxe-scenarios.pcapng", Family::V4));
    static V6: LazyLock<BTreeMap<String, Scene>> =
        LazyLock::new(|| read("rxe-v6-scenarios.pcapng", Family::V6));
    match family {
        Family::V4 => &V4,
        Family::V6 => &V6,
    }
}

fn read(file: &str, family: Family) -> BTreeMap<String, Scene> {
    let requester = family.gid(0);
    let mut talk = Talk::default();
    let mut scenes = BTreeMap::new();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("captures").join(file);
    for bytes in frames_in(&path) {
        match RoceFrame::parse(&bytes) {
            Ok(frame) => {
                let scene: &mut Scene =
                    scenes.get_mut(&talk.scenario).expect("a scenario was named before");
                scene.frames.push(Captured {
                    from: side(frame.route.src == requester),
                    route: frame.route,
                    identification: frame.ip.identification().unwrap_or(0),
                    packet: frame.packet.to_vec(),
                    icrc: frame.icrc,
                });
            }
            Err(NotRoce::Protocol(6)) => {
                let (from, payload) = tcp_payload(&bytes);
                for line in payload.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
                    let line: Value = serde_json::from_slice(line).expect("lines are JSON");
                    if let Some(name) = talk.hear(from, &line) {
                        let names = talk.names();
                        scenes.insert(name, Scene { names, frames: Vec::new() });
                    }
                }
            }
            Err(_) => {}
        }
    }
    scenes
}

fn side(is_requester: bool) -> Side {
    if is_requester { Side::Requester } else { Side::Responder }
}

/// What the programs have said so far.
#[derive(Default)]
struct Talk {
    /// Number of the last line of each; by [`Side`].
    heard: [u64; 2],
    ends: [Value; 2],
    scenario: String,
}

impl Talk {
    /// Takes in a line: its number, and a text or the names of an end. Returns the name of a
    /// scenario that begins.
    fn hear(&mut self, from: Side, line: &Value) -> Option<String> {
        let number = line[0].as_u64().expect("lines are numbered");
        let heard = &mut self.heard[from as usize];
        if number <= *heard {
            return None; // TCP sent it again
        }
        *heard = number;
        match &line[1] {
            Value::String(text) if ["rts", "posted", "done"].contains(&text.as_str()) => None,
            Value::String(name) if *name == self.scenario => None,
            Value::String(name) => {
                self.scenario.clone_from(name);
                Some(name.clone())
            }
            names @ Value::Object(_) => {
                self.ends[from as usize] = names.clone();
                None
            }
            _ => None,
        }
    }

    fn names(&self) -> Names {
        let number = |key: &str| {
            [0, 1].map(|side: usize| self.ends[side][key].as_u64().expect("every name was told"))
        };
        let short = |key| number(key).map(|value| u32::try_from(value).expect("it has 32 bits"));
        Names {
            qp: short("qpn").map(QpNum::new),
            first_psn: short("psn").map(Psn::new),
            rkey: short("rkey").map(Key),
            addr: number("va"),
        }
    }
}

/// Sender and payload of a TCP segment over IPv4. The responder's program is the one that listens.
fn tcp_payload(frame: &[u8]) -> (Side, &[u8]) {
    const ETHERNET: usize = 14;
    const LISTENING_PORT: u16 = 18_515;
    let ip = &frame[ETHERNET..];
    let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    let tcp = &ip[usize::from(ip[0] & 0xf) * 4..total];
    let from = side(u16::from_be_bytes([tcp[0], tcp[1]]) != LISTENING_PORT);
    (from, &tcp[usize::from(tcp[12] >> 4) * 4..])
}
