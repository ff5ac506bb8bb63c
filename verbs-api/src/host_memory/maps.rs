//! Whether a range of addresses is memory, asked of the kernel's list of mappings (Linux).
//!
//! The list tells rights exactly, and asking it touches no page: a cold gigabyte is judged as fast
//! as a byte. (Touching each page would fault all of it in, `mincore(2)` says nothing about rights,
//! and an access that changes nothing still makes private copies of shared pages.) A page of a
//! mapped file beyond the file's end passes; it faults when it is used, and that is caught there.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::AsRawFd as _;

/// A mapping: its addresses and what may be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapping {
    start: usize,
    end: usize,
    readable: bool,
    writable: bool,
}

/// Whether every byte of the range may be read, and written if `write`.
///
/// # Errors
/// The list cannot be had (no `/proc`).
pub(super) fn accessible(start: usize, len: usize, write: bool) -> io::Result<bool> {
    let Some(end) = start.checked_add(len) else { return Ok(false) };
    let list = File::open("/proc/self/maps")?;
    match covers(start, end, write, |address| query(&list, address)) {
        Err(_) => scan(BufReader::new(list), start, end, write),
        answer => answer,
    }
}

/// Asks for the pages of a range (Linux 5.14 and later; older ones refuse, which is no harm).
pub(super) fn populate(start: usize, len: usize, write: bool) {
    const PAGE: usize = 4096;
    let advice = if write { libc::MADV_POPULATE_WRITE } else { libc::MADV_POPULATE_READ };
    let first = start & !(PAGE - 1);
    let len = len.saturating_add(start - first);
    let page: *mut libc::c_void = core::ptr::with_exposed_provenance_mut(first);
    // SAFETY: this advice changes no byte and no right; a range that is not mapped is refused.
    let _ = unsafe { libc::madvise(page, len, advice) };
}

/// Walks from mapping to mapping.
fn covers(
    mut at: usize,
    end: usize,
    write: bool,
    mut mapping_of: impl FnMut(usize) -> io::Result<Option<Mapping>>,
) -> io::Result<bool> {
    while at < end {
        match mapping_of(at)? {
            Some(m) if m.start <= at && at < m.end && m.readable && (m.writable || !write) => {
                at = m.end;
            }
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// `struct procmap_query` of `linux/fs.h`.
#[repr(C)]
#[derive(Default)]
struct ProcmapQuery {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

const QUERY_LEN: usize = size_of::<ProcmapQuery>();
/// `PROCMAP_QUERY`: `_IOWR('f', 17, struct procmap_query)`.
const PROCMAP_QUERY: libc::Ioctl = libc::_IOWR::<ProcmapQuery>(b'f' as u32, 17);
const VMA_READABLE: u64 = 1;
const VMA_WRITABLE: u64 = 2;

/// Asks for one mapping (Linux 6.11 and later; older ones refuse).
fn query(list: &File, address: usize) -> io::Result<Option<Mapping>> {
    let mut query = ProcmapQuery {
        size: QUERY_LEN as u64,
        query_addr: address as u64,
        ..ProcmapQuery::default()
    };
    // SAFETY: the kernel reads and fills a structure of the size it is told.
    if unsafe { libc::ioctl(list.as_raw_fd(), PROCMAP_QUERY, &raw mut query) } == 0 {
        return Ok(Some(Mapping {
            start: to_address(query.vma_start),
            end: to_address(query.vma_end),
            readable: query.vma_flags & VMA_READABLE != 0,
            writable: query.vma_flags & VMA_WRITABLE != 0,
        }));
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        error => Err(error),
    }
}

fn to_address(raw: u64) -> usize {
    usize::try_from(raw).unwrap_or(usize::MAX)
}

/// Reads the list as text, until it is past the range.
fn scan(list: impl BufRead, start: usize, end: usize, write: bool) -> io::Result<bool> {
    let mut lines = list.lines();
    let next = |address: usize| {
        for line in lines.by_ref() {
            match parse(&line?) {
                Some(mapping) if mapping.end <= address => {}
                found => return Ok(found),
            }
        }
        Ok(None)
    };
    covers(start, end, write, next)
}

/// One line: `start-end rwxp offset device inode name`.
fn parse(line: &str) -> Option<Mapping> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let mut rights = rest.bytes();
    Some(Mapping {
        start: usize::from_str_radix(start, 16).ok()?,
        end: usize::from_str_radix(end, 16).ok()?,
        readable: rights.next()? == b'r',
        writable: rights.next()? == b'w',
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
1000-2000 r--p 00000000 08:01 7 /a file
2000-4000 rw-p 00000000 00:00 0
5000-6000 ---p 00000000 00:00 0
6000-7000 rw-s 00000000 00:01 9 /dev/zero (deleted)
";

    fn scanned(start: usize, len: usize, write: bool) -> bool {
        scan(LIST.as_bytes(), start, start + len, write).unwrap()
    }

    #[test]
    fn a_range_may_span_mappings_but_no_hole_and_no_missing_right() {
        assert!(scanned(0x1000, 0x3000, false));
        assert!(scanned(0x3fff, 1, true));
        assert!(scanned(0x6000, 0x1000, true));
        assert!(!scanned(0x1000, 0x3000, true), "the first page is read-only");
        assert!(!scanned(0x3000, 0x1001, false), "a hole after the end");
        assert!(!scanned(0xfff, 2, false), "a hole before the start");
        assert!(!scanned(0x5000, 1, false), "no rights at all");
        assert!(!scanned(0x7000, 1, false), "past the list");
    }

    #[test]
    fn the_query_is_that_of_the_kernel() {
        assert_eq!(QUERY_LEN, 104);
        assert_eq!(PROCMAP_QUERY, 0xc068_6611);
    }

    #[test]
    fn text_and_query_agree_on_this_process() {
        let local = 0_u8;
        let constant: &'static str = "read-only";
        for (address, write) in [
            ((&raw const local).addr(), true),
            (constant.as_ptr().addr(), false),
            (constant.as_ptr().addr(), true),
            (1, false),
        ] {
            let list = File::open("/proc/self/maps").unwrap();
            let text = scan(BufReader::new(list), address, address + 1, write).unwrap();
            let whole = accessible(address, 1, write).unwrap();
            assert_eq!(text, whole, "{address:#x}");
            assert_eq!(text, address != 1 && !(write && address == constant.as_ptr().addr()));
        }
        assert!(!accessible(usize::MAX, 2, false).unwrap());
    }
}
