//! NVRTC, loaded at run time: the dozen entry points that compile a kernel.

use crate::library::{folders, tried};
use kernels_core::Reason;
use libloading::Library;
use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::OnceLock;

const NAMES: [&str; 4] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "nvrtc64_120_0.dll"];

type Program = *mut c_void;
type Strings = *const *const c_char;

macro_rules! entry_points {
    ($($name:ident: fn($($arg:ty),*)),* $(,)?) => {
        /// The library's entry points.
        #[allow(non_snake_case)]
        pub(crate) struct Nvrtc {
            $( $name: unsafe extern "C" fn($($arg),*) -> c_int, )*
            /// `(major, minor)`
            pub version: (i32, i32),
            /// Compute capabilities that it compiles for, ascending.
            pub archs: Vec<u32>,
            _library: Library,
        }

        #[allow(non_snake_case)]
        impl Nvrtc {
            fn resolve(library: Library) -> Result<Nvrtc, String> {
                $(
                    // SAFETY: the signature is NVRTC's since CUDA 11.2.
                    let $name = *unsafe { library.get::<unsafe extern "C" fn($($arg),*) -> c_int>(concat!(stringify!($name), "\0")) }
                        .map_err(|_| format!("NVRTC without {}", stringify!($name)))?;
                )*
                Ok(Nvrtc { $($name,)* version: (0, 0), archs: Vec::new(), _library: library })
            }
        }
    };
}
entry_points!(
    nvrtcVersion: fn(*mut c_int, *mut c_int),
    nvrtcGetNumSupportedArchs: fn(*mut c_int),
    nvrtcGetSupportedArchs: fn(*mut c_int),
    nvrtcCreateProgram: fn(*mut Program, *const c_char, *const c_char, c_int, Strings, Strings),
    nvrtcDestroyProgram: fn(*mut Program),
    nvrtcCompileProgram: fn(Program, c_int, Strings),
    nvrtcGetProgramLogSize: fn(Program, *mut usize),
    nvrtcGetProgramLog: fn(Program, *mut c_char),
    nvrtcGetCUBINSize: fn(Program, *mut usize),
    nvrtcGetCUBIN: fn(Program, *mut c_char),
    nvrtcGetPTXSize: fn(Program, *mut usize),
    nvrtcGetPTX: fn(Program, *mut c_char),
);

/// The library, loaded once.
///
/// # Errors
/// Why there is none.
pub(crate) fn nvrtc() -> Result<&'static Nvrtc, Reason> {
    static LOADED: OnceLock<Result<Nvrtc, Reason>> = OnceLock::new();
    LOADED.get_or_init(open).as_ref().map_err(Reason::clone)
}

fn open() -> Result<Nvrtc, Reason> {
    let folders = folders();
    let named = NAMES.iter().map(std::path::PathBuf::from);
    let placed = folders.iter().flat_map(|folder| NAMES.iter().map(move |name| folder.join(name)));
    for path in named.chain(placed) {
        // SAFETY: NVRTC's initialisers do no more than those of any library.
        if let Ok(library) = unsafe { Library::new(&path) } {
            return Nvrtc::resolve(library)
                .map(Nvrtc::described)
                .map_err(|have| Reason::DriverTooOld { have, need: "NVRTC 11.2".into() });
        }
    }
    Err(Reason::RuntimeMissing {
        library: "NVRTC (libnvrtc), which compiles the kernels,".into(),
        tried: tried(&NAMES[..3], &folders),
        fix: "install NVRTC (Debian and Ubuntu: libnvrtc12; Python: `pip install nvidia-cuda-nvrtc`) and add its folder \
              to LD_LIBRARY_PATH, or set KERNELS_CACHE_DIR to a folder with kernels compiled for this GPU"
            .into(),
    })
}

/// What a compilation gave.
pub(crate) enum Target {
    /// Code for exactly this architecture: `sm_90`.
    Cubin(String),
    /// An intermediate form that the driver finishes: `compute_90`.
    Ptx(String),
}

impl Nvrtc {
    fn described(mut self) -> Nvrtc {
        let mut count = 0;
        // SAFETY: each call writes the integers given; the list has the length that NVRTC said.
        unsafe {
            (self.nvrtcVersion)(&mut self.version.0, &mut self.version.1);
            (self.nvrtcGetNumSupportedArchs)(&mut count);
            let mut archs = vec![0; count.max(0) as usize];
            (self.nvrtcGetSupportedArchs)(archs.as_mut_ptr());
            self.archs = archs.into_iter().map(|a| a as u32).collect();
        }
        self.archs.sort_unstable();
        self
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
            let created = (self.nvrtcCreateProgram)(
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
            let compiled = (self.nvrtcCompileProgram)(program, flags.len() as c_int, flags.as_ptr());
            let log = self.output(program, self.nvrtcGetProgramLogSize, self.nvrtcGetProgramLog, "the log");
            let log = log.map(|l| String::from_utf8_lossy(&l).trim_end_matches(['\0', '\n']).to_string());
            let log = log.unwrap_or_default();
            let image = match (compiled, target) {
                (0, Target::Cubin(_)) => {
                    self.output(program, self.nvrtcGetCUBINSize, self.nvrtcGetCUBIN, "a cubin")
                }
                (0, Target::Ptx(_)) => self.output(program, self.nvrtcGetPTXSize, self.nvrtcGetPTX, "PTX"),
                _ if log.is_empty() => Err(format!("nvrtcCompileProgram answers {compiled}")),
                _ => Err(log.clone()),
            };
            (self.nvrtcDestroyProgram)(&mut program);
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
