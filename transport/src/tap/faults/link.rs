//! The tap that carries out what fault rules decide.

use std::fmt;
use std::io;
use std::net::UdpSocket;

use softrnic_model::Instant;
use softrnic_model::verbs::Gid;
use softrnic_model::wire::Route;

use super::store::Store;
use super::{Fate, FaultRules, REORDER_WAIT_NS};
use crate::LinkSet;
use crate::link::{Link, LinkCounters, Outgoing, PACKET_LEN_MAX};
use crate::tap::Direction;

/// The byte that the ICRC does not cover.
const UNPROTECTED_BYTE: usize = 4;

/// A link that spoils frames as [`FaultRules`] say. A frame that is held back waits in a bounded
/// store; when that is full, it passes.
pub struct Faults<L> {
    inner: L,
    rules: FaultRules,
    store: Store,
    /// Where a frame that leaves is made before its fate is known.
    scratch: Box<[u8; PACKET_LEN_MAX]>,
    /// A frame is due, and the link inside could not take it.
    blocked: bool,
    spoilt: Spoilt,
}

/// What the tap has done.
#[derive(Clone, Copy, Debug, Default)]
struct Spoilt {
    dropped: u64,
    applied: u64,
    rx_bad_icrc: u64,
}

impl<L: Link> Faults<L> {
    /// Lets `rules` decide about everything that passes `inner`.
    pub fn new(inner: L, rules: FaultRules) -> Self {
        Self {
            inner,
            rules,
            store: Store::new(),
            scratch: Box::new([0; PACKET_LEN_MAX]),
            blocked: false,
            spoilt: Spoilt::default(),
        }
    }

    /// The link inside.
    pub const fn inner(&self) -> &L {
        &self.inner
    }

    /// The link inside, for what is particular to it, such as joining a multicast group.
    pub const fn inner_mut(&mut self) -> &mut L {
        &mut self.inner
    }

    /// Other rules from now on, for instance none. What is held back stays so until it is due.
    pub fn set_rules(&mut self, rules: FaultRules) {
        self.rules = rules;
    }

    /// Lets frames leave that were held back and are due.
    fn release_sent(&mut self, now: Instant) -> io::Result<()> {
        self.blocked = false;
        while self.store.next_due(Some(Direction::Sent)).is_some_and(|due| due <= now) {
            if !self.inner.ready() {
                self.blocked = true;
                break;
            }
            let Some(held) = self.store.take_due(now, Direction::Sent) else { break };
            let result = forward(&mut self.inner, now, held.route, held.damage, held.packet());
            self.store.release(held);
            result?;
        }
        Ok(())
    }
}

/// Gives a finished packet to a link.
fn forward(
    inner: &mut impl Link,
    now: Instant,
    route: Route,
    damage: Option<u32>,
    packet: &[u8],
) -> io::Result<()> {
    inner.transmit(now, Outgoing { route, len: packet.len(), damage }, &mut |out| {
        out.copy_from_slice(packet);
        true
    })
}

impl<L: Link> Link for Faults<L> {
    fn receive(
        &mut self,
        now: Instant,
        deliver: &mut dyn FnMut(&Route, &[u8]),
    ) -> io::Result<usize> {
        let mut delivered = 0;
        let mut deliver = |route: &Route, packet: &[u8]| {
            delivered += 1;
            deliver(route, packet);
        };
        let Self { inner, rules, store, spoilt, .. } = self;
        release_received(store, now, &mut deliver);
        inner.receive(now, &mut |route, packet| {
            let mut arrived = Arrived { store, spoilt, deliver: &mut deliver };
            let fate = rules.judge(now, Direction::Received, route, packet);
            arrived.meet(fate, now, route, packet);
        })?;
        self.release_sent(now)?;
        Ok(delivered)
    }

    fn ready(&self) -> bool {
        self.inner.ready()
    }

    fn transmit(
        &mut self,
        now: Instant,
        frame: Outgoing,
        fill: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> io::Result<()> {
        let Some(packet) = self.scratch.get_mut(..frame.len) else {
            // longer than any packet: for the link inside to refuse
            return self.inner.transmit(now, frame, fill);
        };
        if !fill(packet) {
            return Ok(());
        }
        let packet = &*packet;
        let Outgoing { mut route, mut damage, .. } = frame;
        let fate = self.rules.judge(now, Direction::Sent, &route, packet);
        let (due, awaits_next) = match fate {
            Fate::Delay(ns) => (Some(now.plus_ns(ns)), false),
            Fate::Reorder => (Some(now.plus_ns(REORDER_WAIT_NS)), true),
            Fate::Pass | Fate::Drop | Fate::Duplicate | Fate::Corrupt(_) | Fate::MarkCe => {
                (None, false)
            }
        };
        if fate == Fate::Drop {
            self.spoilt.dropped += 1;
            return Ok(());
        }
        if let Some(due) = due {
            let copy = (&route, damage, packet);
            if self.store.hold(Direction::Sent, copy, due, awaits_next) {
                self.spoilt.applied += 1;
                return Ok(());
            }
        }
        match fate {
            Fate::Corrupt(bit) => damage = Some(bit),
            Fate::MarkCe => route.traffic_class |= Route::ECN_CE,
            Fate::Pass | Fate::Drop | Fate::Duplicate | Fate::Delay(_) | Fate::Reorder => {}
        }
        self.spoilt.applied += u64::from(fate != Fate::Pass && due.is_none());
        forward(&mut self.inner, now, route, damage, packet)?;
        if fate == Fate::Duplicate && self.inner.ready() {
            forward(&mut self.inner, now, route, damage, packet)?;
        }
        if !self.store.is_empty() {
            self.store.passed(Direction::Sent);
            self.release_sent(now)?;
        }
        Ok(())
    }

    fn flush(&mut self, now: Instant) -> io::Result<()> {
        self.release_sent(now)?;
        self.inner.flush(now)
    }

    fn next_deadline(&self) -> Option<Instant> {
        // what the link inside could not take waits for that link
        let held = match self.blocked {
            true => self.store.next_due(Some(Direction::Received)),
            false => self.store.next_due(None),
        };
        self.inner.next_deadline().into_iter().chain(held).min()
    }

    fn join(&mut self, group: Gid) -> io::Result<()> {
        self.inner.join(group)
    }

    fn leave(&mut self, group: Gid) {
        self.inner.leave(group);
    }

    fn sockets(&self, each: &mut dyn FnMut(&UdpSocket)) {
        self.inner.sockets(each);
    }

    fn counters(&self) -> LinkCounters {
        let mut counters = self.inner.counters();
        counters.faults_dropped += self.spoilt.dropped;
        counters.faults_applied += self.spoilt.applied;
        counters.rx_bad_icrc += self.spoilt.rx_bad_icrc;
        counters
    }

    fn as_set(&mut self) -> Option<&mut LinkSet> {
        self.inner.as_set()
    }
}

/// Hands over frames that have arrived, were held back and are due.
fn release_received(store: &mut Store, now: Instant, deliver: &mut dyn FnMut(&Route, &[u8])) {
    while let Some(held) = store.take_due(now, Direction::Received) {
        deliver(&held.route, held.packet());
        store.release(held);
    }
}

/// What a frame that has arrived meets.
struct Arrived<'a> {
    store: &'a mut Store,
    spoilt: &'a mut Spoilt,
    deliver: &'a mut dyn FnMut(&Route, &[u8]),
}

impl Arrived<'_> {
    fn meet(&mut self, fate: Fate, now: Instant, route: &Route, packet: &[u8]) {
        let copy = (route, None, packet);
        let direction = Direction::Received;
        match fate {
            Fate::Pass => self.hand_over(now, route, packet),
            Fate::Drop => self.spoilt.dropped += 1,
            Fate::Delay(ns) if self.store.hold(direction, copy, now.plus_ns(ns), false) => {
                self.spoilt.applied += 1;
            }
            Fate::Reorder
                if self.store.hold(direction, copy, now.plus_ns(REORDER_WAIT_NS), true) =>
            {
                self.spoilt.applied += 1;
            }
            Fate::Delay(_) | Fate::Reorder => self.hand_over(now, route, packet),
            Fate::Duplicate => {
                self.spoilt.applied += 1;
                (self.deliver)(route, packet);
                self.hand_over(now, route, packet);
            }
            Fate::Corrupt(bit) => {
                self.spoilt.applied += 1;
                self.corrupt(now, bit, route, packet);
            }
            Fate::MarkCe => {
                self.spoilt.applied += 1;
                let traffic_class = route.traffic_class | Route::ECN_CE;
                self.hand_over(now, &Route { traffic_class, ..*route }, packet);
            }
        }
    }

    fn hand_over(&mut self, now: Instant, route: &Route, packet: &[u8]) {
        (self.deliver)(route, packet);
        if !self.store.is_empty() {
            self.store.passed(Direction::Received);
            release_received(self.store, now, self.deliver);
        }
    }

    /// A flipped bit is found by the ICRC, unless it is one that the ICRC does not cover.
    fn corrupt(&mut self, now: Instant, bit: u32, route: &Route, packet: &[u8]) {
        let byte = usize::try_from(bit / 8).unwrap_or(usize::MAX);
        if byte != UNPROTECTED_BYTE || packet.len() > PACKET_LEN_MAX {
            self.spoilt.rx_bad_icrc += 1;
            return;
        }
        let mut damaged = [0; PACKET_LEN_MAX];
        let damaged = &mut damaged[..packet.len()];
        damaged.copy_from_slice(packet);
        if let Some(byte) = damaged.get_mut(byte) {
            *byte ^= 1 << (bit % 8);
        }
        self.hand_over(now, route, damaged);
    }
}

impl<L: fmt::Debug> fmt::Debug for Faults<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults")
            .field("inner", &self.inner)
            .field("rules", &self.rules)
            .field("spoilt", &self.spoilt)
            .finish_non_exhaustive()
    }
}
