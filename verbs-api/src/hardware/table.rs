//! Objects by number.
//!
//! Verbs look at an object under the lock of its table, so that nobody destroys it meanwhile. Whoever
//! destroys takes it out first, and puts it back if the device refuses.

use core::fmt;
use core::ptr::NonNull;
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use softrnic_model::verbs::VerbError;

use crate::provider::Verb;

/// An object of libibverbs, which may be used from any thread (`ibv_create_qp(3)` and the others).
pub(super) struct Handle<T>(NonNull<T>);

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// SAFETY: the library locks what its objects share, and says so.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Handle<T> {}

impl<T> Handle<T> {
    pub(super) const fn new(ptr: NonNull<T>) -> Self {
        Self(ptr)
    }

    pub(super) const fn ptr(self) -> NonNull<T> {
        self.0
    }

    pub(super) const fn as_ptr(self) -> *mut T {
        self.0.as_ptr()
    }
}

/// Objects of a kind by numbers: by those of the device, or by ones that this table gives.
#[derive(Debug)]
pub(super) struct Table<T> {
    rows: RwLock<Rows<T>>,
    /// What `VerbError` says of a number that names none.
    unknown: &'static str,
}

#[derive(Debug)]
struct Rows<T> {
    objects: BTreeMap<u32, T>,
    next: u32,
}

impl<T> Table<T> {
    pub(super) const fn new(unknown: &'static str) -> Self {
        Self { rows: RwLock::new(Rows { objects: BTreeMap::new(), next: 1 }), unknown }
    }

    fn read(&self) -> RwLockReadGuard<'_, Rows<T>> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Rows<T>> {
        self.rows.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an object under a number that names no other.
    pub(super) fn add(&self, object: T) -> u32 {
        let number = self.reserve();
        self.put(number, object);
        number
    }

    /// A number that will name an object: see [`Table::put`].
    pub(super) fn reserve(&self) -> u32 {
        let mut rows = self.write();
        while rows.objects.contains_key(&rows.next) {
            rows.next = rows.next.wrapping_add(1);
        }
        let number = rows.next;
        // A number that was given out does not soon come again.
        rows.next = number.wrapping_add(1);
        number
    }

    /// Keeps an object under its number.
    pub(super) fn put(&self, number: u32, object: T) {
        self.write().objects.insert(number, object);
    }

    /// Takes an object out; nobody looks at it any more.
    pub(super) fn take(&self, number: u32) -> Verb<T> {
        self.write().objects.remove(&number).ok_or(VerbError::NoSuchObject(self.unknown))
    }

    /// Looks at one.
    #[inline]
    pub(super) fn with<R>(&self, number: u32, look: impl FnOnce(&T) -> Verb<R>) -> Verb<R> {
        self.look().with(number, look)
    }

    /// Changes one.
    pub(super) fn change<R>(&self, number: u32, act: impl FnOnce(&mut T) -> R) -> Verb<R> {
        let mut rows = self.write();
        let object = rows.objects.get_mut(&number).ok_or(VerbError::NoSuchObject(self.unknown))?;
        Ok(act(object))
    }

    /// Looks at several.
    pub(super) fn look(&self) -> Look<'_, T> {
        Look { rows: self.read(), unknown: self.unknown }
    }

    /// Takes out what `destroy` then destroys; puts it back if that is refused.
    pub(super) fn destroy(&self, number: u32, destroy: impl FnOnce(&T) -> Verb<()>) -> Verb<()> {
        let object = self.take(number)?;
        let destroyed = destroy(&object);
        if destroyed.is_err() {
            self.put(number, object);
        }
        destroyed
    }

    /// Takes everything out.
    pub(super) fn drain(&self) -> Vec<T> {
        core::mem::take(&mut self.write().objects).into_values().collect()
    }
}

/// A table that does not lose anything as long as this is there.
pub(super) struct Look<'a, T> {
    rows: RwLockReadGuard<'a, Rows<T>>,
    unknown: &'static str,
}

impl<T> Look<'_, T> {
    #[inline]
    pub(super) fn get(&self, number: u32) -> Verb<&T> {
        self.rows.objects.get(&number).ok_or(VerbError::NoSuchObject(self.unknown))
    }

    #[inline]
    fn with<R>(&self, number: u32, look: impl FnOnce(&T) -> Verb<R>) -> Verb<R> {
        look(self.get(number)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_device_does_not_destroy_stays() {
        let table = Table::new("thing: none");
        let number = table.add(7);
        let busy = VerbError::Busy("it is used");
        assert_eq!(table.destroy(number, |_| Err(busy)), Err(busy));
        assert_eq!(table.with(number, |thing| Ok(*thing)), Ok(7));
        assert_eq!(table.destroy(number, |_| Ok(())), Ok(()));
        assert_eq!(table.take(number), Err(VerbError::NoSuchObject("thing: none")));
        assert_ne!(table.add(8), number);
        assert_eq!(table.drain(), [8]);
    }
}
