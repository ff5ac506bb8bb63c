//! What no other libibverbs has.

use core::ffi::{CStr, c_char};

use super::export;

export! {
    version => "softrnic_version@@SOFTRNIC_1";
}

/// The version of this library as text. Whoever looks for the libibverbs of real devices knows by this
/// name that this is not it.
extern "C" fn version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(text) => text,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}
