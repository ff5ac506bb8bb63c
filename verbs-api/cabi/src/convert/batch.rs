//! A few things on the stack, without making the rest of their room ready.

use core::mem::MaybeUninit;

/// Up to `N` things.
pub(crate) struct Batch<T: Copy, const N: usize> {
    room: [MaybeUninit<T>; N],
    len: usize,
}

impl<T: Copy, const N: usize> Batch<T, N> {
    #[inline]
    pub(crate) const fn new() -> Self {
        Self { room: [const { MaybeUninit::uninit() }; N], len: 0 }
    }

    /// Adds one; `false` if there is no room.
    #[inline]
    pub(crate) fn push(&mut self, value: T) -> bool {
        let Some(place) = self.room.get_mut(self.len) else { return false };
        place.write(value);
        self.len += 1;
        true
    }

    #[inline]
    pub(crate) const fn is_full(&self) -> bool {
        self.len == N
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[T] {
        // SAFETY: the first `len` have been written.
        unsafe { core::slice::from_raw_parts(self.room.as_ptr().cast(), self.len) }
    }
}

/// Bytes of inline data, copied from where the program has them.
pub(crate) struct InlineRoom<'a> {
    free: &'a mut [MaybeUninit<u8>],
}

impl<'a> InlineRoom<'a> {
    #[inline]
    pub(crate) const fn new(room: &'a mut [MaybeUninit<u8>]) -> Self {
        Self { free: room }
    }

    /// Room for `len` bytes; `None` if there is not that much.
    #[inline]
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a mut [MaybeUninit<u8>]> {
        let (taken, rest) = core::mem::take(&mut self.free).split_at_mut_checked(len)?;
        self.free = rest;
        Some(taken)
    }

    #[inline]
    pub(crate) const fn left(&self) -> usize {
        self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_holds_what_was_pushed_and_no_more() {
        let mut batch = Batch::<u32, 2>::new();
        assert_eq!(batch.as_slice(), []);
        assert!(batch.push(1) && batch.push(2) && batch.is_full() && !batch.push(3));
        assert_eq!(batch.as_slice(), [1, 2]);
    }

    #[test]
    fn inline_room_ends() {
        let mut bytes = [const { MaybeUninit::uninit() }; 8];
        let mut room = InlineRoom::new(&mut bytes);
        assert_eq!(room.take(5).map(|taken| taken.len()), Some(5));
        assert_eq!((room.left(), room.take(3).is_some(), room.take(1).is_some()), (3, true, false));
    }
}
