//! Bytes to fill messages with, so that it shows when one arrives in the wrong place or twice.

/// The message of `round`: bytes that differ from round to round and do not repeat within it.
pub(crate) fn message(round: u64, len: usize) -> Vec<u8> {
    let scramble = |position: u64| {
        let x = (position ^ round << 32).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9).to_be_bytes()[0]
    };
    (0..len as u64).map(scramble).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn messages_differ_from_round_to_round_and_from_place_to_place() {
        let rounds: BTreeSet<_> = (0..64).map(|round| message(round, 64)).collect();
        assert_eq!(rounds.len(), 64);
        let bytes = message(3, 3000);
        for step in 1..1024 {
            let same = bytes.iter().zip(&bytes[step..]).filter(|(a, b)| a == b).count();
            assert!(same < bytes.len() / 16, "{step}: {same}");
        }
    }
}
