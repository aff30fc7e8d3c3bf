//! NVRTC, loaded at run time: the dozen entry points that compile a kernel.

use crate::library::{entry_points, open};
use kernels_core::Reason;
use std::ffi::{CString, c_char, c_int, c_void};
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
        let api = Api::resolve(open("NVRTC (libnvrtc), which compiles the kernels,", &NAMES, fix)?);
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

    /// Compiles a source with its headers (name, text); gives the code, and the log.
    ///
    /// # Errors
    /// The log.
    pub fn compile(
        &self,
        (name, text): (&str, &str),
        headers: &[(&str, &str)],
        flags: &[String],
        target: &Target,
    ) -> Result<(Vec<u8>, String), String> {
        let string = |s: &str| CString::new(s).map_err(|_| format!("{s:?} holds a zero byte"));
        let (Target::Cubin(arch) | Target::Ptx(arch)) = target;
        let (name, text) = (string(name)?, string(text)?);
        let names: Vec<_> = headers.iter().map(|h| string(h.0)).collect::<Result<_, _>>()?;
        let texts: Vec<_> = headers.iter().map(|h| string(h.1)).collect::<Result<_, _>>()?;
        let arch = format!("--gpu-architecture={arch}");
        let flags: Vec<_> = flags.iter().chain([&arch]).map(|f| string(f)).collect::<Result<_, _>>()?;
        let pointers = |all: &[CString]| all.iter().map(|s| s.as_ptr()).collect::<Vec<_>>();
        let (names, texts, flags) = (pointers(&names), pointers(&texts), pointers(&flags));
        let mut program = std::ptr::null_mut();
        // SAFETY: every string lives until the program is destroyed; lists have the lengths given.
        unsafe {
            let count = headers.len() as c_int;
            let created = (self.api.nvrtcCreateProgram)(
                &mut program,
                text.as_ptr(),
                name.as_ptr(),
                count,
                texts.as_ptr(),
                names.as_ptr(),
            );
            if created != 0 {
                return Err(format!("nvrtcCreateProgram answers {created}"));
            }
            let compiled = (self.api.nvrtcCompileProgram)(program, flags.len() as c_int, flags.as_ptr());
            let log =
                self.output(program, self.api.nvrtcGetProgramLogSize, self.api.nvrtcGetProgramLog, "the log");
            let log = log.map(|l| String::from_utf8_lossy(&l).trim_end_matches(['\0', '\n']).to_string());
            let log = log.unwrap_or_default();
            let image = match (compiled, target) {
                (0, Target::Cubin(_)) => {
                    self.output(program, self.api.nvrtcGetCUBINSize, self.api.nvrtcGetCUBIN, "a cubin")
                }
                (0, Target::Ptx(_)) => {
                    self.output(program, self.api.nvrtcGetPTXSize, self.api.nvrtcGetPTX, "PTX")
                }
                _ if log.is_empty() => Err(format!("nvrtcCompileProgram answers {compiled}")),
                _ => Err(log.clone()),
            };
            (self.api.nvrtcDestroyProgram)(&mut program);
            image.map(|image| (image, log))
        }
    }

    /// # Safety
    /// The program is live, and the two functions are a size and the matching read.
    unsafe fn output(
        &self,
        program: Program,
        size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
        read: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
        what: &str,
    ) -> Result<Vec<u8>, String> {
        let mut bytes = 0;
        // SAFETY: the buffer has the size that NVRTC asked for.
        unsafe {
            if size(program, &mut bytes) != 0 || bytes == 0 {
                return Err(format!("NVRTC compiled, and gives no {what}"));
            }
            let mut out = vec![0u8; bytes];
            match read(program, out.as_mut_ptr().cast()) {
                0 => Ok(out),
                code => Err(format!("NVRTC answers {code} when asked for {what}")),
            }
        }
    }
}
