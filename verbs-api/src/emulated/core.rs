//! What the lock of an emulated device holds, and the one step of progress.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use softrnic_model::verbs::{AsyncEvent, CqId, Event, Key, QpNum};
use softrnic_model::{Device, Instant, MemoryId};
use softrnic_transport::{Link, pump};

use super::events::EventQueue;
use crate::host_memory::HostMemory;
use crate::provider::ChannelId;

/// A completion channel.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) events: Arc<EventQueue<CqId>>,
    /// Completion queues that report to it.
    pub(super) users: u32,
}

/// Device, link and memory of one open device.
pub(super) struct Core {
    pub(super) device: Device,
    pub(super) link: Box<dyn Link>,
    pub(super) memory: HostMemory,
    /// The memory of each region, by the index of its key.
    pub(super) regions: BTreeMap<u32, MemoryId>,
    pub(super) channels: BTreeMap<ChannelId, Channel>,
    pub(super) next_channel: u32,
    /// The channel of each completion queue that has one.
    pub(super) channel_of: BTreeMap<CqId, Arc<EventQueue<CqId>>>,
    pub(super) channel_id_of: BTreeMap<CqId, ChannelId>,
    pub(super) asynchronous: Arc<EventQueue<AsyncEvent>>,
    /// When something arrived last.
    pub(super) last_arrival: Instant,
    /// Why the link failed for good, once it has.
    pub(super) failure: Option<io::Error>,
}

impl Core {
    /// Takes in what has arrived and sends what is due. Returns how many packets moved.
    pub(super) fn progress(&mut self, now: Instant) -> usize {
        self.receive(now) + self.send(now)
    }

    /// Takes in what has arrived.
    pub(super) fn receive(&mut self, now: Instant) -> usize {
        if self.failure.is_some() {
            return 0;
        }
        let moved = pump::receive(&mut self.device, &mut *self.link, &self.memory, now);
        let moved = self.settle(moved);
        if moved != 0 {
            self.last_arrival = now;
        }
        moved
    }

    /// Sends what is due.
    pub(super) fn send(&mut self, now: Instant) -> usize {
        if self.failure.is_some() {
            return 0;
        }
        let moved =
            softrnic_transport::pump::send(&mut self.device, &mut *self.link, &self.memory, now);
        self.settle(moved)
    }

    /// Sends what is due, first what was just posted to a queue pair.
    pub(super) fn send_first(&mut self, now: Instant, qp: QpNum) {
        if self.failure.is_none() {
            let (device, link) = (&mut self.device, &mut *self.link);
            let moved = pump::send_first(device, link, &self.memory, now, qp);
            self.settle(moved);
        }
    }

    fn settle(&mut self, moved: io::Result<usize>) -> usize {
        let moved = moved.unwrap_or_else(|error| {
            self.failure = Some(error);
            self.asynchronous.push(AsyncEvent::DeviceFatal);
            0
        });
        self.dispatch();
        moved
    }

    /// Hands the device's events to whom they are for.
    pub(super) fn dispatch(&mut self) {
        while let Some(event) = self.device.next_event() {
            match event {
                Event::Completion(cq) => {
                    if let Some(channel) = self.channel_of.get(&cq) {
                        channel.push(cq);
                    }
                }
                Event::Async(event) => self.asynchronous.push(event),
            }
        }
    }

    /// When something is due by itself.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        pump::next_deadline(&self.device, &*self.link)
    }

    /// Forgets the memory of a region.
    pub(super) fn forget_memory(&mut self, key: Key) {
        if let Some(memory) = self.regions.remove(&key.index()) {
            // It is known: it was put there with the region.
            let _ = self.memory.remove(memory);
        }
    }
}
