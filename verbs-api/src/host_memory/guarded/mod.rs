//! Program memory by assembly whose faults are caught (x86-64 Linux).

use core::arch::global_asm;

use softrnic_model::MemoryFault;

use super::mover::{Mover, sealed::Sealed};

mod handler;

global_asm!(include_str!("x86_64.s"), options(raw));

/// The value that an atomic found, and whether it faulted instead: rax and rdx.
#[repr(C)]
struct Found {
    value: u64,
    faulted: u64,
}

// The names carry the version because two incompatible versions of this crate may be linked into
// one program.
unsafe extern "C" {
    #[link_name = "softrnic_verbs_0_1_write"]
    fn write_narrow(to: *mut u8, from: *const u8, len: usize) -> u32;
    #[link_name = "softrnic_verbs_0_1_write_wide"]
    fn write_wide(to: *mut u8, from: *const u8, len: usize) -> u32;
    #[link_name = "softrnic_verbs_0_1_read"]
    fn read_narrow(to: *mut u8, from: *const u8, len: usize) -> u32;
    #[link_name = "softrnic_verbs_0_1_read_wide"]
    fn read_wide(to: *mut u8, from: *const u8, len: usize) -> u32;
    #[link_name = "softrnic_verbs_0_1_compare_swap"]
    fn compare_swap(at: *mut u64, compare: u64, swap: u64) -> Found;
    #[link_name = "softrnic_verbs_0_1_fetch_add"]
    fn fetch_add(at: *mut u64, add: u64) -> Found;

    #[link_name = "softrnic_verbs_0_1_narrow"]
    static NARROW: u8;
    #[link_name = "softrnic_verbs_0_1_narrow_end"]
    static NARROW_END: u8;
    #[link_name = "softrnic_verbs_0_1_narrow_fault"]
    static NARROW_FAULT: u8;
    #[link_name = "softrnic_verbs_0_1_wide"]
    static WIDE: u8;
    #[link_name = "softrnic_verbs_0_1_wide_end"]
    static WIDE_END: u8;
    #[link_name = "softrnic_verbs_0_1_wide_fault"]
    static WIDE_FAULT: u8;
}

/// Where to go on when the instruction at `address` faulted, if it is one of the assembly's.
fn continuation(address: u64) -> Option<u64> {
    let places = [
        (&raw const NARROW, &raw const NARROW_END, &raw const NARROW_FAULT),
        (&raw const WIDE, &raw const WIDE_END, &raw const WIDE_FAULT),
    ];
    let hit = places
        .into_iter()
        .find(|(start, end, _)| (start.addr() as u64..end.addr() as u64).contains(&address));
    hit.map(|(_, _, exit)| exit.addr() as u64)
}

/// From here on 32-byte registers pay, where the processor has them; never below 160.
const WIDE_MIN: usize = 256;

fn wide(len: usize) -> bool {
    len >= WIDE_MIN && is_x86_feature_detected!("avx")
}

const fn done(faulted: u32) -> Result<(), MemoryFault> {
    if faulted == 0 { Ok(()) } else { Err(MemoryFault) }
}

const fn value(found: &Found) -> Result<u64, MemoryFault> {
    if found.faulted == 0 { Ok(found.value) } else { Err(MemoryFault) }
}

/// Copies at about the speed of `memcpy`; memory that is not there gives [`MemoryFault`].
///
/// Copies go upwards and an aligned 8-byte word is read or written in one piece, so a program may
/// wait for a word or for the last byte of a message by looking at memory.
///
/// The signals SIGSEGV and SIGBUS that the assembly causes are taken by a handler that is installed
/// first of all; every other one goes to the handler that was there before (see `guarded/handler.rs`).
#[derive(Clone, Copy, Debug)]
pub struct Guarded;

impl Sealed for Guarded {}

impl Mover for Guarded {
    unsafe fn read(from: *const u8, into: &mut [u8]) -> Result<(), MemoryFault> {
        let copy = if wide(into.len()) { read_wide } else { read_narrow };
        // SAFETY: `into` is valid for its length; a fault at `from` is caught and reported.
        done(unsafe { copy(into.as_mut_ptr(), from, into.len()) })
    }

    unsafe fn write(to: *mut u8, bytes: &[u8]) -> Result<(), MemoryFault> {
        let copy = if wide(bytes.len()) { write_wide } else { write_narrow };
        // SAFETY: `bytes` is valid for its length; a fault at `to` is caught and reported, and the
        // caller vouches that nobody minds the write.
        done(unsafe { copy(to, bytes.as_ptr(), bytes.len()) })
    }

    unsafe fn compare_swap(at: *mut u64, compare: u64, swap: u64) -> Result<u64, MemoryFault> {
        // SAFETY: a fault is caught and reported, and the caller vouches for the rest.
        value(&unsafe { compare_swap(at, compare, swap) })
    }

    unsafe fn fetch_add(at: *mut u64, add: u64) -> Result<u64, MemoryFault> {
        // SAFETY: as above.
        value(&unsafe { fetch_add(at, add) })
    }

    fn install() {
        handler::install();
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn assembly_names_carry_the_version() {
        let prefix = concat!(
            "softrnic_verbs_",
            env!("CARGO_PKG_VERSION_MAJOR"),
            "_",
            env!("CARGO_PKG_VERSION_MINOR"),
            "_"
        );
        let assembly = include_str!("x86_64.s");
        assert!(assembly.contains(&format!("{prefix}\\name:")));
        let uses = include_str!("mod.rs").matches("#[link_name = \"softrnic").count();
        let good = include_str!("mod.rs").matches(&format!("#[link_name = \"{prefix}")).count();
        assert_eq!((uses, good), (12, 12));
    }
}
