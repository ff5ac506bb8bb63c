//! Functions that are exported because programs do not start without them, and that are not there. Each
//! fails as functions of its kind do; none succeeds falsely.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use crate::errno::Errno;

/// Fails with the errno as its result.
pub(crate) extern "C" fn with_errno() -> c_int {
    Errno::NOT_SUPPORTED.0
}

/// Fails with −1 and `errno`.
pub(crate) extern "C" fn with_minus_one() -> isize {
    Errno::NOT_SUPPORTED.set();
    -1
}

/// Fails with NULL and `errno`.
pub(crate) extern "C" fn with_null() -> *mut c_void {
    Errno::NOT_SUPPORTED.set();
    null_mut()
}

/// Has nothing to do, because nothing of what it ends or changes was ever made.
pub(crate) extern "C" fn with_nothing() {}

/// Answers 0, which is no port, no status, no length.
pub(crate) extern "C" fn with_zero() -> usize {
    0
}

/// `ibv_fork_init`, `ibv_dontfork_range`, `ibv_dofork_range`: memory is copied by ordinary means, so a
/// fork takes no pages away from a device.
pub(crate) extern "C" fn fork_is_harmless() -> c_int {
    0
}

/// `ibv_is_fork_initialized`: `IBV_FORK_UNNEEDED`.
pub(crate) extern "C" fn fork_needs_nothing() -> c_int {
    2
}
