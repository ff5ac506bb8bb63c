//! Weather: storms and calms in turn, so that no request runs out of retries.

use softrnic_transport::sim::Fate;

use super::{Rng, Seen};

/// The time-out of queue pairs that stand in the weather: 4.096 µs · 2^10.
pub(crate) const TIMEOUT_CODE: u8 = 10;
const TIMEOUT_NS: u64 = 4_096 << TIMEOUT_CODE;

/// How many of a hundred frames of a storm meet which fate.
#[derive(Clone, Debug)]
pub(crate) struct Weather {
    drop: u64,
    duplicate: u64,
    delay: u64,
    corrupt: u64,
    mark: u64,
    delay_ns_max: u64,
    rng: Rng,
}

impl Weather {
    /// Half of the runs lack a hazard, because bugs hide behind noise too.
    pub(crate) fn drawn(rng: &mut Rng) -> Self {
        let mut draw = |max| if rng.chance(50) { 0 } else { rng.below(max) };
        let (drop, duplicate, delay) = (draw(50), draw(15), draw(20));
        let (corrupt, mark) = (draw(5), draw(10));
        let delay_ns_max = *rng.pick(&[3_000, 50_000, TIMEOUT_NS, 3 * TIMEOUT_NS]);
        Self { drop, duplicate, delay, corrupt, mark, delay_ns_max, rng: rng.fork() }
    }

    /// Whether frames may come twice or out of order.
    pub(crate) const fn confuses(&self) -> bool {
        self.duplicate > 0 || self.delay > 0
    }

    /// Whether frames may get lost.
    pub(crate) const fn loses(&self) -> bool {
        self.drop > 0 || self.corrupt > 0
    }

    /// A storm lasts one time-out, a calm two: in each calm, a request that was lost is asked for
    /// again and answered.
    pub(crate) fn rule(mut self) -> impl FnMut(&Seen) -> Fate + 'static {
        move |seen| {
            let stormy = (seen.at.as_ns() / TIMEOUT_NS).is_multiple_of(3);
            if stormy { self.fate() } else { Fate::Pass }
        }
    }

    fn fate(&mut self) -> Fate {
        let later = self.rng.below(self.delay_ns_max);
        let kinds = [
            (self.drop, Fate::Drop),
            (self.duplicate, Fate::Duplicate(later)),
            (self.delay, Fate::Delay(later)),
            (self.corrupt, Fate::Corrupt(self.rng.next() as u32)),
            (self.mark, Fate::Mark),
        ];
        let mut dice = self.rng.below(100);
        for (percent, fate) in kinds {
            match dice.checked_sub(percent) {
                Some(rest) => dice = rest,
                None => return fate,
            }
        }
        Fate::Pass
    }
}
