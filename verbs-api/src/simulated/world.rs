//! All devices of a fabric, the network between them, and the clock that jumps to what happens next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use softrnic_model::Instant;
use softrnic_model::verbs::QpNum;
use softrnic_transport::sim::Network;
use softrnic_transport::sim::network::{NodeId, PortId};

use crate::machine::core::Core;

/// What the lock of a fabric holds. A device has the number of its port.
pub(super) struct World {
    /// Shared with the links of the devices. Whoever has both locks took the world's first.
    network: Arc<Mutex<Network>>,
    now: Instant,
    cores: Vec<Option<Core>>,
    /// When each device is next due, and the same in order; entries of the heap that do not agree are
    /// of the past.
    next: Vec<Option<Instant>>,
    due: BinaryHeap<Reverse<(Instant, PortId)>>,
    /// Devices that a step is about.
    about: Vec<PortId>,
}

impl World {
    pub(super) fn new(network: Network) -> Self {
        Self {
            network: Arc::new(Mutex::new(network)),
            now: Instant::ZERO,
            cores: Vec::new(),
            next: Vec::new(),
            due: BinaryHeap::new(),
            about: Vec::new(),
        }
    }

    pub(super) const fn now(&self) -> Instant {
        self.now
    }

    pub(super) fn network(&self) -> MutexGuard<'_, Network> {
        self.network.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn share_network(&self) -> Arc<Mutex<Network>> {
        Arc::clone(&self.network)
    }

    /// Puts a device at the port that was attached last.
    pub(super) fn put(&mut self, port: PortId, core: Core) {
        self.reserve(port);
        self.cores[port] = Some(core);
    }

    /// Leaves the place of a port without a device empty.
    pub(super) fn reserve(&mut self, port: PortId) {
        self.cores.resize_with(port + 1, || None);
        self.next.resize(port + 1, None);
    }

    /// Takes a device away.
    pub(super) fn remove(&mut self, port: PortId) {
        self.cores[port] = None;
        self.next[port] = None;
        self.network().detach(port);
    }

    /// A device that is there.
    ///
    /// # Panics
    /// It is not: nobody has a context of it, so nobody can ask.
    #[expect(clippy::expect_used, reason = "a context keeps its device in the world")]
    pub(super) fn core(&mut self, port: PortId) -> &mut Core {
        self.cores.get_mut(port).and_then(Option::as_mut).expect("an open device")
    }

    /// The program of a device has done something: what that made ready leaves, first that of a
    /// queue pair.
    pub(super) fn settle(&mut self, port: PortId, first: Option<QpNum>) {
        let now = self.now;
        let Some(Some(core)) = self.cores.get_mut(port) else { return };
        if let Some(qp) = first {
            core.send_first(now, qp);
        }
        while core.send(now) != 0 && core.device.has_work() {}
        core.dispatch();
        let deadline = core.next_deadline();
        if self.next[port] != deadline {
            self.next[port] = deadline;
            self.due.extend(deadline.map(|at| Reverse((at, port))));
        }
    }

    /// When a device is next due by itself, if ever.
    fn next_deadline(&mut self) -> Option<Instant> {
        while let Some(Reverse((at, port))) = self.due.peek() {
            if self.next[*port] == Some(*at) {
                return Some(*at);
            }
            self.due.pop();
        }
        None
    }

    /// When something happens next, if ever.
    pub(super) fn next_event(&mut self) -> Option<Instant> {
        let arrival = self.network().next_event();
        match (arrival, self.next_deadline()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Moves the clock to what happens next, but not past `until`, and lets it happen. Returns false
    /// when nothing happens by then; the clock stands at `until` then, if there is one.
    pub(super) fn step(&mut self, until: Option<Instant>) -> bool {
        let next = self.next_event();
        let within = |at: &Instant| until.is_none_or(|until| *at <= until);
        let mut about = std::mem::take(&mut self.about);
        let happens = next.filter(within);
        self.now = self.now.max(happens.or(until).unwrap_or(self.now));
        self.network().advance(self.now, &mut about);
        while self.next_deadline().is_some_and(|at| at <= self.now) {
            let Some(Reverse((_, port))) = self.due.pop() else { break };
            self.next[port] = None;
            about.push(port);
        }
        for port in &about {
            // What arrives at a bare port stays there until it is asked for.
            if let Some(Some(core)) = self.cores.get_mut(*port) {
                core.receive(self.now);
            }
            self.settle(*port, None);
        }
        self.about = about;
        happens.is_some()
    }

    /// Lets everything happen up to `until`.
    pub(super) fn run_to(&mut self, until: Instant) {
        while self.step(Some(until)) {}
    }

    /// The devices of a host fail for good.
    pub(super) fn crash(&mut self, node: NodeId) {
        let ports: Vec<PortId> = self.network().ports_of(node).collect();
        for port in ports {
            if let Some(Some(core)) = self.cores.get_mut(port) {
                core.fail(io::Error::other("the host has crashed"));
            }
            self.network().detach(port);
        }
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World")
            .field("now", &self.now)
            .field("devices", &self.cores.len())
            .finish_non_exhaustive()
    }
}
