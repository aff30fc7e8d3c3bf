//! The same for a C program.

use std::ffi::{CString, c_char};

/// What was linked, as text that is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn kernels_report() -> *const c_char {
    CString::new(report::report()).unwrap_or_default().into_raw()
}
