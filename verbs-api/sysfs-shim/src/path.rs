//! Which path a program means, and which one it gets.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicU8, Ordering};

/// Longest path, its final zero included (`PATH_MAX`).
const PATH_LEN: usize = 4096;

/// Room for a path.
pub(crate) type Room = [u8; PATH_LEN];

const SYSFS: &[u8] = b"/sys/class/infiniband";
const NODES: &[u8] = b"/dev/infiniband";
/// What a device node of the tree is opened as.
const NODE: &CStr = c"/dev/null";

/// The tree, from `SOFTRNIC_SYSFS`: read when the first path is looked at, before a program can
/// change its environment.
static STATE: AtomicU8 = AtomicU8::new(UNREAD);
static ROOT: Root = Root(UnsafeCell::new([0; PATH_LEN]));
const UNREAD: u8 = 0;
const READING: u8 = 1;
const NONE: u8 = 2;
const SOME: u8 = 3;

struct Root(UnsafeCell<Room>);

// SAFETY: `root` alone reaches into it, and orders its one writer before all readers by STATE.
unsafe impl Sync for Root {}

/// The tree; `None` where there is none, so that every path means itself.
fn root() -> Option<&'static [u8]> {
    loop {
        match STATE.load(Ordering::Acquire) {
            UNREAD => {
                let won =
                    STATE.compare_exchange(UNREAD, READING, Ordering::Acquire, Ordering::Acquire);
                if won.is_ok() {
                    // SAFETY: only the one that won the exchange is here, and nobody reads ROOT
                    // before SOME is stored.
                    let found = unsafe { read_variable(&mut *ROOT.0.get()) };
                    STATE.store(if found { SOME } else { NONE }, Ordering::Release);
                }
            }
            READING => core::hint::spin_loop(),
            SOME => {
                // SAFETY: SOME was stored after the last write to ROOT.
                let room = unsafe { &*ROOT.0.get() };
                let end = room.iter().position(|&byte| byte == 0)?;
                return room.get(..end);
            }
            _ => return None,
        }
    }
}

/// Copies an absolute path from the environment, without a slash at its end.
fn read_variable(room: &mut Room) -> bool {
    // SAFETY: the name is a C string. A program that changes its environment in another thread at
    // this very moment has a race of its own making, as with every call of getenv(3).
    let value = unsafe {
        let value = libc::getenv(c"SOFTRNIC_SYSFS".as_ptr());
        if value.is_null() {
            return false;
        }
        CStr::from_ptr(value).to_bytes()
    };
    let value = value.strip_suffix(b"/").unwrap_or(value);
    let fits = value.len() < PATH_LEN - SYSFS.len() && value.first() == Some(&b'/');
    match room.get_mut(..value.len()) {
        Some(place) if fits => {
            place.copy_from_slice(value);
            true
        }
        _ => false,
    }
}

/// What to look up in place of `path`, if anything else: it lies in `room`.
///
/// # Safety
/// `path` is null or a C string.
pub(crate) unsafe fn instead_of(path: *const c_char, room: &mut Room) -> Option<*const c_char> {
    if path.is_null() {
        return None;
    }
    // SAFETY: as the caller says.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    let below = path.strip_prefix(b"/sys").filter(|_| path.starts_with(SYSFS));
    let (below, is_node) = match (below, path.strip_prefix(b"/dev")) {
        (Some(below), _) => (below, false),
        (None, Some(_)) if is_at_or_below(path, NODES) => (path, true),
        (None, _) => return None,
    };
    let root = root()?;
    let len = root.len() + below.len();
    // A longer path than there may be is refused by the call itself.
    let place = room.get_mut(..=len)?;
    place[..root.len()].copy_from_slice(root);
    place[root.len()..len].copy_from_slice(below);
    place[len] = 0;
    let named: *const c_char = room.as_ptr().cast();
    if !is_node {
        return Some(named);
    }
    // What the tree does not have is left alone: real devices stay.
    if !exists(named) {
        return None;
    }
    Some(if path.len() > NODES.len() + 1 { NODE.as_ptr() } else { named })
}

fn is_at_or_below(path: &[u8], directory: &[u8]) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.first().is_none_or(|&byte| byte == b'/'))
}

/// By a system call, for the functions of the C library lead here.
fn exists(path: *const c_char) -> bool {
    // SAFETY: the path is a C string that `instead_of` has made; errno is put back, for nobody has
    // asked for this call.
    unsafe {
        let errno = *libc::__errno_location();
        let found = libc::syscall(libc::SYS_faccessat, libc::AT_FDCWD, path, libc::F_OK) == 0;
        *libc::__errno_location() = errno;
        found
    }
}
