//! NVRTC, loaded at run time: the dozen entry points that compile a kernel.

use crate::platform::folders;
use kernels_core::Reason;
use kernels_gpu::entry_points;
use kernels_gpu::host::{Rtc, Unit, library};
use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

const NAMES: [&str; 4] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "nvrtc64_120_0.dll"];

type Program = *mut c_void;
type Strings = *const *const c_char;

entry_points! {
    /// The library's entry points.
    pub struct Api {
        nvrtcVersion: fn(*mut c_int, *mut c_int) -> c_int,
        nvrtcGetNumSupportedArchs: fn(*mut c_int) -> c_int,
        nvrtcGetSupportedArchs: fn(*mut c_int) -> c_int,
        nvrtcCreateProgram: fn(*mut Program, *const c_char, *const c_char, c_int, Strings, Strings) -> c_int,
        nvrtcDestroyProgram: fn(*mut Program) -> c_int,
        nvrtcCompileProgram: fn(Program, c_int, Strings) -> c_int,
        nvrtcGetProgramLogSize: fn(Program, *mut usize) -> c_int,
        nvrtcGetProgramLog: fn(Program, *mut c_char) -> c_int,
        nvrtcGetCUBINSize: fn(Program, *mut usize) -> c_int,
        nvrtcGetCUBIN: fn(Program, *mut c_char) -> c_int,
        nvrtcGetPTXSize: fn(Program, *mut usize) -> c_int,
        nvrtcGetPTX: fn(Program, *mut c_char) -> c_int,
    }
}

/// The library, and what it says of itself.
pub(crate) struct Nvrtc {
    api: Api,
    /// `(major, minor)`
    pub version: (i32, i32),
    /// Compute capabilities that it compiles for, ascending.
    pub archs: Vec<u32>,
}

/// The library, loaded once.
///
/// # Errors
/// Why there is none.
pub(crate) fn nvrtc() -> Result<&'static Nvrtc, Reason> {
    static LOADED: OnceLock<Result<Nvrtc, Reason>> = OnceLock::new();
    let load = || {
        let fix = "install NVRTC (Debian and Ubuntu: libnvrtc12; Python: `pip install nvidia-cuda-nvrtc`) and add its folder \
                   to LD_LIBRARY_PATH, or set KERNELS_CACHE_DIR to a folder with kernels compiled for this GPU";
        let found = library::open("NVRTC (libnvrtc), which compiles the kernels,", &NAMES, folders(), fix)?;
        let api = Api::resolve(found, "");
        let missing =
            |name| Reason::DriverTooOld { have: format!("NVRTC without {name}"), need: "NVRTC 11.2".into() };
        Ok(Nvrtc::described(api.map_err(missing)?))
    };
    LOADED.get_or_init(load).as_ref().map_err(Reason::clone)
}

/// What a compilation gave.
pub(crate) enum Target {
    /// Code for exactly this architecture: `sm_90`.
    Cubin(String),
    /// An intermediate form that the driver finishes: `compute_90`.
    Ptx(String),
}

impl Nvrtc {
    fn described(api: Api) -> Nvrtc {
        let (mut version, mut count) = ((0, 0), 0);
        // SAFETY: each call writes the integers given; the list has the length that NVRTC said.
        let mut archs: Vec<u32> = unsafe {
            (api.nvrtcVersion)(&mut version.0, &mut version.1);
            (api.nvrtcGetNumSupportedArchs)(&mut count);
            let mut archs = vec![0; count.max(0) as usize];
            (api.nvrtcGetSupportedArchs)(archs.as_mut_ptr());
            archs.into_iter().map(|a: c_int| a as u32).collect()
        };
        archs.sort_unstable();
        Nvrtc { api, version, archs }
    }

    /// Compiles a source; gives the code, and the log.
    ///
    /// # Errors
    /// The log.
    pub fn compile(
        &self,
        (file, text): (&str, &str),
        mut flags: Vec<String>,
        target: &Target,
    ) -> Result<(Vec<u8>, String), String> {
        let api = &self.api;
        let rtc = Rtc {
            name: "NVRTC",
            create: api.nvrtcCreateProgram,
            compile: api.nvrtcCompileProgram,
            log: (api.nvrtcGetProgramLogSize, api.nvrtcGetProgramLog),
            destroy: api.nvrtcDestroyProgram,
        };
        let (arch, image) = match target {
            Target::Cubin(arch) => (arch, (api.nvrtcGetCUBINSize, api.nvrtcGetCUBIN, "cubin")),
            Target::Ptx(arch) => (arch, (api.nvrtcGetPTXSize, api.nvrtcGetPTX, "PTX")),
        };
        flags.push(format!("--gpu-architecture={arch}"));
        rtc.compile(&Unit { file, text, flags: &flags, image })
    }
}
