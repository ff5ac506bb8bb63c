//! How much a requester may have under way.

use crate::Instant;
use crate::verbs::{Mtu, Psn};

/// Packets that may be unacknowledged: it shrinks when packets are lost and grows back as they
/// are acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    packets: u32,
    packets_max: u32,
    /// Packets since the last one that asked for an acknowledgement.
    since_ack_request: u32,
    congestion_not_before: Instant,
}

// [congestion/reaction-dampened]
const CONGESTION_INTERVAL_NS: u64 = 50_000;

/// Below this a window does not shrink.
// [congestion/reaction-floor]
const PACKETS_MIN: u32 = 8;
/// No window is larger: sequence numbers must stay comparable (2^23) with a margin.
// [rc-requester/window-bounded]
const PACKETS_LIMIT: u32 = 1 << 16;

impl Default for Window {
    fn default() -> Self {
        Self::of_packets(PACKETS_MIN)
    }
}

impl Window {
    pub(crate) fn new(bytes: u32, mtu: Mtu) -> Self {
        Self::of_packets((bytes >> mtu.shift()).clamp(PACKETS_MIN, PACKETS_LIMIT))
    }

    const fn of_packets(packets: u32) -> Self {
        Self {
            packets,
            packets_max: packets,
            since_ack_request: 0,
            congestion_not_before: Instant::ZERO,
        }
    }

    /// Whether `more` packets may leave while `in_flight` are under way. One request may always.
    pub(crate) fn admits(&self, in_flight: u32, more: u32) -> bool {
        in_flight == 0 || in_flight + more <= self.packets
    }

    /// Packets of a READ that one request asks for when `done` have come already. A long READ is
    /// divided at fixed places, so that a request that is made again lies inside the first one.
    pub(crate) fn read_packets(&self, done: u32, all: u32) -> u32 {
        let part = self.read_part();
        (part - done % part).min(all - done)
    }

    /// Whether a part of a READ begins when `done` packets have come.
    pub(crate) fn begins_read(&self, done: u32) -> bool {
        done.is_multiple_of(self.read_part())
    }

    fn read_part(&self) -> u32 {
        (self.packets_max / 2).max(1)
    }

    /// How many requests a READ of this many packets takes.
    pub(crate) fn read_parts(&self, packets: u32) -> u32 {
        packets.div_ceil((self.packets_max / 2).max(1))
    }

    /// Whether the packet that is being made should ask for an acknowledgement in the middle of
    /// a message: several times per window, so that it never stalls for want of one.
    pub(crate) fn wants_ack(&self) -> bool {
        self.since_ack_request + 1 >= self.packets / 4
    }

    /// A packet left.
    pub(crate) fn sent(&mut self, ends_request: bool) {
        self.since_ack_request =
            if ends_request || self.wants_ack() { 0 } else { self.since_ack_request + 1 };
    }

    /// Packets were lost or marked.
    pub(crate) fn shrink(&mut self) {
        self.packets = (self.packets / 2).max(PACKETS_MIN.min(self.packets_max));
    }

    /// The peer reports congestion. One report halves the window; those that follow within the
    /// time in which the reaction can show are about the same queue.
    // [congestion/reaction-slows]
    pub(crate) fn on_congestion(&mut self, now: Instant) {
        if now >= self.congestion_not_before {
            self.congestion_not_before = now.plus_ns(CONGESTION_INTERVAL_NS);
            self.shrink();
        }
    }

    /// Packets were acknowledged.
    // [congestion/reaction-recovers]
    pub(crate) fn grow(&mut self, acknowledged: u32) {
        self.packets = (self.packets + acknowledged.div_ceil(8)).min(self.packets_max);
    }
}

/// READ and atomic requests under way, each by the sequence number after its last response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reads {
    ends: [Psn; Self::MAX],
    head: u8,
    len: u8,
}

impl Default for Reads {
    fn default() -> Self {
        Self { ends: [Psn::new(0); Self::MAX], head: 0, len: 0 }
    }
}

impl Reads {
    /// The deepest that a queue pair may ask for.
    pub(crate) const MAX: usize = 16;

    pub(crate) fn len(&self) -> usize {
        usize::from(self.len)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The end of the oldest.
    pub(crate) fn front(&self) -> Option<Psn> {
        if self.len == 0 { None } else { self.ends.get(usize::from(self.head)).copied() }
    }

    pub(crate) fn push(&mut self, end: Psn) {
        let at = (usize::from(self.head) + self.len()) % Self::MAX;
        if let Some(place) = self.ends.get_mut(at) {
            *place = end;
        }
        debug_assert!(self.len() < Self::MAX, "the depth is checked before a request is made");
        self.len += 1;
    }

    /// Removes those that ended at or before `psn`.
    pub(crate) fn retire(&mut self, psn: Psn) {
        while let Some(end) = self.front()
            && psn.distance_from(end) >= 0
        {
            self.head = (self.head + 1) % 16;
            self.len -= 1;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// Which of `count` packets in the middle of messages ask for an acknowledgement.
    fn asking(window: &mut Window, count: u32) -> Vec<u32> {
        let mut asks = |_: &u32| {
            let asks = window.wants_ack();
            window.sent(false);
            asks
        };
        (0..count).filter(|number| asks(number)).collect()
    }

    #[test]
    fn acknowledgements_are_asked_for_four_times_a_window() {
        let mut window = Window::of_packets(64);
        assert_eq!(asking(&mut window, 70), [15, 31, 47, 63]);
        // The end of a request asks in any case, and the count begins again.
        window.sent(true);
        assert_eq!(asking(&mut window, 33), [15, 31]);
    }

    #[test]
    fn the_parts_of_a_read_are_all_of_it_and_as_many_as_are_counted() {
        for window in [1, 2, 8, 9, 64, 1001].map(Window::of_packets) {
            for all in (1..70).chain([1000, 1001, 4096]) {
                let (mut done, mut parts) = (0, 0);
                while done < all {
                    let packets = window.read_packets(done, all);
                    assert!(packets > 0 && window.begins_read(done));
                    assert!((1..packets).all(|more| !window.begins_read(done + more)));
                    done += packets;
                    parts += 1;
                }
                assert_eq!((done, parts), (all, window.read_parts(all)), "{window:?}");
            }
        }
    }
}
