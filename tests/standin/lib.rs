//! A GPU that is not there, for tests: one shared library that stands in for libcuda, NVRTC and cuBLASLt. "Compiling" runs the host's
//! C++ compiler over the very source that the program hands to NVRTC, "launching" runs it in a SIMT emulation (see
//! `emulator/`). It is built when it is first asked for, by `g++`.
//!
//! A library path is read when a process starts, so what runs on the stand-in is a process of its own:
//! [`StandIn::command`], or for a test [`StandIn::test`].

use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCES: &[(&str, &str)] = &[
    ("pk_emu.h", include_str!("emulator/pk_emu.h")),
    ("engine.h", include_str!("emulator/engine.h")),
    ("engine.cpp", include_str!("emulator/engine.cpp")),
    ("device.h", include_str!("emulator/device.h")),
    ("device.cpp", include_str!("emulator/device.cpp")),
    ("cuda.cpp", include_str!("emulator/cuda.cpp")),
    ("cublaslt.cpp", include_str!("emulator/cublaslt.cpp")),
];
const INSIDE: &str = "STANDIN_INSIDE";
const SANITIZER: &str = "-fsanitize=address -fno-omit-frame-pointer";

/// How a process sees the stand-in.
#[derive(Clone, Debug)]
pub struct StandIn {
    settings: Vec<(String, String)>,
    nvrtc: Nvrtc,
    driver: bool,
    cublaslt: bool,
    sanitized: bool,
    cache: Option<PathBuf>,
}

#[derive(Clone, Debug)]
enum Nvrtc {
    StandIn,
    Real(PathBuf),
    Missing,
}

impl Default for StandIn {
    fn default() -> StandIn {
        StandIn::new()
    }
}

impl StandIn {
    /// One device of compute capability 8.0, with a compiler, and a cache of compiled kernels that runs share.
    pub fn new() -> StandIn {
        StandIn {
            settings: Vec::new(),
            nvrtc: Nvrtc::StandIn,
            driver: true,
            cublaslt: true,
            sanitized: false,
            cache: None,
        }
    }

    /// Sets one of the variables of `emulator/device.h`, without its prefix: `set("SEED", 7)`.
    pub fn set(mut self, name: &str, value: impl ToString) -> StandIn {
        self.settings.push((format!("STANDIN_{name}"), value.to_string()));
        self
    }

    /// Sets any other variable.
    pub fn variable(mut self, name: &str, value: impl ToString) -> StandIn {
        self.settings.push((name.into(), value.to_string()));
        self
    }

    /// No compiler on the machine.
    pub fn without_nvrtc(mut self) -> StandIn {
        self.nvrtc = Nvrtc::Missing;
        self
    }

    /// No cuBLASLt on the machine.
    pub fn without_cublaslt(mut self) -> StandIn {
        self.cublaslt = false;
        self
    }

    /// No driver on the machine.
    pub fn without_driver(mut self) -> StandIn {
        self.driver = false;
        self
    }

    /// The real compiler, from its folder; what it makes does not run here.
    pub fn real_nvrtc(mut self, folder: PathBuf) -> StandIn {
        self.nvrtc = Nvrtc::Real(folder);
        self
    }

    /// Kernels under AddressSanitizer.
    pub fn sanitized(mut self) -> StandIn {
        self.sanitized = true;
        self
    }

    /// A cache of its own for compiled kernels.
    pub fn cache(mut self, folder: &Path) -> StandIn {
        self.cache = Some(folder.into());
        self
    }

    /// A command that runs on it.
    ///
    /// # Panics
    /// The stand-in cannot be built: there is no `g++`.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let built = build(self.sanitized);
        let mut folders = Vec::new();
        if self.driver {
            folders.push(built.join("driver"));
        }
        if self.cublaslt {
            folders.push(built.join("cublaslt"));
        }
        match &self.nvrtc {
            Nvrtc::StandIn => folders.push(built.join("nvrtc")),
            Nvrtc::Real(folder) => folders.push(folder.clone()),
            Nvrtc::Missing => {}
        }
        let mut command = Command::new(program);
        let cache = self.cache.clone().unwrap_or_else(|| built.join("cache"));
        command
            .env("LD_LIBRARY_PATH", std::env::join_paths(folders).unwrap_or_default())
            .env("KERNELS_CACHE_DIR", cache)
            .env_remove("CUDA_HOME")
            .env_remove("CUDA_PATH")
            .env_remove("VIRTUAL_ENV")
            .env_remove("CONDA_PREFIX");
        if self.sanitized {
            command
                .env("LD_PRELOAD", sanitizer())
                .env("STANDIN_CXXFLAGS", SANITIZER)
                // The process itself is not instrumented: what it leaks is not the kernels'.
                .env("ASAN_OPTIONS", "detect_leaks=0:detect_stack_use_after_return=0");
        }
        command.envs(self.settings.iter().map(|(k, v)| (k, v)));
        command
    }

    /// Runs the body of the test `name` of this test binary in a process on the stand-in. Returns whether this is that
    /// process; in the other one, the result is checked and there is nothing left to do.
    ///
    /// # Panics
    /// The test fails in there.
    pub fn test(&self, name: &str) -> bool {
        if std::env::var(INSIDE).as_deref() == Ok(name) {
            return true;
        }
        let me = std::env::current_exe().expect("a test binary has a path");
        let mut command = self.command(me);
        command.args([name, "--exact", "--nocapture", "--include-ignored", "--test-threads=1"]);
        let output = command.env(INSIDE, name).output().expect("a test binary starts");
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        println!("{text}");
        assert!(output.status.success(), "{name} on the stand-in: {}", output.status);
        assert!(text.contains("1 passed"), "{name} did not run on the stand-in");
        false
    }
}

/// Where the sanitizer's runtime is.
fn sanitizer() -> String {
    let output = Command::new("g++").arg("-print-file-name=libasan.so").output().expect("g++ runs");
    String::from_utf8_lossy(&output.stdout).trim().into()
}

/// The folder with the library in it, under the names that programs look for.
fn build(sanitized: bool) -> PathBuf {
    let mut hash = Sha256::new();
    SOURCES.iter().for_each(|(_, text)| hash.update(text));
    let hash: String = hash.finalize().iter().take(8).map(|b| format!("{b:02x}")).collect();
    let kind = if sanitized { "-sanitized" } else { "" };
    let folder = target().join(format!("stand-in-{hash}{kind}"));
    if folder.exists() {
        return folder;
    }
    // Made aside and moved: several tests may build it at once.
    let aside = tempfile::tempdir_in(target()).expect("the target folder can be written to");
    let headers = target().join(format!("stand-in-headers-{hash}"));
    for at in [aside.path(), &headers] {
        std::fs::create_dir_all(at).expect("a folder");
        for (name, text) in SOURCES {
            std::fs::write(at.join(name), text).expect("a source");
        }
    }
    let mut compiler = Command::new("g++");
    compiler.args(["-std=c++17", "-O2", "-fPIC", "-shared", "-pthread"]).current_dir(aside.path());
    if sanitized {
        compiler.args(SANITIZER.split(' '));
    }
    compiler.arg(format!("-DEMU_HEADERS=\"{}\"", headers.display()));
    let output =
        compiler.args(["engine.cpp", "device.cpp", "cuda.cpp", "cublaslt.cpp", "-o", "stand-in.so"]).output();
    let output = output.expect("the stand-in needs g++ (Debian: apt install g++)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (part, name) in
        [("driver", "libcuda.so.1"), ("nvrtc", "libnvrtc.so.12"), ("cublaslt", "libcublasLt.so.12")]
    {
        std::fs::create_dir(aside.path().join(part)).expect("a folder");
        // One file under both names, so that a process loads it once.
        std::fs::hard_link(aside.path().join("stand-in.so"), aside.path().join(part).join(name))
            .expect("a link");
    }
    if std::fs::rename(aside.path(), &folder).is_ok() {
        let _ = aside.keep();
    }
    assert!(folder.exists(), "{} could not be made", folder.display());
    folder
}

/// The build folder that this binary lies in.
fn target() -> PathBuf {
    let me = std::env::current_exe().expect("a binary has a path");
    let folder = me.ancestors().find(|a| a.join("deps").is_dir() || a.ends_with("deps"));
    folder.unwrap_or(&std::env::temp_dir()).to_path_buf()
}
