//! What the queue pairs of a device share: the object tables, and the way to the program.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::Instant;
use crate::counters::{Counter, Counters};
use crate::profile::Profile;
use crate::protection::Protection;
use crate::qp::failure;
use crate::queue::{CompletionQueue, CqEntry, PushOutcome, RecvQueue};
use crate::table::Table;
use crate::timer::Timers;
use crate::verbs::{
    AddressVector, AhId, AsyncEvent, CqId, DeviceAttributes, Event, Gid, Mtu, PdId, PortState,
    QpNum, SrqAttributes, SrqId, SrqNum, WcStatus, XrcSrq, XrcdId,
};

/// The port: the addresses of an interface, and the keys and sizes that go with it.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) gids: Vec<Gid>,
    pub(crate) pkeys: Vec<u16>,
    pub(crate) mtu: Mtu,
    pub(crate) state: PortState,
}

/// A shared receive queue.
#[derive(Debug)]
pub(crate) struct SharedReceiveQueue {
    pub(crate) pd: PdId,
    pub(crate) queue: RecvQueue,
    pub(crate) sge_max: u32,
    /// An event is raised when fewer are left; 0 is disarmed.
    pub(crate) limit: u32,
    pub(crate) users: u32,
    /// What it has besides if it is for XRC.
    pub(crate) xrc: Option<XrcSrq>,
    /// Its completion queue has overrun (XRC): it serves no more requests.
    pub(crate) failed: bool,
}

impl SharedReceiveQueue {
    pub(crate) fn attributes(&self) -> SrqAttributes {
        SrqAttributes {
            max_wr: self.queue.capacity(),
            max_sge: self.sge_max,
            srq_limit: self.limit,
        }
    }
}

/// An address handle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddressHandle {
    pub(crate) pd: PdId,
    pub(crate) path: AddressVector,
}

/// A protection domain: it is in use while anything belongs to it.
#[derive(Debug, Default)]
pub(crate) struct ProtectionDomain {
    pub(crate) users: u32,
}

/// An XRC domain: the targets of it may take from the shared receive queues of it.
#[derive(Debug)]
pub(crate) struct XrcDomain {
    /// How often it is open.
    pub(crate) handles: u32,
    /// Queue pairs and queues that belong to it.
    pub(crate) users: u32,
}

/// Queue pairs that get what is sent to a multicast group.
#[derive(Debug)]
pub(crate) struct MulticastGroup {
    pub(crate) gid: Gid,
    pub(crate) members: Vec<QpNum>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) attributes: DeviceAttributes,
    pub(crate) profile: Profile,
    /// What the device was told last.
    pub(crate) now: Instant,
    pub(crate) port: Port,
    pub(crate) protection: Protection,
    pub(crate) pds: Table<PdId, ProtectionDomain>,
    pub(crate) cqs: Table<CqId, CompletionQueue>,
    pub(crate) srqs: Table<SrqId, SharedReceiveQueue>,
    pub(crate) xrcds: Table<XrcdId, XrcDomain>,
    pub(crate) ahs: Table<AhId, AddressHandle>,
    pub(crate) groups: Vec<MulticastGroup>,
    /// Of queue pairs that wait for an answer.
    pub(crate) timers: Timers,
    /// Of queue pairs that have sent as much as they may for now.
    pub(crate) pace_timers: Timers,
    /// Queue pairs whose answers are held back, and until when; in order, for all wait as long.
    pub(crate) held_answers: VecDeque<(Instant, u32)>,
    /// Of completion queues that hold events back, by index.
    pub(crate) cq_timers: Timers,
    pub(crate) counters: Counters,
    pub(crate) events: VecDeque<Event>,
    /// Completion queues that overran since their queue pairs were last put into error.
    pub(crate) overrun: Vec<CqId>,
    /// The most packets that one queue pair may have under way, by bytes of payload.
    pub(crate) window_bytes: u32,
    /// Whether queue pairs heed congestion notifications.
    pub(crate) reaction_point: bool,
}

impl Shared {
    /// Queues a completion, and an event where one is due.
    #[inline]
    pub(crate) fn complete(&mut self, cq: CqId, mut entry: CqEntry, solicited: bool) {
        if self.profile.poison && entry.wc.status == WcStatus::Success {
            failure::poison(&mut entry.wc);
        }
        let Some(queue) = self.cqs.get_mut(cq) else { return };
        match queue.push(entry, solicited, self.now) {
            PushOutcome::Queued => {}
            PushOutcome::Wakes => self.events.push_back(Event::Completion(cq)),
            PushOutcome::Waits(until) => {
                self.cq_timers.set(&mut queue.timer, cq.0 & 0xffff, Some(until));
            }
            // [events/cq-error]
            PushOutcome::Overrun => {
                self.raise(AsyncEvent::CqError(cq));
                self.overrun.push(cq);
            }
            PushOutcome::Dead => {}
        }
    }

    /// The shared receive queue with this number. The number is index and generation of its id, the
    /// latter with its low 8 bits and counted from 1, so that 0, which a program that forgets to name
    /// a queue sends, is seldom one.
    // [xrc/routed-by-number] [xrc/srq-destroyed]
    pub(crate) fn srq_by_number(&self, number: SrqNum) -> Option<(SrqId, &SharedReceiveQueue)> {
        let (id, queue) = self.srqs.at(number.get() & 0xffff)?;
        (Self::srq_number(id) == number).then_some((id, queue))
    }

    /// See [`Shared::srq_by_number`].
    pub(crate) fn srq_number(id: SrqId) -> SrqNum {
        SrqNum::new(id.0.wrapping_add(1 << 16))
    }

    /// Queues an asynchronous event.
    // [events/events-in-order]
    pub(crate) fn raise(&mut self, event: AsyncEvent) {
        self.events.push_back(Event::Async(event));
    }

    #[inline]
    pub(crate) fn count(&mut self, counter: Counter) {
        self.counters.add(counter);
    }
}
