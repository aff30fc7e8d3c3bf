//! hipRTC, loaded at run time: portable kernels compiled for the device's gfx name.

use crate::hip::{folders, hip};
use crate::platform::version;
use crate::vendor::Rocm;
use kernels_core::{Arch, Backend, Platform, Reason};
use kernels_gpu::host::{Rtc, Unit, library};
use kernels_gpu::{Program, Resources, Runtime, entry_points};
use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

/// Since HIP 6 a library of its own; before, its functions are also in libamdhip64.
const NAMES: [&str; 8] = [
    "libhiprtc.so.7",
    "libhiprtc.so.6",
    "libhiprtc.so.5",
    "libhiprtc.so",
    "libamdhip64.so.5",
    "libamdhip64.so",
    "hiprtc0700.dll",
    "hiprtc0600.dll",
];

type Handle = *mut c_void;
type Strings = *const *const c_char;

entry_points! {
    /// The library's entry points.
    pub struct Api {
        hiprtcVersion: fn(*mut c_int, *mut c_int) -> c_int,
        hiprtcCreateProgram: fn(*mut Handle, *const c_char, *const c_char, c_int, Strings, Strings) -> c_int,
        hiprtcDestroyProgram: fn(*mut Handle) -> c_int,
        hiprtcCompileProgram: fn(Handle, c_int, Strings) -> c_int,
        hiprtcGetProgramLogSize: fn(Handle, *mut usize) -> c_int,
        hiprtcGetProgramLog: fn(Handle, *mut c_char) -> c_int,
        hiprtcGetCodeSize: fn(Handle, *mut usize) -> c_int,
        hiprtcGetCode: fn(Handle, *mut c_char) -> c_int,
    }
}

/// The library, loaded once.
fn api() -> Result<&'static Api, Reason> {
    static LOADED: OnceLock<Result<Api, Reason>> = OnceLock::new();
    let load = || {
        let fix = "install hipRTC (it comes with ROCm, package hip-runtime-amd, and with PyTorch for ROCm) and add its folder to \
                   LD_LIBRARY_PATH, or set KERNELS_CACHE_DIR to a folder with kernels compiled for this GPU";
        let found = library::open("hipRTC (libhiprtc), which compiles the kernels,", &NAMES, folders(), fix)?;
        Api::resolve(found, "").map_err(|name| Reason::DriverTooOld {
            have: format!("hipRTC without {name}"),
            need: "hipRTC 5.3".into(),
        })
    };
    LOADED.get_or_init(load).as_ref().map_err(Reason::clone)
}

/// The `hiprtc` backend's runtime.
pub struct Hiprtc;

impl Runtime for Hiprtc {
    type Vendor = Rocm;
    const BACKEND: Backend = Backend::HIPRTC;

    fn compiler() -> Result<String, Reason> {
        static NAME: OnceLock<Result<String, Reason>> = OnceLock::new();
        let name = || {
            let api = api()?;
            // It says 9.0 of itself in every release; the runtime that it comes with tells them apart.
            if let Ok(hip) = hip() {
                return Ok(format!("hiprtc {}", version(hip)));
            }
            let (mut major, mut minor) = (0, 0);
            // SAFETY: writes two integers.
            unsafe { (api.hiprtcVersion)(&mut major, &mut minor) };
            Ok(format!("hiprtc {major}.{minor}"))
        };
        NAME.get_or_init(name).clone()
    }

    fn compile(program: &Program, platform: &Platform) -> Result<Vec<u8>, String> {
        compile(program, platform, None).map(|(image, _)| image)
    }

    fn resources(program: &Program, platform: &Platform) -> Result<Resources, String> {
        let (_, log) = compile(program, platform, Some("-Rpass-analysis=kernel-resource-usage"))?;
        // "remark:     VGPRs: 116 [-Rpass..", "ScratchSize [bytes/lane]: 0", "LDS Size [bytes/block]: 7760"
        let after = |name: &str| {
            let (_, rest) = log.split_once(name).ok_or_else(|| format!("no {name} in: {log}"))?;
            let number = rest.trim_start().split([' ', '\n']).next().unwrap_or_default();
            number.parse().map_err(|_| format!("{name} is {number:?}"))
        };
        let (registers, local) = (after(" VGPRs:")?, after("ScratchSize [bytes/lane]:")?);
        Ok(Resources { registers, local, shared: after("LDS Size [bytes/block]:")? })
    }
}

fn compile(program: &Program, platform: &Platform, more: Option<&str>) -> Result<(Vec<u8>, String), String> {
    let api = api().map_err(|r| r.to_string())?;
    let Arch::Gfx(gfx) = &platform.arch else {
        return Err(format!("{} is no gfx name, for which hipRTC could compile", platform.arch));
    };
    let mut flags = program.flags(platform.warp_width);
    flags.push(format!("--gpu-architecture={gfx}"));
    flags.extend(more.map(String::from));
    let file = format!("{}.cu", program.source.name);
    let rtc = Rtc {
        name: "hipRTC",
        create: api.hiprtcCreateProgram,
        compile: api.hiprtcCompileProgram,
        log: (api.hiprtcGetProgramLogSize, api.hiprtcGetProgramLog),
        destroy: api.hiprtcDestroyProgram,
    };
    let image = (api.hiprtcGetCodeSize as _, api.hiprtcGetCode as _, "code object");
    let unit = Unit { file: &file, text: program.source.text, flags: &flags, image };
    rtc.compile(&unit)
}
