//! Chance that is the same for the same seed.

/// The generator SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
/// 2014).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Random(u64);

impl Random {
    /// A stream of its own for each `stream` of a seed.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut whitened = Self(seed);
        let start = whitened.next();
        Self(start ^ stream.wrapping_mul(0xd134_2543_de82_ef95))
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `bound`; 0 if that is 0.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        let wide = (u128::from(self.next()) * u128::from(bound)) >> 64;
        u32::try_from(wide).unwrap_or(0)
    }

    /// True in `ppm` of a million cases.
    pub(crate) fn chance(&mut self, ppm: u32) -> bool {
        self.below(1_000_000) < ppm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sequence() {
        let mut random = Random(1_234_567);
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(expected.map(|_| random.next()), expected);
    }

    #[test]
    fn below_stays_below_and_reaches_everything() {
        let mut random = Random::new(1, 0);
        let mut seen = [0; 10];
        for _ in 0..10_000 {
            seen[random.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|count| (800..1200).contains(count)), "{seen:?}");
        assert_eq!(random.below(0), 0);
        assert!(!(0..1000).any(|_| random.chance(0)));
        assert!((0..1000).all(|_| random.chance(1_000_000)));
    }

    #[test]
    fn streams_differ() {
        let first = |seed, stream| Random::new(seed, stream).next();
        assert_eq!(first(7, 3), first(7, 3));
        assert_ne!(first(7, 3), first(7, 4));
        assert_ne!(first(7, 3), first(8, 3));
    }
}
