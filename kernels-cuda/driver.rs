//! The device seam over cudarc, which panics on a missing library: so that is probed first.

use cudarc::driver::{result, sys};
use kernels_core::{Arch, DeviceId, DeviceKind, Driver, Platform, Reason};

/// The driver, for manifests.
pub static CUDA: Cuda = Cuda(());

/// The CUDA driver's type.
pub struct Cuda(());

/// CUDA 12.0: the oldest driver whose entry points cudarc resolves.
const OLDEST_DRIVER: i32 = 12_000;

// SAFETY: what `probe` says comes from the CUDA driver; cuMemAlloc aligns to at least 256 bytes.
unsafe impl Driver for Cuda {
    fn kind(&self) -> DeviceKind {
        DeviceKind::CUDA
    }

    fn name(&self) -> &'static str {
        "cudarc"
    }

    fn probe(&self) -> Result<Vec<Platform>, Reason> {
        // SAFETY: opens the library and closes it again.
        if !unsafe { sys::is_culib_present() } {
            return Err(Reason::RuntimeMissing {
                library: "the NVIDIA driver (libcuda)".into(),
                tried: ["libcuda.so", "libcuda.so.1", "nvcuda.dll"].map(String::from).into(),
                fix: "install the NVIDIA driver; in a container, start it with GPU access (`--gpus all`)"
                    .into(),
            });
        }
        let none = |e: result::DriverError| Reason::NoDevice { detail: words(e) };
        result::init().map_err(none)?;
        let mut version = 0;
        // SAFETY: writes one integer.
        unsafe { sys::cuDriverGetVersion(&mut version) }.result().map_err(none)?;
        let text = |v: i32| format!("CUDA {}.{}", v / 1000, v % 1000 / 10);
        if version < OLDEST_DRIVER {
            return Err(Reason::DriverTooOld { have: text(version), need: text(OLDEST_DRIVER) });
        }
        let count = result::device::get_count().map_err(none)?;
        (0..count).map(|i| describe(i, &text(version)).map_err(none)).collect()
    }

    fn alloc(&self, device: u32, bytes: usize, zeroed: bool) -> Result<*mut u8, String> {
        if bytes == 0 {
            return Ok(std::ptr::without_provenance_mut(256));
        }
        let _current = Current::of(device)?;
        // SAFETY: the size is not zero; the memory is written before it is read by `Tensor`'s contract.
        unsafe {
            let ptr = result::malloc_sync(bytes).map_err(words)?;
            if zeroed {
                result::memset_d8_async(ptr, 0, bytes, result::stream::null()).map_err(words)?;
                result::stream::synchronize(result::stream::null()).map_err(words)?;
            }
            Ok(std::ptr::with_exposed_provenance_mut(ptr as usize))
        }
    }

    unsafe fn free(&self, device: u32, ptr: *mut u8, bytes: usize) {
        if bytes > 0
            && let Ok(_current) = Current::of(device)
        {
            // SAFETY: by contract, allocated above. cuMemFree waits for the device, and an error here means
            // that the context is gone, and the memory with it.
            let _ = unsafe { result::free_sync(address(ptr)) };
        }
    }

    unsafe fn upload(&self, device: u32, dst: *mut u8, src: &[u8]) -> Result<(), String> {
        if src.is_empty() {
            return Ok(());
        }
        let _current = Current::of(device)?;
        // SAFETY: by contract.
        unsafe {
            result::memcpy_htod_async(address(dst), src, result::stream::null()).map_err(words)?;
            // The source may be reused when this returns.
            result::stream::synchronize(result::stream::null()).map_err(words)
        }
    }

    unsafe fn download(&self, device: u32, dst: &mut [u8], src: *const u8) -> Result<(), String> {
        if dst.is_empty() {
            return Ok(());
        }
        let _current = Current::of(device)?;
        // SAFETY: by contract.
        unsafe {
            result::memcpy_dtoh_async(dst, address(src.cast_mut()), result::stream::null()).map_err(words)?;
            result::stream::synchronize(result::stream::null()).map_err(words)
        }
    }

    fn synchronize(&self, device: u32) -> Result<(), String> {
        let _current = Current::of(device)?;
        result::ctx::synchronize().map_err(words)
    }
}

fn address(ptr: *mut u8) -> sys::CUdeviceptr {
    ptr.expose_provenance() as sys::CUdeviceptr
}

fn words(error: result::DriverError) -> String {
    match (error.error_name(), error.error_string()) {
        (Ok(name), Ok(text)) => format!("{}: {}", name.to_string_lossy(), text.to_string_lossy()),
        _ => format!("CUDA error {:?}", error.0),
    }
}

fn describe(ordinal: i32, version: &str) -> Result<Platform, result::DriverError> {
    use sys::CUdevice_attribute as Attribute;
    let device = result::device::get(ordinal)?;
    let attribute = |a| {
        // SAFETY: the device came from `get`.
        unsafe { result::device::get_attribute(device, a) }.map(|v| v.max(0) as u32)
    };
    Ok(Platform {
        id: DeviceId { kind: DeviceKind::CUDA, index: ordinal as u32 },
        name: result::device::get_name(device)?,
        arch: Arch::Cuda {
            major: attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            minor: attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        },
        cores: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        caches: [0, attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? as usize, 0],
        // SAFETY: the device came from `get`.
        memory: unsafe { result::device::total_mem(device)? } as u64,
        warp_width: attribute(Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE)?,
        driver_version: version.into(),
    })
}

/// Makes a device's primary context current on this thread, and puts back what was there, also on unwind.
struct Current {
    before: Option<sys::CUcontext>,
    device: sys::CUdevice,
}

impl Current {
    fn of(ordinal: u32) -> Result<Current, String> {
        let before = result::ctx::get_current().map_err(words)?;
        let device = result::device::get(ordinal as i32).map_err(words)?;
        // SAFETY: the device came from `get`; the retained context is released in `Drop`, and stays alive
        // meanwhile because `keep` holds one more reference for the process.
        unsafe {
            keep(device)?;
            let context = result::primary_ctx::retain(device).map_err(words)?;
            let current = Current { before, device };
            result::ctx::set_current(context).map_err(words)?;
            Ok(current)
        }
    }
}

/// Holds a device's primary context for the process: without that, the last release destroys the memory.
///
/// # Safety
/// `device` came from the driver.
unsafe fn keep(device: sys::CUdevice) -> Result<(), String> {
    static KEPT: std::sync::Mutex<Vec<sys::CUdevice>> = std::sync::Mutex::new(Vec::new());
    let mut kept = KEPT.lock().unwrap_or_else(|e| e.into_inner());
    if !kept.contains(&device) {
        // SAFETY: by contract.
        unsafe { result::primary_ctx::retain(device) }.map_err(words)?;
        kept.push(device);
    }
    Ok(())
}

impl Drop for Current {
    fn drop(&mut self) {
        // SAFETY: `before` was current on this thread; the context was retained in `of`.
        unsafe {
            let _ = result::ctx::set_current(self.before.unwrap_or(std::ptr::null_mut()));
            let _ = result::primary_ctx::release(self.device);
        }
    }
}
