//! The HIP entry points in use, loaded at run time. No binding crate both builds without ROCm and survives a missing
//! library.

use kernels_core::Reason;
use kernels_gpu::entry_points;
use kernels_gpu::host::{Handle, library};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::sync::OnceLock;

/// Library names, newest first.
const NAMES: [&str; 6] = [
    "libamdhip64.so.7",
    "libamdhip64.so.6",
    "libamdhip64.so.5",
    "libamdhip64.so",
    "amdhip64_7.dll",
    "amdhip64_6.dll",
];

/// hipMemcpyHostToDevice, hipMemcpyDeviceToHost.
pub const HOST_TO_DEVICE: c_int = 1;
pub const DEVICE_TO_HOST: c_int = 2;
/// hipStreamNonBlocking.
pub const NON_BLOCKING: c_uint = 1;
/// hipEventDisableTiming.
pub const DISABLE_TIMING: c_uint = 2;
/// hipHostMallocPortable, hipHostMallocMapped, and hipHostMallocCoherent: what a kernel reports is seen while it runs.
pub const HOST_SHARED: c_uint = 1 | 2 | 0x4000_0000;
/// hipMemPoolAttrReleaseThreshold.
pub const RELEASE_THRESHOLD: c_int = 4;
/// hipStreamCaptureModeThreadLocal.
pub const CAPTURE_THREAD_LOCAL: c_int = 1;

entry_points! {
    /// HIP's C interface, versions 5 to 7. Those that versions lack are optional: the layout of the properties (5.x), and
    /// memory in stream order (before 5.3).
    pub struct Hip {
        hipInit: fn(c_uint) -> c_int,
        hipRuntimeGetVersion: fn(*mut c_int) -> c_int,
        hipGetErrorName: fn(c_int) -> *const c_char,
        hipGetErrorString: fn(c_int) -> *const c_char,
        hipGetDeviceCount: fn(*mut c_int) -> c_int,
        hipGetDevice: fn(*mut c_int) -> c_int,
        hipSetDevice: fn(c_int) -> c_int,
        hipStreamCreateWithFlags: fn(*mut Handle, c_uint) -> c_int,
        hipStreamSynchronize: fn(Handle) -> c_int,
        hipStreamWaitEvent: fn(Handle, Handle, c_uint) -> c_int,
        hipEventCreateWithFlags: fn(*mut Handle, c_uint) -> c_int,
        hipEventRecord: fn(Handle, Handle) -> c_int,
        hipEventSynchronize: fn(Handle) -> c_int,
        hipEventDestroy: fn(Handle) -> c_int,
        hipMalloc: fn(*mut *mut c_void, usize) -> c_int,
        hipFree: fn(*mut c_void) -> c_int,
        hipHostMalloc: fn(*mut *mut c_void, usize, c_uint) -> c_int,
        hipHostGetDevicePointer: fn(*mut *mut c_void, *mut c_void, c_uint) -> c_int,
        hipMemsetAsync: fn(*mut c_void, c_int, usize, Handle) -> c_int,
        hipMemcpyAsync: fn(*mut c_void, *const c_void, usize, c_int, Handle) -> c_int,
        hipModuleLoadData: fn(*mut Handle, *const c_void) -> c_int,
        hipModuleGetFunction: fn(*mut Handle, Handle, *const c_char) -> c_int,
        hipModuleLaunchKernel: fn(Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void) -> c_int,
        hipStreamBeginCapture: fn(Handle, c_int) -> c_int,
        hipStreamEndCapture: fn(Handle, *mut Handle) -> c_int,
        hipGraphInstantiate: fn(*mut Handle, Handle, *mut Handle, *mut c_char, usize) -> c_int,
        hipGraphLaunch: fn(Handle, Handle) -> c_int,
        hipGraphDestroy: fn(Handle) -> c_int,
        hipGraphExecDestroy: fn(Handle) -> c_int,
        ; optional
        hipGetDevicePropertiesR0600: fn(*mut u8, c_int) -> c_int,
        hipGetDeviceProperties: fn(*mut u8, c_int) -> c_int,
        hipDeviceGetDefaultMemPool: fn(*mut Handle, c_int) -> c_int,
        hipMemPoolSetAttribute: fn(Handle, c_int, *mut c_void) -> c_int,
        hipMallocAsync: fn(*mut *mut c_void, usize, Handle) -> c_int,
        hipFreeAsync: fn(*mut c_void, Handle) -> c_int,
    }
}

/// The library, loaded at first use.
///
/// # Errors
/// Why there is none.
pub fn hip() -> Result<&'static Hip, &'static Reason> {
    static LOADED: OnceLock<Result<Hip, Reason>> = OnceLock::new();
    let load = || {
        let fix = "install ROCm 5.3 or later (AMD's repository: rocm-hip-runtime), activate a Python environment with PyTorch for \
                   ROCm, or add the folder of the library to LD_LIBRARY_PATH";
        let library = library::open("the ROCm runtime (libamdhip64)", &NAMES, folders(), fix)?;
        Hip::resolve(library, "").map_err(|name| Reason::DriverTooOld {
            have: format!("HIP without {name}"),
            need: "HIP 5.3".into(),
        })
    };
    LOADED.get_or_init(load).as_ref()
}

/// The folders besides the loader's own that ROCm's libraries live in: `ROCM_PATH`, the usual place, and the wheels of an
/// active Python environment (ROCm's own, and what PyTorch bundles).
pub fn folders() -> Vec<PathBuf> {
    let homes = ["ROCM_PATH", "HIP_PATH"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let mut all: Vec<_> = homes.map(|home| home.join("lib")).collect();
    all.push("/opt/rocm/lib".into());
    for packages in library::site_packages() {
        all.extend(["_rocm_sdk_core/lib", "torch/lib"].map(|inside| packages.join(inside)));
    }
    all
}
