//! In which order a program is told of requests that wait at a listener: one of each peer, then the
//! second one of each, and so on. A peer that asks without end stands in its own way only.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// The turn of a request: those with lower ones come first, of equals the older one.
pub(super) type Turn = u32;

/// The requests of one peer that wait.
#[derive(Debug, Default)]
struct Waiting {
    count: u32,
    next: Turn,
}

/// The requests that wait at one listener, see the module.
#[derive(Debug, Default)]
pub(super) struct Turns {
    peers: BTreeMap<IpAddr, Waiting>,
    /// No request that waits has a later turn.
    latest: Turn,
}

impl Turns {
    /// A request comes: its turn, and whether it comes behind all that wait.
    pub(super) fn queue(&mut self, peer: IpAddr) -> (Turn, bool) {
        let waiting = self.peers.entry(peer).or_default();
        let turn = waiting.next;
        waiting.count += 1;
        waiting.next = turn.saturating_add(1);
        let is_last = turn >= self.latest;
        self.latest = self.latest.max(turn);
        (turn, is_last)
    }

    /// A request waits no more.
    pub(super) fn leave(&mut self, peer: IpAddr) {
        let Some(waiting) = self.peers.get_mut(&peer) else { return };
        waiting.count = waiting.count.saturating_sub(1);
        if waiting.count == 0 {
            self.peers.remove(&peer);
        }
        if self.peers.is_empty() {
            self.latest = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue by the rule, of peers by their last byte.
    #[derive(Default)]
    struct Queue {
        turns: Turns,
        waiting: Vec<(u8, Turn)>,
    }

    fn ip(peer: u8) -> IpAddr {
        [10, 0, 0, peer].into()
    }

    impl Queue {
        fn ask(&mut self, peer: u8) {
            let (turn, is_last) = self.turns.queue(ip(peer));
            let later = self.waiting.iter().position(|(_, other)| *other > turn);
            assert!(!is_last || later.is_none(), "nobody behind the last one");
            self.waiting.insert(later.unwrap_or(self.waiting.len()), (peer, turn));
        }

        fn take(&mut self) -> Option<u8> {
            let (peer, _) = (!self.waiting.is_empty()).then(|| self.waiting.remove(0))?;
            self.turns.leave(ip(peer));
            Some(peer)
        }
    }

    #[test]
    fn who_asks_once_waits_for_one_of_each_other() {
        let mut queue = Queue::default();
        (0..900).for_each(|_| queue.ask(1));
        queue.ask(2);
        queue.ask(3);
        queue.ask(2);
        let order: Vec<u8> = (0..6).filter_map(|_| queue.take()).collect();
        assert_eq!(order, [1, 2, 3, 1, 2, 1]);
        // Also while the first one goes on.
        (0..100).for_each(|_| queue.ask(1));
        queue.ask(4);
        assert_eq!(queue.take(), Some(4));
    }

    #[test]
    fn requests_of_one_peer_keep_their_order_and_nothing_is_left_in_the_end() {
        let mut queue = Queue::default();
        for round in 0..50_u8 {
            (0..3).for_each(|_| queue.ask(round % 5));
            queue.take();
        }
        let mut last = BTreeMap::new();
        for (peer, turn) in queue.waiting.clone() {
            assert!(last.insert(peer, turn).is_none_or(|before| before < turn));
        }
        while queue.take().is_some() {}
        assert!(queue.turns.peers.is_empty() && queue.turns.latest == 0);
    }
}
