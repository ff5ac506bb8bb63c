//! A rate limit: when a queue pair may send next.

use crate::Instant;

/// A queue pair that has been idle, or was late, may catch up by as much as it could have sent in
/// this time. Drivers do not wake to the nanosecond, and short of this the rate would suffer.
const CATCH_UP_NS: u64 = 1_000_000;

/// Packets that are further apart are few enough to be acknowledged one by one.
const APART_NS: u64 = 50_000;

/// Every packet takes the time that its bits take at the limit.
#[derive(Clone, Copy, Debug, Default)]
// [rc-requester/rate-limit]
pub(crate) struct Pace {
    free_at: Instant,
}

impl Pace {
    /// When the next packet may leave.
    pub(crate) const fn free_at(&self) -> Instant {
        self.free_at
    }

    /// Whether packets of so many bytes are so far apart under a limit in kbps (0 is none) that each
    /// must ask for its acknowledgement: in the middle of a message a later one would come too late.
    pub(crate) fn is_slow(bytes: u32, kbps: u32) -> bool {
        kbps != 0 && takes_ns(bytes as usize, kbps) > APART_NS
    }

    /// A packet of so many bytes leaves, under a limit in kbps.
    pub(crate) fn sent(&mut self, now: Instant, bytes: usize, kbps: u32) {
        let begins = self.free_at.max(Instant::from_ns(now.as_ns().saturating_sub(CATCH_UP_NS)));
        self.free_at = begins.plus_ns(takes_ns(bytes, kbps));
    }
}

fn takes_ns(bytes: usize, kbps: u32) -> u64 {
    // A kilobit per second is a bit per million nanoseconds.
    (bytes as u64).saturating_mul(8_000_000) / u64::from(kbps.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_take_their_time_and_lateness_is_made_up_for() {
        let mut pace = Pace::default();
        let start = Instant::from_ns(50_000_000);
        // 125 bytes at 1 Mbps take a millisecond each.
        for n in 1..=10 {
            pace.sent(start, 125, 1000);
            assert_eq!(pace.free_at(), start.plus_ns((n - 1) * 1_000_000));
        }
        // Late by half a millisecond: that is made up for.
        let late = pace.free_at().plus_ns(500_000);
        pace.sent(late, 125, 1000);
        assert_eq!(pace.free_at(), late.plus_ns(500_000));
        // Idle for long: by no more than the time to catch up.
        let idle = late.plus_ns(1_000_000_000);
        pace.sent(idle, 125, 1000);
        assert_eq!(pace.free_at(), idle);
        pace.sent(idle, 125, 1000);
        assert_eq!(pace.free_at(), idle.plus_ns(1_000_000));
    }

    #[test]
    fn the_slowest_rate_does_not_overflow() {
        let mut pace = Pace::default();
        pace.sent(Instant::ZERO, usize::MAX, 0);
        pace.sent(Instant::ZERO, 4096, 1);
        assert!(pace.free_at() > Instant::from_ns(1 << 40));
    }
}
