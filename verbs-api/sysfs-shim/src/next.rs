//! The function that a program would have called without this library.

use core::ffi::{CStr, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

/// The next function of one name (`dlsym(3)`, `RTLD_NEXT`), found when it is first called.
pub(crate) struct Next {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Its address; null, and `ENOSYS` in errno, if the C library has no such function.
    pub(crate) fn address(&self) -> *mut c_void {
        let known = self.address.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: the name is a C string; errno belongs to this thread.
        unsafe {
            let found = libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr());
            if found.is_null() {
                *libc::__errno_location() = libc::ENOSYS;
            }
            self.address.store(found, Ordering::Relaxed);
            found
        }
    }
}
