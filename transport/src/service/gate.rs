//! How many requests each peer may make, so that one that floods keeps no other from connecting.
//! Pure: told the time.

use std::collections::BTreeMap;

use softrnic_model::Instant;
use softrnic_model::verbs::Gid;

/// Requests of one peer that are taken in a second: more than a process can answer.
const PER_SECOND: u64 = 5_000;
/// Requests that a peer may make at one time after a pause.
const AT_ONCE: u64 = 2_048;
/// Peers that are told apart; those beyond share.
const PEERS_MAX: usize = 1_024;

const NS_EACH: u64 = 1_000_000_000 / PER_SECOND;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// When each peer will have paid for the requests that it has made.
    paid_at: BTreeMap<Gid, Instant>,
}

impl Gate {
    /// Whether one more request of `peer` is taken now.
    pub(super) fn admits(&mut self, peer: Gid, now: Instant) -> bool {
        if !self.paid_at.contains_key(&peer) && self.paid_at.len() >= PEERS_MAX {
            self.paid_at.retain(|_, paid| *paid > now);
        }
        let full = self.paid_at.len() >= PEERS_MAX && !self.paid_at.contains_key(&peer);
        let key = if full { Gid::default() } else { peer };
        let paid = self.paid_at.entry(key).or_default();
        let after = now.max(*paid).plus_ns(NS_EACH);
        if after.ns_since(now) > AT_ONCE * NS_EACH {
            return false;
        }
        *paid = after;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(n: u32) -> Gid {
        Gid::from_v4(n.to_be_bytes())
    }

    #[test]
    fn who_floods_gets_its_share_and_others_theirs() {
        let mut gate = Gate::default();
        let (mut flood, mut other) = (0_u64, 0);
        for tick in 0..1_000_000 {
            let now = Instant::from_ns(tick * 10_000);
            flood += u64::from(gate.admits(peer(1), now));
            if tick % 1_000 == 0 {
                other += u64::from(gate.admits(peer(2), now));
            }
        }
        assert_eq!(other, 1_000, "all of 100 a second for ten seconds");
        let expected = 10 * PER_SECOND + AT_ONCE;
        assert!(flood.abs_diff(expected) <= 2, "{flood} of {expected}");
    }

    #[test]
    fn many_peers_take_no_more_room() {
        let mut gate = Gate::default();
        for n in 0..100_000 {
            gate.admits(peer(n), Instant::ZERO);
            assert!(gate.paid_at.len() <= PEERS_MAX + 1);
        }
        assert!(gate.admits(peer(7_000_000), Instant::from_ns(10_000_000_000)));
        assert!(gate.paid_at.len() < 3);
    }
}
