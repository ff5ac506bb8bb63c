//! What C holds: a pointer to a public struct that is the head of a private record.
//!
//! A record carries a mark of its kind behind the public struct. A pointer is looked at only through
//! [`Ptr::get`], which refuses NULL-like, foreign and destroyed objects by that mark. Destroyed records
//! stay in quarantine for a while, so that a second destroy finds the mark gone rather than memory that
//! is something else by now.

use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::errno::{Errno, Result};

/// A kind of object: the private part, and what C sees in front of it.
pub(crate) trait Kind: Sized + Send + Sync + 'static {
    /// The struct that the record begins with.
    type Public: Copy + 'static;
    /// The type that C's pointers have.
    type Seen;
    /// Where C's pointer points, from the start of the record.
    const SEEN_AT: usize = 0;
    /// The mark of live records of this kind.
    const MARK: u64;
}

/// A record.
#[repr(C)]
pub(crate) struct Object<K: Kind> {
    public: UnsafeCell<K::Public>,
    mark: AtomicU64,
    private: ManuallyDrop<K>,
}

/// A pointer as C passes it: to a live object, by the rules of the verbs.
#[repr(transparent)]
pub(crate) struct Ptr<K: Kind>(NonNull<K::Seen>);

impl<K: Kind> Clone for Ptr<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Kind> Copy for Ptr<K> {}

impl<K: Kind> PartialEq for Ptr<K> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

// SAFETY: it is only an address; what it leads to is `Sync` (the private part by the trait, the public
// part by the rules of the verbs, which are C's).
unsafe impl<K: Kind> Send for Ptr<K> {}
// SAFETY: as above.
unsafe impl<K: Kind> Sync for Ptr<K> {}

impl<K: Kind> Ptr<K> {
    /// Makes an object.
    pub(crate) fn new(public: K::Public, private: K) -> Self {
        let record = Box::new(Object {
            public: UnsafeCell::new(public),
            mark: AtomicU64::new(K::MARK),
            private: ManuallyDrop::new(private),
        });
        let record = NonNull::from(Box::leak(record)).cast::<u8>();
        // SAFETY: `SEEN_AT` lies within the public part.
        Self(unsafe { record.byte_add(K::SEEN_AT) }.cast())
    }

    /// The object.
    ///
    /// # Errors
    /// `EINVAL`: it has been destroyed, is of another kind, or was never one.
    #[inline]
    pub(crate) fn get(&self) -> Result<&Object<K>> {
        if !self.record().is_aligned() || self.mark().load(Ordering::Acquire) != K::MARK {
            return Err(Errno::INVALID);
        }
        // SAFETY: as in `mark`, and it is live: nobody has taken the private part.
        Ok(unsafe { self.record().as_ref() })
    }

    /// The mark, also of what has been destroyed.
    fn mark(&self) -> &AtomicU64 {
        let record = self.record();
        // SAFETY: C vouches that the pointer came from `new`; records outlive their destruction by the
        // quarantine, and the mark is atomic.
        unsafe { &(*record.as_ptr()).mark }
    }

    fn record(self) -> NonNull<Object<K>> {
        // SAFETY: C's pointer is `SEEN_AT` bytes into the record.
        unsafe { self.0.byte_sub(K::SEEN_AT) }.cast()
    }

    /// The address as a number.
    pub(crate) fn address(self) -> u64 {
        self.0.as_ptr().addr() as u64
    }

    /// The pointer that C has packed into a number, if it is one.
    #[expect(clippy::cast_possible_truncation, reason = "addresses have 64 bits here")]
    pub(crate) fn from_address(address: u64) -> Option<Self> {
        NonNull::new(core::ptr::with_exposed_provenance_mut(address as usize)).map(Self)
    }

    /// Ends the object's life; `false` if somebody else has done so.
    pub(crate) fn retire(self) -> bool {
        let ended = self.retire_in_place();
        if ended {
            let record = self.record().cast();
            bury(Grave { record, layout: Layout::new::<Object<K>>() });
        }
        ended
    }

    /// The same, but the record stays for good: of an object that others may outlive, which look
    /// whether it is there.
    pub(crate) fn retire_in_place(self) -> bool {
        let record = self.record();
        if self.mark().compare_exchange(K::MARK, 0, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        // SAFETY: the exchange makes this the only taker of the private part.
        unsafe { ManuallyDrop::drop(&mut (*record.as_ptr()).private) };
        true
    }
}

impl<K: Kind> core::ops::Deref for Object<K> {
    type Target = K;

    #[inline]
    fn deref(&self) -> &K {
        &self.private
    }
}

impl<K: Kind> Object<K> {
    /// The public struct as it is now.
    #[inline]
    pub(crate) fn public(&self) -> K::Public {
        // SAFETY: the program does not write it while it calls verbs on the object.
        unsafe { *self.public.get() }
    }

    /// Looks at the public struct.
    #[inline]
    pub(crate) fn see<T>(&self, look: impl FnOnce(&K::Public) -> T) -> T {
        // SAFETY: as in `public`.
        look(unsafe { &*self.public.get() })
    }

    /// Changes the public struct.
    #[inline]
    pub(crate) fn change<T>(&self, act: impl FnOnce(&mut K::Public) -> T) -> T {
        // SAFETY: the program neither reads nor writes what a verb changes while the verb runs.
        act(unsafe { &mut *self.public.get() })
    }

    /// The pointer that C has.
    pub(crate) fn ptr(&self) -> Ptr<K> {
        // SAFETY: as in `new`.
        Ptr(unsafe { NonNull::from(self).cast::<u8>().byte_add(K::SEEN_AT) }.cast())
    }
}

/// The object that C names; NULL names none.
///
/// # Errors
/// `EINVAL`
#[inline]
pub(crate) fn live<K: Kind>(ptr: &Option<Ptr<K>>) -> Result<&Object<K>> {
    ptr.as_ref().ok_or(Errno::INVALID)?.get()
}

/// A destroyed record.
struct Grave {
    record: NonNull<u8>,
    layout: Layout,
}

// SAFETY: nobody but the quarantine knows it any more.
unsafe impl Send for Grave {}

/// Records in quarantine. (A program that destroys an object twice does so soon.)
const GRAVES_MAX: usize = 1024;
static GRAVES: Mutex<VecDeque<Grave>> = Mutex::new(VecDeque::new());

fn bury(grave: Grave) {
    let mut graves = GRAVES.lock().unwrap_or_else(PoisonError::into_inner);
    graves.push_back(grave);
    if graves.len() > GRAVES_MAX
        && let Some(oldest) = graves.pop_front()
    {
        // SAFETY: allocated by `Ptr::new` with this layout, and its private part is dropped.
        unsafe { std::alloc::dealloc(oldest.record.as_ptr(), oldest.layout) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    struct Thing(Arc<()>);

    impl Kind for Thing {
        type Public = [u64; 3];
        type Seen = u64;
        const SEEN_AT: usize = 8;
        const MARK: u64 = 7;
    }

    #[test]
    fn a_destroyed_object_is_refused_and_its_private_part_is_gone() {
        let shared = Arc::new(());
        let thing = Ptr::new([1, 2, 3], Thing(Arc::clone(&shared)));
        let seen = thing.get().unwrap();
        assert_eq!((seen.public(), Arc::strong_count(&seen.0)), ([1, 2, 3], 2));
        assert!(seen.ptr() == thing);
        assert!(thing.retire());
        assert_eq!(Arc::strong_count(&shared), 1);
        assert!(thing.get().is_err() && !thing.retire());
        assert!(live::<Thing>(&None).is_err());
    }
}
