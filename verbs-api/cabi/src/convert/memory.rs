//! Program memory by address: arrays that C passes, and bytes to copy.

use core::mem::MaybeUninit;

use crate::errno::{Errno, Result};

/// The array of `len` elements at `first`, which the caller of the verb vouches for.
///
/// # Errors
/// `EINVAL`: NULL where there are elements.
pub(crate) fn array<'a, T>(first: *const T, len: usize) -> Result<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    if first.is_null() || isize::try_from(len.saturating_mul(size_of::<T>())).is_err() {
        return Err(Errno::INVALID);
    }
    // SAFETY: C vouches for the array for as long as the call lasts, and `'a` is used within it.
    Ok(unsafe { core::slice::from_raw_parts(first, len) })
}

/// The same, to be written.
///
/// # Errors
/// As [`array`].
pub(crate) fn array_mut<'a, T>(first: *mut T, len: usize) -> Result<&'a mut [T]> {
    array(first.cast_const(), len)?;
    if len == 0 {
        return Ok(&mut []);
    }
    // SAFETY: as in `array`, and C lends it for writing.
    Ok(unsafe { core::slice::from_raw_parts_mut(first, len) })
}

/// Writes element `index` of an array that C passes.
pub(crate) fn put<T>(first: *mut T, index: usize, value: T) {
    // SAFETY: C vouches for the array; callers stay within the length that C gave.
    unsafe { first.add(index).write(value) };
}

/// Writes to a place that C passes; to none if it is NULL.
pub(crate) fn put_if_wanted<T>(place: *mut T, value: T) {
    if !place.is_null() {
        put(place, 0, value);
    }
}

/// Writes the first `size` bytes of `value`, and zeroes behind them: C's idea of the struct may be older
/// or newer.
///
/// # Errors
/// `EINVAL`: NULL.
pub(crate) fn put_sized<T: Copy>(place: *mut T, size: usize, value: &T) -> Result<()> {
    if place.is_null() {
        return Err(Errno::INVALID);
    }
    let known = size.min(size_of::<T>());
    // SAFETY: C vouches for `size` bytes, and `known` are no more than `value` has.
    unsafe {
        let place = place.cast::<u8>();
        place.copy_from_nonoverlapping((&raw const *value).cast(), known);
        place.add(known).write_bytes(0, size - known);
    }
    Ok(())
}

/// Copies bytes of the program, which a peer may be writing at the same time.
pub(crate) fn copy_in(from: u64, into: &mut [MaybeUninit<u8>]) {
    if !into.is_empty() {
        // SAFETY: C vouches for the bytes; what a peer writes meanwhile may tear, as with any device.
        unsafe {
            core::ptr::copy_nonoverlapping(
                core::ptr::with_exposed_provenance::<u8>(address(from)),
                into.as_mut_ptr().cast(),
                into.len(),
            );
        }
    }
}

/// Bytes that have been copied in.
pub(crate) fn filled(bytes: &[MaybeUninit<u8>]) -> &[u8] {
    // SAFETY: callers have filled them by `copy_in`.
    unsafe { &*(core::ptr::from_ref(bytes) as *const [u8]) }
}

/// An address that the verbs carry in 64 bits.
#[expect(clippy::cast_possible_truncation, reason = "addresses have 64 bits here")]
pub(crate) const fn address(number: u64) -> usize {
    number as usize
}
