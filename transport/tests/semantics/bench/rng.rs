//! Chance that a seed decides, and numbers that stand for all that happened.

/// The generator of Steele, Lea and Flood ("Fast splittable pseudorandom number generators",
/// OOPSLA 2014).
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `end`, which is not 0.
    pub(crate) const fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// True `percent` times of a hundred.
    pub(crate) const fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }

    /// A generator of its own, for a part that shall not depend on how much the others draw.
    pub(crate) const fn fork(&mut self) -> Self {
        Self::new(self.next())
    }
}

/// A number that stands for everything that was added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digest(u64);

impl Digest {
    pub(crate) fn add(&mut self, words: &[u64]) {
        for word in words {
            self.0 = Rng(self.0 ^ word).next();
        }
    }

    pub(crate) fn add_bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        words.iter().for_each(|word| self.add(&[u64::from_le_bytes(*word)]));
        rest.iter().for_each(|byte| self.add(&[u64::from(*byte)]));
    }

    pub(crate) const fn value(self) -> u64 {
        self.0
    }
}
