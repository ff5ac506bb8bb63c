//! Program memory by atomics: works everywhere, but the memory must be there.

use core::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use softrnic_model::MemoryFault;

use super::mover::{Mover, sealed::Sealed};

/// Copies by relaxed atomic loads and stores: upwards, aligned 8-byte words in one piece.
///
/// It never answers [`MemoryFault`]: memory that was unmapped while it is known to the device
/// ends the process. Use [`super::Native`], which is better where something better is known.
#[derive(Clone, Copy, Debug)]
pub struct Atomics;

impl Sealed for Atomics {}

/// How many bytes lie before the first multiple of 8, at most `len`.
fn head_len(address: usize, len: usize) -> usize {
    (address.wrapping_neg() & 7).min(len)
}

/// # Safety
/// `at` is valid for atomic loads.
unsafe fn load_byte(at: *const u8) -> u8 {
    // SAFETY: as this function demands; the pointer is only made mutable to name the type.
    unsafe { AtomicU8::from_ptr(at.cast_mut()) }.load(Relaxed)
}

/// # Safety
/// `at` is valid for atomic stores.
unsafe fn store_byte(at: *mut u8, byte: u8) {
    // SAFETY: as this function demands.
    unsafe { AtomicU8::from_ptr(at) }.store(byte, Relaxed);
}

impl Mover for Atomics {
    /// # Safety
    /// The bytes at `from` must be there.
    unsafe fn read(from: *const u8, into: &mut [u8]) -> Result<(), MemoryFault> {
        let (head, rest) = into.split_at_mut(head_len(from.addr(), into.len()));
        for (i, byte) in head.iter_mut().enumerate() {
            // SAFETY: `i` is within the bytes that the caller vouches for.
            *byte = unsafe { load_byte(from.add(i)) };
        }
        // SAFETY: the head is within the bytes that the caller vouches for.
        let from = unsafe { from.add(head.len()) };
        let (words, tail) = rest.as_chunks_mut::<8>();
        for (i, word) in words.iter_mut().enumerate() {
            #[expect(clippy::cast_ptr_alignment, reason = "the head ends at a multiple of 8")]
            // SAFETY: within the bytes that the caller vouches for.
            let at = unsafe { from.cast::<u64>().cast_mut().add(i) };
            // SAFETY: the same, and aligned because the head ends at a multiple of 8.
            *word = unsafe { AtomicU64::from_ptr(at) }.load(Relaxed).to_ne_bytes();
        }
        // SAFETY: the words are within the bytes that the caller vouches for.
        let from = unsafe { from.add(words.len() * 8) };
        for (i, byte) in tail.iter_mut().enumerate() {
            // SAFETY: as for the head.
            *byte = unsafe { load_byte(from.add(i)) };
        }
        Ok(())
    }

    /// # Safety
    /// The bytes at `to` must be there and writable.
    unsafe fn write(to: *mut u8, bytes: &[u8]) -> Result<(), MemoryFault> {
        let (head, rest) = bytes.split_at(head_len(to.addr(), bytes.len()));
        for (i, &byte) in head.iter().enumerate() {
            // SAFETY: `i` is within the bytes that the caller vouches for.
            unsafe { store_byte(to.add(i), byte) };
        }
        // SAFETY: the head is within the bytes that the caller vouches for.
        let to = unsafe { to.add(head.len()) };
        let (words, tail) = rest.as_chunks::<8>();
        for (i, &word) in words.iter().enumerate() {
            #[expect(clippy::cast_ptr_alignment, reason = "the head ends at a multiple of 8")]
            // SAFETY: within the bytes that the caller vouches for.
            let at = unsafe { to.cast::<u64>().add(i) };
            // SAFETY: the same, and aligned because the head ends at a multiple of 8.
            unsafe { AtomicU64::from_ptr(at) }.store(u64::from_ne_bytes(word), Relaxed);
        }
        // SAFETY: the words are within the bytes that the caller vouches for.
        let to = unsafe { to.add(words.len() * 8) };
        for (i, &byte) in tail.iter().enumerate() {
            // SAFETY: as for the head.
            unsafe { store_byte(to.add(i), byte) };
        }
        Ok(())
    }

    /// # Safety
    /// The bytes at `at` must be there and writable.
    unsafe fn compare_swap(at: *mut u64, compare: u64, swap: u64) -> Result<u64, MemoryFault> {
        // SAFETY: there, writable and aligned, as this function demands.
        let word = unsafe { AtomicU64::from_ptr(at) };
        match word.compare_exchange(compare, swap, SeqCst, SeqCst) {
            Ok(found) | Err(found) => Ok(found),
        }
    }

    /// # Safety
    /// The bytes at `at` must be there and writable.
    unsafe fn fetch_add(at: *mut u64, add: u64) -> Result<u64, MemoryFault> {
        // SAFETY: there, writable and aligned, as this function demands.
        Ok(unsafe { AtomicU64::from_ptr(at) }.fetch_add(add, SeqCst))
    }
}
