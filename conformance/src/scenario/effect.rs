//! What a scenario may do to the buffers, and whether it did just that.
//!
//! Told from the verbs alone: SEND copies into the receive, WRITE and READ copy, an atomic changes
//! 8 bytes and returns what they were. Every other byte of both buffers stays.

use std::fmt;
use std::ops::Range;

use softrnic_model::verbs::{Gid, QpType};

use super::run::Side;
use super::{Effect, Op, Scenario};

/// Bytes in front of the data of a datagram.
const GRH_LEN: usize = 40;

/// Both buffers as they should be; by [`Side`].
#[derive(Clone, Debug)]
pub(super) struct Images(pub(super) [Vec<u8>; 2]);

/// A byte that is not as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongByte {
    /// In whose buffer.
    pub side: Side,
    /// Where in it.
    pub offset: usize,
    /// What it should be.
    pub expected: u8,
    /// What it is.
    pub found: u8,
}

impl fmt::Display for WrongByte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { side, offset, expected, found } = self;
        write!(f, "byte {offset} of the {side}'s buffer is {found:#04x}, not {expected:#04x}")
    }
}

/// Bytes that arrive somewhere.
pub(super) struct Arrival {
    pub(super) side: Side,
    pub(super) offset: usize,
    pub(super) bytes: Vec<u8>,
}

impl Arrival {
    fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.bytes.len()
    }
}

impl Images {
    /// The buffers as the recording's program filled them; byte i is 7 i + 3 at the requester,
    /// 7 i + 1 at the responder.
    pub(super) fn filled(len: usize) -> Self {
        let image = |first: u8| {
            (0..len).map(|i| i.to_le_bytes()[0].wrapping_mul(7).wrapping_add(first)).collect()
        };
        Self([image(3), image(1)])
    }

    fn slice(&self, side: Side, offset: u32, length: u32) -> Vec<u8> {
        let start = offset as usize;
        self.0[side as usize].get(start..start + length as usize).unwrap_or(&[]).to_vec()
    }

    fn word(&self, offset: u32) -> u64 {
        let mut word = [0; 8];
        let bytes = self.slice(Side::Responder, offset, 8);
        if bytes.len() == word.len() {
            word.copy_from_slice(&bytes);
        }
        u64::from_ne_bytes(word)
    }

    /// What arrives where when the scenario does what it asks for. What does not fit the buffer
    /// is left out.
    pub(super) fn arrivals(&self, scenario: &Scenario, qp_type: QpType) -> Vec<Arrival> {
        let work = &scenario.work;
        let (local, remote) = (work.local as usize, work.remote as usize);
        let sent = || self.slice(Side::Requester, work.local, work.length);
        let all = match work.op {
            Op::Send(_) => {
                let start = if qp_type == QpType::Ud { GRH_LEN } else { 0 };
                vec![Arrival { side: Side::Responder, offset: start, bytes: sent() }]
            }
            Op::Write(_) => {
                vec![Arrival { side: Side::Responder, offset: remote, bytes: sent() }]
            }
            Op::Read => {
                let bytes = self.slice(Side::Responder, work.remote, work.length);
                vec![Arrival { side: Side::Requester, offset: local, bytes }]
            }
            Op::CompareSwap { compare, swap } => {
                let found = self.word(work.remote);
                Self::atomic(local, remote, found, if found == compare { swap } else { found })
            }
            Op::FetchAdd(add) => {
                let found = self.word(work.remote);
                Self::atomic(local, remote, found, found.wrapping_add(add))
            }
        };
        let fits = |arrival: &Arrival| arrival.range().end <= self.0[arrival.side as usize].len();
        all.into_iter().filter(fits).collect()
    }

    fn atomic(local: usize, remote: usize, found: u64, stored: u64) -> Vec<Arrival> {
        let bytes = |word: u64| word.to_ne_bytes().to_vec();
        vec![
            Arrival { side: Side::Responder, offset: remote, bytes: bytes(stored) },
            Arrival { side: Side::Requester, offset: local, bytes: bytes(found) },
        ]
    }

    /// Changes the bytes that data will be copied onto, so that its arrival can be told from what
    /// was there before. Returns what was changed.
    pub(super) fn scrub(&mut self, scenario: &Scenario, qp_type: QpType) -> Vec<Arrival> {
        let mut changes = self.arrivals(scenario, qp_type);
        // An atomic depends on what it changes.
        let atomic = matches!(scenario.work.op, Op::CompareSwap { .. } | Op::FetchAdd(_));
        changes.retain(|change| !atomic || change.side == Side::Requester);
        for change in &mut changes {
            for byte in &mut change.bytes {
                *byte = !*byte;
            }
        }
        if qp_type == QpType::Ud {
            changes.push(Arrival { side: Side::Responder, offset: 0, bytes: vec![0; GRH_LEN] });
        }
        for change in &changes {
            self.0[change.side as usize][change.range()].copy_from_slice(&change.bytes);
        }
        changes
    }

    /// Compares the buffers found after a scenario with what it should have made of them, and takes
    /// over what is not determined. Returns the first wrong byte of each buffer.
    pub(super) fn check(
        &mut self,
        scenario: &Scenario,
        qp_type: QpType,
        gids: [Gid; 2],
        found: &[Vec<u8>; 2],
    ) -> Vec<WrongByte> {
        for arrival in self.arrivals(scenario, qp_type) {
            let (range, Arrival { side, bytes, .. }) = (arrival.range(), &arrival);
            let (image, found) = (&mut self.0[*side as usize], &found[*side as usize]);
            match scenario.effect {
                Effect::Nothing => {}
                Effect::Done => image[range].copy_from_slice(bytes),
                // Each byte may have arrived or not, but none behind the receive.
                Effect::Partial => {
                    let room = scenario.receive.map_or(0, |receive| receive.length as usize);
                    for (i, &sent) in range.zip(bytes).take_while(|(i, _)| *i < room) {
                        if found.get(i) == Some(&sent) {
                            image[i] = sent;
                        }
                    }
                }
            }
        }
        if scenario.effect == Effect::Done && qp_type == QpType::Ud {
            let (image, found) =
                (&mut self.0[Side::Responder as usize], &found[Side::Responder as usize]);
            if let (Some(image), Some(found)) = (image.get_mut(..GRH_LEN), found.get(..GRH_LEN)) {
                image.copy_from_slice(found);
                tell_of(image, gids);
            }
        }
        let wrong_byte = |side: Side| {
            let (expected, found) = (&self.0[side as usize], &found[side as usize]);
            if expected == found {
                return None;
            }
            let mut pairs = expected.iter().zip(found);
            let offset = pairs.position(|(expected, found)| expected != found)?;
            Some(WrongByte { side, offset, expected: expected[offset], found: found[offset] })
        };
        Side::ALL.into_iter().filter_map(wrong_byte).collect()
    }
}

/// Puts in what the bytes in front of a datagram must tell of its IP header: IPv6, or 20 bytes of
/// anything and then IPv4 (annex A17).
fn tell_of(grh: &mut [u8], [src, dst]: [Gid; 2]) {
    const UDP: u8 = 17;
    const IPV4_WITHOUT_OPTIONS: u8 = 0x45;
    const IPV6: u8 = 0x60;
    if let (Some(src), Some(dst)) = (src.as_v4(), dst.as_v4()) {
        grh[20] = IPV4_WITHOUT_OPTIONS;
        grh[29] = UDP;
        grh[32..36].copy_from_slice(&src);
        grh[36..40].copy_from_slice(&dst);
    } else {
        grh[0] = IPV6 | grh[0] & 0x0f;
        grh[6] = UDP;
        grh[8..24].copy_from_slice(&src.0);
        grh[24..40].copy_from_slice(&dst.0);
    }
}
