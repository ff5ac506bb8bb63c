//! Which slot of an address belongs to whom. Pure: told the time, touches no socket.

use std::time::{Duration, Instant};

/// How long a slot stays empty, if others are left: peers of its last owner send for a while yet.
const REST: Duration = Duration::from_secs(2);

/// A client of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClientId(pub(super) u64);

/// One slot.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    holder: Option<ClientId>,
    /// The user who had it last. A process may keep a copy of its socket, so a slot goes to
    /// nobody else as long as its socket exists.
    uid: Option<u32>,
    freed: Option<Instant>,
}

/// The slots of one address that have a socket, from 0 on. Slot 0 is the service's own.
#[derive(Debug)]
pub(super) struct Slots(Vec<Slot>);

/// How well a free slot suits; the least is best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fit {
    /// It has a socket that nobody used, or not for a while.
    Ready,
    /// Its socket would have to be made.
    New,
    /// It has just become free.
    Recent,
}

impl Slots {
    /// The most that there are, the service's own included.
    pub(super) const MAX: usize = 256;

    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// A socket for one more slot exists.
    pub(super) fn grow(&mut self) {
        self.0.push(Slot::default());
    }

    /// How well `slot` would do for a process of user `uid`, who may have `share` slots; `None` if
    /// it cannot have it.
    pub(super) fn fit(&self, slot: u8, uid: u32, share: usize, now: Instant) -> Option<Fit> {
        let known = self.0.get(usize::from(slot)).copied();
        let last = known.and_then(|known| known.uid);
        let more = last.is_none() && self.count_of(uid) >= share;
        if slot == 0 || more || last.is_some_and(|last| last != uid) {
            return None;
        }
        let Some(known) = known else { return Some(Fit::New) };
        if known.holder.is_some() {
            return None;
        }
        let rested = known.freed.is_none_or(|freed| now.duration_since(freed) >= REST);
        Some(if rested { Fit::Ready } else { Fit::Recent })
    }

    /// Who has `slot`.
    pub(super) fn holder(&self, slot: u8) -> Option<ClientId> {
        self.0.get(usize::from(slot)).and_then(|slot| slot.holder)
    }

    /// The user whose socket `slot` is, if it ever was anybody's.
    pub(super) fn uid(&self, slot: u8) -> Option<u32> {
        self.0.get(usize::from(slot)).and_then(|slot| slot.uid)
    }

    /// Gives `slot` to a user, and to a client of his if there is one.
    pub(super) fn take(&mut self, slot: u8, uid: u32, holder: Option<ClientId>) {
        if let Some(slot) = self.0.get_mut(usize::from(slot)) {
            *slot = Slot { holder, uid: Some(uid), freed: None };
        }
    }

    /// A client has no slot here any more.
    pub(super) fn free(&mut self, client: ClientId, now: Instant) {
        for slot in self.0.iter_mut().filter(|slot| slot.holder == Some(client)) {
            slot.holder = None;
            slot.freed = Some(now);
        }
    }

    /// Whether anybody has a slot.
    pub(super) fn is_used(&self) -> bool {
        self.0.iter().any(|slot| slot.holder.is_some())
    }

    /// Whether all sockets are or were of user `uid` or of nobody.
    pub(super) fn is_of(&self, uid: u32) -> bool {
        self.0.iter().all(|slot| slot.uid.is_none_or(|last| last == uid))
    }

    /// Slots that this user has or had, for they are nobody else's.
    pub(super) fn count_of(&self, uid: u32) -> usize {
        self.0.iter().filter(|slot| slot.uid == Some(uid)).count()
    }
}

/// The slot that suits best at all of these addresses.
pub(super) fn choose<'a>(
    groups: impl Iterator<Item = &'a Slots> + Clone,
    uid: u32,
    share: usize,
    now: Instant,
) -> Option<u8> {
    let fits = (1..=u8::MAX).filter_map(|slot| {
        let each = groups.clone().map(|slots| slots.fit(slot, uid, share, now));
        // An address that has no sockets yet has room for any slot.
        let worst = each
            .chain([Some(Fit::Ready)])
            .try_fold(Fit::Ready, |worst, fit| fit.map(|fit| worst.max(fit)))?;
        Some((worst, slot))
    });
    fits.min().map(|(_, slot)| slot)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ClientId = ClientId(1);
    const B: ClientId = ClientId(2);
    const ALL: usize = 255;

    fn slots(count: usize) -> Slots {
        let mut slots = Slots::new();
        (0..count).for_each(|_| slots.grow());
        slots
    }

    #[test]
    fn the_lowest_slot_that_is_free_everywhere_is_chosen() {
        let now = Instant::now();
        let (mut a, mut b) = (slots(4), slots(3));
        assert_eq!(choose([&a, &b].into_iter(), 7, ALL, now), Some(1));
        a.take(1, 7, Some(A));
        b.take(2, 7, Some(B));
        assert_eq!(choose([&a, &b].into_iter(), 7, ALL, now), Some(3));
        assert_eq!(choose([&b].into_iter(), 7, ALL, now), Some(1));
        assert_eq!(
            choose([].into_iter(), 7, ALL, now),
            Some(1),
            "an address of which nothing is known"
        );
    }

    #[test]
    fn a_slot_rests_before_it_is_used_again_unless_there_is_no_other() {
        let now = Instant::now();
        let mut slots = slots(3);
        slots.take(1, 7, Some(A));
        slots.take(2, 7, Some(B));
        slots.free(A, now);
        assert_eq!(choose([&slots].into_iter(), 7, ALL, now), Some(3));
        assert_eq!(choose([&slots].into_iter(), 7, ALL, now + REST), Some(1));
        (3..Slots::MAX).for_each(|_| slots.grow());
        (3..=u8::MAX).for_each(|slot| slots.take(slot, 7, Some(B)));
        assert_eq!(choose([&slots].into_iter(), 7, ALL, now), Some(1));
        slots.take(1, 7, Some(A));
        assert_eq!(choose([&slots].into_iter(), 7, ALL, now + REST), None);
    }

    #[test]
    fn a_slot_stays_with_its_user() {
        let now = Instant::now();
        let mut slots = slots(3);
        slots.take(1, 7, Some(A));
        slots.free(A, now);
        assert_eq!(slots.fit(1, 8, ALL, now + REST), None);
        assert_eq!(slots.fit(1, 7, ALL, now + REST), Some(Fit::Ready));
        assert_eq!(choose([&slots].into_iter(), 8, ALL, now + REST), Some(2));
        assert_eq!((slots.count_of(7), slots.count_of(8)), (1, 0));
        assert!(!slots.is_used() && slots.is_of(7) && !slots.is_of(8));
    }

    #[test]
    fn nobody_has_more_than_his_share() {
        let now = Instant::now();
        let mut slots = slots(3);
        slots.take(1, 7, Some(A));
        slots.take(2, 7, Some(A));
        assert_eq!(choose([&slots].into_iter(), 7, 2, now), None);
        assert_eq!(choose([&slots].into_iter(), 7, 3, now), Some(3));
        assert_eq!(choose([&slots].into_iter(), 8, 2, now), Some(3));
        slots.free(A, now);
        assert_eq!(choose([&slots].into_iter(), 7, 2, now), Some(1), "it is his already");
    }

    #[test]
    fn the_first_slot_is_nobodys() {
        let now = Instant::now();
        assert_eq!(slots(1).fit(0, 7, ALL, now), None);
    }
}
