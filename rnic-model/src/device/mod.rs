//! The device: objects, and the way of packets in and out.

mod arrive;
mod config;
mod depart;
mod frame;
mod gsi;
mod multicast;
mod objects;
mod pairs;
mod post;
mod qp_table;
mod shared;
mod xrc;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::Instant;
use crate::counters::{Counter, Counters};
use crate::profile::Profile;
use crate::protection::{KeyLimits, Protection};
use crate::qp::{completer, flush, responder};
use crate::table::Table;
use crate::timer::Timers;
use crate::verbs::{
    AsyncEvent, DeviceAttributes, Event, Gid, Mtu, PortAttributes, PortState, QpState,
};

pub use config::DeviceConfig;
pub use frame::{Filled, FrameOut};
pub(crate) use frame::{Origin, Payload};
pub use gsi::{mad_header, mad_of};
use qp_table::QpTable;
use shared::Port;
pub(crate) use shared::Shared;

/// An RNIC. Four kinds of calls:
///
/// * **ask** (`&self`): `query_*`, `counters`, `next_deadline`. Any time.
/// * **told by the program**: `create_*`, `destroy_*`, `modify_*`, `register`, `post_*`,
///   `poll_cq`, ….
/// * **told by the world**: [`on_frame`](Self::on_frame), [`on_time`](Self::on_time), `set_*`.
///   `now` never goes backwards.
/// * **drain**, after each call of the second and third kind: [`next_frame`](Self::next_frame)
///   with [`fill`](Self::fill) until there is none, then [`next_event`](Self::next_event).
///   Skipping a drain delays work; it never loses it.
#[derive(Debug)]
pub struct Device {
    qps: QpTable,
    shared: Shared,
    /// Queue pairs that may have something to send, each at most once.
    ready: VecDeque<u32>,
    /// Frames that left since the turn of the first of them began.
    burst: u32,
    gsi: gsi::Gsi,
}

/// Frames that one queue pair sends before the next one's turn comes.
const BURST_MAX: u32 = 64;

/// XRC domains; no attribute of a device tells how many there may be.
const XRCDS_MAX: u32 = 1 << 16;

impl Device {
    /// A device without objects.
    #[must_use]
    pub fn new(config: DeviceConfig) -> Self {
        let attributes = config::bounded(config.attributes);
        let limits = KeyLimits { max_mr: attributes.max_mr, max_mw: attributes.max_mw };
        Self {
            qps: QpTable::new(config.qp_slot, config.first_qp_index, attributes.max_qp),
            ready: VecDeque::new(),
            burst: 0,
            gsi: gsi::Gsi::default(),
            shared: Shared {
                port: Port {
                    gids: config.gids,
                    pkeys: config.pkeys,
                    mtu: config.mtu,
                    state: PortState::Active,
                },
                protection: Protection::new(limits, config.key_policy),
                pds: Table::new(attributes.max_pd),
                cqs: Table::new(attributes.max_cq),
                srqs: Table::new(attributes.max_srq),
                xrcds: Table::new(XRCDS_MAX),
                ahs: Table::new(attributes.max_ah),
                groups: Vec::new(),
                timers: Timers::default(),
                pace_timers: Timers::default(),
                held_answers: VecDeque::new(),
                cq_timers: Timers::default(),
                counters: Counters::new(),
                events: VecDeque::new(),
                overrun: Vec::new(),
                now: Instant::ZERO,
                window_bytes: config.window_bytes,
                reaction_point: config.reaction_point,
                profile: config.profile,
                attributes,
            },
        }
    }

    /// What it can do (`ibv_query_device(3)`).
    #[must_use]
    pub fn query_device(&self) -> DeviceAttributes {
        DeviceAttributes {
            max_pkeys: u16::try_from(self.shared.port.pkeys.len()).unwrap_or(u16::MAX),
            ..self.shared.attributes
        }
    }

    /// Attributes of the port (`ibv_query_port(3)`).
    #[must_use]
    pub fn query_port(&self) -> PortAttributes {
        self.shared.port_attributes()
    }

    /// The GID table (`ibv_query_gid(3)`).
    #[must_use]
    pub fn gids(&self) -> &[Gid] {
        &self.shared.port.gids
    }

    /// The P_Key table (`ibv_query_pkey(3)`).
    #[must_use]
    pub fn pkeys(&self) -> &[u16] {
        &self.shared.port.pkeys
    }

    /// How it behaves where devices differ.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.shared.profile
    }

    /// What it has counted.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// The protection: who may touch which bytes.
    #[must_use]
    pub fn protection(&self) -> &Protection {
        &self.shared.protection
    }

    /// When [`Device::on_time`] is due, if ever. It may be earlier than there is something to do,
    /// never later.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let Shared { timers, pace_timers, cq_timers, .. } = &self.shared;
        let held = self.shared.held_answers.front().map(|(until, _)| *until);
        [timers, pace_timers, cq_timers].into_iter().filter_map(Timers::next).chain(held).min()
    }

    /// Whether [`Device::next_frame`] may have a frame.
    #[must_use]
    #[inline]
    pub fn has_work(&self) -> bool {
        !self.ready.is_empty() || self.gsi.has_work()
    }

    /// Tells the time, which completions are stamped with. [`Device::on_frame`], [`Device::fill`] and
    /// [`Device::on_time`] tell it as well; what completes by other calls has the time of the last
    /// of these.
    #[inline]
    pub fn set_now(&mut self, now: Instant) {
        self.shared.now = now;
    }

    /// The time that it was told last.
    #[must_use]
    #[inline]
    pub fn now(&self) -> Instant {
        self.shared.now
    }

    /// Time has passed: retries what was not answered.
    pub fn on_time(&mut self, now: Instant) {
        self.set_now(now);
        while let Some((at, index)) = self.shared.timers.pop_due(now) {
            let Some(qp) = self.qps.at_mut(index) else { continue };
            if self.shared.timers.fires(&mut qp.timer, at, index, now) {
                completer::on_timer(qp, &mut self.shared, now);
                self.mark_ready(index);
            }
        }
        while let Some((at, index)) = self.shared.pace_timers.pop_due(now) {
            let Some(qp) = self.qps.at_mut(index) else { continue };
            if self.shared.pace_timers.fires(&mut qp.pace_timer, at, index, now) {
                self.mark_ready(index);
            }
        }
        while let Some((_, index)) =
            self.shared.held_answers.pop_front_if(|(until, _)| *until <= now)
        {
            if let Some(qp) = self.qps.at_mut(index) {
                responder::release(qp, now);
                self.mark_ready(index);
            }
        }
        self.raise_held_events(now);
        self.fail_overrun();
    }

    /// Completion queues have held an event back for long enough.
    fn raise_held_events(&mut self, now: Instant) {
        let Shared { cq_timers, cqs, events, .. } = &mut self.shared;
        while let Some((at, index)) = cq_timers.pop_due(now) {
            let Some((id, queue)) = cqs.at_mut(index) else { continue };
            if cq_timers.fires(&mut queue.timer, at, index, now) && queue.on_time() {
                events.push_back(Event::Completion(id));
            }
        }
    }

    /// The next event for the program.
    pub fn next_event(&mut self) -> Option<Event> {
        self.shared.events.pop_front()
    }

    /// The addresses of the interface have changed.
    pub fn set_gids(&mut self, gids: Vec<Gid>) {
        if gids != self.shared.port.gids {
            self.shared.port.gids = gids;
            self.shared.raise(AsyncEvent::GidChange);
        }
    }

    /// The world does not answer any more: every queue pair that has begun goes to error, so that
    /// what is posted there completes as flushed.
    pub fn fail_queue_pairs(&mut self) {
        for qp in self.qps.iter_mut() {
            if qp.state() != QpState::Reset {
                flush::to_error(qp, &mut self.shared);
            }
        }
        self.fail_overrun();
    }

    /// The interface went up or down.
    pub fn set_port_state(&mut self, state: PortState) {
        if state != self.shared.port.state {
            self.shared.port.state = state;
            let event = match state {
                PortState::Active => AsyncEvent::PortActive,
                PortState::Down => {
                    self.shared.count(Counter::LinkDowned);
                    AsyncEvent::PortError
                }
            };
            self.shared.raise(event);
        }
    }

    /// The largest path MTU that the interface carries has changed.
    pub fn set_mtu(&mut self, mtu: Mtu) {
        self.shared.port.mtu = mtu;
    }

    fn mark_ready(&mut self, index: u32) {
        if let Some(qp) = self.qps.at_mut(index)
            && !qp.listed
        {
            qp.listed = true;
            self.ready.push_back(index);
        }
    }

    /// Puts the queue pairs of completion queues that overran into error. An XRC target has none:
    /// the shared receive queues that complete there fail, and the targets when they need one.
    // [completions/overrun-kills-qps]
    fn fail_overrun(&mut self) {
        while let Some(cq) = self.shared.overrun.pop() {
            for qp in self.qps.iter_mut() {
                if pairs::completes_in(&qp.init).any(|of_qp| of_qp == cq) {
                    flush::to_error(qp, &mut self.shared);
                }
            }
            self.shared.fail_srqs_of(cq);
        }
    }
}
