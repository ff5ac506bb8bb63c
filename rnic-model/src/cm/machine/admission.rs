//! What others may make a machine remember.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use super::PeerKey;
use crate::Instant;
use crate::cm::mad::Mad;
use crate::cm::message::cell::CommId;

/// Whether one more of a peer that has `own` of `total` is admitted, where there may be `limit`: no
/// more than seven times as many as are left for all others. One peer gets seven eighths at most,
/// a second one seven eighths of what it has left, and so on.
pub(super) fn admits(own: u32, total: u32, limit: u32) -> bool {
    let left = limit.saturating_sub(total);
    left > 0 && own < left.saturating_mul(7)
}

/// Answers kept.
const KEPT: usize = 256;

/// The latest answers that ended an exchange, so that a question that is repeated, because the answer
/// was lost or is on its way, gets the same one and no new exchange begins.
#[derive(Debug, Default)]
pub(super) struct Answered {
    answers: VecDeque<(PeerKey<CommId>, Instant, Box<Mad>)>,
}

impl Answered {
    pub(super) fn keep(&mut self, key: PeerKey<CommId>, until: Instant, answer: Box<Mad>) {
        if self.answers.len() == KEPT {
            self.answers.pop_front();
        }
        self.answers.push_back((key, until, answer));
    }

    pub(super) fn find(&mut self, key: &PeerKey<CommId>, now: Instant) -> Option<Box<Mad>> {
        while self.answers.front().is_some_and(|(_, until, _)| *until <= now) {
            self.answers.pop_front();
        }
        let known = self.answers.iter().rev().find(|(known, ..)| known == key);
        known.map(|(.., answer)| answer.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_peer_gets_all_and_a_single_one_nearly_all() {
        for limit in [1, 2, 8, 100, 1024] {
            let mut total = 0;
            let mut shares = alloc::vec::Vec::new();
            for _ in 0..3 {
                let mut own = 0;
                while admits(own, total, limit) {
                    own += 1;
                    total += 1;
                }
                shares.push(own);
            }
            assert!(total <= limit);
            assert!(shares[0] >= limit.div_ceil(8) * 7 - 7, "{limit}: {shares:?}");
            assert!(shares[0] >= 1);
            if limit >= 16 {
                assert!(shares[1] > 0 && shares[2] > 0, "{limit}: {shares:?}");
            }
        }
        assert!(!admits(0, 0, 0));
    }
}
