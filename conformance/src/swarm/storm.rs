//! Storms and calms.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use softrnic_verbs::simulated::{Fabric, Fate, FaultRules, Seen};

use super::chance::Chance;
use super::plan::{Plan, Weather};

/// The local ACK time-out of all queue pairs: 4.096 µs · 2^10.
pub(super) const TIMEOUT_CODE: u8 = 10;
const TIMEOUT_NS: u64 = 4_096 << TIMEOUT_CODE;
/// The same.
pub(super) const TIMEOUT: Duration = Duration::from_nanos(TIMEOUT_NS);

/// Lets the weather of a plan befall all cables. It ends when `calm` is set.
pub(super) fn blow(fabric: &Fabric, plan: &Plan, calm: &Arc<AtomicBool>) {
    if plan.weather == Weather::default() {
        return;
    }
    for link in fabric.links() {
        let lane = |direction: u64| {
            let seed = plan.seed ^ u64::from(link.get()) << 17 ^ direction << 60;
            let mut chance = Chance::new(seed);
            let (weather, calm) = (plan.weather, Arc::clone(calm));
            let rule = move |seen: &Seen<'_>| {
                let stormy = (seen.now.as_ns() / TIMEOUT_NS).is_multiple_of(3);
                if stormy && !calm.load(Ordering::Relaxed) {
                    fate(&weather, &mut chance)
                } else {
                    Fate::Pass
                }
            };
            Some(FaultRules::new().with(rule))
        };
        fabric.set_rules(link, [lane(0), lane(1)]);
    }
}

fn fate(weather: &Weather, chance: &mut Chance) -> Fate {
    let Weather { drop, duplicate, delay, corrupt, mark, delay_ns } = *weather;
    let kinds = [
        (drop, Fate::Drop),
        (duplicate, Fate::Duplicate),
        (delay, Fate::Delay(u64::from(chance.below(delay_ns)))),
        // A bit that the ICRC protects: the BTH's reserved byte is not among the first 32.
        (corrupt, Fate::Corrupt(chance.below(32))),
        (mark, Fate::MarkCe),
    ];
    let mut dice = chance.below(100);
    for (percent, fate) in kinds {
        match dice.checked_sub(percent) {
            Some(rest) => dice = rest,
            None => return fate,
        }
    }
    Fate::Pass
}
