//! What the driver says of the devices. cudarc panics on a missing library (or is linked to it, beside a
//! candle that is): so that is looked for first.

use crate::vendor::CudaError;
use cudarc::driver::{result, sys};
use kernels_core::{Arch, DeviceId, DeviceKind, Platform, Reason};
use kernels_gpu::host::{Failure, library};
use std::path::PathBuf;

/// CUDA 12.0: the oldest driver whose entry points cudarc resolves.
const OLDEST_DRIVER: i32 = 12_000;

/// Every device, by ordinal.
pub(crate) fn probe() -> Result<Vec<Result<Platform, Reason>>, Reason> {
    let fix = "install the NVIDIA driver; in a container, start it with GPU access (`--gpus all`)";
    let names = ["libcuda.so", "libcuda.so.1", "nvcuda.dll"];
    library::open("the NVIDIA driver (libcuda)", &names, folders(), fix)?;
    let none = |e| Reason::NoDevice { detail: CudaError(e).words() };
    result::init().map_err(none)?;
    let mut version = 0;
    // SAFETY: writes one integer.
    unsafe { sys::cuDriverGetVersion(&mut version) }.result().map_err(none)?;
    let text = |v: i32| format!("CUDA {}.{}", v / 1000, v % 1000 / 10);
    if version < OLDEST_DRIVER {
        return Err(Reason::DriverTooOld { have: text(version), need: text(OLDEST_DRIVER) });
    }
    let count = result::device::get_count().map_err(none)?;
    if count == 0 {
        return Err(Reason::NoDevice { detail: "the NVIDIA driver sees no GPU".into() });
    }
    Ok((0..count).map(|i| describe(i, &text(version)).map_err(none)).collect())
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

/// The folders besides the loader's own that CUDA libraries live in: `CUDA_HOME`, the toolkit's usual place, and the
/// wheels of an active Python environment (`nvidia/*/lib`).
pub(crate) fn folders() -> Vec<PathBuf> {
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let mut all: Vec<_> = homes.map(|home| home.join("lib64")).collect();
    all.push("/usr/local/cuda/lib64".into());
    for packages in library::site_packages() {
        let wheels = std::fs::read_dir(packages.join("nvidia")).into_iter().flatten().flatten();
        all.extend(wheels.map(|wheel| wheel.path().join("lib")));
    }
    all
}
