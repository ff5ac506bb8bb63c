//! A device of a fabric: whoever calls it makes the fabric go on.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use softrnic_model::Instant;
use softrnic_model::verbs::{AsyncEvent, CqId, Psn, QpNum, VerbError, Wc};
use softrnic_transport::sim::network::PortId;

use super::world::World;
use crate::machine::Home;
use crate::machine::core::Core;
use crate::machine::events::{Closed, EventQueue};
use crate::provider::{DeviceInfo, Timeout, Verb};

/// What a fabric and its devices share.
#[derive(Debug)]
pub(super) struct Shared {
    world: Mutex<World>,
    /// What an empty poll takes.
    pub(super) poll_ns: u64,
    pub(super) chance: Mutex<Chance>,
}

impl Shared {
    pub(super) fn new(world: World, poll_ns: u64, seed: u64) -> Self {
        Self { world: Mutex::new(world), poll_ns, chance: Mutex::new(Chance(seed)) }
    }

    /// The fabric. A thread that panicked while it had it leaves it as it was between two events.
    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn draw(&self) -> u64 {
        self.chance.lock().unwrap_or_else(PoisonError::into_inner).draw()
    }
}

/// The generator SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
/// 2014).
#[derive(Debug)]
pub(super) struct Chance(u64);

impl Chance {
    const fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}

/// An open device of a fabric. It is closed when this is dropped.
#[derive(Debug)]
pub struct SimulatedContext {
    pub(super) info: DeviceInfo,
    pub(super) shared: Arc<Shared>,
    pub(super) port: PortId,
    pub(super) asynchronous: Arc<EventQueue<AsyncEvent>>,
}

const NEVER: VerbError =
    VerbError::Invalid("nothing is left to happen on the fabric: this would wait for ever");

impl SimulatedContext {
    /// Lets the fabric go on until `take` has something, or the time is over.
    fn until<T>(
        &self,
        timeout: Timeout,
        mut take: impl FnMut(&mut World) -> Verb<Option<T>>,
    ) -> Verb<Option<T>> {
        let mut world = self.shared.world();
        let deadline = timeout.map(|timeout| world.now().plus_ns(ns_of(timeout)));
        loop {
            if let Some(taken) = take(&mut world)? {
                return Ok(Some(taken));
            }
            if !world.step(deadline) {
                // Something may have come of the last step too.
                return match (take(&mut world)?, deadline) {
                    (None, None) => Err(NEVER),
                    (taken, _) => Ok(taken),
                };
            }
        }
    }
}

pub(super) fn ns_of(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Drop for SimulatedContext {
    fn drop(&mut self) {
        self.shared.world().remove(self.port);
    }
}

/// Completions of a queue, if there are any.
fn poll(core: &mut Core, cq: CqId, into: &mut [Wc]) -> Verb<usize> {
    match core.device.poll_cq(cq, into)? {
        0 if core.device.cq_overran(cq) => Err(VerbError::Invalid("cq: it has overrun")),
        taken => Ok(taken),
    }
}

impl Home for SimulatedContext {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn now(&self) -> Instant {
        self.shared.world().now()
    }

    fn judge_caller(&self) -> Verb<()> {
        Ok(())
    }

    fn with_core<T>(&self, act: impl FnOnce(&mut Core) -> T) -> T {
        self.with_send(None, act)
    }

    fn with_send<T>(&self, first: Option<QpNum>, act: impl FnOnce(&mut Core) -> T) -> T {
        let mut world = self.shared.world();
        let now = world.now();
        let core = world.core(self.port);
        core.device.set_now(now);
        let result = act(core);
        world.settle(self.port, first);
        result
    }

    fn poll_cq(&self, cq: CqId, into: &mut [Wc]) -> Verb<usize> {
        let mut world = self.shared.world();
        let taken = poll(world.core(self.port), cq, into)?;
        if taken != 0 || into.is_empty() || self.shared.poll_ns == 0 {
            return Ok(taken);
        }
        let until = world.now().plus_ns(self.shared.poll_ns);
        world.run_to(until);
        poll(world.core(self.port), cq, into)
    }

    fn wait_cq(&self, cq: CqId, into: &mut [Wc], timeout: Timeout) -> Verb<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        let taken = self.until(timeout, |world| {
            let taken = poll(world.core(self.port), cq, into)?;
            Ok((taken != 0).then_some(taken))
        });
        Ok(taken?.unwrap_or(0))
    }

    fn event_queue<T>(&self) -> Verb<EventQueue<T>> {
        Ok(EventQueue::without_descriptor())
    }

    fn asynchronous(&self) -> &EventQueue<AsyncEvent> {
        &self.asynchronous
    }

    fn take_event<T>(
        &self,
        events: &EventQueue<T>,
        timeout: Timeout,
    ) -> Verb<Result<Option<T>, Closed>> {
        let at_once = Some(Duration::ZERO);
        let taken = self.until(timeout, |_| Ok(events.take(at_once).transpose()))?;
        Ok(taken.transpose())
    }

    fn sleeper_comes(&self) {}

    fn groups_changed(&self) -> io::Result<()> {
        Ok(())
    }

    fn draw_psn(&self) -> Psn {
        Psn::new((self.shared.draw() >> 40) as u32)
    }
}
