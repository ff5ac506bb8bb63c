//! How functions tell C that they failed, and the guard that keeps panics out of C.
//!
//! libibverbs has four habits: an errno as the result, −1 with `errno` set, a negative errno, and NULL
//! with `errno` set. Each is one function here, and every function that C calls goes through one.

use core::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

use softrnic_verbs::VerbError;
use softrnic_verbs::cm::CmError;

/// An errno, not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) c_int);

/// What verbs return before C sees it.
pub(crate) type Result<T> = core::result::Result<T, Errno>;

impl Errno {
    pub(crate) const INVALID: Self = Self(libc::EINVAL);
    /// The context belongs to another process, or the library itself has failed.
    pub(crate) const IO: Self = Self(libc::EIO);
    pub(crate) const NO_MEMORY: Self = Self(libc::ENOMEM);
    pub(crate) const NOT_SUPPORTED: Self = Self(libc::EOPNOTSUPP);
    pub(crate) const BUSY: Self = Self(libc::EBUSY);

    /// What C reads after −1 or NULL.
    pub(crate) fn set(self) {
        set_errno(self.0);
    }
}

impl From<VerbError> for Errno {
    /// An errno says little: with `SOFTRNIC_EXPLAIN` set, standard error says why.
    fn from(error: VerbError) -> Self {
        explain(&error);
        Self(error.errno())
    }
}

impl From<CmError> for Errno {
    fn from(error: CmError) -> Self {
        explain(&error);
        Self(error.errno())
    }
}

fn explain(error: &dyn core::fmt::Display) {
    static EXPLAINS: LazyLock<bool> = LazyLock::new(|| {
        std::env::var_os("SOFTRNIC_EXPLAIN").is_some_and(|value| !value.is_empty() && value != "0")
    });
    if *EXPLAINS {
        complain(&format!("a verb was refused: {error}"));
    }
}

/// Says something to the person who runs the program.
pub(crate) fn complain(text: &str) {
    eprintln!("softrnic: {text}");
}

impl From<std::io::Error> for Errno {
    fn from(error: std::io::Error) -> Self {
        error.raw_os_error().map_or(Self::IO, Self)
    }
}

#[expect(unsafe_code, reason = "errno is a thread-local of the C library")]
fn set_errno(value: c_int) {
    // SAFETY: the C library gives each thread its own, valid for the thread's life.
    unsafe { *libc::__errno_location() = value };
}

/// Does what C asked for; a panic is an I/O error.
#[inline]
pub(crate) fn guarded<T>(act: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or(Err(Errno::IO))
}

/// 0 or an errno.
#[inline]
pub(crate) fn status(act: impl FnOnce() -> Result<()>) -> c_int {
    match guarded(act) {
        Ok(()) => 0,
        Err(Errno(errno)) => errno,
    }
}

/// A number, or −1 with `errno`.
#[inline]
pub(crate) fn number(act: impl FnOnce() -> Result<c_int>) -> c_int {
    guarded(act).unwrap_or_else(|errno| {
        errno.set();
        -1
    })
}

/// Something, or NULL with `errno`.
#[inline]
pub(crate) fn pointer<T>(act: impl FnOnce() -> Result<T>) -> Option<T> {
    guarded(act).map_err(Errno::set).ok()
}

impl From<core::num::TryFromIntError> for Errno {
    fn from(_: core::num::TryFromIntError) -> Self {
        Self::INVALID
    }
}
