//! The memory of one side as it should be, and which parts of it are in use.

use std::fmt;
use std::ops::Range;

use crate::bench::Rng;

pub(super) struct Ground {
    /// What each byte should hold when nothing is in use.
    pub(super) bytes: Vec<u8>,
    in_use: Vec<Range<u64>>,
    /// Bytes from here on are given out; those before have fixed uses.
    free_from: u64,
}

impl fmt::Debug for Ground {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.in_use).finish()
    }
}

impl Ground {
    pub(super) fn new(bytes: Vec<u8>, free_from: u64) -> Self {
        Self { bytes, in_use: Vec::new(), free_from }
    }

    /// `len` bytes somewhere that nothing else uses, if chance finds them.
    pub(super) fn take(&mut self, rng: &mut Rng, len: u64) -> Option<Range<u64>> {
        let room = self.bytes.len() as u64 - self.free_from - len;
        for _ in 0..8 {
            let start = self.free_from + rng.below(room);
            let range = start..start + len;
            // An empty range collides with nothing.
            let meets = |used: &Range<u64>| used.start < range.end && range.start < used.end;
            if len == 0 || !self.in_use.iter().any(meets) {
                self.in_use.push(range.clone());
                return Some(range);
            }
        }
        None
    }

    /// `len` bytes in at most `pieces_max` pieces.
    pub(super) fn take_pieces(
        &mut self,
        rng: &mut Rng,
        len: u64,
        pieces_max: u64,
    ) -> Option<Vec<Range<u64>>> {
        let mut pieces = Vec::new();
        let mut left = len;
        for last in (0..1 + rng.below(pieces_max)).rev() {
            let size = if last == 0 { left } else { rng.below(left + 1) };
            left -= size;
            let Some(piece) = self.take(rng, size) else {
                self.give_back(&pieces);
                return None;
            };
            pieces.push(piece);
        }
        Some(pieces)
    }

    pub(super) fn give_back(&mut self, pieces: &[Range<u64>]) {
        for piece in pieces {
            let at = self.in_use.iter().position(|used| used == piece).unwrap();
            self.in_use.swap_remove(at);
        }
    }

    pub(super) fn gather(&self, pieces: &[Range<u64>]) -> Vec<u8> {
        pieces.iter().flat_map(|piece| &self.bytes[index(piece)]).copied().collect()
    }

    /// Puts bytes into the first of `pieces` that they fill.
    pub(super) fn scatter(&mut self, pieces: &[Range<u64>], mut bytes: &[u8]) {
        for piece in pieces {
            let place = &mut self.bytes[index(piece)];
            let (now, later) = bytes.split_at(place.len().min(bytes.len()));
            place[..now.len()].copy_from_slice(now);
            bytes = later;
        }
        assert!(bytes.is_empty(), "they fit");
    }
}

pub(super) const fn index(range: &Range<u64>) -> Range<usize> {
    range.start as usize..range.end as usize
}
