//! What HIP says of the devices.

use crate::hip::{Hip, hip};
use crate::vendor::HipError;
use kernels_core::{Arch, DeviceId, DeviceKind, Platform, Reason};
use kernels_gpu::host::Failure;
use std::ffi::{CStr, c_int};

/// Where the fields in use are in `hipDeviceProp_t`, of which there are two layouts; the name comes first in both.
struct Layout {
    bytes: usize,
    /// usize
    memory: usize,
    /// int
    warp: usize,
    /// int
    cores: usize,
    /// int
    l2: usize,
    /// char[256]
    arch: usize,
}

/// `hipDeviceProp_tR0600`: since HIP 6.
const R0600: Layout = Layout { bytes: 1472, memory: 288, warp: 308, cores: 388, l2: 616, arch: 1160 };
/// `hipDeviceProp_tR0000`: HIP 5.
const R0000: Layout = Layout { bytes: 792, memory: 256, warp: 276, cores: 336, l2: 340, arch: 396 };

/// Every device, by ordinal.
pub(crate) fn probe() -> Result<Vec<Result<Platform, Reason>>, Reason> {
    let hip = hip().map_err(Reason::clone)?;
    let none = |e: HipError| Reason::NoDevice { detail: format!("{}{}", e.words(), kernel_driver()) };
    let mut count = 0;
    // SAFETY: each call writes one integer at most.
    unsafe {
        HipError::of((hip.hipInit)(0)).map_err(none)?;
        HipError::of((hip.hipGetDeviceCount)(&mut count)).map_err(none)?;
    }
    if count == 0 {
        let detail = format!("the ROCm runtime sees no GPU{}", kernel_driver());
        return Err(Reason::NoDevice { detail });
    }
    let version = format!("HIP {}", version(hip));
    Ok((0..count).map(|i| describe(hip, i, &version)).collect())
}

/// What may be wrong with the kernel's side of the driver, which the runtime does not say.
fn kernel_driver() -> &'static str {
    const DEVICE: &str = "/dev/kfd";
    match std::fs::OpenOptions::new().read(true).write(true).open(DEVICE).map_err(|e| e.kind()) {
        _ if !cfg!(target_os = "linux") => "",
        Err(std::io::ErrorKind::NotFound) => {
            "; /dev/kfd is missing: load the amdgpu kernel module, or pass /dev/kfd and /dev/dri to the container"
        }
        Err(std::io::ErrorKind::PermissionDenied) => {
            "; /dev/kfd may not be opened: add the user to the groups render and video"
        }
        _ => "",
    }
}

/// HIP's version: `6.2.41133`, which it encodes as 60241133.
pub(crate) fn version(hip: &Hip) -> String {
    let mut version = 0;
    // SAFETY: writes one integer.
    unsafe { (hip.hipRuntimeGetVersion)(&mut version) };
    format!("{}.{}.{}", version / 10_000_000, version / 100_000 % 100, version % 100_000)
}

fn describe(hip: &Hip, ordinal: c_int, version: &str) -> Result<Platform, Reason> {
    let (read, layout) = match (hip.hipGetDevicePropertiesR0600, hip.hipGetDeviceProperties) {
        (Some(read), _) => (read, R0600),
        (None, Some(read)) => (read, R0000),
        (None, None) => {
            let have = "HIP without hipGetDeviceProperties".into();
            return Err(Reason::DriverTooOld { have, need: "HIP 5.3".into() });
        }
    };
    // Room beyond the known size, in case a later runtime writes more.
    let mut raw = vec![0u8; 2 * layout.bytes];
    // SAFETY: the buffer is larger than what the call writes.
    HipError::of(unsafe { read(raw.as_mut_ptr(), ordinal) })
        .map_err(|e| Reason::NoDevice { detail: e.words() })?;
    Ok(platform(&raw, &layout, ordinal as u32, version))
}

fn platform(raw: &[u8], layout: &Layout, index: u32, version: &str) -> Platform {
    let text = |at: usize| {
        CStr::from_bytes_until_nul(&raw[at..]).map(|s| s.to_string_lossy().into_owned()).unwrap_or_default()
    };
    let word = |at: usize| u32::from_ne_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
    let mut memory = [0; 8];
    memory.copy_from_slice(&raw[layout.memory..layout.memory + 8]);
    let arch = text(layout.arch);
    // `gfx942:sramecc+:xnack-` names the target; what follows the colon are its settings.
    let gfx = arch.split(':').next().filter(|g| g.starts_with("gfx"));
    Platform {
        id: DeviceId { kind: DeviceKind::ROCM, index },
        name: text(0),
        arch: gfx.map_or(Arch::Unknown, |g| Arch::Gfx(g.into())),
        cores: word(layout.cores),
        caches: [0, word(layout.l2) as usize, 0],
        memory: u64::from_ne_bytes(memory),
        warp_width: word(layout.warp),
        driver_version: version.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_layouts_are_read() {
        for layout in [R0600, R0000] {
            let mut raw = vec![0u8; 2 * layout.bytes];
            let mut put = |at: usize, bytes: &[u8]| raw[at..at + bytes.len()].copy_from_slice(bytes);
            put(0, b"AMD Instinct MI300X\0");
            put(layout.memory, &(192u64 << 30).to_ne_bytes());
            put(layout.warp, &64u32.to_ne_bytes());
            put(layout.cores, &304u32.to_ne_bytes());
            put(layout.arch, b"gfx942:sramecc+:xnack-\0");
            let p = platform(&raw, &layout, 3, "HIP 6.2.41133");
            assert_eq!((p.name.as_str(), p.arch.to_string()), ("AMD Instinct MI300X", "gfx942".into()));
            assert_eq!((p.memory, p.warp_width, p.cores, p.id.index), (192 << 30, 64, 304, 3));
        }
    }

    #[test]
    fn a_name_that_is_no_gfx_name_is_an_unknown_architecture() {
        let raw = vec![0u8; 2 * R0600.bytes];
        assert_eq!(platform(&raw, &R0600, 0, "").arch, Arch::Unknown);
    }
}
