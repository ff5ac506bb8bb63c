//! The fabric as tests see it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use softrnic_model::profile::Profile;
use softrnic_model::protection::KeyPolicy;
use softrnic_model::verbs::{Gid, Mtu, VerbError};
use softrnic_model::{Device, DeviceConfig};
use softrnic_transport::Link;
use softrnic_transport::sim::Network;
use softrnic_transport::sim::network::{Cable, EventHash, LinkId, NodeId, Observer, Port};
use softrnic_transport::tap::faults::ParseFaultsError;
use softrnic_transport::tap::{Capture, CaptureError, CaptureFile, FaultRules};

use super::home::{Shared, SimulatedContext, ns_of};
use super::provider::{self, SimulatedProvider};
use super::world::World;
use crate::Context;
use crate::machine::addresses::{Address, GidTable};
use crate::machine::communication::Communication;
use crate::machine::core::Core;
use crate::machine::events::EventQueue;
use crate::provider::{self as verbs, OpenFailure, Provider};

/// What a fabric is made with.
#[derive(Clone, Copy, Debug)]
pub struct FabricConfig {
    /// Where all chance comes from: faults, first PSNs, random keys.
    pub seed: u64,
    /// How devices behave where devices differ.
    pub profile: Profile,
    /// How they choose keys.
    pub key_policy: KeyPolicy,
    /// The largest path MTU of their ports.
    pub mtu: Mtu,
    /// Bytes that one queue pair may have unacknowledged.
    pub window_bytes: u32,
    /// Time that an empty poll takes. A program that polls needs some, or its clock stands still; a
    /// test that lets the fabric run by itself may have none.
    pub poll_costs: Duration,
}

impl Default for FabricConfig {
    fn default() -> Self {
        Self {
            seed: 0,
            profile: Profile::SPEC,
            key_policy: KeyPolicy::Sequential,
            mtu: Mtu::B4096,
            window_bytes: 1 << 20,
            poll_costs: Duration::from_micros(1),
        }
    }
}

/// A host as a fabric knows it.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) node: NodeId,
    pub(super) addresses: Vec<IpAddr>,
    /// Devices that were opened so far.
    opened: u32,
}

#[derive(Debug, Default)]
struct Plan {
    hosts: Vec<Host>,
    capture: Option<CaptureFile>,
}

/// A fabric. A clone is the same fabric.
#[derive(Clone, Debug)]
pub struct Fabric {
    shared: Arc<Shared>,
    config: FabricConfig,
    plan: Arc<Mutex<Plan>>,
    trace: Arc<Mutex<Vec<String>>>,
}

/// How it is laid out.
impl Fabric {
    /// A fabric without hosts.
    #[must_use]
    pub fn new(config: FabricConfig) -> Self {
        let world = World::new(Network::default());
        Self {
            shared: Arc::new(Shared::new(world, ns_of(config.poll_costs), config.seed)),
            config,
            plan: Arc::default(),
            trace: Arc::default(),
        }
    }

    /// `hosts` hosts on one switch, half a microsecond from each to the switch.
    #[must_use]
    pub fn star(hosts: usize, seed: u64) -> Self {
        Self::star_with(FabricConfig { seed, ..FabricConfig::default() }, hosts)
    }

    /// The same of a fabric that is made otherwise.
    #[must_use]
    pub fn star_with(config: FabricConfig, hosts: usize) -> Self {
        let fabric = Self::new(config);
        let switch = fabric.add_switch();
        for number in 0..hosts {
            let host = fabric.add_host(&format!("host{number}"));
            fabric.connect(host, switch, Cable::default());
        }
        fabric
    }

    /// Adds a host, with an IPv4 address (GID 0) and an IPv6 address (GID 1). It reaches nobody before
    /// it is connected.
    pub fn add_host(&self, name: &str) -> NodeId {
        let node = self.shared.world().network().add_node();
        let [.., hi, mid, lo] = node.get().to_be_bytes();
        let v4 = Ipv4Addr::new(10, hi, mid, lo);
        let v6 = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, u16::from(hi), u16::from_be_bytes([mid, lo]));
        let addresses = vec![v4.into(), v6.into()];
        self.plan().hosts.push(Host { name: name.into(), node, addresses, opened: 0 });
        node
    }

    /// Adds a switch.
    pub fn add_switch(&self) -> NodeId {
        self.shared.world().network().add_node()
    }

    /// Lays a cable between two nodes of this fabric. Frames take the way with the fewest cables; of
    /// several, the one that was laid first.
    ///
    /// # Panics
    /// A node is of another fabric and has no match in this one.
    pub fn connect(&self, a: NodeId, b: NodeId, cable: Cable) -> LinkId {
        self.shared.world().network().connect(a, b, cable)
    }

    /// Its hosts, in the order in which they were added.
    #[must_use]
    pub fn hosts(&self) -> Vec<NodeId> {
        self.each_host(|host| host.node)
    }

    /// Its cables, in the order in which they were laid.
    #[must_use]
    pub fn links(&self) -> Vec<LinkId> {
        self.shared.world().network().links().collect()
    }

    /// The addresses of a host, in the order of its GID table; none if it is not one of this fabric.
    #[must_use]
    pub fn addresses(&self, host: NodeId) -> Vec<IpAddr> {
        let plan = self.plan();
        let found = plan.hosts.iter().find(|known| known.node == host);
        found.map_or_else(Vec::new, |host| host.addresses.clone())
    }

    pub(super) fn each_host<T>(&self, what: impl FnMut(&Host) -> T) -> Vec<T> {
        self.plan().hosts.iter().map(what).collect()
    }

    fn plan(&self) -> std::sync::MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Its devices.
impl Fabric {
    /// Its hosts as devices to be listed and opened by name.
    #[must_use]
    pub fn provider(&self) -> Arc<dyn Provider> {
        Arc::new(SimulatedProvider::new(self.clone()))
    }

    /// Opens the device of a host. Every call opens another one; they share the host's addresses.
    ///
    /// # Errors
    /// `EINVAL`: not a host of this fabric, or one that has crashed; `ENOMEM`: 255 devices were opened
    /// there.
    pub fn open(&self, host: NodeId) -> Result<Context, OpenFailure> {
        self.open_verbs(host).map(Context::new)
    }

    pub(super) fn open_verbs(&self, host: NodeId) -> Result<Arc<dyn verbs::Context>, OpenFailure> {
        let mut plan = self.plan();
        let Plan { hosts, capture } = &mut *plan;
        let Some(host) = hosts.iter_mut().find(|known| known.node == host) else {
            return Err(VerbError::NoSuchObject("host: not one of this fabric").into());
        };
        let Ok(slot) = u8::try_from(host.opened + 1) else {
            return Err(VerbError::Full("255 devices were opened on this host").into());
        };
        let mut world = self.shared.world();
        if world.network().is_dead(host.node) {
            return Err(VerbError::Invalid("host: it has crashed").into());
        }
        host.opened += 1;
        let mut table = GidTable::default();
        for (ip, interface) in host.addresses.iter().zip([1; 2]) {
            table.insert(Address { ip: *ip, interface });
        }
        let gids: Vec<Gid> = table.gids();
        let info = provider::info(&host.name, &host.addresses);
        let [.., mid, lo] = host.node.get().to_be_bytes();
        let mut config = DeviceConfig {
            profile: self.config.profile,
            key_policy: self.config.key_policy,
            gids: gids.clone(),
            mtu: self.config.mtu,
            qp_slot: slot,
            // Numbers of two ends shall differ, so that none passes for another.
            first_qp_index: u16::from_be_bytes([mid, lo]).wrapping_mul(0x101),
            window_bytes: self.config.window_bytes,
            ..DeviceConfig::default()
        };
        config.attributes.node_guid = info.node_guid;
        let port = world.network().attach(host.node, gids, slot);
        let mut link: Box<dyn Link> = Box::new(Port::new(world.share_network(), port));
        if let Some(file) = capture {
            link = Box::new(Capture::new(link, file, &host.name));
        }
        let asynchronous = Arc::new(EventQueue::without_descriptor());
        let communication = Communication::new(config.attributes.node_guid, config.qp_slot, 0);
        let core =
            Core::new(Device::new(config), link, table, Arc::clone(&asynchronous), communication);
        world.put(port, core);
        drop(world);
        Ok(Arc::new(SimulatedContext {
            info,
            shared: Arc::clone(&self.shared),
            port,
            asynchronous,
        }))
    }

    /// A bare link at a host: whoever has it makes the packets of this slot of the host's queue pair
    /// numbers himself, and takes what is sent to them ([`Link::transmit`], [`Link::receive`]). Packets
    /// need time to travel: see [`Fabric::run_for`].
    ///
    /// # Errors
    /// `EINVAL`: not a host of this fabric.
    pub fn bare_link(&self, host: NodeId, slot: u8) -> Result<Box<dyn Link>, VerbError> {
        let plan = self.plan();
        let Some(host) = plan.hosts.iter().find(|known| known.node == host) else {
            return Err(VerbError::NoSuchObject("host: not one of this fabric"));
        };
        let gids = host.addresses.iter().map(|address| Gid::from(*address)).collect();
        let mut world = self.shared.world();
        let port = world.network().attach(host.node, gids, slot);
        world.reserve(port);
        Ok(Box::new(Port::new(world.share_network(), port)))
    }

    /// Records the frames of all devices that are opened from now on (pcapng). Times count from the
    /// beginning of 1970.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn capture(&self, path: &Path) -> Result<(), CaptureError> {
        self.plan().capture = Some(CaptureFile::create(path, UNIX_EPOCH)?);
        Ok(())
    }
}

/// Its time.
impl Fabric {
    /// The virtual time since it was made.
    #[must_use]
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.shared.world().now().as_ns())
    }

    /// Lets the next thing happen, whenever that is. Returns false when nothing will.
    pub fn step(&self) -> bool {
        self.shared.world().step(None)
    }

    /// Lets everything happen within this time.
    pub fn run_for(&self, time: Duration) {
        let mut world = self.shared.world();
        let until = world.now().plus_ns(ns_of(time));
        world.run_to(until);
    }

    /// Lets things happen until nothing is left to happen, or this long at most. Returns whether
    /// nothing is left.
    #[must_use]
    pub fn run_until_idle(&self, at_most: Duration) -> bool {
        let mut world = self.shared.world();
        let until = world.now().plus_ns(ns_of(at_most));
        while world.next_event().is_some_and(|at| at <= until) {
            world.step(Some(until));
        }
        world.next_event().is_none()
    }
}

/// What befalls it. Everything may change at any time.
impl Fabric {
    /// What a cable is like from now on: latency, rate, queue.
    pub fn set_cable(&self, link: LinkId, cable: Cable) {
        self.shared.world().network().set_cable(link, cable);
    }

    /// Faults of the frames on a cable, in the text form of [`FaultRules::parse`]:
    /// `drop=1%,duplicate=1%,reorder=2%,delay=1%:500us,corrupt=0.1%,ecn=5%`. An empty text ends them.
    /// Without a `seed` their chances are those of the fabric's.
    ///
    /// # Errors
    /// Which item of the text is wrong, and what is allowed.
    pub fn set_faults(&self, link: LinkId, text: &str) -> Result<(), ParseFaultsError> {
        let rules = [self.shared.draw(), self.shared.draw()]
            .map(|seed| FaultRules::parse_seeded(text, seed));
        let [there, back] = rules;
        self.set_rules(link, [Some(there?), Some(back?)]);
        Ok(())
    }

    /// The same for every cable that there is.
    ///
    /// # Errors
    /// As [`Fabric::set_faults`].
    pub fn set_faults_everywhere(&self, text: &str) -> Result<(), ParseFaultsError> {
        self.links().into_iter().try_for_each(|link| self.set_faults(link, text))
    }

    /// Rules for the frames on a cable, in the direction of its making and back: any closure may be
    /// one.
    pub fn set_rules(&self, link: LinkId, rules: [Option<FaultRules>; 2]) {
        self.shared.world().network().set_rules(link, rules);
    }

    /// Pulls a cable out. What is on it arrives; other frames take another way, if there is one.
    pub fn unplug(&self, link: LinkId) {
        self.shared.world().network().set_up(link, false);
    }

    /// Plugs it in again.
    pub fn plug(&self, link: LinkId) {
        self.shared.world().network().set_up(link, true);
    }

    /// Parts the hosts: those of different groups do not reach each other, also with what is under
    /// way. Hosts that are not named form a group of their own.
    pub fn partition(&self, groups: &[&[NodeId]]) {
        let world = self.shared.world();
        let mut network = world.network();
        for node in self.hosts() {
            let group = groups.iter().position(|group| group.contains(&node));
            let number = group.map_or(0, |at| u32::try_from(at + 1).unwrap_or(u32::MAX));
            network.set_partition(node, number);
        }
    }

    /// Ends the partition.
    pub fn heal(&self) {
        self.partition(&[]);
    }

    /// Pauses the port of a host, as priority flow control does: what goes there and comes from there
    /// waits, as far as the queues of its cables have room.
    pub fn pause(&self, host: NodeId) {
        self.shared.world().network().set_paused(host, true);
    }

    /// Ends the pause.
    pub fn resume(&self, host: NodeId) {
        self.shared.world().network().set_paused(host, false);
    }

    /// Cuts a host off as if it had lost power, but lets its program live: frames from there and to
    /// there are lost. To the others it is dead.
    pub fn isolate(&self, host: NodeId) {
        self.shared.world().network().set_dead(host, true);
    }

    /// A host dies with its programs: its devices fail for good (`DeviceFatal`, all work flushed), and
    /// nothing reaches it any more.
    pub fn crash(&self, host: NodeId) {
        let mut world = self.shared.world();
        world.network().set_dead(host, true);
        world.crash(host);
    }

    /// Brings back a host that was isolated or has crashed. After a crash its devices have to be
    /// opened anew.
    pub fn restart(&self, host: NodeId) {
        self.shared.world().network().set_dead(host, false);
    }
}

/// What is to be seen of it.
impl Fabric {
    /// Lets somebody see every event, under the lock of the fabric; `None` for nobody. It replaces a
    /// trace.
    pub fn observe(&self, observer: Option<Observer>) {
        self.shared.world().network().observe(observer);
    }

    /// Begins a trace: one line for every event, which [`Fabric::take_trace`] takes.
    pub fn start_trace(&self) {
        let trace = Arc::clone(&self.trace);
        let write = move |event: &softrnic_transport::sim::network::Event<'_>| {
            trace.lock().unwrap_or_else(PoisonError::into_inner).push(event.to_string());
        };
        self.observe(Some(Box::new(write)));
    }

    /// The lines since this was last called. After every [`Fabric::step`], they are what happened in
    /// it.
    #[must_use]
    pub fn take_trace(&self) -> Vec<String> {
        std::mem::take(&mut *self.trace.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A number that tells two runs apart: all events so far, mixed.
    #[must_use]
    pub fn event_hash(&self) -> EventHash {
        self.shared.world().network().event_hash()
    }

    /// Mixes something of the test's own into [`Fabric::event_hash`].
    pub fn mix(&self, number: u64) {
        self.shared.world().network().mix(number);
    }

    /// Events so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.shared.world().network().events()
    }

    /// A number by chance, the next of those of the seed.
    #[must_use]
    pub fn draw(&self) -> u64 {
        self.shared.draw()
    }
}
