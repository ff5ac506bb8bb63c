//! Hosts, the frames under way between them, and the clock that jumps to the next thing that
//! happens.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use softrnic_model::verbs::Gid;
use softrnic_model::wire::{ICRC_LEN, Route};
use softrnic_model::{Device, Instant};

use super::SimMemory;
use crate::PACKET_LEN_MAX;
use crate::udp::Maker;

/// Frames under way for which there is room from the start; more make room for themselves.
const USUAL: usize = 512;

/// Which host of a fabric.
pub type HostId = usize;

/// How a fabric behaves before any fault.
#[derive(Clone, Copy, Debug)]
pub struct FabricConfig {
    /// Time from one host to another, in nanoseconds.
    pub latency_ns: u64,
    /// Whether the ICRC is made and checked. Without it a damaged frame is dropped all the same,
    /// as the check would.
    pub icrc: bool,
}

impl Default for FabricConfig {
    fn default() -> Self {
        Self { latency_ns: 1_000, icrc: true }
    }
}

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives.
    Pass,
    /// It is lost.
    Drop,
    /// It arrives this much later than others, in nanoseconds.
    Delay(u64),
    /// It arrives, and a copy arrives this much later.
    Duplicate(u64),
    /// This bit of the packet (modulo its length) is flipped under way.
    Corrupt(u32),
    /// A switch marks congestion on it.
    Mark,
}

/// Decides the fate of each frame.
pub trait Weather {
    /// A frame of `from` leaves at `now`; `packet` is everything from the BTH to the pad.
    fn judge(&mut self, now: Instant, from: HostId, route: &Route, packet: &[u8]) -> Fate;
}

impl<F: FnMut(Instant, HostId, &Route, &[u8]) -> Fate> Weather for F {
    fn judge(&mut self, now: Instant, from: HostId, route: &Route, packet: &[u8]) -> Fate {
        self(now, from, route, packet)
    }
}

/// One simulated host: a device and the memory of its program.
#[derive(Debug)]
pub struct Host {
    /// The device.
    pub device: Device,
    /// The memory.
    pub memory: SimMemory,
    /// Groups that its interface has joined.
    pub groups: Vec<Gid>,
    /// Frames that arrived with a wrong ICRC.
    pub bad_icrc: u64,
}

#[derive(Debug)]
struct InFlight {
    to: HostId,
    route: Route,
    bytes: Vec<u8>,
}

/// A deterministic fabric. Nothing in it asks for the time or for chance; ties in virtual time are
/// broken by the order of sending.
pub struct Fabric {
    config: FabricConfig,
    now: Instant,
    hosts: Vec<Host>,
    weather: Option<Box<dyn Weather>>,
    // Most frames arrive in the order of sending; only the others need the heap.
    in_order: VecDeque<(Instant, u64, InFlight)>,
    late: BinaryHeap<Reverse<(Instant, u64, usize)>>,
    late_frames: Vec<Option<InFlight>>,
    spare: Vec<Vec<u8>>,
    sent: u64,
    icrc: Maker,
}

impl std::fmt::Debug for Fabric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fabric").field("now", &self.now).field("hosts", &self.hosts.len()).finish()
    }
}

impl Fabric {
    /// A fabric without hosts.
    #[must_use]
    pub fn new(config: FabricConfig) -> Self {
        Self {
            config,
            now: Instant::ZERO,
            hosts: Vec::new(),
            weather: None,
            in_order: VecDeque::with_capacity(USUAL),
            late: BinaryHeap::with_capacity(USUAL),
            late_frames: Vec::with_capacity(USUAL),
            spare: Vec::with_capacity(USUAL),
            sent: 0,
            icrc: Maker::new(),
        }
    }

    /// Adds a host. Frames find it by the GIDs of its device.
    pub fn add_host(&mut self, device: Device) -> HostId {
        self.hosts.push(Host {
            device,
            memory: SimMemory::default(),
            groups: Vec::new(),
            bad_icrc: 0,
        });
        self.hosts.len() - 1
    }

    /// Lets `weather` decide the fate of every frame from now on; none means that all arrive.
    pub fn set_weather(&mut self, weather: Option<Box<dyn Weather>>) {
        self.weather = weather;
    }

    /// How many hosts there are.
    #[must_use]
    pub fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// The virtual time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// A host.
    ///
    /// # Panics
    /// There is no such host.
    #[must_use]
    pub fn host(&self, host: HostId) -> &Host {
        &self.hosts[host]
    }

    /// A host, to be told something by its program.
    ///
    /// # Panics
    /// There is no such host.
    pub fn host_mut(&mut self, host: HostId) -> &mut Host {
        &mut self.hosts[host]
    }

    /// Sends what the hosts have ready. Returns how many frames left.
    pub fn send(&mut self) -> usize {
        let mut left = 0;
        for from in 0..self.hosts.len() {
            while let Some(frame) = self.hosts[from].device.next_frame() {
                let mut bytes = self.buffer();
                let len = frame.len();
                let room = if self.config.icrc { len + ICRC_LEN } else { len };
                bytes.resize(room, 0);
                let Host { device, memory, .. } = &mut self.hosts[from];
                if !device.fill(self.now, memory, &frame, &mut bytes[..len]) {
                    self.spare.push(bytes);
                    continue;
                }
                if self.config.icrc {
                    let (packet, icrc) = bytes.split_at_mut(len);
                    icrc.copy_from_slice(&self.icrc.icrc(&frame.route, 0, packet));
                }
                self.route(from, frame.route, bytes, len);
                left += 1;
            }
        }
        left
    }

    /// An empty buffer that holds any frame.
    fn buffer(&mut self) -> Vec<u8> {
        let mut bytes =
            self.spare.pop().unwrap_or_else(|| Vec::with_capacity(PACKET_LEN_MAX + ICRC_LEN));
        bytes.clear();
        bytes
    }

    fn copy_of(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut copy = self.buffer();
        copy.extend_from_slice(bytes);
        copy
    }

    /// Decides who gets a frame, and when.
    fn route(&mut self, from: HostId, mut route: Route, mut bytes: Vec<u8>, len: usize) {
        let fate = match &mut self.weather {
            Some(weather) => weather.judge(self.now, from, &route, &bytes[..len]),
            None => Fate::Pass,
        };
        let at = self.now.plus_ns(self.config.latency_ns);
        let mut again = None;
        let at = match fate {
            Fate::Pass => at,
            Fate::Drop => return self.spare.push(bytes),
            Fate::Delay(ns) => at.plus_ns(ns),
            Fate::Duplicate(ns) => {
                again = Some(at.plus_ns(ns));
                at
            }
            Fate::Corrupt(bit) => {
                let bit = bit as usize % (bytes.len() * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
                if !self.config.icrc {
                    return self.spare.push(bytes);
                }
                at
            }
            Fate::Mark => {
                route.traffic_class |= Route::ECN_CE;
                at
            }
        };
        if route.dst.is_multicast() {
            for to in 0..self.hosts.len() {
                if self.hosts[to].groups.contains(&route.dst) {
                    let bytes = self.copy_of(&bytes);
                    self.schedule(at, InFlight { to, route, bytes });
                }
            }
            return self.spare.push(bytes);
        }
        let Some(to) = self.hosts.iter().position(|h| h.device.gids().contains(&route.dst)) else {
            return self.spare.push(bytes);
        };
        if let Some(at) = again {
            let bytes = self.copy_of(&bytes);
            self.schedule(at, InFlight { to, route, bytes });
        }
        self.schedule(at, InFlight { to, route, bytes });
    }

    fn schedule(&mut self, at: Instant, frame: InFlight) {
        self.sent += 1;
        if self.in_order.back().is_none_or(|(last, ..)| *last <= at) {
            return self.in_order.push_back((at, self.sent, frame));
        }
        let place = self.late_frames.iter().position(Option::is_none).unwrap_or_else(|| {
            self.late_frames.push(None);
            self.late_frames.len() - 1
        });
        self.late_frames[place] = Some(frame);
        self.late.push(Reverse((at, self.sent, place)));
    }

    fn next_arrival(&self) -> Option<Instant> {
        let in_order = self.in_order.front().map(|(at, ..)| *at);
        let late = self.late.peek().map(|Reverse((at, ..))| *at);
        earliest(in_order, late)
    }

    fn take_arrival(&mut self, now: Instant) -> Option<InFlight> {
        let in_order = self.in_order.front().map(|(at, n, _)| (*at, *n));
        let late = self.late.peek().map(|Reverse((at, n, _))| (*at, *n));
        let first = match (in_order, late) {
            (Some(a), Some(b)) => a.min(b),
            (a, b) => a.or(b)?,
        };
        if first.0 > now {
            return None;
        }
        if in_order == Some(first) {
            return self.in_order.pop_front().map(|(.., frame)| frame);
        }
        let Reverse((.., place)) = self.late.pop()?;
        self.late_frames[place].take()
    }

    /// Hands over every frame that is due now. Returns how many.
    fn deliver(&mut self) -> usize {
        let mut delivered = 0;
        while let Some(InFlight { to, mut route, bytes }) = self.take_arrival(self.now) {
            delivered += 1;
            let host = &mut self.hosts[to];
            let len = if self.config.icrc { bytes.len() - ICRC_LEN } else { bytes.len() };
            let (packet, icrc) = bytes.split_at(len);
            if !self.config.icrc || *icrc == self.icrc.icrc(&route, 0, packet) {
                // A hop takes one from the hop limit; the ICRC does not cover it.
                route.hop_limit = route.hop_limit.saturating_sub(1);
                host.device.on_frame(self.now, &host.memory, &route, packet);
            } else {
                host.bad_icrc += 1;
            }
            self.spare.push(bytes);
        }
        delivered
    }

    /// When something happens next, if ever.
    #[must_use]
    pub fn next_event(&self) -> Option<Instant> {
        self.hosts
            .iter()
            .map(|host| host.device.next_deadline())
            .fold(self.next_arrival(), earliest)
    }

    /// Sends what is ready, moves the clock to what happens next but not past `until`, and lets
    /// it happen. Returns false when nothing happens before or at `until`; the clock stands there
    /// then.
    pub fn step(&mut self, until: Instant) -> bool {
        self.send();
        let Some(at) = self.next_event().filter(|at| *at <= until) else {
            self.now = self.now.max(until);
            return false;
        };
        self.now = self.now.max(at);
        self.deliver();
        for host in &mut self.hosts {
            if host.device.next_deadline().is_some_and(|deadline| deadline <= self.now) {
                host.device.on_time(self.now);
            }
        }
        true
    }

    /// Runs for this long.
    pub fn run_for(&mut self, ns: u64) {
        let until = self.now.plus_ns(ns);
        while self.step(until) {}
    }

    /// Runs until nothing is left to happen, or this long at most. Returns whether nothing is
    /// left.
    pub fn run_until_idle(&mut self, at_most_ns: u64) -> bool {
        let until = self.now.plus_ns(at_most_ns);
        while self.step(until) {}
        self.next_event().is_none()
    }
}

fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
