//! The table that keys point into.

use alloc::vec::Vec;

use crate::verbs::Key;

use super::region::Region;
use super::window::Window;
use super::{AccessFault, KeyPolicy};

/// What is behind an index.
#[derive(Clone, Copy, Debug)]
pub(super) enum Object {
    /// Nothing; `next` is the index that was freed after this one, or 0.
    Free { next: u32 },
    /// A memory region.
    Region(Region),
    /// A memory window.
    Window(Window),
}

/// One entry: a cache line that is copied, never pointed into.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Record {
    /// The present key; 0 while free, which no key of an object is.
    key: Key,
    object: Object,
}

const _: () = assert!(size_of::<Record>() == 64, "one look-up touches one cache line");
const _: () = assert!(size_of::<Turn>() == 40, "the rest of what `KeyPolicy::Random` says");

impl Record {
    const FREE: Self = Self { key: Key(0), object: Object::Free { next: 0 } };
}

/// Regions and windows by index. Free indices queue up: those never used first, then the one that
/// has been free for longest.
#[derive(Clone, Debug)]
// [attacks/key-space-shared]
pub(super) struct KeyTable {
    policy: KeyPolicy,
    /// The largest index.
    capacity: u32,
    /// By index, as far as used; the first stays free.
    records: Vec<Record>,
    /// By index.
    turns: Vec<Turn>,
    /// How many indices have been used.
    used_once: u32,
    oldest_free: u32,
    newest_free: u32,
}

impl KeyTable {
    /// The most indices: 24 bits without 0.
    pub(super) const CAPACITY_MAX: u32 = (1 << 24) - 1;

    pub(super) fn new(capacity: u32, policy: KeyPolicy) -> Self {
        Self {
            policy,
            capacity: capacity.min(Self::CAPACITY_MAX),
            records: Vec::new(),
            turns: Vec::new(),
            used_once: 0,
            oldest_free: 0,
            newest_free: 0,
        }
    }

    /// The object that `key` is the present key of.
    #[inline]
    // [protection/unknown-key] [protection/stale-key]
    pub(super) fn find(&self, key: Key) -> Result<&Object, AccessFault> {
        let record = self.records.get(key.index() as usize).ok_or(AccessFault::UnknownKey)?;
        match record.object {
            Object::Free { .. } => Err(AccessFault::UnknownKey),
            Object::Region(_) | Object::Window(_) if record.key == key => Ok(&record.object),
            Object::Region(_) | Object::Window(_) => Err(AccessFault::StaleKey),
        }
    }

    /// Like [`KeyTable::find`], to change it.
    pub(super) fn find_mut(&mut self, key: Key) -> Result<&mut Object, AccessFault> {
        self.find(key)?;
        self.records
            .get_mut(key.index() as usize)
            .map(|record| &mut record.object)
            .ok_or(AccessFault::UnknownKey)
    }

    /// The present key of the object with the index of `key`.
    pub(super) fn present(&self, key: Key) -> Option<Key> {
        let record = self.records.get(key.index() as usize)?;
        (!matches!(record.object, Object::Free { .. })).then_some(record.key)
    }

    /// All objects with their keys, by index.
    pub(super) fn objects(&self) -> impl Iterator<Item = (Key, &Object)> {
        self.records
            .iter()
            .filter(|record| !matches!(record.object, Object::Free { .. }))
            .map(|record| (record.key, &record.object))
    }

    /// Puts `object` under a new key; `None` if the table is full.
    pub(super) fn insert(&mut self, object: Object) -> Option<Key> {
        let index = self.take_index()?;
        let turn = self.turns.get_mut(index as usize)?;
        let variant = turn.next(|position| self.policy.variant(index, position));
        let record = self.records.get_mut(index as usize)?;
        *record = Record { key: Key::from_parts(index, variant), object };
        Some(record.key)
    }

    /// Takes the object of `key` out.
    pub(super) fn remove(&mut self, key: Key) -> Result<Object, AccessFault> {
        let object = *self.find(key)?;
        let index = key.index();
        if let Some(record) = self.records.get_mut(index as usize) {
            *record = Record::FREE;
        }
        match self.records.get_mut(self.newest_free as usize) {
            Some(newest) if self.newest_free != 0 => newest.object = Object::Free { next: index },
            _ => self.oldest_free = index,
        }
        self.newest_free = index;
        Ok(object)
    }

    /// Gives the object of `key` another variant: the one asked for, or the next of the policy.
    pub(super) fn rekey(&mut self, key: Key, variant: Option<u8>) -> Result<Key, AccessFault> {
        self.find(key)?;
        let index = key.index();
        let (Some(record), Some(turn)) =
            (self.records.get_mut(index as usize), self.turns.get_mut(index as usize))
        else {
            return Err(AccessFault::UnknownKey);
        };
        let variant = match variant {
            Some(variant) => turn.take(variant),
            None => turn.next(|position| self.policy.variant(index, position)),
        };
        record.key = Key::from_parts(index, variant);
        Ok(record.key)
    }

    fn take_index(&mut self) -> Option<u32> {
        if self.used_once < self.capacity {
            let index = self.policy.index(self.used_once, self.capacity);
            self.used_once += 1;
            let length = self.records.len().max(index as usize + 1);
            self.records.resize(length, Record::FREE);
            self.turns.resize(length, Turn::FIRST);
            return Some(index);
        }
        let index = self.oldest_free;
        let Object::Free { next } = self.records.get(index as usize)?.object else { return None };
        if index == 0 {
            return None;
        }
        self.oldest_free = next;
        if next == 0 {
            self.newest_free = 0;
        }
        Some(index)
    }
}

/// Which variants of an index have been in use since they last turned over. A program that binds
/// windows of type 2 chooses variants itself, so a mere counter could come upon one that a peer
/// still holds.
#[derive(Clone, Copy, Debug)]
// [protection/key-not-reused-early] [attacks/key-reuse-after-dereg]
struct Turn {
    used: [u64; 4],
    /// Where in the policy's order the search goes on.
    position: u8,
    /// The latest variant.
    latest: u8,
}

impl Turn {
    const FIRST: Self = Self { used: [0; 4], position: 0, latest: 0 };

    /// The next variant in `order` that this turn has not seen.
    fn next(&mut self, order: impl Fn(u8) -> u8) -> u8 {
        if self.used == [u64::MAX; 4] {
            // Turned over. The latest key is the one that peers most likely still hold.
            self.used = [0; 4];
            self.take(self.latest);
        }
        let start = self.position;
        let found = (0..=u8::MAX)
            .map(|step| start.wrapping_add(step))
            .find(|&position| !self.has(order(position)))
            .unwrap_or(start);
        self.position = found.wrapping_add(1);
        self.take(order(found))
    }

    const fn take(&mut self, variant: u8) -> u8 {
        self.used[(variant >> 6) as usize] |= 1 << (variant & 63);
        self.latest = variant;
        variant
    }

    const fn has(&self, variant: u8) -> bool {
        self.used[(variant >> 6) as usize] >> (variant & 63) & 1 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::{PdId, WindowType};

    const OBJECT: Object =
        Object::Window(Window { pd: PdId(0), window_type: WindowType::Type1, binding: None });

    #[test]
    fn a_full_table_gives_no_index_and_never_0() {
        let mut table = KeyTable::new(2, KeyPolicy::Sequential);
        assert_eq!(table.insert(OBJECT), Some(Key(0x100)));
        assert_eq!(table.insert(OBJECT), Some(Key(0x200)));
        assert_eq!(table.insert(OBJECT), None);
        assert!(table.remove(Key(0x100)).is_ok());
        assert!(table.remove(Key(0x100)).is_err());
        assert_eq!(table.insert(OBJECT), Some(Key(0x101)));
        assert_eq!(table.insert(OBJECT), None);
        assert_eq!(table.objects().count(), 2);
    }

    #[test]
    fn when_all_variants_were_used_the_latest_is_not_the_next() {
        let mut turn = Turn::FIRST;
        for variant in 1..=u8::MAX {
            turn.take(variant);
        }
        assert_eq!(turn.next(|position| position), 0);
        let mut turn = Turn::FIRST;
        for variant in (0..=u8::MAX).rev() {
            turn.take(variant);
        }
        // Position 0 is where the search begins, and variant 0 is the latest.
        assert_eq!(turn.next(|position| position), 1);
    }
}
