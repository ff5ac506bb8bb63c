//! Frames that a rule holds back.

use softrnic_model::Instant;
use softrnic_model::wire::Route;

use super::Direction;
use crate::link::PACKET_LEN_MAX;

/// Frames that may be held at the same time. With more, frames pass instead of being held.
pub(super) const HELD_MAX: usize = 256;

/// A bounded store whose memory is there from the start.
pub(super) struct Store {
    /// The places that are taken.
    held: Vec<Held>,
    free: Vec<Box<[u8; PACKET_LEN_MAX]>>,
    held_ever: u64,
}

pub(super) struct Held {
    pub(super) direction: Direction,
    pub(super) route: Route,
    pub(super) damage: Option<u32>,
    /// When it goes on.
    due: Instant,
    /// Whether it goes on as soon as another frame of its direction has.
    awaits_next: bool,
    /// Order of coming, for frames that are due at the same time.
    number: u64,
    len: usize,
    bytes: Box<[u8; PACKET_LEN_MAX]>,
}

impl Held {
    pub(super) fn packet(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Store {
    pub(super) fn new() -> Self {
        let free = std::iter::repeat_with(|| Box::new([0; PACKET_LEN_MAX])).take(HELD_MAX);
        Self { held: Vec::with_capacity(HELD_MAX), free: free.collect(), held_ever: 0 }
    }

    /// Holds a copy of `packet` until `due`, or with `awaits_next` until the next frame of its
    /// direction has passed. Returns whether there was room.
    pub(super) fn hold(
        &mut self,
        direction: Direction,
        (route, damage, packet): (&Route, Option<u32>, &[u8]),
        due: Instant,
        awaits_next: bool,
    ) -> bool {
        if packet.len() > PACKET_LEN_MAX {
            return false;
        }
        let Some(mut bytes) = self.free.pop() else { return false };
        bytes[..packet.len()].copy_from_slice(packet);
        self.held_ever += 1;
        let (route, number, len) = (*route, self.held_ever, packet.len());
        self.held.push(Held { direction, route, damage, due, awaits_next, number, len, bytes });
        true
    }

    /// A frame of `direction` has passed: those that waited for it are due.
    pub(super) fn passed(&mut self, direction: Direction) {
        for held in &mut self.held {
            if held.awaits_next && held.direction == direction {
                held.awaits_next = false;
                held.due = Instant::ZERO;
            }
        }
    }

    /// Takes out the frame of `direction` that is due first, if one is due. Give it back with
    /// [`Store::release`].
    pub(super) fn take_due(&mut self, now: Instant, direction: Direction) -> Option<Held> {
        let first = self
            .held
            .iter()
            .enumerate()
            .filter(|(_, held)| held.direction == direction && held.due <= now)
            .min_by_key(|(_, held)| (held.due, held.number));
        let (index, _) = first?;
        Some(self.held.swap_remove(index))
    }

    /// Gives back the place of a frame that has gone on.
    pub(super) fn release(&mut self, held: Held) {
        self.free.push(held.bytes);
    }

    /// When the next frame is due, of `direction` or of both.
    pub(super) fn next_due(&self, direction: Option<Direction>) -> Option<Instant> {
        let wanted = |held: &&Held| direction.is_none_or(|direction| direction == held.direction);
        self.held.iter().filter(wanted).map(|held| held.due).min()
    }

    /// Whether nothing is held.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}
