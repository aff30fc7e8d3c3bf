//! Portable kernels on CUDA, compiled by NVRTC.

use crate::nvrtc::{Target, nvrtc};
use crate::vendor::Cuda;
use kernels_core::{Arch, Backend, Platform, Reason};
use kernels_gpu::{Program, Resources, Runtime};

/// The `nvrtc` backend's runtime.
pub struct Nvrtc;

impl Runtime for Nvrtc {
    type Vendor = Cuda;
    const BACKEND: Backend = Backend::NVRTC;

    fn compiler() -> Result<String, Reason> {
        nvrtc().map(|n| format!("nvrtc {}.{}", n.version.0, n.version.1))
    }

    fn compile(program: &Program, platform: &Platform) -> Result<Vec<u8>, String> {
        compile(program, platform, None).map(|(image, _)| image)
    }

    fn resources(program: &Program, platform: &Platform) -> Result<Resources, String> {
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
}

fn compile(program: &Program, platform: &Platform, more: Option<&str>) -> Result<(Vec<u8>, String), String> {
    let nvrtc = nvrtc().map_err(|r| r.to_string())?;
    let mut flags = program.flags(platform.warp_width);
    flags.extend(more.map(String::from));
    let file = format!("{}.cu", program.source.name);
    let target = target(&platform.arch, nvrtc.version, &nvrtc.archs)?;
    nvrtc.compile((&file, program.source.text), flags, &target)
}

/// Code for the device itself where NVRTC knows it; for a newer one PTX of the newest that it knows, which the driver
/// finishes.
fn target(arch: &Arch, version: (i32, i32), known: &[u32]) -> Result<Target, String> {
    let Arch::Cuda { major, minor } = arch else { return Err(format!("{arch} is no CUDA architecture")) };
    let wanted = major * 10 + minor;
    match known.iter().rev().find(|a| **a <= wanted) {
        // What this one has and no later one (wgmma), NVRTC 12.0 gives under a name of its own.
        Some(90) if wanted == 90 && version >= (12, 0) => Ok(Target::Cubin("sm_90a".into())),
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
        let of = |cc: u32| target(&Arch::Cuda { major: cc / 10, minor: cc % 10 }, (13, 0), &[75, 80, 90]);
        assert!(matches!(of(80), Ok(Target::Cubin(a)) if a == "sm_80"));
        assert!(matches!(of(90), Ok(Target::Cubin(a)) if a == "sm_90a"));
        assert!(matches!(of(120), Ok(Target::Ptx(a)) if a == "compute_90"));
        assert!(matches!(of(86), Ok(Target::Ptx(a)) if a == "compute_80"));
        assert!(of(70).is_err());
    }
}
