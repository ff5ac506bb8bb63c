//! A device's way into a network.

use std::io;
use std::net::UdpSocket;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use softrnic_model::Instant;
use softrnic_model::verbs::Gid;
use softrnic_model::wire::Route;

use super::{Network, PortId};
use crate::link::{Link, LinkCounters, Outgoing};

/// A link into a network. Who drives it must not hold the network's lock.
#[derive(Debug)]
pub struct Port {
    network: Arc<Mutex<Network>>,
    id: PortId,
}

impl Port {
    /// The link of a device that was joined with [`Network::attach`].
    #[must_use]
    pub const fn new(network: Arc<Mutex<Network>>, id: PortId) -> Self {
        Self { network, id }
    }

    fn network(&self) -> MutexGuard<'_, Network> {
        self.network.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Link for Port {
    fn receive(
        &mut self,
        _now: Instant,
        deliver: &mut dyn FnMut(&Route, &[u8]),
    ) -> io::Result<usize> {
        let mut network = self.network();
        let mut count = 0;
        while let Some(Some(joined)) = network.ports.get_mut(self.id)
            && let Some(place) = joined.inbox.pop_front()
        {
            let frame = &network.frames[place as usize];
            // A hop takes one from the hop limit; the ICRC does not cover it.
            let hop_limit = frame.route.hop_limit.saturating_sub(1);
            deliver(&Route { hop_limit, ..frame.route }, &frame.bytes);
            network.spare.push(place);
            count += 1;
        }
        Ok(count)
    }

    fn ready(&self) -> bool {
        true
    }

    fn transmit(
        &mut self,
        _now: Instant,
        frame: Outgoing,
        fill: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> io::Result<()> {
        let mut network = self.network();
        let place = network.vacancy(frame.len);
        if fill(&mut network.frames[place as usize].bytes) {
            network.enter(self.id, place, frame.route, frame.damage);
        } else {
            network.spare.push(place);
        }
        Ok(())
    }

    fn flush(&mut self, _now: Instant) -> io::Result<()> {
        Ok(())
    }

    fn join(&mut self, group: Gid) -> io::Result<()> {
        if let Some(Some(joined)) = self.network().ports.get_mut(self.id)
            && !joined.groups.contains(&group)
        {
            joined.groups.push(group);
        }
        Ok(())
    }

    fn leave(&mut self, group: Gid) {
        if let Some(Some(joined)) = self.network().ports.get_mut(self.id) {
            joined.groups.retain(|one| *one != group);
        }
    }

    fn sockets(&self, _each: &mut dyn FnMut(&UdpSocket)) {}

    fn counters(&self) -> LinkCounters {
        let network = self.network();
        network
            .ports
            .get(self.id)
            .and_then(Option::as_ref)
            .map_or_else(Default::default, |p| p.counters)
    }
}
