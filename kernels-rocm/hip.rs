//! The few HIP entry points in use, loaded at run time. No binding crate both builds without ROCm and
//! survives a missing library.

use libloading::Library;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

/// Library names, newest first.
pub const NAMES: [&str; 5] =
    ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so", "amdhip64.dll"];

/// Bytes of `hipDeviceProp_tR0600` (HIP 6 and 7), and where in it the fields in use are.
pub const PROPERTIES: usize = 1472;
/// Offset of `totalGlobalMem` (usize).
pub const TOTAL_MEMORY: usize = 288;
/// Offset of `warpSize` (int).
pub const WARP_SIZE: usize = 308;
/// Offset of `gcnArchName` (char[256]).
pub const ARCH_NAME: usize = 1160;
/// Of `hipMemcpyKind`.
pub const HOST_TO_DEVICE: c_int = 1;
/// Of `hipMemcpyKind`.
pub const DEVICE_TO_HOST: c_int = 2;
/// Of `hipDeviceAttribute_t`, stable since HIP 6.
pub const MULTIPROCESSORS: c_int = 63;

macro_rules! entry_points {
    ($($name:ident($($arg:ty),*)),* $(,)?) => {
        /// The entry points.
        #[allow(non_snake_case)]
        pub struct Hip {
            $( pub $name: unsafe extern "C" fn($($arg),*) -> c_int, )*
            /// Informative only, so a runtime without it will do.
            pub device_attribute: Option<unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int>,
            error_string: unsafe extern "C" fn(c_int) -> *const c_char,
            _library: Library,
        }

        impl Hip {
            fn resolve(library: Library) -> Result<Hip, String> {
                // SAFETY: the types are those of HIP's documented C interface, versions 6 and 7.
                unsafe {
                    Ok(Hip {
                        $( $name: *library.get(concat!(stringify!($name), "\0").as_bytes())
                            .map_err(|_| concat!("symbol ", stringify!($name)))?, )*
                        device_attribute: library.get(b"hipDeviceGetAttribute\0").ok().map(|s| *s),
                        error_string: *library.get(b"hipGetErrorString\0").map_err(|_| "symbol hipGetErrorString")?,
                        _library: library,
                    })
                }
            }
        }
    };
}
entry_points! {
    hipInit(c_uint),
    hipRuntimeGetVersion(*mut c_int),
    hipGetDeviceCount(*mut c_int),
    hipGetDevicePropertiesR0600(*mut u8, c_int),
    hipGetDevice(*mut c_int),
    hipSetDevice(c_int),
    hipDeviceSynchronize(),
    hipMalloc(*mut *mut c_void, usize),
    hipFree(*mut c_void),
    hipMemsetAsync(*mut c_void, c_int, usize, *mut c_void),
    hipMemcpyAsync(*mut c_void, *const c_void, usize, c_int, *mut c_void),
    hipStreamSynchronize(*mut c_void),
}

/// Why HIP is not to be had.
pub enum Missing {
    /// No library of any of the names.
    Library,
    /// An old library without this symbol.
    Symbol(String),
}

/// The library, loaded at first use.
pub fn hip() -> Result<&'static Hip, &'static Missing> {
    static HIP: OnceLock<Result<Hip, Missing>> = OnceLock::new();
    HIP.get_or_init(|| {
        // SAFETY: loading the vendor's runtime runs its initialisers, as linking to it would.
        let library = NAMES.iter().find_map(|n| unsafe { Library::new(*n) }.ok()).ok_or(Missing::Library)?;
        Hip::resolve(library).map_err(Missing::Symbol)
    })
    .as_ref()
}

impl Hip {
    /// A return code in HIP's words.
    pub fn check(&self, code: c_int) -> Result<(), String> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: returns a static string, or null for a code that it does not know.
        let text = unsafe { (self.error_string)(code) };
        if text.is_null() {
            return Err(format!("HIP error {code}"));
        }
        // SAFETY: a static, terminated string.
        Err(format!("HIP error {code}: {}", unsafe { CStr::from_ptr(text) }.to_string_lossy()))
    }
}

/// The stream that every thread shares.
pub const NULL_STREAM: *mut c_void = std::ptr::null_mut();
