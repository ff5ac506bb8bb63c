//! The functions of the C library that take a path, wrapped: each looks up another path where
//! [`path`](crate::path) says so and is otherwise the next function of its name.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::{mem, ptr};

use crate::next::Next;
use crate::path::{Room, instead_of};

/// Defines wrappers. The argument named `path` is the one that may be exchanged; the expression
/// after `else` is returned when the C library has no such function.
macro_rules! wrap {
    ($(fn $name:ident($($before:ident: $before_type:ty,)* @path $(, $after:ident: $after_type:ty)*)
        -> $result:ty, else $missing:expr;)*) => { $(
        #[doc = concat!("`", stringify!($name), "(3)`.")]
        ///
        /// # Safety
        /// As the function of the C library.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            $($before: $before_type,)* path: *const c_char $(, $after: $after_type)*
        ) -> $result {
            type Function = unsafe extern "C" fn(
                $($before_type,)* *const c_char $(, $after_type)*
            ) -> $result;
            const NAME: &CStr =
                match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                };
            static NEXT: Next = Next::new(NAME);
            let address = NEXT.address();
            if address.is_null() {
                return $missing;
            }
            // SAFETY: the C library's function of this name has this type, and an address that is
            // not null is valid for a function pointer.
            let next = unsafe { mem::transmute::<*mut c_void, Function>(address) };
            let mut room: Room = [0; _];
            // SAFETY: the caller passes what that function asks for; the path is exchanged for
            // another C string.
            unsafe {
                let path = instead_of(path, &mut room).unwrap_or(path);
                next($($before,)* path $(, $after)*)
            }
        }
    )* };
}

// The variadic functions take their mode as an argument like any other; on the machines of Linux it
// is passed the same way.
wrap! {
    fn stat(@path, into: *mut c_void) -> c_int, else -1;
    fn stat64(@path, into: *mut c_void) -> c_int, else -1;
    fn lstat(@path, into: *mut c_void) -> c_int, else -1;
    fn lstat64(@path, into: *mut c_void) -> c_int, else -1;
    fn fstatat(at: c_int, @path, into: *mut c_void, flags: c_int) -> c_int, else -1;
    fn fstatat64(at: c_int, @path, into: *mut c_void, flags: c_int) -> c_int, else -1;
    fn statx(at: c_int, @path, flags: c_int, mask: c_uint, into: *mut c_void) -> c_int, else -1;
    // What programs call that were built before version 2.33 of the GNU C library.
    fn __xstat(version: c_int, @path, into: *mut c_void) -> c_int, else -1;
    fn __xstat64(version: c_int, @path, into: *mut c_void) -> c_int, else -1;
    fn __lxstat(version: c_int, @path, into: *mut c_void) -> c_int, else -1;
    fn __lxstat64(version: c_int, @path, into: *mut c_void) -> c_int, else -1;
    fn __fxstatat(version: c_int, at: c_int, @path, into: *mut c_void, flags: c_int)
        -> c_int, else -1;
    fn __fxstatat64(version: c_int, at: c_int, @path, into: *mut c_void, flags: c_int)
        -> c_int, else -1;

    fn access(@path, mode: c_int) -> c_int, else -1;
    fn euidaccess(@path, mode: c_int) -> c_int, else -1;
    fn eaccess(@path, mode: c_int) -> c_int, else -1;
    fn faccessat(at: c_int, @path, mode: c_int, flags: c_int) -> c_int, else -1;

    fn open(@path, flags: c_int, mode: c_uint) -> c_int, else -1;
    fn open64(@path, flags: c_int, mode: c_uint) -> c_int, else -1;
    fn __open_2(@path, flags: c_int) -> c_int, else -1;
    fn __open64_2(@path, flags: c_int) -> c_int, else -1;
    fn openat(at: c_int, @path, flags: c_int, mode: c_uint) -> c_int, else -1;
    fn openat64(at: c_int, @path, flags: c_int, mode: c_uint) -> c_int, else -1;
    fn __openat_2(at: c_int, @path, flags: c_int) -> c_int, else -1;
    fn __openat64_2(at: c_int, @path, flags: c_int) -> c_int, else -1;
    fn fopen(@path, mode: *const c_char) -> *mut c_void, else ptr::null_mut();
    fn fopen64(@path, mode: *const c_char) -> *mut c_void, else ptr::null_mut();
    fn opendir(@path) -> *mut c_void, else ptr::null_mut();
    fn scandir(@path, into: *mut c_void, filter: *const c_void, compare: *const c_void)
        -> c_int, else -1;
    fn scandir64(@path, into: *mut c_void, filter: *const c_void, compare: *const c_void)
        -> c_int, else -1;

    fn readlink(@path, into: *mut c_char, room: usize) -> isize, else -1;
    fn readlinkat(at: c_int, @path, into: *mut c_char, room: usize) -> isize, else -1;
    fn __readlink_chk(@path, into: *mut c_char, room: usize, known: usize) -> isize, else -1;
    fn realpath(@path, into: *mut c_char) -> *mut c_char, else ptr::null_mut();
    fn __realpath_chk(@path, into: *mut c_char, known: usize)
        -> *mut c_char, else ptr::null_mut();
    fn canonicalize_file_name(@path) -> *mut c_char, else ptr::null_mut();
}
