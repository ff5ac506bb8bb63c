//! Hosts, the frames under way between them, and the clock that jumps to the next thing that
//! happens.

use softrnic_model::verbs::Gid;
use softrnic_model::wire::{ICRC_LEN, Route};
use softrnic_model::{Device, FrameOut, Instant};

use super::SimMemory;
use super::schedule::Schedule;
use crate::PACKET_LEN_MAX;
use crate::udp::Maker;

/// The longest frame, ICRC included.
const FRAME_MAX: usize = PACKET_LEN_MAX + ICRC_LEN;
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

/// A frame under way. Places are used again, so that no frame is moved on its way.
struct InFlight {
    to: HostId,
    route: Route,
    len: usize,
    bytes: Box<[u8; FRAME_MAX]>,
}

impl InFlight {
    fn empty() -> Self {
        Self { to: 0, route: Route::default(), len: 0, bytes: Box::new([0; FRAME_MAX]) }
    }

    /// The packet, and its ICRC if it has one.
    fn parts(&self, icrc: bool) -> (&[u8], &[u8]) {
        self.bytes[..self.len].split_at(if icrc { self.len - ICRC_LEN } else { self.len })
    }
}

/// Which of the places a frame under way is in.
type Place = usize;

/// A deterministic fabric. Nothing in it asks for the time or for chance; ties in virtual time are
/// broken by the order of sending.
pub struct Fabric {
    config: FabricConfig,
    now: Instant,
    hosts: Vec<Host>,
    weather: Option<Box<dyn Weather>>,
    under_way: Schedule<Place>,
    frames: Vec<InFlight>,
    spare: Vec<Place>,
    next: FrameOut,
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
            under_way: Schedule::with_capacity(USUAL),
            frames: Vec::with_capacity(USUAL),
            spare: Vec::with_capacity(USUAL),
            next: FrameOut::default(),
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
            while self.hosts[from].device.next_frame(&mut self.next) {
                let place = self.vacancy();
                let Self { frames, hosts, next, icrc, .. } = self;
                let (frame, Host { device, memory, .. }) = (&mut frames[place], &mut hosts[from]);
                let len = next.len();
                if !device.fill(self.now, memory, next, &mut frame.bytes[..len]) {
                    self.spare.push(place);
                    continue;
                }
                frame.route = next.route;
                frame.len = len;
                if self.config.icrc {
                    let (packet, rest) = frame.bytes.split_at_mut(len);
                    rest[..ICRC_LEN].copy_from_slice(&icrc.icrc(&frame.route, 0, packet));
                    frame.len += ICRC_LEN;
                }
                self.route(from, place);
                left += 1;
            }
        }
        left
    }

    /// A place that no frame is in.
    fn vacancy(&mut self) -> Place {
        self.spare.pop().unwrap_or_else(|| {
            self.frames.push(InFlight::empty());
            self.frames.len() - 1
        })
    }

    fn copy_of(&mut self, place: Place) -> Place {
        let copy = self.vacancy();
        if let Ok([from, to]) = self.frames.get_disjoint_mut([place, copy]) {
            (to.to, to.route, to.len) = (from.to, from.route, from.len);
            to.bytes[..from.len].copy_from_slice(&from.bytes[..from.len]);
        }
        copy
    }

    /// Decides who gets a frame, and when.
    fn route(&mut self, from: HostId, place: Place) {
        let frame = &mut self.frames[place];
        let mut at = self.now.plus_ns(self.config.latency_ns);
        let mut again = None;
        if let Some(weather) = &mut self.weather {
            let (packet, _) = frame.parts(self.config.icrc);
            match weather.judge(self.now, from, &frame.route, packet) {
                Fate::Pass => {}
                Fate::Drop => return self.spare.push(place),
                Fate::Delay(ns) => at = at.plus_ns(ns),
                Fate::Duplicate(ns) => again = Some(at.plus_ns(ns)),
                Fate::Corrupt(bit) => {
                    let bit = bit as usize % (frame.len * 8);
                    frame.bytes[bit / 8] ^= 1 << (bit % 8);
                    if !self.config.icrc {
                        return self.spare.push(place);
                    }
                }
                Fate::Mark => frame.route.traffic_class |= Route::ECN_CE,
            }
        }
        let dst = frame.route.dst;
        if dst.is_multicast() {
            for to in 0..self.hosts.len() {
                if self.hosts[to].groups.contains(&dst) {
                    let copy = self.copy_of(place);
                    self.frames[copy].to = to;
                    self.under_way.enter(at, copy);
                }
            }
            return self.spare.push(place);
        }
        let Some(to) = self.hosts.iter().position(|h| h.device.gids().contains(&dst)) else {
            return self.spare.push(place);
        };
        frame.to = to;
        if let Some(at) = again {
            let copy = self.copy_of(place);
            self.under_way.enter(at, copy);
        }
        self.under_way.enter(at, place);
    }

    /// Hands over every frame that is due now. Returns how many.
    fn deliver(&mut self) -> usize {
        let mut delivered = 0;
        while let Some(place) = self.under_way.take(self.now) {
            delivered += 1;
            let frame = &mut self.frames[place];
            let host = &mut self.hosts[frame.to];
            let (packet, icrc) = frame.parts(self.config.icrc);
            if !self.config.icrc || *icrc == self.icrc.icrc(&frame.route, 0, packet) {
                // A hop takes one from the hop limit; the ICRC does not cover it.
                let hop_limit = frame.route.hop_limit.saturating_sub(1);
                let route = Route { hop_limit, ..frame.route };
                host.device.on_frame(self.now, &host.memory, &route, packet);
            } else {
                host.bad_icrc += 1;
            }
            self.spare.push(place);
        }
        delivered
    }

    /// When something happens next, if ever.
    #[must_use]
    pub fn next_event(&self) -> Option<Instant> {
        self.hosts
            .iter()
            .map(|host| host.device.next_deadline())
            .fold(self.under_way.next(), earliest)
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
