//! Two machines over a wire that loses, repeats and reorders: whatever the programs do, both ends agree
//! in the end.

use std::collections::BTreeMap;

use proptest::prelude::*;
use softrnic_model::Instant;
use softrnic_model::cm::ip::IpHeader;
use softrnic_model::cm::mad::Mad;
use softrnic_model::cm::message::cell::Bytes;
use softrnic_model::cm::{
    Accept, CommId, Connect, EventKind, Guid, Lifetimes, Listen, ListenAt, Machine, MachineConfig,
    PortSpace, RejectReason, ServiceId, State,
};
use softrnic_model::verbs::{Gid, Psn, QpNum};
use softrnic_model::wire::Route;

const SERVICE: ServiceId = ServiceId::of_port(PortSpace::Tcp, 1);
const MS: u64 = 1_000_000;

/// A generator of numbers (Knuth's constants): the same seed, the same weather.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

struct Host {
    machine: Machine,
    gid: Gid,
    /// Established, and told so by an event or by itself.
    connected: BTreeMap<CommId, ()>,
    next_qp: u32,
}

struct World {
    hosts: [Host; 2],
    /// What travels: when it arrives, a number that breaks ties, to whom, how and what.
    wire: BTreeMap<(Instant, u64), (usize, Route, Mad)>,
    sent: u64,
    dice: Dice,
    now: Instant,
    /// Percent that are lost and repeated.
    loss: u64,
    repeat: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let host = |n: u8| {
            let mut machine = Machine::new(MachineConfig {
                guid: Guid(n.into()),
                slot: n,
                first_id: 1,
                transaction_high: 5,
                connections_max: 64,
                lifetimes: Lifetimes::default(),
            });
            let at = ListenAt::All;
            machine.listen(Listen { tag: 0, service_id: SERVICE, at, backlog: 16 });
            Host {
                machine,
                gid: Gid::from_v4([10, 0, 0, n]),
                connected: BTreeMap::new(),
                next_qp: u32::from(n) << 16 | 0x10,
            }
        };
        let hosts = [host(1), host(2)];
        let (loss, repeat) = (dice.roll(45), dice.roll(30));
        let (wire, now) = (BTreeMap::new(), Instant::from_ns(1));
        Self { hosts, wire, sent: 0, dice, now, loss, repeat }
    }

    fn qp(&mut self, host: usize) -> QpNum {
        self.hosts[host].next_qp += 1;
        QpNum::new(self.hosts[host].next_qp)
    }

    fn connect(&mut self, from: usize) {
        let (src, dst) = (self.hosts[from].gid, self.hosts[1 - from].gid);
        let header = IpHeader { source_port: 9, source: src.into(), destination: dst.into() };
        let connect = Connect {
            route: Route { src, dst, hop_limit: 64, ..Route::default() },
            service_id: SERVICE,
            private_data: Bytes::of(&header.to_bytes()).unwrap(),
            local_qpn: self.qp(from),
            starting_psn: Psn::new(self.dice.roll(1 << 24) as u32),
            responder_resources: self.dice.roll(16) as u8,
            initiator_depth: self.dice.roll(16) as u8,
            mtu: 3,
            ..Connect::default()
        };
        let _ = self.hosts[from].machine.connect(self.now, &connect);
        self.settle(from);
    }

    /// Messages go on the wire; programs hear events and do something.
    fn settle(&mut self, at: usize) {
        loop {
            while let Some(out) = self.hosts[at].machine.next_mad() {
                self.send(1 - at, out.route, *out.mad);
            }
            let Some(event) = self.hosts[at].machine.next_event() else { break };
            self.program(at, event.id, &event.kind);
        }
    }

    fn send(&mut self, to: usize, route: Route, mad: Mad) {
        let copies = 1 + u64::from(self.dice.roll(100) < self.repeat);
        for _ in 0..copies {
            if self.dice.roll(100) < self.loss {
                continue;
            }
            let delay = self.dice.roll(if self.loss == 0 { 2 } else { 600 }) * MS + 1;
            self.sent += 1;
            self.wire.insert((self.now.plus_ns(delay), self.sent), (to, route, mad));
        }
    }

    fn program(&mut self, at: usize, id: CommId, kind: &EventKind) {
        let now = self.now;
        let choice = self.dice.roll(10);
        let qp = self.qp(at);
        let psn = Psn::new(self.dice.roll(1 << 24) as u32);
        let host = &mut self.hosts[at];
        match kind {
            EventKind::Request { .. } => match choice {
                0 => host
                    .machine
                    .reject(now, id, RejectReason::CONSUMER_DEFINED, &[], Bytes::default())
                    .unwrap(),
                1 => host.machine.release(now, id),
                _ => {
                    let accept = Accept {
                        local_qpn: qp,
                        starting_psn: psn,
                        responder_resources: 5,
                        initiator_depth: 5,
                        ..Accept::default()
                    };
                    host.machine.accept(now, id, &accept).unwrap();
                }
            },
            EventKind::Reply(_) => match choice {
                0 => host.machine.release(now, id),
                _ => {
                    host.machine.ready(id).unwrap();
                    host.connected.insert(id, ());
                }
            },
            EventKind::Established => {
                host.connected.insert(id, ());
            }
            EventKind::DisconnectRequest => {
                host.connected.remove(&id);
                host.machine.disconnect(now, id).unwrap();
            }
            EventKind::Rejected(_)
            | EventKind::Unreachable
            | EventKind::Disconnected { .. }
            | EventKind::TimewaitExit => {
                host.connected.remove(&id);
            }
            EventKind::ResolveRequest { .. } | EventKind::Resolved(_) => {
                panic!("nobody asks for datagrams")
            }
        }
    }

    /// A program ends something, now and then.
    fn meddle(&mut self) {
        let at = self.dice.roll(2) as usize;
        match self.dice.roll(4) {
            0 | 1 => self.connect(at),
            2 => {
                let ids: Vec<CommId> = self.hosts[at].connected.keys().copied().collect();
                if let Some(id) = ids.get(self.dice.roll(4) as usize) {
                    let _ = self.hosts[at].machine.disconnect(self.now, *id);
                    self.hosts[at].connected.remove(id);
                }
            }
            _ => {
                let ids: Vec<CommId> =
                    self.hosts[at].machine.connections().map(|(id, ..)| id).collect();
                if let Some(id) = ids.get(self.dice.roll(8) as usize) {
                    self.hosts[at].machine.release(self.now, *id);
                    self.hosts[at].connected.remove(id);
                }
            }
        }
        self.settle(at);
    }

    /// The next thing that happens by itself; false if there is none.
    fn step(&mut self) -> bool {
        let due = |host: &Host| host.machine.next_deadline();
        let deadlines = [due(&self.hosts[0]), due(&self.hosts[1])];
        let timer = deadlines.into_iter().flatten().min();
        let arrival = self.wire.keys().next().map(|(at, _)| *at);
        let Some(next) = timer.into_iter().chain(arrival).min() else { return false };
        self.now = self.now.max(next);
        if arrival == Some(next)
            && let Some((_, (to, route, mad))) = self.wire.pop_first()
        {
            self.hosts[to].machine.on_mad(self.now, &route, &mad);
            self.settle(to);
        } else {
            for at in 0..2 {
                self.hosts[at].machine.on_time(self.now);
                self.settle(at);
            }
        }
        true
    }

    fn run_out(&mut self) {
        for _ in 0..100_000 {
            if !self.step() {
                return;
            }
        }
        panic!("it never ends");
    }

    /// Every connection that one end has, the other one has too, and means the same.
    fn agree(&self) {
        for (at, host) in self.hosts.iter().enumerate() {
            let peer = &self.hosts[1 - at];
            for (id, state, _) in host.machine.connections() {
                assert_eq!(state, State::Established, "{id:?} waits for nothing");
                let own = host.machine.parameters(id).unwrap();
                let same = peer.machine.connections().find(|(other, ..)| {
                    peer.machine.parameters(*other).is_some_and(|theirs| {
                        (theirs.sq_psn, theirs.rq_psn) == (own.rq_psn, own.sq_psn)
                    })
                });
                let (other, ..) = same.expect("the peer has it as well");
                let theirs = peer.machine.parameters(other).unwrap();
                assert_eq!(own.initiator_depth, theirs.responder_resources);
                assert_eq!(own.responder_resources, theirs.initiator_depth);
                assert_eq!(own.mtu, theirs.mtu);
            }
        }
        assert_eq!(self.hosts[0].machine.len(), self.hosts[1].machine.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn both_ends_agree_in_the_end(seed: u64) {
        let mut world = World::new(seed);
        for _ in 0..60 {
            world.meddle();
            for _ in 0..world.dice.roll(8) {
                world.step();
            }
        }
        (world.loss, world.repeat) = (0, 0);
        world.run_out();
        world.agree();
        for at in 0..2 {
            let ids: Vec<CommId> =
                world.hosts[at].machine.connections().map(|(id, ..)| id).collect();
            for id in ids {
                world.hosts[at].machine.release(world.now, id);
            }
            world.settle(at);
        }
        world.run_out();
        prop_assert!(world.hosts.iter().all(|host| host.machine.is_empty()));
    }
}
