//! In which order indices and variants are handed out.

/// How predictable keys are. Whatever the policy, an index is reused as late as possible, and a
/// variant of an index only after all its other ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// [attacks/key-prediction] [attacks/key-after-restart]
pub enum KeyPolicy {
    /// Ascending indices, ascending variants from 0.
    Sequential,
    /// Ascending indices and scattered variants, as soft-RoCE does; the same ones in each run.
    RxeLike,
    /// Scattered indices and variants. The table soon takes all of its memory: 104 bytes for each
    /// object that the limits allow.
    Random {
        /// Equal seeds give equal keys.
        seed: u64,
    },
}

/// Seed of the variants of [`KeyPolicy::RxeLike`].
const RXE_SEED: u64 = 0x0072_7865;

impl KeyPolicy {
    /// The `nth` index to be used for the first time, in `1..=capacity`; `nth < capacity`.
    pub(super) fn index(self, nth: u32, capacity: u32) -> u32 {
        match self {
            Self::Sequential | Self::RxeLike => nth + 1,
            Self::Random { seed } => {
                let bits = u32::BITS - capacity.saturating_sub(1).leading_zeros();
                let mut place = permute(nth, bits, seed);
                // Walking the cycle that `nth` is on comes back to `nth` at the latest.
                while place >= capacity {
                    place = permute(place, bits, seed);
                }
                place + 1
            }
        }
    }

    /// The variant at `position` of the order in which index `index` goes through all 256.
    pub(super) fn variant(self, index: u32, position: u8) -> u8 {
        let seed = match self {
            Self::Sequential => return position,
            Self::RxeLike => RXE_SEED,
            Self::Random { seed } => seed,
        };
        let key = splitmix64(seed ^ u64::from(index) << 32);
        permute(u32::from(position), u8::BITS, key).to_le_bytes()[0]
    }
}

/// A permutation of the numbers of `bits` bits (at most 24), chosen by `key`.
fn permute(number: u32, bits: u32, key: u64) -> u32 {
    let mask = (1_u32 << bits) - 1;
    let fold = bits / 2 + 1;
    // Each step can be undone: adding, multiplying by an odd number, folding high bits down.
    (0..4).fold(number, |x, round| {
        let [add, multiply] = halves(splitmix64(key.wrapping_add(round)));
        let x = x.wrapping_add(add).wrapping_mul(multiply | 1) & mask;
        x ^ x >> fold
    })
}

fn halves(word: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = word.to_le_bytes();
    [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])]
}

/// The generator of Steele, Lea and Flood ("Fast splittable pseudorandom number generators",
/// OOPSLA 2014) at the state after `state`.
const fn splitmix64(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use alloc::{vec, vec::Vec};

    use super::*;

    const POLICIES: [KeyPolicy; 4] = [
        KeyPolicy::Sequential,
        KeyPolicy::RxeLike,
        KeyPolicy::Random { seed: 0 },
        KeyPolicy::Random { seed: u64::MAX },
    ];

    #[test]
    fn splitmix64_gives_the_published_sequence() {
        // The first outputs from state 1234567, as the reference implementation prints them.
        let mut state = 1_234_567_u64;
        let mut next = || {
            let out = splitmix64(state);
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            out
        };
        assert_eq!(next(), 6_457_827_717_110_365_317);
        assert_eq!(next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn every_index_comes_exactly_once() {
        for policy in POLICIES {
            for capacity in [1, 2, 3, 4, 5, 255, 256, 257, 1000, 5000] {
                let mut seen = vec![false; 1 + capacity as usize];
                for nth in 0..capacity {
                    let index = policy.index(nth, capacity);
                    assert!((1..=capacity).contains(&index), "{policy:?} {capacity} {index}");
                    assert!(!core::mem::replace(&mut seen[index as usize], true));
                }
            }
        }
    }

    #[test]
    fn the_largest_table_has_indices_of_24_bits() {
        let capacity = (1 << 24) - 1;
        for policy in POLICIES {
            for nth in [0, 1, 1 << 23, capacity - 1] {
                assert!((1..=capacity).contains(&policy.index(nth, capacity)));
            }
        }
    }

    #[test]
    fn the_variants_of_an_index_are_a_permutation() {
        for policy in POLICIES {
            for index in [1, 2, 77, 0xff_ffff] {
                let mut all: Vec<u8> = (0..=255).map(|at| policy.variant(index, at)).collect();
                all.sort_unstable();
                assert!(all.into_iter().eq(0..=255));
            }
        }
    }

    #[test]
    fn scattered_variants_follow_no_common_step() {
        for policy in [KeyPolicy::RxeLike, KeyPolicy::Random { seed: 7 }] {
            let steps = (0..255_u8)
                .map(|at| policy.variant(1, at + 1).wrapping_sub(policy.variant(1, at)))
                .fold([0_u8; 256], |mut counts, step| {
                    counts[usize::from(step)] += 1;
                    counts
                });
            assert!(steps.into_iter().max() < Some(16), "{policy:?}");
        }
    }
}
