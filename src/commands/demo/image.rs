//! What memory must hold: both ends' memory is predicted byte by byte and compared with what is
//! there.

use super::script::{ADDEND, Act, Aim, Outcome, Verb};
use crate::pattern::message;

/// Bytes of the memory of each end.
pub(super) const MEMORY: usize = 16 << 10;
/// Where WRITEs and READs begin in the responder's memory: no round number, so that the bytes
/// around them are looked at too.
pub(super) const REMOTE_OFFSET: u64 = 77;
/// The word of the responder's memory that atomics change.
pub(super) const WORD_OFFSET: u64 = 512;
/// Where receives begin in the responder's memory, and results in the requester's.
pub(super) const RECEIVE_OFFSET: u64 = 4096;

/// The memory of one end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Image(Vec<u8>);

impl Image {
    /// What the responder begins with.
    pub(super) fn responder() -> Self {
        Self(message(0xbe, MEMORY))
    }

    /// What the requester begins with.
    pub(super) fn requester() -> Self {
        Self(message(0xa5, MEMORY))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Puts `bytes` at `offset`. What does not fit is a mistake of the script, found by its test.
    pub(super) fn put(&mut self, offset: u64, bytes: &[u8]) {
        let place = usize::try_from(offset).ok().and_then(|offset| self.0.get_mut(offset..));
        for (place, byte) in place.into_iter().flatten().zip(bytes) {
            *place = *byte;
        }
    }

    /// The `len` bytes at `offset`.
    pub(super) fn get(&self, offset: u64, len: usize) -> &[u8] {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.0.get(offset..));
        rest.and_then(|rest| rest.get(..len)).unwrap_or_default()
    }

    fn word(&self, offset: u64) -> u64 {
        self.get(offset, 8).try_into().map_or(0, u64::from_ne_bytes)
    }

    /// Where `seen` first differs from this, the bytes of `ignored` apart.
    pub(super) fn difference(
        &self,
        seen: &[u8],
        ignored: &[std::ops::Range<u64>],
    ) -> Option<String> {
        if seen.len() != self.0.len() {
            return Some(format!("memory has {} bytes, not {}", seen.len(), self.0.len()));
        }
        let looked_at = |offset: u64| ignored.iter().all(|range| !range.contains(&offset));
        let pairs = (0_u64..).zip(self.0.iter().zip(seen));
        let (offset, (expected, seen)) =
            pairs.into_iter().find(|(offset, (a, b))| a != b && looked_at(*offset))?;
        Some(format!("memory at offset {offset} holds {seen:#04x}, not {expected:#04x}"))
    }
}

/// The memory of both ends, as it must be.
#[derive(Debug)]
pub(super) struct World {
    pub(super) requester: Image,
    pub(super) responder: Image,
}

impl World {
    pub(super) fn new() -> Self {
        Self { requester: Image::requester(), responder: Image::responder() }
    }

    /// What a compare-and-swap must compare with to succeed.
    pub(super) fn word(&self) -> u64 {
        self.responder.word(WORD_OFFSET)
    }

    /// What a compare-and-swap of `round` puts there.
    pub(super) fn swap(round: u64) -> u64 {
        u64::from_ne_bytes(message(round, 8).try_into().unwrap_or_default())
    }

    /// Foretells one round of `act`, whose message is in the requester's memory already.
    pub(super) fn perform(&mut self, act: &Act, round: u64) {
        if act.outcome != Outcome::Done {
            return;
        }
        let len = act.bytes as usize;
        match act.verb {
            Verb::Send => {
                let message = self.requester.get(0, len).to_vec();
                self.responder.put(receive_offset(act, round) + grh_len(act), &message);
            }
            Verb::Write | Verb::WriteWithImmediate => {
                let message = self.requester.get(0, len).to_vec();
                self.responder.put(REMOTE_OFFSET, &message);
            }
            Verb::Read => {
                let message = self.responder.get(REMOTE_OFFSET, len).to_vec();
                self.requester.put(RECEIVE_OFFSET, &message);
            }
            Verb::CompareSwap => self.exchange_word(Self::swap(round)),
            Verb::FetchAdd => self.exchange_word(self.word().wrapping_add(ADDEND)),
        }
    }

    fn exchange_word(&mut self, new: u64) {
        let before = self.word();
        self.responder.put(WORD_OFFSET, &new.to_ne_bytes());
        self.requester.put(RECEIVE_OFFSET, &before.to_ne_bytes());
    }
}

/// Where the receive of `round` begins.
pub(super) fn receive_offset(act: &Act, round: u64) -> u64 {
    RECEIVE_OFFSET + round * u64::from(act.stage.receive)
}

/// Bytes in front of the data of a received message.
pub(super) const fn grh_len(act: &Act) -> u64 {
    if act.service.is_connected() { 0 } else { softrnic_model::wire::Grh::LEN as u64 }
}

/// The address, counted from the start of the responder's region, that `act` names.
pub(super) fn remote_offset(act: &Act, region_start: u64) -> u64 {
    match (act.aim, act.verb) {
        (Aim::Wrapping, _) => {
            u64::MAX.wrapping_sub(u64::from(act.bytes) / 2).wrapping_sub(region_start)
        }
        (Aim::OneTooFar, _) => MEMORY as u64 - u64::from(act.bytes) + 1,
        (Aim::Inside | Aim::OtherKey, Verb::CompareSwap | Verb::FetchAdd) => WORD_OFFSET,
        (Aim::Inside | Aim::OtherKey, _) => REMOTE_OFFSET,
    }
}

#[cfg(test)]
mod tests {
    use super::super::script::ACTS;
    use super::*;

    #[test]
    fn every_act_fits_into_memory() {
        for act in &ACTS {
            assert!(u64::from(act.bytes) <= RECEIVE_OFFSET - REMOTE_OFFSET, "{act:?}");
            assert!(receive_offset(act, act.rounds) <= MEMORY as u64, "{act:?}");
        }
    }

    #[test]
    fn a_difference_is_found_at_its_place() {
        let image = Image::responder();
        assert_eq!(image.difference(image.bytes(), &[]), None);
        let mut other = image.clone();
        other.put(700, &[!image.bytes()[700]]);
        let found = image.difference(other.bytes(), &[]).unwrap();
        assert!(found.contains("offset 700 "), "{found}");
        assert_eq!(image.difference(other.bytes(), &[10..20, 700..701]), None);
        assert!(image.difference(&[1], &[]).unwrap().contains("1 bytes"));
    }

    #[test]
    fn the_range_that_wraps_does_so() {
        for act in ACTS.iter().filter(|act| act.aim == Aim::Wrapping) {
            for start in [0, 4096, 0x7fff_1234_5000] {
                let addr = start + remote_offset(act, start);
                assert!(addr.checked_add(u64::from(act.bytes)).is_none());
            }
        }
    }
}
