//! Program memory by asking the kernel to copy (any Linux).

use std::io;

use softrnic_model::MemoryFault;

use super::atomics::Atomics;
use super::mover::{Mover, sealed::Sealed};

/// Copies with `process_vm_readv(2)` and `process_vm_writev(2)` on the own process: about two
/// microseconds a copy, and memory that is not there gives [`MemoryFault`].
///
/// For processors that [`super::Native`] has no assembly for. Atomics first let the kernel fault the
/// page in for writing (`MADV_POPULATE_WRITE`, Linux 5.14), then touch it; a page that is unmapped in
/// between ends the process. Where the kernel refuses these calls (an old one, or a sandbox),
/// it does as [`Atomics`].
#[derive(Clone, Copy, Debug)]
pub struct ProcessVm;

impl Sealed for ProcessVm {}

/// What the kernel said to a copy.
enum Copied {
    Bytes(usize),
    Fault,
    /// The kernel does not offer the call.
    Refused,
}

/// Runs `copy` (done so far → answer of the kernel) until `len` bytes are copied.
fn copy_all(
    len: usize,
    mut copy: impl FnMut(usize) -> isize,
    without_kernel: impl FnOnce() -> Result<(), MemoryFault>,
) -> Result<(), MemoryFault> {
    let mut done = 0;
    while done < len {
        match judge(copy(done)) {
            Copied::Bytes(0) | Copied::Fault => return Err(MemoryFault),
            Copied::Bytes(more) => done += more,
            Copied::Refused => return without_kernel(),
        }
    }
    Ok(())
}

fn judge(answer: isize) -> Copied {
    match usize::try_from(answer) {
        Ok(bytes) => Copied::Bytes(bytes),
        Err(_) => match io::Error::last_os_error().raw_os_error() {
            Some(libc::ENOSYS | libc::EPERM) => Copied::Refused,
            _ => Copied::Fault,
        },
    }
}

impl Mover for ProcessVm {
    unsafe fn read(from: *const u8, into: &mut [u8]) -> Result<(), MemoryFault> {
        let (to, len) = (into.as_mut_ptr(), into.len());
        copy_all(
            len,
            |done| {
                let local = iovec(to.wrapping_add(done), len - done);
                let remote = iovec(from.cast_mut().wrapping_add(done), len - done);
                // SAFETY: `local` lies in `into`; the kernel checks `remote`.
                unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) }
            },
            // SAFETY: nothing better is left; the caller vouches as far as that goes.
            || unsafe { Atomics::read(from, core::slice::from_raw_parts_mut(to, len)) },
        )
    }

    unsafe fn write(to: *mut u8, bytes: &[u8]) -> Result<(), MemoryFault> {
        copy_all(
            bytes.len(),
            |done| {
                let rest = &bytes[done..];
                let local = iovec(rest.as_ptr().cast_mut(), rest.len());
                let remote = iovec(to.wrapping_add(done), rest.len());
                // SAFETY: `local` lies in `bytes` and is only read; the kernel checks `remote`, and
                // the caller vouches that nobody minds the write.
                unsafe { libc::process_vm_writev(libc::getpid(), &local, 1, &remote, 1, 0) }
            },
            // SAFETY: nothing better is left; the caller vouches as far as that goes.
            || unsafe { Atomics::write(to, bytes) },
        )
    }

    unsafe fn compare_swap(at: *mut u64, compare: u64, swap: u64) -> Result<u64, MemoryFault> {
        populate(at)?;
        // SAFETY: the page was there a moment ago; the caller vouches for the rest.
        unsafe { Atomics::compare_swap(at, compare, swap) }
    }

    unsafe fn fetch_add(at: *mut u64, add: u64) -> Result<u64, MemoryFault> {
        populate(at)?;
        // SAFETY: the page was there a moment ago; the caller vouches for the rest.
        unsafe { Atomics::fetch_add(at, add) }
    }
}

fn iovec(base: *mut u8, len: usize) -> libc::iovec {
    libc::iovec { iov_base: base.cast(), iov_len: len }
}

/// Has the kernel fault in the page of `at` for writing, without a change of its bytes.
fn populate(at: *mut u64) -> Result<(), MemoryFault> {
    let page = page_size();
    let start = at.wrapping_byte_sub(at.addr() % page);
    // SAFETY: this advice changes no bytes; the kernel checks the address.
    if unsafe { libc::madvise(start.cast(), page, libc::MADV_POPULATE_WRITE) } == 0 {
        return Ok(());
    }
    // SAFETY: an empty range; only asks whether the kernel knows the advice (`madvise(2)`).
    if unsafe { libc::madvise(core::ptr::null_mut(), 0, libc::MADV_POPULATE_WRITE) } == 0 {
        return Err(MemoryFault);
    }
    // An older kernel: see at least whether a byte can be read.
    // SAFETY: the caller vouches for the memory.
    unsafe { ProcessVm::read(at.cast(), &mut [0]) }
}

fn page_size() -> usize {
    // SAFETY: no preconditions; the C library answers from memory.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}
