//! What the lock of an emulated device holds, and the one step of progress.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use softrnic_model::verbs::{AsyncEvent, CqId, Event, Key, QpNum, Subject};
use softrnic_model::{Device, Instant, MemoryId};
use softrnic_transport::{Link, pump};

use super::addresses::GidTable;
use super::communication::Communication;
use super::events::EventQueue;
use crate::host_memory::HostMemory;
use crate::provider::{ChannelId, Counter, DmId, MemoryRange};

/// A completion channel.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) events: Arc<EventQueue<CqId>>,
    /// Completion queues that report to it.
    pub(crate) users: u32,
}

/// Where a completion queue reports.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) channel: ChannelId,
    pub(crate) events: Arc<EventQueue<CqId>>,
    /// The program has asked for an event and has not got it yet.
    pub(crate) armed: bool,
}

/// What is behind a region.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Registered {
    /// Memory of the program: address and bytes, to be probed again when its rights change.
    Program { memory: MemoryId, base: usize, len: usize },
    /// Nothing.
    Null { memory: MemoryId },
    /// A part of device memory, which stays when the region goes.
    Device(DmId),
}

impl Registered {
    pub(crate) fn new(memory: MemoryId, range: MemoryRange) -> Self {
        Self::Program { memory, base: range.base.addr(), len: range.len }
    }
}

/// Memory of the device.
#[derive(Debug)]
pub(crate) struct DeviceMemory {
    pub(crate) memory: MemoryId,
    pub(crate) len: usize,
    /// Regions over it.
    pub(crate) users: u32,
}

/// What the verbs and the engine tell each other about who makes progress.
#[derive(Debug, Default)]
pub(crate) struct Duty {
    /// When the program last looked for packets itself and there were none; zero is never.
    pub(crate) polled_at: Instant,
    /// For how long the engine leaves the sockets alone before it looks whether the program still
    /// polls.
    pub(crate) patience_ns: u64,
    /// Completion queues that owe an event: somebody sleeps, or is about to.
    pub(crate) armed: u32,
    /// The program has dealt with all completions and looked for more since it last posted a send:
    /// a peer may be waiting for what it posts next.
    pub(crate) idle: bool,
    /// The engine leaves the sockets alone for a moment.
    pub(crate) relaxed: bool,
    /// When the engine wakes by itself.
    pub(crate) wakes_at: Instant,
}

/// How long what is owed to peers may wait for a program that polls.
pub(crate) const OWED_NS: u64 = 1_000_000;

/// Device, link and memory of one open device.
pub(crate) struct Core {
    pub(crate) device: Device,
    pub(crate) link: Box<dyn Link>,
    pub(crate) memory: HostMemory,
    pub(crate) addresses: GidTable,
    /// The memory of each region, by the index of its key.
    pub(crate) regions: BTreeMap<u32, Registered>,
    pub(crate) device_memory: BTreeMap<DmId, DeviceMemory>,
    pub(crate) next_dm: u32,
    pub(crate) channels: BTreeMap<ChannelId, Channel>,
    pub(crate) next_channel: u32,
    /// Of each completion queue that has a channel.
    pub(crate) reports: BTreeMap<CqId, Report>,
    pub(crate) asynchronous: Arc<EventQueue<AsyncEvent>>,
    pub(crate) duty: Duty,
    /// Connections; of a device that has any to manage.
    pub(crate) communication: Communication,
    /// When something arrived last.
    pub(crate) last_arrival: Instant,
    /// Why the device failed for good, once it has.
    failure: Option<io::Error>,
}

impl Core {
    pub(crate) fn new(
        device: Device,
        link: Box<dyn Link>,
        addresses: GidTable,
        asynchronous: Arc<EventQueue<AsyncEvent>>,
        communication: Communication,
    ) -> Self {
        Self {
            device,
            link,
            memory: HostMemory::new(),
            addresses,
            regions: BTreeMap::new(),
            device_memory: BTreeMap::new(),
            next_dm: 0,
            channels: BTreeMap::new(),
            next_channel: 0,
            reports: BTreeMap::new(),
            asynchronous,
            duty: Duty::default(),
            communication,
            last_arrival: Instant::ZERO,
            failure: None,
        }
    }

    /// Takes in what has arrived and sends what is due. Returns how many packets moved.
    pub(crate) fn progress(&mut self, now: Instant) -> usize {
        self.receive(now) + self.send(now)
    }

    /// Takes in what has arrived.
    pub(crate) fn receive(&mut self, now: Instant) -> usize {
        let moved =
            self.step(|core| pump::receive(&mut core.device, &mut *core.link, &core.memory, now));
        if moved != 0 {
            self.last_arrival = now;
        }
        self.manage(now);
        moved
    }

    /// Sends what is due, first what was just posted to a queue pair.
    pub(crate) fn send_first(&mut self, now: Instant, qp: QpNum) {
        let idle = std::mem::take(&mut self.duty.idle);
        self.step(|core| {
            let Self { device, link, memory, .. } = core;
            let requests = pump::send_requests(device, &mut **link, memory, now, qp)?;
            if idle {
                // A datagram is sooner there than a burst.
                link.flush(now)?;
            }
            Ok(requests + pump::send(device, &mut **link, memory, now)?)
        });
    }

    /// Sends what is due.
    pub(crate) fn send(&mut self, now: Instant) -> usize {
        self.step(|core| pump::send(&mut core.device, &mut *core.link, &core.memory, now))
    }

    fn step(&mut self, act: impl FnOnce(&mut Self) -> io::Result<usize>) -> usize {
        if self.failure.is_some() {
            // What was brought to life since then fails as well.
            self.device.fail_queue_pairs();
            self.dispatch();
            return 0;
        }
        match act(self) {
            Ok(moved) => {
                self.dispatch();
                moved
            }
            Err(error) => {
                self.fail(error);
                0
            }
        }
    }

    /// Nothing can travel any more, or nobody can say whether it does: all that is posted is
    /// flushed and the program is told.
    pub(crate) fn fail(&mut self, why: io::Error) {
        if self.failure.is_none() {
            self.failure = Some(why);
            self.asynchronous.push(AsyncEvent::DeviceFatal);
            self.fail_connections();
        }
        self.device.fail_queue_pairs();
        self.dispatch();
    }

    pub(crate) fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    /// Hands the device's events to whom they are for.
    pub(crate) fn dispatch(&mut self) {
        while let Some(event) = self.device.next_event() {
            match event {
                Event::Completion(cq) => {
                    if let Some(report) = self.reports.get_mut(&cq) {
                        if std::mem::take(&mut report.armed) {
                            self.duty.armed -= 1;
                        }
                        report.events.push(cq);
                    }
                }
                Event::Async(event) => {
                    if event.subject() == Subject::Device {
                        // An interface that comes and goes may do so for ever, with nobody to read
                        // of it: of each kind the latest is kept, in the order of the latest.
                        self.asynchronous.retain(|earlier| *earlier != event);
                    }
                    self.asynchronous.push(event);
                }
            }
        }
    }

    /// Forgets the asynchronous events about an object that is gone: its number may name another
    /// one soon, and a program that never reads them must not gather them.
    pub(crate) fn forget_events(&mut self, gone: Subject) {
        self.dispatch();
        // [events/destroyed-object]
        self.asynchronous.retain(|event| event.subject() != gone);
    }

    /// When something is due by itself.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let machine = self.communication.machine.next_deadline();
        pump::next_deadline(&self.device, &*self.link).into_iter().chain(machine).min()
    }

    /// What device and link have counted, in a fixed order.
    pub(crate) fn counters(&self) -> Vec<Counter> {
        let link = self.link.counters();
        let named = |(name, value)| Counter { name: Cow::Borrowed(name), value };
        let model = self.device.counters().iter().map(|(name, _, value)| (name, value));
        model.chain(link.fields()).map(named).collect()
    }

    /// How the device is doing, for `softrnic ps`.
    #[cfg(target_os = "linux")]
    pub(crate) fn status(&self) -> softrnic_transport::service::Status {
        let link = self.link.counters();
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let drops = self.device.counters().iter().filter(|(name, ..)| name.starts_with("drop_"));
        softrnic_transport::service::Status {
            queue_pairs: count(self.device.qp_numbers().count()),
            regions: count(self.regions.len()),
            sent: link.tx_packets,
            sent_bytes: link.tx_bytes,
            received: link.rx_packets,
            received_bytes: link.rx_bytes,
            dropped: drops.map(|(.., value)| value).sum::<u64>()
                + link.rx_bad_length
                + link.rx_bad_icrc
                + link.rx_overflow,
            listeners: count(self.communication.machine.listeners().count()),
            connections: count(self.communication.machine.len()),
        }
    }

    /// Whether the engine has to be woken for what is due: it would sleep for too long. From then
    /// on it counts as woken.
    pub(crate) fn must_wake_engine(&mut self) -> bool {
        // A sleeping engine does not see what a poll has left owed. It waits for the program's
        // next look, but no longer than a relaxed engine would.
        let owed = self.device.has_work().then(|| self.device.now().plus_ns(OWED_NS));
        match owed.into_iter().chain(self.next_deadline()).min() {
            Some(due) if due < self.duty.wakes_at => {
                self.duty.wakes_at = due;
                true
            }
            Some(_) | None => false,
        }
    }

    /// Forgets the memory of a region.
    pub(crate) fn forget_memory(&mut self, key: Key) {
        match self.regions.remove(&key.index()) {
            // It is known: it was put there with the region.
            Some(Registered::Program { memory, .. } | Registered::Null { memory }) => {
                let _ = self.memory.remove(memory);
            }
            Some(Registered::Device(dm)) => {
                if let Some(dm) = self.device_memory.get_mut(&dm) {
                    dm.users -= 1;
                }
            }
            None => {}
        }
    }
}
