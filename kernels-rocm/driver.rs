//! The device seam over HIP.

use crate::hip::{
    ARCH_NAME, DEVICE_TO_HOST, HOST_TO_DEVICE, Hip, MULTIPROCESSORS, Missing, NAMES, NULL_STREAM, PROPERTIES,
    TOTAL_MEMORY, WARP_SIZE, hip,
};
use kernels_core::{Arch, DeviceId, DeviceKind, Driver, DriverError, Platform, Reason};
use std::ffi::{CStr, c_int};

/// The driver, for manifests.
pub static ROCM: Rocm = Rocm(());

/// The ROCm driver's type.
pub struct Rocm(());

// SAFETY: what `probe` says comes from HIP; hipMalloc aligns to at least 256 bytes.
unsafe impl Driver for Rocm {
    fn kind(&self) -> DeviceKind {
        DeviceKind::ROCM
    }

    fn name(&self) -> &'static str {
        "hip"
    }

    fn probe(&self) -> Result<Vec<Platform>, Reason> {
        let hip = match hip() {
            Ok(hip) => hip,
            Err(Missing::Library) => {
                return Err(Reason::RuntimeMissing {
                    library: "the ROCm runtime (libamdhip64)".into(),
                    tried: NAMES.map(String::from).into(),
                    fix: "install ROCm 6 or later (package rocm-hip-runtime), or add its lib folder to LD_LIBRARY_PATH".into(),
                });
            }
            Err(Missing::Symbol(name)) => {
                return Err(Reason::DriverTooOld {
                    have: format!("HIP without {name}"),
                    need: "HIP 6.0".into(),
                });
            }
        };
        let none = |detail| Reason::NoDevice { detail };
        let (mut version, mut count) = (0, 0);
        // SAFETY: each call writes one integer.
        unsafe {
            hip.check((hip.hipInit)(0)).map_err(none)?;
            hip.check((hip.hipRuntimeGetVersion)(&mut version)).map_err(none)?;
            hip.check((hip.hipGetDeviceCount)(&mut count)).map_err(none)?;
        }
        // HIP encodes 6.2.41133 as 60241133.
        let version = format!("HIP {}.{}", version / 10_000_000, version / 100_000 % 100);
        (0..count).map(|i| describe(hip, i, &version).map_err(none)).collect()
    }

    fn alloc(&self, device: u32, bytes: usize, zeroed: bool) -> Result<*mut u8, DriverError> {
        if bytes == 0 {
            return Ok(std::ptr::without_provenance_mut(256));
        }
        let current = Current::of(device)?;
        let mut ptr = std::ptr::null_mut();
        // SAFETY: writes one pointer, then fills memory that is ours.
        unsafe {
            current.hip.check((current.hip.hipMalloc)(&mut ptr, bytes))?;
            if zeroed {
                current.hip.check((current.hip.hipMemsetAsync)(ptr, 0, bytes, NULL_STREAM))?;
                current.hip.check((current.hip.hipStreamSynchronize)(NULL_STREAM))?;
            }
        }
        Ok(ptr.cast())
    }

    unsafe fn free(&self, device: u32, ptr: *mut u8, bytes: usize) {
        if bytes > 0
            && let Ok(current) = Current::of(device)
        {
            // SAFETY: by contract, allocated above. hipFree waits for the device, and an error here means
            // that the runtime is gone, and the memory with it.
            let _ = unsafe { (current.hip.hipFree)(ptr.cast()) };
        }
    }

    unsafe fn upload(&self, device: u32, dst: *mut u8, src: &[u8]) -> Result<(), DriverError> {
        // SAFETY: by contract.
        unsafe { Ok(copy(device, dst, src.as_ptr(), src.len(), HOST_TO_DEVICE)?) }
    }

    unsafe fn download(&self, device: u32, dst: &mut [u8], src: *const u8) -> Result<(), DriverError> {
        // SAFETY: by contract.
        unsafe { Ok(copy(device, dst.as_mut_ptr(), src, dst.len(), DEVICE_TO_HOST)?) }
    }

    fn synchronize(&self, device: u32) -> Result<(), DriverError> {
        let current = Current::of(device)?;
        // SAFETY: waits.
        Ok(current.hip.check(unsafe { (current.hip.hipDeviceSynchronize)() })?)
    }
}

/// Copies, and returns when that is done.
///
/// # Safety
/// Both sides are valid for `bytes`, each where `kind` says.
unsafe fn copy(device: u32, dst: *mut u8, src: *const u8, bytes: usize, kind: c_int) -> Result<(), String> {
    if bytes == 0 {
        return Ok(());
    }
    let current = Current::of(device)?;
    // SAFETY: by contract.
    unsafe {
        current.hip.check((current.hip.hipMemcpyAsync)(dst.cast(), src.cast(), bytes, kind, NULL_STREAM))?;
        current.hip.check((current.hip.hipStreamSynchronize)(NULL_STREAM))
    }
}

fn describe(hip: &Hip, ordinal: c_int, version: &str) -> Result<Platform, String> {
    // Room beyond the known size, in case a later runtime writes more.
    let mut raw = vec![0u8; 2 * PROPERTIES];
    let mut cores = 0;
    // SAFETY: the buffer is larger than what the call writes; the other writes one integer.
    unsafe {
        hip.check((hip.hipGetDevicePropertiesR0600)(raw.as_mut_ptr(), ordinal))?;
        if let Some(attribute) = hip.device_attribute {
            // A runtime that numbers it otherwise leaves 0.
            let _ = attribute(&mut cores, MULTIPROCESSORS, ordinal);
        }
    }
    let text = |at: usize| {
        CStr::from_bytes_until_nul(&raw[at..]).map(|s| s.to_string_lossy().into_owned()).unwrap_or_default()
    };
    let arch = text(ARCH_NAME);
    // `gfx942:sramecc+:xnack-` names the target; what follows the colon are its settings.
    let gfx = arch.split(':').next().filter(|g| g.starts_with("gfx"));
    let mut warp = [0; 4];
    warp.copy_from_slice(&raw[WARP_SIZE..WARP_SIZE + 4]);
    let mut memory = [0; 8];
    memory.copy_from_slice(&raw[TOTAL_MEMORY..TOTAL_MEMORY + 8]);
    Ok(Platform {
        id: DeviceId { kind: DeviceKind::ROCM, index: ordinal as u32 },
        name: text(0),
        arch: gfx.map_or(Arch::Unknown, |g| Arch::Gfx(g.into())),
        cores: cores.max(0) as u32,
        caches: [0; 3],
        memory: u64::from_ne_bytes(memory),
        warp_width: u32::from_ne_bytes(warp),
        driver_version: version.into(),
    })
}

/// Makes a device current on this thread, and puts back what was there, also on unwind.
struct Current {
    hip: &'static Hip,
    before: c_int,
}

impl Current {
    fn of(device: u32) -> Result<Current, String> {
        let hip = hip().map_err(|_| "the ROCm runtime is gone")?;
        let mut before = 0;
        // SAFETY: writes one integer; sets this thread's device.
        unsafe {
            hip.check((hip.hipGetDevice)(&mut before))?;
            hip.check((hip.hipSetDevice)(device as c_int))?;
        }
        Ok(Current { hip, before })
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        // SAFETY: the device was current before.
        let _ = unsafe { (self.hip.hipSetDevice)(self.before) };
    }
}
