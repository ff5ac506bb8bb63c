//! A network of hosts, switches and cables.
//!
//! A frame goes from node to node, and at each cable that it takes its fate is decided anew: by the
//! fault rules of that direction of the cable ([`Network::set_rules`]), by its rate and queue, by
//! whether it is plugged in ([`Network::set_up`]) or paused ([`Network::set_paused`]). Partitions and
//! dead hosts are judged where a frame enters the network and where it leaves it. All of this may be
//! changed at any time, and befalls what is under way as well.
//!
//! Devices are joined to a host as to any link ([`Network::attach`], [`Port`]). Several may share the
//! addresses of a host, each with a slot of queue pair numbers of its own, as processes do that share
//! a UDP port.
//!
//! Nothing in here asks for the time or for chance.

mod event;
mod port;
mod topology;

use std::collections::{BTreeMap, VecDeque};

use softrnic_model::Instant;
use softrnic_model::verbs::Gid;
use softrnic_model::wire::{Bth, ICRC_LEN, Route};
use zerocopy::FromBytes as _;

pub use self::event::{Event, EventHash, Observer, What};
pub use self::port::Port;
use self::topology::{Boarding, Topology};
pub use self::topology::{Cable, LinkId, NodeId};
use super::schedule::Schedule;
use crate::LinkCounters;
use crate::tap::{Direction, FaultRules, faults};
use crate::udp::Maker;

/// Ethernet, IPv4 and UDP headers, frame check sequence: what a packet and its ICRC take on a cable
/// besides.
const OVERHEAD: usize = 14 + 20 + 8 + 4;

/// A device that is joined to a host. Ports count from 0 and are not used again.
pub type PortId = usize;

/// Which of the places a frame under way is in.
pub(super) type Place = u32;

/// A frame under way. Places are used again.
#[derive(Debug, Default)]
struct UnderWay {
    /// Number of the node where it is, or will be.
    node: u32,
    to: PortId,
    /// Number of the host that has sent it.
    from: u32,
    route: Route,
    /// Its ICRC as it was made, once a bit was damaged.
    icrc: Option<[u8; ICRC_LEN]>,
    bytes: Vec<u8>,
}

/// A device on a host.
#[derive(Debug)]
struct Joined {
    node: NodeId,
    slot: u8,
    gids: Vec<Gid>,
    groups: Vec<Gid>,
    inbox: VecDeque<Place>,
    counters: LinkCounters,
    /// It has been in the list of those that have something since the list was taken.
    listed: bool,
}

/// What a node is, and how it is.
#[derive(Clone, Copy, Debug, Default)]
struct Condition {
    dead: bool,
    partition: u32,
}

/// See the module.
pub struct Network {
    now: Instant,
    topology: Topology,
    conditions: Vec<Condition>,
    ports: Vec<Option<Joined>>,
    by_gid: BTreeMap<Gid, Vec<PortId>>,
    schedule: Schedule<Place>,
    frames: Vec<UnderWay>,
    spare: Vec<Place>,
    /// Ports that have something, in the order in which it came.
    touched: Vec<PortId>,
    maker: Maker,
    hash: EventHash,
    events: u64,
    observer: Option<Observer>,
}

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Network")
            .field("now", &self.now)
            .field("nodes", &self.topology.nodes())
            .field("ports", &self.ports.len())
            .finish_non_exhaustive()
    }
}

impl Default for Network {
    fn default() -> Self {
        Self {
            now: Instant::ZERO,
            topology: Topology::default(),
            conditions: Vec::new(),
            ports: Vec::new(),
            by_gid: BTreeMap::new(),
            schedule: Schedule::with_capacity(512),
            frames: Vec::new(),
            spare: Vec::new(),
            touched: Vec::new(),
            maker: Maker::new(),
            hash: EventHash::default(),
            events: 0,
            observer: None,
        }
    }
}

/// How the network is laid out, and how it is at the moment.
impl Network {
    /// Adds a host or a switch.
    pub fn add_node(&mut self) -> NodeId {
        self.conditions.push(Condition::default());
        self.topology.add_node()
    }

    /// How many hosts and switches there are.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.topology.nodes()
    }

    /// Lays a cable.
    ///
    /// # Panics
    /// There is no such node.
    pub fn connect(&mut self, a: NodeId, b: NodeId, cable: Cable) -> LinkId {
        self.topology.connect(a, b, cable)
    }

    /// All cables, in the order in which they were laid.
    pub fn links(&self) -> impl Iterator<Item = LinkId> + use<> {
        (0..u32::try_from(self.topology.links()).unwrap_or(u32::MAX)).map(LinkId)
    }

    /// What a cable is like from now on; what is on it arrives as it would have.
    pub fn set_cable(&mut self, link: LinkId, cable: Cable) {
        self.topology.of_link(link).iter_mut().for_each(|lane| lane.cable = cable);
    }

    /// Fault rules for the frames on a cable, one list for each direction; none means that nothing
    /// befalls them. To the rules every frame is one that leaves.
    pub fn set_rules(&mut self, link: LinkId, rules: [Option<FaultRules>; 2]) {
        for (lane, rules) in self.topology.of_link(link).iter_mut().zip(rules) {
            lane.rules = rules.filter(|rules| !rules.is_empty());
        }
    }

    /// Plugs a cable in or out. Frames take another way, if there is one; what is on the cable
    /// arrives.
    pub fn set_up(&mut self, link: LinkId, up: bool) {
        self.topology.of_link(link).iter_mut().for_each(|lane| lane.up = up);
        self.topology.forget_ways();
    }

    /// Pauses the port of a host, as priority flow control does: what goes there and what comes from
    /// there waits at the other end of its cables, as far as their queues have room, until the pause
    /// ends.
    pub fn set_paused(&mut self, node: NodeId, paused: bool) {
        for index in self.topology.around(node) {
            let lane = &mut self.topology.lanes[index];
            lane.paused = paused;
            if paused {
                continue;
            }
            lane.held_bytes = 0;
            let from = self.topology.lanes[index ^ 1].to;
            for place in std::mem::take(&mut self.topology.lanes[index].held) {
                self.go_on(place, from);
            }
        }
    }

    /// Kills a host, or brings it back: frames from there and to there are lost.
    pub fn set_dead(&mut self, node: NodeId, dead: bool) {
        self.conditions[node.index()].dead = dead;
    }

    /// Whether a host is dead.
    #[must_use]
    pub fn is_dead(&self, node: NodeId) -> bool {
        self.conditions[node.index()].dead
    }

    /// Puts a host in a partition; all are in number 0 at first. Hosts of different partitions do
    /// not reach each other.
    pub fn set_partition(&mut self, node: NodeId, partition: u32) {
        self.conditions[node.index()].partition = partition;
    }

    /// Lets somebody see all that happens; none for nobody.
    pub fn observe(&mut self, observer: Option<Observer>) {
        self.observer = observer;
    }

    /// The hash of all events so far.
    #[must_use]
    pub const fn event_hash(&self) -> EventHash {
        self.hash
    }

    /// Mixes a number of the caller's into the hash of events.
    pub const fn mix(&mut self, number: u64) {
        self.hash.mix(number);
    }

    /// How many events there were so far.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.events
    }
}

/// Who is joined to it.
impl Network {
    /// Joins a device to a host. Frames find it by the addresses and by the slot of the queue pair
    /// that they are for; those for slot 0, the special queue pairs, go to the device that was
    /// joined first.
    pub fn attach(&mut self, node: NodeId, gids: Vec<Gid>, slot: u8) -> PortId {
        let id = self.ports.len();
        for gid in &gids {
            self.by_gid.entry(*gid).or_default().push(id);
        }
        self.ports.push(Some(Joined {
            node,
            slot,
            gids,
            groups: Vec::new(),
            inbox: VecDeque::new(),
            counters: LinkCounters::default(),
            listed: false,
        }));
        id
    }

    /// Takes a device away. What is under way to it is lost.
    pub fn detach(&mut self, port: PortId) {
        let Some(joined) = self.ports.get_mut(port).and_then(Option::take) else { return };
        for gid in &joined.gids {
            if let Some(ports) = self.by_gid.get_mut(gid) {
                ports.retain(|one| *one != port);
            }
        }
        self.spare.extend(joined.inbox);
    }

    /// The devices that are joined to a host, in the order in which they were.
    pub fn ports_of(&self, node: NodeId) -> impl Iterator<Item = PortId> {
        let at = move |joined: &Joined| joined.node == node;
        let ports = self.ports.iter().enumerate();
        ports.filter_map(move |(id, port)| port.as_ref().is_some_and(at).then_some(id))
    }

    /// The device at an address that a packet is for.
    fn recipient(&self, dst: Gid, packet: &[u8]) -> Option<PortId> {
        let ports = self.by_gid.get(&dst)?;
        let (bth, _) = Bth::ref_from_prefix(packet).ok()?;
        let slot = bth.dest_qp().slot();
        let of_slot = |port: &&PortId| self.ports[**port].as_ref().is_some_and(|p| p.slot == slot);
        if slot == 0 { ports.first() } else { ports.iter().find(of_slot) }.copied()
    }
}

/// How frames travel.
impl Network {
    /// The virtual time.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// When something happens next, if ever.
    #[must_use]
    pub fn next_event(&self) -> Option<Instant> {
        // What a host sends to itself has arrived already, and waits to be told.
        if self.touched.is_empty() { self.schedule.next() } else { Some(self.now) }
    }

    /// Lets the time be `now`, and everything happen that is due by then. Names the ports at which
    /// something has arrived, each once, in the order of arrival.
    pub fn advance(&mut self, now: Instant, arrived: &mut Vec<PortId>) {
        self.now = self.now.max(now);
        while let Some(place) = self.schedule.take(self.now) {
            let node = NodeId(self.frames[place as usize].node);
            self.go_on(place, node);
        }
        arrived.clear();
        arrived.append(&mut self.touched);
        for port in arrived {
            if let Some(port) = self.ports.get_mut(*port).and_then(Option::as_mut) {
                port.listed = false;
            }
        }
    }

    /// A place for a packet of `len` bytes, to be filled.
    fn vacancy(&mut self, len: usize) -> Place {
        let place = self.spare.pop().unwrap_or_else(|| {
            self.frames.push(UnderWay::default());
            u32::try_from(self.frames.len() - 1).unwrap_or(u32::MAX)
        });
        let frame = &mut self.frames[place as usize];
        frame.icrc = None;
        frame.bytes.resize(len, 0);
        place
    }

    /// A frame is handed to the network by the device at `port`.
    fn enter(&mut self, port: PortId, place: Place, route: Route, damage: Option<u32>) {
        let Some(Some(joined)) = self.ports.get_mut(port) else {
            return self.spare.push(place);
        };
        let node = joined.node;
        let frame = &mut self.frames[place as usize];
        (frame.from, frame.route) = (node.0, route);
        joined.counters.tx_packets += 1;
        joined.counters.tx_bytes += (frame.bytes.len() + ICRC_LEN) as u64;
        self.note(What::Sent, node, None, place);
        if let Some(bit) = damage {
            self.damage(place, bit);
        }
        if self.conditions[node.index()].dead {
            return self.lose(What::Dead, node, None, place);
        }
        if route.dst.is_multicast() {
            let member = |(id, port): (PortId, &Option<Joined>)| {
                port.as_ref().is_some_and(|port| port.groups.contains(&route.dst)).then_some(id)
            };
            let members: Vec<PortId> = self.ports.iter().enumerate().filter_map(member).collect();
            for member in members {
                let copy = self.copy_of(place);
                self.frames[copy as usize].to = member;
                self.go_on(copy, node);
            }
            return self.spare.push(place);
        }
        match self.recipient(route.dst, &self.frames[place as usize].bytes) {
            Some(to) => {
                self.frames[place as usize].to = to;
                self.go_on(place, node);
            }
            None => self.lose(What::NobodyThere, node, None, place),
        }
    }

    fn copy_of(&mut self, place: Place) -> Place {
        let copy = self.vacancy(0);
        if let Ok([from, to]) = self.frames.get_disjoint_mut([place as usize, copy as usize]) {
            (to.node, to.to, to.from) = (from.node, from.to, from.from);
            (to.route, to.icrc) = (from.route, from.icrc);
            to.bytes.extend_from_slice(&from.bytes);
        }
        copy
    }

    /// A frame is at a node: it has arrived, or takes the next cable.
    fn go_on(&mut self, place: Place, node: NodeId) {
        let to = self.frames[place as usize].to;
        let Some(Some(joined)) = self.ports.get(to) else {
            return self.lose(What::NobodyThere, node, None, place);
        };
        let destination = joined.node;
        if destination == node {
            return self.arrive(place, node, to);
        }
        let Some(index) = self.topology.next_lane(node, destination) else {
            return self.lose(What::NoWay, node, None, place);
        };
        self.take_lane(place, node, index);
    }

    fn take_lane(&mut self, place: Place, node: NodeId, index: usize) {
        let link = Some(LinkId(u32::try_from(index / 2).unwrap_or(u32::MAX)));
        let lane = &mut self.topology.lanes[index];
        let frame = &mut self.frames[place as usize];
        let bytes = (frame.bytes.len() + ICRC_LEN + OVERHEAD) as u64;
        if lane.paused {
            if !lane.holds(bytes) {
                return self.lose(What::QueueFull, node, link, place);
            }
            lane.held.push_back(place);
            lane.held_bytes += bytes;
            return self.note(What::Held, node, link, place);
        }
        let fate = lane.rules.as_mut().map_or(faults::Fate::Pass, |rules| {
            rules.judge(self.now, Direction::Sent, &frame.route, &frame.bytes)
        });
        if fate == faults::Fate::Drop {
            return self.lose(What::Dropped, node, link, place);
        }
        let (mut at, marked) = match lane.board(self.now, bytes) {
            Boarding::Leaves { at, marked } => (at, marked),
            Boarding::NoRoom => return self.lose(What::QueueFull, node, link, place),
        };
        let next = lane.to;
        frame.node = next.0;
        let capable = frame.route.traffic_class & Route::ECN_CE != 0;
        if fate == faults::Fate::MarkCe || (marked && capable) {
            frame.route.traffic_class |= Route::ECN_CE;
            self.note(What::Marked, node, link, place);
        }
        match fate {
            faults::Fate::Delay(ns) => {
                at = at.plus_ns(ns);
                self.note(What::Delayed, node, link, place);
            }
            faults::Fate::Reorder => {
                at = at.plus_ns(faults::REORDER_WAIT_NS);
                self.note(What::Delayed, node, link, place);
            }
            faults::Fate::Corrupt(bit) => {
                self.damage(place, bit);
                self.note(What::Damaged, node, link, place);
            }
            faults::Fate::Duplicate => {
                let copy = self.copy_of(place);
                self.note(What::Duplicated, node, link, place);
                self.schedule.enter(at, copy);
            }
            faults::Fate::Pass | faults::Fate::Drop | faults::Fate::MarkCe => {}
        }
        self.schedule.enter(at, place);
    }

    /// Flips a bit, counted from the BTH, ICRC included.
    fn damage(&mut self, place: Place, bit: u32) {
        let frame = &mut self.frames[place as usize];
        let made = self.maker.icrc(&frame.route, 0, &frame.bytes);
        let icrc = frame.icrc.get_or_insert(made);
        let bit = bit as usize % ((frame.bytes.len() + ICRC_LEN) * 8);
        let len = frame.bytes.len();
        let byte = match frame.bytes.get_mut(bit / 8) {
            Some(byte) => byte,
            None => &mut icrc[bit / 8 - len],
        };
        *byte ^= 1 << (bit % 8);
    }

    fn arrive(&mut self, place: Place, node: NodeId, port: PortId) {
        let frame = &self.frames[place as usize];
        let (from, to) = (self.conditions[frame.from as usize], self.conditions[node.index()]);
        if to.dead {
            return self.lose(What::Dead, node, None, place);
        }
        if from.partition != to.partition {
            return self.lose(What::Parted, node, None, place);
        }
        // A frame that nobody has touched has the ICRC that it was given.
        let intact =
            frame.icrc.is_none_or(|icrc| icrc == self.maker.icrc(&frame.route, 0, &frame.bytes));
        let bytes = (frame.bytes.len() + ICRC_LEN) as u64;
        let Some(Some(joined)) = self.ports.get_mut(port) else { return };
        joined.counters.rx_packets += 1;
        joined.counters.rx_bytes += bytes;
        if !intact {
            joined.counters.rx_bad_icrc += 1;
            return self.lose(What::BadIcrc, node, None, place);
        }
        joined.counters.rx_icrc_full += 1;
        joined.inbox.push_back(place);
        if !std::mem::replace(&mut joined.listed, true) {
            self.touched.push(port);
        }
        self.note(What::Arrived, node, None, place);
    }

    fn lose(&mut self, why: What, node: NodeId, link: Option<LinkId>, place: Place) {
        self.note(why, node, link, place);
        self.spare.push(place);
    }

    fn note(&mut self, what: What, node: NodeId, link: Option<LinkId>, place: Place) {
        let frame = &self.frames[place as usize];
        let event =
            Event { at: self.now, what, node, link, route: &frame.route, packet: &frame.bytes };
        self.events += 1;
        self.hash.event(&event);
        if let Some(observer) = &mut self.observer {
            observer(&event);
        }
    }
}
