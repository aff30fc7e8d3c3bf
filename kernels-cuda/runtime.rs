//! Portable kernels on CUDA: compiled by NVRTC, launched by the driver.

use crate::context::Context;
use crate::nvrtc::{Target, nvrtc};
use crate::words::words;
use cudarc::driver::{result, sys};
use kernels_core::{Arch, Backend, Ctx, Device, DriverError, Platform, Reason};
use kernels_gpu::{Grid, Program, Runtime};
use std::ffi::{CString, c_void};

/// The `nvrtc` backend's runtime.
pub struct Nvrtc;

/// Shared memory that a kernel may have without asking for more.
const PLAIN_SHARED: u32 = 48 << 10;

// SAFETY: `load` resolves the program's own entry point in its own module; `launch` hands everything on as it is.
unsafe impl Runtime for Nvrtc {
    const BACKEND: Backend = Backend::NVRTC;

    fn compiler() -> Result<String, Reason> {
        nvrtc().map(|n| format!("nvrtc {}.{}", n.version.0, n.version.1))
    }

    fn arch(platform: &Platform) -> String {
        platform.arch.to_string()
    }

    fn compile(program: &Program, platform: &Platform) -> Result<Vec<u8>, String> {
        compile(program, platform, None).map(|(image, _)| image)
    }

    fn load(device: Device, image: &[u8], entry: &str) -> Result<usize, String> {
        let context = Context::of(device.id().index)?;
        let _current = context.enter().map_err(|e| e.to_string())?;
        let entry = CString::new(entry).map_err(|e| e.to_string())?;
        // PTX ends with the zero that the driver reads to; a cubin says its own length.
        let refused = |e| match e {
            result::DriverError(sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) => {
                "a kernel cannot be loaded while a graph is captured; run the calls once before, or `warm_up`"
                    .into()
            }
            e => words(e),
        };
        // SAFETY: the image comes from the compiler, or from the cache that checked its hash; the module is never
        // unloaded, so that the function lives as long as the process.
        unsafe {
            let module = result::module::load_data(image.as_ptr().cast()).map_err(refused)?;
            let function = result::module::get_function(module, entry).map_err(words)?;
            Ok(function.expose_provenance())
        }
    }

    fn report(device: Device) -> Result<u64, String> {
        Ok(Context::of(device.id().index)?.report_on_device())
    }

    unsafe fn launch(
        ctx: &Ctx,
        function: usize,
        grid: &Grid,
        params: &mut [*mut c_void],
    ) -> Result<(), String> {
        let context = Context::of(ctx.device.id().index)?;
        let _current = context.enter().map_err(|e| e.to_string())?;
        let function: sys::CUfunction = std::ptr::with_exposed_provenance_mut(function);
        let [x, y, z] = grid.blocks;
        // SAFETY: the function is this device's and lives; the rest by contract.
        unsafe {
            if grid.shared > PLAIN_SHARED {
                let attribute =
                    sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                result::function::set_function_attribute(function, attribute, grid.shared as i32)
                    .map_err(words)?;
            }
            let (blocks, threads) = ((x, y, z), (grid.threads, 1, 1));
            let stream = context.handle(ctx.stream);
            result::launch_kernel(function, blocks, threads, grid.shared, stream, params)
        }
        .map_err(|e| match context.blame(e) {
            earlier @ DriverError::Queued { .. } => earlier.to_string(),
            _ => format!("{} ({} blocks of {} threads)", words(e), grid.blocks[0], grid.threads),
        })
    }
}

fn compile(program: &Program, platform: &Platform, more: Option<&str>) -> Result<(Vec<u8>, String), String> {
    let nvrtc = nvrtc().map_err(|r| r.to_string())?;
    let mut flags = program.flags(platform.warp_width);
    flags.extend(more.map(String::from));
    let file = format!("{}.cu", program.source.name);
    let target = target(&platform.arch, &nvrtc.archs)?;
    nvrtc.compile((&file, program.source.text), kernels_gpu::HEADERS, &flags, &target)
}

/// What a kernel takes of a multiprocessor, as the assembler says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of local memory of a thread: arrays that registers cannot hold, and spilled registers.
    pub local: u32,
    /// Bytes of shared memory that the kernel declares.
    pub shared: u32,
}

/// Compiles a kernel, and says what it takes; for whoever tunes one.
///
/// # Errors
/// The compiler's log, or that it says nothing of resources.
pub fn resources(program: &Program, platform: &Platform) -> Result<Resources, String> {
    let (_, log) = compile(program, platform, Some("--ptxas-options=-v"))?;
    // "48 bytes stack frame", "Used 96 registers", "7760 bytes smem"
    let before = |unit: &str| {
        let (head, _) = log.split_once(unit)?;
        head.rsplit([' ', ',']).find(|w| !w.is_empty())?.parse().ok()
    };
    let registers = before(" registers").ok_or_else(|| format!("no registers in: {log}"))?;
    let local = before(" bytes stack frame").unwrap_or(0);
    Ok(Resources { registers, local, shared: before(" bytes smem").unwrap_or(0) })
}

/// Code for the device itself where NVRTC knows it; for a newer one PTX of the newest that it knows, which the driver
/// finishes.
fn target(arch: &Arch, known: &[u32]) -> Result<Target, String> {
    let Arch::Cuda { major, minor } = arch else { return Err(format!("{arch} is no CUDA architecture")) };
    let wanted = major * 10 + minor;
    match known.iter().rev().find(|a| **a <= wanted) {
        Some(found) if *found == wanted => Ok(Target::Cubin(format!("sm_{wanted}"))),
        Some(below) => Ok(Target::Ptx(format!("compute_{below}"))),
        None => Err(format!("this NVRTC compiles for sm_{} and later", known.first().copied().unwrap_or(0))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_nvrtc_does_not_know_gets_ptx_of_the_one_before() {
        let of = |cc: u32| target(&Arch::Cuda { major: cc / 10, minor: cc % 10 }, &[75, 80, 90]);
        assert!(matches!(of(80), Ok(Target::Cubin(a)) if a == "sm_80"));
        assert!(matches!(of(120), Ok(Target::Ptx(a)) if a == "compute_90"));
        assert!(matches!(of(86), Ok(Target::Ptx(a)) if a == "compute_80"));
        assert!(of(70).is_err());
    }
}
