//! A bench on a simulated fabric, under virtual time: the script's end is a bare link at a host.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use softrnic_model::Instant;
use softrnic_model::verbs::Gid;
use softrnic_transport::{Link, Outgoing};
use softrnic_verbs::simulated::Fabric;

use super::{Bench, Caught, Crafted};
use crate::lab::Waits;
use crate::program::Program;

/// See the module.
pub struct OverFabric {
    fabric: Fabric,
    program: Box<dyn Program>,
    device: Gid,
    peer: Wire,
    stranger: Wire,
    waits: Waits,
    caught: VecDeque<Caught>,
}

/// A bare link, and its address.
pub type Wire = (Gid, Box<dyn Link>);

impl fmt::Debug for OverFabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OverFabric").field("device", &self.device).finish_non_exhaustive()
    }
}

impl OverFabric {
    /// A bench whose script has the bare links `peer` and `stranger`.
    #[must_use]
    pub fn new(
        fabric: Fabric,
        program: Box<dyn Program>,
        device: Gid,
        peer: Wire,
        stranger: Wire,
        waits: Waits,
    ) -> Self {
        Self { fabric, program, device, peer, stranger, waits, caught: VecDeque::new() }
    }

    fn look(&mut self) {
        let at_ns = self.now_ns();
        let (caught, device) = (&mut self.caught, self.device);
        // A link of a fabric does not fail.
        let _ = self.peer.1.receive(Instant::from_ns(at_ns), &mut |route, packet| {
            if route.src == device {
                caught.push_back(Caught { at_ns, route: *route, packet: packet.to_vec() });
            }
        });
    }
}

/// Longer than a packet is under way.
const UNDER_WAY_NS: u64 = 2_000;

impl Bench for OverFabric {
    fn program(&mut self) -> &mut dyn Program {
        &mut *self.program
    }

    fn device(&self) -> Gid {
        self.device
    }

    fn peer(&self) -> Gid {
        self.peer.0
    }

    fn stranger(&mut self) -> Option<Gid> {
        Some(self.stranger.0)
    }

    fn waits(&self) -> Waits {
        self.waits
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.fabric.now().as_nanos()).unwrap_or(u64::MAX)
    }

    fn pass_until(&mut self, ns: u64) {
        let left = ns.saturating_sub(self.now_ns());
        self.fabric.run_for(Duration::from_nanos(left));
        self.look();
    }

    fn send(&mut self, crafted: &Crafted) -> Result<(), String> {
        let now = Instant::from_ns(self.now_ns());
        let is_stranger = crafted.route.src == self.stranger.0;
        let (_, link) = if is_stranger { &mut self.stranger } else { &mut self.peer };
        let packet = &crafted.packet;
        let frame = Outgoing { route: crafted.route, len: packet.len(), damage: crafted.damage };
        let sent = link.transmit(now, frame, &mut |into| {
            into.copy_from_slice(packet);
            true
        });
        sent.map_err(|error| error.to_string())?;
        // What the script does next, it does when the packet is there.
        self.pass_until(self.now_ns() + UNDER_WAY_NS);
        Ok(())
    }

    fn next(&mut self, until_ns: u64) -> Option<Caught> {
        loop {
            self.look();
            if let Some(caught) = self.caught.pop_front() {
                return Some(caught);
            }
            if self.now_ns() >= until_ns {
                return None;
            }
            // To what happens next, and with what happens at the same time.
            if !self.fabric.step() {
                let left = until_ns.saturating_sub(self.now_ns());
                self.fabric.run_for(Duration::from_nanos(left));
            }
        }
    }

    fn bad_icrc(&self) -> u64 {
        let counters = self.peer.1.counters();
        counters.rx_bad_icrc + counters.rx_bad_length
    }
}
