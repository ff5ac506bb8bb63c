//! Follows the interfaces of the host: the GID table, the state of the port and its MTU.

use std::io;
use std::time::Duration;

use softrnic_model::Instant;
use softrnic_model::verbs::{Gid, Mtu, PortState};
use softrnic_transport::interfaces::{self, Interface};
use softrnic_transport::{LinkSet, UdpLink};

#[cfg(target_os = "linux")]
use super::comeback::Comeback;
use super::config::EmulatedConfig;
use super::engine::Shared;
use crate::machine::addresses::{Address, GidTable, present};

/// Changes come in crowds: how long to wait for the rest of one.
const SETTLES_NS: u64 = 20_000_000;
/// When to look again for an address that could not be had yet, and how often to look at all where
/// the system sends no word.
const AGAIN_NS: u64 = 1_000_000_000;

/// What the engine knows about when to look around.
pub(super) struct Surroundings {
    config: EmulatedConfig,
    /// Whether the system says when something changes.
    told: bool,
    look_at: Option<Instant>,
    #[cfg(target_os = "linux")]
    comeback: Comeback,
}

/// What a device has of its host at one time.
pub(super) struct View {
    /// The addresses that it should have, in the order of the GID table.
    pub(super) addresses: Vec<Address>,
    pub(super) state: PortState,
    pub(super) mtu: Mtu,
}

/// Path MTU where the interface does not say what it carries.
const MTU_UNKNOWN: Mtu = Mtu::B1024;

impl View {
    pub(super) fn of(config: &EmulatedConfig, all: &[Interface]) -> Self {
        let addresses = match &config.interface {
            Some(name) => {
                let followed = all.iter().find(|interface| interface.name == *name);
                let of = |interface: &Interface| present(&interface.addresses, all);
                followed.map_or_else(Vec::new, of)
            }
            None => present(&config.addresses, all),
        };
        let first = addresses.first().map(|address| address.interface);
        let interface = all.iter().find(|interface| Some(interface.index) == first);
        // What carries no packet at all has the smallest, as its packets are the least too long.
        let fitting = |mtu| Mtu::fitting(mtu).unwrap_or(Mtu::B256);
        let mtu = interface.and_then(|interface| interface.mtu).map(fitting);
        let up = interface.is_some_and(|interface| interface.up);
        let state = if up { PortState::Active } else { PortState::Down };
        Self { addresses, state, mtu: mtu.unwrap_or(MTU_UNKNOWN) }
    }
}

impl Surroundings {
    /// `told`: the system has been saying what changes since before the device was made.
    /// `complete`: the device has all it should have.
    pub(super) fn new(config: EmulatedConfig, told: bool, complete: bool) -> Self {
        let look_at = (!told || !complete).then_some(Instant::from_ns(AGAIN_NS));
        Self {
            config,
            told,
            look_at,
            #[cfg(target_os = "linux")]
            comeback: Comeback::default(),
        }
    }

    /// The system says that something has changed.
    pub(super) fn noticed(&mut self, now: Instant) {
        let settled = now.plus_ns(SETTLES_NS);
        self.look_at = Some(self.look_at.map_or(settled, |at| at.min(settled)));
    }

    /// How long until it is time to look; `None` is for ever.
    pub(super) fn until_look(&self, now: Instant) -> Option<Duration> {
        let look = self.look_at.map(|at| Duration::from_nanos(at.ns_since(now)));
        #[cfg(target_os = "linux")]
        let look = look.into_iter().chain(self.comeback.until_try(now)).min();
        look
    }

    /// Looks if it is time to, and brings the device up to date.
    ///
    /// # Errors
    /// The sockets of new addresses cannot be waited for.
    pub(super) fn look_if_due(&mut self, shared: &Shared) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        self.comeback.try_if_due(shared, &self.config)?;
        let now = shared.now();
        if self.look_at.is_none_or(|at| at > now) {
            return Ok(());
        }
        let complete = match interfaces::all() {
            Ok(all) => self.follow(shared, &View::of(&self.config, &all))?,
            Err(_) => false,
        };
        self.look_at = (!complete || !self.told).then(|| shared.now().plus_ns(AGAIN_NS));
        Ok(())
    }

    /// Returns whether the device now has all it should have.
    fn follow(&self, shared: &Shared, view: &View) -> io::Result<bool> {
        let (gone, come) = {
            let core = shared.lock();
            (core.addresses.gone(&view.addresses), core.addresses.come(&view.addresses))
        };
        // Sockets are opened without the lock, one address at a time: one that somebody else has
        // taken must not keep the others out.
        let mut membership = shared.membership();
        let open = |address: &Address| membership.open_one(&self.config, *address);
        let opened: Vec<_> = come.iter().filter_map(open).collect();
        drop(membership);
        let complete = opened.len() == come.len();
        let changed = !gone.is_empty() || !opened.is_empty();
        let mut core = shared.lock();
        for address in &gone {
            core.addresses.remove(*address);
            if let Some(set) = core.link.as_set() {
                set.remove(address.ip.into());
            }
        }
        for (address, link) in opened {
            core.addresses.insert(address);
            if let Some(set) = core.link.as_set() {
                set.insert(address.ip.into(), Box::new(link));
            }
        }
        let gids = core.addresses.gids();
        let reachable = gids.iter().any(|gid| *gid != Gid::default());
        core.device.set_gids(gids);
        core.device.set_mtu(view.mtu);
        core.device.set_port_state(if reachable { view.state } else { PortState::Down });
        core.dispatch();
        drop(core);
        if changed {
            shared.watch_sockets()?;
        }
        gone.into_iter().for_each(|address| shared.membership().close_one(address));
        Ok(complete)
    }
}

/// Links as one, and the table of their addresses.
pub(super) fn joined(opened: Vec<(Address, UdpLink)>) -> (GidTable, LinkSet) {
    let (mut table, mut set) = (GidTable::default(), LinkSet::new(Vec::new()));
    for (address, link) in opened {
        table.insert(address);
        set.insert(address.ip.into(), Box::new(link));
    }
    (table, set)
}
