//! The connection manager's machine with connections in all states: whatever arrives and whatever the
//! program does, it stays within its bounds, says nothing but whole messages, and nobody but the peer
//! of a connection changes it.
#![no_main]

use std::collections::BTreeMap;

use arbitrary::{Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use softrnic_model::Instant;
use softrnic_model::cm::ip::IpHeader;
use softrnic_model::cm::mad::{MAD_LEN, Mad};
use softrnic_model::cm::message::cell::Bytes;
use softrnic_model::cm::message::*;
use softrnic_model::cm::*;
use softrnic_model::verbs::{Gid, QpNum};
use softrnic_model::wire::Route;

const CONNECTIONS_MAX: u32 = 48;
const SERVICE: ServiceId = ServiceId::of_port(PortSpace::Tcp, 7);
const US: [u8; 4] = [10, 0, 0, 1];

/// One thing that happens.
#[derive(Arbitrary, Debug)]
enum Step {
    /// Any bytes.
    Garbage {
        peer: u8,
        bytes: Vec<u8>,
    },
    /// A message with the IDs of a connection, some bytes of it changed.
    Message {
        peer: u8,
        which: u8,
        about: u8,
        changes: Vec<(u8, u8)>,
    },
    /// The program says something about a connection.
    Command {
        which: u8,
        about: u8,
    },
    /// The program asks a peer.
    Connect {
        peer: u8,
        datagram: bool,
    },
    Time {
        ms: u16,
    },
}

struct World {
    machine: Machine,
    now: Instant,
    /// What the peer of each connection calls it, and the exchange.
    known: BTreeMap<CommId, (CommId, u64)>,
}

fn gid(peer: u8) -> Gid {
    Gid::from_v4([10, 0, 1, peer % 4])
}

fn route(peer: u8) -> Route {
    Route { src: gid(peer), dst: Gid::from_v4(US), hop_limit: 64, ..Route::default() }
}

fn header() -> [u8; 36] {
    IpHeader { source_port: 1, source: US.into(), destination: US.into() }.to_bytes()
}

impl World {
    fn new() -> Self {
        let mut machine = Machine::new(MachineConfig {
            guid: Guid(1),
            slot: 1,
            first_id: 0x00ff_fff0,
            transaction_high: 7,
            connections_max: CONNECTIONS_MAX,
            lifetimes: Lifetimes::default(),
        });
        machine.listen(Listen { tag: 0, service_id: SERVICE, at: ListenAt::All, backlog: 16 });
        Self { machine, now: Instant::ZERO, known: BTreeMap::new() }
    }

    /// A connection of the list, by number.
    fn pick(&self, about: u8) -> Option<(CommId, Route)> {
        let count = self.machine.len();
        let at = usize::from(about) % count.max(1);
        self.machine.connections().nth(at).map(|(id, _, route)| (id, *route))
    }

    fn message(&self, which: u8, about: u8) -> Message {
        let id = self.pick(about).map_or(CommId(1), |(id, _)| id);
        let (peers, _) = self.known.get(&id).copied().unwrap_or((CommId(0x0900_0001), 0));
        let qpn = QpNum::new(0x10 + id.0 % 64);
        match which % 12 {
            0 => Req {
                local_comm_id: CommId(0x0900_0000 + u32::from(about)),
                service_id: SERVICE,
                local_ca_guid: Guid(9),
                local_qpn: QpNum::new(0x100 + u32::from(about)),
                private_data: Bytes::of(&header()).unwrap(),
                ..Req::default()
            }
            .into(),
            1 => Rep {
                local_comm_id: peers,
                remote_comm_id: id,
                local_qpn: QpNum::new(0x200 + u32::from(about)),
                local_ca_guid: Guid(9),
                ..Rep::default()
            }
            .into(),
            2 => Rtu { local_comm_id: peers, remote_comm_id: id, ..Rtu::default() }.into(),
            3 | 4 => Rej {
                local_comm_id: peers,
                remote_comm_id: id,
                message: which & 1,
                ..Rej::default()
            }
            .into(),
            5 => Dreq {
                local_comm_id: peers,
                remote_comm_id: id,
                remote_qpn: qpn,
                ..Dreq::default()
            }
            .into(),
            6 => Drep { local_comm_id: peers, remote_comm_id: id, ..Drep::default() }.into(),
            7 => Mra {
                local_comm_id: peers,
                remote_comm_id: id,
                message: about & 1,
                service_timeout: about % 32,
                ..Mra::default()
            }
            .into(),
            8 => SidrReq {
                request_id: CommId(0x0900_0000 + u32::from(about)),
                service_id: SERVICE,
                private_data: Bytes::of(&header()).unwrap(),
                ..SidrReq::default()
            }
            .into(),
            9 => SidrRep { request_id: id, ..SidrRep::default() }.into(),
            10 => Lap { local_comm_id: peers, remote_comm_id: id, ..Lap::default() }.into(),
            _ => Apr { local_comm_id: peers, remote_comm_id: id, ..Apr::default() }.into(),
        }
    }

    /// Takes in a datagram; connections of other peers do not notice.
    fn arrives(&mut self, peer: u8, bytes: &[u8]) {
        let from = gid(peer);
        let others: Vec<_> = self
            .machine
            .connections()
            .filter(|(_, _, route)| route.dst != from)
            .map(|(id, state, _)| (id, state, self.machine.parameters(id).copied()))
            .collect();
        self.machine.on_mad(self.now, &route(peer), bytes);
        let full = self.machine.len() >= CONNECTIONS_MAX as usize;
        for (id, state, parameters) in others {
            // A request may take the place of one that has ended.
            if self.machine.state(id).is_none() && state == State::Timewait && full {
                continue;
            }
            assert_eq!(self.machine.state(id), Some(state), "changed by another address");
            assert_eq!(self.machine.parameters(id).copied(), parameters);
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Garbage { peer, bytes } => self.arrives(peer, &bytes),
            Step::Message { peer, which, about, changes } => {
                let id = self.pick(about).map_or(CommId(1), |(id, _)| id);
                let exchange = self.known.get(&id).map_or(3, |(_, exchange)| *exchange);
                // Half of them come from whom they should.
                let peer = match self.pick(about) {
                    Some((_, route)) if peer & 0x80 != 0 => {
                        route.dst.as_v4().map_or(peer, |octets| octets[3])
                    }
                    _ => peer,
                };
                let mut mad: Mad = self.message(which, about).to_mad(exchange, 0);
                for (at, value) in changes {
                    mad[usize::from(at) % MAD_LEN] ^= value;
                }
                self.arrives(peer, &mad);
            }
            Step::Command { which, about } => self.command(which, about),
            Step::Connect { peer, datagram } => self.connect(peer, datagram),
            Step::Time { ms } => {
                self.now = self.now.plus_ns(u64::from(ms) * 1_000_000);
                self.machine.on_time(self.now);
                assert!(self.machine.next_deadline().is_none_or(|due| due > self.now));
            }
        }
        self.check();
    }

    fn command(&mut self, which: u8, about: u8) {
        let Some((id, _)) = self.pick(about) else { return };
        let (now, machine) = (self.now, &mut self.machine);
        let before = machine.state(id);
        let done = match which % 7 {
            0 => machine.accept(
                now,
                id,
                &Accept { local_qpn: QpNum::new(0x10 + id.0 % 64), ..Accept::default() },
            ),
            1 => machine.ready(id),
            2 => machine.reject(now, id, RejectReason::CONSUMER_DEFINED, &[1], Bytes::default()),
            3 => machine.disconnect(now, id),
            4 => machine.answer(now, id, &SidrRep::default()),
            5 => machine.heard_from_peer(id),
            _ => {
                machine.release(now, id);
                Ok(())
            }
        };
        if done.is_err() {
            assert_eq!(machine.state(id), before, "a command that is refused does nothing");
        }
    }

    fn connect(&mut self, peer: u8, datagram: bool) {
        let way = route(peer);
        let route = Route { src: way.dst, dst: way.src, ..way };
        let asked = if datagram {
            let private_data = Bytes::of(&header()).unwrap();
            let resolve = Resolve { tag: 1, route, service_id: SERVICE, private_data };
            self.machine.resolve(self.now, &resolve)
        } else {
            let connect = Connect {
                tag: 1,
                route,
                service_id: SERVICE,
                private_data: Bytes::of(&header()).unwrap(),
                local_qpn: QpNum::new(0x11),
                ..Connect::default()
            };
            self.machine.connect(self.now, &connect)
        };
        assert!(asked.is_ok() || self.machine.len() >= CONNECTIONS_MAX as usize);
    }

    /// What always holds.
    fn check(&mut self) {
        while let Some(out) = self.machine.next_mad() {
            let (header, message) = Message::parse(&*out.mad).expect("a whole message");
            assert_eq!(message.to_mad(header.transaction, header.modifier), *out.mad);
            assert_eq!(out.route.src, Gid::from_v4(US));
            let about = match &message {
                Message::Req(req) => Some((req.local_comm_id, CommId(0x0900_0001))),
                Message::SidrReq(req) => Some((req.request_id, CommId(0))),
                Message::Rep(rep) => Some((rep.local_comm_id, rep.remote_comm_id)),
                _ => None,
            };
            if let Some((own, peers)) = about {
                self.known.insert(own, (peers, header.transaction));
            }
        }
        while let Some(event) = self.machine.next_event() {
            let gone = matches!(
                event.kind,
                EventKind::Rejected(_)
                    | EventKind::Unreachable
                    | EventKind::TimewaitExit
                    | EventKind::Resolved(_)
            );
            assert!(!gone || self.machine.state(event.id).is_none(), "{event:?}");
        }
        assert!(self.machine.len() <= CONNECTIONS_MAX as usize);
        for (id, state, _) in self.machine.connections() {
            assert_eq!(id.slot(), 1);
            if state == State::Established {
                assert!(self.machine.parameters(id).unwrap().remote_qpn.is_some());
            }
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Unstructured::new(data);
    let mut world = World::new();
    while let Ok(step) = Step::arbitrary(&mut input) {
        world.step(step);
        if input.is_empty() {
            break;
        }
    }
    // In the end all of it goes.
    let ids: Vec<CommId> = world.machine.connections().map(|(id, ..)| id).collect();
    for id in ids {
        world.machine.release(world.now, id);
    }
    while let Some(due) = world.machine.next_deadline() {
        world.machine.on_time(due);
    }
    assert!(world.machine.is_empty());
});
