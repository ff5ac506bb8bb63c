//! What happens in a network, for whoever looks on.

use std::fmt;

use softrnic_model::Instant;
use softrnic_model::wire::{Packet, Route};

use super::{LinkId, NodeId};
use crate::tap::{Direction, Line};

/// Something that happens to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum What {
    /// A host has sent it.
    Sent,
    /// It is at the host that it is for.
    Arrived,
    /// Lost by chance, or by a rule.
    Dropped,
    /// A bit was damaged under way.
    Damaged,
    /// A copy of it follows.
    Duplicated,
    /// It waits longer than others.
    Delayed,
    /// A mark of congestion was put on it.
    Marked,
    /// It waits for the end of a pause.
    Held,
    /// Lost: the queue of a cable was full.
    QueueFull,
    /// Lost: no way leads there.
    NoWay,
    /// Lost: sender and receiver are in different partitions.
    Parted,
    /// Lost: the sender or the receiver is dead.
    Dead,
    /// Lost: its ICRC is wrong.
    BadIcrc,
    /// Lost: no device has the address and the queue pair's slot.
    NobodyThere,
}

impl What {
    /// In a word or two.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Arrived => "arrived",
            Self::Dropped => "lost",
            Self::Damaged => "damaged",
            Self::Duplicated => "duplicated",
            Self::Delayed => "delayed",
            Self::Marked => "marked",
            Self::Held => "held",
            Self::QueueFull => "lost, queue full",
            Self::NoWay => "lost, no way",
            Self::Parted => "lost, parted",
            Self::Dead => "lost, dead",
            Self::BadIcrc => "lost, bad ICRC",
            Self::NobodyThere => "lost, nobody there",
        }
    }

    /// Whether the frame ends here without having reached anybody.
    #[must_use]
    pub const fn is_loss(self) -> bool {
        matches!(
            self,
            Self::Dropped
                | Self::QueueFull
                | Self::NoWay
                | Self::Parted
                | Self::Dead
                | Self::BadIcrc
                | Self::NobodyThere
        )
    }
}

/// One event. Displayed as one line, in the words of [`Line`](crate::tap::Line).
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// When, in virtual time.
    pub at: Instant,
    /// What.
    pub what: What,
    /// Where the frame is.
    pub node: NodeId,
    /// The cable that it happens on, if it is one.
    pub link: Option<LinkId>,
    /// Addressing of the frame.
    pub route: &'a Route,
    /// From the BTH to the end of the pad.
    pub packet: &'a [u8],
}

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction =
            if self.what == What::Arrived { Direction::Received } else { Direction::Sent };
        let Self { at, route, packet, .. } = *self;
        write!(f, "node {} {}", self.node.0, self.what.name())?;
        if let Some(link) = self.link {
            write!(f, " on link {}", link.0)?;
        }
        write!(f, ": {}", Line { at, direction, route, packet })
    }
}

/// Sees every event. It must not touch the network.
pub type Observer = Box<dyn FnMut(&Event<'_>) + Send>;

/// A number that tells two runs apart: all events, in order, mixed into 64 bits. Of a packet it takes
/// what does not depend on where a program's memory happens to lie: its length, its BTH and the
/// syndrome of an answer, not its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventHash(u64);

impl Default for EventHash {
    fn default() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }
}

impl EventHash {
    /// Mixes a number in.
    pub const fn mix(&mut self, number: u64) {
        // The finalizer of SplitMix64, over a running state.
        let mut z = (self.0 ^ number).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.0 = z ^ z >> 31;
    }

    pub(super) fn event(&mut self, event: &Event<'_>) {
        let [a, b] = halves(event.packet);
        self.mix(event.at.as_ns());
        self.mix(a);
        let where_ = u64::from(event.node.0) << 32 | u64::from(event.what as u8) << 24;
        self.mix(where_ ^ b.rotate_left(40) ^ event.packet.len() as u64);
    }

    /// The number so far.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// The first 16 bytes: BTH and what follows, unless that is an address.
fn halves(packet: &[u8]) -> [u64; 2] {
    let mut bytes = [0; 16];
    let answered = Packet::parse(packet).is_ok_and(|packet| packet.aeth().is_some());
    let known = packet.len().min(if answered { 16 } else { 12 });
    bytes[..known].copy_from_slice(&packet[..known]);
    let [a, b] = *bytes.as_chunks::<8>().0 else { return [0; 2] };
    [u64::from_le_bytes(a), u64::from_le_bytes(b)]
}
