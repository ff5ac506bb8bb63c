//! The connection manager's machine with connections in all states: whatever arrives and whatever the
//! program does, it stays within its bounds, says nothing but whole messages, and nobody but the peer
//! of a connection changes it. A message that arrives is made right but for what is left ([`leave`]).

mod seeds;

use std::collections::BTreeMap;

use softrnic_model::Instant;
use softrnic_model::cm::ip::{IP_HEADER_LEN, IpHeader};
use softrnic_model::cm::message::cell::Bytes;
use softrnic_model::cm::message::{
    Apr, Drep, Dreq, Lap, Mra, Rej, Rep, Req, Rtu, SidrRep, SidrReq,
};
use softrnic_model::cm::{
    Accept, CommId, Connect, Event, EventKind, Guid, Lifetimes, Listen, ListenAt, Machine,
    MachineConfig, Message, Parting, PortSpace, RejectReason, Resolve, ServiceId, State,
};
use softrnic_model::planted::Fault;
use softrnic_model::verbs::{Gid, QpNum};
use softrnic_model::wire::Route;

use crate::Target;
use crate::input::Input;
use crate::reach::{Reach, hit};
pub(crate) use seeds::seeds;

pub(crate) const TARGET: Target = Target {
    name: "cm",
    run,
    reaches: &[
        Reach::CmRequest,
        Reach::CmEstablished,
        Reach::CmEnded,
        Reach::CmRefused,
        Reach::CmResolved,
        Reach::CmGivenUp,
    ],
    fault: Fault::OtherAddress,
};

/// What a message keeps as it was brought.
mod leave {
    pub(super) const IDS: u8 = 1;
    pub(super) const EXCHANGE: u8 = 2;
    pub(super) const SERVICE: u8 = 4;
    pub(super) const QP: u8 = 8;
    pub(super) const SOURCE: u8 = 16;
    /// Every byte.
    pub(super) const BYTES: u8 = 32;
}

/// Kinds of steps.
mod kind {
    pub(super) const MESSAGE: u8 = 0;
    pub(super) const COMMAND: u8 = 1;
    pub(super) const CONNECT: u8 = 2;
    pub(super) const TIME: u8 = 3;
    pub(super) const COUNT: u8 = 4;
}

/// What the program says about a connection.
mod command {
    pub(super) const ACCEPT: u8 = 0;
    pub(super) const READY: u8 = 1;
    pub(super) const REJECT: u8 = 2;
    pub(super) const DISCONNECT: u8 = 3;
    pub(super) const ANSWER: u8 = 4;
    pub(super) const HEARD: u8 = 5;
    pub(super) const RELEASE: u8 = 6;
    pub(super) const COUNT: u8 = 7;
}

const CONNECTIONS_MAX: u32 = 48;
const BACKLOG: u32 = 16;
const STEPS_MAX: usize = 128;
const SERVICE: ServiceId = ServiceId::of_port(PortSpace::Tcp, 7);
const SLOT: u8 = 1;
const US: [u8; 4] = [10, 0, 0, 1];
const PEERS: u8 = 4;

fn gid(peer: u8) -> Gid {
    Gid::from_v4([10, 0, 1, peer % PEERS])
}

/// The way along which something comes.
fn route(src: Gid) -> Route {
    Route { src, dst: Gid::from_v4(US), hop_limit: 64, ..Route::default() }
}

fn ip_header() -> [u8; IP_HEADER_LEN] {
    IpHeader { source_port: 1, source: US.into(), destination: US.into() }.to_bytes()
}

fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let mut world = World::new();
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        world.step(&mut input);
        world.check();
    }
    world.end();
}

/// What an onlooker knows of a connection.
#[derive(Clone, Copy, Default)]
struct Known {
    /// What the peer calls it.
    peers: CommId,
    /// The exchange that this end has begun.
    exchange: u64,
    /// The own queue pair.
    qp: QpNum,
}

struct World {
    machine: Machine,
    now: Instant,
    known: BTreeMap<CommId, Known>,
    /// What is left to say to each peer, as far as changes were told.
    noted: BTreeMap<CommId, Parting>,
}

impl World {
    fn new() -> Self {
        let mut machine = Machine::new(MachineConfig {
            guid: Guid(1),
            slot: SLOT,
            // So that numbers wrap around.
            first_id: 0x00ff_fff0,
            transaction_high: 7,
            connections_max: CONNECTIONS_MAX,
            lifetimes: Lifetimes::default(),
        });
        let at = ListenAt::All;
        machine.listen(Listen { tag: 0, service_id: SERVICE, at, backlog: BACKLOG });
        Self { machine, now: Instant::ZERO, known: BTreeMap::new(), noted: BTreeMap::new() }
    }

    /// A connection, by its place among those that there are.
    fn pick(&self, about: u8) -> Option<(CommId, Route)> {
        let at = usize::from(about) % self.machine.len().max(1);
        self.machine.connections().nth(at).map(|(id, _, route)| (id, *route))
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.u8() % kind::COUNT {
            kind::MESSAGE => {
                let [peer, about, left] = [input.u8(), input.u8(), input.u8()];
                let len = input.u16();
                self.message(peer, about, left, input.take(len.into()));
            }
            kind::COMMAND => {
                let which = input.u8();
                self.command(which, input.u8());
            }
            kind::CONNECT => {
                let peer = input.u8();
                self.connect(peer, input.u8() & 1 == 1);
            }
            _ => {
                self.now = self.now.plus_ns(u64::from(input.u16()) * 1_000_000);
                self.machine.on_time(self.now);
                assert!(self.machine.next_deadline().is_none_or(|due| due > self.now));
            }
        }
    }

    /// A message arrives, of the peer of a connection if it is about one.
    fn message(&mut self, peer: u8, about: u8, left: u8, bytes: &[u8]) {
        let about = self.pick(about);
        let parsed = Message::parse(bytes).ok().filter(|_| left & leave::BYTES == 0);
        let Some((mut header, mut message)) = parsed else {
            return self.arrives(gid(peer), bytes);
        };
        let id = about.map_or(CommId(0), |(id, _)| id);
        let known = self.known.get(&id).copied().unwrap_or_default();
        let begins = matches!(message, Message::Req(_) | Message::SidrReq(_));
        make_right(&mut message, id, &known, left);
        if left & leave::EXCHANGE == 0 && !begins && known.exchange != 0 {
            header.transaction = known.exchange;
        }
        let from = match about {
            Some((_, route)) if left & leave::SOURCE == 0 && !begins => route.dst,
            _ => gid(peer),
        };
        self.arrives(from, &message.to_mad(header.transaction, header.modifier));
    }

    /// Takes in a datagram; connections of other peers do not notice.
    fn arrives(&mut self, from: Gid, bytes: &[u8]) {
        let of_others = self.machine.connections().filter(|(_, _, route)| route.dst != from);
        let before: Vec<_> = of_others
            .map(|(id, state, _)| (id, state, self.machine.parameters(id).copied()))
            .collect();
        self.machine.on_mad(self.now, &route(from), bytes);
        let is_full = self.machine.len() >= CONNECTIONS_MAX as usize;
        for (id, state, parameters) in before {
            // A request may take the place of one that has ended.
            if self.machine.state(id).is_none() && state == State::Timewait && is_full {
                continue;
            }
            assert_eq!(self.machine.state(id), Some(state), "changed by another address");
            assert_eq!(self.machine.parameters(id).copied(), parameters);
        }
    }

    fn command(&mut self, which: u8, about: u8) {
        let Some((id, _)) = self.pick(about) else { return };
        let (now, machine) = (self.now, &mut self.machine);
        let before = machine.state(id);
        let local_qpn = QpNum::new(0x10 + id.0 % 64);
        let reason = RejectReason::CONSUMER_DEFINED;
        let done = match which % command::COUNT {
            command::ACCEPT => machine.accept(now, id, &Accept { local_qpn, ..Accept::default() }),
            command::READY => machine.ready(id).inspect(|()| hit(Reach::CmEstablished)),
            command::REJECT => machine.reject(now, id, reason, &[1], Bytes::default()),
            command::DISCONNECT => machine.disconnect(now, id),
            command::ANSWER => machine.answer(now, id, &SidrRep::default(), 0),
            command::HEARD => machine.heard_from_peer(id),
            _ => {
                machine.release(now, id);
                Ok(())
            }
        };
        if done.is_err() {
            assert_eq!(machine.state(id), before, "a command that is refused does nothing");
        }
    }

    fn connect(&mut self, peer: u8, is_datagram: bool) {
        let Route { src, dst, .. } = route(gid(peer));
        let (tag, service_id) = (1, SERVICE);
        let route = Route { src: dst, dst: src, ..route(src) };
        let asked = if is_datagram {
            let private_data = Bytes::of(&ip_header()).unwrap();
            self.machine.resolve(self.now, &Resolve { tag, route, service_id, private_data })
        } else {
            let (private_data, local_qpn) = (Bytes::of(&ip_header()).unwrap(), QpNum::new(0x11));
            let connect =
                Connect { tag, route, service_id, private_data, local_qpn, ..Connect::default() };
            self.machine.connect(self.now, &connect)
        };
        assert!(asked.is_ok() || self.machine.len() >= CONNECTIONS_MAX as usize, "{asked:?}");
    }

    /// What always holds.
    fn check(&mut self) {
        while let Some(out) = self.machine.next_mad() {
            let (header, message) = Message::parse(&*out.mad).expect("a whole message");
            assert_eq!(message.to_mad(header.transaction, header.modifier), *out.mad);
            assert_eq!(out.route.src, Gid::from_v4(US));
            match message {
                Message::Req(req) => {
                    let known = self.known.entry(req.local_comm_id).or_default();
                    (known.exchange, known.qp) = (header.transaction, req.local_qpn);
                }
                Message::SidrReq(req) => {
                    self.known.entry(req.request_id).or_default().exchange = header.transaction;
                }
                Message::Rep(rep) => {
                    self.known.entry(rep.local_comm_id).or_default().qp = rep.local_qpn;
                }
                _ => {}
            }
        }
        while let Some(event) = self.machine.next_event() {
            self.hear(&event);
        }
        while let Some(id) = self.machine.next_change() {
            match self.machine.parting(id) {
                Some(parting) => drop(self.noted.insert(id, parting)),
                None => drop(self.noted.remove(&id)),
            }
        }
        // Who was told of every change knows what is left to say to every peer.
        let left = self.machine.connections().map(|(id, ..)| self.machine.parting(id).unwrap());
        assert!(left.map(|parting| parting.words()).eq(self.noted.values().map(Parting::words)));
        assert!(self.machine.len() <= CONNECTIONS_MAX as usize);
        for (id, state, _) in self.machine.connections() {
            assert_eq!(id.slot(), SLOT);
            let parameters = self.machine.parameters(id).unwrap();
            assert!(state != State::Established || parameters.remote_qpn.is_some());
        }
    }

    fn hear(&mut self, event: &Event) {
        let peers = |known: &mut BTreeMap<_, Known>, peers| {
            known.entry(event.id).or_default().peers = peers;
        };
        let is_gone = match &event.kind {
            EventKind::Request { req, .. } => {
                hit(Reach::CmRequest);
                peers(&mut self.known, req.local_comm_id);
                false
            }
            EventKind::ResolveRequest { req, .. } => {
                peers(&mut self.known, req.request_id);
                false
            }
            EventKind::Reply(rep) => {
                peers(&mut self.known, rep.local_comm_id);
                false
            }
            EventKind::Established => {
                hit(Reach::CmEstablished);
                false
            }
            EventKind::DisconnectRequest => false,
            EventKind::Disconnected { .. } => {
                hit(Reach::CmEnded);
                false
            }
            EventKind::Rejected(_) => {
                hit(Reach::CmRefused);
                true
            }
            EventKind::Resolved(_) => {
                hit(Reach::CmResolved);
                true
            }
            EventKind::Unreachable => {
                hit(Reach::CmGivenUp);
                true
            }
            EventKind::TimewaitExit => true,
        };
        assert!(!is_gone || self.machine.state(event.id).is_none(), "{event:?}");
    }

    /// Who lets go of all connections has none in the end.
    fn end(mut self) {
        let ids: Vec<CommId> = self.machine.connections().map(|(id, ..)| id).collect();
        for id in ids {
            self.machine.release(self.now, id);
        }
        while let Some(due) = self.machine.next_deadline() {
            self.machine.on_time(due);
        }
        assert!(self.machine.is_empty());
        assert!(self.machine.next_event().is_none(), "nobody wants to hear of them");
    }
}

/// Makes a message be about connection `id`.
fn make_right(message: &mut Message, id: CommId, known: &Known, left: u8) {
    let fixes = |bit| left & bit == 0;
    match message {
        Message::Req(Req { service_id, private_data: Bytes(data), .. }) => {
            if fixes(leave::SERVICE) {
                *service_id = SERVICE;
                data[..IP_HEADER_LEN].copy_from_slice(&ip_header());
            }
        }
        Message::SidrReq(SidrReq { service_id, private_data: Bytes(data), .. }) => {
            if fixes(leave::SERVICE) {
                *service_id = SERVICE;
                data[..IP_HEADER_LEN].copy_from_slice(&ip_header());
            }
        }
        Message::SidrRep(SidrRep { request_id, .. }) => {
            if fixes(leave::IDS) {
                *request_id = id;
            }
        }
        Message::Mra(Mra { local_comm_id, remote_comm_id, .. })
        | Message::Rej(Rej { local_comm_id, remote_comm_id, .. })
        | Message::Rep(Rep { local_comm_id, remote_comm_id, .. })
        | Message::Rtu(Rtu { local_comm_id, remote_comm_id, .. })
        | Message::Dreq(Dreq { local_comm_id, remote_comm_id, .. })
        | Message::Drep(Drep { local_comm_id, remote_comm_id, .. })
        | Message::Lap(Lap { local_comm_id, remote_comm_id, .. })
        | Message::Apr(Apr { local_comm_id, remote_comm_id, .. }) => {
            if fixes(leave::IDS) {
                *remote_comm_id = id;
                if !known.peers.is_none() {
                    *local_comm_id = known.peers;
                }
            }
        }
    }
    if let Message::Dreq(Dreq { remote_qpn, .. }) | Message::Lap(Lap { remote_qpn, .. }) = message
        && fixes(leave::QP)
    {
        *remote_qpn = known.qp;
    }
}
